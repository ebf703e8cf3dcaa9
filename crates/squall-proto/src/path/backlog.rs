//! The queue that own packets form on a path, from their departures.
//!
//! A bucket that departing bytes fill and the rate of the path drains. Bytes in flight show only a
//! queue that is always there: those of two frames may be in flight with a pause in between, so that
//! they fill no more than a round trip although the second frame waits. A rate that is too low makes
//! the bucket overflow slowly; the delays that the peer reports take that back.

use std::collections::VecDeque;

use squall_sched::{Span, Time};

use super::delay::Reported;

/// Shortest time between two entries.
const SPACING: Span = Span::from_millis(1);
/// Most entries: a round trip of a second.
const MAX_ENTRIES: usize = 1_024;

/// Queue of own packets on a path, in time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backlog {
    queue: Span,
    /// Time of the last departure.
    at: Time,
    /// Number of times that it was empty.
    period: u64,
    /// Time that reports have taken back in this period.
    corrected: Span,
    departures: VecDeque<Departure>,
}

/// A departure whose delay may still be reported.
#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Time,
    /// Queue that it found.
    queue: Span,
    period: u64,
    /// Time that reports had taken back before it.
    corrected: Span,
}

impl Backlog {
    /// Returns the time until the queue is empty.
    pub(crate) fn after(&self, now: Time) -> Span {
        self.queue - (now - self.at)
    }

    /// Records bytes that need the time `takes`.
    pub(crate) fn on_departure(&mut self, at: Time, takes: Span) {
        let queue = self.after(at);
        if queue.is_zero() {
            self.period += 1;
            self.corrected = Span::ZERO;
        }
        if self.departures.back().is_none_or(|last| at >= last.at + SPACING) {
            if self.departures.len() == MAX_ENTRIES {
                self.departures.pop_front();
            }
            let Self { period, corrected, .. } = *self;
            self.departures.push_back(Departure { at, queue, period, corrected });
        }
        (self.queue, self.at) = (queue + takes, at);
    }

    /// Returns the queue that the reported packet found. Its delay exceeded the smallest one by
    /// `excess`, and the queue was no longer.
    pub(crate) fn on_report(&mut self, reported: &Reported, excess: Span) -> Span {
        while self.departures.get(1).is_some_and(|next| reported.departed_after(next.at) >= 0) {
            self.departures.pop_front();
        }
        let Some(found) = self.departures.front().filter(|found| reported.departed_after(found.at) >= 0)
        else {
            return Span::ZERO;
        };
        if found.period != self.period {
            return found.queue.min(excess);
        }
        let queue = found.queue - (self.corrected - found.corrected);
        let too_long = queue - excess;
        self.queue = self.queue - too_long;
        self.corrected += too_long;
        queue - too_long
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_ms, ms};

    use super::*;
    use crate::wire::Stamp;

    fn report(at: Time) -> Reported {
        Reported { at, delay: 0, departure: Some(Stamp::at(at)) }
    }

    #[test]
    fn bytes_wait_for_those_that_left_shortly_before() {
        let mut backlog = Backlog::default();
        (0..10).for_each(|_| backlog.on_departure(at_ms(100), ms(2)));
        assert_eq!((backlog.after(at_ms(100)), backlog.after(at_ms(115))), (ms(20), ms(5)));
        assert_eq!(backlog.after(at_ms(130)), ms(0));
    }

    #[test]
    fn a_rate_that_is_too_low_fills_no_queue_for_long() {
        // Each packet takes 1 ms and is thought to take 1.2, over a path of 20 ms.
        let mut backlog = Backlog::default();
        let mut longest = ms(0);
        for now in 0..2_000 {
            backlog.on_departure(at_ms(now), Span::from_micros(1_200));
            longest = longest.max(backlog.after(at_ms(now)));
            if now >= 20 {
                assert_eq!(backlog.on_report(&report(at_ms(now - 20)), ms(0)), ms(0));
            }
        }
        assert!(longest < ms(6), "{longest}");
    }

    #[test]
    fn a_report_from_before_a_pause_leaves_the_queue_as_it_is() {
        let mut backlog = Backlog::default();
        (0..4).for_each(|at| backlog.on_departure(at_ms(at), ms(5)));
        backlog.on_departure(at_ms(60), ms(5));
        backlog.on_departure(at_ms(61), ms(5));
        assert_eq!(backlog.on_report(&report(at_ms(3)), ms(2)), ms(2), "it found 12 ms by the rate");
        assert_eq!(backlog.after(at_ms(61)), ms(9));
        assert_eq!(backlog.on_report(&report(at_ms(61)), ms(1)), ms(1));
        assert_eq!(backlog.after(at_ms(61)), ms(6));
    }
}
