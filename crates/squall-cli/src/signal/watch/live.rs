//! Table on a terminal, updated in place.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use ratatui::{
    DefaultTerminal, Frame, TerminalOptions, Viewport,
    crossterm::{
        cursor::{MoveTo, Show},
        event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
        execute,
        terminal::{Clear, ClearType, disable_raw_mode},
    },
    layout::{Constraint, Rect},
    style::{Color, Modifier, Style, Stylize as _},
    text::{Line, Span},
    widgets::{Cell, Paragraph, Row, Table, Widget as _},
};
use squall_signal::{AlertKind, Marks, SignalState, Time};

use super::{text, watched::Watched};

/// Width of the bar of the index in cells.
const BAR: usize = 20;

/// Age of the last reading from which on a radio is marked.
const OLD: squall_signal::Span = squall_signal::Span::from_secs(2);

/// Maximum number of radios shown.
const MOST: usize = 20;

/// Table below the earlier content of the terminal.
pub(super) struct Live {
    terminal: DefaultTerminal,
}

impl Live {
    /// `true` if there is a terminal to draw on, and one to read keys from.
    pub(super) fn is_possible() -> bool {
        io::stdout().is_terminal() && io::stdin().is_terminal()
    }

    /// Reserves the lines of the table.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(super) fn start(radios: usize) -> io::Result<Self> {
        // One line of headings before the radios, one of help after them.
        let height = radios.min(MOST) as u16 + 2;
        let options = TerminalOptions { viewport: Viewport::Inline(height) };
        Ok(Self { terminal: ratatui::try_init_with_options(options)? })
    }

    /// Inserts a note above the table.
    pub(super) fn say(&mut self, note: &str) -> io::Result<()> {
        let note = format!("note: {note}");
        let width = usize::from(self.terminal.size()?.width).max(1);
        let height = note.chars().count().div_ceil(width) as u16;
        // Cut between letters, so that it takes exactly this number of lines.
        let lines = note.chars().collect::<Vec<_>>();
        let lines: Vec<Line<'_>> =
            lines.chunks(width).map(|part| Line::from(String::from_iter(part))).collect();
        self.terminal.insert_before(height, |buffer| Paragraph::new(lines).render(buffer.area, buffer))
    }

    /// Draws the table; returns `true` if a key requested the end.
    pub(super) fn draw(&mut self, all: &[Watched], now: Time) -> anyhow::Result<bool> {
        self.terminal.draw(|frame| draw(frame, all, now))?;
        let mut quit = false;
        while event::poll(Duration::ZERO)? {
            quit |= is_quit(&event::read()?);
        }
        Ok(quit)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // The table stays, without the line of help. A terminal that is gone needs nothing.
        let foot = foot_of(self.terminal.get_frame().area());
        let _ = execute!(io::stdout(), MoveTo(foot.x, foot.y), Clear(ClearType::FromCursorDown), Show);
        let _ = disable_raw_mode();
    }
}

/// Returns the last line of an area.
fn foot_of(area: Rect) -> Rect {
    Rect { y: area.bottom().saturating_sub(1), height: area.height.min(1), ..area }
}

fn is_quit(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && matches!(
            (key.code, control),
            (KeyCode::Char('q') | KeyCode::Esc, false) | (KeyCode::Char('c'), true)
        )
}

fn draw(frame: &mut Frame<'_>, all: &[Watched], now: Time) {
    let names = all.iter().map(|one| one.name().chars().count()).max().unwrap_or(0);
    let widths = [
        Constraint::Length(names.clamp(5, 24) as u16),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(7),
        Constraint::Length(BAR as u16 + 5),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Min(12),
    ];
    let heads =
        ["radio", "network", "   RSRP", "  SINR", "   RSSI", "quality", "state", "    age", "last alert"];
    let table = Table::new(all.iter().take(MOST).map(|one| row(one, now)), widths)
        .header(Row::new(heads).style(Style::new().add_modifier(Modifier::DIM)));
    let area = frame.area();
    frame.render_widget(table, Rect { height: area.height.saturating_sub(1), ..area });
    frame.render_widget(foot_line(), foot_of(area));
}

fn foot_line() -> Line<'static> {
    let Marks { good, warning, outage } = Marks::default();
    Line::from(format!("q ends it    marks: good {good}, warning {warning}, outage {outage}")).dim()
}

fn row(one: &Watched, now: Time) -> Row<'static> {
    let level = |level: Option<f64>, width: usize| {
        Cell::from(level.map_or_else(|| format!("{:>width$}", "–"), |level| format!("{level:>width$.1}")))
    };
    let reading = one.reading.unwrap_or_default();
    let network = match one.reading {
        None => "–".to_owned(),
        Some(reading) => reading.technology.to_string(),
    };
    Row::new([
        Cell::from(one.name().to_owned()).style(Modifier::BOLD),
        Cell::from(network),
        level(reading.rsrp, 7),
        level(reading.sinr, 6),
        level(reading.rssi, 7),
        quality(one),
        state(one),
        age(one, now),
        last(one, now),
    ])
}

fn quality(one: &Watched) -> Cell<'static> {
    let Some(quality) = one.quality() else { return Cell::from("–") };
    Cell::from(Line::from(vec![bar(quality, colour(one.state())), Span::from(format!(" {quality:.2}"))]))
}

fn state(one: &Watched) -> Cell<'static> {
    let out = one.reading.is_some_and(|reading| reading.disconnected);
    let words = if out { "no net" } else { one.state().name() };
    Cell::from(words).style(Style::new().fg(colour(one.state())).add_modifier(Modifier::BOLD))
}

/// Returns the age of the last reading, in red if it is old.
fn age(one: &Watched, now: Time) -> Cell<'static> {
    let Some(reading) = one.reading else { return Cell::from("      –") };
    let age = now - reading.at;
    let cell = Cell::from(format!("{:>5.1} s", age.as_secs_f64()));
    if age > OLD { cell.style(Style::new().fg(Color::Red)) } else { cell }
}

/// Returns the last alert, or the reason why the radio has no readings.
fn last(one: &Watched, now: Time) -> Cell<'static> {
    if let Some(error) = one.error() {
        return Cell::from(error.problem()).style(Style::new().fg(Color::Red));
    }
    let Some(raised) = one.alert else { return Cell::from("none").style(Modifier::DIM) };
    let ago = (now - raised.at).duration().as_secs();
    let colour = colour(raised.alert.kind.state());
    let kept = raised.alert.kind == AlertKind::Recovery;
    let style = if kept { Style::new() } else { Style::new().fg(colour) };
    Cell::from(format!("{}, {ago} s ago", text::alert(&raised))).style(style)
}

fn colour(state: SignalState) -> Color {
    match state {
        SignalState::Clear => Color::Green,
        SignalState::Warned => Color::Yellow,
        SignalState::Out => Color::Red,
    }
}

fn bar(share: f64, colour: Color) -> Span<'static> {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let filled = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8]);
    Span::from(format!("{filled:<BAR$}")).fg(colour).bg(Color::DarkGray)
}
