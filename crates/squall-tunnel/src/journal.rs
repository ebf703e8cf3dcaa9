//! Recent events, which are also written to the log.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{
    clock::{Clock, lock},
    limiter::Throttle,
    status::{EventStatus, printable},
};

/// Events that are kept.
const KEPT: usize = 200;

/// Rejected clients are reported at most once in this time.
const REJECTION_INTERVAL: Duration = Duration::from_secs(10);

/// The subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Path,
    Session,
    Flow,
    Config,
    Task,
    Tenant,
}

impl Kind {
    fn name(self) -> &'static str {
        ["path", "session", "flow", "config", "task", "tenant"][self as usize]
    }
}

/// The latest events.
#[derive(Debug)]
pub(crate) struct Journal {
    clock: Clock,
    events: Mutex<VecDeque<EventStatus>>,
    task_failures: AtomicU64,
    rejections: Throttle,
}

impl Journal {
    pub(crate) fn new(clock: Clock) -> Self {
        let rejections = Throttle::new(REJECTION_INTERVAL);
        Self { clock, events: Mutex::default(), task_failures: AtomicU64::new(0), rejections }
    }

    /// Records a normal event.
    pub(crate) fn info(&self, kind: Kind, words: impl Into<String>) {
        let words = printable(words.into());
        tracing::info!(kind = kind.name(), "{words}");
        self.keep("info", kind, words);
    }

    /// Records an event that needs attention if it repeats.
    pub(crate) fn warn(&self, kind: Kind, words: impl Into<String>) {
        let words = printable(words.into());
        tracing::warn!(kind = kind.name(), "{words}");
        self.keep("warn", kind, words);
    }

    /// A client without a token was rejected. The first one is reported; others within [`REJECTION_INTERVAL`] are counted.
    pub(crate) fn rejected(&self, words: &str) {
        let Some(unreported) = self.rejections.count() else { return };
        let others = if unreported == 0 { String::new() } else { format!("; {unreported} others before it") };
        self.warn(Kind::Session, format!("{words}{others}"));
    }

    /// A task of this process failed.
    pub(crate) fn task_failed(&self, name: &str, why: &str) {
        self.task_failures.fetch_add(1, Relaxed);
        self.warn(Kind::Task, format!("{name} failed: {why}"));
    }

    /// Tasks that failed since the start of the program.
    pub(crate) fn task_failures(&self) -> u64 {
        self.task_failures.load(Relaxed)
    }

    fn keep(&self, level: &str, kind: Kind, words: String) {
        let mut events = lock(&self.events);
        if events.len() == KEPT {
            events.pop_front();
        }
        let (at_s, level, kind) = (self.clock.now() as f64 / 1e6, level.to_owned(), kind.name().to_owned());
        events.push_back(EventStatus { at_s, level, kind, words });
    }

    /// The latest events, oldest first.
    pub(crate) fn events(&self) -> Vec<EventStatus> {
        lock(&self.events).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_rejections_is_one_line() {
        let mut journal = Journal::new(Clock::start());
        for n in 0..1000 {
            journal.rejected(&format!("number {n}"));
        }
        assert_eq!(journal.events().len(), 1);
        assert_eq!(journal.events()[0].words, "number 0");
        journal.rejections = Throttle::new(Duration::ZERO);
        journal.rejected("the next");
        assert_eq!(journal.events()[1].words, "the next");
    }

    #[test]
    fn the_words_of_a_peer_stay_on_their_line() {
        let journal = Journal::new(Clock::start());
        journal.warn(Kind::Flow, "a\n\u{1b}[2J\u{202e}b");
        assert_eq!(journal.events()[0].words, "a\u{fffd}\u{fffd}[2J\u{fffd}b");
    }
}
