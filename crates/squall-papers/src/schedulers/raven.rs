//! RAVEN: replicates on several paths while it is uncertain which is the fastest.
//!
//! Source: Lee, Flinn, Tonshal, "RAVEN: Improving Interactive Latency for the Connected Car"
//! (MobiCom 2018) and the authors' implementation for Linux; a baseline of AUGUR (NSDI 2024, §4.1).
//! From past measurements of each path it predicts the next latency, with a confidence interval
//! that grows with the age of the last measurement. Let path `m` be the one with the lowest start
//! of its interval. Data is sent on `m` and on each path whose interval starts below the end of
//! that of `m`: any of them could be the fastest. If there is no other, the prediction is good
//! enough, and nothing is replicated.
//!
//! The prediction here, with mean `a` and deviation `s` of the last `n` measurements of the RTT:
//!
//! ```text
//! a ± deviations · s · sqrt(1 + 1/n) · ageing
//! ageing = sqrt(age / age-unit), from 1 to age-cap
//! ```
//!
//! The lower end is at least 0. The authors' method, as read from their implementation, and the
//! reasons for the differences:
//!
//! - Older measurements weigh less, and the ends of the interval are the errors of predictions in
//!   traces of particular networks, as a share of the mean, at 90 % confidence. Such traces do not
//!   exist for an unknown network. Hence a moving window (`samples`, default 64) and the interval
//!   for the next value of a normal variable, at the same confidence (`deviations`, default 1.645).
//!   With fewer than four measurements the mean deviation of the RTT (RFC 9002 §5.3) is used for
//!   `s`.
//! - Ageing is a table by network and second, from such traces too: 1 up to one second, then near
//!   the square root of the seconds until it levels off at 2.8 to 3.5 after some thirty. The
//!   formula above follows it (`age-unit` 1000 ms, `age-cap` 3); the error of a random walk would
//!   grow in the same way.
//! - A measurement is a change of the latest RTT, or the latest RTT when acknowledgements arrive,
//!   once for those that arrive together.
//!
//! Decisions:
//!
//! - Of the paths that could be the fastest, the one with the lowest mean leads with new data; the
//!   others repeat its outstanding bytes, oldest first, as their windows allow. Bytes sent while
//!   the prediction was good, or before a path was among them, are not repeated.
//! - When all of them are full, the path with the lowest mean among the others carries data,
//!   unrepeated. (The authors then replicate on all that have room.)
//! - Lost reliable data goes first, once, on the leading path, as in the authors' implementation.
//!   Blocks are sent in order of submission.
//! - Any number of paths. An idle path ages, gets replicas, and is thereby measured again.

use crate::latency::LatencyWindow;
use squall_sched::{
    Assignment, BuildError, Context, Decision, Duplicates, Entry, MAX_PATHS, OptionSpec, Options, PathId,
    PathSet, PathView, SchedEvent, Scheduler, Span, Time,
};

pub(super) const ENTRY: Entry = Entry {
    name: "raven",
    summary: "on several paths while it is uncertain which is the fastest",
    source: "RAVEN, MobiCom 2018; baseline of AUGUR",
    options: &[
        OptionSpec { name: "samples", default: "64", help: "measurements kept of each path, 4 to 1024" },
        OptionSpec {
            name: "deviations",
            default: "1.645",
            help: "half the interval in standard deviations, 0 to 10; 1.645 is 90 % confidence",
        },
        OptionSpec {
            name: "age-unit",
            default: "1000",
            help: "age in ms from which the interval grows, by its root, 1 to 3600000",
        },
        OptionSpec { name: "age-cap", default: "3", help: "how many times it grows at most, 1 to 100" },
    ],
    signal: false,
};

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    let samples = options.take_in("samples", 64, 4..=1024)?;
    let confidence = Confidence {
        deviations: options.take_in("deviations", 1.645, 0.0..=10.0)?,
        age_unit: Span::from_millis(options.take_in("age-unit", 1000, 1..=3_600_000)?),
        age_cap: options.take_in("age-cap", 3.0, 1.0..=100.0)?,
    };
    Ok(Box::new(Raven::new(samples, confidence)))
}

/// Number of measurements from which on their own deviation is used.
const ENOUGH: usize = 4;

/// Replication while predictions are uncertain.
#[derive(Clone, Debug)]
pub struct Raven {
    confidence: Confidence,
    /// By path id.
    measured: [LatencyWindow; MAX_PATHS],
    /// The paths that could have been the fastest at the last decision.
    rivals: PathSet,
    duplicates: Duplicates,
}

impl Scheduler for Raven {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let predictions = self.predict(cx);
        self.choose_rivals(cx, &predictions);
        let of = |path: &PathView| predictions[usize::from(path.id.0)];
        let open = || cx.paths.iter().filter(|p| p.has_room());
        let Some(lead) = open().min_by_key(|p| (!self.is_rival(p.id), of(p).expected, p.id)) else {
            return Decision::idle();
        };
        if let Some(work) = cx.queue.next_repair() {
            return Decision::Send(Assignment::new(work, lead.id, "repair on the leading path"));
        }
        if let Some(copy) = open().find_map(|path| self.copy(cx, path)) {
            return Decision::Send(copy);
        }
        let reason = match (self.is_rival(lead.id), self.rivals.len()) {
            (false, _) => "better paths are full",
            (true, 1) => "lowest latency for certain",
            (true, _) => "leads, the fastest is uncertain",
        };
        match cx.queue.next_fresh() {
            Some(work) => Decision::Send(Assignment::new(work, lead.id, reason)),
            None => Decision::idle(),
        }
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        self.duplicates.on_event(event, cx);
        match event {
            SchedEvent::Acked { path, .. } => {
                if let Some(view) = cx.path(*path) {
                    self.measured[usize::from(path.0)].answered(view.latest_rtt, cx.now);
                }
            }
            SchedEvent::PathChanged(path) if cx.path(*path).is_none() => {
                self.measured[usize::from(path.0)].clear();
            }
            _ => {}
        }
    }
}

impl Raven {
    fn new(samples: usize, confidence: Confidence) -> Self {
        let measured = std::array::from_fn(|_| LatencyWindow::new(samples));
        Self { confidence, measured, rivals: PathSet::EMPTY, duplicates: Duplicates::default() }
    }

    /// Returns the prediction for each path, by path id.
    fn predict(&mut self, cx: &Context<'_>) -> [Interval; MAX_PATHS] {
        let mut predictions = [Interval::default(); MAX_PATHS];
        for path in cx.paths {
            let measured = &mut self.measured[usize::from(path.id.0)];
            measured.observe(path.latest_rtt, cx.now);
            predictions[usize::from(path.id.0)] = self.confidence.predict(measured, path.rtt_dev, cx.now);
        }
        predictions
    }

    /// Selects the paths that could be the fastest. Room does not matter: a full window opens
    /// again.
    fn choose_rivals(&mut self, cx: &Context<'_>, predictions: &[Interval; MAX_PATHS]) {
        let of = |path: &PathView| predictions[usize::from(path.id.0)];
        let usable = || cx.paths.iter().filter(|p| p.usable);
        let lowest = usable().map(of).min_by_key(|prediction| (prediction.low, prediction.high));
        let limit = lowest.map_or(Span::ZERO, |prediction| prediction.high);
        let before = self.rivals;
        self.rivals = PathSet::EMPTY;
        for path in usable().filter(|path| of(path).low <= limit) {
            self.rivals.insert(path.id);
            if !before.contains(path.id) {
                self.duplicates.skip(cx.queue, path.id);
            }
        }
    }

    fn is_rival(&self, path: PathId) -> bool {
        self.rivals.contains(path)
    }

    /// Returns data that another rival carries and this one does not yet.
    fn copy(&mut self, cx: &Context<'_>, path: &PathView) -> Option<Assignment> {
        if !self.is_rival(path.id) {
            return None;
        }
        let rivals = self.rivals;
        let work =
            self.duplicates.next(cx.queue, path.id, |_, segment| !segment.in_flight.is_disjoint(rivals))?;
        Some(Assignment::new(work, path.id, "replica, the fastest is uncertain"))
    }
}

/// Confidence of predictions.
#[derive(Clone, Copy, Debug)]
struct Confidence {
    deviations: f64,
    age_unit: Span,
    age_cap: f64,
}

/// Latencies that a prediction considers possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Interval {
    low: Span,
    expected: Span,
    high: Span,
}

impl Confidence {
    fn predict(&self, measured: &LatencyWindow, rtt_dev: Span, now: Time) -> Interval {
        let n = measured.len().max(1) as f64;
        let spread = if measured.len() < ENOUGH { rtt_dev.micros() as f64 } else { measured.deviation() };
        let half = self.deviations * spread * (1.0 + 1.0 / n).sqrt() * self.ageing(measured.age(now));
        let mean = measured.mean();
        // The cast saturates: negative values become 0.
        let span = |micros: f64| Span::from_micros(micros as u64);
        Interval { low: span(mean - half), expected: span(mean), high: span(mean + half) }
    }

    /// Returns the factor by which the interval is wider at this age of the last measurement.
    fn ageing(&self, age: Span) -> f64 {
        (age.micros() as f64 / self.age_unit.micros() as f64).sqrt().clamp(1.0, self.age_cap)
    }
}

#[cfg(test)]
mod tests {

    use squall_units::short::{at_ms, at_us, ms, us};

    use super::*;
    use squall_sched::BlockQueue;

    const CONFIDENCE: Confidence = Confidence { deviations: 1.645, age_unit: ms(1_000), age_cap: 3.0 };

    fn window(samples: &[Span]) -> LatencyWindow {
        let mut window = LatencyWindow::new(8);
        samples.iter().for_each(|sample| window.observe(*sample, Time::EPOCH));
        window
    }

    #[test]
    fn the_interval_by_hand() {
        // Mean 10 ms; differences −2, 0, 2, 0: 8/3 = 1.633². Half: 1.645·1.633·sqrt(1.25) = 3.0034 ms.
        let four = window(&[ms(8), ms(10), ms(12), ms(10)]);
        let expected = Interval { low: us(6996), expected: ms(10), high: us(13_003) };
        assert_eq!(CONFIDENCE.predict(&four, us(9_999_999), at_ms(0)), expected);
        // After 4 s twice as wide, 6.0067 ms; after a minute three times.
        let expected = Interval { low: us(3993), expected: ms(10), high: us(16_006) };
        assert_eq!(CONFIDENCE.predict(&four, ms(0), at_ms(4_000)), expected);
        assert_eq!(CONFIDENCE.predict(&four, ms(0), at_ms(60_000)).high, us(19_010));
    }

    #[test]
    fn few_measurements_take_the_deviation_of_the_round_trip_time() {
        // Half: 1.645·1·sqrt(2) = 2.3264 ms.
        let expected = Interval { low: us(7673), expected: ms(10), high: us(12_326) };
        assert_eq!(CONFIDENCE.predict(&window(&[ms(10)]), ms(1), at_ms(0)), expected);
        let wide = CONFIDENCE.predict(&window(&[ms(10)]), ms(50), at_ms(0));
        assert_eq!(wide.low, Span::ZERO, "no latency is below 0");
    }

    #[test]
    fn ageing_follows_the_root_from_one_unit_to_the_cap() {
        let at = |millis: u64| CONFIDENCE.ageing(ms(millis));
        assert_eq!(
            [at(0), at(999), at(1000), at(4000), at(9000), at(100_000)],
            [1.0, 1.0, 1.0, 2.0, 3.0, 3.0]
        );
    }

    #[test]
    fn a_path_that_is_gone_leaves_nothing_to_the_next_of_its_id() {
        let mut raven = Raven::new(8, CONFIDENCE);
        let queue = BlockQueue::new();
        let paths = [PathView::example(0, ms(90), 12_000)];
        raven.next(&Context { now: Time::EPOCH, queue: &queue, paths: &paths });
        let gone = SchedEvent::PathChanged(PathId(0));
        raven.on_event(&gone, &Context { now: at_us(1), queue: &queue, paths: &paths });
        assert_eq!(raven.measured[0].len(), 1, "it only changed");
        raven.on_event(&gone, &Context { now: at_us(2), queue: &queue, paths: &[] });
        assert_eq!(raven.measured[0].len(), 0);
    }
}
