//! Time of this process, and locks that remain usable after a panic.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use squall_units::Time;

/// Measures the time since its creation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Starts a clock at the epoch.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Returns the time since its creation.
    pub fn now(self) -> Time {
        self.at(Instant::now())
    }

    /// Returns the time of an instant.
    pub fn at(self, instant: Instant) -> Time {
        Time::EPOCH + instant.saturating_duration_since(self.origin).into()
    }

    /// Returns the instant of a time; `None` if the system cannot represent it.
    pub fn instant(self, at: Time) -> Option<Instant> {
        self.origin.checked_add(at.since_epoch().into())
    }
}

/// Locks a mutex, even if another holder panicked: the data behind these locks is valid between any
/// two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
