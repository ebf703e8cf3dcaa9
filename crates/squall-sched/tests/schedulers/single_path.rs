//! SP.

use crate::stage::{CHUNK, Stage, paths_of};

#[test]
fn uses_its_path_alone_however_slow() {
    let mut stage = Stage::new("sp(path=1)", &[(10, 100), (500, 3)]);
    stage.reliable(5 * CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [1, 1, 1]);
}

#[test]
fn the_default_is_path_0() {
    let mut stage = Stage::new("sp", &[(500, 100), (10, 100)]);
    stage.reliable(2 * CHUNK);
    assert_eq!(paths_of(&stage.send_all()), [0, 0]);
}

#[test]
fn sends_nothing_while_its_path_is_gone() {
    let mut stage = Stage::new("sp(path=1)", &[(10, 100), (20, 100)]);
    stage.reliable(CHUNK);
    let gone = stage.paths.remove(1);
    assert_eq!(stage.send(), None);
    stage.paths.push(gone);
    assert_eq!(stage.send().map(|p| p.path), Some(1));
}
