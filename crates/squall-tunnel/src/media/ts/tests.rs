use std::collections::BTreeMap;

use proptest::prelude::*;
use squall_units::{Span, Time};

use super::{super::samples::*, *};
use crate::{
    config::{End, FlowConfig},
    flow::gather::Gatherer,
    media::{Cutter, Media},
    wire::frame::{Frame, FrameReader, tests::restored},
};

const MAP: u16 = 0x1000;
const VIDEO: u16 = 0x100;
const SOUND: u16 = 0x101;

/// Stream type of MPEG-2 video.
const MPEG2: u8 = 0x02;
/// Stream type of MPEG audio.
const AUDIO: u8 = 0x03;
/// Table id of the PAT.
const PAT: u8 = 0;
/// Table id of a PMT.
const PMT: u8 = 2;

/// Returns a table of programs, each with its number and the PID of its map.
fn pat(programs: &[(u16, u16)]) -> Vec<u8> {
    pat_of([0, 0], programs)
}

/// Returns one section of a table of programs that has several.
fn pat_of(numbers: [u8; 2], programs: &[(u16, u16)]) -> Vec<u8> {
    let entry = |(number, map): &(u16, u16)| [number.to_be_bytes(), (0xe000 | map).to_be_bytes()].concat();
    section_of(PAT, 1, numbers, true, &programs.iter().flat_map(entry).collect::<Vec<_>>())
}

/// Returns the map of a program, with type, PID and descriptors of each stream.
fn pmt(program: u16, streams: &[(u8, u16, &[u8])]) -> Vec<u8> {
    let mut body = vec![0xe1, 0, 0xf0, 0];
    for (kind, pid, descriptors) in streams {
        body.push(*kind);
        body.extend((0xe000 | pid).to_be_bytes());
        body.extend((0xf000 | descriptors.len() as u16).to_be_bytes());
        body.extend_from_slice(descriptors);
    }
    section_of(PMT, program, [0, 0], true, &body)
}

/// Returns an MPEG-2 picture of this class in a PES packet, whose last packet is padded.
fn picture(class: Class, packets: usize) -> Vec<Vec<u8>> {
    let mut pes = vec![0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0];
    pes.extend(elementary(class));
    pes.resize(184 * packets - 20, 0x55);
    pes.chunks(184).enumerate().map(|(n, part)| packet(VIDEO, n == 0, part)).collect()
}

/// Returns the beginning of a picture up to its first slice.
fn elementary(class: Class) -> Vec<u8> {
    let header: &[u8] = if class == Class::Key { &[0, 0, 1, 0xb3, 0x14, 0, 0xf0, 0x13] } else { &[] };
    let kind = match class {
        Class::Key => 1,
        Class::Disposable => 3,
        _ => 2,
    };
    [header, &[0, 0, 1, 0, 0, kind << 3, 0xff, 0xf8, 0, 0, 1, 1, 0x22]].concat()
}

/// Returns 24 pictures of 20 packets, every twelfth a key picture, each followed by audio.
fn film() -> Vec<Vec<u8>> {
    let sound = packet(SOUND, true, &[&[0, 0, 1, 0xc0, 0, 0, 0x80, 0, 0][..], &[0x33; 175]].concat());
    let pictures = (0..24).map(|n| picture(if n % 12 == 0 { Class::Key } else { Class::Reference }, 20));
    pictures.flat_map(|picture| [picture, vec![sound.clone()]].concat()).collect()
}

/// Returns a stream of these packets with tables before every 40 of them; `tables` returns those of
/// the n-th time.
fn mux(packets: &[Vec<u8>], tables: impl Fn(usize) -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    counted(
        packets.chunks(40).enumerate().flat_map(|(n, part)| [tables(n), part.to_vec()].concat()).collect(),
    )
}

/// Sets the continuity counters of packets.
fn counted(mut packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut counters = BTreeMap::<_, u8>::new();
    for packet in packets.iter_mut().filter(|packet| packet[3] & 0x10 != 0) {
        let counter = counters.entry((packet[1] & 0x1f, packet[2])).or_default();
        packet[3] = packet[3] & 0xf0 | *counter & 0x0f;
        *counter = counter.wrapping_add(1);
    }
    packets
}

/// Returns the film with the usual tables.
fn usual() -> Vec<Vec<u8>> {
    mux(&film(), |_| [one(), map_of(&[(MPEG2, VIDEO, b""), (AUDIO, SOUND, b"")])].concat())
}

fn one() -> Vec<Vec<u8>> {
    alone(0, 0, &[&pat(&[(1, MAP)])])
}

fn map_of(streams: &[(u8, u16, &[u8])]) -> Vec<Vec<u8>> {
    alone(MAP, 0, &[&pmt(1, streams)])
}

fn datagrams(packets: &[Vec<u8>], size: usize) -> Vec<Vec<u8>> {
    packets.concat().chunks(size).map(<[u8]>::to_vec).collect()
}

/// Counts the blocks of each class, and collects their datagrams.
fn blocks(media: Media, datagrams: &[Vec<u8>]) -> (BTreeMap<Class, usize>, Vec<Vec<u8>>) {
    let end = End::In("127.0.0.1:1".parse().expect("is an address"));
    let mut gatherer = Gatherer::new(&FlowConfig { media, ..FlowConfig::new("f", end) });
    let (mut counts, mut came) = (BTreeMap::new(), Vec::new());
    let mut take = |frame: Frame| {
        *counts.entry(frame.class).or_default() += 1;
        let mut reader = FrameReader::default();
        let datagrams = reader.read(frame.seal(Time::EPOCH, 0, Span::ZERO), true).expect("is well formed");
        came.extend(restored(reader.header().expect("was read"), &datagrams));
    };
    for datagram in datagrams {
        gatherer.push(Time::EPOCH, datagram, &mut take);
    }
    gatherer.close(&mut take);
    (counts, came.into_iter().map(|(_, datagram)| datagram).collect())
}

/// Counts the blocks of key pictures, and of other referenced ones.
fn pictures(packets: &[Vec<u8>], size: usize) -> (usize, usize) {
    let of = |counts: &BTreeMap<_, _>, class| counts.get(&class).copied().unwrap_or(0);
    let (counts, _) = blocks(Media::Ts, &datagrams(packets, size));
    assert_eq!(of(&counts, Class::Disposable), 0);
    (of(&counts, Class::Key), of(&counts, Class::Reference))
}

#[test]
fn frames_are_found_whatever_the_size_of_datagrams() {
    for size in [188, 564, 1_316, 1_328, 1_358, 1_400, 1_472, 3_000, 9_000] {
        let (key, reference) = pictures(&usual(), size);
        // A picture may share all its datagrams with others if they are as long as it.
        assert_eq!(key, 2, "{size}");
        assert!(reference == 22 || size > 2_000, "{reference} of 22 by {size}");
    }
}

#[test]
fn frames_are_found_whatever_stands_between_packets() {
    let stamped: Vec<_> = usual().iter().map(|packet| [&[1, 2, 3, 4], &packet[..]].concat()).collect();
    let protected: Vec<_> = usual().iter().map(|packet| [&packet[..], &[9; 16]].concat()).collect();
    for size in [1_316, 1_344, 1_428, 1_472] {
        assert_eq!(pictures(&stamped, size), (2, 22), "{size}");
        assert_eq!(pictures(&protected, size), (2, 22), "{size}");
    }
    let headed: Vec<_> =
        datagrams(&usual(), 1_316).iter().map(|part| [b"HEAD", &part[..]].concat()).collect();
    let (counts, came) = blocks(Media::Ts, &headed);
    assert_eq!((counts[&Class::Key], counts[&Class::Reference]), (2, 22));
    assert!(came == headed);
}

#[test]
fn frames_are_found_again_behind_what_was_lost() {
    let stream = usual().concat();
    for size in [1_316, 1_472] {
        for gone in [1, 187, 188, 1_000, size] {
            let damaged = [&stream[..size * 20], &stream[size * 20 + gone..]].concat();
            let datagrams: Vec<_> = damaged.chunks(size).map(<[u8]>::to_vec).collect();
            let (counts, came) = blocks(Media::Ts, &datagrams);
            assert_eq!(counts[&Class::Key], 2, "{gone} by {size}");
            assert!((21..=23).contains(&counts[&Class::Reference]), "{gone} by {size}: {counts:?}");
            assert!(came == datagrams);
        }
    }
}

#[test]
fn frames_in_rtp_are_found_whatever_the_size_of_its_payload() {
    let header = |n: usize| [&[0x80, 33, (n >> 8) as u8, n as u8], &[0; 8][..]].concat();
    for size in [188, 1_316, 1_460, 1_400] {
        let rtp = |(n, part): (usize, &Vec<u8>)| [&header(n)[..], part].concat();
        let mut rtp: Vec<_> = datagrams(&usual(), size).iter().enumerate().map(rtp).collect();
        // Reports on the same port.
        (0..5).for_each(|n| rtp.insert(10 * n + 7, [&[0x80, 200, 0, 6], &[0; 24][..]].concat()));
        for media in [Media::Ts, Media::Rtp] {
            let (counts, came) = blocks(media, &rtp);
            assert_eq!((counts[&Class::Key], counts[&Class::Reference]), (2, 22), "{size}");
            assert!(came == rtp);
        }
    }
}

/// Each stream must give the 24 pictures of the film.
#[test]
fn the_video_is_found_whatever_the_tables_look_like() {
    let (video, sound) = ((MPEG2, VIDEO, &b""[..]), (AUDIO, SOUND, &b""[..]));
    let right = pmt(1, &[video, sound]);
    let map = || alone(MAP, 0, &[&right]);
    let private = section_of(0xc0, 0x1500, [0, 0], true, &[0; 12]);
    let stuffing = [0x72, 0x30, 3, 0, 0, 0];
    let tracks: Vec<_> = (0..12).map(|n| (0x06, 0x300 + n, &b"\x0a\x04eng\0\x52\x01\x11"[..])).collect();
    let long = pmt(1, &[&[video, sound], &tracks[..]].concat());
    assert!((184..376).contains(&long.len()));
    let mut damaged = pmt(1, &[(MPEG2, 0x300, b"")]);
    *damaged.last_mut().expect("has a sum") ^= 1;
    let next = section_of(PMT, 1, [0, 0], false, &pmt(1, &[(MPEG2, 0x300, b"")])[8..]);
    let radio = alone(0x20, 0, &[&pmt(101, &[(AUDIO, 0x31, b"")])]);
    let two = alone(0, 0, &[&pat(&[(101, 0x20), (1, MAP)])]);
    let split = |n: u8| {
        let body = pmt(1, &[if n == 0 { sound } else { video }]);
        section_of(PMT, 1, [n, 1], true, &body[8..body.len() - 4])
    };
    type Tables<'a> = Box<dyn Fn(usize) -> Vec<Vec<u8>> + 'a>;
    let cases: Vec<(&str, Tables<'_>)> = vec![
        ("a private table first", Box::new(|_| [one(), alone(MAP, 0, &[&private, &right])].concat())),
        ("a stuffing table first", Box::new(|_| [one(), alone(MAP, 0, &[&stuffing, &right])].concat())),
        ("a map in two packets", Box::new(|_| [one(), alone(MAP, 0, &[&long])].concat())),
        ("behind the pointer", Box::new(|_| [one(), alone(MAP, 100, &[&right])].concat())),
        ("packed", Box::new(|_| [one(), packed(MAP, &long[30..], &[&long, &long])].concat())),
        (
            "a program without a map",
            Box::new(|_| [alone(0, 0, &[&pat(&[(101, 0x20), (1, MAP)])]), map()].concat()),
        ),
        ("a network", Box::new(|_| [alone(0, 0, &[&pat(&[(0, 0x10), (1, MAP)])]), map()].concat())),
        ("radio first", Box::new(|_| [two.clone(), radio.clone(), map()].concat())),
        (
            "a list of two sections",
            Box::new(|_| {
                let of = |n, programs: &[_]| alone(0, 0, &[&pat_of([n, 1], programs)]);
                [of(0, &[(1, MAP)]), of(1, &[(9, 0x90)]), map()].concat()
            }),
        ),
        (
            "a list of two sections, the video in the last",
            Box::new(|_| {
                [alone(0, 0, &[&pat_of([0, 1], &[(9, 0x90)]), &pat_of([1, 1], &[(1, MAP)])]), map()].concat()
            }),
        ),
        (
            "maps of one PID",
            Box::new(|n| {
                let other = pmt(2, &[(MPEG2, 0x401, b"")]);
                let one = if n % 2 == 0 { map() } else { alone(MAP, 0, &[&other]) };
                [alone(0, 0, &[&pat(&[(1, MAP), (2, MAP)])]), one].concat()
            }),
        ),
        (
            "maps in a packet",
            Box::new(|_| {
                let other = pmt(2, &[(MPEG2, 0x401, b"")]);
                [alone(0, 0, &[&pat(&[(1, MAP), (2, MAP)])]), alone(MAP, 0, &[&other, &right])].concat()
            }),
        ),
        (
            "a map of two sections",
            Box::new(|_| [one(), alone(MAP, 0, &[&split(0)]), alone(MAP, 0, &[&split(1)])].concat()),
        ),
        (
            "a damaged map between",
            Box::new(|n| [one(), if n % 2 == 0 { map() } else { alone(MAP, 0, &[&damaged]) }].concat()),
        ),
        (
            "a coming map between",
            Box::new(|n| [one(), if n % 2 == 0 { map() } else { alone(MAP, 0, &[&next]) }].concat()),
        ),
        (
            "a map of no program",
            Box::new(|n| {
                [one(), if n % 2 == 0 { map() } else { alone(MAP, 0, &[&pmt(7, &[(MPEG2, 0x300, b"")])]) }]
                    .concat()
            }),
        ),
        ("MPEG-2 as 0x80", Box::new(|_| [one(), map_of(&[(0x80, VIDEO, b""), sound])].concat())),
        (
            "private streams first",
            Box::new(|_| {
                [
                    one(),
                    map_of(&[
                        (0x06, 0x300, b"\x05\x04KLVA"),
                        (0x27, 0x301, b""),
                        (0x15, 0x302, b""),
                        video,
                        sound,
                    ]),
                ]
                .concat()
            }),
        ),
    ];
    for (name, tables) in &cases {
        for size in [1_316, 1_472] {
            assert_eq!(pictures(&mux(&film(), tables), size), (2, 22), "{name}, {size}");
        }
    }
}

/// Codecs that are not parsed have frames too.
#[test]
fn video_in_private_streams_has_frames() {
    for (kind, descriptor) in
        [(0x06, &b"\x05\x04HEVC"[..]), (0x06, b"\x05\x04AV01"), (0x27, b""), (0x33, b""), (0x24, b"")]
    {
        let tables = |_| [one(), map_of(&[(kind, VIDEO, descriptor), (AUDIO, SOUND, b"")])].concat();
        let (key, reference) = pictures(&mux(&film(), tables), 1_316);
        assert_eq!(key + reference, 24, "{kind:#x} {descriptor:?}");
    }
}

#[test]
fn video_goes_on_with_another_pid_codec_or_map() {
    let moved = |from: &[Vec<u8>], to: u16| -> Vec<Vec<u8>> {
        let mut packets = from.to_vec();
        for packet in packets.iter_mut().filter(|packet| packet[1] & 0x1f == 1 && packet[2] == 0) {
            (packet[1], packet[2]) = (packet[1] & 0xe0 | (to >> 8) as u8, to as u8);
        }
        packets
    };
    let other_pid = mux(&moved(&film(), 0x222), |_| [one(), map_of(&[(MPEG2, 0x222, b"")])].concat());
    let other_map = mux(&film(), |_| {
        [alone(0, 0, &[&pat(&[(1, 0x1001)])]), alone(0x1001, 0, &[&pmt(1, &[(MPEG2, VIDEO, b"")])])].concat()
    });
    let other_program = mux(&film(), |_| {
        [alone(0, 0, &[&pat(&[(7, MAP)])]), alone(MAP, 0, &[&pmt(7, &[(MPEG2, VIDEO, b"")])])].concat()
    });
    for second in [other_pid, other_map, other_program, usual()] {
        assert_eq!(pictures(&[usual(), second].concat(), 1_316), (4, 44));
    }
    let other_codec = mux(&film(), |_| [one(), map_of(&[(0x1b, VIDEO, b""), (AUDIO, SOUND, b"")])].concat());
    let (key, reference) = pictures(&[usual(), other_codec].concat(), 1_316);
    assert_eq!(key + reference, 48);
    // Without video, only sound is left.
    let radio = mux(&film(), |_| [one(), map_of(&[(AUDIO, SOUND, b"")])].concat());
    let mut cutter = Cutter::new(Media::Ts);
    let cuts: Vec<_> = datagrams(&[usual(), radio].concat(), 1_316)
        .iter()
        .map(|part| cutter.cut(Time::EPOCH, part))
        .collect();
    assert!(cuts[cuts.len() - 60..].iter().all(|cut| cut.apart && cut.class != Some(Class::Key)));
}

/// A stream of two programs gives the frames of the one whose video arrives first, until it ends.
#[test]
fn the_program_whose_video_comes_is_read() {
    let tables = |_: usize| {
        let (first, second) = (pmt(1, &[(MPEG2, 0x300, b"")]), pmt(2, &[(MPEG2, VIDEO, b"")]));
        [alone(0, 0, &[&pat(&[(1, MAP), (2, MAP)])]), alone(MAP, 0, &[&first, &second])].concat()
    };
    assert_eq!(pictures(&mux(&film(), tables), 1_316), (2, 22));
    // The first program has a single packet.
    let one = [vec![packet(0x300, true, &[0; 184])], vec![film(); 30].concat()].concat();
    let (key, _) = pictures(&mux(&one, tables), 1_316);
    assert!(key >= 10, "{key}");
}

#[test]
fn what_is_unknown_is_not_preferred() {
    let of = |streams: &[(u8, u16, &[u8])], packets: &[Vec<u8>]| {
        let (map, part) = (map_of(streams), packets.to_vec());
        blocks(Media::Ts, &datagrams(&mux(&part, |_| [one(), map.clone()].concat()), 188)).0
    };
    let (sound, klv) = (vec![packet(SOUND, true, &[0; 184]); 40], vec![packet(0x300, true, &[0; 184]); 40]);
    let unknown = of(&[(0x06, 0x300, b"\x05\x04KLVA")], &klv);
    assert_eq!((unknown[&Class::Reference], unknown.get(&Class::Audio)), (40, None));
    let radio = of(&[(AUDIO, SOUND, b"")], &sound);
    assert_eq!((radio[&Class::Audio], radio.get(&Class::Reference)), (40, None));
    let both = [picture(Class::Key, 3), klv, sound].concat();
    let beside = of(&[(MPEG2, VIDEO, b""), (AUDIO, SOUND, b""), (0x06, 0x300, b"")], &both);
    assert_eq!((beside[&Class::Key], beside[&Class::Audio], beside[&Class::Reference]), (1, 40, 40));
}

#[test]
fn clock_references_end_no_frame() {
    let clock = [&[0x47, 1, 0, 0x20, 183, 0x10][..], &[0; 6], &[0xff; 176]].concat();
    let mut empty = clock.clone();
    // A field that fills the packet, with the flag of a payload.
    (empty[3], empty[5]) = (0x30, 0);
    for between in [clock, empty] {
        let packets: Vec<_> = film().into_iter().enumerate().collect();
        let with = |(n, packet)| if n % 4 == 2 { vec![between.clone(), packet] } else { vec![packet] };
        let packets: Vec<_> = packets.into_iter().flat_map(with).collect();
        let stream = mux(&packets, |_| [one(), map_of(&[(MPEG2, VIDEO, b""), (AUDIO, SOUND, b"")])].concat());
        for size in [188, 1_316, 1_472] {
            assert_eq!(pictures(&stream, size), (2, 22), "{size}");
        }
    }
}

#[test]
fn packets_that_are_sent_twice_begin_no_frame_twice() {
    let twice = |packets: &[Vec<u8>]| -> Vec<_> {
        packets.iter().flat_map(|one| [one.clone(), one.clone()]).collect()
    };
    let tables = |kind| move |_| [one(), map_of(&[(kind, VIDEO, b""), (AUDIO, SOUND, b"")])].concat();
    for size in [188, 1_316, 1_472] {
        assert_eq!(pictures(&twice(&mux(&film(), tables(MPEG2))), size), (2, 22), "{size}");
        let flagged = [flagged(picture(Class::Key, 20)), film()].concat();
        assert_eq!(pictures(&twice(&mux(&flagged, tables(0x33))), size), (1, 24), "{size}");
    }
}

/// Sets the random access flag in the first packet of a picture.
fn flagged(mut picture: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let payload = picture[0][4..186].to_vec();
    picture[0] = packet(VIDEO, true, &payload);
    picture[0][5] = 0x40;
    picture
}

#[test]
fn random_access_on_each_picture_says_nothing() {
    let classes = [Class::Key, Class::Reference, Class::Disposable, Class::Reference];
    let flags = |flag: fn(usize) -> bool| -> Vec<_> {
        let all = (0..24).flat_map(|n| {
            let picture = picture(classes[n % 4], 7);
            if flag(n) { flagged(picture) } else { picture }
        });
        all.collect()
    };
    let of = |kind, packets: &[Vec<u8>]| {
        let tables =
            |n: usize| if n == 0 { [one(), map_of(&[(kind, VIDEO, b"")])].concat() } else { Vec::new() };
        let counts = blocks(Media::Ts, &datagrams(&mux(packets, tables), 188)).0;
        [Class::Key, Class::Reference, Class::Disposable]
            .map(|class| counts.get(&class).copied().unwrap_or(0))
    };
    assert_eq!(of(MPEG2, &flags(|_| false)), [6, 12, 6]);
    assert_eq!(of(MPEG2, &flags(|_| true)), [6, 12, 6]);
    assert_eq!(of(MPEG2, &flags(|n| n % 2 == 0)), [6, 12, 6]);
    assert_eq!(of(0x33, &flags(|_| true)), [1, 23, 0]);
    assert_eq!(of(0x33, &flags(|n| n % 4 == 0)), [6, 18, 0]);
}

#[test]
fn a_film_in_one_pes_packet_has_frames() {
    let mut pes = vec![0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0];
    for n in 0..24 {
        pes.extend(elementary(if n % 12 == 0 { Class::Key } else { Class::Reference }));
        pes.extend([0x55; 3_500]);
    }
    let packets: Vec<_> = pes.chunks(184).enumerate().map(|(n, part)| packet(VIDEO, n == 0, part)).collect();
    let stream = mux(&packets, |_| [one(), map_of(&[(MPEG2, VIDEO, b"")])].concat());
    for size in [1_316, 1_472] {
        // The second picture may be a field of the first.
        assert_eq!(pictures(&stream, size), (2, 21), "{size}");
    }
    // A codec that is not parsed: no picture is this long.
    let film: Vec<_> = (0..100_000).map(|n| packet(VIDEO, n == 0, &[0; 184])).collect();
    let film = counted([one(), map_of(&[(0x33, VIDEO, b"")]), flagged(film)].concat());
    let (counts, _) = blocks(Media::Ts, &datagrams(&film, 1_316));
    assert!(counts[&Class::Key] < 4 && counts[&Class::Reference] >= 3, "{counts:?}");
}

/// A datagram with two frames belongs to the more important one.
#[test]
fn the_end_of_a_key_picture_stays_with_it() {
    let cuts = |first, second| -> Vec<_> {
        let mut cutter = TsCutter::default();
        let tables = [one(), map_of(&[(MPEG2, VIDEO, b"")])].concat();
        let film = counted([tables, picture(first, 8), picture(second, 11)].concat());
        film.chunks(7)
            .map(|part| cutter.cut(&part.concat()))
            .map(|cut| (cut.starts, cut.ends, cut.class))
            .collect()
    };
    let (key, reference, disposable) = (Some(Class::Key), Some(Class::Reference), Some(Class::Disposable));
    let goes_with_first = [(true, false, key), (false, true, key), (true, true, reference)];
    assert_eq!(cuts(Class::Key, Class::Reference), goes_with_first);
    let goes_with_second = [(true, false, reference), (true, false, key), (false, true, key)];
    assert_eq!(cuts(Class::Reference, Class::Key), goes_with_second);
    let first = [(true, false, reference), (false, true, reference), (true, true, disposable)];
    assert_eq!(cuts(Class::Reference, Class::Disposable), first);
}

#[test]
fn the_reason_is_named_why_there_is_no_video() {
    let mut cutter = TsCutter::default();
    assert_eq!(cutter.finds_no_video(), Some(NoVideo::Packets));
    let mut feed = |packets: &[Vec<u8>]| {
        cutter.cut(&packets.concat());
        cutter.finds_no_video()
    };
    assert_eq!(feed(&[vec![1; 1_316]]), Some(NoVideo::Packets));
    assert_eq!(feed(&picture(Class::Key, 7)), Some(NoVideo::Tables));
    assert_eq!(feed(&one()), Some(NoVideo::Tables));
    assert_eq!(feed(&map_of(&[(AUDIO, SOUND, b"")])), Some(NoVideo::Format));
    assert_eq!(feed(&map_of(&[(MPEG2, VIDEO, b"")])), Some(NoVideo::Silent));
    assert_eq!(feed(&picture(Class::Key, 7)), None);
    assert_eq!(feed(&[vec![1; 1_000]]), Some(NoVideo::Packets));
    assert_eq!(feed(&picture(Class::Key, 7)), None);
}

/// Many programs with long maps: memory is bounded.
#[test]
fn tables_of_any_size_are_read() {
    let programs: Vec<_> = (1..=200).map(|n| (n, 0x100 + n)).collect();
    let (first, second) = programs.split_at(150);
    let streams: Vec<_> = (0..190).map(|n| (AUDIO, n, &b""[..])).collect();
    let mut packets = alone(0, 0, &[&pat_of([0, 1], first), &pat_of([1, 1], second)]);
    packets.extend(programs.iter().flat_map(|(number, map)| alone(*map, 0, &[&pmt(*number, &streams)])));
    packets.extend(alone(0x100 + 200, 0, &[&pmt(200, &[(MPEG2, 0x1abc, b"")])]));
    let mut cutter = TsCutter::default();
    for datagram in datagrams(&packets, 1_316) {
        cutter.cut(&datagram);
    }
    let cut = cutter.cut(&packet(0x1abc, true, &[0; 184]));
    assert!(cut.starts && !cut.apart, "{cut:?}");
}

proptest! {
    /// The output equals the input, for any cut of datagrams and any damage, and frames are found
    /// again.
    #[test]
    fn what_leaves_is_what_entered(
        sizes in prop::collection::vec(1..1_500usize, 1..40),
        holes in prop::collection::vec((0..90_000usize, 1..400usize), 0..3),
        media in prop::sample::select(vec![Media::Ts, Media::Auto, Media::Rtp]),
    ) {
        let mut stream = usual().concat();
        for (at, gone) in holes {
            stream.drain(at.min(stream.len())..(at + gone).min(stream.len()));
        }
        let (mut at, mut parts) = (0, Vec::new());
        for size in sizes.iter().cycle() {
            let end = (at + size).min(stream.len());
            parts.push(stream[at..end].to_vec());
            at = end;
            if at == stream.len() {
                break;
            }
        }
        let (counts, came) = blocks(media, &parts);
        prop_assert_eq!(came, parts);
        if media == Media::Ts && sizes.iter().all(|size| *size < 1_000) {
            prop_assert!(counts[&Class::Reference] + counts[&Class::Key] >= 18, "{:?}", counts);
        }
    }
}
