//! The handshake, raced over all interfaces: the first path may be the dead one.
//!
//! The way of happy eyeballs (RFC 8305 §5): the next interface is tried too when the one before has not
//! answered within [`Config::race_delay`](crate::Config::race_delay). The first to finish wins, the
//! others are dropped.

use std::{collections::VecDeque, time::Instant};

use crate::{ClientTls, CloseReason, NetPath};

/// Whom to connect to, and over what.
#[derive(Clone, Debug)]
pub struct Target {
    /// How the server is known.
    pub tls: ClientTls,
    /// The server's name, for its certificate.
    pub server_name: String,
    /// One for each interface, the preferred first. The paths that do not win the race are opened when
    /// the session is up.
    pub paths: Vec<NetPath>,
}

/// A connection attempt in progress.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) target: Target,
    /// Paths not tried yet.
    waiting: VecDeque<NetPath>,
    next_at: Instant,
    deadline: Instant,
    /// Sessions that race, by their key, and the path each runs over.
    pub(crate) racers: Vec<(u64, NetPath)>,
    /// Why the first of the failed ones failed.
    pub(crate) failure: Option<CloseReason>,
}

impl Attempt {
    pub(crate) fn new(target: Target, now: Instant, deadline: Instant) -> Self {
        let waiting = target.paths.iter().copied().collect();
        Self { target, waiting, next_at: now, deadline, racers: Vec::new(), failure: None }
    }

    /// The path to try now, if it is time. A racer that failed makes way at once.
    pub(crate) fn next_path(&mut self, now: Instant, delay: std::time::Duration) -> Option<NetPath> {
        if now < self.next_at && !self.racers.is_empty() {
            return None;
        }
        self.next_at = now + delay;
        self.waiting.pop_front()
    }

    /// When something is to be done next.
    pub(crate) fn timeout(&self) -> Instant {
        if self.waiting.is_empty() { self.deadline } else { self.deadline.min(self.next_at) }
    }

    /// Why the attempt has failed, if it has.
    pub(crate) fn verdict(&self, now: Instant) -> Option<CloseReason> {
        if now >= self.deadline {
            return Some(self.failure.clone().unwrap_or(CloseReason::TimedOut));
        }
        match &self.failure {
            // The server answered and would not, or could not be trusted: another interface leads to
            // the same server.
            Some(reason) if !matches!(reason, CloseReason::TimedOut) => Some(reason.clone()),
            Some(reason) if self.racers.is_empty() && self.waiting.is_empty() => Some(reason.clone()),
            _ => None,
        }
    }

    /// Paths other than the winner's.
    pub(crate) fn other_paths(&self, winner: NetPath) -> impl Iterator<Item = NetPath> {
        self.target.paths.iter().copied().filter(move |p| *p != winner)
    }
}
