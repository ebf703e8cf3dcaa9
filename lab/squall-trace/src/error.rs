//! What is wrong with a file, and where.

/// Why a file cannot be read as a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A mistake in it.
    #[error("{place}: {problem}")]
    Mistake {
        /// The file, and its line and its column if the mistake has them: `drive.csv:7: rtt_ms`.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// What was asked for does not suit the format or the file.
    #[error("{0}")]
    Request(String),
}

impl TraceError {
    /// Of a file as a whole.
    pub fn file(file: &str, problem: impl Into<String>) -> Self {
        Self::Mistake { place: file.to_owned(), problem: problem.into() }
    }

    /// Of a line, counted from 1.
    pub(crate) fn line(file: &str, line: u64, problem: impl Into<String>) -> Self {
        Self::file(&format!("{file}:{line}"), problem)
    }

    /// Of a cell of a table.
    pub(crate) fn cell(file: &str, line: u64, column: &str, problem: impl Into<String>) -> Self {
        Self::file(&format!("{file}:{line}: {column}"), problem)
    }
}

/// Why there is no such recording, or no such form of it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecordingError {
    /// A row does not fit.
    #[error("row {row}: {problem}")]
    Row {
        /// Which one, counted from 1.
        row: usize,
        /// What is wrong.
        problem: String,
    },
    /// There are no rows.
    #[error("there are no rows")]
    NoRows,
    /// There are more than [`MAX_ROWS`](crate::MAX_ROWS).
    #[error("there are more than {} rows", crate::MAX_ROWS)]
    TooManyRows,
    /// The part would begin after the end.
    #[error("it has {duration} s, so that nothing is left after {start} s")]
    After {
        /// How long the recording is, in seconds.
        duration: f64,
        /// Where the part begins, in seconds.
        start: f64,
    },
    /// The part would have more rows or opportunities than a recording may have.
    #[error("{0} s of it are too much")]
    TooLong(f64),
    /// It has no rate.
    #[error("there is no rate in it")]
    NoRate,
    /// It is too slow, or too short, for a single packet.
    #[error("the link never carries a packet of {} bytes", crate::PACKET)]
    Never,
    /// It would have more than [`MAX_OPPORTUNITIES`](crate::MAX_OPPORTUNITIES).
    #[error(
        "there would be {count} lines, and at most {} are made; take a part, or scale it",
        crate::MAX_OPPORTUNITIES
    )]
    TooManyOpportunities {
        /// How many there would be.
        count: u128,
    },
    /// An opportunity does not fit.
    #[error("line {line}: {problem}")]
    Opportunity {
        /// Which line of a file it would be, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}
