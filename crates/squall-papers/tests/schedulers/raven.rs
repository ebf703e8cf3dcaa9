//! RAVEN.
//!
//! With fewer than four measurements the half-width of a prediction is 1.645·sqrt(2) = 2.33 times
//! the deviation of the RTT, which on a stage is a tenth of it: 10 ms are expected within 7.7 and
//! 12.3 ms, 12 ms from 9.2 ms on, 15 from 11.5, 20 from 15.3.

use squall_sched::WorkKind;
use squall_units::short::{at_ms, at_us, ms};

use crate::stage::{CHUNK, Packet, Stage, paths_of};

fn kinds(packets: &[Packet]) -> Vec<(u8, WorkKind)> {
    packets.iter().map(|p| (p.path, p.kind)).collect()
}

/// Sets measurements of the path one after another, and calls the scheduler for each.
fn measure(stage: &mut Stage, path: u8, rtts_ms: &[u64]) {
    for rtt in rtts_ms {
        stage.path(path).latest_rtt = ms(*rtt);
        assert_eq!(stage.send(), None);
    }
}

#[test]
fn a_clearly_faster_path_carries_everything_once() {
    let mut stage = Stage::new("raven", &[(10, 10), (20, 10)]);
    stage.reliable(3 * CHUNK);
    assert_eq!(kinds(&stage.send_all()), [(0, WorkKind::Fresh); 3]);
    assert_eq!(stage.reasons[0], "lowest latency for certain");
}

#[test]
fn paths_that_could_be_the_fastest_carry_the_same() {
    for (second, third, paths) in [(12, 20, vec![0, 1]), (12, 15, vec![0, 1, 2]), (20, 15, vec![0, 2])] {
        let mut stage = Stage::new("raven", &[(10, 10), (second, 10), (third, 10)]);
        stage.reliable(CHUNK);
        let sent = stage.send_all();
        assert_eq!(paths_of(&sent), paths, "{second} and {third} ms");
        assert!(sent[1..].iter().all(|p| p.kind == WorkKind::Copy && p.range == (0..CHUNK)));
    }
}

#[test]
fn differs_from_minrtt_which_never_repeats_and_from_redundant_which_always_does() {
    let count = |name: &str, second: u64| {
        let mut stage = Stage::new(name, &[(10, 10), (second, 10)]);
        stage.reliable(CHUNK);
        stage.send_all().len()
    };
    assert_eq!([count("minrtt", 12), count("raven", 12), count("redundant", 12)], [1, 2, 2]);
    assert_eq!([count("minrtt", 20), count("raven", 20), count("redundant", 20)], [1, 1, 2]);
}

#[test]
fn a_path_that_becomes_unsteady_is_helped_by_another() {
    let mut stage = Stage::new("raven", &[(10, 10), (40, 10)]);
    measure(&mut stage, 0, &[11, 10, 9, 10, 11, 10]);
    stage.reliable(CHUNK);
    let sent = stage.send_all();
    assert_eq!(paths_of(&sent), [0]);
    stage.arrive(&sent[0]);
    // A mean of 15.7 ms and a deviation of 12.8: up to 37.7 ms, and the other is expected from 30.7 ms on.
    measure(&mut stage, 0, &[30, 10, 50, 12]);
    stage.reliable(CHUNK);
    assert_eq!(kinds(&stage.send_all()), [(0, WorkKind::Fresh), (1, WorkKind::Copy)]);
}

#[test]
fn the_window_forgets() {
    let mut stage = Stage::new("raven(samples=4)", &[(10, 10), (40, 10)]);
    measure(&mut stage, 0, &[30, 10, 50, 12]);
    measure(&mut stage, 0, &[11, 10, 9, 10]);
    stage.reliable(CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [0]);
}

#[test]
fn leads_by_what_was_measured_not_by_the_smoothed_rtt() {
    let mut stage = Stage::new("raven", &[(10, 10), (20, 10)]);
    measure(&mut stage, 0, &[100, 101, 100, 101, 100, 101, 100, 101, 100, 101, 100, 101]);
    assert_eq!(stage.path(0).srtt, ms(10));
    stage.reliable(CHUNK);
    assert_eq!(stage.send().map(|p| p.path), Some(1));
}

#[test]
fn old_measurements_are_believed_less() {
    let mut stage = Stage::new("raven", &[(10, 10), (20, 10)]);
    stage.reliable(CHUNK);
    let first = stage.send_all();
    assert_eq!(paths_of(&first), [0]);
    stage.arrive(&first[0]);
    // After 9 s three times as wide: the second path is expected from 20 − 14 = 6 ms on, the first
    // up to 17.
    stage.now = at_ms(9_000);
    stage.reliable(CHUNK);
    let second = stage.send_all();
    assert_eq!(kinds(&second), [(0, WorkKind::Fresh), (1, WorkKind::Copy)]);
    // After an acknowledgement on each, the measurements are fresh again.
    stage.arrive(&second[1]);
    stage.arrive(&second[0]);
    stage.reliable(CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [0]);
}

#[test]
fn what_was_sent_for_certain_is_not_repeated_later() {
    let mut stage = Stage::new("raven", &[(10, 10), (20, 10)]);
    stage.reliable(2 * CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [0, 0]);
    stage.now = at_ms(9_000);
    let block = stage.reliable(CHUNK);
    let sent: Vec<_> = stage.send_all().into_iter().map(|p| (p.path, p.block)).collect();
    assert_eq!(sent, [(0, block), (1, block)]);
}

#[test]
fn spare_paths_carry_what_the_better_ones_cannot() {
    let mut stage = Stage::new("raven", &[(10, 2), (40, 10)]);
    stage.reliable(4 * CHUNK);
    let sent = stage.send_all();
    assert_eq!(
        kinds(&sent),
        [(0, WorkKind::Fresh), (0, WorkKind::Fresh), (1, WorkKind::Fresh), (1, WorkKind::Fresh)]
    );
    stage.arrive(&sent[0]);
    assert_eq!(stage.send(), None, "what a worse path carries is not repeated on the better one");
}

#[test]
fn a_replica_waits_for_its_window_and_skips_what_arrived() {
    let mut stage = Stage::new("raven", &[(10, 10), (12, 1)]);
    stage.reliable(3 * CHUNK);
    let sent = stage.send_all();
    assert_eq!(paths_of(&sent), [0, 1, 0, 0]);
    stage.arrive(&sent[0]);
    stage.arrive(&sent[2]);
    stage.arrive(&sent[1]);
    let next = stage.send().expect("the third packet is outstanding");
    assert_eq!((next.path, next.kind, next.range), (1, WorkKind::Copy, 2 * CHUNK..3 * CHUNK));
}

#[test]
fn a_repair_goes_on_the_leading_path() {
    let mut stage = Stage::new("raven", &[(40, 10), (10, 10)]);
    stage.reliable(CHUNK);
    let sent = stage.send_all();
    assert_eq!(paths_of(&sent), [1]);
    stage.lose(&sent[0]);
    assert_eq!(kinds(&stage.send_all()), [(1, WorkKind::Repair)]);
}

#[test]
fn the_options_change_the_interval() {
    let count = |name: &str, now: u64| {
        let mut stage = Stage::new(name, &[(10, 10), (20, 10)]);
        assert_eq!(stage.send(), None);
        stage.now = at_us(now);
        stage.reliable(CHUNK);
        stage.send_all().len()
    };
    assert_eq!([count("raven", 0), count("raven(deviations=3)", 0)], [1, 2]);
    assert_eq!([count("raven", 9_000_000), count("raven(age-unit=60000)", 9_000_000)], [2, 1]);
    assert_eq!([count("raven", 9_000_000), count("raven(age-cap=1)", 9_000_000)], [2, 1]);
}
