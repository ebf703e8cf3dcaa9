//! Recorded links over time, as a drawing: the rates of all on the same axes, and the round trips below.

use std::path::Path;

use plotters::style::text_anchor::HPos;
use squall_trace::{Gaps, Quantity, Recording};
use squall_units::Micros;

use crate::report::{
    axis::{Frame, Scale},
    canvas::{Area, DrawError, Figure, LEFT, RIGHT, WIDTH, bold, line, marker, polyline, px, text, write},
    style::Role,
};

/// Most links of a drawing: as many as there are dashes to tell them apart.
pub const MAX_LINKS: usize = 8;

/// Heights in CSS pixels.
const HEAD: i32 = 64;
const KEY: i32 = 22;
const TITLE: i32 = 30;
const RATE: i32 = 280;
const RTT: i32 = 170;
const FOOT: i32 = 52;

/// Keys in a row.
const KEYS: usize = 2;

/// Most letters of a name in the key.
const LETTERS: usize = 64;

/// Steps of time that values can be put together in, in microseconds.
const STEPS: [Micros; 11] = [
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
];

/// About how many steps a line has.
const POINTS: u64 = 240;

/// About how many markers a line has.
const MARKERS: usize = 6;

/// Which of the two is in a panel.
type Values = fn(&Track) -> &[(f64, f64)];

/// A link as it is drawn: times in seconds.
struct Track {
    name: String,
    rates: Vec<(f64, f64)>,
    rtts: Vec<(f64, f64)>,
}

/// The drawing as an SVG file, which follows the reader's light or dark setting. It has the first [`MAX_LINKS`] of
/// these links, each with the name of its file.
pub fn svg(links: &[(String, Recording)], gaps: Gaps) -> String {
    let links = &links[..links.len().min(MAX_LINKS)];
    let longest = links.iter().map(|(_, link)| link.duration()).max().unwrap_or_default().max(1);
    let step = STEPS.into_iter().find(|step| longest / step <= POINTS).unwrap_or(longest / POINTS);
    let tracks: Vec<Track> = links
        .iter()
        .enumerate()
        .map(|(index, (_, link))| Track {
            name: name(links, index),
            rates: rates(link, step, gaps),
            rtts: rtts(link, step),
        })
        .collect();
    let panels: [(&str, Values, i32); 2] = [
        ("Rate in Mbit/s, means of", |track| &track.rates, RATE),
        ("Round trip in ms, largest of", |track| &track.rtts, RTT),
    ];
    let drawn: Vec<_> =
        panels.into_iter().filter(|(_, of, _)| tracks.iter().any(|track| !of(track).is_empty())).collect();
    let keys = tracks.len().div_ceil(KEYS) as i32 * KEY;
    let height = HEAD + keys + drawn.iter().map(|(_, _, height)| TITLE + height).sum::<i32>() + FOOT;
    let title = "Recorded links";
    let figure = Figure::draw("links".into(), title.into(), String::new(), height, |area| {
        write(area, title, &bold(Role::Ink, 18, HPos::Left), (px(14), px(24)))?;
        draw_keys(area, &tracks)?;
        let mut top = HEAD + keys;
        for (index, (words, of, height)) in drawn.iter().enumerate() {
            let words = format!("{words} {} s", step as f64 / 1e6);
            write(area, &words, &text(Role::Ink, 12, HPos::Left), (px(14), px(top + 8)))?;
            let last = index + 1 == drawn.len();
            draw_panel(area, &tracks, *of, (top + TITLE, *height), longest as f64 / 1e6, last)?;
            top += TITLE + height;
        }
        Ok(())
    });
    figure.standalone()
}

/// The file's own name, with its folders only if another link has the same; the end of it if it is long.
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

/// The mean rate of each step, in the middle of it.
fn rates(link: &Recording, step: Micros, gaps: Gaps) -> Vec<(f64, f64)> {
    let Some(supply) = link.supply(gaps) else { return Vec::new() };
    let starts = (0..).map(|index| index * step).take_while(|start| *start < supply.end());
    starts
        .map(|start| {
            let end = (start + step).min(supply.end());
            ((start + end) as f64 / 2e6, supply.mean_bps(start..end) / 1e6)
        })
        .collect()
}

/// The largest round trip of each step that has one, in the middle of the step.
fn rtts(link: &Recording, step: Micros) -> Vec<(f64, f64)> {
    let mut steps: Vec<(Micros, f64)> = Vec::new();
    for (at, rtt) in link.numbers(Quantity::Rtt) {
        match steps.last_mut() {
            Some((index, largest)) if *index == at / step => *largest = largest.max(rtt),
            _ => steps.push((at / step, rtt)),
        }
    }
    steps.into_iter().map(|(index, rtt)| ((index * step + step / 2) as f64 / 1e6, rtt)).collect()
}

fn draw_keys(area: &Area<'_>, tracks: &[Track]) -> Result<(), DrawError> {
    let width = WIDTH / KEYS as i32;
    for (index, track) in tracks.iter().enumerate() {
        let (x, y) = (14 + (index % KEYS) as i32 * width, HEAD - 10 + (index / KEYS) as i32 * KEY);
        polyline(area, vec![(px(x), px(y)), (px(x + 44), px(y))], line(Role::Series(index), 2.0))?;
        marker(area, index, (px(x + 22), px(y)))?;
        write(area, &track.name, &text(Role::Ink, 12, HPos::Left), (px(x + 52), px(y)))?;
    }
    Ok(())
}

fn draw_panel(
    area: &Area<'_>,
    tracks: &[Track],
    of: Values,
    (top, height): (i32, i32),
    longest: f64,
    last: bool,
) -> Result<(), DrawError> {
    let most = tracks.iter().flat_map(of).map(|(_, value)| *value).fold(0.0, f64::max);
    let frame = Frame {
        left: px(LEFT),
        right: px(WIDTH - RIGHT),
        top: px(top),
        bottom: px(top + height - TITLE / 2),
        x: Scale::Linear { from: 0.0, to: longest },
        y: Scale::Linear { from: 0.0, to: if most > 0.0 { most * 1.05 } else { 1.0 } },
    };
    let show = |tick: f64| format!("{}", (tick * 1e6).round() / 1e6);
    frame.draw_y(area, 5, show)?;
    frame.draw_x_grid(area, 10)?;
    if last {
        frame.draw_x_labels(area, 10, px(2), "seconds", show)?;
    }
    for (index, track) in tracks.iter().enumerate() {
        for run in runs(of(track)).filter(|run| run.len() > 1) {
            let run = run.iter().map(|&(x, y)| frame.at(x, y)).collect();
            polyline(area, run, line(Role::Series(index), 1.6))?;
        }
        let points: Vec<(i32, i32)> = of(track).iter().map(|&(x, y)| frame.at(x, y)).collect();
        // Those of two links stand at different places.
        let apart = points.len().div_ceil(MARKERS).max(1);
        let first = apart * (2 * index + 1) / (2 * tracks.len());
        for at in points.iter().skip(first).step_by(apart) {
            marker(area, index, *at)?;
        }
    }
    Ok(())
}

/// Values next to each other: a line ends before a time without any that is longer than four usual ones.
fn runs(values: &[(f64, f64)]) -> impl Iterator<Item = &[(f64, f64)]> {
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

    /// A link out of the text of a file, by way of a file.
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
        let with = svg(&[table, list.clone()], Gaps::Hold);
        for words in
            ["drive.csv", "walk.mahi", "s-series1", "means of 0.5 s", "Round trip in ms, largest of 0.5 s"]
        {
            assert!(with.contains(words), "{words} is not in {with}");
        }
        let without = svg(&[list], Gaps::Hold);
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
