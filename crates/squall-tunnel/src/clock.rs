//! The time of this process in microseconds, as stamps tell it.

use std::time::Instant;

use squall_units::Micros;

/// Counts from when it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Now.
    pub(crate) fn now(self) -> Micros {
        self.at(Instant::now())
    }

    /// The time of an instant.
    pub(crate) fn at(self, instant: Instant) -> Micros {
        crate::gather::micros(instant.saturating_duration_since(self.origin))
    }

    /// The instant of a time; `None` if it is beyond all instants.
    pub(crate) fn instant(self, at: Micros) -> Option<Instant> {
        self.origin.checked_add(std::time::Duration::from_micros(at))
    }
}
