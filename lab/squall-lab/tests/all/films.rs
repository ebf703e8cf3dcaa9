//! The shipped films match their README.

use std::path::Path;

use squall_lab::traffic::{FrameTrace, FrameType};

fn film(name: &str) -> FrameTrace {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traffic");
    let film = FrameTrace::load(&folder.join(name)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((film.pictures(), film.duration_us() / 100_000), (360, 120), "{name}");
    assert_eq!(film.rows()[0].frame_type, Some(FrameType::I), "{name}");
    film
}

fn mbps(film: &FrameTrace) -> f64 {
    film.bytes() as f64 * 8.0 / film.duration_us() as f64
}

/// Mean size of the frames of a type.
fn mean(film: &FrameTrace, frame: FrameType) -> f64 {
    let sizes: Vec<u64> =
        film.rows().iter().filter(|row| row.frame_type == Some(frame)).map(|row| row.size).collect();
    sizes.iter().sum::<u64>() as f64 / sizes.len() as f64
}

#[test]
fn the_broadcast_has_groups_of_i_p_and_b() {
    let film = film("live.csv");
    assert!((mbps(&film) / 8.0 - 1.0).abs() < 0.05, "{}", mbps(&film));
    let [i, p, b] = FrameType::ALL.map(|frame| mean(&film, frame));
    assert!(i > 2.0 * p && p > 2.0 * b, "{i} {p} {b}");
    assert_eq!(film.rows().iter().filter(|row| row.frame_type == Some(FrameType::I)).count(), 6);
}

#[test]
fn the_conference_has_no_b_frames() {
    let film = film("conference.csv");
    assert!((mbps(&film) / 2.5 - 1.0).abs() < 0.05, "{}", mbps(&film));
    assert!(film.rows().iter().all(|row| row.frame_type != Some(FrameType::B)));
}

#[test]
fn layers_are_those_of_the_readme() {
    let temporal = film("temporal.csv");
    assert_eq!((temporal.layers(), temporal.rows().len()), (3, 360));
    assert!((mbps(&temporal) / 2.5 - 1.0).abs() < 0.05, "{}", mbps(&temporal));
    let layers: Vec<u8> = temporal.rows().iter().map(|row| row.layer).collect();
    assert_eq!(layers, [0, 2, 1, 2].repeat(90));
    let quality = film("quality.csv");
    assert_eq!((quality.layers(), quality.rows().len()), (3, 1_080));
    assert!((mbps(&quality) / 4.0 - 1.0).abs() < 0.05, "{}", mbps(&quality));
}
