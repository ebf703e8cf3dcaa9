//! Files from `squall send` to `squall recv`, over two paths on loopback.

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use common::{Receiver, Scratch, squall};
use squall_testkit::pattern;

/// Sends and receives one file; both must succeed.
fn transfer(scratch: &Scratch, content: &[u8], more: &[&str]) -> (Vec<u8>, String, String) {
    let file = scratch.write("in", content);
    let receiver = Receiver::start(&scratch.path("out"), &[]);
    let sent = receiver.send(&file, more);
    assert_eq!(sent.status.code(), Some(0), "{}", String::from_utf8_lossy(&sent.stderr));
    let (code, printed, error) = receiver.finish();
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(scratch.parts().len(), 0, "the unfinished file is left");
    let came = fs::read(scratch.path("out")).expect("is there");
    (came, String::from_utf8_lossy(&sent.stdout).into_owned(), printed)
}

#[test]
fn a_file_arrives_as_it_was_sent() {
    let scratch = Scratch::new("file");
    let content = pattern(5_000_000, 1);
    let (came, sent, printed) = transfer(&scratch, &content, &[]);
    assert!(came == content, "the copy differs");
    assert!(sent.starts_with("sent in: 5.00 MB in "), "{sent}");
    assert!(sent.contains("blocks: 20 of 20 delivered\n"), "{sent}");
    assert!(sent.contains("path 127.0.0.2 -> 127.0.0.1:"), "{sent}");
    assert!(printed.starts_with("received in: 5.00 MB in "), "{printed}");
}

#[test]
fn an_interface_without_a_radio_is_reported_once_and_used() {
    let scratch = Scratch::new("radio");
    let receiver = Receiver::start(&scratch.path("out"), &[]);
    let to = receiver.addr.to_string();
    let mut sender = squall()
        .args(["send", "-", "--to", &to, "--pin", &receiver.fingerprint, "--interface", "lo", "--signal"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // Its input stays open until the radio has been looked up.
    let mut input = sender.stdin.take().expect("is piped");
    input.write_all(&pattern(100_000, 1)).expect("is taken");
    let (note, notes) = mpsc::channel();
    let lines = BufReader::new(sender.stderr.take().expect("is piped")).lines();
    let reading = thread::spawn(move || {
        lines.map_while(Result::ok).for_each(|line| note.send(line).expect("is awaited"));
    });
    let mut printed = vec![notes.recv_timeout(Duration::from_secs(20)).expect("a line")];
    drop(input);
    assert_eq!(sender.wait().expect("ends").code(), Some(0), "{printed:?}");
    reading.join().expect("is read");
    printed.extend(notes.try_iter());
    let notes = printed.iter().filter(|line| line.starts_with("note: no radio: lo"));
    assert_eq!(notes.count(), 1, "{printed:?}");
    assert_eq!(receiver.finish().0, Some(0));
}

#[test]
fn an_empty_file_arrives_too() {
    let scratch = Scratch::new("empty");
    assert_eq!(transfer(&scratch, b"", &[]).0, b"");
}

#[test]
fn standard_input_and_output_do_as_well() {
    let content = pattern(700_000, 2);
    let scratch = Scratch::new("pipes");
    let mut receiver = squall()
        .args(["recv", "--listen", "127.0.0.1:0", "--once", "--out", "-", "--identity"])
        .arg(scratch.path("id.pem"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(receiver.stderr.take().expect("is piped")).lines();
    let first = lines.next().expect("a line").expect("is text");
    let addr = first.split([' ', ',']).nth(2).expect("names the address").to_owned();
    let mut sender = squall()
        .args(["send", "-", "--to", &addr, "--ca"])
        .arg(scratch.path("id.pem"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    let mut input = sender.stdin.take().expect("is piped");
    let feed = content.clone();
    let feeding = thread::spawn(move || input.write_all(&feed).expect("is taken"));
    let output = receiver.wait_with_output().expect("ends");
    feeding.join().expect("is fed");
    assert!(sender.wait().expect("ends").success());
    assert!(output.status.success());
    assert!(output.stdout == content, "the copy differs");
}

#[test]
fn summaries_are_for_machines_too() {
    let scratch = Scratch::new("json");
    let file = scratch.write("in", &pattern(100_000, 3));
    let json = scratch.path("recv.json");
    let receiver = Receiver::start(&scratch.path("out"), &["--json", json.to_str().expect("is text")]);
    let sent = receiver.send(&file, &["--json", "-"]);
    assert_eq!(receiver.finish().0, Some(0));
    let sent: serde_json::Value = serde_json::from_slice(&sent.stdout).expect("is JSON");
    assert_eq!((&sent["bytes"], &sent["blocks"]["delivered"]), (&100_000.into(), &1.into()));
    assert_eq!(sent["paths"].as_array().map(Vec::len), Some(2));
    let came: serde_json::Value =
        serde_json::from_slice(&fs::read(json).expect("is there")).expect("is JSON");
    assert_eq!((&came["bytes"], &came["blocks"]), (&100_000.into(), &1.into()));
}

#[test]
fn a_receipt_before_the_end_is_refused() {
    let scratch = Scratch::new("early");
    let file = scratch.write("in", &pattern(300_000, 1));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("can be made");
    let to = common::peer::receiver(&runtime, &[r#"R{"blocks":0,"bytes":0}"#]).to_string();
    let sent = squall().arg("send").arg(&file).args(["--to", &to, "--insecure"]).output().expect("starts");
    let (said, code) = common::failure(&sent);
    assert!(said.ends_with("the receiver confirmed the transfer before everything was sent"), "{said}");
    assert_eq!(code, Some(1));
}

#[test]
fn an_interrupted_transfer_is_not_taken_for_a_whole_one() {
    let scratch = Scratch::new("interrupted");
    let receiver = Receiver::start(&scratch.path("out"), &[]);
    let to = receiver.addr.to_string();
    let mut sender = squall()
        .args(["send", "-", "--insecure", "--to", &to])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut input = sender.stdin.take().expect("is piped");
    input.write_all(&pattern(600_000, 4)).expect("is taken");
    let begin = Instant::now();
    while !scratch.parts().iter().any(|part| fs::metadata(part).is_ok_and(|part| part.len() > 0)) {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing came");
        thread::sleep(Duration::from_millis(20));
    }
    let interrupted = std::process::Command::new("kill").args(["-INT", &sender.id().to_string()]).status();
    assert!(interrupted.expect("kill is there").success());
    let output = sender.wait_with_output().expect("ends");
    drop(input);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.trim_end().ends_with(" arrived: interrupted"), "{said}");
    let (code, _, error) = receiver.finish();
    assert_eq!(code, Some(1), "{error}");
    let last = error.lines().last().expect("says why");
    assert!(last.starts_with("squall: incomplete: ") && last.contains(".part: "), "{last}");
    assert!(last.ends_with("the transfer broke off: the sender cancelled the transfer"), "{last}");
    assert!(scratch.parts().len() == 1 && !scratch.path("out").exists());
}

#[test]
fn the_sender_learns_that_the_receiver_cannot_write() {
    let scratch = Scratch::new("exists");
    let file = scratch.write("in", b"new");
    let folder = scratch.path("folder");
    fs::create_dir(&folder).expect("is made");
    fs::write(folder.join("in"), b"old").expect("is written");
    let receiver = Receiver::start(&folder, &[]);
    let sent = receiver.send(&file, &[]);
    let why = format!("{} exists already: use --out FILE", folder.join("in").display());
    let printed = "the receiver cannot use this name, or has such a file: send it under another name";
    let (said, code) = common::failure(&sent);
    assert_eq!(code, Some(1));
    assert!(said.starts_with("squall: not sent completely, "), "{said}");
    assert!(said.ends_with(&format!("arrived: the receiver stopped: {printed}")), "{said}");
    let (code, _, error) = receiver.finish();
    assert_eq!(code, Some(1));
    assert_eq!(error.lines().last(), Some(format!("squall: {why}").as_str()));
    assert_eq!(fs::read(folder.join("in")).expect("is there"), b"old");
}
