//! Connections to a server whose peer has not announced itself with a hello: handshakes, and those
//! that are up and silent.
//!
//! Anyone can open them, so their number, their share for each host and their time are limited.
//! When the table is full, another pending connection is dropped: the oldest one from the source of
//! the most recent attempts. A genuine peer connects once, and announces itself within two round
//! trips; one that only occupies slots repeats its attempts. The progress of a connection does not
//! matter: a genuine one is silent for a round trip, and an attacker need not be. Few attempts from
//! the source of an authorised session count as none.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Limits,
    attempts::host_network,
    tally::{NewcomerPlace, Tally},
};

/// Outcomes of the connection attempts to a server since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionStats {
    /// Present number of handshakes, and of connections that have not announced themselves.
    pub pending: usize,
    /// Handshakes that had to validate their address first (RFC 9000 §8.1.2).
    pub retried: u64,
    /// Connections that had not announced themselves and were dropped for others.
    pub displaced: u64,
    /// Connections that did not announce themselves in time.
    pub expired: u64,
    /// Connections refused because the limit of sessions was reached.
    pub refused: u64,
}

/// Decision about a new handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The handshake may begin.
    Accept,
    /// The peer has to validate its address first.
    Retry,
    /// The limit of sessions is reached.
    Refuse,
    /// The peer is not wanted, and gets no answer.
    Ignore,
}

/// Largest number of pending connections from the source of an authorised session whose attempts
/// count as none.
const OF_KNOWN: usize = 4;

#[derive(Debug)]
struct Newcomer {
    place: NewcomerPlace,
    address: IpAddr,
    until: Instant,
}

/// Pending connections by the key of the session; keys grow with time.
#[derive(Debug)]
pub(crate) struct Newcomers {
    limits: Limits,
    patience: Duration,
    /// Counts over all workers, which share the limits.
    tally: Arc<Tally>,
    all: BTreeMap<u64, Newcomer>,
    pub(crate) stats: AdmissionStats,
}

impl Newcomers {
    pub(crate) fn new(limits: Limits, patience: Duration, tally: Arc<Tally>) -> Self {
        Self { limits, patience, tally, all: BTreeMap::new(), stats: AdmissionStats::default() }
    }

    /// Decides about a handshake, beside those of all workers, from a validated address or not.
    pub(crate) fn admit(&mut self, proven: bool) -> Admission {
        let most_others = 2 * self.limits.handshakes + self.limits.max_sessions;
        if self.tally.open() >= self.limits.max_sessions || self.tally.others() >= most_others {
            self.stats.refused += 1;
            return Admission::Refuse;
        }
        // A quarter, so that spoofed addresses leave room for validated ones.
        if !proven && self.tally.in_doubt() >= self.limits.handshakes.div_ceil(4) {
            self.stats.retried += 1;
            return Admission::Retry;
        }
        Admission::Accept
    }

    /// Counts an unwanted handshake, which gets no answer.
    pub(crate) fn ignore(&mut self) -> Admission {
        self.stats.refused += 1;
        Admission::Ignore
    }

    /// Records the start of a handshake.
    pub(crate) fn enter(&mut self, now: Instant, key: u64, remote: IpAddr) {
        let place = NewcomerPlace::new(&self.tally, host_network(remote));
        self.tally.attempts().count(now, remote);
        self.all.insert(key, Newcomer { place, address: remote, until: now + self.patience });
    }

    /// Removes a connection that has announced itself, or is closed. Returns `true` if it was
    /// pending.
    pub(crate) fn leave(&mut self, key: u64) -> bool {
        self.all.remove(&key).is_some()
    }

    /// Returns `true` if there is room for a connection that has announced itself, and counts as a
    /// session: handshakes at the same time do not count.
    pub(crate) fn confirm(&mut self) -> bool {
        let has_room = self.tally.open() <= self.limits.max_sessions;
        self.stats.refused += u64::from(!has_room);
        has_room
    }

    /// Records an authorised session from this address.
    pub(crate) fn authorised(&self, now: Instant, remote: IpAddr) {
        self.tally.attempts().authorised(now, remote);
    }

    /// Returns the connection to drop, if there are too many over all workers: one that is over, or
    /// the oldest one of the host that exceeds its share, or of those with most attempts. It is one
    /// of this worker, where another has just entered.
    pub(crate) fn displace(&mut self, now: Instant, is_over: impl Fn(u64) -> bool) -> Option<u64> {
        let (total, shares) = self.tally.newcomers(self.all.values().map(|one| one.place.network));
        let share = |one: &Newcomer| shares.get(&one.place.network).copied().unwrap_or_default();
        let most = shares.values().copied().max()?;
        let is_crowded = most > self.limits.handshakes_per_host;
        if !is_crowded && total <= self.limits.handshakes {
            return None;
        }
        let attempts = self.tally.attempts();
        let order = |key: u64, one: &Newcomer| {
            let is_known = share(one) <= OF_KNOWN && attempts.is_known(one.address);
            let count = if is_known { 0 } else { attempts.from(now, one.address) };
            (Reverse(is_over(key)), Reverse(count), key)
        };
        let all = self.all.iter().filter(|(_, one)| !is_crowded || share(one) == most);
        let key = all.min_by_key(|(key, one)| order(**key, one)).map(|(key, _)| *key)?;
        drop(attempts);
        self.all.remove(&key);
        self.stats.displaced += 1;
        Some(key)
    }

    /// Removes a connection whose time is up.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<u64> {
        // All have the same timeout, so the first is the oldest.
        let key = self.all.first_key_value().filter(|(_, one)| one.until <= now).map(|(key, _)| *key)?;
        self.all.remove(&key);
        self.stats.expired += 1;
        Some(key)
    }

    /// Returns when [`Self::expire`] has work.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.all.first_key_value().map(|(_, one)| one.until)
    }

    /// Returns the counts.
    pub(crate) fn stats(&self) -> AdmissionStats {
        AdmissionStats { pending: self.all.len(), ..self.stats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::SessionPlace;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn newcomers() -> Newcomers {
        let limits = Limits { handshakes: 16, handshakes_per_host: 4, max_sessions: 8, ..Limits::default() };
        Newcomers::new(limits, PATIENCE, Arc::default())
    }

    fn host(n: u64) -> IpAddr {
        IpAddr::from([10, 0, 0, n as u8])
    }

    #[test]
    fn a_quarter_of_the_handshakes_may_be_unproven() {
        let mut all = newcomers();
        let mut places = Vec::new();
        for _ in 0..4 {
            assert_eq!(all.admit(false), Admission::Accept);
            places.push(SessionPlace::new(&all.tally, true));
        }
        assert_eq!((all.admit(false), all.admit(true)), (Admission::Retry, Admission::Accept));
        // A finished handshake has validated its address.
        places[0].update(false, false);
        assert_eq!(all.admit(false), Admission::Accept);
        assert_eq!(all.stats().retried, 1);
    }

    #[test]
    fn as_many_sessions_as_allowed_and_no_more() {
        let mut all = newcomers();
        let places = |all: &Newcomers, count, is_open| -> Vec<SessionPlace> {
            let mut places: Vec<_> = (0..count).map(|_| SessionPlace::new(&all.tally, false)).collect();
            places.iter_mut().for_each(|place| place.update(is_open, false));
            places
        };
        let seven = places(&all, 7, true);
        assert_eq!(all.admit(true), Admission::Accept);
        let eighth = places(&all, 1, true);
        assert_eq!(all.admit(true), Admission::Refuse);
        drop((seven, eighth));
        let _lingering = places(&all, 40, false);
        assert_eq!(all.admit(true), Admission::Refuse);
        assert_eq!(all.stats().refused, 2);
    }

    #[test]
    fn limits_hold_for_all_workers_together() {
        let (tally, now) = (Arc::<Tally>::default(), Instant::now());
        let limits = Limits { handshakes: 8, handshakes_per_host: 4, max_sessions: 8, ..Limits::default() };
        let mut workers: Vec<_> = (0..3).map(|_| Newcomers::new(limits, PATIENCE, tally.clone())).collect();
        for key in 0..30 {
            let worker = &mut workers[key as usize % 3];
            worker.enter(now, key, host(key / 15));
            while worker.displace(now, |_| false).is_some() {}
        }
        let all = |workers: &[Newcomers]| workers.iter().map(|worker| worker.stats().pending).sum::<usize>();
        assert_eq!(all(&workers), 8);
        let displaced: u64 = workers.iter().map(|worker| worker.stats().displaced).sum();
        assert_eq!(displaced, 22);
        let mut open: Vec<_> = (0..8).map(|_| SessionPlace::new(&tally, false)).collect();
        open.iter_mut().for_each(|place| place.update(true, false));
        assert!(workers.iter_mut().all(|worker| worker.admit(true) == Admission::Refuse));
        // The pending connections of a worker that ends leave room.
        let gone = workers.remove(0).stats().pending;
        assert!(gone > 0);
        assert_eq!(tally.newcomers(std::iter::empty()).0, 8 - gone);
    }

    #[test]
    fn the_oldest_one_from_where_most_attempts_come_makes_room() {
        let (mut all, now) = (newcomers(), Instant::now());
        for key in 0..5 {
            assert_eq!(all.displace(now, |_| false), None);
            all.enter(now, key, host(1));
        }
        assert_eq!(all.displace(now, |key| key == 3), Some(3), "one that is over");
        all.enter(now, 5, host(1));
        assert_eq!(all.displace(now, |_| false), Some(0));
        assert_eq!(all.displace(now, |_| false), None);
        let far = |n: u64| IpAddr::from([10, n as u8, 0, 1]);
        for key in 6..18 {
            all.enter(now, key, far(key));
        }
        assert_eq!(all.stats().pending, 16);
        all.enter(now, 18, far(18));
        assert_eq!(all.displace(now, |_| false), Some(1), "others do not pay for the host that has most");
        all.authorised(now, host(1));
        all.enter(now, 19, far(6));
        assert_eq!(all.displace(now, |_| false), Some(6), "who was authorised has some places");
        assert_eq!(all.stats().displaced, 4);
    }

    #[test]
    fn time_is_up_from_the_first_packet() {
        let (mut all, now) = (newcomers(), Instant::now());
        all.enter(now, 1, host(1));
        all.enter(now + PATIENCE / 2, 2, host(1));
        assert_eq!((all.timeout(), all.expire(now)), (Some(now + PATIENCE), None));
        assert_eq!((all.expire(now + PATIENCE), all.expire(now + PATIENCE)), (Some(1), None));
        all.leave(2);
        assert_eq!((all.timeout(), all.stats().pending), (None, 0));
    }
}
