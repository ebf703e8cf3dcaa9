//! The backup as primary path, and the way back.

use squall_sched::{Span, Time, WorkKind};
use squall_units::short::ms;

use super::{ALL, copies, run, stage, trained};
use crate::stage::{CHUNK, Stage, paths_of};

/// A stage whose primary has just been left: the switch of `augur-switch` after a silence.
fn switched() -> (Stage, Time) {
    let mut stage = trained("augur-switch");
    let start = stage.now;
    stage.reliable(CHUNK);
    run(&mut stage, start, 100);
    (stage, start)
}

#[test]
fn the_switch_needs_the_age_and_a_faster_backup() {
    let left_at = |wifi: u64, cell: u64, name: &str| {
        let mut stage = trained(name);
        let start = stage.now;
        stage.path(0).latest_rtt = ms(wifi);
        stage.path(1).latest_rtt = ms(cell);
        stage.reliable(CHUNK);
        copies(&run(&mut stage, start, 1000)).first().map(|c| c.0)
    };
    assert_eq!(left_at(70, 60, "augur-switch"), Some(ms(21)), "the last sample was slower");
    assert_eq!(
        left_at(20, 60, "augur-switch"),
        Some(ms(60) + Span::TICK),
        "nothing received for longer than 60 ms"
    );
    assert_eq!(left_at(20, 400, "augur-switch"), Some(ms(400) + Span::TICK));
    assert_eq!(left_at(70, 60, "augur-switch(delta=1)"), Some(ms(51)), "90 looks: the 75 beyond 50 ms");
    assert_eq!(left_at(70, 60, "augur-switch(delta=0.5)"), None);
}

#[test]
fn by_the_latest_sample_silence_is_no_reason_to_switch() {
    let mut stage = trained("augur-switch(rtt=latest)");
    let start = stage.now;
    stage.reliable(CHUNK);
    assert_eq!(copies(&run(&mut stage, start, 1000)), [], "20 ms are less than 60");
    stage.path(0).latest_rtt = ms(300);
    assert_eq!(copies(&run(&mut stage, start, 1100)).len(), 1, "the first sample behind the stall");
}

#[test]
fn while_a_backup_is_primary_the_capacity_is_that_of_the_backup() {
    assert_eq!(trained("augur-switch").carriers(), [0]);
    let (mut stage, _) = switched();
    assert_eq!(stage.carriers(), [1]);
    stage.path(1).budget = Some(0);
    stage.reliable(CHUNK);
    stage.send_all();
    assert_eq!(stage.carriers(), [0]);
}

#[test]
fn deliveries_on_the_primary_postpone_the_switch() {
    let mut stage = trained("augur-switch");
    let start = stage.now;
    stage.reliable(2 * CHUNK);
    let sent = run(&mut stage, start, 50);
    stage.arrive(&sent[0].1);
    assert_eq!(copies(&run(&mut stage, start, 500)), [(ms(110) + Span::TICK, 1, 1)], "60 ms after 50 ms");
}

#[test]
fn every_frame_in_flight_is_repeated_at_the_switch() {
    let mut stage = trained("augur-switch");
    let start = stage.now;
    let frames: Vec<_> = (0..4).map(|_| stage.reliable(CHUNK)).collect();
    let sent = run(&mut stage, start, 500);
    let copied: Vec<_> = sent.iter().filter(|(_, p)| p.kind == WorkKind::Copy).collect();
    assert_eq!(copied.iter().map(|(_, p)| p.block).collect::<Vec<_>>(), frames);
    assert!(copied.iter().all(|(at, p)| (*at, p.path) == (ms(60) + Span::TICK, 1)));
}

#[test]
fn what_is_too_late_at_the_switch_goes_behind_new_frames() {
    let sent = |name: &str| {
        let mut stage = trained(name);
        let start = stage.now;
        stage.path(1).window = 0;
        let old = stage.reliable(CHUNK);
        run(&mut stage, start, 250);
        stage.path(1).window = 1_000 * u64::from(CHUNK);
        stage.reliable(CHUNK);
        stage.send_all().iter().map(|p| (p.block == old, p.path, p.kind)).collect::<Vec<_>>()
    };
    let new = [(false, 1, WorkKind::Fresh), (false, 0, WorkKind::Copy)];
    let old = [(true, 1, WorkKind::Copy)];
    assert_eq!(sent("augur-switch(rescue=probe)"), [&new[..], &old].concat());
    assert_eq!(sent("augur-switch"), [&old[..], &new].concat(), "all are repeated first");
}

#[test]
fn after_the_switch_new_frames_go_on_the_backup_and_a_probe_on_the_primary() {
    let (mut stage, _) = switched();
    stage.reliable(2 * CHUNK);
    let sent: Vec<_> = stage.send_all().into_iter().map(|p| (p.path, p.kind)).collect();
    let both = [(1, WorkKind::Fresh), (0, WorkKind::Copy), (1, WorkKind::Fresh), (0, WorkKind::Copy)];
    assert_eq!(sent, both, "one frame was in flight on the primary");
    stage.reliable(CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [1], "two are");

    let probes = stage.probed.len();
    let start = stage.now;
    assert_eq!(run(&mut stage, start, 500), []);
    assert_eq!(stage.probed.len(), probes, "the data on the backup measures its round trip");
}

#[test]
fn the_primary_is_taken_back_when_its_round_trip_has_left_the_states() {
    let (mut stage, _) = switched();
    stage.reliable(CHUNK);
    let sent = stage.send_all();
    let probe = sent.iter().find(|p| p.path == 0).expect("a probe").clone();
    assert_eq!(stage.path(0).latest_rtt, ms(20), "the last good sample proves nothing");
    stage.path(0).latest_rtt = ms(21);
    stage.arrive(&probe);
    stage.reliable(CHUNK);
    let more = stage.send_all();
    assert_eq!(more.iter().map(|p| (p.path, p.kind)).next(), Some((1, WorkKind::Fresh)), "21 ms are in X₂");
    stage.path(0).latest_rtt = ms(20);
    let probe = more.iter().find(|p| p.path == 0).expect("a probe").clone();
    stage.arrive(&probe);
    stage.reliable(CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [0]);
}

#[test]
fn frames_from_before_do_not_switch_again() {
    let (mut stage, _) = switched();
    stage.path(0).latest_rtt = ms(5);
    stage.reliable(CHUNK);
    let sent = stage.send_all();
    let probe = sent.iter().find(|p| p.path == 0).expect("a probe").clone();
    stage.arrive(&probe);
    assert_eq!(stage.send(), None);
    let start = stage.now;
    stage.path(0).latest_rtt = ms(70);
    stage.reliable(CHUNK);
    let back = run(&mut stage, start, 10);
    assert_eq!(paths_of(&back.into_iter().map(|(_, p)| p).collect::<Vec<_>>()), [0]);
    assert_eq!(copies(&run(&mut stage, start, 100)), [(ms(21), 0, 1)], "but the new one does, at its age");
}

#[test]
fn the_backup_is_left_when_its_budget_ends() {
    let (mut stage, _) = switched();
    stage.path(1).budget = Some(u64::from(CHUNK) - 1);
    stage.reliable(CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [0]);
}

#[test]
fn a_primary_out_of_use_is_degraded_for_those_that_switch() {
    for name in ALL {
        let mut stage = stage(name);
        stage.path(0).usable = false;
        stage.reliable(CHUNK);
        assert_eq!(paths_of(&stage.send_all()), [1], "{name}");
        stage.path(0).usable = true;
        stage.path(0).latest_rtt = ms(200);
        stage.reliable(3 * CHUNK);
        let first = stage.send_all().first().map(|p| p.path);
        assert_eq!(first, Some(u8::from(name != "augur-retransmit")), "{name}: too slow to return to");
        stage.path(0).latest_rtt = ms(199);
        stage.reliable(CHUNK);
        assert_eq!(paths_of(&stage.send_all()), [0], "{name}");
    }
}

#[test]
fn a_primary_that_is_gone_is_replaced_by_all() {
    for name in ALL {
        let mut stage = stage(name);
        stage.reliable(CHUNK);
        assert_eq!(paths_of(&stage.send_all()), [0]);
        let gone = stage.paths.remove(0);
        stage.reliable(CHUNK);
        assert_eq!(stage.send_all().last().map(|p| p.path), Some(1), "{name}");
        stage.paths.insert(0, gone);
        stage.reliable(CHUNK);
        assert_eq!(paths_of(&stage.send_all()), [0], "{name}");
    }
}
