//! Redundant.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use squall_sched::WorkKind;

use crate::stage::{CHUNK, Packet, Stage, paths_of};

/// Counts how often each byte was sent on each path.
fn copies(packets: &[Packet]) -> BTreeMap<(u64, u32, u8), u32> {
    let mut count = BTreeMap::new();
    for packet in packets {
        for byte in packet.range.clone() {
            *count.entry((packet.block.0, byte, packet.path)).or_default() += 1;
        }
    }
    count
}

#[test]
fn every_byte_goes_once_on_every_path() {
    for paths in 1..=8 {
        let rtts: Vec<_> = (0..paths).map(|i| (10 + 7 * i, 1000)).collect();
        let mut stage = Stage::new("redundant", &rtts);
        stage.reliable(3 * CHUNK + 17);
        stage.unreliable(5);
        stage.reliable(2 * CHUNK + 1);
        let count = copies(&stage.send_all());
        let bytes = u64::from(3 * CHUNK + 17 + 5 + 2 * CHUNK + 1);
        assert_eq!(count.len() as u64, bytes * paths, "{paths} paths");
        assert!(count.values().all(|n| *n == 1), "{paths} paths");
    }
}

#[test]
fn the_fastest_path_leads_and_the_others_copy() {
    let mut stage = Stage::new("redundant", &[(40, 10), (10, 10)]);
    stage.reliable(2 * CHUNK);
    let sent: Vec<_> = stage.send_all().into_iter().map(|p| (p.path, p.range.start, p.kind)).collect();
    let expected = [
        (1, 0, WorkKind::Fresh),
        (0, 0, WorkKind::Copy),
        (1, CHUNK, WorkKind::Fresh),
        (0, CHUNK, WorkKind::Copy),
    ];
    assert_eq!(sent, expected);
}

#[test]
fn a_trailing_path_skips_what_has_arrived() {
    let mut stage = Stage::new("redundant", &[(10, 10), (40, 1)]);
    let block = stage.reliable(6 * CHUNK);
    let sent = stage.send_all();
    assert_eq!(paths_of(&sent).iter().filter(|p| **p == 1).count(), 1, "the slow window holds one packet");

    let on_fast: Vec<_> = sent.iter().filter(|p| p.path == 0).collect();
    for packet in &on_fast[..4] {
        stage.arrive(packet);
    }
    let slow = sent.iter().find(|p| p.path == 1).expect("one went on the slow path");
    stage.arrive(slow);
    let next = stage.send().expect("two packets are outstanding");
    assert_eq!((next.block, next.path, next.range.start), (block, 1, 4 * CHUNK));
}

#[test]
fn a_byte_is_repaired_only_when_every_copy_is_lost() {
    let mut stage = Stage::new("redundant", &[(10, 10), (40, 10)]);
    stage.reliable(CHUNK);
    let sent = stage.send_all();
    assert_eq!(sent.len(), 2);
    stage.lose(&sent[0]);
    assert_eq!(stage.send(), None);
    stage.lose(&sent[1]);
    let repair = stage.send().expect("nothing is in flight any more");
    assert_eq!((repair.path, repair.kind), (0, WorkKind::Repair));
    assert_eq!(stage.send(), None, "both paths had their copy");
}

#[test]
fn a_lost_copy_is_not_copied_again_on_its_path() {
    let mut stage = Stage::new("redundant", &[(10, 10), (40, 1)]);
    stage.reliable(2 * CHUNK);
    let sent = stage.send_all();
    let copy = sent.iter().find(|p| p.path == 1).expect("one fits on the slow path");
    assert_eq!(copy.range, 0..CHUNK);
    stage.lose(copy);
    let rest: Vec<_> = stage.send_all().into_iter().map(|p| (p.path, p.range.start)).collect();
    assert_eq!(rest, [(1, CHUNK)]);
}

#[test]
fn what_was_taken_back_is_copied_again() {
    let mut stage = Stage::new("redundant", &[(10, 10), (40, 10)]);
    stage.reliable(2 * CHUNK);
    let sent = stage.send_all();
    for packet in sent.iter().filter(|p| p.range.start == 0) {
        stage.take_back(packet);
    }
    let again = stage.send_all();
    assert_eq!(paths_of(&again), [0, 1]);
    assert!(again.iter().all(|p| p.range == (0..CHUNK)));
    assert_eq!(again[0].kind, WorkKind::Fresh, "it never left");
}

#[test]
fn a_path_that_joins_late_catches_up() {
    let mut stage = Stage::new("redundant", &[(10, 100), (40, 100)]);
    let late = stage.paths.remove(1);
    stage.reliable(3 * CHUNK);
    let sent = stage.send_all();
    assert_eq!(paths_of(&sent), [0, 0, 0]);
    stage.arrive(&sent[1]);
    stage.paths.push(late);
    let copies: Vec<_> = stage.send_all().into_iter().map(|p| (p.path, p.range.start)).collect();
    assert_eq!(copies, [(1, 0), (1, 2 * CHUNK)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Windows open by arrivals in any order: no byte is sent twice on a path, and a byte that
    /// missed a path had arrived before.
    #[test]
    fn never_twice_on_a_path(
        paths in vec((1..100u64, 1..5u64), 1..=8),
        blocks in vec(1..4 * CHUNK, 1..5),
        order in vec(any::<prop::sample::Index>(), 400),
    ) {
        let mut stage = Stage::new("redundant", &paths);
        for len in &blocks {
            stage.reliable(*len);
        }
        let mut all = stage.send_all();
        let mut flying = all.clone();
        let mut order = order.into_iter().cycle();
        while !flying.is_empty() {
            let which = order.next().expect("endless").index(flying.len());
            let packet = flying.swap_remove(which);
            stage.arrive(&packet);
            let more = stage.send_all();
            all.extend(more.iter().cloned());
            flying.extend(more);
        }
        let count = copies(&all);
        prop_assert!(count.values().all(|n| *n == 1));
        prop_assert!(stage.queue.iter().all(squall_sched::Block::is_complete));
    }
}
