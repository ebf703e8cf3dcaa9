use std::fmt::Write as _;

use proptest::prelude::*;
use squall_sched::BlockId;
use squall_signal::AlertKind;
use squall_units::short::{at_ms, at_us};

use super::*;
use crate::{RateLimit, Role};

/// Datagrams and their items; `docs/wire.md` has the same.
fn vectors() -> Vec<(&'static str, Vec<Item<'static>>)> {
    let data = Data {
        block: 1,
        reliable: true,
        partial: false,
        previous: None,
        priority: 0,
        offset: 0,
        total: Some(5),
        channel: 0,
        left: None,
        sent: Stamp::at(at_us(0)),
    };
    let growing = Data { total: None, ..data.clone() };
    let partial = Data { partial: true, reliable: false, ..data.clone() };
    let end = Data { offset: 5, ..data.clone() };
    let frame = Data {
        block: 15_293,
        reliable: false,
        partial: false,
        previous: Some(1),
        priority: 3,
        offset: 1200,
        total: Some(3000),
        channel: 7,
        left: Some(99_840),
        sent: Stamp::at(at_ms(1_000)),
    };
    let cancel =
        Cancel { block: 15_293, reason: CancelReason::Expired, priority: 3, channel: 7, previous: Some(1) };
    let unordered = Cancel { block: 2, reason: CancelReason::Lost, priority: 0, channel: 0, previous: None };
    let feedback = Feedback {
        sequence: 9,
        credit: 65_536,
        duplicates: 1200,
        expired: 2,
        samples: vec![
            Sample { path: 0, delay: 3750, departure: Some(Stamp::at(at_ms(1_000))), received: 2 },
            Sample { path: 1, delay: 10_000, departure: Some(Stamp::at(at_us(40))), received: 3 },
        ],
        wanted: None,
    };
    let feedback_wanted = Feedback { wanted: Some(3_000_000), ..feedback.clone() };
    let mut feedback_before = feedback.clone();
    feedback_before.samples.iter_mut().for_each(|sample| sample.departure = None);
    let ordered = Data { offset: 0, total: Some(2), reliable: false, ..frame.clone() };
    let repair = Repair { block: data.clone(), symbol_size: 6, index: 0 };
    let late = Repair { block: ordered, symbol_size: 2, index: 7 };
    let run = |left, sent, symbol_size, index, blocks: &[u64]| {
        let members = blocks.iter().zip([left, None]).map(|(block, left)| Member { block: *block, left });
        RunParity { members: members.collect(), sent, symbol_size, index }
    };
    let of_one = run(None, Stamp::at(at_us(0)), 14, 0, &[1]);
    let of_two = run(Some(99_840), Stamp::at(at_ms(1_000)), 2, 7, &[15_293, 15_295]);
    let alert = PathAlert { path: 1, kind: AlertKind::Outage, quality: 180, gap: 104, sequence: 9 };
    let probe = Item::Probe(1, Stamp::at(at_ms(1_000)));
    vec![
        ("30 01 00 05 00 00 000000 68656c6c6f", vec![Item::Data(data.clone(), b"hello")]),
        ("2b 7bbd 01 44b0 4bb8 07 4187 03d090 616263", vec![Item::Data(frame, b"abc")]),
        ("30 01 00 00 00 00 000000 68656c6c6f", vec![Item::Data(growing, b"hello")]),
        ("4060 01 00 05 00 00 000000 68656c6c6f", vec![Item::Data(partial, b"hello")]),
        ("30 01 05 05 00 00 000000", vec![Item::Data(end, b"")]),
        ("01 06 7bbd 01 03 07 02", vec![Item::Cancel(cancel)]),
        ("01 05 02 02 00 00 00", vec![Item::Cancel(unordered)]),
        ("02 02 05 01", vec![Item::Refused(5, RefuseReason::NoMemory)]),
        ("04 13 09 80010000 44b0 02 02 00000ea602 0100271003", vec![Item::Feedback(feedback_before)]),
        ("04 19 09 80010000 44b0 02 02 00000ea602 0100271003 03d090 00000a", vec![Item::Feedback(feedback)]),
        (
            "04 1d 09 80010000 44b0 02 02 00000ea602 0100271003 03d090 00000a 802dc6c0",
            vec![Item::Feedback(feedback_wanted)],
        ),
        ("05 04 01 03d090", vec![probe.clone()]),
        ("06 04 01 03d090", vec![Item::ProbeReply(1, Stamp::at(at_ms(1_000)))]),
        (
            "07 03 01 01 04",
            vec![Item::PathInfo(PathInfo {
                path: 1,
                metered: true,
                role: Role::Primary,
                limit: None,
                sequence: 4,
            })],
        ),
        (
            "07 03 03 02 09",
            vec![Item::PathInfo(PathInfo {
                path: 3,
                metered: false,
                role: Role::Backup,
                limit: None,
                sequence: 9,
            })],
        ),
        (
            "07 09 03 05 0a 803d0900 6000",
            vec![Item::PathInfo(PathInfo {
                path: 3,
                metered: true,
                role: Role::Repair,
                limit: Some(RateLimit { bits_per_second: 4_000_000, burst: 8192 }),
                sequence: 10,
            })],
        ),
        ("03 07 01 01 40b4 4068 09", vec![Item::PathAlert(alert)]),
        ("08 04 01 44b0 05", vec![Item::PathLoss(PathLoss { path: 1, acked: 1200, lost: 5 })]),
        (
            "07 04 02 00 4100",
            vec![Item::PathInfo(PathInfo {
                path: 2,
                metered: false,
                role: Role::Primary,
                limit: None,
                sequence: 256,
            })],
        ),
        ("09 02 05 00", vec![Item::Stalled(Stalled { block: 5, more: 0 })]),
        ("09 03 7bbd 05", vec![Item::Stalled(Stalled { block: 15_293, more: 5 })]),
        ("0a 10 10 01 05 00 00 000000 06 00 68656c6c6f00", vec![Item::Repair(repair, b"hello\0")]),
        ("0a 0f 0b 7bbd 01 02 07 4187 03d090 02 07 abcd", vec![Item::Repair(late, &[0xab, 0xcd])]),
        (
            "0b 16 000000 01 0e 00 01 00 1001050000000000 68656c6c6f00",
            vec![Item::RunParity(of_one, b"\x10\x01\x05\0\0\0\0\0hello\0")],
        ),
        ("0b 0e 03d090 02 02 07 7bbd 4187 01 00 abcd", vec![Item::RunParity(of_two, &[0xab, 0xcd])]),
        ("0c 01 05", vec![Item::Rebuilt(5)]),
        (
            "05 04 01 03d090 02 02 05 00 30 01 00 05 00 00 000000 68656c6c6f",
            vec![probe, Item::Refused(5, RefuseReason::TooLarge), Item::Data(data, b"hello")],
        ),
    ]
}

/// Datagrams that end a session, and the reasons; `docs/wire.md` has the same.
fn bad_vectors() -> Vec<(&'static str, WireError)> {
    vec![
        ("05 04 01 03d0", WireError::Truncated),
        ("05 03 01 03d0", WireError::Truncated),
        ("30 01 00 05 00 00 0000", WireError::Truncated),
        ("30 01 00 81000001 00 00 000000 ff", WireError::BlockTooLong(16_777_217)),
        ("30 01 03 05 00 00 000000 616263", WireError::ChunkOutside { offset: 3, len: 3, total: 5 }),
        ("30 01 00 05 00 00 000000", WireError::Empty),
        ("30 01 00 00 00 00 000000", WireError::Empty),
        (
            "30 01 81000000 00 00 00 000000 ff",
            WireError::ChunkOutside { offset: 16_777_216, len: 1, total: 16_777_216 },
        ),
        ("30 01 00 05 4400 00 000000 ff", WireError::BadChannel(1024)),
        ("01 05 02 00 08 00 00", WireError::BadPriority),
        ("38 01 02 00 05 00 00 000000 ff", WireError::BadPrevious { block: 1, back: 2 }),
        ("01 05 02 00 00 00 04", WireError::BadPrevious { block: 2, back: 3 }),
        ("01 05 02 03 00 00 00", WireError::BadReason(3)),
        ("02 02 05 03", WireError::BadReason(3)),
        ("04 05 01 00 00 00 11", WireError::TooManySamples(17)),
        ("04 11 01 00 00 00 01 c000000100000000 000000 01", WireError::BadPath(1 << 32)),
        ("07 0a c000000100000000 01 04", WireError::BadPath(1 << 32)),
        ("07 02 01 01", WireError::Truncated),
        ("08 0a c000000100000000 01 04", WireError::BadPath(1 << 32)),
        ("08 02 01 01", WireError::Truncated),
        ("03 05 01 03 00 00 09", WireError::BadAlert(3)),
        ("09 01 05", WireError::Truncated),
        ("0a 0f 10 01 05 00 00 000000 06 00 0000000000", WireError::Truncated),
        ("0a 10 10 01 00 00 00 000000 06 00 000000000000", WireError::Empty),
        (
            "0a 0f 10 01 05 00 00 000000 05 00 0000000000",
            WireError::BadSymbol { index: 0, size: 5, total: 5 },
        ),
        (
            "0a 12 10 01 05 00 00 000000 08 00 0000000000000000",
            WireError::BadSymbol { index: 0, size: 8, total: 5 },
        ),
        (
            "0a 10 10 01 05 00 00 000000 06 08 000000000000",
            WireError::BadSymbol { index: 8, size: 6, total: 5 },
        ),
        ("0a 0e 10 01 05 00 00 000000 04 00 00000000", WireError::BadSymbol { index: 0, size: 4, total: 5 }),
        ("0a 0a 10 01 05 00 00 000000 00 00", WireError::BadSymbol { index: 0, size: 0, total: 5 }),
        ("0b 08 000000 00 02 00 00 00", WireError::BadRun { blocks: 0, size: 2, index: 0 }),
        ("0b 08 000000 01 03 00 00 00", WireError::BadRun { blocks: 1, size: 3, index: 0 }),
        ("0b 08 000000 01 02 08 00 00", WireError::BadRun { blocks: 1, size: 2, index: 8 }),
        ("0b 09 000000 01 02 00 05 00 aa", WireError::Truncated),
        ("03 06 01 00 43e9 00 09", WireError::BadQuality(1001)),
        ("03 06 01 00 00 43e9 09", WireError::BadQuality(1001)),
    ]
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn decode(datagram: &[u8]) -> Result<Vec<Item<'_>>, WireError> {
    Items::of(datagram).collect()
}

fn encode(items: &[Item<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    items.iter().for_each(|item| item.encode(&mut out));
    out
}

#[test]
fn vectors_decode_and_encode() {
    for (hex, items) in vectors() {
        assert_eq!(decode(&bytes(hex)).as_ref(), Ok(&items), "{hex}");
        assert_eq!(encode(&items), bytes(hex), "{hex}");
    }
}

#[test]
fn bad_vectors_fail_with_their_reason() {
    for (hex, error) in bad_vectors() {
        assert_eq!(decode(&bytes(hex)), Err(error), "{hex}");
    }
}

#[test]
fn the_specification_has_these_vectors() {
    let specification = include_str!("../../../../docs/wire.md");
    let mut missing = String::new();
    let bad = bad_vectors().into_iter().map(|(hex, error)| (hex, error.to_string()));
    for (hex, words) in vectors().into_iter().map(|(hex, _)| (hex, String::new())).chain(bad) {
        let row = specification.lines().find(|line| line.contains(&format!("`{hex}`")));
        if !row.is_some_and(|row| row.contains(&words)) {
            let _ = writeln!(missing, "`{hex}` {words}");
        }
    }
    assert!(missing.is_empty(), "docs/wire.md lacks:\n{missing}");
}

/// Items of earlier releases and this one: the text of each file in `tests/vectors`.
const RELEASES: &[&str] = &[include_str!("../../tests/vectors/0.1.0.txt")];

/// Returns the name of an item in `docs/wire.md`.
fn name(item: &Item<'_>) -> &'static str {
    match item {
        Item::Data(..) => "DATA",
        Item::Cancel(_) => "CANCEL",
        Item::Refused(..) => "REFUSED",
        Item::Feedback(_) => "FEEDBACK",
        Item::Probe(..) => "PROBE",
        Item::ProbeReply(..) => "PROBE_REPLY",
        Item::PathInfo(_) => "PATH_INFO",
        Item::PathAlert(_) => "PATH_ALERT",
        Item::PathLoss(_) => "PATH_LOSS",
        Item::Stalled(_) => "STALLED",
        Item::Repair(..) => "REPAIR",
        Item::RunParity(..) => "RUN_PARITY",
        Item::Rebuilt(_) => "REBUILT",
    }
}

#[test]
fn items_of_every_release_are_read() {
    for text in RELEASES {
        let rows = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("HELLO"));
        let mut kinds = std::collections::BTreeSet::new();
        for row in rows {
            let (names, hex) = row.split_once(": ").expect("is a row");
            let datagram = bytes(hex);
            let items = decode(&datagram).unwrap_or_else(|error| panic!("{row}: {error}"));
            assert_eq!(items.iter().map(name).collect::<Vec<_>>().join(" "), names, "{row}");
            // The present encoding of it has the same meaning.
            let again = encode(&items);
            assert_eq!(decode(&again), Ok(items), "{row}");
            kinds.extend(names.split(' '));
        }
        assert!(kinds.len() >= 13, "the file lacks items: {kinds:?}");
    }
}

#[test]
fn unknown_items_and_fields_are_skipped() {
    // A reserved type, a later type of two bytes, and a PROBE with a field too many.
    let datagram = bytes("1f 02 ffff 4100 00 05 06 01 03d090 abcd 02 02 05 01");
    let known = vec![Item::Probe(1, Stamp::at(at_ms(1_000))), Item::Refused(5, RefuseReason::NoMemory)];
    assert_eq!(decode(&datagram), Ok(known));
    assert_eq!(decode(&bytes("1f 05 ffff")), Err(WireError::Truncated));
}

#[test]
fn padding_is_skipped() {
    for size in 3..1_500 {
        let datagram = padding(size).expect("padding");
        assert_eq!((datagram.len(), Items::of(&datagram).count()), (size, 0));
    }
    assert_eq!(padding(2), None, "too short for an item with a length of two bytes");
}

#[test]
fn unknown_flags_of_a_path_are_ignored() {
    let read = |flags: &str| match decode(&bytes(&format!("07 06 01 {flags} 04"))).as_deref() {
        Ok([Item::PathInfo(info)]) => (info.metered, info.role),
        other => panic!("{other:?}"),
    };
    assert_eq!(read("80ff0001"), (true, Role::Primary));
    assert_eq!(read("bffffff8"), (false, Role::Primary));
    assert_eq!(read("bffffffe"), (false, Role::Repair), "both bits: the later role");
}

#[test]
fn stalls_name_a_block_and_some_of_the_next() {
    let mut stalled = Stalled::new(BlockId(5));
    let added = [6, 8, 67, 68, 5, 4].map(|id| stalled.add(BlockId(id)));
    assert_eq!(added, [true, true, true, false, false, false]);
    assert_eq!(stalled.blocks().map(|id| id.0).collect::<Vec<_>>(), [5, 6, 8, 67]);
    assert_eq!(stalled.more, 0b101 | 1 << 61);
    let all = Stalled { block: varint::MAX, more: varint::MAX };
    assert_eq!(
        (all.blocks().count(), decode(&encode(&[Item::Stalled(all)]))),
        (63, Ok(vec![Item::Stalled(all)]))
    );
}

#[test]
fn nothing_follows_an_error() {
    let datagram = bytes("02 02 05 07 02 02 05 01");
    let mut items = Items::of(&datagram);
    assert_eq!(items.next(), Some(Err(WireError::BadReason(7))));
    assert_eq!(items.next(), None);
}

#[test]
fn deadlines_round_down_and_do_not_overflow() {
    let left = |micros| {
        let data = Data { left: Some(micros), ..small_data() };
        let encoded = encode(&[Item::Data(data, b"x")]);
        match decode(&encoded).as_deref() {
            Ok([Item::Data(data, _)]) => data.left,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(left(0), Some(0));
    assert_eq!(left(255), Some(0));
    assert_eq!(left(256), Some(256));
    assert_eq!(left(u64::MAX), Some(u64::MAX - 255));
    // The largest value of the field.
    let datagram = bytes("30 01 00 05 00 ffffffffffffffff 000000 ff");
    assert!(
        matches!(&decode(&datagram).as_deref(), Ok([Item::Data(data, _)]) if data.left == Some(u64::MAX - 255))
    );
}

#[test]
fn more_samples_than_allowed_are_not_sent() {
    let samples = (0..40)
        .map(|path| Sample { path, delay: 0, departure: Some(Stamp::at(at_us(0))), received: 1 })
        .collect();
    let datagram = encode(&[Item::Feedback(Feedback { samples, ..Feedback::default() })]);
    let items = decode(&datagram);
    assert!(matches!(items.as_deref(), Ok([Item::Feedback(f)]) if f.samples.len() == 16));
}

#[test]
fn stamps_wrap() {
    let wrap = TICK << 24;
    assert_eq!(Stamp::at(at_us(wrap)), Stamp::at(at_us(0)));
    assert_eq!(Stamp::at(at_us(wrap + 40)).since(Stamp::at(at_us(wrap - 40))), 20);
    assert_eq!(Stamp::at(at_us(0)).since(Stamp::at(at_us(TICK))), 0xff_ffff);
}

#[test]
fn the_headers_of_a_block_have_one_length_with_even_offsets() {
    for total in [60u32, 8_333, 64_000, MAX_BLOCK] {
        let chunk = |offset| Data { offset, total: Some(total), ..small_data() };
        let written = [0, 50, total / 2, total - 1].map(|offset| {
            let (data, mut datagram) = (chunk(offset), Vec::new());
            data.encode_with(data.even_offset_len(), &[7], &mut datagram);
            assert_eq!(decode(&datagram), Ok(vec![Item::Data(data, &[7])]));
            datagram.len()
        });
        assert!(written.iter().all(|len| *len == written[0]), "{total}: {written:?}");
    }
}

#[test]
fn the_largest_header_is_as_long_as_reserved() {
    let data = Data {
        block: varint::MAX,
        previous: Some(varint::MAX),
        offset: MAX_BLOCK - 1,
        total: Some(MAX_BLOCK),
        channel: MAX_CHANNELS - 1,
        left: Some(u64::MAX),
        ..small_data()
    };
    assert_eq!(data.header_len(data.offset_len()), MAX_DATA_HEADER);
    let block = Data { offset: 0, partial: true, ..data };
    let repair = Repair { block, symbol_size: MAX_SYMBOL, index: 255 };
    assert_eq!(repair.header_len(), MAX_REPAIR_HEADER);
    assert_eq!(encode(&[Item::Repair(repair.clone(), &[0; 2048])]).len(), repair.header_len() + 2048);
}

#[test]
fn symbols_have_bounds() {
    let symbol = |total, symbol_size, index| {
        let repair = Repair { block: Data { total: Some(total), ..small_data() }, symbol_size, index };
        let payload = vec![7; symbol_size as usize];
        decode(&encode(&[Item::Repair(repair, &payload)])).is_ok()
    };
    assert!(symbol(1, 2, 7) && symbol(2048, 2048, 0) && symbol(1024 * 2048, 2048, 255) && symbol(128, 64, 0));
    assert!(!symbol(2047, 2050, 0) && !symbol(4000, 2050, 0), "too large");
    assert!(!symbol(1024 * 2048 + 1, 2048, 0) && !symbol(65_537, 64, 0), "too many");
    assert!(!symbol(124, 62, 0), "small ones take much memory beside them");
    assert!(!symbol(1024 * 2048, 2048, 256) && !symbol(32 * 64, 64, 8) && symbol(33 * 64, 64, 8));
}

#[test]
fn runs_have_bounds() {
    let run = |blocks: &[u64], symbol_size, index| {
        let members = blocks.iter().map(|block| Member { block: *block, left: None });
        let run = RunParity { members: members.collect(), sent: Stamp::at(at_us(0)), symbol_size, index };
        decode(&encode(&[Item::RunParity(run, &vec![7; symbol_size as usize])])).is_ok()
    };
    let ids: Vec<u64> = (0..33).collect();
    assert!(
        run(&ids[..32], 2048, 7) && !run(&ids, 2, 0) && !run(&ids[..1], 2050, 0) && !run(&ids[..1], 0, 0)
    );
    assert!(run(&[0, varint::MAX], 2, 0));
    // The second is one beyond the largest id.
    let beyond = "0b 11 000000 02 02 00 ffffffffffffffff 00 00 00 aaaa";
    assert_eq!(decode(&bytes(beyond)), Err(WireError::BadRun { blocks: 2, size: 2, index: 0 }));
}

#[test]
fn a_member_of_a_run_is_its_header_and_its_bytes() {
    let data = Data { left: Some(5_120), sent: Stamp::at(at_us(99)), previous: Some(1), ..small_data() };
    let symbol = Member::write(&data, b"hello");
    let same = Data { left: None, sent: Stamp::at(at_us(0)), ..data };
    assert_eq!(Member::read(&[symbol.as_slice(), &[0; 3]].concat()), Some((same, b"hello".as_slice())));
    assert_eq!(Member::read(&symbol[..symbol.len() - 1]), None, "too short for its length");
    assert_eq!(Member::read(&[0; 20]), None, "no length");
}

fn small_data() -> Data {
    Data {
        block: 1,
        reliable: true,
        partial: false,
        previous: None,
        priority: 0,
        offset: 0,
        total: Some(5),
        channel: 0,
        left: None,
        sent: Stamp::at(at_us(0)),
    }
}

fn any_stamp() -> impl Strategy<Value = Stamp> {
    any::<u32>().prop_map(|ticks| Stamp(ticks & TICK_MASK))
}

fn any_id() -> impl Strategy<Value = u64> {
    prop_oneof![0..100u64, 0..=varint::MAX]
}

/// Generates a valid header with the payload's length.
fn any_data() -> impl Strategy<Value = (Data, usize)> {
    let place = (1..=MAX_BLOCK).prop_flat_map(|total| {
        (Just(total), 0..total).prop_flat_map(|(total, offset)| {
            (Just(Some(total)), Just(offset), 1..=(total - offset).min(1300) as usize)
        })
    });
    let open = (0..MAX_BLOCK - 1300, 1..=1300usize).prop_map(|(offset, len)| (None, offset, len));
    let end = (1..=MAX_BLOCK).prop_map(|total| (Some(total), total, 0));
    let place = prop_oneof![6 => place, 2 => open, 1 => end];
    let order = any_id().prop_flat_map(|block| (Just(block), prop::option::of(0..=block)));
    let rest =
        (any::<[bool; 2]>(), 0..PRIORITIES, 0..MAX_CHANNELS, prop::option::of(any::<u64>()), any_stamp());
    (order, place, rest).prop_map(|((block, previous), (total, offset, len), rest)| {
        let ([reliable, partial], priority, channel, left, sent) = rest;
        let left = left.map(|left| left & !0xff);
        (Data { block, reliable, partial, previous, priority, offset, total, channel, left, sent }, len)
    })
}

/// Generates a valid header of parity; the payload has the size of a symbol.
fn any_repair() -> impl Strategy<Value = Item<'static>> {
    let symbol = (32..=650u32, 1..=20u32, 0..64u32, 0..8u32);
    (any_data(), symbol).prop_map(|((data, _), (half, symbols, short, index))| {
        let symbol_size = 2 * half;
        let short = if symbols == 1 { short % 2 } else { short };
        let block = Data { offset: 0, total: Some(symbols * symbol_size - short), ..data };
        Item::Repair(Repair { block, symbol_size, index }, &PAYLOAD[..symbol_size as usize])
    })
}

/// Generates parity over a run; the payload has the size of a symbol.
fn any_run() -> impl Strategy<Value = Item<'static>> {
    let member = (0..1u64 << 40, prop::option::of(any::<u64>()));
    let members = prop::collection::vec(member, 1..=32).prop_map(|members| {
        let next = |at: &mut u64, (beyond, left): (u64, Option<u64>)| {
            *at += beyond + 1;
            Some(Member { block: *at, left: left.map(|left| left & !0xff) })
        };
        members.into_iter().scan(0, next).collect()
    });
    (members, any_stamp(), 1..=650u32, 0..8u32).prop_map(|(members, sent, half, index)| {
        let run = RunParity { members, sent, symbol_size: 2 * half, index };
        Item::RunParity(run, &PAYLOAD[..2 * half as usize])
    })
}

fn any_alert() -> impl Strategy<Value = Item<'static>> {
    let kind = prop::sample::select(vec![AlertKind::Warning, AlertKind::Outage, AlertKind::Recovery]);
    (any::<u32>(), kind, 0..=1000u16, 0..=1000u16, any_id()).prop_map(
        |(path, kind, quality, gap, sequence)| {
            Item::PathAlert(PathAlert { path, kind, quality, gap, sequence })
        },
    )
}

fn any_control() -> impl Strategy<Value = Item<'static>> {
    use CancelReason::{Cancelled, Expired, Lost};
    use RefuseReason::{NoMemory, TooLarge, TooManyBlocks};
    let order =
        any_id().prop_flat_map(|block| (Just(block), prop::option::of(0..=block.min(varint::MAX - 1))));
    let reason = prop::sample::select(vec![Cancelled, Expired, Lost]);
    let cancel = (order, reason, 0..PRIORITIES, 0..MAX_CHANNELS).prop_map(
        |((block, previous), reason, priority, channel)| {
            Item::Cancel(Cancel { block, reason, priority, channel, previous })
        },
    );
    let departure = any_stamp().prop_map(Some);
    let sample = (any::<u32>(), 0..=TICK_MASK, departure, any::<u32>())
        .prop_map(|(path, delay, departure, received)| Sample { path, delay, departure, received });
    let samples = prop::collection::vec(sample, 0..=16);
    let wanted = prop::option::of(0..=varint::MAX);
    let feedback = (any_id(), any_id(), any_id(), any_id(), samples, wanted).prop_map(
        |(sequence, credit, duplicates, expired, samples, wanted)| {
            Item::Feedback(Feedback { sequence, credit, duplicates, expired, samples, wanted })
        },
    );
    let limit =
        (any_id(), any_id()).prop_map(|(bits_per_second, burst)| RateLimit { bits_per_second, burst });
    let limit = prop::option::of(limit);
    prop_oneof![
        cancel,
        (any_id(), prop::sample::select(vec![TooLarge, NoMemory, TooManyBlocks]))
            .prop_map(|(block, reason)| Item::Refused(block, reason)),
        feedback,
        (any_id(), any_stamp()).prop_map(|(id, stamp)| Item::Probe(id, stamp)),
        (any_id(), any_stamp()).prop_map(|(id, stamp)| Item::ProbeReply(id, stamp)),
        (any::<u32>(), any::<bool>(), prop::sample::select(Role::ALL.to_vec()), limit, any_id()).prop_map(
            |(path, metered, (_, role), limit, sequence)| {
                Item::PathInfo(PathInfo { path, metered, role, limit, sequence })
            }
        ),
        any_alert(),
        any_repair(),
        any_run(),
        any_id().prop_map(Item::Rebuilt),
        (any::<u32>(), any_id(), any_id()).prop_map(|(path, acked, lost)| Item::PathLoss(PathLoss {
            path,
            acked,
            lost
        })),
        (any_id(), any_id()).prop_map(|(block, more)| Item::Stalled(Stalled { block, more })),
    ]
}

fn any_datagram() -> impl Strategy<Value = (Vec<Item<'static>>, Option<(Data, usize)>)> {
    (prop::collection::vec(any_control(), 0..6), prop::option::of(any_data()))
}

const PAYLOAD: [u8; 1300] = [0xa5; 1300];

proptest! {
    #[test]
    fn datagrams_round_trip((mut items, data) in any_datagram()) {
        if let Some((data, len)) = data {
            let mut alone = Vec::new();
            let even = data.even_offset_len();
            data.encode_with(even, &PAYLOAD[..len], &mut alone);
            prop_assert_eq!(alone.len(), data.header_len(even) + len);
            prop_assert!(data.header_len(even) <= MAX_DATA_HEADER + usize::from(data.partial));
            prop_assert_eq!(decode(&alone), Ok(vec![Item::Data(data.clone(), &PAYLOAD[..len])]));
            items.push(Item::Data(data, &PAYLOAD[..len]));
        }
        let datagram = encode(&items);
        for item in &items {
            if let Item::RunParity(run, _) = item {
                prop_assert_eq!(run.encoded_len(), encode(std::slice::from_ref(item)).len());
            }
        }
        prop_assert_eq!(decode(&datagram), Ok(items));
    }

    /// A truncated datagram has fewer items, never other ones.
    #[test]
    fn truncation_invents_nothing((mut items, data) in any_datagram(), cut in any::<prop::sample::Index>()) {
        if let Some((data, len)) = data {
            items.push(Item::Data(data, &PAYLOAD[..len]));
        }
        let datagram = encode(&items);
        let cut = &datagram[..cut.index(datagram.len() + 1)];
        for (at, item) in Items::of(cut).enumerate() {
            match (item, &items[at]) {
                (Ok(Item::Data(header, payload)), Item::Data(whole, all)) => {
                    prop_assert_eq!(&header, whole);
                    prop_assert!(all.starts_with(payload) && payload.is_empty() == all.is_empty());
                }
                (Ok(item), whole) => prop_assert_eq!(&item, whole),
                (Err(error), _) => {
                    prop_assert!(matches!(error, WireError::Truncated | WireError::Empty), "{}", error);
                }
            }
        }
    }

    /// Usual blocks have a header of less than 20 bytes in the packet.
    #[test]
    fn usual_headers_are_short(
        block in 0..1u64 << 30,
        (data, _) in any_data(),
        channel in 0..64u16,
        left in prop::option::of(0..4_000_000u64),
    ) {
        let usual = Data { block, previous: None, channel, left, ..data };
        let len = usual.header_len(usual.even_offset_len());
        prop_assert!(len <= 19 + usize::from(usual.partial), "{len} bytes");
    }
}
