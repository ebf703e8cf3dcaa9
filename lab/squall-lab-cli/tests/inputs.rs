//! Files without an end, and pipes without a writer.

#![cfg(unix)]

mod common;

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use common::{LAB, Scratch, ends_within, signal};

/// Timeout of a refusal, on a busy machine.
const REFUSAL: Duration = Duration::from_secs(60);

/// Timeout of the termination after a request, on a busy machine.
const END: Duration = Duration::from_secs(10);

/// Address space limit of a command in KiB: several times its largest input.
const MEMORY: u32 = 2 << 20;

/// Commands that read a file.
fn readers(file: &Path) -> Vec<Vec<String>> {
    let path = file.display();
    let commands = [
        format!("run {path}"),
        format!("report {path}"),
        format!("trace info {path}"),
        format!("signal info {path}"),
        #[cfg(target_os = "linux")]
        format!("shell --link trace:{path} -- true"),
    ];
    commands.iter().map(|command| command.split(' ').map(str::to_owned).collect()).collect()
}

/// Starts a command with bounded memory.
fn start(args: &[String]) -> Child {
    Command::new("/bin/sh")
        .args(["-c", &format!("ulimit -v {MEMORY} && exec \"$0\" \"$@\""), LAB])
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

#[test]
fn a_device_without_an_end_is_refused_in_one_line() {
    for args in readers(Path::new("/dev/zero")) {
        let mut child = start(&args);
        let code = ends_within(&mut child, REFUSAL);
        if code.is_none() {
            child.kill().expect("can be ended");
        }
        let output = child.wait_with_output().expect("has ended");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(code, Some(1 | 2)), "{args:?}: {code:?}, {said}");
        assert!(said.lines().count() == 1 && said.contains("more than"), "{args:?}: {said}");
    }
}

#[test]
fn a_command_that_waits_for_a_fifo_can_be_ended() {
    let scratch = Scratch::new("lab-fifo");
    let fifo = scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo is there").success());
    for args in readers(&fifo) {
        let mut child = start(&args);
        std::thread::sleep(Duration::from_millis(100));
        signal(&child, "TERM");
        let ended =
            ends_within(&mut child, END).is_some() || child.try_wait().expect("can be asked").is_some();
        if !ended {
            child.kill().expect("can be ended");
        }
        assert!(ended, "{args:?} does not end");
    }
}
