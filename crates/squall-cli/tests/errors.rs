//! Errors before anything is sent: one line, and an exit code that separates usage errors (2) from
//! all others (1).

mod common;

use std::net::UdpSocket;

use common::{Receiver, Scratch, failure, run};
use squall_testkit::foreign;

fn line(text: &str) -> (String, Option<i32>) {
    (format!("squall: {text}"), Some(1))
}

#[test]
fn strangers_are_not_trusted() {
    let scratch = Scratch::new("trust");
    let file = scratch.write("in", b"secret");
    let pem = scratch.path("b.pem").display().to_string();
    let other = Receiver::start(&scratch.path("other"), &["--identity", &pem, "--name", "elsewhere"]);
    let receiver = Receiver::start(&scratch.path("out"), &[]);
    let to = receiver.addr.to_string();
    let send = |trust: &[&str]| {
        let file = file.to_str().expect("is text");
        failure(&run([&["send", file, "--to", &to], trust].concat()))
    };
    assert_eq!(
        send(&["--pin", &other.fingerprint]),
        line("the certificate of 127.0.0.1 is not the pinned one: compare the fingerprint with the server's")
    );
    let untrusted = "the certificate of 127.0.0.1 is not trusted (signed by an unknown authority): give its \
                     CA, or pin its fingerprint";
    assert_eq!(send(&[]), line(untrusted));
    assert_eq!(send(&["--ca", &pem]), line(untrusted));
    assert!(!scratch.path("out").exists());
}

#[test]
fn servers_of_other_protocols_are_recognised() {
    let server = foreign::Server::start();
    let scratch = Scratch::new("alpn");
    let file = scratch.write("in", b"hello");
    let to = server.addr.to_string();
    let output = run(["send", file.to_str().expect("is text"), "--insecure", "--to", &to]);
    let expected = "the server does not speak squall/1: check the port, or update one of the two";
    assert_eq!(failure(&output), line(expected));
}

#[test]
fn who_does_not_answer_is_named() {
    // A bound socket that never answers.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let to = socket.local_addr().expect("is bound").to_string();
    let scratch = Scratch::new("silent");
    let file = scratch.write("in", b"hello");
    let file = file.to_str().expect("is text");
    let output = run(["send", file, "--insecure", "--to", &to, "--timeout", "500ms"]);
    let expected = format!("no answer from {to} within 500ms: check the address, the port and the firewall");
    assert_eq!(failure(&output), line(&expected));
    let (said, code) = failure(&run(["send", file, "--insecure", "--to", "nowhere.invalid:1"]));
    assert_eq!(code, Some(1));
    assert!(said.starts_with("squall: cannot resolve 'nowhere.invalid:1': "), "{said}");
    assert!(!said.contains('\n') && said.matches("lookup").count() < 2, "{said}");
}

#[test]
fn files_and_ports_that_cannot_be_had_are_named() {
    let scratch = Scratch::new("files");
    let missing = scratch.path("missing").display().to_string();
    let text = scratch.write("text", b"hello").display().to_string();
    let send = |more: &[&str]| failure(&run([&["send", "--to", "127.0.0.1:1"], more].concat()));
    let no_file = "no such file or directory";
    let mistake = |text: String| (format!("squall: {text}"), Some(2));
    assert_eq!(send(&[&missing, "--insecure"]), mistake(format!("cannot read {missing}: {no_file}")));
    assert_eq!(send(&[&text, "--ca", &missing]), mistake(format!("{missing}: {no_file}")));
    assert_eq!(send(&[&text, "--ca", &text]), mistake(format!("{text}: holds no certificate in PEM form")));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let busy = socket.local_addr().expect("is bound").to_string();
    let recv = |listen: &str, more: &[&str]| failure(&run([&["recv", "--listen", listen], more].concat()));
    assert_eq!(recv(&busy, &[]), line(&format!("cannot listen on {busy}: address in use")));
    let nowhere = scratch.path("no/file").display().to_string();
    assert_eq!(
        recv("127.0.0.1:0", &["--out", &nowhere]),
        line(&format!("cannot write {}: {no_file}", scratch.path("no").display()))
    );
}

#[test]
fn mistakes_in_the_call_have_a_code_of_their_own() {
    let calls: [&[&str]; 6] = [
        &[],
        &["send"],
        &["send", "x", "--to", "127.0.0.1"],
        &["send", "x", "--to", "127.0.0.1:1", "--pin", "abc"],
        &["send", "x", "--to", "127.0.0.1:1", "--scheduler", "fastest"],
        &["recv", "--listen", "here"],
    ];
    for call in calls {
        let (said, code) = failure(&run(call));
        assert_eq!(code, Some(2), "{call:?}: {said}");
        assert!(!said.is_empty(), "{call:?} says nothing");
    }
}

/// Runs the program on a machine without IPv6, until it ends by itself or has run for two seconds;
/// returns its output and code.
#[cfg(target_os = "linux")]
fn without_ipv6(args: &[&str]) -> Option<(String, Option<i32>)> {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/without_ipv6.py");
    let mut command = std::process::Command::new("timeout");
    command.args(["--signal=TERM", "2", "python3"]).arg(script).arg(env!("CARGO_BIN_EXE_squall")).args(args);
    let output = match command.env_remove("SQUALL_TOKEN").output() {
        Ok(output) if matches!(output.status.code(), Some(77 | 127)) => {
            squall_testkit::skipped("python3, or its filter of system calls, is missing");
            return None;
        }
        Ok(output) => output,
        Err(error) => {
            squall_testkit::skipped(&format!("there is no timeout (coreutils): {error}"));
            return None;
        }
    };
    Some((String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code()))
}

#[cfg(target_os = "linux")]
#[test]
fn all_addresses_of_a_machine_without_ipv6_are_those_of_ipv4() {
    let free = squall_testkit::reserve_port();
    let flow = format!("cam=udp://[::]:{free}");
    let all = ["tunnel", "--listen", "[::]:0", "--in", &flow, "--metrics", "[::]:0"];
    let Some((said, code)) = without_ipv6(&all) else { return };
    assert_eq!(code, Some(124), "it runs until it is ended: {said}");
    for words in [
        "listening on 0.0.0.0:".to_owned(),
        "metrics on http://0.0.0.0:".to_owned(),
        format!("[::]:{free}: this machine has no IPv6; datagrams enter at 0.0.0.0:{free}"),
        "this machine has no IPv6: listening on 0.0.0.0:0 instead of [::]:0".to_owned(),
    ] {
        assert!(said.contains(&words), "{words} in {said}");
    }
    let refused = |args: &[&str]| without_ipv6(&[&["tunnel"], args].concat());
    let flow = ["--listen", "0.0.0.0:0", "--in", "cam=udp://[::1]:5000"];
    let expected = "flow 'cam': in udp://[::1]:5000: this machine has no IPv6: write an IPv4 address";
    assert_eq!(refused(&flow), Some((format!("squall: {expected}\n"), Some(1))));
    let exit = ["--listen", "[::1]:4433", "--out", "cam=udp://127.0.0.1:6000"];
    let expected = "cannot listen on [::1]:4433: this machine does not have this version of IP: use an address of \
                    the other one";
    assert_eq!(refused(&exit), Some((format!("squall: {expected}\n"), Some(1))));
}
