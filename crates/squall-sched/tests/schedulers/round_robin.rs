//! RR.

use crate::stage::{CHUNK, Stage, paths_of};

#[test]
fn alternates_packet_by_packet_whatever_the_rtt() {
    let mut stage = Stage::new("rr", &[(40, 100), (10, 100), (25, 100)]);
    stage.reliable(7 * CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn passes_over_full_paths() {
    let mut stage = Stage::new("rr", &[(10, 3), (10, 1), (10, 2)]);
    stage.reliable(9 * CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [0, 1, 2, 0, 2, 0]);
}

#[test]
fn goes_on_where_it_stopped() {
    let mut stage = Stage::new("rr", &[(10, 100), (10, 100)]);
    stage.reliable(CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [0]);
    assert_eq!(stage.send(), None, "being asked in vain is not a turn");
    stage.reliable(2 * CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [1, 0]);
}

#[test]
fn goes_on_after_a_path_that_is_gone() {
    let mut stage = Stage::new("rr", &[(10, 100), (10, 100), (10, 100)]);
    stage.reliable(4 * CHUNK);
    assert_eq!([stage.send(), stage.send()].map(|p| p.map(|p| p.path)), [Some(0), Some(1)]);
    stage.paths.remove(1);
    assert_eq!(paths_of(&stage.send_all()), [2, 0]);
}
