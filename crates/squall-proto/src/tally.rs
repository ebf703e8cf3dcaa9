//! Counts over the workers of an endpoint, so that its limits apply to all of them together.
//!
//! Each session and each pending connection holds a place, which is returned when it is dropped.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use crate::attempts::Attempts;

/// Counts over all workers.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Sessions that are open and announced.
    open: AtomicUsize,
    /// All other connections.
    others: AtomicUsize,
    /// Handshakes of addresses that are not validated.
    in_doubt: AtomicUsize,
    newcomers: Mutex<Newcomers>,
    attempts: Mutex<Attempts>,
}

#[derive(Debug, Default)]
struct Newcomers {
    total: usize,
    by_network: HashMap<IpAddr, usize>,
}

impl Tally {
    pub(crate) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    pub(crate) fn others(&self) -> usize {
        self.others.load(Relaxed)
    }

    pub(crate) fn in_doubt(&self) -> usize {
        self.in_doubt.load(Relaxed)
    }

    /// Returns the pending connections of all networks, and of each of these.
    pub(crate) fn newcomers(
        &self,
        networks: impl Iterator<Item = IpAddr>,
    ) -> (usize, HashMap<IpAddr, usize>) {
        let held = self.lock();
        let count = |network: &IpAddr| held.by_network.get(network).copied().unwrap_or_default();
        (held.total, networks.map(|network| (network, count(&network))).collect())
    }

    pub(crate) fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Newcomers> {
        self.newcomers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Place of a session.
#[derive(Debug)]
pub(crate) struct SessionPlace {
    tally: Arc<Tally>,
    is_open: bool,
    in_doubt: bool,
}

impl SessionPlace {
    /// Creates the place of a connection that begins, from a validated address or not.
    pub(crate) fn new(tally: &Arc<Tally>, in_doubt: bool) -> Self {
        tally.others.fetch_add(1, Relaxed);
        tally.in_doubt.fetch_add(in_doubt.into(), Relaxed);
        Self { tally: tally.clone(), is_open: false, in_doubt }
    }

    /// Records the progress of the connection.
    pub(crate) fn update(&mut self, is_open: bool, in_handshake: bool) {
        if self.is_open != is_open {
            self.is_open = is_open;
            let (from, to) = if is_open {
                (&self.tally.others, &self.tally.open)
            } else {
                (&self.tally.open, &self.tally.others)
            };
            from.fetch_sub(1, Relaxed);
            to.fetch_add(1, Relaxed);
        }
        if self.in_doubt && !in_handshake {
            self.in_doubt = false;
            self.tally.in_doubt.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for SessionPlace {
    fn drop(&mut self) {
        self.update(false, false);
        self.tally.others.fetch_sub(1, Relaxed);
    }
}

/// Place of a pending connection.
#[derive(Debug)]
pub(crate) struct NewcomerPlace {
    tally: Arc<Tally>,
    pub(crate) network: IpAddr,
}

impl NewcomerPlace {
    pub(crate) fn new(tally: &Arc<Tally>, network: IpAddr) -> Self {
        let mut held = tally.lock();
        held.total += 1;
        *held.by_network.entry(network).or_default() += 1;
        drop(held);
        Self { tally: tally.clone(), network }
    }
}

impl Drop for NewcomerPlace {
    fn drop(&mut self) {
        let mut held = self.tally.lock();
        held.total -= 1;
        if let Some(count) = held.by_network.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                held.by_network.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_counts_once_and_leaves_nothing() {
        let tally = Arc::new(Tally::default());
        let counts = |tally: &Tally| (tally.open(), tally.others(), tally.in_doubt());
        let mut one = SessionPlace::new(&tally, true);
        let other = SessionPlace::new(&tally, false);
        assert_eq!(counts(&tally), (0, 2, 1));
        one.update(false, false);
        assert_eq!(counts(&tally), (0, 2, 0));
        one.update(true, false);
        one.update(true, false);
        assert_eq!(counts(&tally), (1, 1, 0));
        drop(other);
        drop(one);
        assert_eq!(counts(&tally), (0, 0, 0));
        drop(SessionPlace::new(&tally, true));
        assert_eq!(counts(&tally), (0, 0, 0));
    }

    #[test]
    fn newcomers_are_counted_by_network() {
        let tally = Arc::new(Tally::default());
        let [one, other] = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]));
        let held = [one, one, other].map(|network| NewcomerPlace::new(&tally, network));
        let (total, by_network) = tally.newcomers([one].into_iter());
        assert_eq!((total, by_network), (3, HashMap::from([(one, 2)])));
        drop(held);
        assert_eq!(tally.newcomers([one, other].into_iter()).0, 0);
        assert!(tally.lock().by_network.is_empty());
    }
}
