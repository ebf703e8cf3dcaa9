//! Where a command's answers go: standard output, or a file.

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::Path,
};

use anyhow::Context as _;
use tempfile::NamedTempFile;

use crate::lines;

/// Writes to standard output.
///
/// # Errors
/// If it is closed; see [`is_broken_pipe`].
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Writes to standard error. What cannot be written is lost: the work goes on without it. Does not wait for a reader once
/// [`lines::start`] was called.
pub fn on_stderr(text: &str) {
    if !lines::queue(text.as_bytes()) {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// Text for standard output with the word FAIL at the beginning of a line in red, where a terminal shows it and NO_COLOR
/// is not set.
pub fn coloured(text: String) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if plain || !io::stdout().is_terminal() {
        return text;
    }
    text.replace("\nFAIL ", "\n\x1b[31mFAIL\x1b[0m ")
}

/// Whether this is standard output, written `-`.
pub fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

/// Writes a file and makes its folder, or to standard output. The file is written beside its place and put
/// there when it is whole: what was there before stays until then.
///
/// # Errors
/// Names the file and what the system says.
pub fn write(file: &Path, text: &str) -> anyhow::Result<()> {
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
    let mut part = part_of(&file)?;
    part.write_all(text.as_bytes())?;
    part.persist(&file).map(drop).map_err(|error| error.error)
}

/// A file of a name that did not exist, beside the one it will be, with the mode of any new file. It is removed when it
/// is dropped.
pub fn part_of(file: &Path) -> io::Result<NamedTempFile> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut prefix = String::new();
    for letter in name.chars().take_while(|letter| !letter.is_control()) {
        if prefix.len() + letter.len_utf8() > PART_NAME {
            break;
        }
        prefix.push(letter);
    }
    prefix.push('.');
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    builder.tempfile_in(folder.unwrap_or(Path::new(".")))
}

/// Bytes of a file's name that its part bears too.
const PART_NAME: usize = 64;

/// Makes the folder that a file is to be in.
///
/// # Errors
/// Names the folder and what the system says.
pub fn make_folder_of(file: &Path) -> anyhow::Result<()> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))
}

/// Whether the reader of our output has gone, such as `head`: no failure of ours.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io.into_iter().any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// The error with its causes, in one line.
pub fn one_line(error: &anyhow::Error) -> String {
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
