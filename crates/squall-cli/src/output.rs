//! Where a command's answers go: standard output, or a file.

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
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

/// Text for standard output with the word FAIL at the beginning of a line in red, where a terminal shows it and NO_COLOR
/// is not set.
pub(crate) fn coloured(text: String) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if plain || !io::stdout().is_terminal() {
        return text;
    }
    text.replace("\nFAIL ", "\n\x1b[31mFAIL\x1b[0m ")
}

/// Whether this is standard output, written `-`.
pub(crate) fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

/// Writes a file and makes its folder, or to standard output. The file is written beside its place and put
/// there when it is whole: what was there before stays until then.
///
/// # Errors
/// Names the file and what the system says.
pub(crate) fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    if is_stdout(file) {
        return print(text);
    }
    make_folder_of(file)?;
    write_whole(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    // Where a link leads to, if it does; the link stays.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    // Nothing can take the place of a device or a pipe.
    if fs::metadata(&file).is_ok_and(|there| !there.is_file()) {
        return fs::write(&file, text);
    }
    let mut part = file.clone().into_os_string();
    part.push(".part");
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &file));
    if written.is_err() {
        // What is wrong is known; there may be nothing to remove.
        let _ = fs::remove_file(&part);
    }
    written
}

/// Makes the folder that a file is to be in.
///
/// # Errors
/// Names the folder and what the system says.
pub(crate) fn make_folder_of(file: &Path) -> anyhow::Result<()> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))
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
