//! Files that appear under their name only when complete.

use std::{
    io::{self, Write as _},
    path::Path,
};

use tempfile::NamedTempFile;

/// Creates a temporary file with this content and a new name, in the folder of `file`. Only its
/// owner can read it. It is removed when dropped.
pub(crate) fn part_of(file: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut part = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    part.write_all(content)?;
    Ok(part)
}
