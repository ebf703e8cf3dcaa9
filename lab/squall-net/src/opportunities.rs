//! Service of a queue by a mahimahi trace, exactly as in `mm-link`.

use squall_trace::mahimahi::{OPPORTUNITY, Trace};

use crate::time::{NANOS_PER_MILLI, NEVER, Nanos};

/// Position in a trace.
#[derive(Debug, Clone)]
pub(crate) struct Opportunities {
    trace: Trace,
    once: bool,
    index: usize,
    /// Start of the current round of the trace, in milliseconds.
    base: u64,
}

impl Opportunities {
    pub(crate) fn new(trace: Trace, once: bool) -> Self {
        Self { trace, once, index: 0, base: 0 }
    }

    /// Returns the time of the next opportunity; [`NEVER`] after the end of a trace that runs once.
    pub(crate) fn next(&self) -> Nanos {
        match self.trace.millis().get(self.index) {
            Some(millis) => (self.base + millis).saturating_mul(NANOS_PER_MILLI),
            None => NEVER,
        }
    }

    /// Returns the number of simultaneous opportunities at the time of the next one.
    pub(crate) fn together(&self) -> u64 {
        let (mut after, mut count) = (self.clone(), 0);
        while after.next() == self.next() && after.next() != NEVER {
            after.take();
            count += 1;
        }
        count
    }

    /// Uses the next opportunity.
    pub(crate) fn take(&mut self) {
        self.index += 1;
        if self.index == self.trace.millis().len() && !self.once {
            self.index = 0;
            self.base += self.trace.period();
        }
    }

    /// Skips every opportunity up to and including `until`.
    pub(crate) fn skip(&mut self, until: Nanos) {
        let period = self.trace.period();
        let rounds = (until / NANOS_PER_MILLI).saturating_sub(self.base) / period;
        // Skip whole rounds at once, except the last, whose end coincides with the start of the
        // next.
        if rounds > 1 && !self.once {
            self.base += (rounds - 1) * period;
            self.index = 0;
        }
        while self.next() <= until {
            self.take();
        }
    }

    /// Returns the mean rate over the 200 ms around `now`, in bits per second, for display.
    pub(crate) fn rate_around(&self, now: Nanos) -> u64 {
        const HALF: u64 = 100;
        let millis = now / NANOS_PER_MILLI;
        let until = |end: u64| {
            if self.once && end > self.trace.period() {
                self.trace.millis().len() as u64
            } else {
                self.trace.opportunities_until(end)
            }
        };
        let start = millis.saturating_sub(HALF);
        (until(millis + HALF) - until(start)) * OPPORTUNITY * 8 * 1_000 / (millis + HALF - start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_end_of_a_round_is_the_start_of_the_next() {
        let mut place = Opportunities::new("0\n3\n3\n10".parse().unwrap(), false);
        let mut times = Vec::new();
        for _ in 0..7 {
            times.push(place.next() / NANOS_PER_MILLI);
            place.take();
        }
        assert_eq!(times, [0, 3, 3, 10, 10, 13, 13]);
    }

    #[test]
    fn a_trace_that_runs_once_ends() {
        let mut place = Opportunities::new("1\n2".parse().unwrap(), true);
        place.skip(5 * NANOS_PER_MILLI);
        assert_eq!(place.next(), NEVER);
    }

    proptest! {
        #[test]
        fn skipping_equals_taking(
            mut millis in prop::collection::vec(0u64..50, 1..30),
            hops in prop::collection::vec(0u64..400, 1..5),
        ) {
            millis.sort_unstable();
            *millis.last_mut().unwrap() += 1;
            let trace = Trace::new(millis).unwrap();
            let (mut skipping, mut taking) =
                (Opportunities::new(trace.clone(), false), Opportunities::new(trace.clone(), false));
            let (mut now, mut taken) = (0, 0);
            for hop in hops {
                now += hop;
                skipping.skip(now * NANOS_PER_MILLI);
                while taking.next() <= now * NANOS_PER_MILLI {
                    taking.take();
                    taken += 1;
                }
                prop_assert_eq!(skipping.next(), taking.next());
                prop_assert_eq!(trace.opportunities_until(now), taken);
            }
        }
    }
}
