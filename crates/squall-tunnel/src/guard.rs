//! Who told wrong tokens lately, and who has told none yet.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use squall_net::Micros;

/// Wrong tokens that an address may tell within [`WINDOW`].
const TRIES: u32 = 10;

/// How long a wrong token counts, in microseconds.
const WINDOW: Micros = 60_000_000;

/// Addresses that are remembered; beyond that, the one whose window began first is forgotten.
const REMEMBERED: usize = 1024;

/// Sessions of an address that have not told the token yet.
const STRANGERS: u32 = 8;

/// Keeps token guessing slow, and those without a token few.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    strangers: Mutex<HashMap<Option<IpAddr>, u32>>,
    /// When the window of an address began, and wrong tokens since.
    failures: Mutex<HashMap<Option<IpAddr>, (Micros, u32)>>,
}

impl Guard {
    /// Whether an address may tell a token now.
    pub(crate) fn may_try(&self, from: Option<IpAddr>, now: Micros) -> bool {
        let failures = self.lock();
        let recent = failures.get(&from).filter(|(begun, _)| now.saturating_sub(*begun) < WINDOW);
        recent.is_none_or(|(_, count)| *count < TRIES)
    }

    /// An address told a wrong token.
    pub(crate) fn failed(&self, from: Option<IpAddr>, now: Micros) {
        let mut failures = self.lock();
        failures.retain(|_, (begun, _)| now.saturating_sub(*begun) < WINDOW);
        if failures.len() >= REMEMBERED && !failures.contains_key(&from) {
            let oldest = failures.iter().min_by_key(|(_, (begun, _))| *begun).map(|(address, _)| *address);
            oldest.map(|oldest| failures.remove(&oldest));
        }
        failures.entry(from).or_insert((now, 0)).1 += 1;
    }

    /// A session of an address has come up. Whether there may be another one without a token from there.
    pub(crate) fn enter(&self, from: Option<IpAddr>) -> bool {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = strangers.entry(from).or_insert(0);
        let may = *count < STRANGERS;
        *count += u32::from(may);
        may
    }

    /// One that had entered has told its token, or is over.
    pub(crate) fn leave(&self, from: Option<IpAddr>) {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = strangers.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                strangers.remove(&from);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<IpAddr>, (Micros, u32)>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u32) -> Option<IpAddr> {
        Some(IpAddr::from((0x0a00_0000 + last).to_be_bytes()))
    }

    #[test]
    fn guessing_is_slow_for_who_guesses() {
        let guard = Guard::default();
        for _ in 0..TRIES {
            assert!(guard.may_try(address(1), 0));
            guard.failed(address(1), 0);
        }
        assert!(!guard.may_try(address(1), WINDOW - 1));
        assert!(guard.may_try(address(2), 0));
        assert!(guard.may_try(address(1), WINDOW));
    }

    #[test]
    fn strangers_are_few() {
        let guard = Guard::default();
        for _ in 0..STRANGERS {
            assert!(guard.enter(address(1)));
        }
        assert!(!guard.enter(address(1)));
        assert!(guard.enter(address(2)));
        guard.leave(address(1));
        assert!(guard.enter(address(1)));
        guard.leave(address(2));
        assert_eq!(guard.strangers.lock().expect("nobody panicked").len(), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let guard = Guard::default();
        for last in 0..3000 {
            guard.failed(address(last), u64::from(last));
        }
        assert_eq!(guard.lock().len(), REMEMBERED);
    }
}
