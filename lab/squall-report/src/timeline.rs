//! One run over time: data carried by each path, its round trips and queue, its states and its
//! radio, and the fates of the blocks.

use squall_lab::Direction;
use squall_lab::result::{
    AlertWord, FlowResult, Interval, LostReason, PathResult, PathState, RunResult, SAMPLE_INTERVAL_US,
};
use squall_units::format;

use crate::panels::{draw_outages, ms, seconds, show_ms};
use crate::style::{Role, trim};
use crate::surface::{Anchor, Figure, Frame, Point, Scale, Surface, WIDTH};

/// Height of the title of a path.
const TITLE: f64 = 28.0;
/// Height of a path's rate plot.
const RATE: f64 = 88.0;
/// Height of a path's strip of states.
const STATES: f64 = 16.0;
/// Height of a path's plot of round trips.
const RTT: f64 = 58.0;
const RTT_GAP: f64 = 9.0;
/// Height of a path's radio plot.
const RADIO: f64 = 70.0;
const RADIO_GAP: f64 = 10.0;
/// Height of a path's strip of alerts.
const ALERTS: f64 = 15.0;
/// Height of the title of a flow.
const FLOW: f64 = 26.0;
/// Height of a row of blocks.
const ROW: f64 = 14.0;
const FOOT: f64 = 48.0;

/// Minimum distance between marks of a row.
const APART: f64 = 5.0;

/// Maximum number of points of a series.
const POINTS: u64 = 300;

/// Initial watermarks (STORM Table 2), each with the distance of its label from the axis: side by
/// side, as they are too close to each other for labels in one column.
const MARKS: [(f64, f64); 3] = [(0.45, 7.0), (0.32, 36.0), (0.21, 7.0)];

/// Caption of the figures of this module.
pub(crate) const CAPTION: &str = "Line: new data delivered over the path, in the direction that the figure names; \
    dashed: the other direction. Dotted: what the link could carry. Shaded: the link carries nothing. Strip: the state of \
    the path at the sender of the named direction; round-trip times are its own, too. Below it, the smoothed round-trip \
    time (line, left) and the queue of the link (area, right). At the foot, what became of the blocks of each flow, where \
    they were offered: one mark for all that lie together.";

/// Caption of the part about radios.
pub(crate) const RADIO_CAPTION: &str = "Under each path, its radio: the reported quality index (line), from 0 to 1, the \
    marks good 0.45, warning 0.32 and outage 0.21 where they begin (dashed), and the factor by which the sender weighs the \
    path (dotted). Strip: the last alert that the sender received: none against the path (empty), a warning (half as \
    high), an outage (full).";

/// Draws a run over time: its paths one below the other, each with its radio if the session uses
/// it, then its blocks.
pub(crate) fn figure(series: usize, run: &RunResult) -> Option<Figure> {
    let rates = run.paths.iter().flat_map(|path| {
        let links = path.series.link_bps.iter().flatten();
        path.series.down_bps.iter().chain(&path.series.up_bps).chain(links)
    });
    let highest_bps = rates.copied().max().filter(|bps| *bps > 0)?;
    let most = |column: fn(&PathResult) -> &[u64]| {
        run.paths.iter().flat_map(column).copied().max().unwrap_or(0) as f64 / 1e3
    };
    let drawing = Drawing {
        run,
        series,
        rate: up_to(highest_bps as f64 / 1e6, 1.08),
        rtt: up_to(most(|path| &path.series.srtt_us).max(1.0), 1.1),
        queue: most(|path| &path.series.queue),
        slot: run.duration_us.div_ceil(POINTS).next_multiple_of(SAMPLE_INTERVAL_US),
    };
    let flows: Vec<(&FlowResult, Vec<Row>)> =
        run.flows.iter().map(|flow| (flow, rows(flow))).filter(|(_, rows)| !rows.is_empty()).collect();
    let paths: f64 = run.paths.iter().map(height).sum();
    let blocks: f64 = flows.iter().map(|(_, rows)| FLOW + ROW * rows.len() as f64).sum();
    let radios = run.paths.iter().any(uses_radio);
    Some(Figure::draw(
        format!("paths-{}-{}", run.scheduler, run.seed),
        format!("Paths and blocks over time under {}; solid line: {}", run.scheduler, word(run.direction)),
        if radios { RADIO_CAPTION } else { "" },
        (WIDTH, paths + blocks + FOOT),
        |surface| {
            let x = Scale::Linear { from: 0.0, to: seconds(run.duration_us.max(1)) };
            let mut frame = Frame::wide(0.0, 0.0, x, drawing.rate);
            for path in &run.paths {
                frame = drawing.path(surface, frame, path);
            }
            for (flow, rows) in &flows {
                frame = draw_flow(surface, frame, flow, rows);
            }
            frame.draw_x_labels(surface, 10, 0.0, "time, s", |tick| format!("{tick}"));
        },
    ))
}

fn up_to(highest: f64, margin: f64) -> Scale {
    Scale::Linear { from: 0.0, to: highest * margin }
}

/// Returns the total height of a path's drawings.
fn height(path: &PathResult) -> f64 {
    let radio = if uses_radio(path) { RADIO_GAP + RADIO + ALERTS } else { 0.0 };
    TITLE + RATE + STATES + RTT_GAP + RTT + radio
}

/// `true` if the session used the path's radio.
fn uses_radio(path: &PathResult) -> bool {
    !path.series.quality.is_empty()
}

/// Properties that all paths of a run share.
struct Drawing<'a> {
    run: &'a RunResult,
    series: usize,
    rate: Scale,
    rtt: Scale,
    /// Longest queue in kB.
    queue: f64,
    /// Length in microseconds of a period drawn as one point.
    slot: u64,
}

impl Drawing<'_> {
    /// Draws a path below a frame; returns its last frame.
    fn path(&self, surface: &mut Surface, above: Frame, path: &PathResult) -> Frame {
        let frame = above.below(TITLE, RATE, self.rate);
        self.rates(surface, &frame, path);
        let states = path.states.iter().map(|change| (change.at_us, change.state));
        let strip = Frame { top: frame.bottom + 3.0, bottom: frame.bottom + STATES, ..frame };
        for (state, stretch) in stretches(states, self.run.duration_us) {
            draw_strip(surface, &strip, stretch, state_role(state), state.as_str());
        }
        let below = frame.below(STATES + RTT_GAP, RTT, self.rtt);
        self.round_trips(surface, &below, path);
        if !uses_radio(path) {
            return below;
        }
        let radio = below.below(RADIO_GAP, RADIO, Scale::Linear { from: 0.0, to: 1.04 });
        self.radio(surface, &radio, path);
        radio.below(ALERTS, 0.0, radio.y)
    }

    fn rates(&self, surface: &mut Surface, frame: &Frame, path: &PathResult) {
        let outages: Vec<(&str, Interval)> =
            path.outages.iter().map(|outage| (path.name.as_str(), *outage)).collect();
        draw_outages(surface, frame, &outages, |surface| {
            frame.draw_y(surface, 3, |tick| format!("{tick} Mbps"));
            frame.draw_x_grid(surface, 10);
        });
        let title_y = frame.top - 12.0;
        surface.bold((frame.left, title_y), &path.name, Role::Ink, 14, Anchor::Start);
        surface.text((frame.right, title_y), &self.stats(path), Role::Ink, 12, Anchor::End);
        let times = || path.series.at_us.iter().copied();
        let thin = |points: &mut dyn Iterator<Item = (u64, u64)>| -> Vec<Point> {
            let points = points.map(|(us, bps)| (us, bps as f64 / 1e6));
            self.thin(points, mean).into_iter().map(|point| frame.at(point)).collect()
        };
        let carried = |direction| thin(&mut times().zip(path.series.rate_bps(direction).iter().copied()));
        let mut link = times().zip(&path.series.link_bps).filter_map(|(us, bps)| Some((us, (*bps)?)));
        let link = thin(&mut link);
        if !link.is_empty() {
            surface.line(steps(&link), Role::Link, 1.5);
        }
        let back = other(self.run.direction);
        if path.series.rate_bps(back).iter().any(|bps| *bps > 0) {
            surface.line(carried(back), Role::Back, 1.0);
        }
        surface.line(carried(self.run.direction), Role::Solid(self.series), 1.5);
    }

    fn stats(&self, path: &PathResult) -> String {
        let mean = |direction: Direction| {
            let bps = match direction {
                Direction::Down => path.goodput_down_bps,
                Direction::Up => path.goodput_up_bps,
            };
            format!("{} {}", word(direction), format::rate(bps as f64))
        };
        let goodput = [self.run.direction, other(self.run.direction)].map(mean).join(", ");
        let rtt = path.rtt.map_or_else(String::new, |all| format!(", RTT p50 {}", format::time(all.p50_us)));
        format!("mean {goodput}, {} sent{rtt}", format::size(path.wire_bytes() as f64))
    }

    /// Draws the round-trip time, and the queue of the link as an area on a separate axis.
    fn round_trips(&self, surface: &mut Surface, frame: &Frame, path: &PathResult) {
        let times = || path.series.at_us.iter().copied();
        let words = (frame.top + 8.0, Role::Muted, 11);
        frame.draw_x_grid(surface, 10);
        if self.queue > 0.0 {
            let right = Frame { y: up_to(self.queue.max(1.0), 1.1), ..*frame };
            let points = times().zip(path.series.queue.iter().map(|bytes| *bytes as f64 / 1e3));
            let mut corners: Vec<Point> =
                self.thin(points, highest).into_iter().map(|point| right.at(point)).collect();
            if let (Some(first), Some(last)) = (corners.first().copied(), corners.last().copied()) {
                corners.extend([(last.0, frame.bottom), (first.0, frame.bottom)]);
            }
            surface.area(corners, Role::Muted, 0.3);
            let text = format!("queue up to {} kB", trim((self.queue * 10.0).round() / 10.0));
            surface.text((frame.right - 4.0, words.0), &text, words.1, words.2, Anchor::End);
        }
        frame.draw_y(surface, 2, show_ms);
        surface.text((frame.left + 4.0, words.0), "RTT", words.1, words.2, Anchor::Start);
        let points = times().zip(path.series.srtt_us.iter().map(|us| ms(*us)));
        let points = self.thin(points, highest).into_iter().map(|point| frame.at(point));
        surface.line(points, Role::Solid(self.series), 1.5);
    }

    /// Draws quality, factor and alerts.
    fn radio(&self, surface: &mut Surface, frame: &Frame, path: &PathResult) {
        frame.draw_x_grid(surface, 10);
        for (mark, aside) in MARKS {
            let y = frame.y_at(mark);
            surface.line(frame.level(y), Role::Limit, 1.0);
            surface.text((frame.left - aside, y), &mark.to_string(), Role::Muted, 11, Anchor::End);
        }
        surface.text((frame.left - 7.0, frame.y_at(1.0)), "signal 1", Role::Muted, 11, Anchor::End);
        let draw = |points: &[(u64, u16)]| -> Vec<Point> {
            let shares = points.iter().map(|(us, share)| (*us, f64::from(*share) / 1e3));
            self.thin(shares, lowest).into_iter().map(|point| frame.at(point)).collect()
        };
        let times = || path.series.at_us.iter().copied();
        let factor = draw(&times().zip(path.series.factor.iter().copied()).collect::<Vec<_>>());
        if !factor.is_empty() {
            surface.line(steps(&factor), Role::Link, 1.5);
        }
        let reported: Vec<_> = times().zip(&path.series.quality).collect();
        for stretch in reported.chunk_by(|a, b| a.1.is_some() == b.1.is_some()) {
            let known: Vec<_> = stretch.iter().filter_map(|(us, share)| Some((*us, (**share)?))).collect();
            if known.len() > 1 {
                surface.line(draw(&known), Role::Solid(self.series), 1.5);
            }
        }
        // A warning that only reports a weaker signal continues the one before.
        let alerts = path.alerts.chunk_by(|a, b| a.kind == b.kind).map(|same| (same[0].at_us, same[0].kind));
        let (top, bottom) = (frame.bottom + 3.0, frame.bottom + ALERTS);
        for (alert, stretch) in stretches(alerts, self.run.duration_us) {
            let (role, top, words) = match alert {
                AlertWord::Recovery => continue,
                AlertWord::Warning => (Role::StateSuspect, f64::midpoint(top, bottom), ""),
                AlertWord::Outage => (Role::StateDown, top, "signal: out"),
            };
            draw_strip(surface, &Frame { top, bottom, ..*frame }, stretch, role, words);
        }
    }

    /// Combines the values of each slot into one point, in seconds, at the time of the last one.
    /// Samples are taken at the end of the interval that they describe.
    fn thin(&self, points: impl Iterator<Item = (u64, f64)>, one: fn(&[f64]) -> f64) -> Vec<Point> {
        let slot = |at_us: u64| at_us.saturating_sub(1) / self.slot;
        let points: Vec<(u64, f64)> = points.collect();
        let chunks = points.chunk_by(|a, b| slot(a.0) == slot(b.0));
        chunks
            .map(|chunk| {
                let values: Vec<f64> = chunk.iter().map(|point| point.1).collect();
                (seconds(chunk[chunk.len() - 1].0), one(&values))
            })
            .collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MIN, f64::max)
}

fn lowest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MAX, f64::min)
}

/// Draws a rate as steps: it stays constant until it changes.
fn steps(points: &[Point]) -> Vec<Point> {
    let mut steps: Vec<Point> = Vec::new();
    for (x, y) in points {
        match steps.last() {
            Some((_, last)) if last != y => steps.extend([(*x, *last), (*x, *y)]),
            _ => steps.push((*x, *y)),
        }
    }
    steps
}

/// Returns each value with its begin and end in seconds; each lasts until the next.
fn stretches<T>(
    changes: impl Iterator<Item = (u64, T)>,
    end_us: u64,
) -> impl Iterator<Item = (T, (f64, f64))> {
    let mut changes = changes.peekable();
    std::iter::from_fn(move || {
        let (from_us, what) = changes.next()?;
        let to_us = changes.peek().map_or(end_us, |next| next.0);
        Some((what, (seconds(from_us), seconds(to_us))))
    })
}

/// Draws a period of a strip, with its words if there is space for them.
fn draw_strip(surface: &mut Surface, frame: &Frame, stretch: (f64, f64), role: Role, words: &str) {
    let (from, to) = (frame.x_at(stretch.0), frame.x_at(stretch.1));
    surface.rect([(from, frame.top), (to, frame.bottom)], role, 1.0);
    if !words.is_empty() && to - from > 7.0 * words.len() as f64 {
        let at = (f64::midpoint(from, to), f64::midpoint(frame.top, frame.bottom));
        surface.text(at, words, Role::Ink, 10, Anchor::Middle);
    }
}

fn state_role(state: PathState) -> Role {
    match state {
        PathState::Active => Role::StateGood,
        PathState::Opening | PathState::Standby | PathState::Recovering => Role::StateHeld,
        PathState::Suspect => Role::StateSuspect,
        PathState::Deactivated | PathState::Down | PathState::Closed => Role::StateDown,
    }
}

fn other(direction: Direction) -> Direction {
    match direction {
        Direction::Down => Direction::Up,
        Direction::Up => Direction::Down,
    }
}

fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

/// Fate of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    InTime,
    Late,
    Lost(LostReason),
}

/// Strokes of a mark, each between two positions in units of its size.
type Strokes = &'static [[Point; 2]];

/// Every fate with its word and the shape of its mark: a stroke, a caret, a cross, a bar, a plus, a
/// corner.
const FATES: [(Fate, &str, Strokes); 6] = [
    (Fate::InTime, "in time", &[[(0.0, -1.0), (0.0, 1.0)]]),
    (Fate::Late, "late", &[[(-1.0, -1.0), (0.0, 1.0)], [(0.0, 1.0), (1.0, -1.0)]]),
    (Fate::Lost(LostReason::Expired), "expired", &[[(-1.0, -1.0), (1.0, 1.0)], [(-1.0, 1.0), (1.0, -1.0)]]),
    (Fate::Lost(LostReason::Cancelled), "cancelled", &[[(-1.0, 0.0), (1.0, 0.0)]]),
    (Fate::Lost(LostReason::Refused), "refused", &[[(-1.0, 0.0), (1.0, 0.0)], [(0.0, -1.0), (0.0, 1.0)]]),
    (Fate::Lost(LostReason::Closed), "closed", &[[(-1.0, -1.0), (-1.0, 1.0)], [(-1.0, 1.0), (1.0, 1.0)]]),
];

/// Index of a fate in [`FATES`], and the times at which its blocks were offered.
type Row = (usize, Vec<u64>);

/// Returns the fates of the flow's blocks.
fn rows(flow: &FlowResult) -> Vec<Row> {
    let arrived = flow.latencies.iter().map(|point| {
        let timely = flow.deadline_us.is_none_or(|deadline| point.latency_us <= deadline);
        (if timely { Fate::InTime } else { Fate::Late }, point.at_us)
    });
    let unknown = std::iter::repeat(&LostReason::Expired);
    let missing = flow.missing_at_us.iter().zip(flow.missing_why.iter().chain(unknown));
    let all: Vec<(Fate, u64)> =
        arrived.chain(missing.map(|(at_us, why)| (Fate::Lost(*why), *at_us))).collect();
    let of = |fate: Fate| all.iter().filter(|one| one.0 == fate).map(|one| one.1).collect::<Vec<_>>();
    let rows = FATES.iter().enumerate().map(|(place, row)| (place, of(row.0)));
    rows.filter(|(_, at_us)| !at_us.is_empty()).collect()
}

/// Draws the blocks of a flow below a frame; returns its frame.
fn draw_flow(surface: &mut Surface, above: Frame, flow: &FlowResult, rows: &[Row]) -> Frame {
    let frame = above.below(FLOW, ROW * rows.len() as f64, above.y);
    frame.draw_x_grid(surface, 10);
    let deadline = flow.deadline_us.map_or(String::new(), |us| format!(", deadline {}", show_ms(ms(us))));
    let waited = flow.total.offered_blocks - flow.total.open_blocks;
    let title = format!("{}{deadline}: {} of {waited} blocks in time", flow.name, flow.total.in_time_blocks);
    surface.bold((frame.left, frame.top - 11.0), &title, Role::Ink, 12, Anchor::Start);
    let mut y = frame.top - ROW / 2.0;
    for (place, at_us) in rows {
        let (fate, words, strokes) = FATES[*place];
        y += ROW;
        surface.text((frame.left - 7.0, y), words, Role::Muted, 11, Anchor::End);
        let (role, r) = if fate == Fate::InTime { (Role::Muted, 2.0) } else { (Role::Bad, 3.0) };
        let mut free_from = f64::MIN;
        for x in at_us.iter().map(|us| frame.x_at(seconds(*us))) {
            if x >= free_from {
                for ends in strokes {
                    surface.line(ends.map(|(dx, dy)| (x + dx * r, y + dy * 4.0)), role, 1.4);
                }
                free_from = x + APART;
            }
        }
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_lab::result::sample::run;

    #[test]
    fn every_block_is_in_the_row_of_its_fate() {
        let run = run("minrtt", 1);
        let rows = rows(&run.flows[0]);
        let fates: Vec<Fate> = rows.iter().map(|(place, _)| FATES[*place].0).collect();
        assert_eq!(fates, [Fate::InTime, Fate::Late, Fate::Lost(LostReason::Expired)]);
        let count = |nth: usize| rows[nth].1.len() as u64;
        let total = run.flows[0].total;
        assert_eq!((count(0), count(0) + count(1)), (total.in_time_blocks, total.delivered_blocks));
    }

    #[test]
    fn a_slot_is_one_point() {
        let run = run("minrtt", 1);
        let scale = up_to(1.0, 1.0);
        let drawing = Drawing { run: &run, series: 0, rate: scale, rtt: scale, queue: 0.0, slot: 200_000 };
        let points = [(100_000, 1.0), (200_000, 3.0), (300_000, 5.0), (400_000, 9.0), (500_000, 4.0)];
        assert_eq!(drawing.thin(points.into_iter(), mean), [(0.2, 2.0), (0.4, 7.0), (0.5, 4.0)]);
        assert_eq!(drawing.thin(points.into_iter(), highest)[1], (0.4, 9.0));
        assert_eq!(drawing.thin(points.into_iter(), lowest)[1], (0.4, 5.0));
        assert!(drawing.thin(std::iter::empty(), mean).is_empty());
    }
}
