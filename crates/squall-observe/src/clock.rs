//! The time of this process in microseconds, and locks that outlive a panic.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use squall_units::Micros;

/// Counts microseconds since its creation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock at 0.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Microseconds since its creation.
    pub fn now(self) -> Micros {
        micros(self.origin.elapsed())
    }

    /// The time of an instant.
    pub fn at(self, instant: Instant) -> Micros {
        micros(instant.saturating_duration_since(self.origin))
    }

    /// The instant of a time; `None` if the system cannot represent it.
    pub fn instant(self, at: Micros) -> Option<Instant> {
        self.origin.checked_add(Duration::from_micros(at))
    }
}

/// Microseconds of a duration.
pub fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

/// Locks a mutex, also after a panic of another holder: the data behind these locks is valid between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
