//! Files that cannot be read or written.

use std::{io, path::Path, path::PathBuf};

/// The system refuses to open, read or write a file or folder.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct FileError {
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    /// Names the file of an error, for `map_err`.
    pub(crate) fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { path: path.to_owned(), source }
    }
}
