//! How well the arrival of data was predicted.

use std::collections::VecDeque;

use squall_sched::Micros;

/// Errors that are kept: at a report each few milliseconds about a second of a busy path.
const KEPT: usize = 256;
/// Errors from which a quantile is taken.
const ENOUGH: usize = 20;
/// A new quantile is taken after this many errors.
const STEP: u32 = 16;

/// The latest errors of prediction: arrival less expected arrival, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Predictions {
    errors: VecDeque<i64>,
    since: u32,
    /// 5 and 95 of 100 errors are below.
    bounds: (i64, i64),
}

impl Predictions {
    /// Data was expected at one time and arrived at another.
    pub(crate) fn observe(&mut self, expected: Micros, actual: Micros) {
        if self.errors.len() == KEPT {
            self.errors.pop_front();
        }
        self.errors.push_back(actual as i64 - expected as i64);
        self.since += 1;
        if self.since >= STEP && self.errors.len() >= ENOUGH {
            self.since = 0;
            let mut sorted: Vec<_> = self.errors.iter().copied().collect();
            let at = |share: usize| (sorted.len() - 1) * share / 100;
            let (low, high) = (at(5), at(95));
            let early = *sorted.select_nth_unstable(low).1;
            let late = *sorted.select_nth_unstable(high).1;
            self.bounds = (early, late);
        }
    }

    /// How much later than expected data arrives at most, in 95 of 100 cases.
    pub(crate) fn late(&self) -> Micros {
        self.bounds.1.max(0) as Micros
    }

    /// Within which bounds 90 of 100 errors are.
    pub(crate) fn bounds(&self) -> (i64, i64) {
        self.bounds
    }
}
