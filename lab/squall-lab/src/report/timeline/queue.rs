//! The round-trip time of a path over time, and the queue of its link.

use plotters::style::text_anchor::HPos;

use super::thin;
use crate::report::axis::{Frame, Scale};
use crate::report::canvas::{Area, DrawError, line, polygon, polyline, px, text, write};
use crate::report::html::trim;
use crate::report::panels::{ms, seconds, show_ms};
use crate::report::style::Role;
use crate::result::PathResult;

const GAP: i32 = 9;
const PLOT: i32 = 58;

/// Height of the drawing in CSS pixels.
pub(super) const HEIGHT: i32 = GAP + PLOT;

/// How to read the drawing.
pub(super) const CAPTION: &str = "Below it, the smoothed round-trip time (line, left) and the queue of the link (area, \
    right).";

/// The longest round-trip time of a path in milliseconds, and the longest queue in kilobytes.
pub(super) fn highest(path: &PathResult) -> (f64, f64) {
    let rtt = path.series.srtt_us.iter().copied().max().unwrap_or(0);
    let queue = path.series.queue.iter().copied().max().unwrap_or(0);
    (ms(rtt), queue as f64 / 1e3)
}

/// Draws them below the upper edge of `place`; all paths of a run have the same axes, up to these values.
pub(super) fn draw(
    area: &Area<'_>,
    place: Frame,
    series: usize,
    path: &PathResult,
    (rtt, queue): (f64, f64),
) -> Result<(), DrawError> {
    let top = place.top + px(GAP);
    let axis = |highest: f64| Scale::Linear { from: 0.0, to: highest.max(1.0) * 1.1 };
    let frame = Frame { top, bottom: top + px(PLOT), y: axis(rtt), ..place };
    let times = &path.series.at_us;
    frame.draw_x_grid(area, 10)?;
    if queue > 0.0 {
        let right = Frame { y: axis(queue), ..frame };
        let points = times.iter().zip(&path.series.queue).map(|(us, bytes)| (*us, *bytes as f64 / 1e3));
        let points = thin::highest(points);
        let mut corners: Vec<_> = points.iter().map(|(us, kb)| right.at(seconds(*us), *kb)).collect();
        if let (Some(first), Some(last)) = (corners.first().copied(), corners.last().copied()) {
            corners.extend([(last.0, frame.bottom), (first.0, frame.bottom)]);
        }
        polygon(area, corners, Role::Muted, 0.3)?;
        let words = format!("queue up to {} kB", trim((queue * 10.0).round() / 10.0));
        write(area, &words, &text(Role::Muted, 11, HPos::Right), (frame.right - px(4), top + px(8)))?;
    }
    frame.draw_y(area, 2, show_ms)?;
    write(area, "RTT", &text(Role::Muted, 11, HPos::Left), (frame.left + px(4), top + px(8)))?;
    let points = times.iter().zip(&path.series.srtt_us).map(|(us, rtt)| (*us, ms(*rtt)));
    let points = thin::highest(points).into_iter().map(|(us, rtt)| frame.at(seconds(us), rtt)).collect();
    polyline(area, points, line(Role::Solid(series), 1.5))
}
