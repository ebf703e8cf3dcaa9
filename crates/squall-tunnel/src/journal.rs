//! What happened lately, also in the log.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::{clock::Clock, status::EventStatus};

/// Events that are kept.
const KEPT: usize = 200;

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
}

impl Journal {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, events: Mutex::default(), task_failures: AtomicU64::new(0) }
    }

    /// Something that belongs to the course of things.
    pub(crate) fn info(&self, kind: Kind, words: impl Into<String>) {
        let words = words.into();
        tracing::info!(kind = kind.name(), "{words}");
        self.keep("info", kind, words);
    }

    /// Something that somebody should look into if it goes on.
    pub(crate) fn warn(&self, kind: Kind, words: impl Into<String>) {
        let words = words.into();
        tracing::warn!(kind = kind.name(), "{words}");
        self.keep("warn", kind, words);
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
