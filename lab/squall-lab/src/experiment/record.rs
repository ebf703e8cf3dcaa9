//! One run of an experiment, as it is kept: JSON Lines, one for each run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Point;
use crate::file::FileError;
use crate::result::{MAX_FILE, RunResult};

/// A run and what it was a run of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the experiment.
    pub experiment: String,
    /// Where on its axes.
    pub point: Point,
    /// Stands for everything that the result depends on: scenario, traces, scheduler, seed and program. Two
    /// runs with the same key give the same result.
    pub key: String,
    /// What was measured; series over time and single blocks are left out.
    pub run: RunResult,
}

/// Records that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadRecordsError {
    /// The file can't be read.
    #[error(transparent)]
    Read(#[from] FileError),
    /// A line is no record.
    #[error("{}:{line}: {source}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// Reads a file of records. A last line that is cut off, as by a program that was stopped, is left out.
///
/// # Errors
/// The file, or the line of it that is no record.
pub fn read_records(file: &Path) -> Result<Vec<Record>, ReadRecordsError> {
    parse_records(&squall_file::read_text(file, MAX_FILE).map_err(FileError::of(file))?, file)
}

/// Reads the text of a file, as [`read_records`] does.
///
/// # Errors
/// The line that is no record.
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

/// A record as a line of text, with the end of the line.
///
/// # Panics
/// Never: records hold nothing that JSON lacks.
pub fn record_line(record: &Record) -> String {
    serde_json::to_string(record).expect("records are plain data") + "\n"
}
