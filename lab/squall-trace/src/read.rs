//! CSV files of traces.

use std::path::Path;

use super::{
    Event, Quantity, Row, Tech, Trace,
    sheet::{Cells, Sheet},
};

/// The columns of a trace file. A file has a line with the names first; the order is free, and all but
/// `time_s` may be missing. A column of another name is refused: it could be one of these with a mistake in
/// its name, whose numbers would be missed without a word. So is an unknown event.
///
/// An empty cell means that nothing was measured, or nothing valid. Events are joined by `;`.
pub const COLUMNS: [&str; 10] = [
    "time_s",
    "down_mbps",
    "up_mbps",
    "rtt_ms",
    "rsrp_dbm",
    "rsrq_db",
    "sinr_db",
    "rssi_dbm",
    "tech",
    "event",
];

const NUMBERS: [Quantity; 8] = [
    Quantity::Time,
    Quantity::Down,
    Quantity::Up,
    Quantity::Rtt,
    Quantity::Rsrp,
    Quantity::Rsrq,
    Quantity::Sinr,
    Quantity::Rssi,
];

/// Most bytes of a file that is read.
const MAX_BYTES: u64 = 256 << 20;

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The file as a whole.
    #[error("{file}: {problem}")]
    File {
        /// Its name.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A line.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The file's name.
        file: String,
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// A cell of a table.
    #[error("{file}:{line}: {column}: {problem}")]
    Cell {
        /// The file's name.
        file: String,
        /// The line's number, from 1.
        line: u64,
        /// The column's name.
        column: String,
        /// What is wrong.
        problem: String,
    },
}

impl TraceError {
    pub(super) fn file(file: &str, problem: impl Into<String>) -> Self {
        Self::File { file: file.to_owned(), problem: problem.into() }
    }

    pub(super) fn line(file: &str, line: u64, problem: impl Into<String>) -> Self {
        Self::Line { file: file.to_owned(), line, problem: problem.into() }
    }
}

impl Trace {
    /// Reads a trace file.
    ///
    /// # Errors
    /// As [`Self::parse`], and if the file cannot be read, is larger than 256 MiB, or is not UTF-8.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        Self::parse(&path.display().to_string(), &read_text(path)?)
    }

    /// Reads a trace from the text of a file; `file` is its name in errors.
    ///
    /// # Errors
    /// Names the line and the column of the first mistake.
    pub fn parse(file: &str, text: &str) -> Result<Self, TraceError> {
        let mut sheet = Sheet::with_commas(file, text)?;
        let plan = Plan::of(&sheet, file)?;
        let mut rows: Vec<Row> = Vec::new();
        while let Some(cells) = sheet.next()? {
            let row = plan.row(cells, rows.last())?;
            rows.push(row);
        }
        if rows.is_empty() {
            return Err(TraceError::file(file, "has no rows"));
        }
        Ok(Self { rows })
    }
}

/// The text of a file.
///
/// # Errors
/// If it cannot be read, is larger than 256 MiB, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, TraceError> {
    let file = path.display().to_string();
    let told = |error: std::io::Error| TraceError::file(&file, error.to_string());
    let bytes = squall_file::read(path, MAX_BYTES).map_err(told)?;
    String::from_utf8(bytes).map_err(|error| {
        let whole = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + whole.iter().filter(|&&byte| byte == b'\n').count() as u64;
        TraceError::line(&file, line, "is not UTF-8 text")
    })
}

/// Which column is where.
struct Plan {
    numbers: Vec<(Quantity, usize)>,
    tech: Option<usize>,
    event: Option<usize>,
    time: usize,
}

impl Plan {
    fn of(sheet: &Sheet<'_>, file: &str) -> Result<Self, TraceError> {
        for name in sheet.names() {
            if !COLUMNS.contains(&name.as_str()) {
                let known = COLUMNS.join(", ");
                let problem = format!("there is no column {name:?} in a trace; there are {known}");
                return Err(TraceError::line(file, 1, problem));
            }
        }
        let place = |quantity: &Quantity| sheet.column(quantity.name()).map(|column| (*quantity, column));
        Ok(Self {
            numbers: NUMBERS.iter().filter_map(place).collect(),
            tech: sheet.column("tech"),
            event: sheet.column("event"),
            time: sheet.need("time_s")?,
        })
    }

    fn row(&self, cells: Cells<'_>, before: Option<&Row>) -> Result<Row, TraceError> {
        let mut row = Row::default();
        cells.given(self.time)?;
        for &(quantity, column) in &self.numbers {
            if let Some(value) = cells.quantity(column, quantity, 1.0)? {
                row.set(quantity, value);
            }
        }
        row.check(before.map_or(0, |before| before.at))
            .map_err(|(_, problem)| cells.fault(self.time, problem))?;
        if let Some(column) = self.tech {
            row.tech = word(cells.text(column), before).map_err(|problem| cells.fault(column, problem))?;
        }
        if let Some(column) = self.event {
            let tokens = cells.text(column).split(';').filter(|_| !cells.text(column).is_empty());
            let events: Result<Vec<Event>, String> = tokens.map(|token| token.trim().parse()).collect();
            row.events = events.map_err(|problem| cells.fault(column, problem))?;
        }
        Ok(row)
    }
}

/// The word, shared with the row before if that has the same.
fn word(text: &str, before: Option<&Row>) -> Result<Tech, String> {
    match before.map(|before| &before.tech).filter(|tech| tech.word() == text) {
        Some(same) => Ok(same.clone()),
        None => Tech::new(text),
    }
}
