//! A running `ffmpeg`.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use super::error::StudioError;

/// Maximum length of a message's line that is read, in bytes.
const MAX_LINE: u64 = 4096;

/// The running program, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    doing: &'static str,
    /// Reads the messages of the program, which would block otherwise, and keeps the first error.
    listener: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts ffmpeg with its output on a pipe, and its input if `fed`. Each line of its messages
    /// that `parse` accepts is sent to the receiver; the first other one is the error message on
    /// failure.
    pub(super) fn start<T: Send + 'static>(
        program: &OsStr,
        args: &[OsString],
        doing: &'static str,
        fed: bool,
        parse: fn(&str) -> Option<T>,
    ) -> Result<(Self, Receiver<T>), StudioError> {
        let mut command = Command::new(program);
        command.args(["-nostdin", "-hide_banner", "-v", "error", "-protocol_whitelist", "file,pipe"]);
        command.args(args).stdin(if fed { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C on the terminal is for the parent, which ends the program.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|source| cannot_start(program, source))?;
        let mut lines = BufReader::new(child.stderr.take().expect("it is a pipe, and taken once"));
        let (sender, receiver) = channel();
        let listener = Some(std::thread::spawn(move || {
            let (mut first, mut line) = (Vec::new(), Vec::new());
            while lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line);
                match parse(&text) {
                    // The receiver may have been dropped after enough lines.
                    Some(one) => drop(sender.send(one)),
                    None if first.is_empty() && !text.starts_with('#') => first = line.clone(),
                    None => {}
                }
                line.clear();
            }
            complaint(&first)
        }));
        Ok((Self { child, doing, listener }, receiver))
    }

    pub(super) fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("it is a pipe, and taken once")
    }

    pub(super) fn output(&mut self) -> BufReader<ChildStdout> {
        let output = self.child.stdout.take().expect("it is a pipe, and taken once");
        BufReader::with_capacity(1 << 16, output)
    }

    /// Waits for the end of the program, after its output has ended.
    pub(super) fn finish(mut self) -> Result<(), StudioError> {
        let doing = self.doing;
        let status = self.child.wait().map_err(StudioError::io(doing))?;
        let said = self.listener.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        if status.success() {
            return Ok(());
        }
        Err(StudioError::failed(doing, if said.is_empty() { status.to_string() } else { said }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when the program has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Arguments without spaces in them.
pub(super) fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(Into::into).collect()
}

/// Returns the path as ffmpeg's URL of a local file, so that no path is mistaken for an option or
/// an address.
pub(super) fn as_url(path: &Path) -> OsString {
    let mut url = OsString::from("file:");
    url.push(path);
    url
}

/// Returns the first line of a message, without the prefix of the component (`[mov @ 0x55d0] `) or
/// the file (`file:name: `).
pub(super) fn complaint(message: &[u8]) -> String {
    let message = String::from_utf8_lossy(message);
    let line = message.lines().next().unwrap_or_default().trim();
    let line = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(line, |(_, text)| text);
    let named = line.strip_prefix("file:").and_then(|rest| rest.rsplit_once(": "));
    named.map_or(line, |(_, text)| text).to_owned()
}

/// Reads until all parts are full; returns `false` if the input ends before the first part.
pub(super) fn read_whole(from: &mut impl Read, to: &mut [&mut [u8]]) -> io::Result<bool> {
    for (index, part) in to.iter_mut().enumerate() {
        match from.read_exact(part) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && index == 0 => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

pub(super) fn cannot_start(program: &OsStr, source: io::Error) -> StudioError {
    match source.kind() {
        io::ErrorKind::NotFound => StudioError::Missing { program: program.to_owned() },
        _ => StudioError::Io { doing: "could not be started", source },
    }
}

/// Runs a program without input until it ends.
pub(super) fn output(
    program: &OsStr,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<Output, StudioError> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    output.map_err(|source| cannot_start(program, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_reduced_to_what_matters() {
        let message = b"[mov,mp4 @ 0x55d0] moov atom not found\nfile:x: bad";
        assert_eq!(complaint(message), "moov atom not found");
        assert_eq!(complaint(b"file:a: b.mp4: Invalid data"), "Invalid data");
        assert_eq!(complaint(b"something else: failed"), "something else: failed");
    }
}
