//! The live view: a column for each scheduler, drawn from what is known at a moment.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize as _},
    text::{Line, Span},
    widgets::{Block, Gauge, Paragraph, Sparkline, SparklineBar},
};
use squall_lab::result::PathState;

use super::{
    plan::Plan,
    record::{PathNow, Reading},
    script,
    side::View,
};

/// Lines that a path takes.
const PATH_LINES: u16 = 5;

/// Most lines of the drawing of latencies.
const MAX_DRAWING: u16 = 8;

/// What is the same for all columns.
pub(super) struct Now {
    /// Microseconds since the first frame.
    pub(super) at_us: u64,
    /// How late the emulation is.
    pub(super) slip_us: u64,
    /// Whether the demo is about to end early.
    pub(super) quitting: bool,
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
    frame.render_widget(foot_line(now), foot);
}

fn title_line(plan: &Plan) -> Line<'static> {
    let encoder = &plan.clip.encoder;
    Line::from(vec![
        Span::from("squall demo").bold(),
        Span::from(format!(
            "  {}x{} at {:.0} fps, {:.0} Mbps; each frame is due {} ms after its capture",
            encoder.width,
            encoder.height,
            encoder.fps,
            plan.video.bitrate_bps as f64 / 1e6,
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

fn foot_line(now: &Now) -> Line<'static> {
    if now.quitting {
        return Line::from("ending").bold();
    }
    Line::from(format!("q ends it    emulation late by {:.1} ms (p99)", now.slip_us as f64 / 1e3)).dim()
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
    let rows = Layout::vertical([
        Constraint::Length(3),
        Constraint::Max(MAX_DRAWING),
        Constraint::Length(1),
        Constraint::Length(PATH_LINES * paths),
        Constraint::Min(0),
    ]);
    let [frames, drawing, caption, path_area, _] = rows.areas(inside);
    frame.render_widget(Paragraph::new(frame_lines(plan, reading)), frames);
    draw_latencies(frame, drawing, plan, reading);
    let caption_text = format!("worst latency each 0.1 s; top {} ms; × no frame", plan.due_us() * 2 / 1000);
    frame.render_widget(Line::from(caption_text).dim(), caption);
    for (index, (path, config)) in reading.paths.iter().zip(&plan.scenario.paths).enumerate() {
        let top = path_area.y + PATH_LINES * index as u16;
        let rest = Rect { y: top, height: PATH_LINES, ..path_area }.intersection(path_area);
        let doing = script::words(&config.link(plan.direction()).events, now.at_us);
        frame.render_widget(Paragraph::new(path_lines(path, &doing, inside.width)), rest);
    }
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

/// The latest on the right; what is late is red.
fn draw_latencies(frame: &mut Frame<'_>, area: Rect, plan: &Plan, reading: &Reading) {
    let width = usize::from(area.width);
    let recent = &reading.history[reading.history.len().saturating_sub(width)..];
    let bars = recent.iter().map(|latency| {
        let late = latency.is_some_and(|us| us > plan.due_us());
        SparklineBar::from(*latency).style(Style::new().fg(if late { Color::Red } else { Color::Green }))
    });
    let drawing = Sparkline::default()
        .data(bars.collect::<Vec<_>>())
        .max(plan.due_us() * 2)
        .absent_value_symbol("×")
        .absent_value_style(Style::new().fg(Color::Red));
    frame.render_widget(drawing, area);
}

fn path_lines(path: &PathNow, doing: &str, width: u16) -> Vec<Line<'static>> {
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
    let bar_width = usize::from(width.saturating_sub(30)).clamp(5, 40);
    // Both bars of a scale that does not change with the link.
    let rate = bar(megabits(path.rate_bps) / 50.0, bar_width, Color::Cyan);
    let queue = bar(link.queue_bytes as f64 / 250e3, bar_width, Color::Magenta);
    vec![
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
        Line::from(vec![
            Span::from("  script "),
            Span::from(doing.to_owned()).style(if link.outage {
                Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
            } else {
                Style::new()
            }),
        ]),
    ]
}

fn bar(share: f64, width: usize, colour: Color) -> Span<'static> {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    let filled = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8]);
    Span::from(format!("{filled:<width$}")).fg(colour).bg(Color::DarkGray)
}
