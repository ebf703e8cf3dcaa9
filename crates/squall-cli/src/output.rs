//! Where a command's answers go: standard output, or a file.

use std::{
    io::{self, Write as _},
    path::Path,
};

use anyhow::Context as _;

/// Writes to standard output.
///
/// # Errors
/// If it is closed; see [`is_broken_pipe`].
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Whether this is standard output, written `-`.
pub(crate) fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

/// Writes a file and makes its folder, or to standard output.
///
/// # Errors
/// Names the file and what the system says.
pub(crate) fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    if is_stdout(file) {
        return print(text);
    }
    make_folder_of(file)?;
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Makes the folder that a file is to be in.
///
/// # Errors
/// Names the folder and what the system says.
pub(crate) fn make_folder_of(file: &Path) -> anyhow::Result<()> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))
}

/// Whether the reader of our output has gone, such as `head`: no failure of ours.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io.into_iter().any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// The error with its causes, in one line.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let words = format!("{error:#}");
    words.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_take_one_line() {
        let error = anyhow::anyhow!("first\n  second").context("outer");
        assert_eq!(one_line(&error), "outer: first, second");
        assert!(!is_broken_pipe(&error));
        let pipe = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("standard output");
        assert!(is_broken_pipe(&pipe));
    }
}
