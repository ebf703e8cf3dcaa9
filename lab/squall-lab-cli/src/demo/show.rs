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
use squall_lab::result::PathState;
use squall_terminal::note;
use tokio::sync::watch;

use super::{plan::Plan, screen, side::View};

/// Time between two drawings.
const FRAME: Duration = Duration::from_millis(100);

/// Time between two lines.
const LINE: Duration = Duration::from_secs(2);

/// A thread of its own, so that drawing never delays a session.
pub(super) struct Show {
    thread: JoinHandle<()>,
    over: Arc<AtomicBool>,
}

impl Show {
    /// Begins; `live` asks for the live view, which needs a terminal. The view says through `stop` that its
    /// reader has seen enough.
    ///
    /// # Errors
    /// What the system says about the terminal or the thread.
    pub(super) fn start(
        plan: Arc<Plan>,
        views: Vec<View>,
        stop: watch::Sender<bool>,
        live: bool,
    ) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let thread = std::thread::Builder::new().name("squall-show".to_owned());
        let thread = if live && io::stdout().is_terminal() && io::stdin().is_terminal() {
            // Restores the terminal when the program panics, too.
            let terminal = ratatui::try_init()?;
            thread.spawn(move || {
                live_view(terminal, &plan, &views, &stop, &ended);
                ratatui::restore();
            })
        } else {
            thread.spawn(move || lines(&plan, &views, &ended))
        };
        Ok(Self { thread: thread?, over })
    }

    /// Ends, and gives the terminal back.
    pub(super) fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        if self.thread.join().is_err() {
            ratatui::restore();
        }
    }
}

fn live_view(
    mut terminal: DefaultTerminal,
    plan: &Plan,
    views: &[View],
    stop: &watch::Sender<bool>,
    over: &AtomicBool,
) {
    let mut quitting = false;
    let (mut slip_us, mut slip_at) = (0, Instant::now());
    while !over.load(Ordering::Relaxed) {
        let readings: Vec<_> = views.iter().map(View::reading).collect();
        // Seldom, as the relays have to be held for it.
        if slip_at.elapsed() > Duration::from_secs(1) {
            (slip_us, slip_at) = (slip(views), Instant::now());
        }
        let now = screen::Now { at_us: run_time(views), slip_us, quitting };
        // A terminal that is gone ends the demo.
        if terminal.draw(|frame| screen::draw(frame, plan, &now, views, &readings)).is_err()
            || asked_to_quit()
        {
            quitting = true;
            stop.send_replace(true);
        }
    }
}

/// Waits for the time of a drawing, and tells whether a key asked to quit.
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

fn lines(plan: &Plan, views: &[View], over: &AtomicBool) {
    let names: Vec<_> = plan.schedulers.iter().map(|(name, _)| name.as_str()).collect();
    note!(
        "playing {} s through {} emulated links over real UDP sockets: {}",
        plan.duration_us / 1_000_000,
        plan.scenario.paths.len(),
        names.join(" and ")
    );
    let mut next = Instant::now() + LINE;
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(FRAME);
        if Instant::now() >= next && !over.load(Ordering::Relaxed) {
            next += LINE;
            note!("{}", line(views));
        }
    }
}

fn line(views: &[View]) -> String {
    let mut text = format!("{:5.1} s", run_time(views) as f64 / 1e6);
    for (index, view) in views.iter().enumerate() {
        let reading = view.reading();
        let latency =
            reading.frames.latency_us.map_or_else(|| "none".to_owned(), |us| format!("{} ms", us / 1000));
        let mut paths: Vec<String> = Vec::new();
        if index == 0 {
            let out = reading.paths.iter().filter(|path| path.link.outage);
            paths.extend(out.map(|path| format!("{} is out", path.name)));
        }
        let suspect = reading.paths.iter().filter(|path| path.state == PathState::Suspect);
        paths.extend(suspect.map(|path| format!("{} suspected", path.name)));
        let warned = reading.paths.iter().filter_map(|path| Some((&path.name, path.signal?)));
        let warned = warned.filter(|(_, signal)| *signal != SignalState::Clear);
        paths.extend(warned.map(|(name, signal)| format!("{name}'s radio: {}", signal.name())));
        text.push_str(&format!("  {}: {} fps, {latency}", view.scheduler, reading.frames.fps));
        if !paths.is_empty() {
            text.push_str(&format!(" ({})", paths.join(", ")));
        }
    }
    text
}

/// Microseconds since the first frame, the same for all sides but for a millisecond.
fn run_time(views: &[View]) -> u64 {
    views.first().map_or(0, View::run_time_us)
}

fn slip(views: &[View]) -> u64 {
    views.iter().map(View::slip_us).max().unwrap_or(0)
}
