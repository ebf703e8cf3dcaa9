//! Recent events, which are also written to the log.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{
    clock::{Clock, lock},
    status::{EventStatus, printable},
    throttle::{LogAllowance, Throttle},
};

/// Number of events that are kept.
const KEPT: usize = 200;

/// Lines that a peer can cause at once with all its sessions: two for each of 64 flows. Afterwards
/// one per second.
const LINES: u64 = 128;

/// Minimum interval between two reports of rejected clients.
const REJECTION_INTERVAL: Duration = Duration::from_secs(10);

/// Subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A path of a session.
    Path,
    /// A session.
    Session,
    /// A flow.
    Flow,
    /// The configuration.
    Config,
    /// A task of the process.
    Task,
    /// A tenant.
    Tenant,
    /// The path that carries most data.
    Main,
}

impl Kind {
    fn name(self) -> &'static str {
        ["path", "session", "flow", "config", "task", "tenant", "main"][self as usize]
    }
}

/// Latest events.
#[derive(Debug)]
pub struct Journal {
    clock: Clock,
    /// Events with the peer that caused them, if one did.
    events: Mutex<VecDeque<(Option<String>, EventStatus)>>,
    /// Remaining lines of peers, by their name in the configuration.
    peers: Mutex<HashMap<String, LogAllowance>>,
    task_failures: AtomicU64,
    rejections: Throttle,
}

/// Journal for events that a peer causes.
#[derive(Clone, Debug)]
pub struct PeerJournal {
    journal: Arc<Journal>,
    /// Name of the peer; empty for all entries without one.
    peer: String,
}

impl Journal {
    /// Creates an empty journal. Its events have the times of this clock.
    pub fn new(clock: Clock) -> Self {
        let rejections = Throttle::new(REJECTION_INTERVAL);
        Self {
            clock,
            events: Mutex::default(),
            peers: Mutex::default(),
            task_failures: AtomicU64::new(0),
            rejections,
        }
    }

    /// Returns the journal for events that a peer causes. `peer` is its name in the configuration;
    /// empty for entries without one.
    pub fn of_peer(self: &Arc<Self>, peer: &str) -> PeerJournal {
        PeerJournal { journal: self.clone(), peer: peer.to_owned() }
    }

    /// Records a normal event.
    pub fn info(&self, kind: Kind, words: impl Into<String>) {
        self.write(Level::Info, kind, words.into(), None);
    }

    /// Records an event that needs attention if it repeats.
    pub fn warn(&self, kind: Kind, words: impl Into<String>) {
        self.write(Level::Warning, kind, words.into(), None);
    }

    fn write(&self, level: Level, kind: Kind, words: String, peer: Option<&str>) {
        let words = printable(words);
        match level {
            // Log filters use the name of the tunnel crate.
            Level::Info => tracing::info!(target: "squall_tunnel", kind = kind.name(), "{words}"),
            Level::Warning => tracing::warn!(target: "squall_tunnel", kind = kind.name(), "{words}"),
        }
        self.keep(level, kind, words, peer);
    }

    /// Records the rejection of a client without a token. The first one is reported; others within
    /// ten seconds are counted.
    pub fn rejected(&self, words: &str) {
        let Some(unreported) = self.rejections.count() else { return };
        let others = if unreported == 0 { String::new() } else { format!("; {unreported} others before it") };
        self.warn(Kind::Session, format!("{words}{others}"));
    }

    /// Records the failure of a task of this process.
    pub fn task_failed(&self, name: &str, why: &str) {
        self.task_failures.fetch_add(1, Relaxed);
        self.warn(Kind::Task, format!("{name} failed: {why}"));
    }

    /// Returns the number of failed tasks since the start of the program.
    pub fn task_failures(&self) -> u64 {
        self.task_failures.load(Relaxed)
    }

    fn keep(&self, level: Level, kind: Kind, words: String, peer: Option<&str>) {
        let level = if level == Level::Info { "info" } else { "warn" };
        let mut events = lock(&self.events);
        if events.len() == KEPT {
            let loudest = loudest(&events);
            let oldest = events.iter().position(|(peer, _)| *peer == loudest);
            oldest.map(|oldest| events.remove(oldest));
        }
        let (at_s, level, kind) =
            (self.clock.now().since_epoch().as_secs_f64(), level.to_owned(), kind.name().to_owned());
        events.push_back((peer.map(str::to_owned), EventStatus { at_s, level, kind, words }));
    }

    /// Returns the latest events, oldest first.
    pub fn events(&self) -> Vec<EventStatus> {
        lock(&self.events).iter().map(|(_, event)| event.clone()).collect()
    }
}

impl PeerJournal {
    /// As [`Journal::info`].
    pub fn info(&self, kind: Kind, words: impl Into<String>) {
        self.write(Level::Info, kind, words.into());
    }

    /// As [`Journal::warn`].
    pub fn warn(&self, kind: Kind, words: impl Into<String>) {
        self.write(Level::Warning, kind, words.into());
    }

    /// Records an event, unless the peer has used up its lines.
    fn write(&self, level: Level, kind: Kind, mut words: String) {
        let now = self.journal.clock.now();
        let mut peers = lock(&self.journal.peers);
        let allowance = peers.entry(self.peer.clone()).or_insert_with(|| LogAllowance::new(LINES));
        let Some(left_out) = allowance.take(now) else { return };
        drop(peers);
        if left_out > 0 {
            words.push_str(&format!("; {left_out} lines before it were left out"));
        }
        self.journal.write(level, kind, words, Some(&self.peer));
    }
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Info,
    Warning,
}

/// Returns the peer that caused most of these events; `None` for the program itself.
fn loudest(events: &VecDeque<(Option<String>, EventStatus)>) -> Option<String> {
    let mut counts: HashMap<&Option<String>, usize> = HashMap::new();
    events.iter().for_each(|(peer, _)| *counts.entry(peer).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).and_then(|(peer, _)| peer.clone())
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
    fn what_a_peer_brings_about_is_bounded_and_flushes_only_its_own() {
        let journal = Arc::new(Journal::new(Clock::start()));
        journal.info(Kind::Config, "ours");
        (0..20).for_each(|n| journal.of_peer("quiet").info(Kind::Session, format!("quiet {n}")));
        let count =
            |word: &str| journal.events().iter().filter(|event| event.words.starts_with(word)).count();
        // Many sessions with a journal each; there would be room for more lines than the peer may
        // have.
        (0..10_000).for_each(|n| journal.of_peer("loud").warn(Kind::Flow, format!("loud {n}")));
        assert!((LINES as usize..LINES as usize + 10).contains(&count("loud")), "{}", count("loud"));
        (0..10_000).for_each(|n| journal.of_peer("").warn(Kind::Flow, format!("unnamed {n}")));
        assert_eq!((count("ours"), count("quiet"), journal.events().len()), (1, 20, KEPT));
        assert!(lock(&journal.peers).len() <= 3);
    }

    #[test]
    fn the_words_of_a_peer_stay_on_their_line() {
        let journal = Journal::new(Clock::start());
        journal.warn(Kind::Flow, "a\n\u{1b}[2J\u{202e}b");
        assert_eq!(journal.events()[0].words, "a\u{fffd}\u{fffd}[2J\u{fffd}b");
    }
}
