//! minRTT.

use squall_sched::WorkKind;
use squall_units::short::ms;

use crate::stage::{CHUNK, Stage, paths_of};

#[test]
fn takes_the_lowest_rtt_wherever_it_stands() {
    let mut stage = Stage::new("minrtt", &[(40, 100), (10, 100), (25, 100)]);
    stage.reliable(5 * CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [1, 1, 1, 1, 1]);
}

#[test]
fn spills_over_only_when_the_window_is_full() {
    let mut stage = Stage::new("minrtt", &[(40, 100), (10, 2), (25, 1)]);
    stage.reliable(5 * CHUNK);
    let sent = stage.send_all();
    assert_eq!(paths_of(&sent), [1, 1, 2, 0, 0]);

    stage.arrive(&sent[0]);
    stage.reliable(CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [1], "back to the fastest as soon as it has room");
}

#[test]
fn the_lower_id_wins_a_tie() {
    let mut stage = Stage::new("minrtt", &[(10, 1), (10, 1)]);
    stage.reliable(2 * CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [0, 1]);
}

#[test]
fn follows_the_rtt_as_it_changes() {
    let mut stage = Stage::new("minrtt", &[(10, 100), (20, 100)]);
    stage.reliable(2 * CHUNK);
    assert_eq!(stage.send().map(|p| p.path), Some(0));
    stage.path(0).srtt = ms(30);
    assert_eq!(stage.send().map(|p| p.path), Some(1));
}

#[test]
fn blocks_go_in_the_order_of_handing_over() {
    let mut stage = Stage::new("minrtt", &[(10, 100)]);
    let blocks = [stage.reliable(CHUNK), stage.unreliable(2 * CHUNK), stage.reliable(CHUNK / 2)];
    let sent: Vec<_> = stage.send_all().into_iter().map(|p| (p.block, p.range)).collect();
    let expected = [
        (blocks[0], 0..CHUNK),
        (blocks[1], 0..CHUNK),
        (blocks[1], CHUNK..2 * CHUNK),
        (blocks[2], 0..CHUNK / 2),
    ];
    assert_eq!(sent, expected);
}

#[test]
fn unreliable_data_may_wait_for_all_reliable_data() {
    let mut stage = Stage::new("minrtt(unreliable=last)", &[(10, 4), (20, 100)]);
    let [first, second] = [0; 2].map(|_| stage.unreliable(2 * CHUNK));
    let key = stage.reliable(2 * CHUNK);
    let keys: Vec<_> = (0..2).filter_map(|_| stage.send()).collect();
    assert_eq!(keys.iter().map(|p| (p.block, p.path)).collect::<Vec<_>>(), [(key, 0); 2]);
    assert_eq!(stage.send().map(|p| p.block), Some(first), "no reliable byte waits");
    stage.lose(&keys[0]);
    let later = stage.reliable(CHUNK);
    let sent: Vec<_> = stage.send_all().into_iter().map(|p| (p.block, p.kind)).collect();
    let expected = [
        (key, WorkKind::Repair),
        (later, WorkKind::Fresh),
        (first, WorkKind::Fresh),
        (second, WorkKind::Fresh),
        (second, WorkKind::Fresh),
    ];
    assert_eq!(sent, expected);
}

#[test]
fn a_repair_may_change_the_path() {
    let mut stage = Stage::new("minrtt", &[(10, 1), (20, 1)]);
    stage.reliable(2 * CHUNK);
    let sent = stage.send_all();
    assert_eq!(paths_of(&sent), [0, 1]);
    stage.lose(&sent[1]);
    stage.arrive(&sent[0]);
    let repair = stage.send().expect("room");
    assert_eq!((repair.path, repair.kind, repair.range), (0, WorkKind::Repair, CHUNK..2 * CHUNK));
}
