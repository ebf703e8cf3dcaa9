mod inputs;

use std::time::Duration;

use proptest::prelude::*;
use squall_units::short::{at_ms, at_us, ms};

use super::*;
use crate::{
    config::End,
    wire::frame::{FrameReader, HEADER, tests::restored},
    wire::nulls::tests::usual,
};

pub(super) fn flow(media: Media) -> FlowConfig {
    let end = End::In("127.0.0.1:1".parse().expect("is an address"));
    FlowConfig { media, max_frame: 65_536, ..FlowConfig::new("f", end) }
}

fn packet(marker: bool, sequence: u16, timestamp: u32, payload: &[u8]) -> Vec<u8> {
    let head = [0x80, 96 | u8::from(marker) << 7];
    [&head[..], &sequence.to_be_bytes(), &timestamp.to_be_bytes(), &[0, 0, 0, 7], payload].concat()
}

/// Returns a frame of this number of packets of H.264.
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
        [(at_us(0), frame(0, 5, 100, IDR), Class::Key), (at_ms(40), frame(5, 2, 200, B), Class::Disposable)]
    {
        let last = datagrams.len() - 1;
        for (n, datagram) in datagrams.iter().enumerate() {
            assert!(out.is_empty());
            gatherer.push(at, datagram, &mut |frame| out.push(frame));
            assert_eq!(out.len(), usize::from(n == last));
        }
        let frame = out.pop().expect("has left");
        assert_eq!((frame.class, frame.datagrams, frame.stamp), (class, datagrams.len() as u32, at));
    }
    assert_eq!(gatherer.poll_timeout(), None);
}

/// Returns the dependencies of the blocks of these datagrams, passed one by one.
fn needs(gatherer: &mut Gatherer, datagrams: &[Vec<u8>]) -> Vec<Depends> {
    let mut out = Vec::new();
    datagrams.iter().for_each(|datagram| gatherer.push(at_us(0), datagram, &mut |frame| out.push(frame)));
    gatherer.close(&mut |frame| out.push(frame));
    out.iter().map(|frame| frame.depends).collect()
}

#[test]
fn blocks_need_what_the_pictures_show() {
    use Depends::{Disposable, Key, Nothing, Reference};
    let video = |headers: &[u8]| -> Vec<Vec<u8>> {
        (0..).zip(headers).flat_map(|(n, header)| frame(2 * n, 2, 100 * u32::from(n), *header)).collect()
    };
    let of = |media, headers: &[u8]| needs(&mut Gatherer::new(&flow(media)), &video(headers));
    assert_eq!(of(Media::H264, &[IDR, P, P, IDR]), [Key, Reference, Reference, Key]);
    assert_eq!(of(Media::H264, &[IDR, P, B, P]), [Key, Reference, Disposable, Disposable]);
    assert_eq!(of(Media::Rtp, &[IDR, P]), [Nothing; 2], "of no known codec");
    // Another source that appears temporarily.
    let mut mixed = video(&[IDR, P, P, P]);
    mixed[2..4].iter_mut().for_each(|datagram| datagram[11] = 8);
    assert_eq!(needs(&mut Gatherer::new(&flow(Media::H264)), &mixed), [Key, Reference, Nothing, Nothing]);
    // A key frame in two blocks: the rest depends on the beginning.
    let small = FlowConfig { max_frame: 1, ..flow(Media::H264) };
    assert_eq!(needs(&mut Gatherer::new(&small), &video(&[IDR, P])), [Key, Reference, Reference, Reference]);
}

#[test]
fn a_refresh_begins_a_group() {
    use Depends::{Key, Reference};
    let mut datagrams = [frame(0, 1, 100, IDR), frame(1, 1, 200, P)].concat();
    // A recovery point, with parameter sets and a slice of a P picture.
    datagrams
        .extend([&[0x67, 1][..], &[0x68, 1], &[6, 6, 1, 0x24, 0x80]].map(|unit| packet(false, 2, 300, unit)));
    datagrams.push(packet(true, 5, 300, &[P, 0x9a]));
    datagrams.extend(frame(6, 1, 400, P));
    assert_eq!(needs(&mut Gatherer::new(&flow(Media::H264)), &datagrams), [Key, Reference, Key, Reference]);
}

#[test]
fn neither_markers_on_each_packet_nor_padding_make_frames() {
    use Depends::{Key, Nothing, Reference};
    let marked = |mut datagrams: Vec<Vec<u8>>| {
        datagrams.iter_mut().for_each(|datagram| datagram[1] |= 0x80);
        datagrams
    };
    let datagrams = [frame(0, 3, 100, IDR), frame(3, 3, 200, P), frame(6, 3, 300, P)].map(marked).concat();
    let needed = needs(&mut Gatherer::new(&flow(Media::H264)), &datagrams);
    assert_eq!(needed, [Key, Reference, Reference, Reference, Reference], "three blocks until that shows");
    let mut padding = packet(false, 3, 100, &[4; 4]);
    padding[0] |= 0x20;
    let datagrams = [frame(0, 3, 100, IDR), vec![padding; 2], frame(5, 3, 200, P)].concat();
    let needed = needs(&mut Gatherer::new(&flow(Media::H264)), &datagrams);
    assert_eq!(needed, [Key, Nothing, Nothing, Reference]);
}

#[test]
fn a_frame_without_its_last_packet_leaves_when_nothing_more_comes() {
    let mut gatherer = Gatherer::new(&flow(Media::H264));
    let mut out = Vec::new();
    for datagram in &frame(0, 3, 100, P)[..2] {
        gatherer.push(at_ms(1), datagram, &mut |frame| out.push(frame));
    }
    assert_eq!(gatherer.poll_timeout(), Some(at_ms(21)));
    gatherer.handle_timeout(at_us(20_999), &mut |frame| out.push(frame));
    assert!(out.is_empty());
    gatherer.handle_timeout(at_ms(21), &mut |frame| out.push(frame));
    assert_eq!((out.len(), out[0].datagrams), (1, 2));
    // A later packet of the frame has the same class.
    gatherer.push(at_ms(29), &frame(0, 3, 100, P)[2], &mut |frame| out.push(frame));
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
        gatherer.push(at_us(0), &large(n), &mut |frame| out.push(frame));
    }
    assert_eq!(out.len(), 3);
    assert!(out.iter().all(|frame| frame.class == Class::Key && frame.len() <= 65_536 + HEADER));
    assert_eq!(out.iter().map(|frame| frame.datagrams).sum::<u32>(), 100);
}

#[test]
fn the_rest_of_a_frame_is_a_part_of_it_whatever_the_codec() {
    let mut gatherer = Gatherer::new(&flow(Media::Rtp));
    let mut out = Vec::new();
    for n in 0..100 {
        let mut datagram = packet(n == 99, n, 100, &[0]);
        datagram.resize(1400, 0);
        gatherer.push(at_us(0), &datagram, &mut |frame| out.push(frame));
        if n == 60 {
            // A pause of the sender.
            gatherer.handle_timeout(at_ms(20), &mut |frame| out.push(frame));
        }
    }
    // 46 packets fill a frame: 46, 15 until the pause, and 39.
    assert_eq!(out.iter().map(|frame| frame.datagrams).collect::<Vec<_>>(), [46, 15, 39]);
    assert!(out.iter().all(|frame| frame.class == Class::Reference));
}

#[test]
fn reports_keep_their_place() {
    let mut gatherer = Gatherer::new(&flow(Media::H264));
    let mut out = Vec::new();
    let report = [0x80, 200, 0, 0];
    gatherer.push(at_us(0), &report, &mut |frame| out.push(frame));
    assert_eq!((out.len(), out[0].class), (1, Class::Data), "nothing is open");
    let video = frame(0, 2, 100, B);
    gatherer.push(at_us(0), &video[0], &mut |frame| out.push(frame));
    gatherer.push(at_us(0), &report, &mut |frame| out.push(frame));
    gatherer.push(at_us(0), &video[1], &mut |frame| out.push(frame));
    assert_eq!((out.len(), out[1].class, out[1].datagrams), (2, Class::Disposable, 3));
}

#[test]
fn what_is_there_of_a_frame_leaves_before_the_rest() {
    let mut gatherer = Gatherer::new(&flow(Media::H264));
    let mut out = Vec::new();
    for (n, datagram) in frame(0, 5, 100, IDR).iter().enumerate() {
        gatherer.push(at_ms(n as u64), datagram, &mut |frame| out.push(frame));
        if n == 1 || n == 2 {
            gatherer.flush(&mut |frame| out.push(frame));
        }
    }
    let shape = |frame: &Frame| (frame.begins, frame.ends, frame.datagrams);
    let shapes: Vec<_> = out.iter().map(shape).collect();
    assert_eq!(shapes, [(true, false, 2), (false, false, 1), (false, true, 2)]);
    assert!(out.iter().all(|frame| (frame.class, frame.stamp) == (Class::Key, at_us(0))));
    gatherer.flush(&mut |_| panic!("nothing is left"));
}

#[test]
fn a_frame_that_has_begun_to_leave_goes_on_in_another_block_if_it_needs_more_care() {
    let mut gatherer = Gatherer::new(&flow(Media::H264));
    let mut out = Vec::new();
    // The second packet has another layer of the same picture, as the format allows.
    for (sequence, header, marker) in [(0, B, false), (1, B, false), (2, P, false), (3, B, true)] {
        let datagram = packet(marker, sequence, 100, &[header, 0, 0]);
        gatherer.push(at_us(0), &datagram, &mut |frame| out.push(frame));
        gatherer.flush(&mut |frame| out.push(frame));
    }
    let shape = |frame: &Frame| (frame.class, frame.begins, frame.ends, frame.datagrams);
    let (low, high) = (Class::Disposable, Class::Reference);
    let shapes: Vec<_> = out.iter().map(shape).collect();
    let expected = [
        (low, true, false, 1),
        (low, false, false, 1),
        (low, false, true, 0),
        (high, true, false, 1),
        (high, false, true, 1),
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn a_frame_that_takes_half_of_the_latency_goes_on_in_another_block() {
    let latency = Some(Duration::from_millis(100));
    let mut gatherer = Gatherer::new(&FlowConfig { latency, ..flow(Media::H264) });
    let mut out = Vec::new();
    for (n, datagram) in frame(0, 13, 100, IDR).iter().enumerate() {
        gatherer.push(at_ms(n as u64 * 10), datagram, &mut |frame| out.push(frame));
        gatherer.flush(&mut |frame| out.push(frame));
    }
    let begun = out.iter().filter(|frame| frame.begins).map(|frame| (frame.stamp, frame.class));
    assert_eq!(begun.collect::<Vec<_>>(), [0, 50, 100].map(|stamp| (at_ms(stamp), Class::Key)));
    assert_eq!(out.iter().map(|frame| frame.datagrams).sum::<u32>(), 13);
}

#[test]
fn a_block_says_how_long_those_of_its_class_are() {
    let mut gatherer = Gatherer::new(&flow(Media::H264));
    let mut out = Vec::new();
    for (n, (packets, header)) in [(50, IDR), (5, P), (50, IDR), (5, P)].into_iter().enumerate() {
        for datagram in frame(0, packets, n as u32, header) {
            gatherer.push(at_us(0), &datagram, &mut |frame| out.push(frame));
            gatherer.flush(&mut |frame| out.push(frame));
        }
    }
    let expected: Vec<_> = out.iter().filter(|frame| frame.begins).map(|frame| frame.expected).collect();
    assert_eq!(expected, [0, 0, HEADER + 50 * 20, HEADER + 5 * 20]);
}

/// Returns a packet of video whose payload begins with these bytes.
fn video(starts: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x47, u8::from(starts) << 6 | 1, 1, 0x10];
    packet.extend(payload);
    packet.resize(188, 7);
    packet
}

/// Null packets of constant bitrate, between pictures and within them.
#[test]
fn null_packets_end_no_frame_and_are_not_sent() {
    let table = |pid: u16, id: u8, body: &[u8]| {
        let mut packet = vec![0x47, 0x40 | (pid >> 8) as u8, pid as u8, 0x10, 0];
        packet.extend([id, 0xb0, body.len() as u8 + 9, 0, 1, 0xc1, 0, 0]);
        packet.extend(body);
        packet.extend(crc(&packet[5..]).to_be_bytes());
        packet.resize(188, 0xff);
        packet
    };
    let tables =
        [table(0, 0, &[0, 1, 0xe1, 0]), table(0x100, 2, &[0xe1, 1, 0xf0, 0, 0x1b, 0xe1, 1, 0xf0, 0])];
    let nulls = usual().repeat(7);
    let idr = video(true, &[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0, 0, 0, 1, 0x65]);
    let slice = video(true, &[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0, 0, 0, 1, 0x41]);
    let rest = video(false, &[]);
    // The last packet of a picture is stuffed in front, which shows its end.
    let mut last = vec![0x47, 1, 1, 0x30, 100, 0];
    last.resize(105, 0xff);
    last.resize(188, 7);
    let mixed = [&rest[..], &nulls[188..]].concat();
    let datagrams = [
        &tables.concat(),
        &nulls,
        // Within a picture, and alone in a datagram or not.
        &idr,
        &nulls,
        &mixed,
        &nulls,
        &last,
        // Between pictures.
        &nulls,
        &nulls,
        &slice,
        &last,
        &nulls,
        &slice,
    ];
    for flushes in [false, true] {
        let mut gatherer = Gatherer::new(&flow(Media::Ts));
        let mut out = Vec::new();
        for datagram in datagrams {
            gatherer.push(at_us(0), datagram, &mut |frame| out.push(frame));
            if flushes {
                gatherer.flush(&mut |frame| out.push(frame));
            }
        }
        gatherer.close(&mut |frame| out.push(frame));
        let begun = out.iter().filter(|frame| frame.begins).map(|frame| (frame.class, frame.depends));
        let between = (Class::Disposable, Depends::Nothing);
        let expected = [
            between,
            (Class::Key, Depends::Key),
            between,
            (Class::Reference, Depends::Reference),
            between,
            (Class::Reference, Depends::Reference),
        ];
        assert_eq!(begun.skip(1).collect::<Vec<_>>(), expected, "behind the tables");
        let (bytes, deleted): (Vec<_>, Vec<_>) = out.iter().map(|frame| (frame.len(), frame.deleted)).unzip();
        assert_eq!(deleted.iter().sum::<usize>(), 6 * 1_316 + 6 * 188);
        // Two tables, and six packets with content.
        let content = 2 * 188 + 6 * 188;
        let bytes = bytes.iter().sum::<usize>() - content;
        assert!(bytes <= 7 * HEADER + 13 * (4 + 9), "{bytes} bytes beside the content");
    }
}

/// Checksum of a section (ISO 13818-1, annex A).
fn crc(section: &[u8]) -> u32 {
    section.iter().fold(u32::MAX, |crc, byte| {
        let mut crc = crc ^ u32::from(*byte) << 24;
        for _ in 0..8 {
            crc = crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 };
        }
        crc
    })
}

proptest! {
    #[test]
    fn every_datagram_comes_out_once_and_in_order(
        datagrams in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..300), any::<bool>()), 0..50),
        rtp in any::<bool>(),
        media in prop::sample::select(Media::ALL),
    ) {
        let mut gatherer = Gatherer::new(&flow(media.1));
        let (mut came, mut now) = (Vec::new(), at_us(0));
        let (mut reader, mut open) = (FrameReader::default(), false);
        let mut take = |frame: Frame| {
            assert_eq!(frame.begins, !open, "a block begins where the one before has ended");
            if frame.begins {
                reader = FrameReader::default();
            }
            open = !frame.ends;
            let wire = if frame.begins { frame.seal(at_us(0), 0, ms(0)) } else { frame.into_rest() };
            let datagrams = reader.read(wire, !open).expect("is well formed");
            came.extend(reader.header().map(|header| restored(header, &datagrams)).unwrap_or_default());
        };
        let mut sent = Vec::new();
        for (mut datagram, flushes) in datagrams {
            if rtp && !datagram.is_empty() {
                datagram[0] = 0x80;
            }
            gatherer.push(now, &datagram, &mut take);
            if flushes {
                gatherer.flush(&mut take);
            }
            now += ms(1);
            gatherer.handle_timeout(now, &mut take);
            sent.push(datagram);
        }
        gatherer.close(&mut take);
        prop_assert_eq!(came.into_iter().map(|(_, datagram)| datagram).collect::<Vec<_>>(), sent);
    }
}
