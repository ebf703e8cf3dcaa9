//! Means, medians and quantiles of several values, with their uncertainty.

use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Samples of a bootstrap.
const SAMPLES: usize = 1_000;
/// Number of samples beyond each end of the interval.
const BEYOND: usize = 25;

/// A mean and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of the 95 % confidence interval, by Student's t; `None` for a single value.
    pub half: Option<f64>,
}

impl Estimate {
    /// Computes the mean of the values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        Self::among(values, 1)
    }

    /// Mean of the values, if they were selected from `choices` such lists because of their values:
    /// the interval is one of 1 − 5 %/choices (Bonferroni).
    pub(crate) fn among(values: &[f64], choices: usize) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        match values.len() {
            0 => None,
            1 => Some(Self { mean, half: None }),
            n => {
                let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
                let error = (squares / (count - 1.0) / count).sqrt();
                let beyond = 0.05 / choices.max(1) as f64;
                Some(Self { mean, half: Some(student_t(n - 1, beyond) * error) })
            }
        }
    }
}

/// Computes the 95 % interval of `effect` by the bootstrap (Efron, Annals of Statistics 7(1),
/// 1979), which draws as many runs as there are from all runs, with replacement. Deterministic;
/// `None` for a single run.
pub(crate) fn bootstrap<T>(runs: &[T], effect: impl Fn(&[&T]) -> Option<f64>) -> Option<(f64, f64)> {
    if runs.len() < 2 {
        return None;
    }
    let mut random = Pcg64Mcg::seed_from_u64(runs.len() as u64);
    let mut sample = |_| {
        let sample: Vec<&T> =
            runs.iter().map(|_| &runs[(random.next_u64() % runs.len() as u64) as usize]).collect();
        effect(&sample)
    };
    let mut effects: Vec<f64> = (0..SAMPLES).filter_map(&mut sample).collect();
    effects.sort_unstable_by(f64::total_cmp);
    let inner = effects.get(BEYOND..effects.len().saturating_sub(BEYOND))?;
    Some((*inner.first()?, *inner.last()?))
}

/// The middle value, or the mean of the two in the middle; `None` for an empty list.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    Some(if values.len() % 2 == 1 { upper } else { (values[values.len() / 2 - 1] + upper) / 2.0 })
}

/// Returns the smallest of the sorted values that at least `share` ten-thousandths of them do not
/// exceed (nearest rank); `None` for an empty slice.
pub(crate) fn nearest_rank<T: Copy>(sorted: &[T], share: usize) -> Option<T> {
    sorted.get((sorted.len() * share).div_ceil(10_000).max(1) - 1).copied()
}

/// Returns the quantile of Student's t distribution that is exceeded, on both sides together, with
/// probability `beyond`.
fn student_t(freedom: usize, beyond: f64) -> f64 {
    let distribution = StudentsT::new(0.0, 1.0, freedom as f64).expect("there are two values or more");
    distribution.inverse_cdf(1.0 - beyond / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_student() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]).expect("has values");
        assert!((estimate.mean - 2.0).abs() < 1e-9);
        assert!((estimate.half.expect("has three") - 2.484).abs() < 1e-3, "4.303 × 1 / √3");
        assert_eq!(Estimate::of(&[5.0]), Some(Estimate { mean: 5.0, half: None }));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn a_choice_among_many_widens_the_interval() {
        let half =
            |choices| Estimate::among(&[1.0, 2.0, 3.0], choices).and_then(|e| e.half).expect("has three");
        // 99 % for five: 9.925 / √3.
        assert!((half(1) - 2.484).abs() < 1e-3 && (half(5) - 5.730).abs() < 1e-3, "{} {}", half(1), half(5));
    }

    #[test]
    fn quantiles_of_student_are_those_of_tables() {
        for (freedom, beyond, t) in [(1, 0.05, 12.706), (4, 0.05, 2.776), (11, 0.05, 2.201), (9, 0.01, 3.250)]
        {
            assert!((student_t(freedom, beyond) - t).abs() < 1e-3, "{freedom}, {beyond}");
        }
        assert!((student_t(10_000, 0.05) - 1.960).abs() < 1e-3);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn ranks_are_values_that_occur() {
        assert_eq!(nearest_rank(&[1, 2, 3, 4], 5_000), Some(2));
        assert_eq!(nearest_rank(&[1, 2, 3, 4], 5_001), Some(3));
        assert_eq!((nearest_rank(&[7], 0), nearest_rank::<u8>(&[], 5_000)), (Some(7), None));
    }

    #[test]
    fn a_bootstrap_is_the_same_each_time_and_not_moved_by_what_is_far_off() {
        let own = |sample: &[&f64]| median(sample.iter().copied().copied().collect());
        let mut values: Vec<f64> = (1..=41).map(f64::from).collect();
        let (low, high) = bootstrap(&values, own).expect("has many");
        assert!((10.0..20.0).contains(&low) && (22.0..32.0).contains(&high), "{low} to {high}");
        values[40] = 1e9;
        let wild = bootstrap(&values, own);
        assert_eq!(wild, bootstrap(&values, own), "the same again");
        assert!(wild.is_some_and(|(_, high)| high < 32.0), "{wild:?}");
        assert_eq!(bootstrap(&values[..1], own), None);
    }
}
