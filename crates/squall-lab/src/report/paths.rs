//! What each path carried over time, under one scheduler.

use plotters::style::text_anchor::HPos;

use super::axis::{Frame, Scale};
use super::canvas::{
    Area, DrawError, Figure, LEFT, RIGHT, WIDTH, bold, fill, line, polyline, px, text, write,
};
use super::panels::{name_outages, seconds, shade};
use super::radio;
use super::style::Role;
use crate::result::{Interval, PathResult, PathState, RunResult};
use crate::table::format;

const TITLE: i32 = 28;
const PLOT: i32 = 88;
const STRIP: i32 = 16;
const FOOT: i32 = 48;

/// How to read the figures of this module.
pub(super) const CAPTION: &str = "Line: new data delivered over the path in each 100 ms. Dotted: what the link \
    could carry. Shaded: the link carries nothing. Strip: the state in which the sender held the path.";

/// Rate over time of every path of one run, against what its link could carry, with its states below, and with
/// its radio where the run went by it.
pub(super) fn figure(series: usize, run: &RunResult) -> Option<Figure> {
    let highest = run.paths.iter().map(|path| highest_bps(path, run)).max().unwrap_or(0);
    if highest == 0 {
        return None;
    }
    let heeded = run.paths.iter().any(radio::was_heeded);
    Some(Figure::draw(
        format!("paths-{}-{}", run.scheduler, run.seed),
        format!("Rate of each path over time under {}", run.scheduler),
        if heeded { radio::CAPTION.to_owned() } else { String::new() },
        run.paths.iter().map(height).sum::<i32>() + FOOT,
        |area| {
            let mut top = 0;
            for (index, path) in run.paths.iter().enumerate() {
                let frame = Frame {
                    left: px(LEFT),
                    top: px(top + TITLE),
                    right: px(WIDTH - RIGHT),
                    bottom: px(top + TITLE + PLOT),
                    x: Scale::Linear { from: 0.0, to: seconds(run.duration_us.max(1)) },
                    y: Scale::Linear { from: 0.0, to: highest as f64 / 1e6 * 1.08 },
                };
                draw_path(area, &frame, series, path, run)?;
                radio::draw(area, frame.below(px(STRIP)), series, path, run.duration_us)?;
                top += height(path);
                if index + 1 == run.paths.len() {
                    let below = px(top) - frame.bottom;
                    frame.draw_x_labels(area, 10, below, "time, s", |tick| format!("{tick}"))?;
                }
            }
            Ok(())
        },
    ))
}

/// Height of all that is drawn of a path, in CSS pixels.
fn height(path: &PathResult) -> i32 {
    TITLE + PLOT + STRIP + if radio::was_heeded(path) { radio::HEIGHT } else { 0 }
}

fn highest_bps(path: &PathResult, run: &RunResult) -> u64 {
    let links = path.series.link_bps.iter().flatten();
    path.series.rate_bps(run.direction).iter().chain(links).copied().max().unwrap_or(0)
}

fn draw_path(
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

    let at = |us: u64, bps: u64| frame.at(seconds(us), bps as f64 / 1e6);
    let times = &path.series.at_us;
    let rate: Vec<_> =
        times.iter().zip(path.series.rate_bps(run.direction)).map(|(us, bps)| at(*us, *bps)).collect();
    let link: Vec<_> =
        times.iter().zip(&path.series.link_bps).filter_map(|(us, bps)| bps.map(|bps| at(*us, bps))).collect();
    if !link.is_empty() {
        polyline(area, steps(&link), line(Role::Link, 1.5))?;
    }
    polyline(area, rate, line(Role::Solid(series), 1.5))?;
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
    let goodput = match run.direction {
        crate::flow::Direction::Down => path.goodput_down_bps,
        crate::flow::Direction::Up => path.goodput_up_bps,
    };
    let sent = path.totals.wire_bytes_down + path.totals.wire_bytes_up;
    let rtt = path.rtt.map_or_else(String::new, |all| format!(", RTT p50 {}", format::time(all.p50_us)));
    format!("mean {}, {} sent{rtt}", format::rate(goodput as f64), format::size(sent as f64))
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
