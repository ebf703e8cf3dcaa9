//! Output of commands: standard output, or a file.

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

/// Writes to standard error. If the text cannot be written, it is lost and the work continues. Does
/// not wait for a reader once [`lines::start`] was called.
pub fn on_stderr(text: &str) {
    if !lines::queue(text.as_bytes()) {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// Colours the word FAIL at the beginning of lines red, if standard output is a terminal and
/// NO_COLOR is not set.
pub fn coloured(text: String) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if plain || !io::stdout().is_terminal() {
        return text;
    }
    text.replace("\nFAIL ", "\n\x1b[31mFAIL\x1b[0m ")
}

/// `true` if the path means standard output, written `-`.
pub fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

/// Writes a file and creates its folder, or writes to standard output. The file is written under a
/// temporary name and moved when complete; an existing file stays until then.
///
/// # Errors
/// Names the file and the error of the system.
pub fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    if is_stdout(file) {
        return print(text);
    }
    make_folder_of(file)?;
    write_whole(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    // Writes to the target of a link; the link stays.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    // A device or a pipe cannot be replaced.
    if fs::metadata(&file).is_ok_and(|there| !there.is_file()) {
        return fs::write(&file, text);
    }
    let mut part = part_of(&file)?;
    part.write_all(text.as_bytes())?;
    part.persist(&file).map(drop).map_err(|error| error.error)
}

/// Creates a file with a new name in the folder of its destination, with the mode of any new file.
/// It is removed when dropped.
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

/// Number of bytes of a file's name that the temporary name repeats.
const PART_NAME: usize = 64;

/// Creates the folder of a file.
///
/// # Errors
/// Names the folder and the error of the system.
pub fn make_folder_of(file: &Path) -> anyhow::Result<()> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))
}

/// `true` if the reader of the output has ended, for instance `head`, which is not a failure of the
/// program.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io.into_iter().any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Formats the error with its causes in one line.
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
