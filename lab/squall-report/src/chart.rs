//! Charts of schedulers' measures along an axis: lines if the places are numbers, else dots beside
//! each other.
//!
//! A mean has its 95 % confidence interval, as a band or a whisker. Open markers are published
//! numbers, ticks are claimed values, and a dotted line is the bound that no scheduler can exceed.

use squall_lab::measure::Unit;
use squall_lab::statistics::Estimate;

use crate::style::{Role, trim};
use crate::surface::{Anchor, Figure, Frame, Point, Scale, Surface};

/// Width of a chart; two fit side by side.
pub(crate) const WIDTH: f64 = 528.0;

const TITLE: f64 = 30.0;
const PLOT: f64 = 232.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 15.0;

/// Ratio of the largest to the smallest number from which an axis is logarithmic.
const WIDE: f64 = 12.0;

/// Multiple of the highest value beyond which ends of intervals are not shown, so that wide
/// intervals do not flatten the values.
const BEYOND: f64 = 1.25;

/// Share of the largest value: if all values lie within it, the axis does not start at zero.
const NARROW: f64 = 0.12;

/// Free space at both ends of an axis of numbers, as a share of it.
const MARGIN: f64 = 0.05;

/// Width of a letter of a label.
const LETTER: f64 = 6.0;

/// Half the width of a tick or a stem.
const HALF: f64 = 7.0;

/// Data and labels of a chart.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    /// Title of the chart.
    pub(crate) title: String,
    /// Explanation of parts that have no label in the drawing.
    pub(crate) caption: String,
    /// Quantity of the vertical axis.
    pub(crate) what: String,
    /// Unit of the vertical axis.
    pub(crate) unit: Unit,
    /// `true` for a logarithmic, `false` for a linear vertical axis; `None` chooses by the values.
    pub(crate) log: Option<bool>,
    /// Quantity of the horizontal axis with its unit; empty for none.
    pub(crate) along: String,
    /// At least one place: its name, and its position if it is a number.
    pub(crate) places: Vec<(String, Option<f64>)>,
    /// Values of the schedulers.
    pub(crate) rows: Vec<Row>,
    /// Bound for every scheduler, by place.
    pub(crate) bound: Vec<Option<f64>>,
}

/// Values of one scheduler at each place.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Number of its style.
    pub(crate) series: usize,
    pub(crate) name: String,
    pub(crate) values: Vec<Option<Estimate>>,
    /// Numbers published in the paper.
    pub(crate) paper: Vec<Option<f64>>,
    /// Values required by claims.
    pub(crate) claimed: Vec<Vec<f64>>,
}

/// Returns the frame of a chart.
pub(crate) fn frame(x: Scale, y: Scale) -> Frame {
    Frame { left: LEFT, top: TITLE, right: WIDTH - RIGHT, bottom: TITLE + PLOT, x, y }
}

impl Chart {
    /// Returns the drawing; `None` if there is nothing to draw.
    pub(crate) fn figure(&self) -> Option<Figure> {
        self.rows.iter().flat_map(|row| &row.values).flatten().next()?;
        let key = Key::of(self.entries());
        let names = self.rows.iter().map(|row| broken(&row.name).len()).max().unwrap_or(1);
        let lines = if self.names_below() { names } else { 1 };
        let foot = 12.0 + 13.0 * lines as f64 + if self.along.is_empty() { 0.0 } else { 19.0 };
        let frame = frame(Scale::Linear { from: 0.0, to: 1.0 }, self.scale());
        let places = Places::of(self, &frame);
        let size = (WIDTH, frame.bottom + foot + key.height);
        Some(Figure::draw(self.title.clone(), self.title.clone(), self.caption.as_str(), size, |surface| {
            frame.draw_y(surface, 6, |value| label(self.unit, value));
            surface.line(frame.level(frame.bottom), Role::Muted, 1.0);
            let note = match frame.y {
                Scale::Log { .. } => " (logarithmic)",
                Scale::Linear { from, .. } if from > 0.0 => " (not from 0 on)",
                Scale::Linear { .. } => "",
            };
            let words = format!("{}{note}", self.what);
            surface.text((4.0, frame.top - 17.0), &words, Role::Ink, 12, Anchor::Start);
            places.draw_labels(surface, self, frame.bottom + 14.0);
            let along_y = frame.bottom + foot - 9.0;
            surface.text((WIDTH / 2.0, along_y), &self.along, Role::Ink, 12, Anchor::Middle);
            self.draw(surface, &frame, &places);
            key.draw(surface, frame.bottom + foot);
        }))
    }

    /// `true` if the chart is drawn as lines.
    fn has_lines(&self) -> bool {
        self.places.len() > 1 && self.places.iter().all(|place| place.1.is_some())
    }

    /// `true` if the schedulers' names stand under their marks.
    fn names_below(&self) -> bool {
        self.places.len() == 1
    }

    /// Returns all drawn numbers except the ends of intervals.
    fn values(&self) -> impl Iterator<Item = f64> {
        let means = self.rows.iter().flat_map(|row| &row.values).flatten().map(|all| all.mean);
        let claimed = self.rows.iter().flat_map(|row| row.claimed.iter().flatten());
        let others = self.rows.iter().flat_map(|row| row.paper.iter().flatten()).chain(claimed);
        means.chain(others.copied()).chain(self.bound.iter().flatten().copied())
    }

    /// Returns the ends of all intervals.
    fn ends(&self) -> impl Iterator<Item = f64> {
        let all = self.rows.iter().flat_map(|row| &row.values).flatten();
        all.filter_map(interval).flatten()
    }

    /// Chooses a vertical axis for the values.
    fn scale(&self) -> Scale {
        let most = self.values().fold(0.0, f64::max);
        let least = self.values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let highest = self.ends().fold(most, f64::max).min(most * BEYOND);
        if !least.is_finite() {
            return Scale::Linear { from: 0.0, to: 1.0 };
        }
        // A logarithmic axis has no zero; zeros are drawn at its foot.
        if self.log.unwrap_or(self.unit == Unit::Time && most > least * WIDE) {
            return Scale::Log { from: least / 1.6, to: highest * 1.3 };
        }
        let lowest = self.values().chain(self.ends()).fold(f64::INFINITY, f64::min);
        // Decibels have no zero, and SSIM never approaches it.
        let zeroless = matches!(self.unit, Unit::Level | Unit::Likeness) && lowest > most * 0.4;
        if self.log.is_none() && (zeroless || lowest > most * (1.0 - NARROW)) {
            let margin = ((highest - lowest) * 0.25).max(most * 1e-3);
            return Scale::Linear { from: (lowest - margin).max(0.0), to: highest + margin };
        }
        let to = match self.unit {
            // 100 % is a natural end.
            Unit::Ratio if (0.6..=1.0).contains(&most) => 1.03,
            Unit::Ratio if most <= 1.0 => (highest * 1.08).min(1.03),
            _ => highest * 1.08,
        };
        Scale::Linear { from: 0.0, to }
    }

    /// Returns the entries of the key: symbols with their words.
    fn entries(&self) -> Vec<(Symbol, String)> {
        let mut entries: Vec<(Symbol, String)> = Vec::new();
        if !self.names_below() {
            let symbol = if self.has_lines() { Symbol::Line } else { Symbol::Dot };
            entries.extend(self.rows.iter().map(|row| (symbol(row.series), row.name.clone())));
        }
        let first = self.rows.first().map_or(0, |row| row.series);
        if self.has_lines() && self.ends().next().is_some() {
            entries.push((Symbol::Band(first), "95 % interval of the mean".into()));
        }
        if let Some(row) = self.rows.iter().find(|row| row.paper.iter().any(Option::is_some)) {
            entries.push((Symbol::Paper(row.series), "reported by the paper".into()));
        }
        if self.rows.iter().flat_map(|row| &row.claimed).any(|claimed| !claimed.is_empty()) {
            entries.push((Symbol::Claimed, "what claims ask for".into()));
        }
        if self.bound.iter().any(Option::is_some) {
            entries.push((Symbol::Bound, "limit for any scheduler".into()));
        }
        entries
    }

    fn draw(&self, surface: &mut Surface, frame: &Frame, places: &Places) {
        self.draw_bound(surface, frame, places);
        let lines = self.has_lines();
        for (index, row) in self.rows.iter().enumerate() {
            if lines {
                draw_band(surface, frame, places, row);
            } else if matches!(frame.y, Scale::Linear { from: 0.0, .. }) {
                for (place, all) in row.values.iter().enumerate() {
                    let Some(all) = all else { continue };
                    let x = places.x(place, index);
                    let corners = [(x - HALF, frame.y_at(all.mean)), (x + HALF, frame.bottom)];
                    surface.rect(corners, Role::Solid(row.series), 0.22);
                }
            }
        }
        for (index, row) in self.rows.iter().enumerate() {
            draw_row(surface, frame, row, lines, &places.in_order(), &|place| places.x(place, index));
        }
    }

    fn draw_bound(&self, surface: &mut Surface, frame: &Frame, places: &Places) {
        let known = places.in_order().into_iter().filter_map(|place| {
            let value = self.bound.get(place).copied().flatten()?;
            Some((place, frame.y_at(value)))
        });
        if self.has_lines() && self.bound.iter().any(Option::is_some) {
            let points = known.map(|(place, y)| (places.centers[place], y));
            surface.line(points, Role::Bound, 2.0);
        } else {
            for (place, y) in known {
                let (x, half) = (places.centers[place], places.room * 11.0 / 24.0);
                surface.line([(x - half, y), (x + half, y)], Role::Bound, 2.0);
            }
        }
    }
}

/// Returns both ends of a confidence interval; values are not negative.
fn interval(all: &Estimate) -> Option<[f64; 2]> {
    all.half.map(|half| [(all.mean - half).max(0.0), all.mean + half])
}

/// Draws the confidence interval of a line.
fn draw_band(surface: &mut Surface, frame: &Frame, places: &Places, row: &Row) {
    let known = places.in_order().into_iter().filter_map(|place| {
        let ends = interval(row.values[place].as_ref()?)?;
        Some((places.centers[place], ends.map(|end| frame.y_at(end))))
    });
    let known: Vec<(f64, [f64; 2])> = known.collect();
    if known.len() > 1 {
        let upper = known.iter().map(|(x, ends)| (*x, ends[1]));
        let lower = known.iter().rev().map(|(x, ends)| (*x, ends[0]));
        surface.area(upper.chain(lower), Role::Solid(row.series), 0.16);
    }
}

/// Draws claimed values, numbers of the paper, then line, whiskers and markers.
fn draw_row(
    surface: &mut Surface,
    frame: &Frame,
    row: &Row,
    lines: bool,
    order: &[usize],
    x: &dyn Fn(usize) -> f64,
) {
    for (place, claimed) in row.claimed.iter().enumerate() {
        for y in claimed.iter().map(|claimed| frame.y_at(*claimed)) {
            let x = x(place);
            surface.line([(x - HALF, y), (x + HALF, y)], Role::Ink, 2.0);
            if let Some(all) = row.values[place] {
                surface.line([(x, y), (x, frame.y_at(all.mean))], Role::Link, 1.5);
            }
        }
    }
    for (place, number) in row.paper.iter().enumerate() {
        if let Some(number) = number {
            let aside = if lines { 0.0 } else { 10.0 };
            surface.open_marker(row.series, (x(place) + aside, frame.y_at(*number)));
        }
    }
    let known: Vec<(f64, Estimate)> =
        order.iter().filter_map(|place| Some((x(*place), row.values[*place]?))).collect();
    if lines && known.len() > 1 {
        let points = known.iter().map(|(x, all)| (*x, frame.y_at(all.mean)));
        surface.line(points, Role::Series(row.series), 2.0);
    }
    for (x, all) in known {
        if let Some(ends) = interval(&all).filter(|_| !lines) {
            let role = Role::Solid(row.series);
            let ends = ends.map(|end| frame.y_at(end));
            surface.line(ends.map(|y| (x, y)), role, 1.5);
            ends.into_iter().for_each(|y| surface.line([(x - 4.0, y), (x + 4.0, y)], role, 1.5));
        }
        surface.marker(row.series, (x, frame.y_at(all.mean)));
    }
}

/// Positions of a chart's places on its horizontal axis.
struct Places {
    centers: Vec<f64>,
    /// Width available to a place.
    room: f64,
    /// Distance between schedulers at the same place.
    step: f64,
    rows: usize,
}

impl Places {
    fn of(chart: &Chart, frame: &Frame) -> Self {
        let count = chart.places.len();
        let width = frame.right - frame.left;
        let shares = if chart.has_lines() {
            shares(&chart.places.iter().filter_map(|place| place.1).collect::<Vec<_>>())
        } else {
            (0..count).map(|place| (place as f64 + 0.5) / count as f64).collect()
        };
        let (room, rows) = (width / count as f64, chart.rows.len());
        let step = if chart.has_lines() { 0.0 } else { (room * 5.0 / 6.0 / rows.max(1) as f64).min(96.0) };
        Self { centers: shares.iter().map(|share| frame.left + share * width).collect(), room, step, rows }
    }

    /// Position of a scheduler's mark: at the place itself in a chart with lines, else beside the
    /// others.
    fn x(&self, place: usize, row: usize) -> f64 {
        self.centers[place] + self.step * (2.0 * row as f64 - self.rows as f64 + 1.0) / 2.0
    }

    /// Returns the places from left to right.
    fn in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.centers.len()).collect();
        order.sort_by(|a, b| self.centers[*a].total_cmp(&self.centers[*b]));
        order
    }

    /// Draws the names of the places, or of the schedulers if there is only one place.
    fn draw_labels(&self, surface: &mut Surface, chart: &Chart, y: f64) {
        if chart.names_below() {
            for (row, one) in chart.rows.iter().enumerate() {
                for (index, part) in broken(&one.name).into_iter().enumerate() {
                    let at = (self.x(0, row), y + 13.0 * index as f64);
                    surface.text(at, part, Role::Ink, 11, Anchor::Middle);
                }
            }
            return;
        }
        let mut free_from = f64::MIN;
        for place in self.in_order() {
            let (name, x) = (&chart.places[place].0, self.centers[place]);
            let half = LETTER * name.chars().count() as f64 / 2.0;
            surface.line([(x, y - 14.0), (x, y - 10.0)], Role::Muted, 1.0);
            if x - half > free_from {
                surface.text((x, y), name, Role::Muted, 11, Anchor::Middle);
                free_from = x + half;
            }
        }
    }
}

/// Breaks a name into lines: schedulers with options have long names.
fn broken(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some((at, _)) = rest.char_indices().skip(1).find(|(_, c)| matches!(c, '(' | '+')) {
        parts.push(&rest[..at]);
        rest = &rest[at..];
    }
    parts.push(rest);
    parts
}

/// Returns the positions of numbers as shares of the axis; the axis runs from right to left if the
/// last number is smaller than the first.
fn shares(at: &[f64]) -> Vec<f64> {
    let (low, high) =
        at.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(*at), high.max(*at)));
    let log = low > 0.0 && high > low * WIDE;
    let span = if log { (high / low).ln() } else { high - low };
    let share = |at: f64| match (span > 0.0, log) {
        (false, _) => 0.5,
        (true, true) => (at / low).ln() / span,
        (true, false) => (at - low) / span,
    };
    let falls = at.first() > at.last();
    let turned = |share: f64| if falls { 1.0 - share } else { share };
    at.iter().map(|at| MARGIN + (1.0 - 2.0 * MARGIN) * turned(share(*at))).collect()
}

/// Formats a value of the axis.
fn label(unit: Unit, value: f64) -> String {
    // Removes the rounding errors of steps of a tenth.
    let show = |value: f64| trim((value * 1e6).round() / 1e6);
    match unit {
        Unit::Ratio => format!("{} %", show(value * 100.0)),
        Unit::Time if value >= 999_999.0 => format!("{} s", show(value / 1e6)),
        Unit::Time if value >= 999.0 || value == 0.0 => format!("{} ms", show(value / 1e3)),
        Unit::Time => format!("{} µs", show(value)),
        Unit::Rate => format!("{} Mbps", show(value / 1e6)),
        Unit::Size => format!("{} MB", show(value / 1e6)),
        Unit::Level => format!("{} dB", show(value)),
        Unit::Frames => format!("{} fps", show(value)),
        Unit::Likeness | Unit::Number => show(value),
    }
}

/// Symbol of an entry in the key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Symbol {
    Line(usize),
    Dot(usize),
    Band(usize),
    Paper(usize),
    Claimed,
    Bound,
}

/// Key under a chart: its entries with their positions.
pub(crate) struct Key {
    entries: Vec<(Symbol, String, Point)>,
    pub(crate) height: f64,
}

impl Key {
    const LINE: f64 = 19.0;
    const LEFT: f64 = 8.0;
    const SYMBOL: f64 = 34.0;

    /// Arranges the entries in lines, each filled from left to right.
    pub(crate) fn of(entries: Vec<(Symbol, String)>) -> Self {
        let (mut x, mut y) = (Self::LEFT, 0.0);
        let mut placed = Vec::new();
        for (symbol, words) in entries {
            let width = Self::SYMBOL + words.chars().count() as f64 * 6.4;
            if x > Self::LEFT && x + width > WIDTH - Self::LEFT {
                (x, y) = (Self::LEFT, y + Self::LINE);
            }
            placed.push((symbol, words, (x, y)));
            x += width + 16.0;
        }
        let height = placed.last().map_or(4.0, |last| last.2.1 + Self::LINE + 4.0);
        Self { entries: placed, height }
    }

    /// Draws the key from this height on.
    pub(crate) fn draw(&self, surface: &mut Surface, top: f64) {
        for (symbol, words, at) in &self.entries {
            let (x, y) = (at.0, top + at.1 + Self::LINE / 2.0);
            let end = x + Self::SYMBOL - 7.0;
            let (level, middle) = ([(x, y), (end, y)], f64::midpoint(x, end));
            match *symbol {
                Symbol::Line(series) => {
                    surface.line(level, Role::Series(series), 2.0);
                    surface.marker(series, (middle, y));
                }
                Symbol::Dot(series) => surface.marker(series, (middle, y)),
                Symbol::Band(series) => {
                    surface.rect([(x, y - 6.0), (end, y + 6.0)], Role::Solid(series), 0.16);
                }
                Symbol::Paper(series) => surface.open_marker(series, (middle, y)),
                Symbol::Claimed => surface.line([(middle - HALF, y), (middle + HALF, y)], Role::Ink, 2.0),
                Symbol::Bound => surface.line(level, Role::Bound, 2.0),
            }
            surface.text((x + Self::SYMBOL, y), words, Role::Ink, 12, Anchor::Start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(at: [Option<f64>; 2]) -> Chart {
        let some = |mean: f64| Some(Estimate { mean, half: Some(0.05) });
        let row = |series: usize, name: &str, values: [f64; 2]| Row {
            series,
            name: name.into(),
            values: values.map(some).into(),
            paper: vec![Some(0.999), None],
            claimed: vec![vec![], vec![0.4, 0.3]],
        };
        Chart {
            title: "Completion by <rate>".into(),
            caption: String::new(),
            what: "in time".into(),
            unit: Unit::Ratio,
            log: None,
            along: "bandwidth, Mbps".into(),
            places: ["20+25", "5+10"].map(str::to_owned).into_iter().zip(at).collect(),
            rows: vec![row(0, "minrtt", [0.9, 0.2]), row(1, "dams", [0.8, 0.5])],
            bound: vec![Some(1.0), Some(0.7)],
        }
    }

    fn drawn(chart: &Chart) -> String {
        chart.figure().expect("has values").standalone()
    }

    #[test]
    fn numbers_are_lines_with_bands_and_names_are_stems() {
        let lines = drawn(&chart([Some(45.0), Some(15.0)]));
        assert_eq!(lines.matches("\"s-series s-series0\"").count(), 2, "the line and its key");
        assert_eq!(lines.matches("opacity=\"0.16\"").count(), 3, "two bands and the key");
        let dots = drawn(&chart([None, None]));
        assert_eq!(dots.matches("\"s-series s-series0\"").count(), 0);
        assert_eq!(dots.matches("opacity=\"0.22\"").count(), 4, "a stem for each value");
        for words in [
            "20+25",
            "reported by the paper",
            "what claims ask for",
            "limit for any scheduler",
            "bandwidth, Mbps",
        ] {
            assert!(lines.contains(words) && dots.contains(words), "{words} in {lines}");
        }
        assert!(lines.contains("Completion by &lt;rate&gt;"));
    }

    #[test]
    fn the_order_of_the_file_is_that_of_the_axis() {
        let chart = chart([Some(45.0), Some(15.0)]);
        let places = Places::of(&chart, &frame(Scale::Linear { from: 0.0, to: 1.0 }, chart.scale()));
        assert_eq!(places.in_order(), [0, 1], "45 is left of 15, as the file has it");
        assert!(places.centers[0] < places.centers[1]);
        assert!(shares(&[-1.0, 0.0, 1.0]).is_sorted_by(|a, b| a < b), "below zero too");
    }

    #[test]
    fn one_place_names_the_schedulers_below() {
        let mut chart = chart([None, None]);
        chart.places.truncate(1);
        for row in &mut chart.rows {
            row.values.truncate(1);
            row.paper.truncate(1);
            row.claimed.truncate(1);
        }
        chart.bound.truncate(1);
        chart.rows[0].name = "storm(alpha=0.5)+late".into();
        let svg = drawn(&chart);
        for part in ["storm", "(alpha=0.5)", "+late"] {
            assert!(svg.contains(&format!(">{part}<")), "{part}");
        }
    }

    #[test]
    fn scales_suit_the_values() {
        let mut chart = chart([None, None]);
        chart.unit = Unit::Time;
        for row in &mut chart.rows {
            (row.paper, row.claimed) = (vec![None; 2], vec![Vec::new(); 2]);
        }
        chart.bound.clear();
        let set = |chart: &mut Chart, means: [f64; 2]| {
            for row in &mut chart.rows {
                row.values = means.map(|mean| Some(Estimate { mean, half: None })).into();
            }
            drawn(chart)
        };
        assert!(set(&mut chart, [10_000.0, 900_000.0]).contains("(logarithmic)"));
        assert!(set(&mut chart, [290_000.0, 294_000.0]).contains("(not from 0 on)"));
        let plain = set(&mut chart, [10_000.0, 90_000.0]);
        assert!(!plain.contains("(logarithmic)") && !plain.contains("(not from 0 on)"));
        assert!(set(&mut chart, [0.0, 0.0]).contains("<svg"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let mut chart = chart([None, None]);
        for row in &mut chart.rows {
            row.values = vec![None, None];
        }
        assert!(chart.figure().is_none());
    }

    #[test]
    fn the_same_chart_is_the_same_bytes() {
        assert_eq!(drawn(&chart([None, None])), drawn(&chart([None, None])));
    }
}
