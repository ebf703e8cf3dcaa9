//! Stored runs of an experiment: JSON Lines, one line per run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Point;
use crate::file::FileError;
use crate::result::{MAX_FILE, RunResult};

/// A run and its place in the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the experiment.
    pub experiment: String,
    /// Point on the experiment's axes.
    pub point: Point,
    /// Key of everything that the result depends on: scenario, traces, scheduler, seed and program.
    /// Two runs with the same key have the same result.
    pub key: String,
    /// Result; time series and single blocks are left out.
    pub run: RunResult,
}

/// Errors of reading records.
#[derive(Debug, thiserror::Error)]
pub enum ReadRecordsError {
    /// The file can't be read.
    #[error(transparent)]
    Read(#[from] FileError),
    /// A line is not a record.
    #[error("{}:{line}: {source}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Parser error.
        source: serde_json::Error,
    },
}

/// Reads a file of records. An incomplete last line, as left by an interrupted program, is ignored.
///
/// # Errors
/// If the file cannot be read, or a line is not a record.
pub fn read_records(file: &Path) -> Result<Vec<Record>, ReadRecordsError> {
    parse_records(&squall_file::read_text(file, MAX_FILE).map_err(FileError::of(file))?, file)
}

/// Parses the text of a file, like [`read_records`].
///
/// # Errors
/// If a line is not a record.
pub fn parse_records(text: &str, file: &Path) -> Result<Vec<Record>, ReadRecordsError> {
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    text[..whole]
        .lines()
        .enumerate()
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|source| ReadRecordsError::Line {
                file: file.to_owned(),
                line: index + 1,
                source,
            })
        })
        .collect()
}

/// Formats a record as a line of text, with the line end.
///
/// # Panics
/// Never: all values of a record can be represented in JSON.
pub fn record_line(record: &Record) -> String {
    serde_json::to_string(record).expect("records are plain data") + "\n"
}
