//! NineTails.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use squall_papers::near_tail;
use squall_sched::{BlockId, WeightedRoundRobin, WorkKind};
use squall_units::short::ms;

use crate::stage::{CHUNK, Packet, Stage, block, paths_of};

/// 10 packets each 20 ms and 10 each 30 ms, that is 4.8 and 3.2 Mbps. With room on both, or on the
/// first alone, the rest is near its end below 1.5·10 = 15 packets: 3/2·20 ms at 10 packets each 20
/// ms. The same holds with room on the second alone: 3/2·30 ms at 10 each 30 ms.
const TWO: [(u64, u64); 2] = [(20, 10), (30, 10)];

fn copies(packets: &[Packet]) -> Vec<(u8, u32)> {
    let copies = packets.iter().filter(|p| p.kind == WorkKind::Copy);
    copies.map(|p| (p.path, p.range.start / CHUNK)).collect()
}

fn arrive_on(stage: &mut Stage, packets: &[Packet], path: u8) {
    packets.iter().filter(|p| p.path == path).for_each(|packet| stage.arrive(packet));
}

#[test]
fn spreads_as_minrtt_does_and_repeats_the_tail() {
    let mut stage = Stage::new("ninetails", &TWO);
    stage.reliable(30 * CHUNK);
    let first = stage.send_all();
    // 30 down to 21 on the first path, 20 down to 11 on the second; the tail begins at 14, packet
    // 16.
    assert_eq!(paths_of(&first), [[0; 10], [1; 10]].concat());
    assert_eq!(copies(&first), []);
    assert_eq!(stage.reasons[15..17], ["lowest RTT with window left", "near the end: highest rate"]);

    arrive_on(&mut stage, &first, 0);
    let second = stage.send_all();
    assert_eq!(paths_of(&second), [0; 10], "the last ten are new and lead");
    assert_eq!(copies(&second), []);

    arrive_on(&mut stage, &first[..14], 1);
    let third = stage.send_all();
    assert_eq!(copies(&third), [(1, 20), (1, 21), (1, 22), (1, 23)], "nothing new: the other path repeats");
    arrive_on(&mut stage, &second[..4], 0);
    let fourth = stage.send_all();
    assert_eq!(copies(&fourth), [(0, 16), (0, 17), (0, 18), (0, 19)], "14 and 15 are not of the tail");
    assert_eq!((third.len(), fourth.len()), (4, 4));
}

#[test]
fn a_short_message_goes_everywhere() {
    for name in ["ninetails", "redundant"] {
        let mut stage = Stage::new(name, &[(20, 10), (30, 10), (40, 10)]);
        stage.reliable(3 * CHUNK);
        let sent = stage.send_all();
        assert_eq!(sent.len(), 9, "{name}");
        assert_eq!(copies(&sent).len(), 6, "{name}");
    }
}

#[test]
fn a_long_message_is_not_repeated_from_its_start() {
    let count = |name: &str| {
        let mut stage = Stage::new(name, &TWO);
        stage.reliable(100 * CHUNK);
        copies(&stage.send_all()).len()
    };
    assert_eq!([count("minrtt"), count("ninetails"), count("redundant")], [0, 0, 10]);
}

#[test]
fn new_data_leads_on_the_path_of_highest_rate() {
    // 10 packets each 10 ms against 100 each 50 ms: the second has twice the bandwidth.
    let mut stage = Stage::new("ninetails", &[(10, 10), (50, 100)]);
    // Near the end below 3/2·10 ms at 100 packets each 50 ms: 30 packets.
    stage.reliable(32 * CHUNK);
    let sent: Vec<_> = stage.send_all().into_iter().map(|p| (p.path, p.kind)).take(5).collect();
    let (fresh, copy) = (WorkKind::Fresh, WorkKind::Copy);
    // 32, 31 and 30 remaining: the lowest RTT. From 29 on, the highest rate, and the other path
    // repeats.
    assert_eq!(sent, [(0, fresh), (0, fresh), (0, fresh), (1, fresh), (0, copy)]);
}

#[test]
fn queued_blocks_end_the_redundancy_unless_the_block_alone_counts() {
    let count = |name: &str| {
        let mut stage = Stage::new(name, &[(20, 20), (30, 20)]);
        (0..10).for_each(|_| _ = stage.reliable(10 * CHUNK));
        copies(&stage.send_all()).len()
    };
    assert_eq!(count("ninetails"), 0, "100 packets are not gone in 30 ms");
    // Ten each are. With the twentieth packet the first path is full, and the second leads with the
    // next.
    assert_eq!(count("ninetails(remaining=block)"), 19);
    assert_eq!(count("redundant"), 20);
}

#[test]
fn a_short_timeout_makes_the_tail_shorter() {
    // RTO_min 0: half a round trip instead of one and a half, 5 packets instead of 15.
    for (name, first_copied) in [("ninetails", 6), ("ninetails(rto-min=0)", 16)] {
        let mut stage = Stage::new(name, &[(20, 10), (30, 10)]);
        stage.reliable(20 * CHUNK);
        let mut all = stage.send_all();
        let mut flying = all.clone();
        while !flying.is_empty() {
            let packet = flying.remove(0);
            stage.arrive(&packet);
            let more = stage.send_all();
            all.extend(more.clone());
            flying.extend(more);
        }
        assert_eq!(copies(&all).iter().map(|(_, packet)| *packet).min(), Some(first_copied), "{name}");
    }
}

/// Sends a message of 400 packets while the near path (5 packets each 10 ms) is full and the far
/// one (500 each 100 ms) has room; then the near one opens. Returns the first repeated packet, and
/// their number.
fn repeated_of_400(name: &str) -> (Option<u32>, usize) {
    let mut stage = Stage::new(name, &[(10, 5), (100, 500)]);
    stage.reliable(400 * CHUNK);
    let mut sent = stage.send_all();
    let mut near: Vec<_> = sent.iter().filter(|p| p.path == 0).cloned().collect();
    while let Some(packet) = near.pop() {
        stage.arrive(&packet);
        let more = stage.send_all();
        near.extend(more.iter().cloned());
        sent.extend(more);
    }
    let copied = copies(&sent);
    (copied.iter().map(|(_, packet)| *packet).min(), copied.len())
}

#[test]
fn a_full_near_path_makes_no_tail_of_the_whole_message() {
    // 3/2·10 ms at 500 packets each 100 ms: fewer than 75 are left.
    assert_eq!(repeated_of_400("ninetails(rtt=fastest)"), (Some(326), 74));
    // 3/2·100 ms are 750 packets. With the near path open its round trip counts, unless the far
    // one's does.
    assert_eq!(repeated_of_400("ninetails(rtt=open)"), (Some(5), 395));
    assert_eq!(repeated_of_400("ninetails(rtt=best)"), (Some(0), 400));
}

#[test]
fn the_carrier_of_the_newest_bytes_can_measure_the_end() {
    let first = |stage: &mut Stage| stage.send().map(|packet| (packet.path, packet.kind));
    let mut stage = Stage::new("ninetails(rtt=carrier)", &[(10, 10), (100, 300)]);
    // 3/2·10 ms at 3000 packets a second: below 45 packets. Nothing is in flight: the near path is
    // measured.
    let block = stage.reliable(50 * CHUNK);
    assert_eq!(first(&mut stage), Some((0, WorkKind::Fresh)));
    assert_eq!(stage.reasons, ["lowest RTT with window left"]);
    while stage.queue.get(block).is_some_and(|b| b.fresh_bytes() > 44 * CHUNK) {
        assert_eq!(first(&mut stage).map(|p| p.0), Some(0));
    }
    assert_eq!(first(&mut stage), Some((1, WorkKind::Fresh)), "near the end: the highest rate");
    // The far path carries the newest bytes now: 3/2·100 ms are 450 packets.
    stage.reliable(300 * CHUNK);
    assert_eq!(first(&mut stage), Some((0, WorkKind::Copy)));
    stage.close_path(1);
    assert_eq!(first(&mut stage).map(|p| p.0), Some(0), "the near path measures it again");
    assert_eq!(stage.reasons.last(), Some(&"lowest RTT with window left"));
}

#[test]
fn lost_bytes_of_the_tail_are_repaired_and_repeated() {
    let mut stage = Stage::new("ninetails", &[(20, 10), (30, 10), (40, 10)]);
    stage.reliable(CHUNK);
    let third = stage.paths.remove(2);
    let sent = stage.send_all();
    assert_eq!(paths_of(&sent), [0, 1]);
    sent.iter().for_each(|packet| stage.lose(packet));
    stage.paths.push(third);
    let again: Vec<_> = stage.send_all().into_iter().map(|p| (p.path, p.kind)).collect();
    assert_eq!(again, [(0, WorkKind::Repair), (2, WorkKind::Copy)], "the second had its copy");
}

#[test]
fn a_block_that_ended_is_forgotten() {
    let mut stage = Stage::new("ninetails", &TWO);
    let block = stage.reliable(2 * CHUNK);
    assert_eq!(stage.send_all().len(), 4);
    stage.remove(block);
    stage.reliable(CHUNK);
    let sent: Vec<_> = stage.send_all().into_iter().map(|p| (p.block, p.path)).collect();
    assert_eq!(sent, [(BlockId(1), 0), (BlockId(1), 1)]);
}

#[test]
fn options_are_checked() {
    let error = |option: &str| {
        let error = crate::registry().build(&format!("ninetails({option})")).err();
        error.expect("is refused").to_string()
    };
    assert_eq!(error("remaining=all"), "scheduler option remaining=all: must be queue or block");
    assert_eq!(error("rtt=all"), "scheduler option rtt=all: must be open, fastest, carrier or best");
}

/// Returns `true` if a packet sent now is near the end, calculated from the state of the stage.
fn is_near_tail(stage: &Stage) -> bool {
    let open = || stage.paths.iter().filter(|p| p.has_room());
    let rate = open().map(|p| p.bandwidth).max().unwrap_or(0);
    let rtt = open().map(|p| p.srtt).min().unwrap_or(ms(0));
    near_tail(stage.queue.fresh_bytes(), rate, rtt, ms(200))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Windows open by arrivals in any order: a byte is repeated only from where its block came
    /// near the end of the queued data, and if packets only arrive, no reliable byte is missed.
    #[test]
    fn only_tails_are_repeated(
        paths in vec((1..100u64, 1..8u64), 1..=8),
        blocks in vec(1..20 * CHUNK, 1..4),
        order in vec(any::<prop::sample::Index>(), 400),
    ) {
        let mut stage = Stage::new("ninetails", &paths);
        for len in blocks {
            stage.reliable(len);
        }
        let mut tails: BTreeMap<BlockId, u32> = BTreeMap::new();
        let mut flying = Vec::new();
        let mut order = order.into_iter().cycle();
        loop {
            let near = is_near_tail(&stage);
            if let Some(packet) = stage.send() {
                if packet.kind == WorkKind::Copy {
                    prop_assert!(near, "{:?}", packet);
                    prop_assert!(tails.get(&packet.block).is_some_and(|from| packet.range.start >= *from));
                } else if near {
                    tails.entry(packet.block).or_insert(packet.range.start);
                }
                flying.push(packet);
            } else if flying.is_empty() {
                break;
            } else {
                let which = order.next().expect("endless").index(flying.len());
                stage.arrive(&flying.swap_remove(which));
            }
        }
        prop_assert!(stage.queue.iter().all(squall_sched::Block::is_complete));
    }
}

#[test]
fn what_another_channel_sent_before_an_older_block_is_repeated() {
    let mut stage = Stage::new("ninetails", &[(10, 4), (10, 1)]);
    stage.queue.set_streams(Box::<WeightedRoundRobin>::default());
    stage.queue.set_channel_weight(1, 3);
    let older = stage.hand_over_on(0, block(2 * CHUNK));
    let younger = stage.hand_over_on(1, block(3 * CHUNK));
    let sent = stage.send_all();
    let led: Vec<_> = sent.iter().filter(|p| p.path == 0).map(|p| (p.block, p.range.start)).collect();
    assert_eq!(led, [(older, 0), (younger, 0), (younger, CHUNK), (younger, 2 * CHUNK)]);
    sent.iter().filter(|p| p.block == older).for_each(|packet| stage.arrive(packet));
    let next = stage.send().expect("both paths have room");
    assert_eq!((next.path, next.block, next.range.start, next.kind), (1, younger, 0, WorkKind::Copy));
}

#[test]
fn a_path_whose_id_is_used_again_repeats_what_the_old_one_carried() {
    for name in ["redundant", "ninetails"] {
        let mut stage = Stage::new(name, &[(10, 10), (20, 10), (30, 10)]);
        stage.reliable(2 * CHUNK);
        assert_eq!(stage.send_all().len(), 6, "{name}");
        let next = stage.close_path(1);
        assert_eq!(stage.send_all(), [], "{name}");
        stage.paths.insert(1, next);
        assert_eq!(paths_of(&stage.send_all()), [1, 1], "{name}");
    }
}
