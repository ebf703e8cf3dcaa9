//! `squall recv` and senders without its token, or with hostile behaviour.

mod common;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use common::{
    Receiver, Scratch, failure,
    peer::{Peer, header},
};
use squall_testkit::pattern;

const TOKEN: &str = "a token for tests";

/// Time limit of an honest sender in the presence of hostile ones.
const SOON: Duration = Duration::from_secs(30);

/// An honest sender of one file.
fn honest(receiver: &Receiver, scratch: &Scratch, more: &[&str]) {
    let file = scratch.write("honest", &pattern(100_000, 9));
    let begin = Instant::now();
    let sent = receiver.send(&file, more);
    assert_eq!(sent.status.code(), Some(0), "{}", failure(&sent).0);
    assert!(begin.elapsed() < SOON, "it took {:?}", begin.elapsed());
}

fn unfinished(folder: &Path) -> usize {
    let names = fs::read_dir(folder).expect("is there").map(|entry| entry.expect("is readable").file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".part")).count()
}

#[test]
fn senders_without_the_token_write_nothing_and_receive_nothing() {
    let scratch = Scratch::new("token");
    let folder = scratch.path("folder");
    fs::create_dir(&folder).expect("is made");
    fs::write(folder.join("there"), "of the user").expect("is written");
    let receiver = Receiver::service(&folder, &["--token", TOKEN]);
    for (token, name) in
        [(None, "there"), (None, "new"), (Some("another token"), "there"), (Some("another token"), "new")]
    {
        let peer = Peer::connect(receiver.addr);
        peer.say(b'H', header(1, name, token));
        let expected = match token {
            None => "this receiver requires a token: use --token at the sender",
            Some(_) => "wrong token: both ends need the same one",
        };
        assert_eq!(peer.refusal(), expected);
    }
    honest(&receiver, &scratch, &["--token", TOKEN]);
    assert_eq!(
        fs::read_dir(&folder).expect("is there").count(),
        2,
        "the user's file and the honest sender's"
    );
    let wrong = receiver.send(&scratch.path("honest"), &["--token", "another token"]);
    let (said, code) = failure(&wrong);
    assert!(said.ends_with("the receiver stopped: wrong token: both ends need the same one"), "{said}");
    assert_eq!(code, Some(1));
}

#[test]
fn a_receiver_that_others_can_reach_makes_a_token_unless_it_is_open_to_anyone() {
    let scratch = Scratch::new("made");
    let mut receiver = Receiver::listen("0.0.0.0:0", &scratch.path("out"), &["--once"]);
    let hint = receiver.line();
    let (_, token) = hint.trim_end().rsplit_once(" --token ").expect("shows the token");
    assert_eq!(token.len(), 32, "{hint}");
    let file = scratch.write("in", b"content");
    let code = |receiver: &Receiver, more: &[&str]| receiver.send(&file, more).status.code();
    assert_eq!(code(&receiver, &[]), Some(1));
    assert_eq!(code(&receiver, &["--token", token]), Some(0));
    assert_eq!(receiver.finish().0, Some(0));
    let mut open = Receiver::listen("0.0.0.0:0", &scratch.path("open"), &["--once", "--anyone"]);
    assert!(!open.line().contains("--token"));
    assert_eq!(code(&open, &[]), Some(0));
    assert_eq!(open.finish().0, Some(0));
}

#[test]
fn silent_and_senseless_strangers_neither_block_others_nor_end_the_receiver() {
    let scratch = Scratch::new("silent");
    let receiver = Receiver::start(&scratch.path("out"), &["--token", TOKEN]);
    let silent: Vec<Peer> = (0..8).map(|_| Peer::connect(receiver.addr)).collect();
    let junk = Peer::connect(receiver.addr);
    junk.say(b'x', "junk");
    assert!(junk.refusal().contains("unknown kind"));
    honest(&receiver, &scratch, &["--token", TOKEN]);
    let (code, said, error) = receiver.finish();
    assert_eq!(code, Some(0), "{error}");
    assert!(said.starts_with("received honest: 100 kB"), "{said}");
    drop(silent);
}

#[test]
fn a_stalled_stranger_is_rejected() {
    let scratch = Scratch::new("still");
    let receiver = Receiver::start(&scratch.path("out"), &["--anyone", "--stall", "1s"]);
    let still = Peer::connect(receiver.addr);
    still.say(b'H', header(1, "still", None));
    assert_eq!(still.next().expect("may begin")[0], b'G');
    // A message that it waits for its input is no progress: any sender could repeat it without end.
    still.say(b'D', "");
    honest(&receiver, &scratch, &[]);
    assert_eq!(still.refusal(), "the sender sent nothing for 1s");
    assert_eq!(receiver.finish().0, Some(0));
}

#[test]
fn no_file_is_touched_that_the_receiver_did_not_make() {
    let scratch = Scratch::new("names");
    let folder = scratch.path("folder");
    fs::create_dir(&folder).expect("is made");
    for name in ["in.part", "in"] {
        fs::write(folder.join(name), name).expect("is written");
    }
    let file = scratch.write("in", b"from a stranger");
    let receiver = Receiver::service(&folder, &["--anyone"]);
    // The answer does not reveal which names exist.
    assert_eq!(receiver.send(&file, &[]).status.code(), Some(0));
    assert_eq!(fs::read(folder.join("in.2")).expect("is there"), b"from a stranger");
    for name in ["in.part", "in"] {
        assert_eq!(fs::read(folder.join(name)).expect("is there"), name.as_bytes());
    }
    assert_eq!(fs::read_dir(&folder).expect("is there").count(), 3);
}

#[test]
fn size_and_number_of_files_have_bounds() {
    let scratch = Scratch::new("bounds");
    let folder = scratch.path("folder");
    fs::create_dir(&folder).expect("is made");
    let receiver = Receiver::service(&folder, &["--max-size", "1kB", "--max-files", "1"]);
    let (large, small) = (scratch.write("large", &[0; 1001]), scratch.write("small", &[0; 1000]));
    let refused = |file: &Path| failure(&receiver.send(file, &[])).0;
    assert!(refused(&large).ends_with("the file is larger than the receiver accepts (1000 bytes)"));
    // A sender that does not declare the size.
    let liar = Peer::connect(receiver.addr);
    liar.say(b'H', header(1, "liar", None));
    assert_eq!(liar.next().expect("may begin")[0], b'G');
    liar.say(b'D', [0; 1001]);
    assert_eq!(liar.refusal(), "the file is larger than the receiver accepts (1000 bytes)");
    assert_eq!(receiver.send(&small, &[]).status.code(), Some(0));
    assert!(refused(&small).ends_with("the receiver accepts no more files"));
    assert_eq!((unfinished(&folder), fs::read_dir(&folder).expect("is there").count()), (0, 1));
}

#[test]
fn failed_transfers_leave_a_few_files() {
    let scratch = Scratch::new("parts");
    let folder = scratch.path("folder");
    fs::create_dir(&folder).expect("is made");
    let receiver = Receiver::service(&folder, &["--token", TOKEN]);
    for number in 0..20 {
        let peer = Peer::connect(receiver.addr);
        peer.say(b'H', header(number, "part", Some(TOKEN)));
        assert_eq!(peer.next().expect("may begin")[0], b'G');
        peer.say(b'D', format!("{number}"));
        peer.say(b'x', "no message");
        peer.refusal();
    }
    assert_eq!(unfinished(&folder), 16);
    let files = fs::read_dir(&folder).expect("is there").flatten();
    let mut left: Vec<u32> = files.map(|file| content_of(&file.path()).parse().expect("a number")).collect();
    left.sort_unstable();
    assert_eq!(left, (4..20).collect::<Vec<_>>(), "the newest ones");
}

#[test]
fn a_sender_with_the_token_leaves_a_few_lines() {
    let scratch = Scratch::new("lines");
    let folder = scratch.path("folder");
    fs::create_dir(&folder).expect("is made");
    let begin = Instant::now();
    let receiver = Receiver::service(&folder, &["--token", TOKEN]);
    for number in 0..80 {
        let peer = Peer::connect(receiver.addr);
        peer.say(b'H', header(number, "part", Some(TOKEN)));
        assert_eq!(peer.next().expect("may begin")[0], b'G');
        peer.say(b'x', "no message");
        peer.refusal();
    }
    let most = 32 + begin.elapsed().as_secs() as usize;
    assert!(most < 60, "it took {:?}", begin.elapsed());
    receiver.signal("INT");
    let (_, _, said) = receiver.finish();
    let lines = said.lines().filter(|line| line.starts_with("squall: ")).count();
    assert!((32..=most).contains(&lines), "{lines} lines: {said}");
}

fn content_of(file: &Path) -> String {
    fs::read_to_string(file).expect("is text")
}

#[test]
fn a_transfer_has_the_size_that_its_header_says() {
    let scratch = Scratch::new("size");
    let folder = scratch.path("folder");
    fs::create_dir(&folder).expect("is made");
    let receiver = Receiver::service(&folder, &["--token", TOKEN]);
    for (number, sent, expected) in [
        (1, 5, "the sender announced 4 bytes, and sent more"),
        (2, 3, "the sender announced 4 bytes, and sent 3"),
    ] {
        let peer = Peer::connect(receiver.addr);
        let sized = header(number, "liar", Some(TOKEN)).replace(r#""size":null"#, r#""size":4"#);
        peer.say(b'H', sized);
        assert_eq!(peer.next().expect("may begin")[0], b'G');
        peer.say(b'D', vec![b'x'; sent]);
        peer.say(b'E', format!(r#"{{"blocks":1,"bytes":{sent}}}"#));
        assert_eq!(peer.refusal(), expected);
    }
    assert!(!folder.join("liar").exists());
}

#[test]
fn names_are_no_options_and_hide_nothing() {
    let scratch = Scratch::new("plain");
    let folder = scratch.path("folder");
    fs::create_dir(&folder).expect("is made");
    let receiver = Receiver::service(&folder, &["--token", TOKEN]);
    for (number, name) in (1..).zip(["-rf", " ", "\u{202e}gpj.exe"]) {
        let peer = Peer::connect(receiver.addr);
        peer.say(b'H', header(number, name, Some(TOKEN)));
        assert_eq!(peer.next().expect("may begin")[0], b'G');
        peer.say(b'E', r#"{"blocks":0,"bytes":0}"#);
        peer.receipt();
    }
    let mut names: Vec<_> =
        fs::read_dir(&folder).expect("is there").flatten().map(|f| f.file_name()).collect();
    names.sort();
    assert_eq!(names, ["_gpj.exe", "_rf", "unnamed"]);
}

#[test]
fn an_unknown_transfer_cannot_go_on() {
    let scratch = Scratch::new("unknown");
    let receiver = Receiver::service(&scratch.path("out"), &[]);
    let peer = Peer::connect(receiver.addr);
    peer.say(b'H', header(1, "a", None).replace(r#""from":0"#, r#""from":7"#));
    assert_eq!(peer.refusal(), "the receiver has no record of this transfer: send it again");
    let old = Peer::connect(receiver.addr);
    old.say(b'H', r#"{"version":1,"name":"a","size":1}"#);
    assert_eq!(old.refusal(), "the sender has version 1 of the transfer format, this is version 3");
}
