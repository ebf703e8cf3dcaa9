//! Errors in files, with their positions.

/// Error while reading a file as a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The file has an error.
    #[error("{place}: {problem}")]
    Mistake {
        /// The file, and its line and its column if the mistake has them: `drive.csv:7: rtt_ms`.
        place: String,
        /// Description of the error.
        problem: String,
    },
    /// The request does not suit the format or the file.
    #[error("{0}")]
    Request(String),
}

impl TraceError {
    /// Creates an error for a file as a whole.
    pub fn file(file: &str, problem: impl Into<String>) -> Self {
        Self::Mistake { place: file.to_owned(), problem: problem.into() }
    }

    /// Creates an error for a line, counted from 1.
    pub(crate) fn line(file: &str, line: u64, problem: impl Into<String>) -> Self {
        Self::file(&format!("{file}:{line}"), problem)
    }

    /// Creates an error for a cell of a table.
    pub(crate) fn cell(file: &str, line: u64, column: &str, problem: impl Into<String>) -> Self {
        Self::file(&format!("{file}:{line}: {column}"), problem)
    }
}

/// Error in a recording, or in its conversion.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecordingError {
    /// A row is invalid.
    #[error("row {row}: {problem}")]
    Row {
        /// Number of the row, counted from 1.
        row: usize,
        /// Description of the error.
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
        /// Length of the recording, in seconds.
        duration: f64,
        /// Start of the part, in seconds.
        start: f64,
    },
    /// The part would have more rows or opportunities than a recording may have.
    #[error("{0} s of it are too much")]
    TooLong(f64),
    /// It has no rate.
    #[error("there is no rate in it")]
    NoRate,
    /// The link is too slow, or the recording too short, for a single packet.
    #[error("the link never carries a packet of {} bytes", crate::PACKET)]
    Never,
    /// It would have more than [`MAX_OPPORTUNITIES`](crate::MAX_OPPORTUNITIES).
    #[error(
        "there would be {count} lines, and at most {} are made; take a part, or scale it",
        crate::MAX_OPPORTUNITIES
    )]
    TooManyOpportunities {
        /// Number of opportunities.
        count: u128,
    },
    /// An opportunity is invalid.
    #[error("line {line}: {problem}")]
    Opportunity {
        /// Number of its line in a file, from 1.
        line: usize,
        /// Description of the error.
        problem: String,
    },
}
