//! The frame of a chart and its vertical axis.

use plotters::style::text_anchor::HPos;

use super::{Chart, WIDTH};
use crate::measure::Unit;
use crate::report::axis::{Frame, Scale};
use crate::report::canvas::{Area, DrawError, line, polyline, px, text, write};
use crate::report::html::trim;
use crate::report::style::Role;

const LEFT: i32 = 62;
const RIGHT: i32 = 14;

/// Ratio of the largest to the smallest time from which on the axis is logarithmic.
const WIDE: f64 = 12.0;

/// Ends of intervals beyond so many times the highest value are not shown: wide intervals must not make the
/// values flat.
const BEYOND: f64 = 1.25;

/// Values that are all within this share of the largest one are not drawn from zero on.
const NARROW: f64 = 0.12;

/// The frame between two heights in backend pixels. Its horizontal axis goes from 0 to 1.
pub(super) fn frame(chart: &Chart, top: i32, bottom: i32) -> Frame {
    let x = Scale::Linear { from: 0.0, to: 1.0 };
    Frame { left: px(LEFT), top, right: px(WIDTH - RIGHT), bottom, x, y: scale(chart) }
}

fn scale(chart: &Chart) -> Scale {
    let most = chart.values().fold(0.0, f64::max);
    let least = chart.values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let highest = chart.ends().fold(most, f64::max).min(most * BEYOND);
    if !least.is_finite() {
        return Scale::Linear { from: 0.0, to: 1.0 };
    }
    // Zero has no place on a logarithmic axis; zeros lie on its foot.
    if chart.log.unwrap_or(chart.unit == Unit::Time && most > least * WIDE) {
        return Scale::Log { from: least / 1.6, to: highest * 1.3 };
    }
    let lowest = chart.values().chain(chart.ends()).fold(f64::INFINITY, f64::min);
    // Decibels have no zero, and nobody is that unlike.
    let zeroless = matches!(chart.unit, Unit::Level | Unit::Likeness) && lowest > most * 0.4;
    if chart.log.is_none() && (zeroless || lowest > most * (1.0 - NARROW)) {
        let margin = ((highest - lowest) * 0.25).max(most * 1e-3);
        return Scale::Linear { from: (lowest - margin).max(0.0), to: highest + margin };
    }
    match chart.unit {
        // A whole is a natural end.
        Unit::Ratio if (0.6..=1.0).contains(&most) => Scale::Linear { from: 0.0, to: 1.03 },
        Unit::Ratio if most <= 1.0 => Scale::Linear { from: 0.0, to: (highest * 1.08).min(1.03) },
        _ => Scale::Linear { from: 0.0, to: highest * 1.08 },
    }
}

/// Whether the vertical axis begins at zero.
pub(super) fn from_zero(frame: &Frame) -> bool {
    matches!(frame.y, Scale::Linear { from: 0.0, .. })
}

/// Grid, labels and what the axis shows.
pub(super) fn draw(area: &Area<'_>, frame: &Frame, chart: &Chart) -> Result<(), DrawError> {
    frame.draw_y(area, 6, |value| label(chart.unit, value))?;
    polyline(area, vec![(frame.left, frame.bottom), (frame.right, frame.bottom)], line(Role::Muted, 1.0))?;
    let mut words = chart.what.clone();
    match frame.y {
        Scale::Log { .. } => words.push_str(" (logarithmic)"),
        Scale::Linear { from, .. } if from > 0.0 => words.push_str(" (not from 0 on)"),
        Scale::Linear { .. } => {}
    }
    write(area, &words, &text(Role::Ink, 12, HPos::Left), (px(4), frame.top - px(17)))
}

/// A value on the axis.
pub(super) fn label(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Ratio => format!("{} %", trim(round(value * 100.0))),
        Unit::Time if value >= 999_999.0 => format!("{} s", trim(round(value / 1e6))),
        Unit::Time if value >= 999.0 || value == 0.0 => format!("{} ms", trim(round(value / 1e3))),
        Unit::Time => format!("{} µs", trim(round(value))),
        Unit::Rate => format!("{} Mbps", trim(round(value / 1e6))),
        Unit::Size => format!("{} MB", trim(round(value / 1e6))),
        Unit::Level => format!("{} dB", trim(round(value))),
        Unit::Likeness | Unit::Number => trim(round(value)),
    }
}

/// Takes away what steps of a tenth leave behind.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
