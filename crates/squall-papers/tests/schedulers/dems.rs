//! DEMS.

use std::collections::BTreeMap;

use squall_sched::BlockId;
use squall_units::short::ms;

use crate::stage::{CHUNK, Packet, Stage, block};

/// Bytes of each block on each path.
pub(crate) fn bytes(packets: &[Packet]) -> BTreeMap<(BlockId, u8), u32> {
    let mut sum = BTreeMap::new();
    for packet in packets {
        *sum.entry((packet.block, packet.path)).or_default() += packet.len();
    }
    sum
}

/// Rounds to whole packets, as a plan divides.
fn packets(bytes: u32) -> u32 {
    (bytes + CHUNK / 2) / CHUNK * CHUNK
}

#[test]
fn a_block_arrives_over_both_paths_at_once() {
    // 20 Mbps = 2.5 kB/ms after 15 ms; 10 Mbps = 1.25 kB/ms after 40 ms; 100 kB.
    // 2.5·(T − 15) + 1.25·(T − 40) = 100  ⇒  T = 50 ms: 87.5 kB and 12.5 kB.
    let mut stage = Stage::paced("dems", &[(20_000, 15), (10_000, 40)]);
    let block = stage.reliable(100_000);
    let sent = bytes(&stage.send_all());
    assert_eq!(sent[&(block, 0)], packets(87_500));
    assert_eq!(sent[&(block, 1)], 100_000 - packets(87_500));
}

#[test]
fn a_block_that_grows_is_divided_as_the_whole_is_expected_to_be() {
    let mut stage = Stage::paced("dems", &[(20_000, 15), (10_000, 40)]);
    // A usual block, divided as above.
    let usual = stage.reliable(100_000);
    stage.send_all();
    stage.remove(usual);
    let block = stage.open(block(0));
    let mut sent = Vec::new();
    for _ in 0..40 {
        stage.grow(block, 2_500);
        // The pacers release everything between two writes.
        stage.paths.iter_mut().for_each(|path| (path.waiting, path.in_flight) = (0, 0));
        sent.extend(stage.send_all());
    }
    let sent = bytes(&sent);
    let on_slow = sent[&(block, 1)];
    assert!(on_slow.abs_diff(12_500) <= 2 * CHUNK, "each piece alone is there sooner over one: {on_slow}");
    assert_eq!(sent[&(block, 0)] + on_slow, 100_000);
}

#[test]
fn a_block_that_is_there_sooner_over_one_path_goes_over_one() {
    let mut stage = Stage::paced("dems", &[(20_000, 15), (10_000, 40)]);
    let block = stage.reliable(50_000);
    assert_eq!(bytes(&stage.send_all()), BTreeMap::from([((block, 0), 50_000)]));
}

#[test]
fn the_next_block_begins_where_the_one_before_it_ended() {
    // The first as above. Then the fast path is busy for 35 ms and the slow one for 10 ms, so that
    // both can deliver from 50 ms on: 2.5·(T − 50) + 1.25·(T − 50) = 37.5  ⇒  T = 60 ms: 25 kB and
    // 12.5 kB.
    let mut stage = Stage::paced("dems", &[(20_000, 15), (10_000, 40)]);
    stage.reliable(100_000);
    let second = stage.reliable(37_500);
    let sent = bytes(&stage.send_all());
    let on_fast = sent[&(second, 0)];
    assert!(on_fast.abs_diff(25_000) <= CHUNK, "{on_fast}");
    assert_eq!(on_fast + sent[&(second, 1)], 37_500);
}

#[test]
fn a_path_with_room_goes_on_to_the_next_block() {
    let mut stage = Stage::paced("dems", &[(20_000, 15), (10_000, 40)]);
    stage.path(0).window = u64::from(CHUNK);
    let first = stage.reliable(100_000);
    let second = stage.reliable(100_000);
    let sent = bytes(&stage.send_all());
    assert_eq!(sent[&(first, 0)], CHUNK, "the fast path is full");
    assert!(sent[&(first, 1)] < 20_000, "the slow path keeps to its share of the first block");
    assert!(sent[&(second, 1)] > 0, "and begins with the second");
}

#[test]
fn in_series_a_block_waits_until_the_one_before_it_was_sent_on_all_paths() {
    let mut stage = Stage::paced("dems(serial=true)", &[(20_000, 15), (10_000, 40)]);
    let window = u64::from(CHUNK);
    stage.path(0).window = window;
    let first = stage.reliable(100_000);
    let second = stage.reliable(100_000);
    let sent = bytes(&stage.send_all());
    assert!(sent[&(first, 1)] < 20_000, "the slow path keeps to its share of the first block");
    assert!(sent.keys().all(|(block, _)| *block == first), "and waits for the fast one");
    stage.path(0).window = 1_000_000;
    let sent = bytes(&stage.send_all());
    assert!(
        sent.contains_key(&(first, 0)) && sent.contains_key(&(second, 1)),
        "then both begin with the second"
    );
}

#[test]
fn three_paths_share_by_rate_from_where_each_can_deliver() {
    // 2.5·(T − 10) + 1.25·(T − 20) + 0.625·(T − 40) = 100  ⇒  4.375 T = 175  ⇒  T = 40 ms: the third
    // could only just begin to deliver and takes nothing; 75 kB and 25 kB.
    let mut stage = Stage::paced("dems", &[(20_000, 10), (10_000, 20), (5_000, 40)]);
    let block = stage.reliable(100_000);
    let sent = bytes(&stage.send_all());
    assert_eq!((sent[&(block, 0)], sent[&(block, 1)]), (packets(75_000), 100_000 - packets(75_000)));
    assert_eq!(sent.len(), 2);
}

#[test]
fn lost_bytes_are_divided_again_with_their_block() {
    let mut stage = Stage::paced("dems", &[(20_000, 15), (10_000, 40)]);
    let first = stage.reliable(100_000);
    let sent = stage.send_all();
    stage.reliable(10_000);
    stage.elapse(ms(100));
    stage.lose(sent.iter().find(|p| p.path == 1).expect("some went on the slow path"));
    let again = stage.send().expect("the lost packet");
    assert_eq!((again.block, again.path), (first, 0), "a single packet is there sooner over the fast path");
}

#[test]
fn blocks_share_what_a_budget_leaves() {
    // The budget pays for half of the first block's part on the second path, which takes one packet
    // at a time: its planned part leaves nothing to the next block.
    for scheduler in ["dems", "dams", "dams-c", "ras"] {
        let mut stage = Stage::paced(scheduler, &[(10_000, 10), (10_000, 10)]);
        stage.path(1).budget = Some(5 * u64::from(CHUNK));
        stage.path(1).window = u64::from(CHUNK);
        for _ in 0..3 {
            stage.reliable(20 * CHUNK);
        }
        let mut sent = stage.send_all();
        for _ in 0..5 {
            let last = sent.iter().rfind(|packet| packet.path == 1).cloned().expect("one is on its way");
            stage.arrive(&last);
            sent.extend(stage.send_all());
        }
        let on_second = sent.iter().filter(|packet| packet.path == 1).count();
        assert_eq!((sent.len(), on_second), (60, 5), "{scheduler}");
    }
}
