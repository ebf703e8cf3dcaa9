//! The live view: a column for each scheduler, drawn from what is known at a moment.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize as _},
    text::{Line, Span},
    widgets::{Block, Gauge, Paragraph, Sparkline, SparklineBar},
};
use squall::signal::{Marks, SignalState};
use squall_lab::result::PathState;

use super::{
    path::PathNow,
    plan::Plan,
    record::{Reading, SAMPLE},
    script,
    side::View,
};

/// Lines of words about the frames.
const FRAME_LINES: u16 = 3;

/// Lines of words about a path without a radio, the first of them empty.
const PATH_LINES: u16 = 5;

/// Most lines of the drawing of latencies.
const MAX_DRAWING: u16 = 12;

/// Most lines of the drawing of a path's rate.
const MAX_RATES: u16 = 6;

/// Bytes in the queue of a link that fill its bar.
const FULL_QUEUE: f64 = 256e3;

/// What is the same for all columns.
pub(super) struct Now {
    /// Microseconds since the first frame.
    pub(super) at_us: u64,
    /// How late the emulation is.
    pub(super) slip_us: u64,
    /// Whether the demo is about to end early.
    pub(super) quitting: bool,
}

/// What is the same for all drawings over time.
struct Scale {
    /// The rate that fills a bar, in bits per second.
    bps: u64,
    /// Samples from the left to the right edge.
    samples: usize,
    /// Lines of words about each path.
    words: u16,
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, plan: &Plan, now: &Now, views: &[View], readings: &[Reading]) {
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ]);
    let [title, time, columns, foot] = rows.areas(frame.area());
    frame.render_widget(title_line(plan), title);
    frame.render_widget(time_bar(plan, now), time);
    let areas = Layout::horizontal(readings.iter().map(|_| Constraint::Fill(1))).spacing(1).split(columns);
    for ((view, reading), area) in views.iter().zip(readings).zip(areas.iter()) {
        draw_column(frame, *area, plan, now, &view.scheduler, reading);
    }
    frame.render_widget(foot_line(plan, now), foot);
}

fn title_line(plan: &Plan) -> Line<'static> {
    let encoder = &plan.clip.encoder;
    Line::from(vec![
        Span::from("squall-lab demo").bold(),
        Span::from(format!(
            "  {}x{} at {:.0} fps, {:.0} Mbps; frames are due after {} ms",
            encoder.width,
            encoder.height,
            encoder.fps,
            plan.video.bitrate.bps() as f64 / 1e6,
            plan.due_us() / 1000
        )),
    ])
}

fn time_bar(plan: &Plan, now: &Now) -> Gauge<'static> {
    let at_us = now.at_us.min(plan.duration_us);
    let label = match now.at_us {
        0 => "connecting".to_owned(),
        _ => format!("{:.1} of {:.0} s", at_us as f64 / 1e6, plan.duration_us as f64 / 1e6),
    };
    Gauge::default()
        .ratio(at_us as f64 / plan.duration_us as f64)
        .label(label)
        .gauge_style(Style::new().fg(Color::Blue).bg(Color::DarkGray))
}

fn foot_line(plan: &Plan, now: &Now) -> Line<'static> {
    if now.quitting {
        return Line::from("ending").bold();
    }
    let mut words = format!("q ends it   emulation late {:.1} ms", now.slip_us as f64 / 1e3);
    if plan.has_radios() {
        let Marks { warning, outage, .. } = Marks::default();
        words.push_str(&format!("   signal: warning below {warning}, outage {outage}"));
    }
    Line::from(words).dim()
}

fn draw_column(
    frame: &mut Frame<'_>,
    area: Rect,
    plan: &Plan,
    now: &Now,
    scheduler: &str,
    reading: &Reading,
) {
    let border = Block::bordered().title(Line::from(format!(" {scheduler} ")).bold());
    let inside = border.inner(area);
    frame.render_widget(border, area);
    let paths = reading.paths.len() as u16;
    let words = PATH_LINES + u16::from(plan.has_radios());
    // What the words leave goes to the latencies first, then to the rates.
    let spare = inside.height.saturating_sub(FRAME_LINES + 1 + words * paths);
    let latencies = spare.min(MAX_DRAWING);
    let rates = ((spare - latencies) / paths.max(1)).min(MAX_RATES);
    let rows = Layout::vertical([
        Constraint::Length(FRAME_LINES),
        Constraint::Length(latencies),
        Constraint::Length(1),
        Constraint::Min(0),
    ]);
    let [frames, drawing, caption, path_area] = rows.areas(inside);
    frame.render_widget(Paragraph::new(frame_lines(plan, reading)), frames);
    draw_latencies(frame, drawing, plan, reading);
    let caption_text = format!("worst latency; top {} ms; × no frame", plan.due_us() * 2 / 1000);
    frame.render_widget(Line::from(caption_text).dim(), caption);
    let scale = Scale { bps: largest_rate(plan), samples: samples(plan), words };
    for (index, (path, config)) in reading.paths.iter().zip(&plan.scenario.paths).enumerate() {
        let height = words + rates;
        let place = Rect { y: path_area.y + height * index as u16, height, ..path_area };
        let doing = script::words(&config.link(plan.direction()).events, path.air.as_ref(), now.at_us);
        draw_path(frame, place.intersection(path_area), path, &doing, &scale);
    }
}

/// Samples of the whole demo.
fn samples(plan: &Plan) -> usize {
    (plan.duration_us / SAMPLE.as_micros() as u64).max(1) as usize
}

/// The most that a link ever carries, for a scale that does not change.
fn largest_rate(plan: &Plan) -> u64 {
    let links = plan.scenario.paths.iter().map(|path| path.link(plan.direction()));
    let rates = links.flat_map(|link| {
        let scripted = link.events.iter().filter_map(|event| Some(event.rate?.bps())).collect::<Vec<_>>();
        scripted.into_iter().chain(link.rate.mean_bps())
    });
    rates.max().unwrap_or(plan.video.bitrate.bps() * 2)
}

/// Spreads the samples so far over a width that stands for all of them; each column gets those it covers.
fn columns<T>(history: &[T], samples: usize, width: u16) -> impl Iterator<Item = &[T]> {
    let width = usize::from(width);
    (0..width).map_while(move |column| {
        let first = column * samples / width;
        let end = ((column + 1) * samples / width).max(first + 1);
        history.get(first..end.min(history.len())).filter(|covered| !covered.is_empty())
    })
}

fn frame_lines(plan: &Plan, reading: &Reading) -> Vec<Line<'static>> {
    let ms = |us: Option<u64>| us.map_or_else(|| "  –".to_owned(), |us| format!("{:3}", us / 1000));
    let frames = &reading.frames;
    let enough = f64::from(frames.fps) >= f64::from(plan.video.fps) * 0.9;
    let colour = if enough { Color::Green } else { Color::Red };
    let silent = frames.silence_us.is_none_or(|silence| silence > 300_000);
    let now = if silent { Span::from("none").fg(Color::Red).bold() } else { ms(frames.latency_us).bold() };
    vec![
        Line::from(vec![
            Span::from("in time  "),
            Span::from(format!("{:3} fps", frames.fps)).fg(colour).bold(),
            Span::from(format!(" of {}", plan.video.fps)),
        ]),
        Line::from(vec![
            Span::from("latency  "),
            now,
            Span::from(format!(" ms   p95 {}   worst {}", ms(reading.p95_us), ms(frames.max_latency_us))),
        ]),
        Line::from(format!("so far   {} late, {} given up", frames.late, reading.given_up)),
    ]
}

/// What is late is red.
fn draw_latencies(frame: &mut Frame<'_>, area: Rect, plan: &Plan, reading: &Reading) {
    // Before the first frame is due none is missing.
    let due = plan.due_us().div_ceil(SAMPLE.as_micros() as u64) as usize;
    let first = reading.history.iter().position(Option::is_some).unwrap_or(usize::MAX).min(due);
    let history: Vec<Option<u64>> =
        reading.history.iter().enumerate().map(|(at, worst)| worst.or((at < first).then_some(0))).collect();
    let bars = columns(&history, samples(plan), area.width).map(|covered| {
        let worst =
            covered.iter().copied().collect::<Option<Vec<u64>>>().and_then(|all| all.into_iter().max());
        let late = worst.is_some_and(|us| us > plan.due_us());
        SparklineBar::from(worst).style(Style::new().fg(if late { Color::Red } else { Color::Green }))
    });
    let drawing = Sparkline::default()
        .data(bars.collect::<Vec<_>>())
        .max(plan.due_us() * 2)
        .absent_value_symbol("×")
        .absent_value_style(Style::new().fg(Color::Red));
    frame.render_widget(drawing, area);
}

/// Words, and the rate over time if there is room.
fn draw_path(frame: &mut Frame<'_>, area: Rect, path: &PathNow, doing: &str, scale: &Scale) {
    let [words, drawing] =
        Layout::vertical([Constraint::Length(scale.words), Constraint::Min(0)]).areas(area);
    frame.render_widget(Paragraph::new(path_lines(path, doing, scale, area.width)), words);
    let bars = columns(&path.rates, scale.samples, drawing.width)
        .map(|covered| covered.iter().sum::<u64>() / covered.len() as u64);
    let rates = Sparkline::default().data(bars.collect::<Vec<_>>()).max(scale.bps);
    frame.render_widget(rates.style(Style::new().fg(Color::Cyan)), drawing);
}

fn path_lines(path: &PathNow, doing: &str, scale: &Scale, width: u16) -> Vec<Line<'static>> {
    let link = &path.link;
    let (dot, colour) = match path.state {
        PathState::Active => ("●", Color::Green),
        PathState::Opening => ("○", Color::Gray),
        PathState::Suspect => ("●", Color::Yellow),
        _ => ("●", Color::Red),
    };
    let capacity = if link.outage { 0 } else { link.rate.unwrap_or(0) };
    let megabits = |bps: u64| bps as f64 / 1e6;
    let queued_ms = match capacity {
        0 => String::new(),
        bps => format!(", {} ms", link.queue_bytes * 8000 / bps),
    };
    // A bar that is too short to read takes no room from the numbers.
    let bar_width =
        Some(usize::from(width.saturating_sub(30)).min(40)).filter(|width| *width >= 5).unwrap_or(0);
    let rate = bar(path.rate_bps as f64 / scale.bps as f64, bar_width, Color::Cyan);
    let queue = bar(link.queue_bytes as f64 / FULL_QUEUE, bar_width, Color::Magenta);
    let mut lines = vec![
        Line::default(),
        Line::from(vec![
            Span::from(path.name.clone()).bold(),
            Span::from("  "),
            Span::from(format!("{dot} {}", path.state.as_str())).fg(colour),
            Span::from(format!("   RTT {} ms", path.srtt_us / 1000)),
        ]),
        Line::from(vec![
            Span::from("  rate   "),
            rate,
            Span::from(format!(" {:4.1} of {:.1} Mbps", megabits(path.rate_bps), megabits(capacity))),
        ]),
        Line::from(vec![
            Span::from("  queue  "),
            queue,
            Span::from(format!(" {:3} kB{queued_ms}", link.queue_bytes / 1000)),
        ]),
    ];
    lines.extend(path.air.is_some().then(|| signal_line(path, bar_width)));
    let urgent =
        if link.outage { Style::new().fg(Color::Red).add_modifier(Modifier::BOLD) } else { Style::new() };
    lines.push(Line::from(vec![Span::from("  link   "), Span::from(doing.to_owned()).style(urgent)]));
    lines
}

/// What the radio tells, and what the sender made of it.
fn signal_line(path: &PathNow, bar_width: usize) -> Line<'static> {
    let (word, colour) = match path.signal {
        None => ("not heeded", Color::Gray),
        Some(SignalState::Clear) => (SignalState::Clear.name(), Color::Green),
        Some(SignalState::Warned) => (SignalState::Warned.name(), Color::Yellow),
        Some(SignalState::Out) => (SignalState::Out.name(), Color::Red),
    };
    let told = path.quality.map_or_else(|| "   –".to_owned(), |quality| format!("{quality:4.2}"));
    Line::from(vec![
        Span::from("  signal "),
        bar(path.quality.unwrap_or(0.0), bar_width, colour),
        Span::from(format!(" {told} ")),
        Span::from(word).fg(colour).bold(),
    ])
}

fn bar(share: f64, width: usize, colour: Color) -> Span<'static> {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    let filled = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8]);
    Span::from(format!("{filled:<width$}")).fg(colour).bg(Color::DarkGray)
}
