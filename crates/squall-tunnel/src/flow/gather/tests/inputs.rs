//! Inputs of flows, as sent by encoders, browsers and keepalives, and their treatment.

use squall_units::short::at_us;

use super::{super::*, flow};

/// Datagrams with the time of their arrival.
type Input = Vec<(u64, Vec<u8>)>;

/// Duration of a frame in microseconds.
const FRAME: u64 = 40_000;

/// Merges inputs, each shifted by its time.
fn at(parts: &[(u64, Input)]) -> Input {
    let shifted =
        parts.iter().flat_map(|(from, input)| input.iter().map(move |(at, data)| (from + at, data.clone())));
    let mut all: Input = shifted.collect();
    all.sort_by_key(|(at, _)| *at);
    all
}

fn rtp(kind: u8, ssrc: u8, sequence: usize, timestamp: u32, marker: bool, payload: &[u8]) -> Vec<u8> {
    let (sequence, marker) = ((sequence as u16).to_be_bytes(), if marker { 0x80 } else { 0 });
    let head = [&[0x80, kind | marker][..], &sequence, &timestamp.to_be_bytes(), &[0, 0, 0, ssrc]].concat();
    [&head, payload].concat()
}

/// Returns frames of H.264, every 25th with an IDR; four packets each, and two of parameters.
fn video(ssrc: u8, frames: usize) -> Input {
    let (mut all, mut sequence) = (Vec::new(), 65_500);
    for n in 0..frames {
        let is_key = n % 25 == 0;
        let parameters: &[&[u8]] = if is_key { &[&[0x67, 0x42, 0, 0x1f], &[0x68, 0xce, 6]] } else { &[] };
        let fragment = |part: u8| {
            let ends = [0x80, 0, 0, 0x40][usize::from(part)];
            [&[0x7c, ends | if is_key { 5 } else { 1 }, part, n as u8][..], &[0; 1_000]].concat()
        };
        let payloads = parameters.iter().map(|unit| unit.to_vec()).chain((0..4).map(fragment));
        let payloads: Vec<_> = payloads.collect();
        let timestamp = 3_000_000_000u32.wrapping_add(n as u32 * 3_600);
        for (k, payload) in payloads.iter().enumerate() {
            let marker = k + 1 == payloads.len();
            all.push((n as u64 * FRAME, rtp(96, ssrc, sequence, timestamp, marker, payload)));
            sequence += 1;
        }
    }
    all
}

/// Returns frames of one packet each, as from a low-resolution camera.
fn small_video(frames: usize) -> Input {
    let packet =
        |n: usize| rtp(96, 7, n, n as u32 * 3_600, true, &[&[0x41, n as u8][..], &[0x33; 200]].concat());
    (0..frames).map(|n| (n as u64 * FRAME, packet(n))).collect()
}

/// Returns audio packets of 20 ms: Opus with the given first byte.
fn opus(packets: usize, toc: u8) -> Input {
    let packet =
        |n: usize| rtp(111, 3, n, n as u32 * 960, n == 0, &[[toc, n as u8, 7, 9], [0x5a; 4]].concat());
    (0..packets).map(|n| (n as u64 * 20_000, packet(n))).collect()
}

/// Returns AAC (RFC 3640) of 44.1 kHz, whose timestamps were first rounded to milliseconds.
fn aac(packets: usize) -> Input {
    let packet = |n: usize| {
        let millis = n as u64 * 1_024_000 / 44_100;
        let timestamp = (millis * 441 / 10) as u32;
        (millis * 1_000, rtp(97, 4, n, timestamp, true, &[[0, 0x10, 0x0a, 0x98], [0x21; 4]].concat()))
    };
    (0..packets).map(packet).collect()
}

/// Returns the input with encrypted payloads.
fn encrypted(input: Input) -> Input {
    let mut seed = 1u32;
    let mut random = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as u8
    };
    let cipher = |(at, mut packet): (u64, Vec<u8>)| {
        packet[12..].iter_mut().for_each(|byte| *byte = random());
        (at, packet)
    };
    input.into_iter().map(cipher).collect()
}

/// Returns a retransmission of every eighth packet after 60 ms, as in RFC 4588.
fn retransmissions(of: &Input) -> Input {
    let again = of.iter().skip(5).step_by(8).enumerate().map(|(n, (at, packet))| {
        let timestamp = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
        (at + 60_000, rtp(98, 9, 7 + n, timestamp, false, &[&packet[2..4], &packet[12..]].concat()))
    });
    again.collect()
}

/// Returns a packet of parity for every four packets, as in RFC 5109.
fn parity(of: &Input) -> Input {
    let parity = of.chunks(4).enumerate().map(|(n, packets)| {
        let (at, first) = &packets[0];
        let timestamp = u32::from_be_bytes([first[4], first[5], first[6], first[7]]);
        let header = [&[0x40, 0x60 ^ n as u8], &first[2..4], &[0, 1, 2, 3, 1, 1, 3, 0xf0, 0, 0]].concat();
        (*at, rtp(99, 10, 1_000 + n, timestamp, false, &[&header[..], &[0x47; 300]].concat()))
    });
    parity.collect()
}

/// Returns two packets of padding after each frame.
fn padding(frames: usize) -> Input {
    let packet = |n: usize| {
        let mut packet = rtp(96, 7, 30_000 + n, 3_000_000_000 + (n as u32 / 2) * 3_600, false, &[]);
        packet[0] |= 0x20;
        packet.extend([0; 99].iter().chain(&[100]));
        (n as u64 / 2 * FRAME + 1_000, packet)
    };
    (0..2 * frames).map(packet).collect()
}

/// Returns a packet of a transport stream.
fn packet(pid: u16, starts: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x47, u8::from(starts) << 6 | (pid >> 8) as u8, pid as u8, 0x10];
    packet.extend(payload);
    packet.resize(188, 0x5a);
    packet
}

/// Returns a packet with a table and a valid checksum.
fn table(pid: u16, id: u8, body: &[u8]) -> Vec<u8> {
    let mut section = [&[id, 0xb0, body.len() as u8 + 9, 0, 1, 0xc1, 0, 0], body].concat();
    let crc = section.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 }
        })
    });
    section.extend(crc.to_be_bytes());
    section.insert(0, 0);
    section.resize(184, 0xff);
    packet(pid, true, &section)
}

/// Returns a transport stream of H.264 frames, every 25th with an IDR, each with audio. The map may
/// name only one of the two streams. Two datagrams per frame, and one of audio.
fn ts(frames: usize, names_video: bool) -> Input {
    let video: &[u8] = if names_video { &[0x1b, 0xe1, 1, 0xf0, 0] } else { &[] };
    let map = [&[0xe1, 1, 0xf0, 0], video, &[0x0f, 0xe1, 2, 0xf0, 0]].concat();
    let tables = [table(0, 0, &[0, 1, 0xe1, 0]), table(0x100, 2, &map)].concat();
    let mut all = Vec::new();
    for n in 0..frames {
        let unit: &[u8] = if n % 25 == 0 {
            &[0, 0, 1, 0x67, 0x42, 0, 0x1f, 0, 0, 1, 0x65, 1, 1, 1]
        } else {
            &[0, 0, 1, 0x41, 1, 1, 1]
        };
        let pes = [&[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0], unit].concat();
        let time = n as u64 * FRAME;
        let sound =
            [tables.clone(), packet(0x102, true, &[0, 0, 1, 0xc0, 0, 0, 0x80, 0, 0, 0xff, 0xf1])].concat();
        all.push((time, sound));
        all.push((
            time + 5_000,
            [packet(0x101, true, &pes), packet(0x101, false, &[1; 184]).repeat(6)].concat(),
        ));
        all.push((time + 10_000, packet(0x101, false, &[1; 184]).repeat(7)));
    }
    all
}

/// Repeats a datagram.
fn each(datagram: &[u8], times: usize, every: u64) -> Input {
    (0..times).map(|n| (n as u64 * every, datagram.to_vec())).collect()
}

fn stun(times: usize) -> Input {
    each(&[&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat(), times, 20_000)
}

fn reports(times: usize) -> Input {
    each(&[&[0x80, 201, 0, 7][..], &[1; 28]].concat(), times, 20_000)
}

/// Returns a datagram that begins with a "G", of the size of a packet.
fn g() -> Input {
    each(&[b'G'; 188], 1, 0)
}

/// Returns the treatment of an input: the media format, the number of blocks of each class (key,
/// reference, disposable, audio, data), and the problem.
fn pass(media: Media, input: &Input) -> (&'static str, [usize; 5], Option<String>) {
    let mut gatherer = Gatherer::new(&flow(media));
    let mut counts = [0; 5];
    let mut datagrams = 0;
    let mut out = |frame: Frame| {
        let at = Class::ALL.iter().position(|class| *class == frame.class).expect("is one");
        counts[at] += usize::from(frame.begins);
        datagrams += frame.datagrams as usize;
    };
    for (at, datagram) in input {
        let at = at_us(*at);
        gatherer.handle_timeout(at, &mut out);
        gatherer.push(at, datagram, &mut out);
    }
    gatherer.close(&mut out);
    assert_eq!(datagrams, input.len());
    (gatherer.media().name(), counts, gatherer.problem().map(|problem| problem.to_string()))
}

const SECOND: u64 = 1_000_000;

#[test]
fn classes_follow_the_input() {
    use Media::{Auto, H264, Ts};
    let beside = |other: Input| at(&[(0, video(7, 100)), (3_000, other)]);
    let rtx = |of: Input| at(&[(0, of.clone()), (1_000, retransmissions(&of))]);
    let fec = |of: Input| at(&[(0, of.clone()), (1_000, parity(&of))]);
    let rows: &[(&str, Media, Input, &str, [usize; 5])] = &[
        ("TS", Auto, ts(100, true), "ts", [4, 96, 0, 100, 0]),
        ("RTP", Auto, video(7, 100), "rtp", [0, 100, 0, 0, 3]),
        (
            "RTP after TS",
            Auto,
            at(&[(0, ts(100, true)), (4 * SECOND, video(7, 100))]),
            "rtp",
            [4, 181, 0, 100, 63],
        ),
        (
            "TS after RTP",
            Auto,
            at(&[(0, video(7, 100)), (4 * SECOND, ts(100, true))]),
            "ts",
            [3, 176, 0, 79, 66],
        ),
        ("STUN, TS", Auto, at(&[(0, stun(200)), (4 * SECOND, ts(100, true))]), "ts", [4, 96, 0, 100, 200]),
        ("STUN, RTP", Auto, at(&[(0, stun(200)), (4 * SECOND, video(7, 100))]), "rtp", [0, 100, 0, 0, 203]),
        (
            "RTCP, RTP",
            Auto,
            at(&[(0, reports(200)), (4 * SECOND, video(7, 100))]),
            "rtp",
            [0, 100, 0, 0, 203],
        ),
        (
            "text, TS",
            Auto,
            at(&[(0, each(b"hello, world", 200, 20_000)), (4 * SECOND, ts(100, true))]),
            "ts",
            [4, 96, 0, 100, 200],
        ),
        ("a G, RTP", Auto, at(&[(0, g()), (SECOND, video(7, 100))]), "rtp", [0, 100, 0, 0, 4]),
        ("a G in RTP", Auto, at(&[(0, video(7, 100)), (SECOND, g())]), "rtp", [0, 100, 0, 0, 4]),
        (
            "a burst of RTP in TS",
            Auto,
            at(&[(0, ts(100, true)), (SECOND + 20_000, video(7, 1))]),
            "ts",
            [4, 96, 0, 100, 0],
        ),
        (
            "a burst of text in RTP",
            H264,
            at(&[(0, video(7, 100)), (SECOND + 20_000, each(b"hello, world", 50, 100))]),
            "h264",
            [4, 96, 0, 0, 50],
        ),
        (
            "silence, then other RTP",
            H264,
            at(&[(0, video(7, 100)), (9 * SECOND, video(8, 100))]),
            "h264",
            [8, 192, 0, 0, 0],
        ),
        ("STUN in RTP", H264, beside(stun(200)), "h264", [4, 96, 0, 0, 200]),
        ("Opus beside", H264, beside(opus(200, 0xfc)), "h264", [4, 99, 0, 197, 0]),
        ("Opus that looks like a slice", H264, beside(opus(200, 0x41)), "h264", [4, 99, 0, 197, 0]),
        ("Opus that looks like parameters", H264, beside(opus(200, 0x48)), "h264", [7, 96, 0, 197, 0]),
        ("AAC beside", H264, beside(aac(172)), "h264", [4, 99, 0, 169, 0]),
        (
            "Opus first",
            Auto,
            at(&[(0, opus(200, 0xfc)), (4 * SECOND, video(7, 100))]),
            "rtp",
            [0, 103, 0, 194, 3],
        ),
        ("Opus alone", Auto, opus(200, 0xfc), "rtp", [0, 3, 0, 194, 3]),
        ("AAC alone", Auto, aac(172), "rtp", [0, 3, 0, 166, 3]),
        ("a small video alone", Auto, small_video(100), "rtp", [0, 97, 0, 0, 3]),
        ("RTX", H264, rtx(video(7, 100)), "h264", [4, 97, 50, 0, 0]),
        ("RTX, codec unknown", Auto, rtx(video(7, 100)), "rtp", [0, 101, 50, 0, 3]),
        ("parity", H264, fec(video(7, 100)), "h264", [4, 99, 99, 0, 0]),
        ("parity, codec unknown", Auto, fec(video(7, 100)), "rtp", [0, 102, 99, 0, 3]),
        ("padding", H264, at(&[(0, video(7, 100)), (0, padding(100))]), "h264", [4, 96, 200, 0, 0]),
        ("two cameras", H264, at(&[(0, video(7, 100)), (20_000, video(8, 100))]), "h264", [8, 192, 0, 0, 0]),
        (
            "two cameras, codec unknown",
            Auto,
            at(&[(0, video(7, 100)), (20_000, video(8, 100))]),
            "rtp",
            [0, 200, 0, 0, 3],
        ),
        ("TS, not the codec", H264, ts(100, true), "h264", [0, 0, 0, 0, 300]),
        ("the codec, no TS", Ts, video(7, 100), "ts", [0, 0, 0, 0, 408]),
    ];
    let mut wrong = Vec::new();
    for (name, media, input, detected, counts) in rows {
        let (came, classes, _) = pass(*media, input);
        if (came, classes) != (*detected, *counts) {
            wrong.push(format!("{name}: {came} {classes:?}, not {detected} {counts:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_no_video_is_found_in_has_a_remedy() {
    use Media::{Audio, Auto, H264, H265, Ts, Udp};
    let text = || each(b"hello, world, is this media?", 100, 20_000);
    let rows: &[(&str, Media, Input, Option<&str>)] = &[
        ("plain", Udp, text(), None),
        ("video", H264, video(7, 100), None),
        ("video, codec unknown", Auto, video(7, 100), None),
        ("TS", Auto, ts(100, true), None),
        ("sound", Auto, opus(200, 0xfc), None),
        ("sound", Audio, opus(200, 0xfc), None),
        ("half a second", H264, ts(13, true), None),
        ("keepalives", H264, stun(200), None),
        ("keepalives", Auto, reports(200), None),
        ("a camera that pauses", H264, at(&[(0, video(7, 10)), (0, opus(200, 0xfc))]), None),
        ("video at last", H264, at(&[(0, opus(200, 0xfc)), (4 * SECOND, video(7, 10))]), None),
        ("text", Auto, text(), Some("pkt_size=1316")),
        ("text", Ts, text(), Some("media=auto")),
        ("text", H264, text(), Some("media=udp")),
        ("TS", H264, ts(100, true), Some("set media=ts")),
        ("TS", Audio, ts(100, true), Some("set media=ts")),
        ("RTP", Ts, video(7, 100), Some("RTP is found")),
        ("another codec", H265, video(7, 100), Some("no h265 is found in its RTP")),
        ("encrypted", H264, encrypted(video(7, 100)), Some("or media=rtp")),
        ("encrypted", Auto, encrypted(video(7, 100)), None),
        ("sound", H264, opus(200, 0xfc), Some("no h264 is found in its RTP")),
        ("TS without video", Ts, ts(100, false), Some("no video is found: ")),
        ("TS without video", Auto, ts(100, false), Some("no video is found: ")),
    ];
    for (name, media, input, words) in rows {
        let (.., problem) = pass(*media, input);
        let is_right = match words {
            Some(words) => problem.as_ref().is_some_and(|problem| problem.contains(words)),
            None => problem.is_none(),
        };
        assert!(is_right, "{name} as {}: {problem:?}, not {words:?}", media.name());
    }
}

#[test]
fn the_video_of_each_codec_is_found_beside_sound() {
    use Media::{Av1, H265, Vp8, Vp9};
    // First bytes of a key picture, of another picture, and of the rest of each.
    type Heads = [&'static [u8]; 4];
    let rows: [(Media, Heads); 4] = [
        (H265, [&[0x62, 1, 0x93], &[0x62, 1, 0x13], &[0x62, 1, 0x81], &[0x62, 1, 0x01]]),
        (Vp8, [&[0x10, 0x50], &[0x00, 0x11], &[0x10, 0x51], &[0x00, 0x12]]),
        (Vp9, [&[0x0c, 0x82], &[0x00, 0x11], &[0x48, 0x86], &[0x40, 0x12]]),
        (Av1, [&[0x18, 0x0a], &[0x90, 0x11], &[0x10, 0x30, 0x30], &[0x90, 0x12]]),
    ];
    for (media, heads) in rows {
        let mut video = Vec::new();
        for n in 0..100 {
            for k in 0..4 {
                let head = heads[usize::from(n % 25 != 0) * 2 + usize::from(k != 0)];
                let payload = [head, &[0x5a; 900]].concat();
                video.push((n as u64 * FRAME, rtp(96, 7, 4 * n + k, n as u32 * 3_600, k == 3, &payload)));
            }
        }
        for sound in [opus(200, 0xfc), opus(200, 0x78), aac(172)] {
            let count = sound.len();
            let input = at(&[(0, video.clone()), (3_000, sound)]);
            let (came, [key, reference, others @ ..], problem) = pass(media, &input);
            // The clock of the audio is detected after four packets.
            let counts = (key + reference, others);
            assert_eq!((came, counts, problem), (media.name(), (103, [0, count - 3, 0]), None));
        }
    }
}
