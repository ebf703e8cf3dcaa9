//! Errors of reading and writing files.

use std::{io, path::Path, path::PathBuf};

/// A file or folder cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct FileError {
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    /// Adds the file to an I/O error, for `map_err`.
    pub(crate) fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { path: path.to_owned(), source }
    }
}
