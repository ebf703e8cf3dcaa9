//! Files that are whole as soon as they have their name.

use std::{
    io::{self, Write as _},
    path::Path,
};

use tempfile::NamedTempFile;

/// A file with this content, of a name that did not exist, beside the one that it will be. Only its owner may read it. It is removed
/// when it is dropped.
pub(crate) fn part_of(file: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut part = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    part.write_all(content)?;
    Ok(part)
}
