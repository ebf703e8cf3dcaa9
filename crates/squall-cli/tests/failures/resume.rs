//! Transfers whose connection is lost in between.

use std::{
    collections::HashMap,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, UdpSocket},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use crate::common::{
    Receiver, Scratch,
    peer::{Peer, header},
    squall,
};
use squall_testkit::pattern;

/// Longer than the idle timeout of 30 s.
const OUTAGE: Duration = Duration::from_secs(38);

/// Time limit of anything that should happen at once.
const SOON: Duration = Duration::from_secs(20);

/// A relay between a sender and a receiver that can be cut. Its threads end with the test.
struct Way {
    addr: SocketAddr,
    cut: Arc<AtomicBool>,
}

impl Way {
    fn to(receiver: SocketAddr) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let (addr, cut) = (front.local_addr().expect("is bound"), Arc::new(AtomicBool::new(false)));
        let dark = cut.clone();
        thread::spawn(move || {
            let (mut backs, mut packet) = (HashMap::new(), [0; 2048]);
            while let Ok((length, from)) = front.recv_from(&mut packet) {
                let back: &mut UdpSocket =
                    backs.entry(from).or_insert_with(|| Self::back(&front, from, receiver, &dark));
                if !dark.load(Relaxed) {
                    // A packet that is lost is sent again.
                    let _ = back.send(&packet[..length]);
                }
            }
        });
        Self { addr, cut }
    }

    /// Creates the return direction to one sender.
    fn back(front: &UdpSocket, to: SocketAddr, receiver: SocketAddr, dark: &Arc<AtomicBool>) -> UdpSocket {
        let back = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        back.connect(receiver).expect("is an address");
        let (inner, front, dark) = (
            back.try_clone().expect("can be shared"),
            front.try_clone().expect("can be shared"),
            dark.clone(),
        );
        thread::spawn(move || {
            let mut packet = [0; 2048];
            loop {
                let Ok(length) = inner.recv(&mut packet) else { continue };
                if !dark.load(Relaxed) {
                    let _ = front.send_to(&packet[..length], to);
                }
            }
        });
        back
    }
}

#[test]
fn a_transfer_survives_an_outage_longer_than_the_idle_timeout() {
    let scratch = Scratch::new("outage");
    let content = pattern(3_000_000, 5);
    let receiver = Receiver::start(&scratch.path("out"), &[]);
    let way = Way::to(receiver.addr);
    let mut sender = squall()
        .args(["send", "-", "--to", &way.addr.to_string(), "--pin", &receiver.fingerprint])
        .args(["--interface", "127.0.0.1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut input = sender.stdin.take().expect("is piped");
    input.write_all(&content[..1_000_000]).expect("is taken");
    thread::sleep(Duration::from_millis(500));
    way.cut.store(true, Relaxed);
    // Some data is in flight when the connection is lost, some is read during the outage.
    let rest = content[1_000_000..].to_vec();
    let feeding = thread::spawn(move || input.write_all(&rest).expect("is taken"));
    thread::sleep(OUTAGE);
    way.cut.store(false, Relaxed);
    let begin = Instant::now();
    let sent = sender.wait_with_output().expect("ends");
    feeding.join().expect("is fed");
    let (said, notes) = (String::from_utf8_lossy(&sent.stdout), String::from_utf8_lossy(&sent.stderr));
    assert_eq!(sent.status.code(), Some(0), "{notes}");
    assert!(said.contains("sessions: 2, as the connection was lost on the way"), "{said}");
    assert!(
        notes.contains("note: nothing received from the peer for too long: trying to connect again"),
        "{notes}"
    );
    println!("done {:?} after the outage", begin.elapsed());
    let (code, printed, error) = receiver.finish();
    assert_eq!(code, Some(0), "{error}");
    assert!(printed.contains("sessions: 2"), "{printed}");
    assert!(fs::read(scratch.path("out")).expect("is there") == content, "the copy differs");
}

#[test]
fn a_second_session_goes_on_where_the_first_one_was() {
    let scratch = Scratch::new("second");
    let receiver = Receiver::start(&scratch.path("out"), &[]);
    let first = Peer::connect(receiver.addr);
    first.say(b'H', header(1, "a", None));
    assert_eq!(first.next().expect("may begin"), br#"G{"next":0,"bytes":0}"#);
    first.say(b'D', "one");
    first.say(b'D', "two");
    assert_eq!(first.next().expect("is reported")[0], b'T');
    // The first session still exists for the receiver.
    let second = Peer::connect(receiver.addr);
    second.say(b'H', header(1, "a", None).replace(r#""from":0"#, r#""from":1"#));
    assert_eq!(second.next().expect("may go on"), br#"G{"next":2,"bytes":6}"#);
    assert_eq!(first.refusal(), "the transfer continues in another session");
    second.say(b'D', "three");
    second.say(b'E', r#"{"blocks":3,"bytes":11}"#);
    assert_eq!(second.receipt(), br#"R{"blocks":3,"bytes":11}"#);
    assert_eq!(receiver.finish().0, Some(0));
    assert_eq!(fs::read(scratch.path("out")).expect("is there"), b"onetwothree");
}

#[test]
fn a_sender_that_missed_its_receipt_gets_it_in_another_session() {
    let scratch = Scratch::new("receipt");
    let receiver = Receiver::service(&scratch.path("out"), &[]);
    for _ in 0..2 {
        // The second time nothing is written again.
        let peer = Peer::connect(receiver.addr);
        peer.say(b'H', header(1, "a", None));
        if peer.next().expect("an answer")[0] == b'G' {
            peer.say(b'D', "one");
            peer.say(b'E', r#"{"blocks":1,"bytes":3}"#);
            assert_eq!(peer.receipt(), br#"R{"blocks":1,"bytes":3}"#);
            fs::remove_file(scratch.path("out")).expect("was written");
        }
    }
    assert!(!scratch.path("out").exists());
}

#[test]
fn a_receiver_that_is_left_before_its_receipt_has_the_file_all_the_same() {
    let scratch = Scratch::new("left");
    let receiver = Receiver::start(&scratch.path("out"), &[]);
    let peer = Peer::connect(receiver.addr);
    peer.say(b'H', header(1, "a", None));
    assert_eq!(peer.next().expect("may begin")[0], b'G');
    peer.say(b'D', "one");
    peer.say(b'E', r#"{"blocks":1,"bytes":3}"#);
    assert_eq!(peer.receipt()[0], b'R');
    peer.leave(1, "the sender cancelled the transfer");
    let (code, said, error) = receiver.finish();
    assert_eq!(code, Some(0), "{error}");
    assert!(said.starts_with("received a: 3.00 B"), "{said}");
}

#[test]
fn a_slow_stream_is_not_held_back() {
    let scratch = Scratch::new("slow");
    let mut receiver = Receiver::start("-".as_ref(), &[]);
    let mut sender = squall()
        .args(["send", "-", "--insecure", "--to", &receiver.addr.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    let mut input = sender.stdin.take().expect("is piped");
    let mut output = receiver.stdout();
    for line in [b"first", b"other"] {
        let begin = Instant::now();
        input.write_all(line).expect("is taken");
        let mut came = [0; 5];
        output.read_exact(&mut came).expect("arrives");
        assert_eq!(&came, line);
        assert!(begin.elapsed() < SOON, "it took {:?}", begin.elapsed());
    }
    drop(input);
    assert!(sender.wait().expect("ends").success());
    drop(scratch);
}

/// A file may have 200 kB here: the system refuses more, as a full disk does.
#[cfg(unix)]
#[test]
fn what_cannot_be_written_leaves_nothing_and_later_transfers_work() {
    let scratch = Scratch::new("full");
    let folder = scratch.path("folder");
    fs::create_dir(&folder).expect("is made");
    let receiver = Receiver::limited(&folder, 200);
    let (large, small) =
        (scratch.write("large", &pattern(8_000_000, 1)), scratch.write("small", &pattern(50_000, 2)));
    let refused = receiver.send(&large, &[]);
    let (said, code) = crate::common::failure(&refused);
    assert_eq!(code, Some(1));
    assert!(said.ends_with("the receiver stopped: it cannot write the file: file too large"), "{said}");
    assert_eq!(fs::read_dir(&folder).expect("is there").count(), 0, "something is left");
    assert_eq!(receiver.send(&small, &[]).status.code(), Some(0));
    assert!(fs::read(folder.join("small")).expect("is there") == pattern(50_000, 2));
}

#[cfg(target_os = "linux")]
#[test]
fn a_summary_that_cannot_be_written_is_reported_in_a_line_and_the_transfer_is_whole() {
    let scratch = Scratch::new("summary");
    let out = scratch.path("out");
    let file = scratch.write("file", &pattern(50_000, 1));
    let receiver = Receiver::start(&out, &[]);
    let (said, code) = crate::common::failure(&receiver.send(&file, &["--json", "/dev/full"]));
    assert_eq!(code, Some(1));
    assert!(said.ends_with("cannot write /dev/full: No space left on device (os error 28)"), "{said}");
    assert!(fs::read(out).expect("is there") == pattern(50_000, 1));
}
