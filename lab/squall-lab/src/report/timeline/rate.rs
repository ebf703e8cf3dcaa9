//! What a path carried over time against what its link could, and the states that it was held in.

use plotters::style::text_anchor::HPos;
use squall_units::format;

use super::thin;
use crate::flow::{Direction, word};
use crate::report::axis::Frame;
use crate::report::canvas::{Area, DrawError, bold, fill, line, polyline, px, text, write};
use crate::report::panels::{name_outages, seconds, shade};
use crate::report::style::Role;
use crate::result::{Interval, PathResult, PathState, RunResult};

/// Height of the strip of states, in CSS pixels.
pub(super) const STRIP: i32 = 16;

/// The highest rate of a path or its link, in bits per second.
pub(super) fn highest_bps(path: &PathResult) -> u64 {
    let links = path.series.link_bps.iter().flatten();
    let rates = path.series.down_bps.iter().chain(&path.series.up_bps);
    rates.chain(links).copied().max().unwrap_or(0)
}

/// Draws the path; the vertical axis of the frame is in Mbps.
pub(super) fn draw_path(
    area: &Area<'_>,
    frame: &Frame,
    series: usize,
    path: &PathResult,
    run: &RunResult,
) -> Result<(), DrawError> {
    let outages: Vec<(&str, Interval)> =
        path.outages.iter().map(|outage| (path.name.as_str(), *outage)).collect();
    shade(area, frame, &outages)?;
    frame.draw_y(area, 3, |tick| format!("{tick} Mbps"))?;
    frame.draw_x_grid(area, 10)?;
    name_outages(area, frame, &outages)?;
    let title_y = frame.top - px(12);
    write(area, &path.name, &bold(Role::Ink, 14, HPos::Left), (frame.left, title_y))?;
    write(area, &stats(path, run), &text(Role::Ink, 12, HPos::Right), (frame.right, title_y))?;

    let at = |(us, bps): (u64, f64)| frame.at(seconds(us), bps / 1e6);
    let times = &path.series.at_us;
    let carried = |direction: Direction| -> Vec<_> {
        let carried = times.iter().zip(path.series.rate_bps(direction));
        thin::means(carried.map(|(us, bps)| (*us, *bps as f64))).into_iter().map(at).collect()
    };
    let could = times.iter().zip(&path.series.link_bps);
    let could = could.filter_map(|(us, bps)| bps.map(|bps| (*us, bps as f64)));
    let link: Vec<_> = thin::means(could).into_iter().map(at).collect();
    if !link.is_empty() {
        polyline(area, steps(&link), line(Role::Link, 1.5))?;
    }
    let back = other(run.direction);
    if path.series.rate_bps(back).iter().any(|bps| *bps > 0) {
        polyline(area, carried(back), line(Role::Back, 1.0))?;
    }
    polyline(area, carried(run.direction), line(Role::Solid(series), 1.5))?;
    draw_states(area, frame, path, run.duration_us)
}

/// A link keeps its rate until it changes.
pub(super) fn steps(points: &[(i32, i32)]) -> Vec<(i32, i32)> {
    let mut steps: Vec<(i32, i32)> = Vec::new();
    for (x, y) in points {
        match steps.last() {
            Some((_, last)) if last != y => steps.extend([(*x, *last), (*x, *y)]),
            _ => steps.push((*x, *y)),
        }
    }
    steps
}

fn stats(path: &PathResult, run: &RunResult) -> String {
    let mean = |direction: Direction| {
        let bps = match direction {
            Direction::Down => path.goodput_down_bps,
            Direction::Up => path.goodput_up_bps,
        };
        format!("{} {}", word(direction), format::rate(bps as f64))
    };
    let goodput = [run.direction, other(run.direction)].map(mean).join(", ");
    let sent = path.totals.wire_bytes_down + path.totals.wire_bytes_up;
    let rtt = path.rtt.map_or_else(String::new, |all| format!(", RTT p50 {}", format::time(all.p50_us)));
    format!("mean {goodput}, {} sent{rtt}", format::size(sent as f64))
}

fn other(direction: Direction) -> Direction {
    match direction {
        Direction::Down => Direction::Up,
        Direction::Up => Direction::Down,
    }
}

fn draw_states(area: &Area<'_>, frame: &Frame, path: &PathResult, end_us: u64) -> Result<(), DrawError> {
    let ends = path.states.iter().skip(1).map(|change| change.at_us).chain([end_us]);
    for (change, end) in path.states.iter().zip(ends) {
        let (from, to) = (frame.x_at(seconds(change.at_us)), frame.x_at(seconds(end)));
        let top = frame.bottom + px(3);
        let bottom = frame.bottom + px(STRIP);
        fill(area, state_role(change.state), 1.0, [(from, top), (to.max(from + 1), bottom)])?;
        let words = change.state.as_str();
        if to - from > px(7) * words.len() as i32 {
            let at = (i32::midpoint(from, to), i32::midpoint(top, bottom));
            write(area, words, &text(Role::Ink, 10, HPos::Center), at)?;
        }
    }
    Ok(())
}

fn state_role(state: PathState) -> Role {
    match state {
        PathState::Active => Role::StateGood,
        PathState::Opening | PathState::Standby | PathState::Recovering => Role::StateHeld,
        PathState::Suspect => Role::StateSuspect,
        PathState::Deactivated | PathState::Down | PathState::Closed => Role::StateDown,
    }
}
