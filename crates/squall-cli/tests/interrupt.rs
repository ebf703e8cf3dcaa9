//! Programs that are requested to end.

#![cfg(unix)]

mod common;

use std::time::Duration;

use common::{
    Receiver, Scratch,
    peer::{Peer, header},
};

/// Time limit of the end.
const END: Duration = Duration::from_secs(10);

#[test]
fn a_signal_between_two_transfers_ends_the_receiver() {
    let scratch = Scratch::new("between");
    let mut receiver = Receiver::service(&scratch.path("out"), &[]);
    let peer = Peer::connect(receiver.addr);
    peer.say(b'H', header(1, "a", None));
    peer.say(b'D', "x");
    peer.say(b'E', r#"{"blocks":1,"bytes":1}"#);
    peer.receipt();
    receiver.signal("TERM");
    assert_eq!(receiver.ends_within(END), Some(0));
}

#[test]
fn a_receiver_of_one_transfer_that_is_interrupted_before_it_reports_so() {
    for name in ["INT", "TERM"] {
        let scratch = Scratch::new("before");
        let mut receiver = Receiver::start(&scratch.path("out"), &[]);
        receiver.signal(name);
        assert_eq!(receiver.ends_within(END), Some(130), "SIG{name}");
    }
}

#[test]
fn a_service_that_has_no_work_ends_with_success() {
    let scratch = Scratch::new("idle");
    let mut receiver = Receiver::service(&scratch.path("out"), &[]);
    receiver.signal("TERM");
    assert_eq!(receiver.ends_within(END), Some(0));
}
