//! Recorded links over time: the rates of all links on the same axes, and the round trips below.

use std::path::Path;

use squall_trace::{Gaps, Micros, Quantity, Recording};

use crate::style::Role;
use crate::surface::{Anchor, Figure, Frame, Point, Scale, Surface, WIDTH};

/// Maximum number of links in a drawing: the number of dash patterns.
pub const MAX_LINKS: usize = crate::style::SERIES;

/// Heights.
const HEAD: f64 = 64.0;
const KEY: f64 = 22.0;
const TITLE: f64 = 30.0;
const RATE: f64 = 265.0;
const RTT: f64 = 155.0;
const FOOT: f64 = 67.0;

/// Keys per row.
const KEYS: usize = 2;

/// Maximum number of letters of a name in the key.
const LETTERS: usize = 64;

/// Possible steps over which values are combined, in seconds.
const STEPS: [f64; 11] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 300.0, 1_800.0];

/// Approximate number of steps per line.
const POINTS: u64 = 240;

/// Approximate number of markers per line.
const MARKERS: usize = 6;

/// A link to draw: name, rates and round trips, with times in seconds.
struct Track {
    name: String,
    values: [Vec<Point>; 2],
}

/// Returns the drawing as an SVG file, which follows the reader's light or dark setting. It shows
/// the first [`MAX_LINKS`] of these links, each with the name of its file.
pub fn links(links: &[(String, Recording)], gaps: Gaps) -> String {
    let links = &links[..links.len().min(MAX_LINKS)];
    let longest = links.iter().map(|(_, link)| link.duration()).max().unwrap_or_default().max(1);
    let steps = STEPS.map(|seconds| (seconds * 1e6) as Micros);
    let step = steps.into_iter().find(|step| longest / step <= POINTS).unwrap_or(longest / POINTS);
    let track = |(index, (_, link)): (usize, &(String, Recording))| Track {
        name: name(links, index),
        values: [rates(link, step, gaps), rtts(link, step)],
    };
    let tracks: Vec<Track> = links.iter().enumerate().map(track).collect();
    let panels = [("Rate in Mbit/s, means of", RATE), ("Round trip in ms, largest of", RTT)];
    let drawn: Vec<_> = (0..)
        .zip(panels)
        .filter(|(which, _)| tracks.iter().any(|track| !track.values[*which].is_empty()))
        .collect();
    let keys = tracks.len().div_ceil(KEYS) as f64 * KEY;
    let height = HEAD + keys + drawn.iter().map(|(_, (_, height))| TITLE + height).sum::<f64>() + FOOT;
    let title = "Recorded links";
    let figure = Figure::draw("links".into(), title.into(), "", (WIDTH, height), |surface| {
        surface.bold((14.0, 24.0), title, Role::Ink, 18, Anchor::Start);
        draw_keys(surface, &tracks);
        let (linear, seconds) = (|to: f64| Scale::Linear { from: 0.0, to }, longest as f64 / 1e6);
        let mut frame = Frame::wide(0.0, HEAD + keys - TITLE / 2.0, linear(seconds), linear(1.0));
        for (index, (which, (words, height))) in drawn.iter().enumerate() {
            let words = format!("{words} {} s", step as f64 / 1e6);
            surface.text((14.0, frame.bottom + 23.0), &words, Role::Ink, 12, Anchor::Start);
            let values: Vec<&[Point]> = tracks.iter().map(|track| &track.values[*which][..]).collect();
            let most = values.iter().copied().flatten().map(|point| point.1).fold(0.0, f64::max);
            frame = frame.below(TITLE * 1.5, *height, linear(if most > 0.0 { most * 1.05 } else { 1.0 }));
            draw_panel(surface, &frame, &values);
            if index + 1 == drawn.len() {
                frame.draw_x_labels(surface, 10, 2.0, "seconds", show);
            }
        }
    });
    figure.standalone()
}

fn show(tick: f64) -> String {
    format!("{}", (tick * 1e6).round() / 1e6)
}

/// Returns the file's own name, with its folders only if another link has the same name; of a long
/// name only the end.
fn name(links: &[(String, Recording)], index: usize) -> String {
    let short = |file: &str| {
        Path::new(file)
            .file_name()
            .map_or_else(|| file.to_owned(), |name| name.to_string_lossy().into_owned())
    };
    let file = &links[index].0;
    let same = links.iter().filter(|(other, _)| short(other) == short(file)).count();
    let name = if same > 1 { file.clone() } else { short(file) };
    let letters = name.chars().count();
    if letters <= LETTERS {
        return name;
    }
    std::iter::once('…').chain(name.chars().skip(letters + 1 - LETTERS)).collect()
}

/// Returns the mean rate of each step, at its middle.
fn rates(link: &Recording, step: Micros, gaps: Gaps) -> Vec<Point> {
    let Some(supply) = link.supply(gaps) else { return Vec::new() };
    let starts = (0..).map(|index| index * step).take_while(|start| *start < supply.end());
    starts
        .map(|start| {
            let end = (start + step).min(supply.end());
            ((start + end) as f64 / 2e6, supply.mean_bps(start..end) / 1e6)
        })
        .collect()
}

/// Returns the largest round trip of each step that has one, at its middle.
fn rtts(link: &Recording, step: Micros) -> Vec<Point> {
    let mut steps: Vec<(Micros, f64)> = Vec::new();
    for (at, rtt) in link.numbers(Quantity::Rtt) {
        match steps.last_mut() {
            Some((index, largest)) if *index == at / step => *largest = largest.max(rtt),
            _ => steps.push((at / step, rtt)),
        }
    }
    steps.into_iter().map(|(index, rtt)| ((index * step + step / 2) as f64 / 1e6, rtt)).collect()
}

fn draw_keys(surface: &mut Surface, tracks: &[Track]) {
    for (index, track) in tracks.iter().enumerate() {
        let x = 14.0 + (index % KEYS) as f64 * WIDTH / KEYS as f64;
        let y = HEAD - 10.0 + (index / KEYS) as f64 * KEY;
        surface.line([(x, y), (x + 44.0, y)], Role::Series(index), 2.0);
        surface.marker(index, (x + 22.0, y));
        surface.text((x + 52.0, y), &track.name, Role::Ink, 12, Anchor::Start);
    }
}

fn draw_panel(surface: &mut Surface, frame: &Frame, tracks: &[&[Point]]) {
    frame.draw_y(surface, 5, show);
    frame.draw_x_grid(surface, 10);
    for (index, values) in tracks.iter().enumerate() {
        for run in runs(values).filter(|run| run.len() > 1) {
            surface.line(run.iter().map(|point| frame.at(*point)), Role::Series(index), 1.6);
        }
        // Markers of different links are at different places.
        let apart = values.len().div_ceil(MARKERS).max(1);
        let first = apart * (2 * index + 1) / (2 * tracks.len());
        for point in values.iter().skip(first).step_by(apart) {
            surface.marker(index, frame.at(*point));
        }
    }
}

/// Splits values into lines: a gap longer than four median steps ends a line.
fn runs(values: &[Point]) -> impl Iterator<Item = &[Point]> {
    let mut steps: Vec<f64> = values.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    steps.sort_unstable_by(f64::total_cmp);
    let usual = steps.get(steps.len() / 2).copied().unwrap_or_default();
    values.chunk_by(move |one, next| next.0 - one.0 <= 4.0 * usual)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use squall_trace::Wishes;

    use super::*;

    static FILES: AtomicUsize = AtomicUsize::new(0);

    /// Reads a link from the text of a file, through a temporary file.
    fn link(name: &str, text: &str) -> (String, Recording) {
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("squall-links-{}-{number}", std::process::id()));
        std::fs::write(&file, text).expect("is written");
        let recording = Recording::load(&file, &Wishes::default());
        std::fs::remove_file(&file).expect("was there");
        (name.to_owned(), recording.expect("is read"))
    }

    #[test]
    fn a_picture_has_every_link_and_round_trips_where_there_are_some() {
        let table = link("drive.csv", "time_s,down_mbps,rtt_ms\n0,8,20\n30,2,60\n");
        let list = link("walk.mahi", "100\n200\n40000\n");
        let with = links(&[table, list.clone()], Gaps::Hold);
        for words in
            ["drive.csv", "walk.mahi", "s-series1", "means of 0.5 s", "Round trip in ms, largest of 0.5 s"]
        {
            assert!(with.contains(words), "{words} is not in {with}");
        }
        let without = links(&[list], Gaps::Hold);
        assert!(without.contains("Rate in Mbit/s") && !without.contains("Round trip"));
    }

    #[test]
    fn steps_have_means_and_largest_values() {
        let (_, table) = link("drive.csv", "time_s,down_mbps,rtt_ms\n0,8,20\n1,2,60\n1.5,,40\n3,,\n");
        assert_eq!(rates(&table, 2_000_000, Gaps::Hold), [(1.0, 5.0), (2.5, 2.0)]);
        assert_eq!(rtts(&table, 1_000_000), [(0.5, 20.0), (1.5, 60.0)]);
    }

    #[test]
    fn a_line_ends_where_nothing_was_measured() {
        let values = [0.5, 1.5, 2.0, 8.5, 9.5].map(|at| (at, 1.0));
        assert_eq!(runs(&values).collect::<Vec<_>>(), [&values[..3], &values[3..]]);
        assert_eq!(runs(&values[..1]).count(), 1);
    }

    #[test]
    fn names_are_as_long_as_it_takes() {
        let all: Vec<(String, Recording)> =
            ["a/x.csv", "b/x.csv", "b/y.csv"].map(|file| (file.to_owned(), link("x", "1\n").1)).to_vec();
        assert_eq!(
            (0..3).map(|index| name(&all, index)).collect::<Vec<_>>(),
            ["a/x.csv", "b/x.csv", "y.csv"]
        );
        let long = vec![("x".repeat(70) + "end", all[0].1.clone())];
        assert_eq!(name(&long, 0), format!("…{}end", "x".repeat(60)));
    }
}
