//! Size of an effect with its interval, and the requirements of a claim.

use super::{Expectation, LEVEL, Verdict};
use crate::measure::Unit;
use crate::result::DistributionPoint;
use crate::statistics::{Estimate, bootstrap};

/// Share of the claimed size at which an effect holds. A ratio is raised to this power.
const SIZE: f64 = 0.75;

/// Relative tolerance of a claimed value.
const NEAR: f64 = 0.25;

/// Largest number of seeds that is still a useful suggestion.
const MOST_SEEDS: f64 = 10_000.0;

/// Most likely size of an effect, with its confidence interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    pub(super) size: f64,
    /// `None` for a single seed.
    pub(super) interval: Option<Interval>,
    /// Number of runs that the effect is computed from.
    pub(super) runs: usize,
}

/// Confidence interval of an effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Interval {
    pub(super) fn around(middle: f64, half: f64) -> Self {
        Self { low: middle - half, high: middle + half }
    }

    /// Compares the interval with the smallest effect that holds, whose sign is the direction, and
    /// with twice the claimed one.
    pub(super) fn compared(&self, enough: f64, twice: f64) -> Verdict {
        let ends = [self.low, self.high].map(|end| enough.signum() * end);
        let (least, most) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        let enough = enough.abs();
        match least {
            _ if least <= 0.0 && most < enough => Verdict::DoesNotHold,
            _ if least <= 0.0 => Verdict::Unclear,
            _ if least > twice.abs() => Verdict::Exceeds,
            _ if least >= enough => Verdict::Holds,
            _ => Verdict::DirectionOnly,
        }
    }

    /// Compares the interval with the smallest and the largest value that a claim allows.
    pub(super) fn within(&self, least: f64, most: f64) -> Verdict {
        if least <= self.low && self.high <= most {
            Verdict::Holds
        } else if self.high < least || most < self.low {
            Verdict::DoesNotHold
        } else {
            Verdict::Unclear
        }
    }
}

/// Requirement of a claim on its effect.
pub(super) enum Asked {
    /// Smallest effect that holds, whose sign is the direction, and twice the claimed effect.
    Size(f64, f64),
    /// Smallest and largest allowed value.
    Within(f64, f64),
}

impl Asked {
    pub(super) fn of(expectation: Expectation, unit: Unit) -> Option<Self> {
        // Any effect clear of zero reaches this.
        let way = f64::MIN_POSITIVE;
        Some(match expectation {
            Expectation::Change(claimed) => Self::change(1.0 + claimed),
            Expectation::Times(times) => Self::change(times),
            Expectation::Difference(claimed) => Self::Size(SIZE * claimed, 2.0 * claimed),
            Expectation::Less => Self::Size(-way, f64::INFINITY),
            Expectation::More => Self::Size(way, f64::INFINITY),
            Expectation::Value(claimed) => {
                let near = tolerance(unit, claimed);
                Self::Within(claimed - near, claimed + near)
            }
            Expectation::AtLeast(limit) | Expectation::ChangeAtLeast(limit) => {
                Self::Within(limit, f64::INFINITY)
            }
            Expectation::AtMost(limit) => Self::Within(f64::NEG_INFINITY, limit),
            Expectation::Best(_) => return None,
        })
    }

    /// Relative change by this factor. Applied twice, it is the square; three quarters of it are
    /// the power of three quarters.
    fn change(factor: f64) -> Self {
        Self::Size(factor.powf(SIZE) - 1.0, factor * factor - 1.0)
    }

    pub(super) fn judge(&self, effect: &Effect) -> Verdict {
        match (self, &effect.interval) {
            (_, None) => Verdict::Unclear,
            (Self::Size(enough, twice), Some(interval)) => interval.compared(*enough, *twice),
            (Self::Within(least, most), Some(interval)) => interval.within(*least, *most),
        }
    }

    /// Returns the number of runs that would probably decide: that for which the half width of the
    /// interval is smaller than the distance of its middle to the nearest limit of the claim.
    /// `None` if the middle is on a limit.
    pub(super) fn seeds(&self, effect: &Effect) -> Option<u32> {
        let interval = effect.interval?;
        let off = |limit: f64| (effect.size - limit).abs();
        let room = match self {
            // Excluding either zero or the claimed effect suffices.
            Self::Size(enough, _) => off(0.0).max(off(*enough)),
            Self::Within(least, most) => off(*least).min(off(*most)),
        };
        let seeds = effect.runs as f64 * ((interval.high - interval.low) / 2.0 / room).powi(2);
        (seeds <= MOST_SEEDS).then(|| seeds.ceil() as u32)
    }
}

/// Tolerance of a claimed value, at least one unit of the last digit that papers print.
pub(super) fn tolerance(unit: Unit, claimed: f64) -> f64 {
    let near = NEAR * claimed.abs().min(1.0 - claimed);
    match unit {
        Unit::Level | Unit::Frames => 1.0,
        Unit::Ratio if claimed <= 1.0 => near.max(0.001),
        Unit::Likeness if claimed <= 1.0 => near.max(0.01),
        _ => NEAR * claimed.abs(),
    }
}

/// Values of the claimed scheduler and those to compare with, run by run.
pub(super) type Pairs = Vec<(f64, f64)>;

impl Effect {
    /// `true` if the effect is too small to count in either direction.
    pub(super) fn is_next_to_none(&self) -> bool {
        self.interval.is_some_and(|interval| -LEVEL <= interval.low && interval.high <= LEVEL)
    }

    /// `true` if the effect is zero in every run.
    pub(super) fn is_none(&self) -> bool {
        self.interval.is_some_and(|interval| interval.low == 0.0 && interval.high == 0.0)
    }

    /// Mean of these values, as one of several cells among which it is selected.
    pub(super) fn of(values: &[f64], choices: usize) -> Option<Self> {
        let Estimate { mean, half } = Estimate::among(values, choices)?;
        Some(Self { size: mean, interval: half.map(|half| Interval::around(mean, half)), runs: values.len() })
    }
}

/// Effect in a cell, as one of several cells among which it is selected.
pub(super) fn compare(expectation: Expectation, pairs: &[(f64, f64)], choices: usize) -> Option<Effect> {
    let of = |value: &dyn Fn(&(f64, f64)) -> f64| {
        Effect::of(&pairs.iter().map(value).collect::<Vec<_>>(), choices)
    };
    match expectation {
        _ if !expectation.compares() => of(&|(own, _)| *own),
        Expectation::Difference(_) => of(&|(own, other)| own - other),
        _ if pairs.iter().all(|(own, other)| *own > 0.0 && *other > 0.0) => {
            let Effect { size, interval, runs } = of(&|(own, other)| (own / other).ln())?;
            let interval =
                interval.map(|Interval { low, high }| Interval { low: low.exp_m1(), high: high.exp_m1() });
            Some(Effect { size: size.exp_m1(), interval, runs })
        }
        _ => {
            let base = pairs.iter().map(|(_, other)| other).sum::<f64>() / pairs.len() as f64;
            of(&|(own, other)| (own - other) / base).filter(|_| base > 0.0)
        }
    }
}

/// Averages the first runs of all cells, the second runs, and so on.
pub(super) fn mean_of_cells(cells: &[Pairs]) -> Pairs {
    let runs = cells.iter().map(Vec::len).min().unwrap_or(0);
    let mean = |run: usize, of: fn(&(f64, f64)) -> f64| {
        cells.iter().map(|cell| of(&cell[run])).sum::<f64>() / cells.len() as f64
    };
    (0..runs).map(|run| (mean(run, |pair| pair.0), mean(run, |pair| pair.1))).collect()
}

/// Returns the effect of one value relative to another in the terms of the claim.
pub(super) fn sized(expectation: Expectation, (own, other): (f64, f64)) -> Option<f64> {
    match expectation {
        _ if !expectation.compares() => Some(own),
        Expectation::Difference(_) => Some(own - other),
        _ => (other > 0.0).then(|| own / other - 1.0),
    }
}

/// Effect over all runs together, with the interval of the bootstrap.
pub(super) fn resampled<T>(runs: &[T], effect: impl Fn(&[&T]) -> Option<f64>) -> Option<Effect> {
    let size = effect(&runs.iter().collect::<Vec<_>>())?;
    let interval = bootstrap(runs, effect).map(|(low, high)| Interval { low, high });
    Some(Effect { size, interval, runs: runs.len() })
}

/// Latency distribution of a run.
#[derive(Clone, Copy)]
pub(super) struct Tail<'a> {
    /// Number of blocks that arrived or were cancelled.
    pub(super) decided: f64,
    pub(super) points: &'a [DistributionPoint],
}

impl Tail<'_> {
    /// Share of blocks with a higher latency.
    pub(super) fn later(&self, latency_us: u64) -> f64 {
        let after = self.points.partition_point(|point| point.latency_us <= latency_us);
        after.checked_sub(1).map_or(1.0, |at| self.points[at].later)
    }
}

/// Returns the percentile of the latencies of all runs together, in microseconds. `None` if too
/// many blocks never arrived.
pub(super) fn pooled<'a>(runs: impl Iterator<Item = Tail<'a>>, share: f64) -> Option<f64> {
    let runs: Vec<Tail<'_>> = runs.collect();
    let all: f64 = runs.iter().map(|run| run.decided).sum();
    let mut latencies: Vec<u64> =
        runs.iter().flat_map(|run| run.points).map(|point| point.latency_us).collect();
    latencies.sort_unstable();
    latencies.dedup();
    let later = |latency: u64| runs.iter().map(|run| run.decided * run.later(latency)).sum::<f64>();
    let at = latencies.partition_point(|latency| later(*latency) > (1.0 - share) * all);
    latencies.get(at).map(|latency| *latency as f64)
}
