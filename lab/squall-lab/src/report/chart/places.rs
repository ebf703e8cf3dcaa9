//! Where the places of a chart lie on its horizontal axis, and their names.

use plotters::style::text_anchor::HPos;

use super::Chart;
use crate::report::axis::Frame;
use crate::report::canvas::{Area, DrawError, line, polyline, px, text, write};
use crate::report::style::Role;

/// Ratio of the last to the first place from which on the axis is logarithmic.
const WIDE: f64 = 12.0;

/// Free room at both ends of an axis of numbers, as a share of it.
const MARGIN: f64 = 0.05;

/// Width of a letter of a label, in CSS pixels.
const LETTER: i32 = 6;

/// Where each place lies, in backend pixels.
pub(super) struct Places {
    centers: Vec<i32>,
    /// Width that a place has for itself.
    room: i32,
    rows: i32,
}

impl Places {
    pub(super) fn of(chart: &Chart, frame: &Frame) -> Self {
        let count = chart.places.len();
        let width = f64::from(frame.right - frame.left);
        let shares = if chart.has_lines() { numbers(chart) } else { evenly(count) };
        let centers = shares.iter().map(|share| frame.left + (share * width).round() as i32).collect();
        Self { centers, room: (width / count as f64) as i32, rows: chart.rows.len() as i32 }
    }

    /// Where the mark of a scheduler at a place is: on the place in a chart with lines, else beside the others.
    pub(super) fn x(&self, place: usize, row: usize, chart: &Chart) -> i32 {
        if chart.has_lines() {
            return self.centers[place];
        }
        let step = (self.room * 5 / 6 / self.rows.max(1)).min(px(96));
        self.centers[place] + step * (2 * row as i32 - self.rows + 1) / 2
    }

    /// Both ends of what belongs to a place.
    pub(super) fn ends(&self, place: usize) -> (i32, i32) {
        let half = self.room * 11 / 24;
        (self.centers[place] - half, self.centers[place] + half)
    }

    pub(super) fn center(&self, place: usize) -> i32 {
        self.centers[place]
    }

    /// The names of the places, or of the schedulers if there is only one, and what the axis shows.
    pub(super) fn draw_labels(&self, area: &Area<'_>, chart: &Chart) -> Result<(), DrawError> {
        let y = chart_bottom() + px(14);
        let style = text(Role::Muted, 11, HPos::Center);
        if chart.names_below() {
            for (row, one) in chart.rows.iter().enumerate() {
                for (index, part) in broken(&one.name).into_iter().enumerate() {
                    let at = (self.x(0, row, chart), y + px(13) * index as i32);
                    write(area, part, &text(Role::Ink, 11, HPos::Center), at)?;
                }
            }
        } else {
            let mut free_from = i32::MIN;
            for place in self.in_order() {
                let name = &chart.places[place].name;
                let half = px(LETTER) * name.chars().count() as i32 / 2;
                let x = self.centers[place];
                polyline(area, vec![(x, y - px(14)), (x, y - px(10))], line(Role::Muted, 1.0))?;
                if x - half > free_from {
                    write(area, name, &style, (x, y))?;
                    free_from = x + half;
                }
            }
        }
        let middle = (px(super::WIDTH) / 2, chart_bottom() + px(height(chart) - 9));
        write(area, &chart.along, &text(Role::Ink, 12, HPos::Center), middle)
    }

    /// Places from left to right.
    pub(super) fn in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.centers.len()).collect();
        order.sort_by_key(|place| self.centers[*place]);
        order
    }
}

fn chart_bottom() -> i32 {
    px(super::TITLE + super::PLOT)
}

/// Height of what is below the frame, in CSS pixels.
pub(super) fn height(chart: &Chart) -> i32 {
    let lines = match chart.names_below() {
        true => chart.rows.iter().map(|row| broken(&row.name).len()).max().unwrap_or(1),
        false => 1,
    };
    12 + 13 * lines as i32 + if chart.along.is_empty() { 0 } else { 19 }
}

/// A name in lines, as those of schedulers with options are long.
fn broken(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(at) = rest.char_indices().skip(1).find(|(_, c)| matches!(c, '(' | '+')).map(|(at, _)| at) {
        parts.push(&rest[..at]);
        rest = &rest[at..];
    }
    parts.push(rest);
    parts
}

/// Numbers on the axis, from left to right in the order in which the file has most of them.
fn numbers(chart: &Chart) -> Vec<f64> {
    let at: Vec<f64> = chart.places.iter().filter_map(|place| place.at).collect();
    let (low, high) =
        at.iter().fold((f64::INFINITY, 0.0f64), |(low, high), at| (low.min(*at), high.max(*at)));
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

fn evenly(count: usize) -> Vec<f64> {
    (0..count).map(|place| (place as f64 + 0.5) / count as f64).collect()
}
