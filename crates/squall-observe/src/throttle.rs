//! Limits for log lines that others can cause.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use squall_units::{Span, Time};

use crate::clock::lock;

/// Limits the number of reports about clients without a token.
#[derive(Debug)]
pub struct Throttle {
    interval: Duration,
    /// Time of the last report, and occurrences since.
    state: Mutex<(Option<Instant>, u64)>,
}

impl Throttle {
    /// Creates a limit of one report per interval.
    pub fn new(interval: Duration) -> Self {
        Self { interval, state: Mutex::default() }
    }

    /// Counts an occurrence. Returns the number of unreported ones before it if it should be
    /// reported.
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

/// Limits the log lines of a peer with the token: a burst, then one per second.
#[derive(Debug)]
pub struct LogAllowance {
    most: u64,
    left: u64,
    /// Time at which a line was last added to `left`.
    refilled: Time,
    /// Lines left out since the last one that was logged.
    left_out: u64,
}

impl LogAllowance {
    /// Creates an allowance with a burst of `most` lines.
    pub fn new(most: u64) -> Self {
        Self { most, left: most, refilled: Time::EPOCH, left_out: 0 }
    }

    /// Takes a line, if there is one. Returns the number of lines left out before it.
    pub fn take(&mut self, now: Time) -> Option<u64> {
        let seconds = (now - self.refilled) / Span::from_secs(1);
        self.refilled += Span::from_secs(seconds);
        self.left = self.most.min(self.left.saturating_add(seconds));
        if self.left == 0 {
            self.left_out += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::at_ms;

    use super::*;

    #[test]
    fn a_peer_has_a_number_of_lines_and_then_one_per_second() {
        let mut allowance = LogAllowance::new(4);
        let taken = |allowance: &mut LogAllowance, now| {
            (0..100).filter(|_| allowance.take(at_ms(now)).is_some()).count()
        };
        assert_eq!(taken(&mut allowance, 900), 4);
        assert_eq!(taken(&mut allowance, 1_000), 1);
        assert_eq!(taken(&mut allowance, 3_500), 2);
        assert_eq!(taken(&mut allowance, 4_000), 1, "a part of a second is not lost");
        assert_eq!(taken(&mut allowance, 100_000), 4);
        assert_eq!(allowance.take(at_ms(101_000)), Some(96));
    }

    #[test]
    fn a_report_counts_the_occurrences_before_it() {
        let throttle = Throttle::new(Duration::from_secs(3600));
        assert_eq!(throttle.count(), Some(0));
        assert!((0..999).all(|_| throttle.count().is_none()));
        lock(&throttle.state).0 = None;
        assert_eq!(throttle.count(), Some(999));
    }
}
