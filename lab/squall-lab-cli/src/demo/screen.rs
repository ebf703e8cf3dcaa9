//! The live view: a column for each scheduler, drawn from its latest status.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize as _},
    text::{Line, Span},
    widgets::{Block, Gauge, Paragraph, Sparkline, SparklineBar},
};
use squall::signal::{Marks, SignalState};
use squall_lab::{
    Scenario,
    result::{PathState, SAMPLE_INTERVAL_US},
    runner::{PathStatus, Status, View},
};
use squall_net::{LinkEvent, radio::Air};

use super::scenario::film;

/// Number of samples over which displayed rates are averaged.
const RATE_SAMPLES: usize = 5;

/// Time over which a column's frame statistics are computed.
const WINDOW_US: u64 = 1_000_000;

/// Lines of text about the frames.
const FRAME_LINES: u16 = 3;

/// Lines of text about a path without a radio, the first of them empty.
const PATH_LINES: u16 = 5;

/// Maximum height of the drawing of latencies, in lines.
const MAX_DRAWING: u16 = 12;

/// Maximum height of the drawing of a path's rate, in lines.
const MAX_RATES: u16 = 6;

/// Bytes in the queue of a link that fill its bar.
const FULL_QUEUE: f64 = 256e3;

/// Status shared by all columns.
pub(super) struct Now {
    /// Microseconds since the first frame.
    pub(super) at_us: u64,
    /// The demo is about to end early.
    pub(super) quitting: bool,
}

/// Frame statistics of one run.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Frames in time within the last second.
    pub(super) fps: usize,
    /// Latency of the newest frame in microseconds; `None` if no frame arrived in the last second.
    pub(super) latest_us: Option<u64>,
    /// No frame has arrived for a while.
    silent: bool,
    p95_us: Option<u64>,
    worst_us: Option<u64>,
    /// Number of late frames so far.
    late: usize,
    /// Highest latency in each sample interval by time of arrival; `None` without frames.
    history: Vec<Option<u64>>,
}

impl Frames {
    /// Computes the statistics from the status of a run whose frames are due after this time.
    pub(super) fn of(status: &Status, due_us: u64) -> Self {
        let now = status.at_us;
        let mut arrivals: Vec<(u64, u64)> =
            status.latencies.iter().map(|point| (point.at_us + point.latency_us, point.latency_us)).collect();
        arrivals.sort_unstable();
        let mut history = vec![None; (now / SAMPLE_INTERVAL_US) as usize];
        for (arrived, latency) in &arrivals {
            if let Some(worst) = history.get_mut((arrived / SAMPLE_INTERVAL_US) as usize) {
                *worst = (*worst).max(Some(*latency));
            }
        }
        let recent = arrivals.iter().filter(|(arrived, _)| arrived + WINDOW_US > now);
        let mut latencies: Vec<u64> = recent.map(|(_, latency)| *latency).collect();
        let newest = arrivals.last().filter(|_| !latencies.is_empty());
        latencies.sort_unstable();
        Self {
            fps: latencies.partition_point(|latency| *latency <= due_us),
            latest_us: newest.map(|(_, latency)| *latency),
            silent: newest.is_none_or(|(arrived, _)| arrived + 300_000 < now),
            p95_us: latencies.get((latencies.len() * 95).div_ceil(100).saturating_sub(1)).copied(),
            worst_us: latencies.last().copied(),
            late: arrivals.iter().filter(|(_, latency)| *latency > due_us).count(),
            history,
        }
    }
}

/// Scale shared by all drawings over time.
struct Scale {
    /// Rate that fills a bar, in bits per second.
    bps: u64,
    /// Number of samples from the left to the right edge.
    samples: usize,
    /// Lines of text about each path.
    words: u16,
}

/// Draws the whole view.
pub(super) fn draw(frame: &mut Frame<'_>, scenario: &Scenario, now: &Now, views: &[View], runs: &[Status]) {
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ]);
    let [title, time, columns, foot] = rows.areas(frame.area());
    frame.render_widget(title_line(scenario), title);
    frame.render_widget(time_bar(scenario, now), time);
    let areas = Layout::horizontal(runs.iter().map(|_| Constraint::Fill(1))).spacing(1).split(columns);
    for ((view, status), area) in views.iter().zip(runs).zip(areas.iter()) {
        draw_column(frame, *area, scenario, now, view, status);
    }
    let slip_us = runs.iter().map(|status| status.slip_us).max().unwrap_or(0);
    frame.render_widget(foot_line(scenario, now, slip_us), foot);
}

fn title_line(scenario: &Scenario) -> Line<'static> {
    let film = film(scenario);
    Line::from(vec![
        Span::from("squall-lab demo").bold(),
        Span::from(format!(
            "  {}x{} at {} fps, {:.0} Mbps; frames are due after {} ms",
            film.width,
            film.height,
            film.fps,
            film.bitrate.bps() as f64 / 1e6,
            film.deadline.micros() / 1000
        )),
    ])
}

fn time_bar(scenario: &Scenario, now: &Now) -> Gauge<'static> {
    let at_us = now.at_us.min(scenario.duration_us);
    let label = match now.at_us {
        0 => "connecting".to_owned(),
        _ => format!("{:.1} of {:.0} s", at_us as f64 / 1e6, scenario.duration_us as f64 / 1e6),
    };
    Gauge::default()
        .ratio(at_us as f64 / scenario.duration_us as f64)
        .label(label)
        .gauge_style(Style::new().fg(Color::Blue).bg(Color::DarkGray))
}

fn foot_line(scenario: &Scenario, now: &Now, slip_us: u64) -> Line<'static> {
    if now.quitting {
        return Line::from("ending").bold();
    }
    let mut words = format!("q ends it   emulation late {:.1} ms", slip_us as f64 / 1e3);
    if has_radios(scenario) {
        let Marks { warning, outage, .. } = Marks::default();
        words.push_str(&format!("   signal: warning below {warning}, outage {outage}"));
    }
    Line::from(words).dim()
}

fn draw_column(
    frame: &mut Frame<'_>,
    area: Rect,
    scenario: &Scenario,
    now: &Now,
    view: &View,
    status: &Status,
) {
    let border = Block::bordered().title(Line::from(format!(" {} ", view.scheduler)).bold());
    let inside = border.inner(area);
    frame.render_widget(border, area);
    let paths = scenario.paths.len() as u16;
    let words = PATH_LINES + u16::from(has_radios(scenario));
    // Lines that the text does not need go to the latencies first, then to the rates.
    let spare = inside.height.saturating_sub(FRAME_LINES + 1 + words * paths);
    let latencies = spare.min(MAX_DRAWING);
    let rates = ((spare - latencies) / paths.max(1)).min(MAX_RATES);
    let rows = Layout::vertical([
        Constraint::Length(FRAME_LINES),
        Constraint::Length(latencies),
        Constraint::Length(1),
        Constraint::Min(0),
    ]);
    let [frame_area, drawing, caption, path_area] = rows.areas(inside);
    let due_us = film(scenario).deadline.micros();
    let frames = Frames::of(status, due_us);
    frame.render_widget(Paragraph::new(frame_lines(scenario, &frames, status)), frame_area);
    draw_latencies(frame, drawing, scenario, &frames);
    let caption_text = format!("worst latency; top {} ms; × no frame", due_us * 2 / 1000);
    frame.render_widget(Line::from(caption_text).dim(), caption);
    let direction = scenario.direction();
    let scale = Scale { bps: largest_rate(scenario), samples: samples(scenario), words };
    for (index, (path, config)) in status.paths.iter().zip(&scenario.paths).enumerate() {
        let height = words + rates;
        let place = Rect { y: path_area.y + height * index as u16, height, ..path_area };
        let shown = Path {
            name: &config.name,
            status: path,
            rates: path.series.rate_bps(direction),
            signal: view.uses_radios.then(|| signal(path)),
            doing: doing(&config.link(direction).events, path.air.as_ref(), now.at_us),
        };
        draw_path(frame, place.intersection(path_area), &shown, &scale);
    }
}

/// A path in a column.
struct Path<'a> {
    name: &'a str,
    status: &'a PathStatus,
    /// Rate of new data over the path in bits per second, at each sample.
    rates: &'a [u64],
    /// Signal state at the sender; `None` if it does not use the radio.
    signal: Option<SignalState>,
    /// Current event of the link, in words.
    doing: String,
}

/// Derives the sender's signal state of a path.
pub(super) fn signal(path: &PathStatus) -> SignalState {
    match path.series.factor.last() {
        _ if path.state == PathState::Deactivated => SignalState::Out,
        Some(factor) if *factor < 1_000 => SignalState::Warned,
        _ => SignalState::Clear,
    }
}

/// `true` if the link of a path carries nothing.
pub(super) fn is_out(path: &PathStatus) -> bool {
    path.series.link_bps.last() == Some(&Some(0))
}

fn has_radios(scenario: &Scenario) -> bool {
    scenario.paths.iter().any(|path| path.radio.is_some())
}

/// Describes the scripted event of a link or, without one, the state of its radio.
fn doing(events: &[LinkEvent], air: Option<&Air>, now_us: u64) -> String {
    let back = events.iter().filter_map(|event| {
        let (from, to) = (event.at.micros(), event.at.micros() + event.outage?.micros());
        (from..to).contains(&now_us).then_some(to)
    });
    if let Some(back) = back.max() {
        return format!("no signal, back in {:.1} s", (back - now_us) as f64 / 1e6);
    }
    let moving = events.iter().rev().find(|event| {
        let over = event.over.map_or(0, squall_units::Span::micros);
        (event.at.micros()..event.at.micros() + over).contains(&now_us)
    });
    let Some(event) = moving else {
        return air.map_or_else(|| "steady".to_owned(), air_words);
    };
    let rate = event.rate.map(|rate| format!("rate on its way to {rate}"));
    let delay = event.delay.map(|delay| format!("delay on its way to {delay}"));
    [rate, delay].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Describes the decisive level and the share of the rate that it leaves.
fn air_words(air: &Air) -> String {
    let levels = &air.levels;
    let all = [("SINR", levels.sinr, "dB"), ("RSRP", levels.rsrp, "dBm"), ("RSSI", levels.rssi, "dBm")];
    let level = all.into_iter().find_map(|(name, level, unit)| Some(format!("{name} {:.0} {unit}", level?)));
    match level.filter(|_| !levels.detached) {
        None => "in no network".to_owned(),
        Some(level) if air.conditions.outage => format!("{level}, nothing passes"),
        Some(level) => format!("{level} gives {:.0} %", air.conditions.share.as_f64() * 100.0),
    }
}

/// Number of samples in the whole demo.
fn samples(scenario: &Scenario) -> usize {
    (scenario.duration_us / SAMPLE_INTERVAL_US).max(1) as usize
}

/// Highest rate that any link ever has, for a constant scale.
fn largest_rate(scenario: &Scenario) -> u64 {
    let links = scenario.paths.iter().map(|path| path.link(scenario.direction()));
    let rates = links.flat_map(|link| {
        let scripted = link.events.iter().filter_map(|event| Some(event.rate?.bps())).collect::<Vec<_>>();
        scripted.into_iter().chain(link.rate.mean_bps())
    });
    rates.max().unwrap_or(film(scenario).bitrate.bps() * 2)
}

/// Maps the samples so far to a width that represents all samples. Each column gets the samples
/// that it covers.
fn columns<T>(history: &[T], samples: usize, width: u16) -> impl Iterator<Item = &[T]> {
    let width = usize::from(width);
    (0..width).map_while(move |column| {
        let first = column * samples / width;
        let end = ((column + 1) * samples / width).max(first + 1);
        history.get(first..end.min(history.len())).filter(|covered| !covered.is_empty())
    })
}

fn frame_lines(scenario: &Scenario, frames: &Frames, status: &Status) -> Vec<Line<'static>> {
    let ms = |us: Option<u64>| us.map_or_else(|| "  –".to_owned(), |us| format!("{:3}", us / 1000));
    let fps = f64::from(film(scenario).fps);
    let colour = if frames.fps as f64 >= fps * 0.9 { Color::Green } else { Color::Red };
    let now =
        if frames.silent { Span::from("none").fg(Color::Red).bold() } else { ms(frames.latest_us).bold() };
    let tally = &status.tally;
    let lost = tally.expired_blocks + tally.cancelled_blocks + tally.refused_blocks + tally.closed_blocks;
    vec![
        Line::from(vec![
            Span::from("in time  "),
            Span::from(format!("{:3} fps", frames.fps)).fg(colour).bold(),
            Span::from(format!(" of {fps:.0}")),
        ]),
        Line::from(vec![
            Span::from("latency  "),
            now,
            Span::from(format!(" ms   p95 {}   worst {}", ms(frames.p95_us), ms(frames.worst_us))),
        ]),
        Line::from(format!("so far   {} late, {lost} dropped", frames.late)),
    ]
}

/// Draws the latencies, with late frames in red.
fn draw_latencies(frame: &mut Frame<'_>, area: Rect, scenario: &Scenario, frames: &Frames) {
    // No frame is missing before the first one is due.
    let due_us = film(scenario).deadline.micros();
    let due = due_us.div_ceil(SAMPLE_INTERVAL_US) as usize;
    let first = frames.history.iter().position(Option::is_some).unwrap_or(usize::MAX).min(due);
    let history: Vec<Option<u64>> =
        frames.history.iter().enumerate().map(|(at, worst)| worst.or((at < first).then_some(0))).collect();
    let bars = columns(&history, samples(scenario), area.width).map(|covered| {
        let worst =
            covered.iter().copied().collect::<Option<Vec<u64>>>().and_then(|all| all.into_iter().max());
        let late = worst.is_some_and(|us| us > due_us);
        SparklineBar::from(worst).style(Style::new().fg(if late { Color::Red } else { Color::Green }))
    });
    let drawing = Sparkline::default()
        .data(bars.collect::<Vec<_>>())
        .max(due_us * 2)
        .absent_value_symbol("×")
        .absent_value_style(Style::new().fg(Color::Red));
    frame.render_widget(drawing, area);
}

/// Draws the text of a path, and its rate over time if there is room.
fn draw_path(frame: &mut Frame<'_>, area: Rect, path: &Path<'_>, scale: &Scale) {
    let [words, drawing] =
        Layout::vertical([Constraint::Length(scale.words), Constraint::Min(0)]).areas(area);
    frame.render_widget(Paragraph::new(path_lines(path, scale, area.width)), words);
    let bars = columns(path.rates, scale.samples, drawing.width)
        .map(|covered| covered.iter().sum::<u64>() / covered.len() as u64);
    let rates = Sparkline::default().data(bars.collect::<Vec<_>>()).max(scale.bps);
    frame.render_widget(rates.style(Style::new().fg(Color::Cyan)), drawing);
}

fn path_lines(path: &Path<'_>, scale: &Scale, width: u16) -> Vec<Line<'static>> {
    let PathStatus { state, series, .. } = path.status;
    let (dot, colour) = match state {
        PathState::Active => ("●", Color::Green),
        PathState::Opening => ("○", Color::Gray),
        PathState::Suspect => ("●", Color::Yellow),
        _ => ("●", Color::Red),
    };
    let last = |column: &[u64]| column.last().copied().unwrap_or(0);
    let (capacity, queued) = (series.link_bps.last().copied().flatten().unwrap_or(0), last(&series.queue));
    let recent = &path.rates[path.rates.len().saturating_sub(RATE_SAMPLES)..];
    let rate_bps = recent.iter().sum::<u64>() / recent.len().max(1) as u64;
    let megabits = |bps: u64| bps as f64 / 1e6;
    let queued_ms = match capacity {
        0 => String::new(),
        bps => format!(", {} ms", queued * 8000 / bps),
    };
    // A bar too short to read is omitted in favour of the numbers.
    let bar_width =
        Some(usize::from(width.saturating_sub(30)).min(40)).filter(|width| *width >= 5).unwrap_or(0);
    let rate = bar(rate_bps as f64 / scale.bps as f64, bar_width, Color::Cyan);
    let queue = bar(queued as f64 / FULL_QUEUE, bar_width, Color::Magenta);
    let mut lines = vec![
        Line::default(),
        Line::from(vec![
            Span::from(path.name.to_owned()).bold(),
            Span::from("  "),
            Span::from(format!("{dot} {}", state.as_str())).fg(colour),
            Span::from(format!("   RTT {} ms", last(&series.srtt_us) / 1000)),
        ]),
        Line::from(vec![
            Span::from("  rate   "),
            rate,
            Span::from(format!(" {:4.1} of {:.1} Mbps", megabits(rate_bps), megabits(capacity))),
        ]),
        Line::from(vec![
            Span::from("  queue  "),
            queue,
            Span::from(format!(" {:3} kB{queued_ms}", queued / 1000)),
        ]),
    ];
    lines.extend(path.status.air.is_some().then(|| signal_line(path, bar_width)));
    let urgent = if is_out(path.status) {
        Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
    } else {
        Style::new()
    };
    lines.push(Line::from(vec![Span::from("  link   "), Span::from(path.doing.clone()).style(urgent)]));
    lines
}

/// Shows the report of the radio, and the signal state at the sender.
fn signal_line(path: &Path<'_>, bar_width: usize) -> Line<'static> {
    let (word, colour) = match path.signal {
        None => ("not used", Color::Gray),
        Some(SignalState::Clear) => (SignalState::Clear.name(), Color::Green),
        Some(SignalState::Warned) => (SignalState::Warned.name(), Color::Yellow),
        Some(SignalState::Out) => (SignalState::Out.name(), Color::Red),
    };
    let quality = path.status.quality;
    let index = quality.map_or_else(|| "   –".to_owned(), |quality| format!("{quality:4.2}"));
    Line::from(vec![
        Span::from("  signal "),
        bar(quality.unwrap_or(0.0), bar_width, colour),
        Span::from(format!(" {index} ")),
        Span::from(word).fg(colour).bold(),
    ])
}

fn bar(share: f64, width: usize, colour: Color) -> Span<'static> {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    let filled = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8]);
    Span::from(format!("{filled:<width$}")).fg(colour).bg(Color::DarkGray)
}

#[cfg(test)]
mod tests {
    use squall_lab::result::LatencyPoint;
    use squall_net::radio::{Levels, WifiMap};

    use super::*;

    #[test]
    fn frames_of_the_last_second_are_counted() {
        let point = |at_us, latency_us| LatencyPoint { at_us, latency_us };
        let latencies = vec![point(0, 250_000), point(900_000, 20_000), point(1_500_000, 160_000)];
        let frames = Frames::of(&Status { at_us: 2_000_000, latencies, ..Status::default() }, 150_000);
        assert_eq!((frames.fps, frames.late, frames.history.len()), (0, 2, 20));
        assert_eq!((frames.latest_us, frames.worst_us, frames.silent), (Some(160_000), Some(160_000), true));
        assert_eq!(
            (frames.history[2], frames.history[9], frames.history[10]),
            (Some(250_000), Some(20_000), None)
        );
        let none = Frames::of(&Status::default(), 150_000);
        assert!(none.silent && none.latest_us.is_none() && none.history.is_empty());
    }

    #[test]
    fn what_the_script_does_is_shown_in_words() {
        let path: squall_net::PathConfig =
            Scenario::parse(include_str!("../../../../scenarios/fading.toml"), "fading.toml")
                .expect("is valid")
                .paths
                .swap_remove(0);
        let events = path.link(squall_net::Direction::Down).events;
        for (at_ms, expected) in [
            (1_000, "steady"),
            (3_100, "rate on its way to 10mbps"),
            (5_200, "no signal, back in 1.0 s"),
            (6_300, "steady"),
        ] {
            assert_eq!(doing(&events, None, at_ms * 1_000), expected);
        }
    }

    #[test]
    fn where_no_script_acts_the_radio_is_shown() {
        let levels = |rssi, detached| Levels { rssi: Some(rssi), detached, ..Levels::default() };
        for (levels, expected) in [
            (levels(-70.0, false), "RSSI -70 dBm gives 50 %"),
            (levels(-92.0, false), "RSSI -92 dBm, nothing passes"),
            (levels(-92.0, true), "in no network"),
        ] {
            let conditions = WifiMap::default().conditions(&levels);
            assert_eq!(doing(&[], Some(&Air { levels, conditions, quality: None }), 0), expected);
        }
    }
}
