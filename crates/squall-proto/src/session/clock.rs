//! The time of a session, counted from the epoch of its endpoint, and its timeouts.

use std::time::Instant;

use squall_sched::{Span, Time};

use crate::{
    Config,
    wire::{Stamp, TICK},
};

/// Time after a suspension in which reports may concern packets that left before it.
const LATE_REPORTS: Span = Span::from_secs(10);

#[derive(Debug)]
pub(super) struct SessionClock {
    epoch: Instant,
    /// End of the last suspension of the process.
    resumed: Option<Time>,
    pub(super) timeouts: Timeouts,
}

/// Timeouts of [`Config`].
#[derive(Debug)]
pub(super) struct Timeouts {
    pub(super) idle: Span,
    pub(super) path_idle: Span,
    pub(super) keep_alive: Span,
    pub(super) silence: Span,
}

impl Timeouts {
    fn new(config: &Config) -> Self {
        Self {
            idle: config.idle_timeout.into(),
            path_idle: config.path_idle_timeout.into(),
            keep_alive: config.keep_alive.into(),
            silence: config.silence.into(),
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

    pub(super) fn time(&self, at: Instant) -> Time {
        Time::EPOCH + at.saturating_duration_since(self.epoch).into()
    }

    pub(super) fn instant(&self, at: Time) -> Instant {
        self.epoch + at.since_epoch().duration()
    }

    /// Records that the process runs again after a suspension.
    pub(super) fn resume(&mut self, now: Instant) {
        self.resumed = Some(self.time(now));
    }

    /// Returns the time since which the process runs without a suspension.
    pub(super) fn runs_since(&self) -> Time {
        self.resumed.unwrap_or(Time::EPOCH)
    }

    /// Returns `true` if the process was suspended at or after this time. Intervals that began then
    /// show nothing about the network.
    pub(super) fn was_suspended_after(&self, at: Time) -> bool {
        at < self.runs_since()
    }

    /// Returns `true` if a departure, reported at `at`, was before a suspension that ended just
    /// now.
    pub(super) fn is_from_before(&self, at: Time, departure: Stamp) -> bool {
        self.resumed.is_some_and(|resumed| {
            let since = at - resumed;
            let after = Span::from_micros(u64::from(departure.since(Stamp::at(resumed))) * TICK);
            since < LATE_REPORTS && after > since
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use squall_units::short::{at_ms, at_us};

    use super::*;

    #[test]
    fn departures_before_a_suspension_are_recognised_for_a_while() {
        let epoch = Instant::now();
        let mut clock = SessionClock::new(epoch, &Config::default());
        let (before, after) = (Stamp::at(at_ms(4_000)), Stamp::at(at_ms(5_500)));
        assert!(!clock.is_from_before(at_ms(6_000), before) && !clock.was_suspended_after(at_us(0)));
        clock.resume(epoch + Duration::from_secs(5));
        assert!(clock.is_from_before(at_ms(6_000), before) && !clock.is_from_before(at_ms(6_000), after));
        assert!(!clock.is_from_before(at_ms(5_000) + LATE_REPORTS, before), "stamps repeat");
        assert!(clock.was_suspended_after(at_us(4_999_999)) && !clock.was_suspended_after(at_ms(5_000)));
        assert_eq!(clock.instant(clock.time(epoch + Duration::from_secs(1))), epoch + Duration::from_secs(1));
    }
}
