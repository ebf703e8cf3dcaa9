//! How the latencies of blocks are spread: the share that took longer than a time, or at most so long.

use plotters::style::text_anchor::HPos;
use squall_units::format;

use super::{Chart, PLOT, Row, TITLE, WIDTH, key};
use crate::estimate::Estimate;
use crate::measure::Unit;
use crate::report::axis::{Frame, Scale};
use crate::report::canvas::{Area, DrawError, Figure, line, marker, polygon, polyline, px, text, write};
use crate::report::html::trim;
use crate::report::panels::{ms, show_ms};
use crate::report::style::Role;

const LEFT: i32 = 62;
const RIGHT: i32 = 16;
const FOOT: i32 = 44;

/// Places at which the distributions are read, evenly along the axis.
const STEPS: usize = 160;

/// Which way shares are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Side {
    /// Blocks that took longer; both axes logarithmic.
    Longer,
    /// Blocks that took at most so long.
    Within,
}

/// A distribution for each of several schedulers.
#[derive(Debug, Clone)]
pub(in crate::report) struct Spread {
    /// Short name, for a file.
    pub(in crate::report) name: String,
    /// What it is about.
    pub(in crate::report) title: String,
    pub(in crate::report) side: Side,
    /// Deadline in microseconds.
    pub(in crate::report) deadline_us: Option<u64>,
    pub(in crate::report) curves: Vec<Curve>,
}

/// The runs of one scheduler.
#[derive(Debug, Clone)]
pub(in crate::report) struct Curve {
    pub(in crate::report) series: usize,
    pub(in crate::report) name: String,
    /// Of each run: times in microseconds, rising, and the share of blocks that took longer.
    pub(in crate::report) runs: Vec<Vec<(u64, f64)>>,
}

/// Time in milliseconds, the mean of the shares, and the lowest and highest of a run.
type Step = (f64, f64, (f64, f64));

impl Spread {
    /// The drawing; none if nothing was delivered.
    pub(in crate::report) fn figure(&self) -> Option<Figure> {
        let points = || self.curves.iter().flat_map(|curve| &curve.runs).flatten();
        let lowest =
            points().filter(|point| point.0 > 0).map(|point| ms(point.0)).fold(f64::INFINITY, f64::min);
        let highest = points().map(|point| ms(point.0)).fold(0.0, f64::max);
        if highest <= lowest {
            return None;
        }
        let (from, to) = (lowest.max(0.1) / 1.05, highest * 1.1);
        let least = points().map(|point| point.1).filter(|share| *share > 0.0).fold(1.0, f64::min);
        let y = match self.side {
            Side::Longer => Scale::Log { from: 10f64.powf(least.max(1e-6).log10().floor()), to: 1.0 },
            Side::Within => Scale::Linear { from: 0.0, to: 1.02 },
        };
        let frame = Frame {
            left: px(LEFT),
            top: px(TITLE),
            right: px(WIDTH - RIGHT),
            bottom: px(TITLE + PLOT),
            x: Scale::Log { from, to },
            y,
        };
        let keys = key::lay_out(&self.as_chart(), "lowest to highest run");
        let size = (WIDTH, TITLE + PLOT + FOOT + key::height(&keys));
        let caption = match self.side {
            Side::Longer => {
                "Lower and further left is better. A line that ends above the foot shows the share of blocks that never arrived."
            }
            Side::Within => {
                "Higher and further left is better. A line that ends below 100 % leaves out the blocks that never arrived."
            }
        };
        let draw = |area: &Area<'_>| {
            self.draw_frame(area, &frame)?;
            self.curves.iter().try_for_each(|curve| self.draw_curve(area, &frame, curve))?;
            self.name_deadline(area, &frame)?;
            key::draw(area, &keys, px(TITLE + PLOT + FOOT))
        };
        Some(Figure::draw_sized(self.name.clone(), self.title.clone(), caption.into(), size, draw))
    }

    /// For the key, which is that of a chart with lines.
    fn as_chart(&self) -> Chart {
        let place = |at: f64| super::PlaceLabel { name: String::new(), at: Some(at) };
        let row = |curve: &Curve| {
            let half = (curve.runs.len() > 1).then_some(0.0);
            let values = vec![Some(Estimate { mean: 0.0, half }); 2];
            let (paper, asked) = (vec![None; 2], vec![Vec::new(); 2]);
            Row { series: curve.series, name: curve.name.clone(), values, paper, asked }
        };
        Chart {
            name: String::new(),
            title: String::new(),
            caption: String::new(),
            what: String::new(),
            unit: Unit::Ratio,
            log: None,
            along: String::new(),
            places: vec![place(0.0), place(1.0)],
            rows: self.curves.iter().map(row).collect(),
            bound: Vec::new(),
        }
    }

    fn draw_frame(&self, area: &Area<'_>, frame: &Frame) -> Result<(), DrawError> {
        frame.draw_y(area, 5, |share| format!("{} %", trim(share * 100.0)))?;
        frame.draw_x_grid(area, 7)?;
        frame.draw_x_labels(area, 7, 0, "latency: offered → delivered (logarithmic)", show_ms)?;
        let what = match self.side {
            Side::Longer => "blocks that took longer (logarithmic)",
            Side::Within => "blocks that took at most so long",
        };
        write(area, what, &text(Role::Ink, 12, HPos::Left), (px(4), frame.top - px(17)))?;
        let Some(us) = self.deadline_us else { return Ok(()) };
        let x = frame.x_at(ms(us));
        polyline(area, vec![(x, frame.top), (x, frame.bottom)], line(Role::Limit, 1.2))
    }

    /// Over the curves, as nowhere is sure to be free of them.
    fn name_deadline(&self, area: &Area<'_>, frame: &Frame) -> Result<(), DrawError> {
        let Some(us) = self.deadline_us else { return Ok(()) };
        let x = frame.x_at(ms(us));
        let words = format!("deadline {}", format::time(us));
        let right = x + px(110) > frame.right;
        let (side, aside) = if right { (HPos::Right, -px(5)) } else { (HPos::Left, px(5)) };
        // Where no curve is.
        let y = if self.side == Side::Longer { frame.top + px(9) } else { frame.bottom - px(9) };
        write(area, &words, &text(Role::Limit, 11, side), (x + aside, y))
    }

    fn draw_curve(&self, area: &Area<'_>, frame: &Frame, curve: &Curve) -> Result<(), DrawError> {
        let steps = self.steps(frame, curve);
        let at = |time: f64, share: f64| match frame.y {
            Scale::Log { from, .. } => frame.at(time, share.max(from)),
            Scale::Linear { .. } => frame.at(time, share),
        };
        if curve.runs.len() > 1 {
            let upper = steps.iter().map(|(time, _, (_, high))| at(*time, *high));
            let lower = steps.iter().rev().map(|(time, _, (low, _))| at(*time, *low));
            polygon(area, upper.chain(lower).collect(), Role::Solid(curve.series), 0.13)?;
        }
        let mut points: Vec<_> = steps.iter().map(|(time, share, _)| at(*time, *share)).collect();
        points.dedup();
        // Where nothing is left, or nothing is missing, there is nothing more to see.
        let end = points
            .iter()
            .position(|(_, y)| *y == if self.side == Side::Longer { frame.bottom } else { at(1.0, 1.0).1 });
        points.truncate(end.map_or(points.len(), |end| end + 1));
        // Markers where the line is neither at its top nor at its foot, each scheduler's at places of its own.
        let inside: Vec<_> = points.iter().filter(|(_, y)| frame.top < *y && *y < frame.bottom).collect();
        for nth in 0..4 {
            if let Some(point) =
                inside.get((inside.len() * (2 * nth + 1) / 8 + 3 * curve.series) % inside.len().max(1))
            {
                marker(area, curve.series, **point)?;
            }
        }
        polyline(area, points, line(Role::Series(curve.series), 2.0))
    }

    /// The mean over the runs, and the lowest and the highest of them, from left to right.
    fn steps(&self, frame: &Frame, curve: &Curve) -> Vec<Step> {
        let Scale::Log { from, to } = frame.x else { return Vec::new() };
        let times = (0..=STEPS).map(|step| from * (to / from).powf(step as f64 / STEPS as f64));
        times
            .filter_map(|time| {
                let us = time * 1e3;
                let shares: Vec<f64> = curve.runs.iter().map(|run| longer(run, us)).collect();
                let mean = Estimate::of(&shares)?.mean;
                let ends =
                    shares.iter().fold((1.0f64, 0.0f64), |(low, high), one| (low.min(*one), high.max(*one)));
                Some(match self.side {
                    Side::Longer => (time, mean, ends),
                    Side::Within => (time, 1.0 - mean, (1.0 - ends.1, 1.0 - ends.0)),
                })
            })
            .collect()
    }
}

/// The share of a run's blocks that took longer than a time in microseconds.
fn longer(run: &[(u64, f64)], us: f64) -> f64 {
    let past = run.partition_point(|point| point.0 as f64 <= us);
    if past == 0 { 1.0 } else { run[past - 1].1 }
}
