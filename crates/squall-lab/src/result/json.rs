//! Result records as JSON files: an array of runs.

use std::path::{Path, PathBuf};

use super::RunResult;

/// A result file that can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file can't be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It isn't a result file of this version.
    #[error("{name}:{}:{}: not a result file: {source}", source.line(), source.column())]
    Format {
        /// The file.
        name: String,
        /// What is wrong and where.
        source: serde_json::Error,
    },
}

/// The runs as JSON text: one run per line within an array, byte-identical for identical runs.
pub fn to_json(runs: &[RunResult]) -> String {
    let lines: Vec<_> = runs
        .iter()
        .map(|run| serde_json::to_string(run).expect("records have string keys and finite numbers"))
        .collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// Reads what [`to_json`] wrote; `name` is for the error.
///
/// # Errors
/// [`ReadError::Format`] names the line and column.
pub fn from_json(text: &str, name: &str) -> Result<Vec<RunResult>, ReadError> {
    serde_json::from_str(text).map_err(|source| ReadError::Format { name: name.to_owned(), source })
}

/// Writes a result file.
///
/// # Errors
/// What the system says.
pub fn write(runs: &[RunResult], path: &Path) -> std::io::Result<()> {
    std::fs::write(path, to_json(runs))
}

/// Reads a result file.
///
/// # Errors
/// [`ReadError`] names the file, and line and column of what is wrong in it.
pub fn read(path: &Path) -> Result<Vec<RunResult>, ReadError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    from_json(&text, &path.display().to_string())
}
