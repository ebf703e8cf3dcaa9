//! Late frames on the backup.

use squall_sched::{PathView, WorkKind};
use squall_units::short::ms;

use super::{copies, run, trained};
use crate::stage::{CHUNK, Stage};

#[test]
fn a_frame_is_repeated_whole_when_it_reaches_the_threshold_and_only_once() {
    let mut stage = trained("augur-retransmit");
    let start = stage.now;
    stage.reliable(3 * CHUNK);
    let sent = run(&mut stage, start, 50);
    assert_eq!(sent.iter().map(|(_, p)| p.path).collect::<Vec<_>>(), [0, 0, 0]);
    stage.arrive(&sent[1].1);
    let late = run(&mut stage, start, 1000);
    assert_eq!(copies(&late), [(ms(51), 0, 1), (ms(51), 2, 1)], "what has arrived is not repeated");
    assert_eq!(late.len(), 2);
}

#[test]
fn each_frame_has_its_own_age() {
    let mut stage = trained("augur-retransmit");
    let start = stage.now;
    stage.reliable(CHUNK);
    run(&mut stage, start, 30);
    stage.reliable(CHUNK);
    let sent = run(&mut stage, start, 500);
    assert_eq!(copies(&sent).iter().map(|c| c.0).collect::<Vec<_>>(), [ms(51), ms(81)]);
}

#[test]
fn a_frame_that_arrives_before_the_threshold_costs_nothing() {
    let mut stage = trained("augur");
    for _ in 0..20 {
        let start = stage.now;
        let block = stage.reliable(2 * CHUNK);
        let sent = run(&mut stage, start, 45);
        assert_eq!(sent.iter().map(|(_, p)| p.path).collect::<Vec<_>>(), [0, 0]);
        sent.iter().for_each(|(_, p)| stage.arrive(p));
        stage.remove(block);
    }
}

#[test]
fn a_smaller_budget_repeats_later() {
    let repeated_at = |name: &str| {
        let mut stage = trained(name);
        let start = stage.now;
        stage.reliable(CHUNK);
        copies(&run(&mut stage, start, 500)).first().map(|c| c.0)
    };
    assert_eq!(repeated_at("augur-retransmit(delta=8)"), Some(ms(21)), "24 frames: those of 50 ms too");
    assert_eq!(repeated_at("augur-retransmit(delta=1.75)"), Some(ms(51)), "5.25 frames");
    assert_eq!(repeated_at("augur-retransmit(delta=0.9)"), None, "not even all that stall");
    assert_eq!(repeated_at("augur-retransmit(stall=40, probe=5)"), None, "60 ms are too long for 40 ms");
}

#[test]
fn what_is_older_than_the_window_is_forgotten() {
    for (window, expected) in [(30, Some(ms(51))), (2, None)] {
        let mut stage = trained(&format!("augur-retransmit(window={window})"));
        stage.now += ms(3000);
        let start = stage.now;
        stage.reliable(CHUNK);
        assert_eq!(copies(&run(&mut stage, start, 500)).first().map(|c| c.0), expected, "{window} s");
    }
}

#[test]
fn what_was_not_yet_sent_of_a_late_frame_follows_on_the_backup() {
    let mut stage = trained("augur-retransmit");
    let start = stage.now;
    stage.path(0).window = 2 * u64::from(CHUNK);
    stage.reliable(4 * CHUNK);
    assert_eq!(run(&mut stage, start, 50).len(), 2);
    let late: Vec<_> = run(&mut stage, start, 500).into_iter().map(|(_, p)| (p.path, p.kind)).collect();
    assert_eq!(late, [(1, WorkKind::Copy), (1, WorkKind::Copy), (1, WorkKind::Fresh), (1, WorkKind::Fresh)]);
}

#[test]
fn lost_bytes_of_a_late_frame_are_repaired_on_the_backup() {
    let mut stage = trained("augur-retransmit");
    let start = stage.now;
    stage.reliable(CHUNK);
    let first = run(&mut stage, start, 0);
    let copy = run(&mut stage, start, 60);
    stage.lose(&first[0].1);
    assert_eq!(stage.send(), None, "the copy is under way");
    stage.lose(&copy[0].1);
    assert_eq!(stage.send().map(|p| (p.path, p.kind)), Some((1, WorkKind::Repair)));
}

/// Loses every copy on the backup, at 60 ms, 139 ms and 141 ms; returns the times at which copies
/// were made.
fn remade(name: &str) -> Vec<u64> {
    let mut stage = trained(name);
    let start = stage.now;
    stage.reliable(2 * CHUNK);
    let mut sent = run(&mut stage, start, 60);
    assert_eq!(copies(&sent).len(), 2);
    let mut made = Vec::new();
    for until in [139, 141, 500] {
        stage.lose(&sent.pop().expect("a copy").1);
        let again = run(&mut stage, start, until);
        made.extend(copies(&again).iter().map(|(at, packet, path)| {
            assert_eq!((*packet, *path), (1, 1), "the other one is under way");
            *at / ms(1)
        }));
        if again.is_empty() {
            break;
        }
        sent = again;
    }
    made
}

#[test]
fn a_copy_that_was_lost_is_made_again() {
    assert_eq!(remade("augur-retransmit"), [60, 139, 141]);
    for name in ["augur-retransmit(rescue=probe)", "augur-retransmit(rescue=frame)"] {
        assert_eq!(remade(name), [60, 139], "{name}: of 200 ms 59 are left, and the round trip takes 60");
    }
}

#[test]
fn a_frame_that_cannot_arrive_in_time_can_be_left_alone() {
    for (name, open_at, expected) in [
        ("augur-retransmit", 141, vec![(ms(141), 0), (ms(171), 1)]),
        ("augur-retransmit(rescue=probe)", 139, vec![(ms(139), 0), (ms(171), 1)]),
        ("augur-retransmit(rescue=probe)", 141, vec![(ms(171), 1)]),
        ("augur-retransmit(rescue=frame)", 139, vec![(ms(139), 0), (ms(171), 1)]),
        ("augur-retransmit(rescue=frame)", 141, vec![(ms(171), 1)]),
    ] {
        let mut stage = trained(name);
        let start = stage.now;
        stage.path(1).window = 0;
        stage.reliable(CHUNK);
        run(&mut stage, start, 120);
        let young = stage.reliable(CHUNK);
        run(&mut stage, start, open_at);
        stage.path(1).window = 1_000 * u64::from(CHUNK);
        let late = run(&mut stage, start, 500);
        let late: Vec<_> = late.iter().map(|(at, p)| (*at, u32::from(p.block == young))).collect();
        assert_eq!(late, expected, "{name}: room from {open_at} ms on");
    }
}

#[test]
fn the_backup_must_have_the_bandwidth_for_the_whole_frame() {
    // At 51 ms 89 are left after the round trip of 60 ms: 9 packets at 1 Mbps, and 3 behind 58 ms
    // of other data.
    for (packets, waiting, repeated) in [(9, 0, 9), (10, 0, 0), (3, 7_200, 3), (4, 7_200, 0)] {
        let count = |name| {
            let mut stage = trained(name);
            (stage.path(1).bandwidth, stage.path(1).waiting) = (1_000_000, waiting);
            let start = stage.now;
            stage.reliable(packets * CHUNK);
            copies(&run(&mut stage, start, 500)).len()
        };
        assert_eq!(count("augur-retransmit(rescue=frame)"), repeated, "{packets} behind {waiting} bytes");
        assert_eq!(count("augur-retransmit(rescue=probe)"), packets as usize);
    }
}

#[test]
fn what_was_learned_of_one_primary_path_is_not_held_against_another() {
    let mut stage = trained("augur-retransmit");
    stage.paths[0] = PathView::example(2, ms(20), 10_000);
    stage.paths.swap(0, 1);
    let start = stage.now;
    stage.reliable(CHUNK);
    let sent = run(&mut stage, start, 500);
    assert_eq!(sent.iter().map(|(_, p)| p.path).collect::<Vec<_>>(), [2]);
}

#[test]
fn what_the_primary_never_delivers_is_a_stall_if_the_primary_is_asked() {
    let mut stage = trained("augur-retransmit(delta=1.75, learn=primary)");
    for _ in 0..25 {
        let start = stage.now;
        let block = stage.reliable(CHUNK);
        let sent = run(&mut stage, start, 60);
        assert_eq!(copies(&sent), [(ms(51), 0, 1)]);
        stage.arrive(&sent[1].1);
        stage.remove(block);
    }
    // Only once the last of them is 200 ms old: 1.75 · 28 stalls afford the 20 frames of 50 ms as well.
    stage.now += ms(200);
    let start = stage.now;
    stage.reliable(CHUNK);
    assert_eq!(copies(&run(&mut stage, start, 500)), [(ms(21), 0, 1)]);
}

#[test]
fn a_copy_that_never_left_is_made_again() {
    let mut stage = trained("augur-retransmit");
    let start = stage.now;
    stage.reliable(2 * CHUNK);
    let sent = run(&mut stage, start, 60);
    stage.take_back(&sent[2].1);
    assert_eq!(stage.send().map(|p| (p.path, p.kind, p.range)), Some((1, WorkKind::Copy, 0..CHUNK)));
    assert_eq!(stage.send(), None);
}

#[test]
fn a_frame_that_never_left_does_not_age() {
    let mut stage = trained("augur-retransmit");
    let start = stage.now;
    stage.reliable(CHUNK);
    let sent = run(&mut stage, start, 40);
    stage.take_back(&sent[0].1);
    let again = run(&mut stage, start, 500);
    assert_eq!(copies(&again), [(ms(91), 0, 1)]);

    let mut stage = trained("augur-retransmit");
    let start = stage.now;
    stage.reliable(CHUNK);
    let sent = run(&mut stage, start, 40);
    stage.take_back(&sent[0].1);
    stage.path(0).window = 0;
    assert_eq!(run(&mut stage, start, 500), [], "it waits for the primary path");
}

#[test]
fn without_room_or_budget_on_the_backup_nothing_is_repeated() {
    let limits: [fn(&mut Stage); 3] = [
        |s| s.path(1).budget = Some(u64::from(CHUNK) - 1),
        |s| s.path(1).usable = false,
        |s| s.path(1).window = 0,
    ];
    for limit in limits {
        for name in ["augur", "augur-retransmit"] {
            let mut stage = trained(name);
            limit(&mut stage);
            let start = stage.now;
            stage.reliable(CHUNK);
            assert_eq!(run(&mut stage, start, 45).len(), 1);
            assert_eq!(copies(&run(&mut stage, start, 55)), [], "{name}");
        }
    }
}

#[test]
fn the_fastest_backup_with_room_takes_the_copies() {
    let mut stage = trained("augur-retransmit");
    stage.paths.push(PathView { metered: true, ..PathView::example(2, ms(40), 1200) });
    let start = stage.now;
    stage.reliable(3 * CHUNK);
    assert_eq!(
        copies(&run(&mut stage, start, 500)),
        [(ms(51), 0, 2), (ms(51), 1, 1), (ms(51), 2, 1)],
        "one packet fits on path 2; no byte goes on both"
    );
    assert!(stage.probed.ends_with(&[1, 1]) && stage.probed.contains(&2), "its window is full now");
}
