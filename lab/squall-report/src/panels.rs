//! Small multiples over time: one panel per scheduler with common axes, so that curves never cover
//! each other.

use squall_lab::result::{FlowResult, Interval, RunResult};
use squall_lab::video::Shown;
use squall_units::format;

use crate::style::Role;
use crate::surface::{Anchor, Figure, Frame, Point, Scale, Surface, WIDTH};

const TITLE: f64 = 30.0;
const PLOT: f64 = 112.0;
const FOOT: f64 = 48.0;

/// Panel of one scheduler.
struct Panel<'a> {
    series: usize,
    title: &'a str,
    stats: String,
    points: Vec<Point>,
    /// Maximum time between two points that a line connects, in seconds.
    reach: f64,
    /// Times of blocks that never arrived, in seconds.
    missing: Vec<f64>,
    /// Periods marked below the panel, in seconds.
    still: Vec<(f64, f64)>,
}

/// Properties that all panels of a figure share.
struct Shared<'a> {
    /// Length of the time axis in seconds.
    duration: f64,
    y: Scale,
    ticks: usize,
    show: fn(f64) -> String,
    name: &'static str,
    /// A limit with its label.
    limit: Option<(f64, String)>,
    outages: Vec<(&'a str, Interval)>,
    /// A curve that is identical in all panels.
    reference: Vec<Point>,
    /// A marked time in seconds.
    moment: Option<f64>,
}

impl Shared<'_> {
    fn figure(&self, name: String, title: String, caption: &str, panels: &[Panel<'_>]) -> Figure {
        let height = (TITLE + PLOT) * panels.len() as f64 + FOOT;
        Figure::draw(name, title, caption, (WIDTH, height), |surface| {
            let x = Scale::Linear { from: 0.0, to: self.duration };
            let mut frame = Frame::wide(-PLOT, PLOT, x, self.y);
            for panel in panels {
                frame = frame.below(TITLE, PLOT, self.y);
                self.draw(surface, &frame, panel);
            }
            let strip = if panels.iter().any(|panel| !panel.still.is_empty()) { 8.0 } else { 0.0 };
            frame.draw_x_labels(surface, 10, strip, self.name, |tick| format!("{tick}"));
        })
    }

    fn draw(&self, surface: &mut Surface, frame: &Frame, panel: &Panel<'_>) {
        draw_outages(surface, frame, &self.outages, |surface| {
            frame.draw_y(surface, self.ticks, self.show);
            frame.draw_x_grid(surface, 10);
        });
        let title_y = frame.top - 13.0;
        surface.marker(panel.series, (frame.left + 5.0, title_y));
        surface.bold((frame.left + 16.0, title_y), panel.title, Role::Solid(panel.series), 14, Anchor::Start);
        surface.text((frame.right, title_y), &panel.stats, Role::Ink, 12, Anchor::End);
        if let Some((limit, words)) = &self.limit {
            let y = frame.y_at(*limit);
            surface.line(frame.level(y), Role::Limit, 1.0);
            surface.text((frame.right - 4.0, y - 8.0), words, Role::Muted, 11, Anchor::End);
        }
        for at in &panel.missing {
            let x = frame.x_at(*at);
            surface.line([(x, frame.top), (x, frame.top + 8.0)], Role::Bad, 1.0);
        }
        if !self.reference.is_empty() {
            surface.line(self.reference.iter().map(|point| frame.at(*point)), Role::Link, 1.0);
        }
        for stretch in panel.points.chunk_by(|a, b| b.0 - a.0 <= panel.reach) {
            let points: Vec<Point> = stretch.iter().map(|point| frame.at(*point)).collect();
            if let [(x, y)] = points[..] {
                surface.rect([(x - 1.0, y - 1.0), (x + 1.0, y + 1.0)], Role::Solid(panel.series), 1.0);
            } else {
                surface.line(points, Role::Solid(panel.series), 1.5);
            }
        }
        for (from, to) in &panel.still {
            let corners = [(frame.x_at(*from), frame.bottom + 2.0), (frame.x_at(*to), frame.bottom + 7.0)];
            surface.rect(corners, Role::Bad, 1.0);
        }
        if let Some(at) = self.moment {
            surface.line(frame.upright(frame.x_at(at)), Role::Limit, 1.0);
        }
    }
}

/// Draws the latency of each block of one flow over the time at which the block was offered.
pub(crate) fn latency(runs: &[(usize, &RunResult)], flow_name: &str) -> Option<Figure> {
    let flows = flows(runs, flow_name);
    let values = || flows.iter().flat_map(|(_, _, flow)| &flow.latencies).map(|point| ms(point.latency_us));
    let highest = values().fold(0.0, f64::max);
    if highest <= 0.0 {
        return None;
    }
    let deadline = flows.iter().find_map(|(_, _, flow)| flow.deadline_us);
    let (lowest, highest) =
        (values().fold(highest, f64::min).max(0.1), highest.max(deadline.map_or(0.0, ms)));
    let panels = flows.iter().map(|&(series, run, flow)| Panel {
        stats: latency_stats(flow),
        points: flow.latencies.iter().map(|p| (seconds(p.at_us), ms(p.latency_us))).collect(),
        reach: reach(flow),
        missing: flow.missing_at_us.iter().map(|us| seconds(*us)).collect(),
        ..Panel::of(series, &run.scheduler)
    });
    let panels: Vec<Panel<'_>> = panels.collect();
    let y = if highest > lowest * 12.0 {
        Scale::Log { from: lowest / 1.25, to: highest * 1.35 }
    } else {
        Scale::Linear { from: 0.0, to: highest * 1.12 }
    };
    let shared = Shared {
        limit: deadline.map(|us| (ms(us), format!("deadline {}", format::time(us)))),
        ..Shared::of(runs, y, show_ms, "time at which the block was offered, s")
    };
    Some(shared.figure(
        format!("latency-{flow_name}"),
        format!("Latency of each block of “{flow_name}” over time"),
        "Each panel is one scheduler on the same axes. Shaded: the named link carries nothing. Ticks along the top edge \
         of a panel: blocks that never arrived.",
        &panels,
    ))
}

/// Draws the delivered rate of one flow over time.
pub(crate) fn goodput(runs: &[(usize, &RunResult)], flow_name: &str) -> Option<Figure> {
    let panels = flows(runs, flow_name).into_iter().map(|(series, run, flow)| {
        // Bytes per 100 ms in Mbps, drawn at the middle of the interval.
        let rate = |(slot, bytes): (usize, &u64)| ((slot as f64 + 0.5) / 10.0, *bytes as f64 * 80.0 / 1e6);
        Panel {
            stats: format!("mean {}", format::rate(flow.goodput_bps as f64)),
            points: flow.delivered_bytes.iter().enumerate().map(rate).collect(),
            ..Panel::of(series, &run.scheduler)
        }
    });
    let panels: Vec<Panel<'_>> = panels.collect();
    let highest = panels.iter().flat_map(|panel| &panel.points).map(|point| point.1).fold(0.0, f64::max);
    if highest <= 0.0 {
        return None;
    }
    let y = Scale::Linear { from: 0.0, to: highest * 1.08 };
    let shared = Shared::of(runs, y, |value| format!("{value} Mbps"), "time, s");
    Some(shared.figure(
        format!("goodput-{flow_name}"),
        format!("Goodput of “{flow_name}” over time"),
        "Bytes of whole blocks delivered in each 100 ms. Shaded: the named link carries nothing.",
        &panels,
    ))
}

/// Returns the SSIM of a film over time as an SVG file: the screen of each scheduler, the encode
/// itself as a thin line, and below them the periods in which the picture froze. The worst moment
/// is marked.
pub fn ssim(shown: &Shown) -> String {
    let accounts = &shown.accounts;
    let interval = 1.0 / accounts.fps;
    let all = shown.seen.iter().flat_map(|seen| &seen.ssim);
    let lowest = all.copied().fold(1.0, f64::min).clamp(0.0, 0.95);
    let curve = |values: &[f64]| -> Vec<Point> {
        (0..).zip(values).map(|(place, ssim)| (f64::from(place) * interval, *ssim)).collect()
    };
    let panels = shown.seen.iter().zip(&accounts.schedulers).enumerate().map(|(index, (seen, account))| {
        let stats = account.ssim.zip(accounts.encode_ssim).map(|(ssim, encode)| {
            format!(
                "mean {:.3}, worst second {:.3} (without network {:.3}, {:.3})",
                ssim.mean, ssim.worst_second, encode.mean, encode.worst_second
            )
        });
        let still = (0..).zip(&seen.fresh).filter(|(_, fresh)| !**fresh).map(|(place, _)| f64::from(place));
        Panel {
            stats: stats.unwrap_or_default(),
            points: curve(&seen.ssim),
            still: still.map(|place| (place * interval, (place + 1.0) * interval)).collect(),
            ..Panel::of(index, &account.scheduler)
        }
    });
    let shared = Shared {
        duration: accounts.pictures as f64 * interval,
        ticks: 3,
        outages: shown.outages.iter().map(|(name, outage)| (name.as_str(), *outage)).collect(),
        reference: curve(&shown.encode.ssim),
        moment: Some(seconds(accounts.moment_us)),
        ..Shared::of(
            &[],
            Scale::Linear { from: (lowest * 10.0).floor() / 10.0, to: 1.0 },
            |tick| format!("{}", (tick * 100.0).round() / 100.0),
            "time at which the picture was taken, s",
        )
    };
    let title = format!("SSIM over time: {} in scenario {}", accounts.film, accounts.scenario);
    shared.figure("ssim".into(), title, "", &panels.collect::<Vec<_>>()).standalone()
}

impl<'a> Panel<'a> {
    fn of(series: usize, title: &'a str) -> Self {
        Self {
            series,
            title,
            stats: String::new(),
            points: Vec::new(),
            reach: f64::INFINITY,
            missing: Vec::new(),
            still: Vec::new(),
        }
    }
}

impl<'a> Shared<'a> {
    fn of(runs: &[(usize, &'a RunResult)], y: Scale, show: fn(f64) -> String, name: &'static str) -> Self {
        let mut outages: Vec<(&str, Interval)> = Vec::new();
        for path in runs.iter().flat_map(|(_, run)| &run.paths) {
            let own = path.outages.iter().map(|outage| (path.name.as_str(), *outage));
            let new: Vec<_> = own.filter(|outage| !outages.contains(outage)).collect();
            outages.extend(new);
        }
        let longest = runs.iter().map(|(_, run)| run.duration_us).max().unwrap_or(0).max(1);
        Self {
            duration: seconds(longest),
            y,
            ticks: 4,
            show,
            name,
            limit: None,
            outages,
            reference: Vec::new(),
            moment: None,
        }
    }
}

fn flows<'a>(runs: &[(usize, &'a RunResult)], name: &str) -> Vec<(usize, &'a RunResult, &'a FlowResult)> {
    let of = |(series, run): &(usize, &'a RunResult)| {
        run.flows.iter().find(|flow| flow.name == name).map(|flow| (*series, *run, flow))
    };
    runs.iter().filter_map(of).collect()
}

fn latency_stats(flow: &FlowResult) -> String {
    let latency = flow.latency.map_or_else(String::new, |all| {
        let [p50, p99, max] = [all.p50_us, all.p99_us, all.max_us].map(format::time);
        format!("p50 {p50}, p99 {p99}, max {max}; ")
    });
    let decided = flow.total.decided_blocks();
    let missing = decided.saturating_sub(flow.total.delivered_blocks);
    match flow.completion_rate {
        Some(rate) => format!("{latency}{:.2} % in time; {missing} of {decided} missing", rate * 100.0),
        None => format!("{latency}no block was due"),
    }
}

/// Returns 2.5 times the median distance of two blocks: a longer one is a gap.
fn reach(flow: &FlowResult) -> f64 {
    let mut steps: Vec<u64> = flow.latencies.windows(2).map(|pair| pair[1].at_us - pair[0].at_us).collect();
    steps.sort_unstable();
    steps.get(steps.len() / 2).map_or(f64::INFINITY, |step| seconds(*step) * 2.5)
}

/// Shades outages, draws a grid over them, and labels them with their links if there is space.
pub(crate) fn draw_outages(
    surface: &mut Surface,
    frame: &Frame,
    outages: &[(&str, Interval)],
    grid: impl FnOnce(&mut Surface),
) {
    let ends = |outage: &Interval| [outage.from_us, outage.to_us].map(|us| frame.x_at(seconds(us)));
    for (_, outage) in outages {
        let [from, to] = ends(outage);
        surface.rect([(from, frame.top), (to, frame.bottom)], Role::Outage, 1.0);
    }
    grid(surface);
    for (link, outage) in outages {
        let [from, to] = ends(outage);
        let words = format!("{link} out");
        if to - from > 7.0 * words.chars().count() as f64 {
            let at = (f64::midpoint(from, to), frame.top + 18.0);
            surface.text(at, &words, Role::OutageText, 11, Anchor::Middle);
        }
    }
}

pub(crate) fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

pub(crate) fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}

/// Formats milliseconds on an axis.
pub(crate) fn show_ms(value: f64) -> String {
    if value >= 1_000.0 { format!("{} s", value / 1e3) } else { format!("{value} ms") }
}
