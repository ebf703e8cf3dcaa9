//! Small multiples over time: one panel per scheduler, same axes, so that curves never hide each other.

use plotters::style::text_anchor::HPos;
use squall_units::format;

use super::axis::{Frame, Scale};
use super::canvas::{
    Area, DrawError, FINE, Figure, LEFT, RIGHT, WIDTH, bold, fill, line, marker, polyline, px, text, write,
};
use super::style::Role;
use crate::result::{FlowResult, Interval, RunResult};

const TITLE: i32 = 30;
const PLOT: i32 = 112;
const FOOT: i32 = 48;

struct Panel<'a> {
    series: usize,
    title: &'a str,
    stats: String,
    points: Vec<(f64, f64)>,
    /// Longest time between two points that a line connects, in seconds.
    reach: f64,
    missing: Vec<f64>,
}

struct Axes {
    duration: f64,
    y: Scale,
    limit: Option<(f64, String)>,
    show: fn(f64) -> String,
    name: &'static str,
}

/// Latency of each block of one flow over the time it was offered.
pub(super) fn latency(runs: &[(usize, &RunResult)], flow_name: &str) -> Option<Figure> {
    let flows = flows(runs, flow_name);
    let values = || flows.iter().flat_map(|(_, _, flow)| &flow.latencies).map(|point| ms(point.latency_us));
    let highest = values().fold(0.0, f64::max);
    if highest <= 0.0 {
        return None;
    }
    let deadline = flows.iter().find_map(|(_, _, flow)| flow.deadline_us);
    let lowest = values().fold(highest, f64::min).max(0.1);
    let axes = Axes {
        duration: seconds(longest(runs)),
        y: latency_scale(lowest, highest.max(deadline.map_or(0.0, ms))),
        limit: deadline.map(|us| (ms(us), format!("deadline {}", format::time(us)))),
        show: show_ms,
        name: "time at which the block was offered, s",
    };
    let panels: Vec<Panel<'_>> = flows
        .iter()
        .map(|(series, run, flow)| Panel {
            series: *series,
            title: &run.scheduler,
            stats: latency_stats(flow),
            points: flow.latencies.iter().map(|p| (seconds(p.at_us), ms(p.latency_us))).collect(),
            reach: reach(flow),
            missing: flow.missing_at_us.iter().map(|us| seconds(*us)).collect(),
        })
        .collect();
    let caption = "Each panel is one scheduler on the same axes. Shaded: the named link carries nothing. \
        Ticks along the top edge of a panel: blocks that never arrived.";
    Some(draw(
        format!("latency-{flow_name}"),
        format!("Latency of each block of “{flow_name}” over time"),
        caption.into(),
        &panels,
        &axes,
        runs,
    ))
}

/// Delivered rate of one flow over time.
pub(super) fn goodput(runs: &[(usize, &RunResult)], flow_name: &str) -> Option<Figure> {
    let flows = flows(runs, flow_name);
    let rates: Vec<Vec<(f64, f64)>> = flows
        .iter()
        .map(|(_, _, flow)| {
            // Bytes per 100 ms to Mbps, drawn at the middle of the interval.
            let rate =
                |(slot, bytes): (usize, &u64)| ((slot as f64 + 0.5) / 10.0, *bytes as f64 * 80.0 / 1e6);
            flow.delivered_bytes.iter().enumerate().map(rate).collect()
        })
        .collect();
    let highest = rates.iter().flatten().map(|(_, rate)| *rate).fold(0.0, f64::max);
    if highest <= 0.0 {
        return None;
    }
    let panels: Vec<Panel<'_>> = flows
        .iter()
        .zip(rates)
        .map(|((series, run, flow), points)| Panel {
            series: *series,
            title: &run.scheduler,
            stats: format!("mean {}", format::rate(flow.goodput_bps as f64)),
            points,
            reach: f64::INFINITY,
            missing: Vec::new(),
        })
        .collect();
    let axes = Axes {
        duration: seconds(longest(runs)),
        y: Scale::Linear { from: 0.0, to: highest * 1.08 },
        limit: None,
        show: |value| format!("{value} Mbps"),
        name: "time, s",
    };
    Some(draw(
        format!("goodput-{flow_name}"),
        format!("Goodput of “{flow_name}” over time"),
        "Bytes of whole blocks delivered in each 100 ms. Shaded: the named link carries nothing.".into(),
        &panels,
        &axes,
        runs,
    ))
}

fn flows<'a>(runs: &[(usize, &'a RunResult)], name: &str) -> Vec<(usize, &'a RunResult, &'a FlowResult)> {
    runs.iter()
        .filter_map(|(series, run)| {
            run.flows.iter().find(|flow| flow.name == name).map(|flow| (*series, *run, flow))
        })
        .collect()
}

fn latency_stats(flow: &FlowResult) -> String {
    let latency = flow.latency.map_or_else(String::new, |all| {
        format!(
            "p50 {}, p99 {}, max {}; ",
            format::time(all.p50_us),
            format::time(all.p99_us),
            format::time(all.max_us)
        )
    });
    let decided = flow.total.decided_blocks();
    let missing = decided.saturating_sub(flow.total.delivered_blocks);
    match flow.completion_rate {
        Some(rate) => format!("{latency}{:.2} % in time; {missing} of {decided} missing", rate * 100.0),
        None => format!("{latency}no block was due"),
    }
}

/// A few times the usual distance of two blocks: a longer one is a gap.
fn reach(flow: &FlowResult) -> f64 {
    let mut steps: Vec<u64> = flow.latencies.windows(2).map(|pair| pair[1].at_us - pair[0].at_us).collect();
    steps.sort_unstable();
    steps.get(steps.len() / 2).map_or(f64::INFINITY, |step| seconds(*step) * 2.5)
}

fn latency_scale(lowest: f64, highest: f64) -> Scale {
    if highest > lowest * 12.0 {
        Scale::Log { from: lowest / 1.25, to: highest * 1.35 }
    } else {
        Scale::Linear { from: 0.0, to: highest * 1.12 }
    }
}

fn draw(
    name: String,
    title: String,
    caption: String,
    panels: &[Panel<'_>],
    axes: &Axes,
    runs: &[(usize, &RunResult)],
) -> Figure {
    let height = (TITLE + PLOT) * panels.len() as i32 + FOOT;
    let outages = outages(runs);
    Figure::draw(name, title, caption, height, |area| {
        for (index, panel) in panels.iter().enumerate() {
            let top = px((TITLE + PLOT) * index as i32 + TITLE);
            let frame = Frame {
                left: px(LEFT),
                top,
                right: px(WIDTH - RIGHT),
                bottom: top + px(PLOT),
                x: Scale::Linear { from: 0.0, to: axes.duration },
                y: axes.y,
            };
            draw_panel(area, panel, &frame, axes, &outages)?;
            if index + 1 == panels.len() {
                frame.draw_x_labels(area, 10, 0, axes.name, |tick| format!("{tick}"))?;
            }
        }
        Ok(())
    })
}

fn draw_panel(
    area: &Area<'_>,
    panel: &Panel<'_>,
    frame: &Frame,
    axes: &Axes,
    outages: &[(&str, Interval)],
) -> Result<(), DrawError> {
    shade(area, frame, outages)?;
    frame.draw_y(area, 4, axes.show)?;
    frame.draw_x_grid(area, 10)?;
    name_outages(area, frame, outages)?;
    let title_y = frame.top - px(13);
    marker(area, panel.series, (frame.left + px(5), title_y))?;
    write(
        area,
        panel.title,
        &bold(Role::Solid(panel.series), 14, HPos::Left),
        (frame.left + px(16), title_y),
    )?;
    write(area, &panel.stats, &text(Role::Ink, 12, HPos::Right), (frame.right, title_y))?;
    if let Some((limit, words)) = &axes.limit {
        let y = frame.y_at(*limit);
        polyline(area, vec![(frame.left, y), (frame.right, y)], line(Role::Limit, 1.0))?;
        write(area, words, &text(Role::Muted, 11, HPos::Right), (frame.right - px(4), y - px(8)))?;
    }
    for at in &panel.missing {
        let x = frame.x_at(*at);
        polyline(area, vec![(x, frame.top), (x, frame.top + px(8))], line(Role::Bad, 1.0))?;
    }
    for stretch in panel.points.chunk_by(|a, b| b.0 - a.0 <= panel.reach) {
        let points: Vec<_> = stretch.iter().map(|(x, y)| frame.at(*x, *y)).collect();
        if let [(x, y)] = points[..] {
            fill(area, Role::Solid(panel.series), 1.0, [(x - FINE, y - FINE), (x + FINE, y + FINE)])?;
        } else {
            polyline(area, points, line(Role::Solid(panel.series), 1.5))?;
        }
    }
    Ok(())
}

/// Shades outages.
pub(crate) fn shade(area: &Area<'_>, frame: &Frame, outages: &[(&str, Interval)]) -> Result<(), DrawError> {
    outages.iter().try_for_each(|(_, outage)| {
        let (from, to) = ends(frame, outage);
        fill(area, Role::Outage, 1.0, [(from, frame.top), (to.max(from + 1), frame.bottom)])
    })
}

/// Names the link of each outage, unless there is no room.
pub(crate) fn name_outages(
    area: &Area<'_>,
    frame: &Frame,
    outages: &[(&str, Interval)],
) -> Result<(), DrawError> {
    for (link, outage) in outages {
        let (from, to) = ends(frame, outage);
        let words = format!("{link} out");
        if to - from > px(7) * words.chars().count() as i32 {
            let at = (i32::midpoint(from, to), frame.top + px(18));
            write(area, &words, &text(Role::OutageText, 11, HPos::Center), at)?;
        }
    }
    Ok(())
}

fn ends(frame: &Frame, outage: &Interval) -> (i32, i32) {
    (frame.x_at(seconds(outage.from_us)), frame.x_at(seconds(outage.to_us)))
}

/// Outages of all links, each once.
fn outages<'a>(runs: &[(usize, &'a RunResult)]) -> Vec<(&'a str, Interval)> {
    let mut all: Vec<(&str, Interval)> = Vec::new();
    for path in runs.iter().flat_map(|(_, run)| &run.paths) {
        for outage in &path.outages {
            if !all.contains(&(path.name.as_str(), *outage)) {
                all.push((&path.name, *outage));
            }
        }
    }
    all
}

pub(super) fn longest(runs: &[(usize, &RunResult)]) -> u64 {
    runs.iter().map(|(_, run)| run.duration_us).max().unwrap_or(0).max(1)
}

pub(crate) fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

pub(super) fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}

/// Milliseconds on an axis.
pub(super) fn show_ms(value: f64) -> String {
    if value >= 1_000.0 { format!("{} s", value / 1e3) } else { format!("{value} ms") }
}
