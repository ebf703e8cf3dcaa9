//! The key under a chart: who is drawn how.

use plotters::style::text_anchor::HPos;

use super::{Chart, WIDTH};
use crate::report::canvas::{Area, DrawError, fill, line, marker, open_marker, polyline, px, text, write};
use crate::report::style::Role;

const LINE: i32 = 19;
const LEFT: i32 = 8;
const SYMBOL: i32 = 34;
const LETTER: f64 = 6.4;
const GAP: i32 = 16;

/// An entry, with its place in CSS pixels from the corner of the key.
pub(super) struct Entry {
    symbol: Symbol,
    words: String,
    at: (i32, i32),
}

enum Symbol {
    Line(usize),
    Dot(usize),
    Band(usize),
    Paper(usize),
    Asked,
    Bound,
}

/// The entries in lines that are full from left to right; `band` says what a band is.
pub(super) fn lay_out(chart: &Chart, band: &str) -> Vec<Entry> {
    let mut entries: Vec<(Symbol, String)> = Vec::new();
    if !chart.names_below() {
        let symbol = |series| if chart.has_lines() { Symbol::Line(series) } else { Symbol::Dot(series) };
        entries.extend(chart.rows.iter().map(|row| (symbol(row.series), row.name.clone())));
    }
    let first = chart.rows.first().map_or(0, |row| row.series);
    if chart.has_lines()
        && chart.rows.iter().flat_map(|row| &row.values).flatten().any(|all| all.half.is_some())
    {
        entries.push((Symbol::Band(first), band.into()));
    }
    if let Some(told) = chart.rows.iter().find(|row| row.paper.iter().any(Option::is_some)) {
        entries.push((Symbol::Paper(told.series), "told by the paper".into()));
    }
    if chart.rows.iter().flat_map(|row| &row.asked).any(|asked| !asked.is_empty()) {
        entries.push((Symbol::Asked, "what claims ask for".into()));
    }
    if chart.bound.iter().any(Option::is_some) {
        entries.push((Symbol::Bound, "limit for any scheduler".into()));
    }
    place(entries)
}

fn place(entries: Vec<(Symbol, String)>) -> Vec<Entry> {
    let (mut x, mut y) = (LEFT, 0);
    let mut placed = Vec::new();
    for (symbol, words) in entries {
        let width = SYMBOL + (words.chars().count() as f64 * LETTER) as i32;
        if x > LEFT && x + width > WIDTH - LEFT {
            (x, y) = (LEFT, y + LINE);
        }
        placed.push(Entry { symbol, words, at: (x, y) });
        x += width + GAP;
    }
    placed
}

/// Height of the key in CSS pixels.
pub(super) fn height(entries: &[Entry]) -> i32 {
    entries.last().map_or(4, |last| last.at.1 + LINE + 4)
}

/// Draws it from this height on, in backend pixels.
pub(super) fn draw(area: &Area<'_>, entries: &[Entry], top: i32) -> Result<(), DrawError> {
    for entry in entries {
        let (x, y) = (px(entry.at.0), top + px(entry.at.1 + LINE / 2));
        let (end, middle) = (x + px(SYMBOL - 7), x + px(SYMBOL - 7) / 2);
        let level = vec![(x, y), (end, y)];
        match entry.symbol {
            Symbol::Line(series) => {
                polyline(area, level, line(Role::Series(series), 2.0))?;
                marker(area, series, (middle, y))?;
            }
            Symbol::Dot(series) => marker(area, series, (middle, y))?,
            Symbol::Band(series) => {
                fill(area, Role::Solid(series), 0.16, [(x, y - px(6)), (end, y + px(6))])?;
            }
            Symbol::Paper(series) => open_marker(area, series, (middle, y))?,
            Symbol::Asked => {
                polyline(area, vec![(middle - px(7), y), (middle + px(7), y)], line(Role::Ink, 2.0))?;
            }
            Symbol::Bound => polyline(area, level, line(Role::Bound, 2.0))?,
        }
        write(area, &entry.words, &text(Role::Ink, 12, HPos::Left), (x + px(SYMBOL), y))?;
    }
    Ok(())
}
