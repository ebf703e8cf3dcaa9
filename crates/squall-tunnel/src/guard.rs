//! Who told wrong tokens lately, and who has told none yet.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use squall_units::Micros;

/// Wrong tokens that a host may present within [`WINDOW`] before it is told to wait.
const TRIES: u32 = 10;

/// How long a wrong token counts, in microseconds.
const WINDOW: Micros = 60_000_000;

/// Hosts that are remembered; beyond that, the one whose window began first is forgotten.
const REMEMBERED: usize = 1024;

/// Sessions of all hosts that have not presented the token yet.
pub(crate) const STRANGERS: usize = 16;

/// Of these, those of one host.
const STRANGERS_OF_HOST: usize = 8;

/// Keeps token guessing slow, and those without a token few. Hosts are networks as [`squall::host_network`] has them.
#[derive(Debug)]
pub(crate) struct Guard<T> {
    strangers: Mutex<Strangers<T>>,
    /// When the window of a host began, and wrong tokens since.
    failures: Mutex<HashMap<IpAddr, (Micros, u32)>>,
}

/// Sessions without a token, oldest first.
#[derive(Debug)]
struct Strangers<T> {
    next: u64,
    all: Vec<(u64, IpAddr, T)>,
}

impl<T> Default for Guard<T> {
    fn default() -> Self {
        Self { strangers: Mutex::new(Strangers { next: 0, all: Vec::new() }), failures: Mutex::default() }
    }
}

impl<T> Guard<T> {
    /// A host presented a wrong token. Whether it may present another one now.
    pub(crate) fn failed(&self, from: IpAddr, now: Micros) -> bool {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|_, (begun, _)| now.saturating_sub(*begun) < WINDOW);
        if failures.len() >= REMEMBERED && !failures.contains_key(&from) {
            let oldest = failures.iter().min_by_key(|(_, (begun, _))| *begun).map(|(address, _)| *address);
            oldest.map(|oldest| failures.remove(&oldest));
        }
        let (_, count) = failures.entry(from).or_insert((now, 0));
        *count = count.saturating_add(1);
        *count <= TRIES
    }

    /// A session of a host has come up: its number, and the session that has to make room for it. A host's share takes
    /// from itself; beyond that the oldest goes, which had the most time to present its token.
    pub(crate) fn enter(&self, from: IpAddr, session: T) -> (u64, Option<T>) {
        let mut strangers = self.strangers();
        let of_host = |one: &(u64, IpAddr, T)| one.1 == from;
        let leaves = if strangers.all.iter().filter(|one| of_host(one)).count() >= STRANGERS_OF_HOST {
            strangers.all.iter().position(of_host)
        } else {
            (strangers.all.len() >= STRANGERS).then_some(0)
        };
        let left = leaves.map(|at| strangers.all.remove(at).2);
        strangers.next += 1;
        let id = strangers.next;
        strangers.all.push((id, from, session));
        (id, left)
    }

    /// One that had entered has presented its token, or is over.
    pub(crate) fn leave(&self, id: u64) {
        self.strangers().all.retain(|(one, _, _)| *one != id);
    }

    fn strangers(&self) -> MutexGuard<'_, Strangers<T>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
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
        let guard = Guard::<()>::default();
        for _ in 0..TRIES {
            assert!(guard.failed(host(1), 0));
        }
        assert!(!guard.failed(host(1), WINDOW - 1));
        assert!(guard.failed(host(2), 0));
        assert!(guard.failed(host(1), WINDOW));
    }

    #[test]
    fn strangers_are_few_and_the_oldest_make_room() {
        let guard = Guard::default();
        let ids: Vec<u64> = (0..STRANGERS_OF_HOST).map(|n| guard.enter(host(1), n).0).collect();
        let other = guard.enter(host(2), 100).0;
        assert_eq!(guard.enter(host(1), 8).1, Some(0), "its own oldest");
        guard.leave(ids[0]);
        guard.leave(ids[1]);
        assert_eq!(guard.enter(host(1), 9).1, None, "there is room again");
        for n in 0..STRANGERS - STRANGERS_OF_HOST - 1 {
            assert_eq!(guard.enter(host(3 + n as u32), 200).1, None);
        }
        assert_eq!(guard.enter(host(50), 300).1, Some(2), "the oldest of all");
        guard.leave(other);
        assert_eq!(guard.strangers().all.len(), STRANGERS - 1);
    }

    #[test]
    fn memory_is_bounded() {
        let guard = Guard::<()>::default();
        for last in 0..3000 {
            guard.failed(host(last), u64::from(last));
        }
        assert_eq!(guard.failures.lock().expect("no panic").len(), REMEMBERED);
    }
}
