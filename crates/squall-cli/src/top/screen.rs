//! Live view of the status.

use std::{
    io::{IsTerminal as _, stdin, stdout},
    net::SocketAddr,
    time::{Duration, Instant},
};

use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout, Rect},
    style::{Color, Style, Stylize as _},
    text::{Line, Span},
    widgets::{Block, Paragraph, Row, Table as Grid},
};
use squall_observe::Status;
use squall_terminal::{error::usage, wrap::wrap};

use super::{INTERVAL, rows};
use crate::{
    fetch,
    table::{self, Table},
    tenants,
};

/// Number of statuses over which the rates of flows are measured.
const KEPT: usize = 4;

/// Content of the screen.
struct View {
    /// Statuses, latest last.
    statuses: Vec<(Instant, Status)>,
    /// Reason why there is no newer status.
    problem: Option<String>,
}

/// Shows the status until a key ends it.
pub(super) fn show(address: SocketAddr, first: Status) -> anyhow::Result<()> {
    if !(stdout().is_terminal() && stdin().is_terminal()) {
        return Err(usage("the live view needs a terminal; --once prints the status as text"));
    }
    let mut view = View { statuses: vec![(Instant::now(), first)], problem: None };
    // Also restores the terminal when the program panics.
    let mut terminal = ratatui::try_init()?;
    let shown = run(&mut terminal, address, &mut view);
    ratatui::restore();
    Ok(shown?)
}

fn run(terminal: &mut DefaultTerminal, address: SocketAddr, view: &mut View) -> std::io::Result<()> {
    loop {
        terminal.draw(|frame| draw(frame, view))?;
        let next = Instant::now() + INTERVAL;
        while let Some(left) = next.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            match wait(left)? {
                Action::Quit => return Ok(()),
                Action::Draw => {
                    terminal.draw(|frame| draw(frame, view))?;
                }
                Action::Nothing => {}
            }
        }
        match fetch::status(address) {
            Ok(status) => {
                view.statuses.push((Instant::now(), status));
                if view.statuses.len() > KEPT {
                    view.statuses.remove(0);
                }
                view.problem = None;
            }
            Err(error) => view.problem = Some(format!("{error:#}")),
        }
    }
}

/// Result of an input event.
enum Action {
    Quit,
    Draw,
    Nothing,
}

fn wait(at_most: Duration) -> std::io::Result<Action> {
    if !event::poll(at_most)? {
        return Ok(Action::Nothing);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => {
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match (key.code, control) {
                (KeyCode::Char('q') | KeyCode::Esc, false) | (KeyCode::Char('c'), true) => Action::Quit,
                _ => Action::Nothing,
            }
        }
        Event::Resize(..) => Action::Draw,
        _ => Action::Nothing,
    })
}

fn draw(frame: &mut Frame<'_>, view: &View) {
    let Some((now_at, now)) = view.statuses.last() else { return };
    let before = view.statuses.first().map(|(at, then)| (then, (*now_at - *at).as_secs_f64()));
    // Inside a border.
    let width = usize::from(frame.area().width.saturating_sub(2));
    let (paths, flows) = (rows::paths(now).fit(width), rows::flows(now, before).fit(width));
    let tenants = tenants::table(&now.tenants).fit(width);
    let height = |table: &Table| table.rows.len() as u16 + 3;
    let foot_lines = foot(view, width + 2);
    let [title, path_area, flow_area, tenant_area, event_area, foot_area] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(height(&paths)),
        Constraint::Length(height(&flows)),
        // Empty for an entry, or an exit without tenants.
        Constraint::Length(if now.tenants.is_empty() { 0 } else { height(&tenants) }),
        Constraint::Min(3),
        Constraint::Length(foot_lines.len() as u16),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(format!("squall top  {}", rows::title(now))).bold(), title);
    draw_table(frame, path_area, " paths ", &paths);
    draw_table(frame, flow_area, " flows ", &flows);
    if !now.tenants.is_empty() {
        draw_table(frame, tenant_area, " tenants ", &tenants);
    }
    draw_events(frame, event_area, now);
    frame.render_widget(Paragraph::new(foot_lines), foot_area);
}

/// Returns an error, or the key that ends the view.
fn foot(view: &View, width: usize) -> Vec<Line<'static>> {
    let Some(problem) = &view.problem else { return vec![Line::from("q: quit").dim()] };
    let lines = wrap("", 0, problem, Some(width));
    lines.lines().map(|line| Line::from(line.to_owned()).fg(Color::Red)).collect()
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, title: &'static str, shown: &Table) {
    let widths = shown.widths();
    let cell = |(column, text): (usize, &str)| {
        let padded = table::pad(text, widths[column], column < shown.left);
        Span::from(padded).style(colour(text))
    };
    let body = shown.rows.iter().map(|row| Row::new(row.iter().map(String::as_str).enumerate().map(cell)));
    let head = shown
        .head
        .iter()
        .copied()
        .enumerate()
        .map(|(column, text)| Span::from(table::pad(text, widths[column], column < shown.left)).dim());
    let grid = Grid::new(body, widths.iter().map(|width| Constraint::Length(*width as u16)))
        .header(Row::new(head))
        .column_spacing(table::SPACING as u16)
        .block(Block::bordered().title(title));
    frame.render_widget(grid, area);
}

/// Returns the colour of a state.
fn colour(text: &str) -> Style {
    match text {
        "active" | "carried" => Style::new().fg(Color::Green),
        "opening" | "suspect" | "waiting" | "metered" => Style::new().fg(Color::Yellow),
        "deactivated" => Style::new().fg(Color::Red),
        _ => Style::new(),
    }
}

/// Draws the latest events that fit, newest last.
fn draw_events(frame: &mut Frame<'_>, area: Rect, status: &Status) {
    let room = usize::from(area.height.saturating_sub(2));
    let width = usize::from(area.width.saturating_sub(2));
    let events = rows::events(status);
    let newest = events.len().saturating_sub(room);
    let lines: Vec<Line<'_>> = events[newest..]
        .iter()
        .flat_map(|event| {
            let words = rows::event(event, status.uptime_s, Some(width));
            let colour = if event.level == "warn" { Style::new().fg(Color::Yellow) } else { Style::new() };
            words.lines().map(|line| Line::styled(line.to_owned(), colour)).collect::<Vec<_>>()
        })
        .collect();
    let lines = lines[lines.len().saturating_sub(room)..].to_vec();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" events ")), area);
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};
    use squall_observe::status::{EventStatus, FlowStatus, PathStatus, SessionStatus};

    use super::*;

    fn status() -> Status {
        let path = PathStatus {
            name: "wwan0".into(),
            state: "suspect".into(),
            metered: true,
            ..PathStatus::default()
        };
        let session = SessionStatus { id: 1, agreed: true, paths: vec![path], ..SessionStatus::default() };
        let flow =
            FlowStatus { name: "cam".into(), end: "in".into(), attached: true, ..FlowStatus::default() };
        let event = EventStatus {
            level: "warn".into(),
            kind: "path".into(),
            words: "wwan0 is down and the reason for it is longer than a narrow terminal is wide".into(),
            at_s: 1.0,
        };
        Status {
            role: "entry".into(),
            address: "host:1".into(),
            sessions: vec![session],
            flows: vec![flow],
            events: vec![event; 300],
            ..Status::default()
        }
    }

    #[test]
    fn it_is_drawn_in_any_size() {
        let view = View { statuses: vec![(Instant::now(), status())], problem: None };
        for (width, height) in [(140, 40), (80, 24), (20, 5), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("is made");
            terminal.draw(|frame| draw(frame, &view)).expect("is drawn");
            if width >= 80 {
                let drawn = terminal.backend().to_string();
                assert!(
                    drawn.contains("wwan0") && drawn.contains("suspect") && drawn.contains("cam"),
                    "{drawn}"
                );
                assert!(drawn.contains("wwan0 is down") && drawn.contains("terminal is wide"), "{drawn}");
            }
        }
    }
}
