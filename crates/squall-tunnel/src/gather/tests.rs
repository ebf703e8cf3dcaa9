use proptest::prelude::*;

use super::*;
use crate::{config::End, parcel};

fn flow(media: Media) -> FlowConfig {
    let end = End::In("127.0.0.1:1".parse().expect("is an address"));
    FlowConfig { media, max_frame: 65_536, ..FlowConfig::new("f", end) }
}

fn packet(marker: bool, sequence: u16, timestamp: u32, payload: &[u8]) -> Vec<u8> {
    let head = [0x80, 96 | u8::from(marker) << 7];
    [&head[..], &sequence.to_be_bytes(), &timestamp.to_be_bytes(), &[0, 0, 0, 7], payload].concat()
}

/// A frame of so many packets of H.264.
fn frame(from: u16, packets: u16, timestamp: u32, header: u8) -> Vec<Vec<u8>> {
    let one =
        |n| packet(n + 1 == packets, from + n, timestamp, &[header & 0x60 | 28, header & 0x1f, 0, n as u8]);
    (0..packets).map(one).collect()
}

const IDR: u8 = 0x65;
const P: u8 = 0x41;
const B: u8 = 0x01;

#[test]
fn a_frame_leaves_with_its_last_packet() {
    let mut gatherer = Gatherer::new(&flow(Media::H264));
    let mut out = Vec::new();
    for (at, datagrams, class) in
        [(0, frame(0, 5, 100, IDR), Class::Key), (40_000, frame(5, 2, 200, B), Class::Disposable)]
    {
        let last = datagrams.len() - 1;
        for (n, datagram) in datagrams.iter().enumerate() {
            assert!(out.is_empty());
            gatherer.push(at, datagram, &mut |parcel| out.push(parcel));
            assert_eq!(out.len(), usize::from(n == last));
        }
        let parcel = out.pop().expect("has left");
        assert_eq!((parcel.class, parcel.datagrams, parcel.stamp), (class, datagrams.len() as u32, at));
    }
    assert_eq!(gatherer.poll_timeout(), None);
}

#[test]
fn a_frame_without_its_last_packet_leaves_when_nothing_more_comes() {
    let mut gatherer = Gatherer::new(&flow(Media::H264));
    let mut out = Vec::new();
    for datagram in &frame(0, 3, 100, P)[..2] {
        gatherer.push(1000, datagram, &mut |parcel| out.push(parcel));
    }
    assert_eq!(gatherer.poll_timeout(), Some(4000));
    gatherer.handle_timeout(3999, &mut |parcel| out.push(parcel));
    assert!(out.is_empty());
    gatherer.handle_timeout(4000, &mut |parcel| out.push(parcel));
    assert_eq!((out.len(), out[0].datagrams), (1, 2));
    // What comes of it after all is of the same class.
    gatherer.push(9000, &frame(0, 3, 100, P)[2], &mut |parcel| out.push(parcel));
    assert_eq!(out[1].class, Class::Reference);
}

#[test]
fn a_frame_that_is_too_large_is_carried_in_parts_of_one_class() {
    let mut gatherer = Gatherer::new(&flow(Media::H264));
    let mut out = Vec::new();
    let large = |n: u16| {
        let mut datagram = packet(n == 99, n, 100, &[0x7c, 0x05]);
        datagram.resize(1400, 0);
        datagram
    };
    for n in 0..100 {
        gatherer.push(0, &large(n), &mut |parcel| out.push(parcel));
    }
    assert_eq!(out.len(), 3);
    assert!(out.iter().all(|parcel| parcel.class == Class::Key && parcel.len() <= 65_536 + HEAD));
    assert_eq!(out.iter().map(|parcel| parcel.datagrams).sum::<u32>(), 100);
}

#[test]
fn the_rest_of_a_frame_is_a_part_of_it_whatever_the_codec() {
    let mut gatherer = Gatherer::new(&flow(Media::Rtp));
    let mut out = Vec::new();
    for n in 0..100 {
        let mut datagram = packet(n == 99, n, 100, &[0]);
        datagram.resize(1400, 0);
        gatherer.push(0, &datagram, &mut |parcel| out.push(parcel));
        if n == 60 {
            // A pause of the sender.
            gatherer.handle_timeout(3000, &mut |parcel| out.push(parcel));
        }
    }
    // 46 packets fill a parcel: 46, 15 until the pause, and 39.
    assert_eq!(out.iter().map(|parcel| parcel.datagrams).collect::<Vec<_>>(), [46, 15, 39]);
    assert!(out.iter().all(|parcel| parcel.class == Class::Reference));
}

#[test]
fn reports_keep_their_place() {
    let mut gatherer = Gatherer::new(&flow(Media::H264));
    let mut out = Vec::new();
    let report = [0x80, 200, 0, 0];
    gatherer.push(0, &report, &mut |parcel| out.push(parcel));
    assert_eq!((out.len(), out[0].class), (1, Class::Data), "nothing is open");
    let video = frame(0, 2, 100, B);
    gatherer.push(0, &video[0], &mut |parcel| out.push(parcel));
    gatherer.push(0, &report, &mut |parcel| out.push(parcel));
    gatherer.push(0, &video[1], &mut |parcel| out.push(parcel));
    assert_eq!((out.len(), out[1].class, out[1].datagrams), (2, Class::Disposable, 3));
}

proptest! {
    #[test]
    fn every_datagram_comes_out_once_and_in_order(
        datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..50),
        rtp in any::<bool>(),
        media in prop::sample::select(Media::ALL),
    ) {
        let mut gatherer = Gatherer::new(&flow(media.1));
        let (mut came, mut now) = (Vec::new(), 0);
        let mut take = |parcel: Parcel| {
            let wire = parcel.seal(0, 0, 0);
            came.extend(parcel::tests::datagrams(&wire).map(|(_, datagram)| datagram.to_vec()));
        };
        let mut sent = Vec::new();
        for mut datagram in datagrams {
            if rtp && !datagram.is_empty() {
                datagram[0] = 0x80;
            }
            gatherer.push(now, &datagram, &mut take);
            now += 1000;
            gatherer.handle_timeout(now, &mut take);
            sent.push(datagram);
        }
        gatherer.close(&mut take);
        prop_assert_eq!(came, sent);
    }
}
