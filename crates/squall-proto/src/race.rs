//! The handshake, raced over all interfaces and all addresses of the server: the first may be the
//! dead one.
//!
//! The algorithm is happy eyeballs (RFC 8305 §5): the next pair is tried too when the one before
//! has not answered within [`Config::race_delay`](crate::Config::race_delay). The first to finish
//! wins, the others are dropped. Pairs are tried in an order in which neither a dead interface nor
//! a dead address (an unreachable family, the first of several records) appears twice in a row.

use std::{collections::VecDeque, net::SocketAddr, time::Instant};

use crate::{ClientTls, CloseReason, Config, NetPath};

/// Largest number of pairs of interface and address that are tried.
const MAX_TRIES: usize = 32;

/// The server to connect to, and the paths to it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Authentication of the server.
    pub tls: ClientTls,
    /// Name of the server, for its certificate.
    pub server_name: String,
    /// The interfaces, the preferred first, and for each the paths to the addresses of the server
    /// that it can reach, the preferred first. All are raced. Each interface keeps one path: to the
    /// address that won the race if it reaches it, else to its first.
    pub interfaces: Vec<Vec<NetPath>>,
    /// Settings of the session; `None` for those of the endpoint.
    pub config: Option<Config>,
}

impl Target {
    /// Returns every path, in the order of trying: each round contains every interface once, each
    /// with another address.
    fn tries(&self) -> VecDeque<NetPath> {
        let rounds = self.interfaces.iter().map(Vec::len).max().unwrap_or(0);
        let turn = |round: usize| {
            let turns = self.interfaces.iter().enumerate();
            turns.filter(move |(_, paths)| round < paths.len()).map(move |(n, paths)| {
                // Shifted by one from interface to interface.
                paths[(round + n) % paths.len()]
            })
        };
        (0..rounds).flat_map(turn).take(MAX_TRIES).collect()
    }
}

/// A connection attempt in progress.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) target: Target,
    pub(crate) config: Config,
    /// Paths not tried yet.
    waiting: VecDeque<NetPath>,
    next_at: Instant,
    deadline: Instant,
    /// Sessions that race, by their key, and the path of each.
    pub(crate) racers: Vec<(u64, NetPath)>,
    /// Failure of the first racer that failed.
    failure: Option<CloseReason>,
    /// Addresses whose answer was a refusal, or could not be trusted.
    refused: Vec<SocketAddr>,
}

impl Attempt {
    pub(crate) fn new(target: Target, config: Config, now: Instant) -> Self {
        let (waiting, deadline) = (target.tries(), now + config.connect_timeout);
        let (racers, refused) = (Vec::new(), Vec::new());
        Self { target, config, waiting, next_at: now, deadline, racers, failure: None, refused }
    }

    /// Returns the path to try now, if one is due. A racer that failed is replaced at once.
    pub(crate) fn next_path(&mut self, now: Instant) -> Option<NetPath> {
        if now < self.next_at && !self.racers.is_empty() {
            return None;
        }
        self.next_at = now + self.config.race_delay;
        self.waiting.pop_front()
    }

    /// Returns when the next action is due.
    pub(crate) fn timeout(&self) -> Instant {
        if self.waiting.is_empty() { self.deadline } else { self.deadline.min(self.next_at) }
    }

    /// Handles a racer that failed. If the server answered, another interface leads to the same
    /// answer.
    pub(crate) fn on_failure(&mut self, key: u64, remote: SocketAddr, reason: CloseReason) {
        self.racers.retain(|(racer, _)| *racer != key);
        if !matches!(reason, CloseReason::TimedOut) {
            self.refused.push(remote);
            self.waiting.retain(|path| path.remote != remote);
        }
        // The error of a server that answered is more specific than a timeout.
        if self.failure.as_ref().is_none_or(|first| *first == CloseReason::TimedOut) {
            self.failure = Some(reason);
        }
    }

    /// Returns the reason of failure, if the attempt has failed: at its deadline, or without a
    /// racer left.
    pub(crate) fn failed(&self, now: Instant) -> Option<CloseReason> {
        if now >= self.deadline {
            return Some(self.failure.clone().unwrap_or(CloseReason::TimedOut));
        }
        let hopeless = |net: &NetPath| self.refused.contains(&net.remote);
        let over = self.waiting.is_empty() && self.racers.iter().all(|(_, net)| hopeless(net));
        self.failure.clone().filter(|_| over)
    }

    /// Returns the path that each interface keeps, the winner's included, so that all are opened
    /// again when they are down.
    pub(crate) fn kept_paths(&self, winner: NetPath) -> impl Iterator<Item = NetPath> {
        self.target.interfaces.iter().filter_map(move |paths| {
            let same = paths.iter().find(|p| **p == winner);
            same.or_else(|| paths.iter().find(|p| p.remote == winner.remote)).or(paths.first()).copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Interface, TransportError};

    fn net(local: u8, remote: u8) -> NetPath {
        NetPath { local: Interface(local.into()), remote: ([192, 0, 2, remote], 1).into() }
    }

    fn attempt(interfaces: Vec<Vec<NetPath>>) -> (Attempt, Instant) {
        let tls = ClientTls::insecure_trust_anyone().expect("is valid");
        let target = Target { tls, server_name: "a.test".into(), interfaces, config: None };
        let now = Instant::now();
        (Attempt::new(target, Config::default().race_delay(Duration::ZERO), now), now)
    }

    #[test]
    fn neither_interface_nor_address_comes_twice_in_a_row() {
        let (attempt, _) = attempt(vec![vec![net(1, 1), net(1, 2)], vec![net(2, 1), net(2, 2)]]);
        assert_eq!(attempt.waiting, [net(1, 1), net(2, 2), net(1, 2), net(2, 1)]);
        let (single, _) = self::attempt(vec![vec![net(1, 1), net(1, 2), net(1, 3)], vec![net(2, 4)]]);
        assert_eq!(single.waiting, [net(1, 1), net(2, 4), net(1, 2), net(1, 3)]);
        let many = (0..8).map(|i| (0..9).map(|r| net(i, r)).collect()).collect();
        assert_eq!(self::attempt(many).0.waiting.len(), MAX_TRIES);
    }

    #[test]
    fn each_interface_keeps_the_address_that_won_if_it_reaches_it() {
        let (attempt, _) =
            attempt(vec![vec![net(1, 1), net(1, 2)], vec![net(2, 1), net(2, 2)], vec![net(3, 1)]]);
        let kept: Vec<NetPath> = attempt.kept_paths(net(1, 2)).collect();
        assert_eq!(kept, [net(1, 2), net(2, 2), net(3, 1)]);
    }

    #[test]
    fn an_answer_ends_the_tries_of_its_address_and_no_others() {
        let (mut attempt, now) = attempt(vec![vec![net(1, 1), net(1, 2)], vec![net(2, 1)]]);
        let next = attempt.next_path(now).expect("is tried");
        attempt.racers.push((7, next));
        let refused: CloseReason = TransportError::plain("unknown certificate").into();
        attempt.on_failure(7, net(1, 1).remote, refused.clone());
        assert_eq!(attempt.waiting, [net(1, 2)], "the other interface leads to the same server");
        assert_eq!(attempt.failed(now), None);
        let next = attempt.next_path(now).expect("is tried");
        attempt.racers.push((8, next));
        attempt.on_failure(8, net(1, 2).remote, CloseReason::TimedOut);
        assert_eq!(attempt.failed(now), Some(refused));
    }
}
