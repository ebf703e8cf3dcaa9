//! Mahimahi's packet-delivery traces: reading them, and serving a queue by them exactly as `mm-link` does.
//!
//! A trace is one whole number of milliseconds a line, never decreasing: each line is one opportunity to send
//! 1,504 bytes (a packet of 1,500 and the 4 bytes of its TUN header). Small packets share an opportunity, a
//! packet may need several, and what an opportunity leaves unused is lost. After the last line the trace starts
//! again at the time of the last line.

use std::{str::FromStr, sync::Arc};

use crate::time::{NANOS_PER_MILLI, NEVER, Nanos};

/// Bytes one opportunity carries.
pub const OPPORTUNITY: u64 = 1_504;

/// Bytes that mahimahi counts for each packet beyond its IP size: the header of its TUN device.
pub const TUN_HEADER: u64 = 4;

/// A parsed trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    millis: Arc<[u64]>,
}

/// Why a text is not a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The file has no line.
    #[error("the trace is empty")]
    Empty,
    /// A line is not a whole number of milliseconds.
    #[error("line {line}: \"{text}\" is not a whole number of milliseconds")]
    Number {
        /// Line number, from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// A line is less than the one before.
    #[error("line {line}: {now} ms is earlier than {before} ms on the line before")]
    Order {
        /// Line number, from 1.
        line: usize,
        /// The time on this line.
        now: u64,
        /// The time on the line before.
        before: u64,
    },
    /// All opportunities are at time 0, so that the trace has no length.
    #[error("line {line}: the last time must be above 0")]
    NoLength {
        /// Number of the last line, from 1.
        line: usize,
    },
    /// A time that the emulator's clock cannot hold.
    #[error("line {line}: {now} ms is too late (a year is the most)")]
    TooLate {
        /// Line number, from 1.
        line: usize,
        /// The time on this line.
        now: u64,
    },
}

const YEAR: u64 = 366 * 24 * 3_600_000;

impl FromStr for Trace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut millis = Vec::new();
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let now: u64 = Some(text)
                .filter(|_| digits)
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| TraceError::Number { line, text: text.to_owned() })?;
            if now > YEAR {
                return Err(TraceError::TooLate { line, now });
            }
            match millis.last() {
                Some(&before) if now < before => return Err(TraceError::Order { line, now, before }),
                _ => millis.push(now),
            }
        }
        Self::checked(millis)
    }
}

impl Trace {
    /// A trace of these opportunities, in milliseconds.
    ///
    /// # Errors
    ///
    /// As for the lines of a file.
    pub fn new(millis: Vec<u64>) -> Result<Self, TraceError> {
        if let Some(index) = millis.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(TraceError::Order { line: index + 2, now: millis[index + 1], before: millis[index] });
        }
        Self::checked(millis)
    }

    fn checked(millis: Vec<u64>) -> Result<Self, TraceError> {
        match millis.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoLength { line: millis.len() }),
            Some(&now) if now > YEAR => Err(TraceError::TooLate { line: millis.len(), now }),
            Some(_) => Ok(Self { millis: millis.into() }),
        }
    }

    /// The opportunities of one round, in milliseconds.
    pub fn millis(&self) -> &[u64] {
        &self.millis
    }

    /// After how many milliseconds the trace starts again: the time of its last line.
    pub fn period(&self) -> u64 {
        self.millis[self.millis.len() - 1]
    }

    /// Bits a second on the average of a round, of which 4 in 1,504 are TUN headers.
    pub fn mean_bps(&self) -> u64 {
        self.millis.len() as u64 * OPPORTUNITY * 8 * 1_000 / self.period()
    }

    /// Opportunities in the first `millis` milliseconds of the endlessly repeated trace, that stamped `millis`
    /// included: the most that the link could have sent, over [`OPPORTUNITY`].
    pub fn opportunities_until(&self, millis: u64) -> u64 {
        let (period, count) = (self.period(), self.millis.len() as u64);
        let at_most = |local: u64| self.millis.partition_point(|&at| at <= local) as u64;
        let (rounds, local) = (millis / period, millis % period);
        // The end of each round coincides with the opportunities at 0 of the next.
        rounds * count + at_most(local)
    }
}

/// The place in a trace: which opportunity comes next.
#[derive(Debug, Clone)]
pub(crate) struct Opportunities {
    trace: Trace,
    once: bool,
    index: usize,
    /// When this round of the trace began, in milliseconds.
    base: u64,
}

impl Opportunities {
    pub(crate) fn new(trace: Trace, once: bool) -> Self {
        Self { trace, once, index: 0, base: 0 }
    }

    /// The time of the next opportunity; [`NEVER`] after the end of a trace that runs once.
    pub(crate) fn next(&self) -> Nanos {
        match self.trace.millis.get(self.index) {
            Some(millis) => (self.base + millis).saturating_mul(NANOS_PER_MILLI),
            None => NEVER,
        }
    }

    /// How many opportunities there are at the time of the next.
    pub(crate) fn together(&self) -> u64 {
        let (mut after, mut count) = (self.clone(), 0);
        while after.next() == self.next() && after.next() != NEVER {
            after.take();
            count += 1;
        }
        count
    }

    /// Uses the next opportunity up.
    pub(crate) fn take(&mut self) {
        self.index += 1;
        if self.index == self.trace.millis.len() && !self.once {
            self.index = 0;
            self.base += self.trace.period();
        }
    }

    /// Lets every opportunity up to and including `until` pass.
    pub(crate) fn skip(&mut self, until: Nanos) {
        let period = self.trace.period();
        let rounds = (until / NANOS_PER_MILLI).saturating_sub(self.base) / period;
        // Whole rounds at once, but for the last, whose end coincides with the start of the next.
        if rounds > 1 && !self.once {
            self.base += (rounds - 1) * period;
            self.index = 0;
        }
        while self.next() <= until {
            self.take();
        }
    }

    /// Mean rate over the 200 ms around `now`, in bits per second, for showing.
    pub(crate) fn rate_around(&self, now: Nanos) -> u64 {
        const HALF: u64 = 100;
        let millis = now / NANOS_PER_MILLI;
        let until = |end: u64| {
            if self.once && end > self.trace.period() {
                self.trace.millis.len() as u64
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
    fn errors_name_the_line() {
        let error = |text: &str| text.parse::<Trace>().unwrap_err().to_string();
        assert_eq!(error(""), "the trace is empty");
        assert_eq!(error("1\n\n2\n"), "line 2: \"\" is not a whole number of milliseconds");
        assert_eq!(error("1\n2.5\n"), "line 2: \"2.5\" is not a whole number of milliseconds");
        assert_eq!(error("+1\n"), "line 1: \"+1\" is not a whole number of milliseconds");
        assert_eq!(error("5\n4\n"), "line 2: 4 ms is earlier than 5 ms on the line before");
        assert_eq!(error("0\n0\n"), "line 2: the last time must be above 0");
    }

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

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9\n .-]{0,40}") {
            let _ = text.parse::<Trace>();
        }
    }
}
