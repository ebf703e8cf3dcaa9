//! Shared parts of the tests: the program, run as a user would.

#![allow(dead_code, unused_imports, reason = "every test file uses its own part")]

pub(crate) mod peer;

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Read as _},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio},
    time::Duration,
};

pub(crate) use squall_testkit::program::{Scratch, ends_within, failure, signal};

/// Returns a command for the program.
pub(crate) fn squall() -> Command {
    Command::new(env!("CARGO_BIN_EXE_squall"))
}

/// Runs the program to its end.
pub(crate) fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Output {
    squall().args(args).output().expect("the program starts")
}

/// A running `squall recv`.
pub(crate) struct Receiver {
    child: Child,
    stderr: BufReader<ChildStderr>,
    pub(crate) addr: SocketAddr,
    pub(crate) fingerprint: String,
}

impl Receiver {
    /// Starts a receiver for one transfer.
    pub(crate) fn start(out: &Path, more: &[&str]) -> Self {
        Self::service(out, &[&["--once"], more].concat())
    }

    /// Starts a receiver that runs until it is stopped.
    pub(crate) fn service(out: &Path, more: &[&str]) -> Self {
        Self::listen("127.0.0.1:0", out, more)
    }

    pub(crate) fn listen(address: &str, out: &Path, more: &[&str]) -> Self {
        let mut command = squall();
        command.args(["recv", "--listen", address, "--out"]).arg(out).args(more);
        Self::of(command)
    }

    /// Starts a receiver that runs until it is stopped, with files limited to this number of blocks
    /// of 512 or 1,024 bytes.
    #[cfg(unix)]
    pub(crate) fn limited(out: &Path, blocks: u32) -> Self {
        let mut command = Command::new("/bin/sh");
        let script = format!("trap '' XFSZ; ulimit -f {blocks} && exec \"$0\" \"$@\"");
        command.args([
            "-c",
            &script,
            env!("CARGO_BIN_EXE_squall"),
            "recv",
            "--listen",
            "127.0.0.1:0",
            "--out",
        ]);
        command.arg(out);
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        command.env_remove("SQUALL_TOKEN").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("is piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("it says where it listens");
        let rest = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("it said {line:?}"));
        let (addr, fingerprint) = rest.trim_end().split_once(", fingerprint ").expect("both are printed");
        let (mut addr, fingerprint): (SocketAddr, _) =
            (addr.parse().expect("is an address"), fingerprint.to_owned());
        if addr.ip().is_unspecified() {
            addr.set_ip([127, 0, 0, 1].into());
        }
        Self { child, stderr, addr, fingerprint }
    }

    /// Sends over two paths.
    pub(crate) fn send(&self, file: &Path, more: &[&str]) -> Output {
        let to = self.addr.to_string();
        let mut command = squall();
        command.arg("send").arg(file).args(["--to", &to, "--pin", &self.fingerprint]);
        command.args(["--interface", "127.0.0.2", "--interface", "127.0.0.3"]).args(more);
        command.output().expect("the program starts")
    }

    /// Returns the next line on standard error.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).expect("is text");
        line
    }

    /// Takes its standard output, before it ends.
    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("is piped")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Returns its exit code, if it ends within this time.
    pub(crate) fn ends_within(&mut self, time: Duration) -> Option<i32> {
        ends_within(&mut self.child, time)
    }

    /// Waits for its end; returns its code, standard output and standard error.
    pub(crate) fn finish(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().expect("is piped").read_to_string(&mut out).expect("is text");
        self.stderr.read_to_string(&mut err).expect("is text");
        (self.child.wait().expect("it ends").code(), out, err)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
