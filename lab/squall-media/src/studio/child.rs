//! A running `ffmpeg`.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use super::StudioError;
use crate::ffmpeg::first_complaint;

/// The program, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    doing: &'static str,
    /// Reads what the program says: if nobody did, it would block.
    listener: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts ffmpeg with its output on a pipe, and its input if `fed`.
    pub(super) fn start(
        program: &OsStr,
        args: &[OsString],
        doing: &'static str,
        fed: bool,
    ) -> Result<Self, StudioError> {
        Self::start_in(Path::new(""), program, args, doing, fed)
    }

    /// The same in a folder; in that where we are if it is empty.
    pub(super) fn start_in(
        folder: &Path,
        program: &OsStr,
        args: &[OsString],
        doing: &'static str,
        fed: bool,
    ) -> Result<Self, StudioError> {
        let mut command = Command::new(program);
        if folder != Path::new("") {
            command.current_dir(folder);
        }
        command.args(["-nostdin", "-hide_banner", "-v", "error", "-protocol_whitelist", "file,pipe"]);
        command.args(args).stdin(if fed { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C on the terminal is for whoever started it, who ends it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(|source| cannot_start(program, source))?;
        Ok(Self { child, doing, listener: None })
    }

    pub(super) fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("it is a pipe, and taken once")
    }

    pub(super) fn output(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("it is a pipe, and taken once")
    }

    /// Keeps the first complaint for [`Self::finish`].
    pub(super) fn listen(&mut self) {
        let stderr = self.child.stderr.take().expect("it is a pipe, and taken once");
        self.listener = Some(std::thread::spawn(move || first_complaint(stderr)));
    }

    /// The same, and gives what the program tells of its pictures or frames, as `parse` finds it in lines of its own.
    pub(super) fn told<T: Send + 'static>(&mut self, parse: fn(&str) -> Option<T>) -> Receiver<T> {
        let stderr = self.child.stderr.take().expect("it is a pipe, and taken once");
        let (told, teller) = channel();
        self.listener = Some(std::thread::spawn(move || {
            let mut complaints = Vec::new();
            let mut lines = BufReader::new(stderr);
            let mut line = Vec::new();
            while lines.by_ref().take(4096).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line);
                match parse(&text) {
                    // Nobody listens once there are enough.
                    Some(one) => drop(told.send(one)),
                    None if complaints.is_empty() && !text.starts_with('#') => complaints = line.clone(),
                    None => {}
                }
                line.clear();
            }
            first_complaint(&complaints[..])
        }));
        teller
    }

    /// Waits for its end, after its output has ended.
    pub(super) fn finish(mut self) -> Result<(), StudioError> {
        let doing = self.doing;
        let status = self.child.wait().map_err(StudioError::io(doing))?;
        let said = self.listener.take().map(|thread| thread.join().unwrap_or_default()).unwrap_or_default();
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

/// Reads until `to` is full; returns whether it could. The end between two pictures is none of an error.
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
