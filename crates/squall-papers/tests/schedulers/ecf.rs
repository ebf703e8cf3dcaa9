//! ECF.

use squall_sched::WorkKind;

use crate::stage::{CHUNK, Stage, paths_of};

/// RTT deviations are a tenth of the RTT (see `PathView::example`): with 10 and 100 ms, δ is 10 ms.
const UNEQUAL: [(u64, u64); 2] = [(10, 10), (100, 10)];

#[test]
fn the_end_of_a_block_waits_for_the_fast_path() {
    let mut stage = Stage::new("ecf", &UNEQUAL);
    stage.reliable(12 * CHUNK);
    // After ten packets two are left: (1 + 1)·10 = 20 < 110 and 1·100 ≥ 30.
    let sent = stage.send_all();
    assert_eq!(paths_of(&sent), [0; 10]);
    assert_eq!(stage.wake, None, "acknowledgements are under way");
    let mut minrtt = Stage::new("minrtt", &UNEQUAL);
    minrtt.reliable(12 * CHUNK);
    assert_eq!(paths_of(&minrtt.send_all())[10..], [1, 1], "minRTT does not wait");
    stage.arrive(&sent[0]);
    assert_eq!(paths_of(&stage.send_all()), [0]);
    stage.arrive(&sent[1]);
    assert_eq!(paths_of(&stage.send_all()), [0]);
}

#[test]
fn a_long_backlog_fills_the_slow_path_until_waiting_pays() {
    let mut stage = Stage::new("ecf", &[(10, 10), (100, 50)]);
    stage.reliable(130 * CHUNK);
    // After ten, 120 are left. (1 + k/10)·10 ≥ 110 down to k = 100: with k from 120 to 100 one each goes on
    // the slow path, 21 in all. At k = 99 ECF waits.
    let sent = stage.send_all();
    assert_eq!(sent.iter().filter(|p| p.path == 0).count(), 10);
    assert_eq!(sent.iter().filter(|p| p.path == 1).count(), 21);
}

#[test]
fn one_that_waits_needs_a_longer_backlog_to_stop() {
    for (name, more, on_slow) in [("ecf", 28, 0), ("ecf", 29, 1), ("ecf(beta=0)", 28, 28)] {
        let mut stage = Stage::new(name, &[(10, 10), (100, 50)]);
        stage.reliable(109 * CHUNK);
        assert_eq!(stage.send_all().len(), 10, "99 are left, and ECF waits");
        stage.reliable(more * CHUNK);
        // β = 0.25: waits up to 127 = 99 + 28; with 128 it stops waiting, and sends down to 100 left.
        let expected = if on_slow == 1 { 29 } else { on_slow };
        assert_eq!(stage.send_all().len(), expected, "{name} with {more} more");
    }
}

#[test]
fn to_wait_rather_than_take_one_path_says_nothing_of_another() {
    let mut stage = Stage::new("ecf", &[(10, 10), (100, 50), (100, 50)]);
    stage.reliable(109 * CHUNK);
    assert_eq!(stage.send_all().len(), 10, "99 are left, and ECF waits rather than take the second path");
    stage.reliable(28 * CHUNK);
    stage.path(1).usable = false;
    // 127 down to 100: the third path has no preference for waiting yet.
    assert_eq!(paths_of(&stage.send_all()), [2; 28]);
}

#[test]
fn like_paths_are_both_used() {
    let mut stage = Stage::new("ecf", &[(20, 2), (25, 2)]);
    stage.reliable(4 * CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [0, 0, 1, 1], "(1 + 1)·20 is not less than 25 + 2.5");
}

#[test]
fn a_repair_waits_as_new_data_does() {
    let mut stage = Stage::new("ecf", &UNEQUAL);
    stage.reliable(11 * CHUNK);
    let sent = stage.send_all();
    assert_eq!(sent.len(), 10);
    stage.lose(&sent[3]);
    stage.path(0).window -= u64::from(CHUNK);
    assert_eq!(stage.send(), None, "two packets to send: (1 + 1)·10 < 110");
    stage.arrive(&sent[0]);
    let repair = stage.send().expect("the fast path has room");
    assert_eq!((repair.path, repair.kind, repair.range), (0, WorkKind::Repair, 3 * CHUNK..4 * CHUNK));
}

#[test]
fn lost_bytes_are_bytes_to_send() {
    let mut stage = Stage::new("ecf(beta=0)", &UNEQUAL);
    stage.reliable(99 * CHUNK);
    let sent = stage.send_all();
    assert_eq!(sent.len(), 10, "(1 + 89/10)·10 < 110");
    stage.lose(&sent[3]);
    stage.path(0).window -= u64::from(CHUNK);
    // 89 fresh and one lost: (1 + 90/9)·10 ≥ 110. Once the latter has been sent, (1 + 89/9)·10 <
    // 110.
    let slow = stage.send_all();
    assert_eq!(slow.iter().map(|p| (p.path, p.kind)).collect::<Vec<_>>(), [(1, WorkKind::Repair)]);
}

#[test]
fn a_full_path_that_fails_is_not_waited_for() {
    for fail in [
        |stage: &mut Stage| stage.path(0).usable = false,
        |stage: &mut Stage| stage.path(0).state = squall_sched::PathState::Suspect,
        |stage: &mut Stage| stage.path(0).budget = Some(0),
        |stage: &mut Stage| _ = stage.paths.remove(0),
    ] {
        let mut stage = Stage::new("ecf", &UNEQUAL);
        stage.reliable(12 * CHUNK);
        assert_eq!(stage.send_all().len(), 10);
        fail(&mut stage);
        assert_eq!(paths_of(&stage.send_all()), [1, 1]);
    }
}

#[test]
fn of_three_paths_the_fastest_with_room_is_weighed_against_the_fastest() {
    // 10 against 15 ms: (1 + 1)·10 = 20 is not less than 15 + 1.5, so the path of 15 ms is filled. 10 against
    // 200 ms: 20 < 200 + 20 and 1·200 ≥ 20 + 20, so the last packet waits.
    let mut stage = Stage::new("ecf", &[(200, 10), (15, 4), (10, 10)]);
    stage.reliable(15 * CHUNK);
    let sent = paths_of(&stage.send_all());
    assert_eq!(sent[..10], [2; 10]);
    assert_eq!(sent[10..], [1; 4]);
}
