//! What a path's radio told over time, under the path's rate.

use plotters::style::text_anchor::HPos;

use super::rate::steps;
use super::thin;
use crate::report::axis::{Frame, Scale};
use crate::report::canvas::{Area, DrawError, fill, line, polyline, px, text, write};
use crate::report::panels::seconds;
use crate::report::style::Role;
use crate::result::{AlertWord, PathResult};

const GAP: i32 = 10;
const PLOT: i32 = 70;
const STRIP: i32 = 15;

/// Height of the drawing in CSS pixels.
pub(super) const HEIGHT: i32 = GAP + PLOT + STRIP;

/// The marks at their start (STORM Table 2), each with how far its label stands from the axis in CSS pixels: side
/// by side, as they are too near to each other for labels of one column.
const MARKS: [(f64, i32); 3] = [(0.45, 7), (0.32, 36), (0.21, 7)];

/// How to read the drawing.
pub(in crate::report) const CAPTION: &str = "Under each path, its radio: the quality index that it told (line), from 0 to 1, the \
    marks good 0.45, warning 0.32 and outage 0.21 where they begin (dashed), and the factor by which the sender weighs \
    the path (dotted). Strip: what the sender heard last: nothing against the path (empty), a warning (half as high), \
    an outage (full).";

/// Whether the session went by the path's radio.
pub(super) fn was_heeded(path: &PathResult) -> bool {
    !path.series.quality.is_empty()
}

/// Draws quality, factor and alerts below the upper edge of `place`, if there are any.
pub(super) fn draw(
    area: &Area<'_>,
    place: Frame,
    series: usize,
    path: &PathResult,
    end_us: u64,
) -> Result<(), DrawError> {
    if !was_heeded(path) {
        return Ok(());
    }
    let top = place.top + px(GAP);
    let frame = Frame { top, bottom: top + px(PLOT), y: Scale::Linear { from: 0.0, to: 1.04 }, ..place };
    frame.draw_x_grid(area, 10)?;
    draw_marks(area, &frame)?;
    let at = |(us, share): (u64, f64)| frame.at(seconds(us), share / 1e3);
    let times = &path.series.at_us;
    let factor = times.iter().zip(&path.series.factor).map(|(us, share)| (*us, f64::from(*share)));
    let factor: Vec<_> = thin::lowest(factor).into_iter().map(at).collect();
    if !factor.is_empty() {
        polyline(area, steps(&factor), line(Role::Link, 1.5))?;
    }
    let told: Vec<_> = times.iter().zip(&path.series.quality).collect();
    for stretch in told.chunk_by(|a, b| a.1.is_some() == b.1.is_some()) {
        let known = stretch.iter().filter_map(|(us, share)| Some((**us, f64::from((**share)?))));
        let points: Vec<_> = thin::lowest(known).into_iter().map(at).collect();
        if points.len() > 1 {
            polyline(area, points, line(Role::Solid(series), 1.5))?;
        }
    }
    draw_alerts(area, &frame, path, end_us)
}

fn draw_marks(area: &Area<'_>, frame: &Frame) -> Result<(), DrawError> {
    for (mark, aside) in MARKS {
        let y = frame.y_at(mark);
        polyline(area, vec![(frame.left, y), (frame.right, y)], line(Role::Limit, 1.0))?;
        write(area, &mark.to_string(), &text(Role::Muted, 11, HPos::Right), (frame.left - px(aside), y))?;
    }
    write(area, "signal 1", &text(Role::Muted, 11, HPos::Right), (frame.left - px(7), frame.y_at(1.0)))
}

fn draw_alerts(area: &Area<'_>, frame: &Frame, path: &PathResult, end_us: u64) -> Result<(), DrawError> {
    let (top, bottom) = (frame.bottom + px(3), frame.bottom + px(STRIP));
    // A warning that only says "weaker still" goes on with the one before.
    let stretches: Vec<_> = path.alerts.chunk_by(|a, b| a.kind == b.kind).map(|same| same[0]).collect();
    let ends = stretches.iter().skip(1).map(|next| next.at_us).chain([end_us]);
    for (alert, end) in stretches.iter().zip(ends) {
        let (role, from_y) = match alert.kind {
            AlertWord::Recovery => continue,
            AlertWord::Warning => (Role::StateSuspect, i32::midpoint(top, bottom)),
            AlertWord::Outage => (Role::StateDown, top),
        };
        let (from, to) = (frame.x_at(seconds(alert.at_us)), frame.x_at(seconds(end)));
        fill(area, role, 1.0, [(from, from_y), (to.max(from + 1), bottom)])?;
        let words = if alert.kind == AlertWord::Outage { "signal: out" } else { "" };
        if to - from > px(6) * words.len() as i32 {
            let middle = (i32::midpoint(from, to), i32::midpoint(top, bottom));
            write(area, words, &text(Role::Ink, 10, HPos::Center), middle)?;
        }
    }
    Ok(())
}
