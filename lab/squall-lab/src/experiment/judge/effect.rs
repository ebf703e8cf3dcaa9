//! The size of an effect, between what it may be, and what a claim asks of it.

use super::{Expectation, LEVEL, Verdict};
use crate::measure::Unit;
use crate::result::DistributionPoint;
use crate::statistics::{Estimate, bootstrap};

/// Share of the size of a claimed effect at which it holds.
const SIZE: f64 = 0.75;

/// How far from a claimed value a measured one may be, as a share of it.
const NEAR: f64 = 0.25;

/// More seeds than this are no advice.
const MOST_SEEDS: f64 = 10_000.0;

/// What was found: the most likely size of an effect, and between what it may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    pub(super) size: f64,
    /// None for one seed.
    pub(super) interval: Option<Interval>,
    /// How many runs it rests on.
    pub(super) runs: usize,
}

/// Between what an effect may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Interval {
    pub(super) fn around(middle: f64, half: f64) -> Self {
        Self { low: middle - half, high: middle + half }
    }

    /// Beside a claimed difference, whose sign is the way it goes, and twice that.
    pub(super) fn compared(&self, claimed: f64, twice: f64) -> Verdict {
        let ends = [self.low, self.high].map(|end| claimed.signum() * end);
        let (least, most) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        let enough = SIZE * claimed.abs();
        match least {
            _ if least <= 0.0 && most < enough => Verdict::DoesNotHold,
            _ if least <= 0.0 => Verdict::Unclear,
            _ if least > twice.abs() => Verdict::Exceeds,
            _ if least >= enough => Verdict::Holds,
            _ => Verdict::DirectionOnly,
        }
    }

    /// Beside the least and the most that a claim allows.
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

/// What a claim asks of an effect.
pub(super) enum Asked {
    /// To go this way, and to be about as large as the first; the second is twice that.
    Size(f64, f64),
    /// To be between these.
    Within(f64, f64),
}

impl Asked {
    pub(super) fn of(expectation: Expectation, unit: Unit) -> Option<Self> {
        // Any effect that is clear of chance is three quarters of nothing.
        let way = f64::MIN_POSITIVE;
        Some(match expectation {
            Expectation::Change(claimed) => Self::change(1.0 + claimed),
            Expectation::Times(times) => Self::change(times),
            Expectation::Difference(claimed) => Self::Size(claimed, 2.0 * claimed),
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

    /// To change by this factor. Made twice, it is its square.
    fn change(factor: f64) -> Self {
        Self::Size(factor - 1.0, factor * factor - 1.0)
    }

    pub(super) fn judge(&self, effect: &Effect) -> Verdict {
        match (self, &effect.interval) {
            (_, None) => Verdict::Unclear,
            (Self::Size(claimed, twice), Some(interval)) => interval.compared(*claimed, *twice),
            (Self::Within(least, most), Some(interval)) => interval.within(*least, *most),
        }
    }

    /// How many runs would probably decide: the ends of the interval are then nearer to its middle than the limits
    /// that the claim sets. None where the middle is on a limit.
    pub(super) fn seeds(&self, effect: &Effect) -> Option<u32> {
        let interval = effect.interval?;
        let off = |limit: f64| (effect.size - limit).abs();
        let room = match self {
            // To leave out one of none and the claimed effect is enough.
            Self::Size(claimed, _) => off(0.0).max(off(SIZE * claimed)),
            Self::Within(least, most) => off(*least).min(off(*most)),
        };
        let seeds = effect.runs as f64 * ((interval.high - interval.low) / 2.0 / room).powi(2);
        (seeds <= MOST_SEEDS).then(|| seeds.ceil() as u32)
    }
}

/// How far from a claimed value a measured one may be; never nearer than the last digit that papers print.
pub(super) fn tolerance(unit: Unit, claimed: f64) -> f64 {
    let near = NEAR * claimed.abs().min(1.0 - claimed);
    match unit {
        Unit::Level | Unit::Frames => 1.0,
        Unit::Ratio if claimed <= 1.0 => near.max(0.001),
        Unit::Likeness if claimed <= 1.0 => near.max(0.01),
        _ => NEAR * claimed.abs(),
    }
}

/// The claimed scheduler's values and those it is compared with, run by run.
pub(super) type Pairs = Vec<(f64, f64)>;

impl Effect {
    /// Whether it is too small to count, either way.
    pub(super) fn is_next_to_none(&self) -> bool {
        self.interval.is_some_and(|interval| -LEVEL <= interval.low && interval.high <= LEVEL)
    }

    /// Whether it is none in every run.
    pub(super) fn is_none(&self) -> bool {
        self.interval.is_some_and(|interval| interval.low == 0.0 && interval.high == 0.0)
    }

    /// The mean of these values as one of several that it is chosen from.
    pub(super) fn of(values: &[f64], choices: usize) -> Option<Self> {
        let Estimate { mean, half } = Estimate::among(values, choices)?;
        Some(Self { size: mean, interval: half.map(|half| Interval::around(mean, half)), runs: values.len() })
    }
}

/// The effect that runs show, as one of several cells that it is chosen from.
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

/// The first run of every cell as one, the second of every cell, and so on: the means of what they have.
pub(super) fn mean_of_cells(cells: &[Pairs]) -> Pairs {
    let runs = cells.iter().map(Vec::len).min().unwrap_or(0);
    let mean = |run: usize, of: fn(&(f64, f64)) -> f64| {
        cells.iter().map(|cell| of(&cell[run])).sum::<f64>() / cells.len() as f64
    };
    (0..runs).map(|run| (mean(run, |pair| pair.0), mean(run, |pair| pair.1))).collect()
}

/// What a claim says of one value beside another.
pub(super) fn sized(expectation: Expectation, (own, other): (f64, f64)) -> Option<f64> {
    match expectation {
        _ if !expectation.compares() => Some(own),
        Expectation::Difference(_) => Some(own - other),
        _ => (other > 0.0).then(|| own / other - 1.0),
    }
}

/// The effect of all runs together, with the interval of the bootstrap.
pub(super) fn resampled<T>(runs: &[T], effect: impl Fn(&[&T]) -> Option<f64>) -> Option<Effect> {
    let size = effect(&runs.iter().collect::<Vec<_>>())?;
    let interval = bootstrap(runs, effect).map(|(low, high)| Interval { low, high });
    Some(Effect { size, interval, runs: runs.len() })
}

/// How latencies of a run are distributed.
#[derive(Clone, Copy)]
pub(super) struct Tail<'a> {
    /// How many blocks arrived or were cancelled.
    pub(super) decided: f64,
    pub(super) points: &'a [DistributionPoint],
}

impl Tail<'_> {
    /// The share of blocks that took longer.
    pub(super) fn later(&self, latency_us: u64) -> f64 {
        let after = self.points.partition_point(|point| point.latency_us <= latency_us);
        after.checked_sub(1).map_or(1.0, |at| self.points[at].later)
    }
}

/// The latency in microseconds that a share of the blocks of all runs do not exceed; none if a larger share never arrived.
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
