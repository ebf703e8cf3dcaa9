//! Means, medians and quantiles of several values, and how far off they may be.

use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};
use serde::{Deserialize, Serialize};

/// Samples of a bootstrap, and how many of them are beyond each end of the interval.
const SAMPLES: usize = 1_000;
const BEYOND: usize = 25;

/// A mean and how far off it may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of its 95 % confidence interval, by Student's t; none for one value.
    pub half: Option<f64>,
}

impl Estimate {
    /// Of these values; none if there is none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        match values.len() {
            0 => None,
            1 => Some(Self { mean, half: None }),
            n => {
                let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
                let error = (squares / (count - 1.0) / count).sqrt();
                Some(Self { mean, half: Some(student_t(n - 1) * error) })
            }
        }
    }
}

/// How far off what `effect` makes of the medians of both sides of these pairs may be: half of the 95 % interval
/// of the bootstrap (Efron, Annals of Statistics 7(1), 1979), which draws pairs from all pairs, as many as there
/// are, with repetition. The same pairs give the same interval; none for one pair.
pub(crate) fn spread_of_medians(
    pairs: &[(f64, f64)],
    effect: impl Fn((f64, f64)) -> Option<f64>,
) -> Option<f64> {
    if pairs.len() < 2 {
        return None;
    }
    let mut random = Pcg64Mcg::seed_from_u64(pairs.len() as u64);
    let mut draw = || pairs[(random.next_u64() % pairs.len() as u64) as usize];
    let sample = |_| {
        let sample: Vec<(f64, f64)> = pairs.iter().map(|_| draw()).collect();
        effect(medians(&sample)?)
    };
    let mut effects: Vec<f64> = (0..SAMPLES).filter_map(sample).collect();
    effects.sort_unstable_by(f64::total_cmp);
    let inner = effects.get(BEYOND..effects.len().saturating_sub(BEYOND))?;
    Some((inner.last()? - inner.first()?) / 2.0)
}

/// The medians of both sides; none of nothing.
pub(crate) fn medians(pairs: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (own, other): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    Some((median(own)?, median(other)?))
}

/// The middle value, or the mean of the two in the middle; none of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    Some(if values.len() % 2 == 1 { upper } else { (values[values.len() / 2 - 1] + upper) / 2.0 })
}

/// The smallest of these sorted values that `share` ten-thousandths of them do not exceed (nearest rank); none of
/// nothing.
pub(crate) fn nearest_rank<T: Copy>(sorted: &[T], share: usize) -> Option<T> {
    sorted.get((sorted.len() * share).div_ceil(10_000).max(1) - 1).copied()
}

/// 97.5 % quantile of Student's t distribution, the larger neighbour where the table has gaps.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [(usize, f64); 16] = [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (6, 2.447),
        (7, 2.365),
        (8, 2.306),
        (9, 2.262),
        (10, 2.228),
        (12, 2.179),
        (15, 2.131),
        (20, 2.086),
        (30, 2.042),
        (60, 2.000),
        (120, 1.980),
    ];
    TABLE.iter().rev().find(|(at, _)| *at <= freedom).map_or(TABLE[0].1, |(_, t)| *t)
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
    fn quantiles_of_student_round_to_wider_intervals() {
        assert_eq!((student_t(1), student_t(11), student_t(10_000)), (12.706, 2.228, 1.98));
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
    fn medians_are_not_moved_by_what_is_far_off() {
        let pairs: Vec<(f64, f64)> = (1..=41).map(|n| (f64::from(n), 2.0 * f64::from(n))).collect();
        assert_eq!(medians(&pairs), Some((21.0, 42.0)));
        let ratio = |(own, other): (f64, f64)| (other != 0.0).then(|| own / other);
        let half = spread_of_medians(&pairs, ratio).expect("has many");
        assert!(half < 1e-9, "each sample has the same ratio");
        let mut wild = pairs.clone();
        wild[40].0 = 1e9;
        let own = |(own, _): (f64, f64)| Some(own);
        assert_eq!(medians(&wild), medians(&pairs));
        let half = spread_of_medians(&wild, own).expect("has many");
        assert!((3.0..12.0).contains(&half), "{half}");
        assert_eq!(spread_of_medians(&wild, own), Some(half), "the same again");
        assert_eq!((medians(&[]), spread_of_medians(&wild[..1], own)), (None, None));
        assert_eq!(medians(&[(1.0, 0.0), (4.0, 0.0)]), Some((2.5, 0.0)));
    }
}
