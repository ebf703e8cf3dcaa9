//! Shows a running demo: a live view on a terminal, lines elsewhere.

use std::{
    io::{self, IsTerminal as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
};
use squall::signal::SignalState;
use squall_lab::{
    Scenario,
    result::PathState,
    runner::{Status, View},
};
use squall_terminal::note;
use tokio::sync::watch;

use super::{scenario::film, screen};

/// Interval between drawings.
const FRAME: Duration = Duration::from_millis(100);

/// Interval between lines.
const LINE: Duration = Duration::from_secs(2);

/// Display of a running demo, on a thread of its own, so that drawing never delays a session.
pub(super) struct Show {
    thread: JoinHandle<()>,
    over: Arc<AtomicBool>,
}

impl Show {
    /// Starts the display. `live` requests the live view, which needs a terminal. `stop` signals
    /// that the user has quit.
    ///
    /// # Errors
    /// If the terminal or the thread cannot be set up.
    pub(super) fn start(
        scenario: &Arc<Scenario>,
        views: Vec<View>,
        stop: watch::Sender<bool>,
        live: bool,
    ) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let (scenario, ended) = (scenario.clone(), over.clone());
        let thread = std::thread::Builder::new().name("squall-show".to_owned());
        let thread = if live && io::stdout().is_terminal() && io::stdin().is_terminal() {
            // Also restores the terminal when the program panics.
            let terminal = ratatui::try_init()?;
            thread.spawn(move || {
                live_view(terminal, &scenario, &views, &stop, &ended);
                ratatui::restore();
            })
        } else {
            thread.spawn(move || lines(&scenario, &views, &ended))
        };
        Ok(Self { thread: thread?, over })
    }

    /// Ends the display and restores the terminal.
    pub(super) fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        if self.thread.join().is_err() {
            ratatui::restore();
        }
    }
}

fn live_view(
    mut terminal: DefaultTerminal,
    scenario: &Scenario,
    views: &[View],
    stop: &watch::Sender<bool>,
    over: &AtomicBool,
) {
    let mut quitting = false;
    while !over.load(Ordering::Relaxed) {
        let runs: Vec<Status> = views.iter().map(status).collect();
        let now = screen::Now { at_us: run_time(views), quitting };
        // If the terminal is gone, the demo ends.
        if terminal.draw(|frame| screen::draw(frame, scenario, &now, views, &runs)).is_err()
            || asked_to_quit()
        {
            quitting = true;
            stop.send_replace(true);
        }
    }
}

/// Waits for the time of a drawing. Returns `true` if a key requested to quit.
fn asked_to_quit() -> bool {
    let until = Instant::now() + FRAME;
    let mut quit = false;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match event::poll(left) {
            Ok(true) => quit |= event::read().is_ok_and(|event| is_quit(&event)),
            Ok(false) => return quit,
            Err(_) => return true,
        }
    }
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

fn lines(scenario: &Scenario, views: &[View], over: &AtomicBool) {
    let names: Vec<_> = views.iter().map(|view| view.scheduler.as_str()).collect();
    note!(
        "playing {} s through {} emulated links over real UDP sockets: {}",
        scenario.duration_us / 1_000_000,
        scenario.paths.len(),
        names.join(" and ")
    );
    let mut next = Instant::now() + LINE;
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(FRAME);
        if Instant::now() >= next && !over.load(Ordering::Relaxed) {
            next += LINE;
            note!("{}", line(scenario, views));
        }
    }
}

fn line(scenario: &Scenario, views: &[View]) -> String {
    let mut text = format!("{:5.1} s", run_time(views) as f64 / 1e6);
    for (index, view) in views.iter().enumerate() {
        let status = status(view);
        let frames = screen::Frames::of(&status, film(scenario).deadline.micros());
        let latency = frames.latest_us.map_or_else(|| "none".to_owned(), |us| format!("{} ms", us / 1000));
        let mut paths: Vec<String> = Vec::new();
        for (path, config) in status.paths.iter().zip(&scenario.paths) {
            let (name, signal) = (&config.name, screen::signal(path));
            let news = [
                (index == 0 && screen::is_out(path), format!("{name} is out")),
                (path.state == PathState::Suspect, format!("{name} suspected")),
                (
                    view.uses_radios && signal != SignalState::Clear,
                    format!("{name}'s radio: {}", signal.name()),
                ),
            ];
            paths.extend(news.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words));
        }
        text.push_str(&format!("  {}: {} fps, {latency}", view.scheduler, frames.fps));
        if !paths.is_empty() {
            text.push_str(&format!(" ({})", paths.join(", ")));
        }
    }
    text
}

/// Microseconds since the first frame, the same for all runs to within a millisecond.
fn run_time(views: &[View]) -> u64 {
    // `elapsed` is 0 for times in the future.
    views.first().map_or(0, |view| view.begin.elapsed().as_micros() as u64)
}

fn status(view: &View) -> Status {
    view.status.borrow().clone()
}
