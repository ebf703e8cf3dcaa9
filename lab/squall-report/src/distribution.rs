//! Distributions of block latencies: the share that took longer than a time, or at most that time.

use squall_lab::result::{DistributionPoint, FlowResult, RunResult};
use squall_lab::statistics::Estimate;
use squall_units::format;

use crate::chart::{self, Key, Symbol};
use crate::panels::{ms, show_ms};
use crate::style::{Role, trim};
use crate::surface::{Anchor, Figure, Frame, LEFT, Point, Scale, Surface, WIDTH};

/// Height of the drawing of runs.
const HEIGHT: f64 = 400.0;
/// Width of its key.
const KEY: f64 = 300.0;
const MARKERS: usize = 5;

/// Height below the frame of a distribution over several runs.
const FOOT: f64 = 44.0;

/// Number of points at which distributions are sampled, evenly along the axis.
const STEPS: usize = 160;

/// Direction in which shares are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Blocks that took longer; both axes logarithmic.
    Longer,
    /// Blocks that took at most a time.
    Within,
}

/// Runs of one scheduler.
#[derive(Debug, Clone)]
pub(crate) struct Curve<'a> {
    pub(crate) series: usize,
    pub(crate) name: String,
    /// The flow's result in each run.
    pub(crate) flows: Vec<&'a FlowResult>,
}

impl<'a> Curve<'a> {
    fn points(&self) -> impl Iterator<Item = &'a DistributionPoint> {
        self.flows.iter().flat_map(|flow| &flow.distribution)
    }

    /// Returns the latency in microseconds that at most this share of the first run's blocks exceeds;
    /// `None` if a larger share never arrived.
    fn latency_at(&self, share: f64) -> Option<u64> {
        let points = self.flows.first().map_or(&[][..], |flow| &flow.distribution);
        points.iter().find(|point| point.later <= share).map(|point| point.latency_us)
    }
}

/// Returns the shortest latency above zero and the longest, in milliseconds; `None` if no block was
/// delivered.
fn range(curves: &[Curve<'_>]) -> Option<(f64, f64)> {
    let times = || curves.iter().flat_map(Curve::points).map(|point| ms(point.latency_us));
    let lowest = times().filter(|time| *time > 0.0).fold(f64::INFINITY, f64::min).max(0.1);
    let highest = times().fold(0.0, f64::max);
    (highest > lowest).then_some((lowest, highest))
}

fn deadline(curves: &[Curve<'_>]) -> Option<u64> {
    curves.iter().flat_map(|curve| &curve.flows).find_map(|flow| flow.deadline_us)
}

/// Draws the share of a flow's blocks that took longer than each latency, on logarithmic axes: one
/// line per scheduler and seed. The numbers in `runs` select the scheduler's style.
pub(crate) fn of_runs(runs: &[(usize, &RunResult)], flow_name: &str) -> Option<Figure> {
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for (series, run) in runs {
        let flows = run.flows.iter().filter(|flow| flow.name == flow_name);
        match curves.iter_mut().find(|curve| curve.name == run.scheduler) {
            Some(curve) => curve.flows.extend(flows),
            None => {
                curves.push(Curve { series: *series, name: run.scheduler.clone(), flows: flows.collect() });
            }
        }
    }
    curves.retain(|curve| curve.points().next().is_some());
    // Worst first, in the order of the lines in the plot.
    let at = |curve: &Curve<'_>, share| curve.latency_at(share).unwrap_or(u64::MAX);
    curves.sort_by_key(|curve| std::cmp::Reverse((at(curve, 0.01), at(curve, 0.1))));
    let (lowest, highest) = range(&curves)?;
    let decided = curves.iter().flat_map(|curve| &curve.flows).map(|flow| flow.total.offered_blocks);
    let decided = decided.max().unwrap_or(1).max(10);
    let frame = Frame {
        left: LEFT,
        top: 14.0,
        right: WIDTH - KEY,
        bottom: HEIGHT - 48.0,
        x: Scale::Log { from: lowest / 1.1, to: highest * 1.2 },
        y: Scale::Log { from: 10f64.powf(-(decided as f64).log10().ceil()), to: 1.0 },
    };
    let caption = "Lower and further left is better. Both axes are logarithmic. A line that runs level to the right edge \
        shows the share of blocks that never arrived.";
    Some(Figure::draw(
        format!("tail-{flow_name}"),
        format!("Share of the blocks of “{flow_name}” that took longer than a given time"),
        caption,
        (WIDTH, HEIGHT),
        |surface| {
            frame.draw_y(surface, 1, |share| format!("{} %", trim(share * 100.0)));
            frame.draw_x_grid(surface, 12);
            frame.draw_x_labels(surface, 12, 0.0, "latency: offered → delivered", show_ms);
            if let Some(us) = deadline(&curves) {
                let x = frame.x_at(ms(us));
                surface.line(frame.upright(x), Role::Limit, 1.0);
                let words = format!("deadline {}", format::time(us));
                surface.text((x + 5.0, frame.top + 9.0), &words, Role::Muted, 11, Anchor::Start);
            }
            for curve in curves.iter().rev() {
                curve.flows.iter().for_each(|flow| draw_run(surface, &frame, curve.series, flow));
            }
            for (place, curve) in curves.iter().enumerate() {
                draw_entry(surface, (frame.right + 18.0, frame.top + 14.0 + 44.0 * place as f64), curve);
            }
        },
    ))
}

fn draw_run(surface: &mut Surface, frame: &Frame, series: usize, flow: &FlowResult) {
    let points = &flow.distribution;
    let mut line: Vec<Point> = points.iter().map(|p| frame.at((ms(p.latency_us), p.later))).collect();
    if let Some(last) = points.last().filter(|last| last.later > 0.0) {
        line.push((frame.right, frame.y_at(last.later)));
    }
    line.dedup();
    // Markers at even steps down the curve, shifted per series so that they don't pile up.
    for step in 0..MARKERS {
        let offset = (step * 5 + series) % (MARKERS * 5);
        let share = (offset + 2) as f64 / (MARKERS * 5 + 4) as f64;
        let y = frame.top + (frame.bottom - frame.top) * share;
        // The segment in which the falling line crosses this height.
        if let Some(pair) = line.windows(2).find(|pair| (pair[0].1..pair[1].1).contains(&y)) {
            let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
            surface.marker(series, (x0 + (x1 - x0) * (y - y0) / (y1 - y0), y));
        }
    }
    surface.line(line, Role::Series(series), 2.0);
}

fn draw_entry(surface: &mut Surface, (x, y): Point, curve: &Curve<'_>) {
    surface.line([(x, y), (x + 34.0, y)], Role::Series(curve.series), 2.0);
    surface.marker(curve.series, (x + 17.0, y));
    surface.bold((x + 42.0, y), &curve.name, Role::Solid(curve.series), 13, Anchor::Start);
    let never = curve.flows.first().and_then(|flow| flow.distribution.last()).map_or(0.0, |last| last.later);
    let within = curve.latency_at(0.01).map(|us| format!("99 % within {}", format::time(us)));
    let missing = (never > 0.0).then(|| format!("{} % missing", format::digits(never * 100.0)));
    let words = [within, missing].into_iter().flatten().collect::<Vec<_>>().join(", ");
    surface.text((x + 42.0, y + 17.0), &words, Role::Muted, 11, Anchor::Start);
}

/// Draws the mean distribution of each scheduler over its runs, with a band from the lowest to the
/// highest run; `None` if no block was delivered.
pub(crate) fn of_schedulers(title: &str, side: Side, curves: &[Curve<'_>]) -> Option<Figure> {
    let (lowest, highest) = range(curves)?;
    let shares = curves.iter().flat_map(Curve::points).map(|point| point.later);
    let least = shares.filter(|share| *share > 0.0).fold(1.0, f64::min);
    let (y, what, caption) = match side {
        Side::Longer => (
            Scale::Log { from: 10f64.powf(least.max(1e-6).log10().floor()), to: 1.0 },
            "blocks that took longer (logarithmic)",
            "Lower and further left is better. A line that ends above the foot shows the share of blocks that never \
             arrived.",
        ),
        Side::Within => (
            Scale::Linear { from: 0.0, to: 1.02 },
            "blocks that took at most this time",
            "Higher and further left is better. A line that ends below 100 % leaves out the blocks that never arrived.",
        ),
    };
    let x = Scale::Log { from: lowest / 1.05, to: highest * 1.1 };
    let frame = chart::frame(x, y);
    let mut entries: Vec<(Symbol, String)> =
        curves.iter().map(|curve| (Symbol::Line(curve.series), curve.name.clone())).collect();
    if let Some(curve) = curves.iter().find(|curve| curve.flows.len() > 1) {
        entries.push((Symbol::Band(curve.series), "lowest to highest run".into()));
    }
    let key = Key::of(entries);
    let size = (chart::WIDTH, frame.bottom + FOOT + key.height);
    Some(Figure::draw(title.to_owned(), title.to_owned(), caption, size, |surface| {
        frame.draw_y(surface, 5, |share| format!("{} %", trim(share * 100.0)));
        frame.draw_x_grid(surface, 7);
        frame.draw_x_labels(surface, 7, 0.0, "latency: offered → delivered (logarithmic)", show_ms);
        surface.text((4.0, frame.top - 17.0), what, Role::Ink, 12, Anchor::Start);
        let deadline = deadline(curves);
        if let Some(us) = deadline {
            surface.line(frame.upright(frame.x_at(ms(us))), Role::Limit, 1.2);
        }
        curves.iter().for_each(|curve| draw_mean(surface, &frame, side, curve));
        if let Some(us) = deadline {
            // Above the curves, at the end of the frame that has none.
            let x = frame.x_at(ms(us));
            let (anchor, aside) =
                if x + 110.0 > frame.right { (Anchor::End, -5.0) } else { (Anchor::Start, 5.0) };
            let y = if side == Side::Longer { frame.top + 9.0 } else { frame.bottom - 9.0 };
            surface.text((x + aside, y), &format!("deadline {}", format::time(us)), Role::Limit, 11, anchor);
        }
        key.draw(surface, frame.bottom + FOOT);
    }))
}

fn draw_mean(surface: &mut Surface, frame: &Frame, side: Side, curve: &Curve<'_>) {
    let steps = steps(frame, side, curve);
    if curve.flows.len() > 1 {
        let upper = steps.iter().map(|(time, _, (_, high))| frame.at((*time, *high)));
        let lower = steps.iter().rev().map(|(time, _, (low, _))| frame.at((*time, *low)));
        surface.area(upper.chain(lower), Role::Solid(curve.series), 0.13);
    }
    let mut points: Vec<Point> = steps.iter().map(|(time, share, _)| frame.at((*time, *share))).collect();
    points.dedup();
    // Cut the line where it reaches the foot or the top: the rest adds nothing.
    let end_y = if side == Side::Longer { frame.bottom } else { frame.y_at(1.0) };
    let end = points.iter().position(|(_, y)| *y == end_y);
    points.truncate(end.map_or(points.len(), |end| end + 1));
    // Markers where the line is neither at its top nor at its foot, at different places for each
    // scheduler.
    let inside: Vec<&Point> = points.iter().filter(|(_, y)| frame.top < *y && *y < frame.bottom).collect();
    for nth in 0..4 {
        let place = (inside.len() * (2 * nth + 1) / 8 + 3 * curve.series) % inside.len().max(1);
        if let Some(point) = inside.get(place) {
            surface.marker(curve.series, **point);
        }
    }
    surface.line(points, Role::Series(curve.series), 2.0);
}

/// Time in milliseconds, mean of the shares, and the lowest and highest share of a run.
type Step = (f64, f64, (f64, f64));

/// Returns the mean, lowest and highest share over the runs, from left to right.
fn steps(frame: &Frame, side: Side, curve: &Curve<'_>) -> Vec<Step> {
    let Scale::Log { from, to } = frame.x else { return Vec::new() };
    let times = (0..=STEPS).map(|step| from * (to / from).powf(step as f64 / STEPS as f64));
    times
        .filter_map(|time| {
            let shares: Vec<f64> = curve.flows.iter().map(|flow| longer(flow, time * 1e3)).collect();
            let mean = Estimate::of(&shares)?.mean;
            let ends =
                shares.iter().fold((1.0f64, 0.0f64), |(low, high), one| (low.min(*one), high.max(*one)));
            Some(match side {
                Side::Longer => (time, mean, ends),
                Side::Within => (time, 1.0 - mean, (1.0 - ends.1, 1.0 - ends.0)),
            })
        })
        .collect()
}

/// Returns the share of a flow's blocks that took longer than a time in microseconds.
fn longer(flow: &FlowResult, us: f64) -> f64 {
    let past = flow.distribution.partition_point(|point| point.latency_us as f64 <= us);
    if past == 0 { 1.0 } else { flow.distribution[past - 1].later }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_lab::result::sample::run;

    #[test]
    fn distributions_have_bands_over_the_runs() {
        let runs = [run("dams", 1), run("dams", 2)];
        let flows = runs.iter().map(|run| &run.flows[0]).collect();
        let curves = [Curve { series: 2, name: "dams".into(), flows }];
        for side in [Side::Longer, Side::Within] {
            let svg = of_schedulers("Latency", side, &curves).expect("has blocks").standalone();
            assert!(
                svg.contains("opacity=\"0.13\"") && svg.contains("deadline 100 ms") && svg.contains("dams")
            );
        }
        let mut empty = runs[0].flows[0].clone();
        empty.distribution.clear();
        let nothing = [Curve { series: 0, name: "dams".into(), flows: vec![&empty] }];
        assert!(of_schedulers("Latency", Side::Longer, &nothing).is_none());
    }
}
