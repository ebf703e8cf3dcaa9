//! The latency tail: how many blocks took longer than a given time.

use plotters::style::text_anchor::HPos;
use squall_units::format;

use super::axis::{Frame, Scale};
use super::canvas::{Area, DrawError, Figure, LEFT, WIDTH, bold, line, marker, polyline, px, text, write};
use super::panels::{ms, show_ms};
use super::style::Role;
use crate::result::{DistributionPoint, FlowResult, RunResult};

const HEIGHT: i32 = 400;
const KEY: i32 = 300;
const MARKERS: usize = 5;

struct Curve<'a> {
    series: usize,
    scheduler: &'a str,
    /// One per seed.
    flows: Vec<&'a FlowResult>,
}

/// Share of the blocks of one flow that took longer than each latency, on logarithmic axes: one line per
/// scheduler and seed. The series of `runs` name the scheduler.
pub(super) fn figure(runs: &[(usize, &RunResult)], flow_name: &str) -> Option<Figure> {
    let curves = curves(runs, flow_name);
    let flows = || curves.iter().flat_map(|curve| &curve.flows);
    let points = || flows().flat_map(|flow| &flow.distribution).filter(|point| point.latency_us > 0);
    let lowest = points().map(|point| ms(point.latency_us)).fold(f64::INFINITY, f64::min).max(0.1);
    let highest = points().map(|point| ms(point.latency_us)).fold(0.0, f64::max);
    if highest <= lowest {
        return None;
    }
    let decided = flows().map(|flow| flow.total.offered_blocks).max().unwrap_or(1).max(10);
    let floor = 10f64.powf(-(decided as f64).log10().ceil());
    let frame = Frame {
        left: px(LEFT),
        top: px(14),
        right: px(WIDTH - KEY),
        bottom: px(HEIGHT - 48),
        x: Scale::Log { from: lowest / 1.1, to: highest * 1.2 },
        y: Scale::Log { from: floor, to: 1.0 },
    };
    let deadline = flows().find_map(|flow| flow.deadline_us);
    let caption = "Lower and further left is better. Both axes are logarithmic. A line that runs level to the \
        right edge shows the share of blocks that never arrived.";
    Some(Figure::draw(
        format!("tail-{flow_name}"),
        format!("Share of the blocks of “{flow_name}” that took longer than a given time"),
        caption.into(),
        HEIGHT,
        |area| draw(area, &frame, &curves, deadline),
    ))
}

/// Curves in the order of their 99th percentile, worst first, as they are stacked in the plot.
fn curves<'a>(runs: &[(usize, &'a RunResult)], flow_name: &str) -> Vec<Curve<'a>> {
    let mut curves: Vec<Curve<'a>> = Vec::new();
    for (series, run) in runs {
        let flows = run.flows.iter().filter(|flow| flow.name == flow_name);
        match curves.iter_mut().find(|curve| curve.scheduler == run.scheduler) {
            Some(curve) => curve.flows.extend(flows),
            None => {
                curves.push(Curve { series: *series, scheduler: &run.scheduler, flows: flows.collect() });
            }
        }
    }
    curves.retain(|curve| curve.flows.iter().any(|flow| !flow.distribution.is_empty()));
    curves.sort_by_key(|curve| std::cmp::Reverse((latency_at(curve, 0.01), latency_at(curve, 0.1))));
    curves
}

/// The latency that this share of a curve's first run exceeds, in microseconds; none if more never arrived.
fn latency_at(curve: &Curve<'_>, share: f64) -> u64 {
    let points = curve.flows.first().map_or(&[][..], |flow| &flow.distribution[..]);
    points.iter().find(|point| point.later <= share).map_or(u64::MAX, |point| point.latency_us)
}

fn draw(
    area: &Area<'_>,
    frame: &Frame,
    curves: &[Curve<'_>],
    deadline: Option<u64>,
) -> Result<(), DrawError> {
    frame.draw_y(area, 1, |share| format!("{} %", super::html::trim(share * 100.0)))?;
    frame.draw_x_grid(area, 12)?;
    frame.draw_x_labels(area, 12, 0, "latency: offered → delivered", show_ms)?;
    if let Some(us) = deadline {
        let x = frame.x_at(ms(us));
        polyline(area, vec![(x, frame.top), (x, frame.bottom)], line(Role::Limit, 1.0))?;
        let words = format!("deadline {}", format::time(us));
        write(area, &words, &text(Role::Muted, 11, HPos::Left), (x + px(5), frame.top + px(9)))?;
    }
    for curve in curves.iter().rev() {
        for flow in &curve.flows {
            draw_curve(area, frame, curve.series, &flow.distribution)?;
        }
    }
    for (place, curve) in (0..).zip(curves) {
        draw_key(area, (frame.right + px(18), frame.top + px(14 + 44 * place)), curve)?;
    }
    Ok(())
}

fn draw_curve(
    area: &Area<'_>,
    frame: &Frame,
    series: usize,
    points: &[DistributionPoint],
) -> Result<(), DrawError> {
    let mut line_points: Vec<_> = points.iter().map(|p| frame.at(ms(p.latency_us), p.later)).collect();
    if let Some(last) = points.last().filter(|last| last.later > 0.0) {
        line_points.push((frame.right, frame.y_at(last.later)));
    }
    line_points.dedup();
    // Markers at even steps down the curve, shifted per series so that they don't pile up.
    let span = frame.bottom - frame.top;
    for step in 0..MARKERS {
        let offset = (step * 5 + series) % (MARKERS * 5);
        let y = frame.top + span * (offset as i32 + 2) / (MARKERS as i32 * 5 + 4);
        if let Some(at) = crossing(&line_points, y) {
            marker(area, series, at)?;
        }
    }
    polyline(area, line_points, line(Role::Series(series), 2.0))
}

/// Where a falling line passes a height.
fn crossing(points: &[(i32, i32)], y: i32) -> Option<(i32, i32)> {
    points.windows(2).find(|pair| (pair[0].1..pair[1].1).contains(&y)).map(|pair| {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
        (x0 + (x1 - x0) * (y - y0) / (y1 - y0), y)
    })
}

fn draw_key(area: &Area<'_>, (x, y): (i32, i32), curve: &Curve<'_>) -> Result<(), DrawError> {
    polyline(area, vec![(x, y), (x + px(34), y)], line(Role::Series(curve.series), 2.0))?;
    marker(area, curve.series, (x + px(17), y))?;
    write(area, curve.scheduler, &bold(Role::Solid(curve.series), 13, HPos::Left), (x + px(42), y))?;
    let never = curve.flows.first().and_then(|flow| flow.distribution.last()).map_or(0.0, |last| last.later);
    let p99 = Some(latency_at(curve, 0.01)).filter(|us| *us != u64::MAX);
    let within = p99.map(|us| format!("99 % within {}", format::time(us)));
    let missing = (never > 0.0).then(|| format!("{} % missing", format::digits(never * 100.0)));
    let words = [within, missing].into_iter().flatten().collect::<Vec<_>>().join(", ");
    write(area, &words, &text(Role::Muted, 11, HPos::Left), (x + px(42), y + px(17)))
}
