//! Latencies of any number of blocks in constant memory.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{LatencyPoint, LostReason, round6};
use crate::statistics::nearest_rank;

/// Upper limit of recorded times, 24 h; longer times count as this.
const MAX_US: u64 = 86_400_000_000;

/// Maximum number of points of a latency series.
const MAX_POINTS: usize = 4_000;

/// Percentiles of times in microseconds, exact to three significant digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean_us: u64,
    /// Median.
    pub p50_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 95th percentile.
    pub p95_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// 99.9th percentile.
    pub p999_us: u64,
    /// 99.99th percentile.
    pub p9999_us: u64,
    /// The largest value, exact.
    pub max_us: u64,
    /// The smallest value, exact; 0 in results of versions that did not record it.
    #[serde(default)]
    pub min_us: u64,
}

impl Percentiles {
    /// Computes exact percentiles of times in microseconds; `None` if there are none.
    pub(crate) fn of(mut times: Vec<u64>) -> Option<Self> {
        times.sort_unstable();
        let (min_us, max_us) = (*times.first()?, *times.last()?);
        let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
        let mean_us = (sum / times.len() as u128) as u64;
        let at = |share| nearest_rank(&times, share).unwrap_or(max_us);
        Some(Self::with((times.len() as u64, mean_us, min_us, max_us), at))
    }

    /// Creates percentiles from count, mean, minimum, maximum, and a function that returns the
    /// quantile for a share in ten-thousandths.
    fn with((count, mean_us, min_us, max_us): (u64, u64, u64, u64), at: impl Fn(usize) -> u64) -> Self {
        Self {
            count,
            mean_us,
            p50_us: at(5_000),
            p90_us: at(9_000),
            p95_us: at(9_500),
            p99_us: at(9_900),
            p999_us: at(9_990),
            p9999_us: at(9_999),
            max_us,
            min_us,
        }
    }
}

/// A point of a complementary cumulative distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DistributionPoint {
    /// A latency in microseconds.
    pub latency_us: u64,
    /// Share of blocks with a higher latency, 0 to 1.
    pub later: f64,
}

/// A histogram of times.
#[derive(Debug, Clone)]
pub(super) struct Times {
    histogram: Histogram<u64>,
    min_us: u64,
    max_us: u64,
    sum_us: u128,
}

impl Times {
    pub(super) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_US, 3).expect("constant bounds are valid");
        Self { histogram, min_us: u64::MAX, max_us: 0, sum_us: 0 }
    }

    pub(super) fn record(&mut self, us: u64) {
        self.min_us = self.min_us.min(us);
        self.max_us = self.max_us.max(us);
        self.sum_us += u128::from(us);
        self.histogram.saturating_record(us.clamp(1, MAX_US));
    }

    /// Merges several histograms.
    pub(super) fn merged<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        all.fold(Self::new(), |mut sum, times| {
            sum.min_us = sum.min_us.min(times.min_us);
            sum.max_us = sum.max_us.max(times.max_us);
            sum.sum_us += times.sum_us;
            sum.histogram.add(&times.histogram).expect("bounds are the same");
            sum
        })
    }

    /// The longest time; 0 if there are none.
    pub(super) fn max_us(&self) -> u64 {
        self.max_us
    }

    pub(super) fn percentiles(&self) -> Option<Percentiles> {
        let count = self.histogram.len();
        let mean_us = (self.sum_us / u128::from(count.max(1))) as u64;
        let at = |share| self.histogram.value_at_quantile(share as f64 / 1e4).min(self.max_us);
        (count > 0).then(|| Percentiles::with((count, mean_us, self.min_us, self.max_us), at))
    }

    /// Returns the share of `decided` blocks that took longer than each recorded time; `decided`
    /// includes blocks that never arrived. Thinned to steps of 0.5 % of all blocks or 3 % of the
    /// remaining ones.
    pub(super) fn tail(&self, decided: u64) -> Vec<DistributionPoint> {
        if self.histogram.is_empty() {
            return Vec::new();
        }
        let decided = decided.max(self.histogram.len());
        let mut left = decided;
        let first = self.histogram.min().min(self.max_us);
        let mut points = vec![DistributionPoint { latency_us: first.saturating_sub(1), later: 1.0 }];
        let mut last_kept = decided;
        for step in self.histogram.iter_recorded() {
            left -= step.count_since_last_iteration();
            let gone = last_kept - left;
            let at_end = step.value_iterated_to() >= self.histogram.max();
            if at_end || gone as f64 >= (decided as f64 * 0.005).min(last_kept as f64 * 0.03) {
                let latency_us = step.value_iterated_to().min(self.max_us);
                points.push(DistributionPoint { latency_us, later: round6(left as f64 / decided as f64) });
                last_kept = left;
            }
        }
        points
    }
}

/// A latency series that keeps the slowest block of each of at most 4,000 intervals.
#[derive(Debug, Clone)]
pub(super) struct Thinned {
    interval_us: u64,
    slots: Vec<Option<LatencyPoint>>,
}

impl Thinned {
    /// Creates the series for a run of this length; later values share the last interval.
    pub(super) fn new(duration_us: u64) -> Self {
        Self { interval_us: duration_us.div_ceil(MAX_POINTS as u64).max(1), slots: vec![None; MAX_POINTS] }
    }

    pub(super) fn record(&mut self, point: LatencyPoint) {
        let index = usize::try_from(point.at_us / self.interval_us).unwrap_or(usize::MAX);
        let slot = &mut self.slots[index.min(MAX_POINTS - 1)];
        if slot.is_none_or(|kept| kept.latency_us < point.latency_us) {
            *slot = Some(point);
        }
    }

    pub(super) fn points(&self) -> Vec<LatencyPoint> {
        self.slots.iter().copied().flatten().collect()
    }
}

/// Blocks that never arrived, with the reason: the first in each of at most 4,000 intervals.
#[derive(Debug, Clone)]
pub(super) struct Missing {
    interval_us: u64,
    slots: BTreeMap<u64, (u64, LostReason)>,
}

impl Missing {
    /// Creates the series for a run of this length; later blocks share the last interval.
    pub(super) fn new(duration_us: u64) -> Self {
        Self { interval_us: duration_us.div_ceil(MAX_POINTS as u64).max(1), slots: BTreeMap::new() }
    }

    /// Records a block that was offered at this time.
    pub(super) fn record(&mut self, at_us: u64, why: LostReason) {
        let slot = (at_us / self.interval_us).min(MAX_POINTS as u64 - 1);
        self.slots.entry(slot).or_insert((at_us, why));
    }

    /// Returns the offer times and the reasons.
    pub(super) fn into_columns(self) -> (Vec<u64>, Vec<LostReason>) {
        self.slots.into_values().unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn merged_times_are_those_of_all() {
        let (mut early, mut late) = (Times::new(), Times::new());
        (1..=99).for_each(|us| early.record(us));
        late.record(5_001);
        let all = Times::merged([&early, &late].into_iter()).percentiles().expect("has times");
        assert_eq!((all.count, all.p50_us, all.p99_us), (100, 50, 99));
        assert_eq!((all.min_us, all.max_us), (1, 5_001));
        assert_eq!(Times::merged(std::iter::empty()).percentiles(), None);
    }

    #[test]
    fn exact_percentiles_are_times_that_occurred() {
        let all = Percentiles::of((1..=1_000).rev().collect()).unwrap();
        assert_eq!((all.count, all.mean_us, all.p50_us, all.p99_us), (1_000, 500, 500, 990));
        assert_eq!((all.p999_us, all.p9999_us, all.min_us, all.max_us), (999, 1_000, 1, 1_000));
        assert_eq!(Percentiles::of(vec![7]).unwrap().p50_us, 7);
        assert_eq!(Percentiles::of(Vec::new()), None);
    }

    #[test]
    fn percentiles_of_a_ramp() {
        let mut times = Times::new();
        assert_eq!(times.percentiles(), None);
        (1..=1_000).for_each(|ms| times.record(ms * 1_000));
        let p = times.percentiles().unwrap();
        assert_eq!((p.count, p.min_us, p.max_us), (1_000, 1_000, 1_000_000));
        for (value, exact) in [(p.p50_us, 500_000), (p.p99_us, 990_000), (p.p999_us, 999_000)] {
            assert!(value.abs_diff(exact) <= exact / 900, "{value} for {exact}");
        }
    }

    #[test]
    fn tail_counts_the_missing() {
        let mut times = Times::new();
        (1..=90).for_each(|ms| times.record(ms * 1_000));
        let tail = times.tail(100);
        assert_eq!(tail.first().unwrap().later, 1.0);
        assert_eq!(tail.last().unwrap(), &DistributionPoint { latency_us: 90_000, later: 0.1 });
    }

    #[test]
    fn times_beyond_a_day_saturate() {
        let mut times = Times::new();
        times.record(u64::MAX);
        times.record(0);
        assert_eq!(times.percentiles().unwrap().max_us, u64::MAX);
        assert_eq!(times.tail(2).last().unwrap().later, 0.0);
    }

    #[test]
    fn the_first_missing_block_of_an_interval_is_kept() {
        let mut missing = Missing::new(8_000_000);
        missing.record(500, LostReason::Expired);
        missing.record(1_999, LostReason::Cancelled);
        missing.record(2_000, LostReason::Cancelled);
        missing.record(u64::MAX, LostReason::Closed);
        let (at_us, why) = missing.into_columns();
        assert_eq!(at_us, [500, 2_000, u64::MAX]);
        assert_eq!(why, [LostReason::Expired, LostReason::Cancelled, LostReason::Closed]);
    }

    proptest! {
        #[test]
        fn tail_falls_and_ends_at_the_missing(us in prop::collection::vec(0u64..10_000_000, 1..500), missing in 0u64..50) {
            let mut times = Times::new();
            us.iter().for_each(|&us| times.record(us));
            let tail = times.tail(us.len() as u64 + missing);
            prop_assert!(tail.windows(2).all(|w| w[0].later >= w[1].later && w[0].latency_us <= w[1].latency_us));
            let expected = round6(missing as f64 / (us.len() as u64 + missing) as f64);
            prop_assert_eq!(tail.last().unwrap().later, expected);
        }

        #[test]
        fn thinning_keeps_the_maximum(points in prop::collection::vec((0u64..90_000_000, 0u64..5_000_000), 1..300)) {
            let mut thinned = Thinned::new(60_000_000);
            for &(at_us, latency_us) in &points {
                thinned.record(LatencyPoint { at_us, latency_us });
            }
            let kept = thinned.points();
            prop_assert!(kept.len() <= MAX_POINTS);
            prop_assert_eq!(kept.iter().map(|p| p.latency_us).max(), points.iter().map(|p| p.1).max());
        }
    }
}
