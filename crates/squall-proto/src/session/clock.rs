//! The time of a session, in microseconds since the epoch of its endpoint, and its timeouts.

use std::time::{Duration, Instant};

use squall_sched::Micros;

use crate::{
    Config,
    wire::{Stamp, TICK},
};

/// For this long after a suspension, reports may be of packets that left before it.
const LATE_REPORTS: Micros = 10_000_000;

#[derive(Debug)]
pub(super) struct SessionClock {
    epoch: Instant,
    /// End of the last suspension of the process.
    resumed: Option<Micros>,
    pub(super) timeouts: Timeouts,
}

/// Timeouts of [`Config`].
#[derive(Debug)]
pub(super) struct Timeouts {
    pub(super) idle: Micros,
    pub(super) path_idle: Micros,
    pub(super) keep_alive: Micros,
    pub(super) silence: Micros,
}

impl Timeouts {
    fn new(config: &Config) -> Self {
        let micros = |duration: Duration| duration.as_micros() as Micros;
        Self {
            idle: micros(config.idle_timeout),
            path_idle: micros(config.path_idle_timeout),
            keep_alive: micros(config.keep_alive),
            silence: micros(config.silence),
        }
    }
}

impl SessionClock {
    pub(super) fn new(epoch: Instant, config: &Config) -> Self {
        Self { epoch, resumed: None, timeouts: Timeouts::new(config) }
    }

    pub(super) fn epoch(&self) -> Instant {
        self.epoch
    }

    pub(super) fn micros(&self, at: Instant) -> Micros {
        at.saturating_duration_since(self.epoch).as_micros() as Micros
    }

    pub(super) fn instant(&self, at: Micros) -> Instant {
        self.epoch + Duration::from_micros(at)
    }

    /// The process runs again after it had not for a while.
    pub(super) fn resume(&mut self, now: Instant) {
        self.resumed = Some(self.micros(now));
    }

    /// Since when the process runs without a suspension.
    pub(super) fn runs_since(&self) -> Micros {
        self.resumed.unwrap_or(0)
    }

    /// Whether the process was suspended at or after this time. Intervals that began then say nothing of the network.
    pub(super) fn was_suspended_after(&self, at: Micros) -> bool {
        at < self.runs_since()
    }

    /// Whether a departure, reported at `at`, was before a suspension that ended just now.
    pub(super) fn is_from_before(&self, at: Micros, departure: Stamp) -> bool {
        self.resumed.is_some_and(|resumed| {
            let since = at.saturating_sub(resumed);
            let after = u64::from(departure.since(Stamp::at(resumed))) * TICK;
            since < LATE_REPORTS && after > since
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departures_before_a_suspension_are_recognised_for_a_while() {
        let epoch = Instant::now();
        let mut clock = SessionClock::new(epoch, &Config::default());
        let (before, after) = (Stamp::at(4_000_000), Stamp::at(5_500_000));
        assert!(!clock.is_from_before(6_000_000, before) && !clock.was_suspended_after(0));
        clock.resume(epoch + Duration::from_secs(5));
        assert!(clock.is_from_before(6_000_000, before) && !clock.is_from_before(6_000_000, after));
        assert!(!clock.is_from_before(5_000_000 + LATE_REPORTS, before), "stamps repeat");
        assert!(clock.was_suspended_after(4_999_999) && !clock.was_suspended_after(5_000_000));
        assert_eq!(
            clock.instant(clock.micros(epoch + Duration::from_secs(1))),
            epoch + Duration::from_secs(1)
        );
    }
}
