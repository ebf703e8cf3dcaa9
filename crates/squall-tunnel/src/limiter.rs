//! Bounds on clients without a token, for every server that Squall's programs run.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use squall_units::Micros;
use tokio::sync::Notify;

use crate::clock::lock;

/// Wrong tokens of a host within [`WINDOW`] before it has to wait.
const TRIES: u32 = 10;

/// How long a wrong token counts, in microseconds.
const WINDOW: Micros = 60_000_000;

/// Hosts with a count; beyond that, the host whose window is the oldest is dropped.
const MAX_HOSTS: usize = 1024;

/// Sessions whose peer has not presented a token yet. Their number is bounded, in total and per host: a network as in
/// [`squall_proto::host_network`].
#[derive(Debug)]
pub struct UnauthenticatedSessions<T> {
    max: usize,
    max_of_host: usize,
    /// Number of the latest session, and all sessions, oldest first.
    entries: Mutex<(u64, Vec<Entry<T>>)>,
}

#[derive(Debug)]
struct Entry<T> {
    number: u64,
    host: IpAddr,
    session: T,
}

impl<T> UnauthenticatedSessions<T> {
    /// At most `max` sessions, and `max_of_host` of one host.
    pub fn new(max: usize, max_of_host: usize) -> Self {
        Self { max, max_of_host, entries: Mutex::new((0, Vec::new())) }
    }

    /// Adds a session. Returns its number and the session that it displaces: the oldest of its host if the host has its
    /// share, otherwise the oldest of all, which had the most time to present its token.
    pub fn enter(&self, address: IpAddr, session: T) -> (u64, Option<T>) {
        let host = squall_proto::host_network(address);
        let (last, all) = &mut *lock(&self.entries);
        let of_host = |entry: &Entry<T>| entry.host == host;
        let displaced = if all.iter().filter(|entry| of_host(entry)).count() >= self.max_of_host {
            all.iter().position(of_host)
        } else {
            (all.len() >= self.max).then_some(0)
        };
        let displaced = displaced.map(|index| all.remove(index).session);
        *last += 1;
        all.push(Entry { number: *last, host, session });
        (*last, displaced)
    }

    /// A session has presented its token, or is over.
    pub fn leave(&self, number: u64) {
        lock(&self.entries).1.retain(|entry| entry.number != number);
    }
}

/// The places of connections to a server that anybody may use: the newest one takes that of the oldest.
#[derive(Debug)]
pub(crate) struct Places(UnauthenticatedSessions<Arc<Notify>>);

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Self(UnauthenticatedSessions::new(max, max))
    }

    /// Takes a place until the result is dropped. `displaced` is notified if a newer connection takes it.
    pub(crate) fn enter(&self, displaced: &Arc<Notify>) -> Place<'_> {
        let (number, oldest) = self.0.enter(Ipv4Addr::LOCALHOST.into(), displaced.clone());
        if let Some(oldest) = oldest {
            oldest.notify_one();
        }
        Place { of: self, number }
    }
}

/// One of [`Places`].
#[derive(Debug)]
pub(crate) struct Place<'a> {
    of: &'a Places,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.of.0.leave(self.number);
    }
}

/// Bounds the number of reports about clients without a token.
#[derive(Debug)]
pub struct Throttle {
    interval: Duration,
    /// When something was reported last, and occurrences since.
    state: Mutex<(Option<Instant>, u64)>,
}

impl Throttle {
    /// At most one report per interval.
    pub fn new(interval: Duration) -> Self {
        Self { interval, state: Mutex::default() }
    }

    /// Counts an occurrence. If it is to be reported, returns how many were not before it.
    pub fn count(&self) -> Option<u64> {
        let (last, unreported) = &mut *lock(&self.state);
        if last.is_some_and(|last| last.elapsed() < self.interval) {
            *unreported += 1;
            return None;
        }
        *last = Some(Instant::now());
        Some(std::mem::take(unreported))
    }
}

/// Bounds how many lines a peer with the token can have logged: a number at once, then one per second.
#[derive(Debug)]
pub struct LogAllowance {
    most: u64,
    left: u64,
    /// When the last line was added to those that are left.
    refilled: Micros,
    /// Lines that there was no room for, since the last that there was.
    left_out: u64,
}

impl LogAllowance {
    /// With that number at once.
    pub fn new(most: u64) -> Self {
        Self { most, left: most, refilled: 0, left_out: 0 }
    }

    /// If there may be another line, how many were left out before it.
    pub fn take(&mut self, now: Micros) -> Option<u64> {
        let seconds = now.saturating_sub(self.refilled) / 1_000_000;
        self.refilled += seconds * 1_000_000;
        self.left = self.most.min(self.left.saturating_add(seconds));
        if self.left == 0 {
            self.left_out += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Wrong tokens per host and minute.
#[derive(Debug, Default)]
pub(crate) struct TokenFailures {
    /// Start of the window of a host, and its wrong tokens since.
    hosts: Mutex<HashMap<IpAddr, (Micros, u32)>>,
}

impl TokenFailures {
    /// Counts a wrong token of a host. Returns whether the host may present another one now.
    pub(crate) fn count(&self, address: IpAddr, now: Micros) -> bool {
        let host = squall_proto::host_network(address);
        let mut hosts = lock(&self.hosts);
        hosts.retain(|_, (begun, _)| now.saturating_sub(*begun) < WINDOW);
        if hosts.len() >= MAX_HOSTS && !hosts.contains_key(&host) {
            let oldest = hosts.iter().min_by_key(|(_, (begun, _))| *begun).map(|(host, _)| *host);
            oldest.map(|oldest| hosts.remove(&oldest));
        }
        let (_, count) = hosts.entry(host).or_insert((now, 0));
        *count = count.saturating_add(1);
        *count <= TRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + last).to_be_bytes())
    }

    #[test]
    fn wrong_tokens_are_counted_by_host_and_minute() {
        let failures = TokenFailures::default();
        for _ in 0..TRIES {
            assert!(failures.count(host(1), 0));
        }
        assert!(!failures.count(host(1), WINDOW - 1));
        assert!(failures.count(host(2), 0));
        assert!(failures.count(host(1), WINDOW));
    }

    #[test]
    fn a_peer_has_a_number_of_lines_and_then_one_per_second() {
        let mut allowance = LogAllowance::new(4);
        let taken =
            |allowance: &mut LogAllowance, now| (0..100).filter(|_| allowance.take(now).is_some()).count();
        assert_eq!(taken(&mut allowance, 900_000), 4);
        assert_eq!(taken(&mut allowance, 1_000_000), 1);
        assert_eq!(taken(&mut allowance, 3_500_000), 2);
        assert_eq!(taken(&mut allowance, 4_000_000), 1, "a part of a second is not lost");
        assert_eq!(taken(&mut allowance, 100_000_000), 4);
        assert_eq!(allowance.take(101_000_000), Some(96));
    }

    #[test]
    fn sessions_without_a_token_are_few_and_the_oldest_is_displaced() {
        let pending = UnauthenticatedSessions::new(16, 8);
        let ids: Vec<u64> = (0..8).map(|n| pending.enter(host(1), n).0).collect();
        let other = pending.enter(host(2), 100).0;
        assert_eq!(pending.enter(host(1), 8).1, Some(0), "its own oldest");
        pending.leave(ids[0]);
        pending.leave(ids[1]);
        assert_eq!(pending.enter(host(1), 9).1, None, "there is room again");
        for n in 0..7 {
            assert_eq!(pending.enter(host(3 + n), 200).1, None);
        }
        assert_eq!(pending.enter(host(50), 300).1, Some(2), "the oldest of all");
        pending.leave(other);
        assert_eq!(lock(&pending.entries).1.len(), 15);
        let address = |text: &str| text.parse().expect("is an address");
        let pending = UnauthenticatedSessions::new(9, 1);
        pending.enter(address("2001:db8:1:2:3:4:5:6"), 1);
        assert_eq!(pending.enter(address("2001:db8:1:2::7"), 2).1, Some(1), "a host has a network of IPv6");
    }

    #[test]
    fn a_report_counts_the_occurrences_before_it() {
        let throttle = Throttle::new(Duration::from_secs(3600));
        assert_eq!(throttle.count(), Some(0));
        assert!((0..999).all(|_| throttle.count().is_none()));
        lock(&throttle.state).0 = None;
        assert_eq!(throttle.count(), Some(999));
    }

    #[test]
    fn memory_is_bounded() {
        let failures = TokenFailures::default();
        for last in 0..3000 {
            failures.count(host(last), u64::from(last));
        }
        assert_eq!(lock(&failures.hosts).len(), MAX_HOSTS);
    }
}
