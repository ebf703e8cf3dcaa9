//! Files without an end, and files whose writer never comes.

#![cfg(unix)]

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use common::{Scratch, ends_within, signal};

/// Time limit of a refusal on a busy machine.
const REFUSAL: Duration = Duration::from_secs(60);

/// Time limit of the end after it was requested; extended on a busy machine.
const END: Duration = Duration::from_secs(10);

/// Address space limit of a command in KiB: several times its largest input.
const MEMORY: u32 = 2 << 20;

const CERTIFIED: &str = "token = \"a token for tests\"\n[listen]\naddress = \"127.0.0.1:0\"\n";
const FLOW: &str = "[[flow]]\nname = \"x\"\nout = \"udp://127.0.0.1:9\"\n";

/// Returns commands that read a file and must refuse one without an end.
fn readers(file: &Path, scratch: &Scratch) -> Vec<Vec<String>> {
    let path = file.display();
    let token = format!("token_file = \"{path}\"\n[listen]\naddress = \"127.0.0.1:0\"\n{FLOW}");
    let keys = format!("{CERTIFIED}certificate = \"{path}\"\nkey = \"{path}\"\n{FLOW}");
    let (token, keys) =
        (scratch.write("token.toml", token.as_bytes()), scratch.write("keys.toml", keys.as_bytes()));
    let to = "--to 127.0.0.1:9";
    let port = squall_testkit::reserve_port();
    let commands = [
        format!("signal watch --trace {path}"),
        format!("tunnel check {path}"),
        format!("tunnel {path}"),
        format!("tunnel check {}", token.display()),
        format!("tunnel check {}", keys.display()),
        format!("tunnel {to} --insecure --token-file {path} --in x=udp://127.0.0.1:9"),
        format!("tunnel {to} --token 0123456789ab --ca {path} --in x=udp://127.0.0.1:{port}"),
        format!("recv --listen 127.0.0.1:0 --identity {path}"),
        format!("send /dev/null {to} --ca {path}"),
    ];
    commands.iter().map(|command| command.split(' ').map(str::to_owned).collect()).collect()
}

/// Starts a command with bounded memory.
fn start(args: &[String]) -> Child {
    Command::new("/bin/sh")
        .args(["-c", &format!("ulimit -v {MEMORY} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_squall")])
        .args(args)
        .env_remove("SQUALL_TOKEN")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

/// Returns the standard error of a child that has ended.
fn said(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().expect("is piped").read_to_string(&mut text).expect("is text");
    text
}

#[test]
fn a_device_without_an_end_is_refused_in_one_line() {
    let scratch = Scratch::new("endless");
    for args in readers(Path::new("/dev/zero"), &scratch) {
        let mut child = start(&args);
        let code = ends_within(&mut child, REFUSAL);
        if code.is_none() {
            child.kill().expect("can be ended");
        }
        let said = said(&mut child);
        assert!(matches!(code, Some(1 | 2)), "{args:?}: {code:?}, {said}");
        assert!(said.lines().count() == 1 && said.contains("more than"), "{args:?}: {said}");
    }
}

#[test]
fn a_command_that_waits_for_a_fifo_can_be_ended() {
    let scratch = Scratch::new("fifo");
    let fifo = scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo is there").success());
    for args in readers(&fifo, &scratch) {
        let mut child = start(&args);
        std::thread::sleep(Duration::from_millis(100));
        signal(&child, "TERM");
        let ended = ends_within_at_all(&mut child, END);
        if !ended {
            child.kill().expect("can be ended");
        }
        assert!(ended, "{args:?} does not end");
    }
}

/// `true` if a process ends within this time, even by the signal.
fn ends_within_at_all(child: &mut Child, time: Duration) -> bool {
    ends_within(child, time).is_some() || child.try_wait().expect("can be asked").is_some()
}

#[test]
fn a_tunnel_that_reloads_a_token_from_a_fifo_can_be_ended() {
    let scratch = Scratch::new("reload");
    let secret = scratch.write("secret", b"a token for tests");
    let config = format!("token_file = \"secret\"\n[listen]\naddress = \"127.0.0.1:0\"\n{FLOW}");
    let config = scratch.write("tunnel.toml", config.as_bytes());
    let mut child = start(&["tunnel".to_owned(), config.display().to_string()]);
    let mut stderr = BufReader::new(child.stderr.take().expect("is piped"));
    let mut line = String::new();
    while !line.contains("listening on") {
        line.clear();
        assert!(stderr.read_line(&mut line).expect("is text") > 0, "it has ended");
    }
    fs::remove_file(&secret).expect("is removed");
    assert!(Command::new("mkfifo").arg(&secret).status().expect("mkfifo is there").success());
    signal(&child, "HUP");
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "TERM");
    let code = ends_within(&mut child, END);
    if code.is_none() {
        child.kill().expect("can be ended");
    }
    assert_eq!(code, Some(0));
}
