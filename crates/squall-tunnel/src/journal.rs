//! What happened lately, also in the log.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::{
    clock::Clock,
    status::{EventStatus, printable},
};

/// Events that are kept.
const KEPT: usize = 200;

/// What strangers do is reported once in this time.
const RARELY: Duration = Duration::from_secs(10);

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Path,
    Session,
    Flow,
    Config,
    Task,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Session => "session",
            Self::Flow => "flow",
            Self::Config => "config",
            Self::Task => "task",
        }
    }
}

/// The last events.
#[derive(Debug)]
pub(crate) struct Journal {
    clock: Clock,
    events: Mutex<VecDeque<EventStatus>>,
    task_failures: AtomicU64,
    strangers: Mutex<Strangers>,
}

/// What was reported of strangers.
#[derive(Debug, Default)]
struct Strangers {
    last: Option<Instant>,
    silent: u64,
}

impl Journal {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            events: Mutex::default(),
            task_failures: AtomicU64::new(0),
            strangers: Mutex::default(),
        }
    }

    /// Something that belongs to the course of things.
    pub(crate) fn info(&self, kind: Kind, words: impl Into<String>) {
        let words = printable(words.into());
        tracing::info!(kind = kind.name(), "{words}");
        self.keep("info", kind, words);
    }

    /// Something that somebody should look into if it goes on.
    pub(crate) fn warn(&self, kind: Kind, words: impl Into<String>) {
        let words = printable(words.into());
        tracing::warn!(kind = kind.name(), "{words}");
        self.keep("warn", kind, words);
    }

    /// Someone without a token did something: the first is reported, others within [`RARELY`] are counted.
    pub(crate) fn stranger(&self, words: &str) {
        let silent = {
            let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
            if strangers.last.is_some_and(|last| last.elapsed() < RARELY) {
                strangers.silent += 1;
                return;
            }
            strangers.last = Some(Instant::now());
            std::mem::take(&mut strangers.silent)
        };
        let others = if silent == 0 { String::new() } else { format!("; {silent} others before it") };
        self.warn(Kind::Session, format!("{words}{others}"));
    }

    /// A task of this process failed.
    pub(crate) fn task_failed(&self, name: &str, why: &str) {
        self.task_failures.fetch_add(1, Relaxed);
        self.warn(Kind::Task, format!("{name} failed: {why}"));
    }

    /// Tasks that failed since the program began.
    pub(crate) fn task_failures(&self) -> u64 {
        self.task_failures.load(Relaxed)
    }

    fn keep(&self, level: &str, kind: Kind, words: String) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() == KEPT {
            events.pop_front();
        }
        events.push_back(EventStatus {
            at_s: self.clock.now() as f64 / 1e6,
            level: level.to_owned(),
            kind: kind.name().to_owned(),
            words,
        });
    }

    /// All that are kept, oldest first.
    pub(crate) fn events(&self) -> Vec<EventStatus> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_strangers_is_one_line() {
        let journal = Journal::new(Clock::start());
        for n in 0..1000 {
            journal.stranger(&format!("number {n}"));
        }
        assert_eq!(journal.events().len(), 1);
        assert_eq!(journal.events()[0].words, "number 0");
        journal.strangers.lock().expect("no panic").last = None;
        journal.stranger("the next");
        assert_eq!(journal.events()[1].words, "the next; 999 others before it");
    }

    #[test]
    fn the_words_of_a_peer_stay_on_their_line() {
        let journal = Journal::new(Clock::start());
        journal.warn(Kind::Flow, "a\n\u{1b}[2J\u{202e}b");
        assert_eq!(journal.events()[0].words, "a\u{fffd}\u{fffd}[2J\u{fffd}b");
    }
}
