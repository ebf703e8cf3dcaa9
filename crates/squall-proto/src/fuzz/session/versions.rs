//! Sessions with peers of other releases.

use super::{tests::greeted, *};
use crate::CloseReason;

/// What earlier releases and this one sent: the text of each file in `tests/vectors`.
const RELEASES: &[&str] = &[include_str!("../../../tests/vectors/0.1.0.txt")];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// A block of five bytes, on the wire.
fn hello_block() -> Vec<u8> {
    bytes("30 00 00 05 00 00 000000 68656c6c6f")
}

/// What the honest side has of the peer, and whether its own block was delivered, after `datagrams` of a peer with this
/// hello.
fn meet(hello: &[u8], datagrams: &[Vec<u8>]) -> (u64, u64, Option<CloseReason>) {
    let mut meeting = greeted(Config::default(), hello);
    let (now, id) = (meeting.now, meeting.session.expect("is up"));
    let sent = meeting.honest.session(id).map(|session| session.send(now, Block::new(vec![7; 3_000])));
    assert!(sent.is_some_and(|sent| sent.is_ok()), "there is room");
    datagrams.iter().for_each(|datagram| meeting.say(datagram.clone()));
    meeting.settle(Duration::from_secs(1));
    let session = meeting.honest.session(id).expect("is there");
    let stats = session.stats();
    (stats.blocks_received, stats.blocks_delivered, session.close_reason().cloned())
}

#[test]
fn hellos_of_every_release_are_read() {
    for hello in RELEASES.iter().flat_map(|text| text.lines()).filter_map(|row| row.strip_prefix("HELLO: ")) {
        assert_eq!(meet(&bytes(hello), &[hello_block()]), (1, 1, None), "{hello}");
    }
}

#[test]
fn a_peer_of_a_later_release_is_understood() {
    // Version 7, unknown abilities, and more fields.
    let hello = bytes("07 81000000 80010000 ffffffffffffffff 4567 ff00ff");
    // Items of reserved and of later types, beside known ones with more fields than this release has.
    let datagrams = [
        bytes("1f 02 ffff"),
        bytes("4100 00 80010000 03 aabbcc"),
        [bytes("0f 04 01020304 05 08 01 03d090 00000000"), hello_block()].concat(),
    ];
    assert_eq!(meet(&hello, &datagrams), (1, 1, None));
}

#[test]
fn a_peer_of_an_earlier_release_is_understood() {
    // No abilities: nothing grows, and there is no parity.
    assert_eq!(meet(&bytes("01 81000000 80010000"), &[hello_block()]), (1, 1, None));
    let mut none = greeted(Config::default(), &bytes("00 81000000 80010000 01"));
    assert!(none.session.and_then(|id| none.honest.session(id)).is_none_or(|session| session.is_closed()));
}
