//! Lead of the signal: rank correlation of the quality index with the rate, at several lags.

use std::ops::RangeInclusive;

use squall_signal::QualityIndex;

use crate::{Micros, Recording};

/// The evaluated lags, in seconds.
pub const LAGS: RangeInclusive<i64> = -2..=5;

/// Validity of an index: until the next one, but at most as long as a radio's report is trusted
/// ([`WatermarkConfig::stale`](squall_signal::WatermarkConfig::stale)).
const HOLD: Micros = 5_000_000;

/// Minimum number of pairs for a correlation.
const FEWEST: usize = 20;

/// Correlation of the rate with an earlier quality index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lag {
    /// Time from the signal to the rate, in seconds: if the correlation is highest at a positive
    /// lag, the signal leads.
    pub seconds: i64,
    /// Spearman's rank correlation, −1…1; `None` if there are fewer than 20 pairs or one side never changes.
    pub correlation: Option<f64>,
    /// Number of pairs.
    pub pairs: usize,
}

impl Recording {
    /// Returns the correlation at each of [`LAGS`], of each rate with the index valid that long
    /// before.
    pub fn lags(&self, index: &QualityIndex) -> Vec<Lag> {
        let qualities: Vec<(Micros, f64)> = self
            .readings()
            .filter_map(|reading| Some((reading.at.micros(), index.base(&reading)?)))
            .collect();
        LAGS.map(|seconds| {
            let pairs: Vec<(f64, f64)> = self
                .rates()
                .filter_map(|(at, rate)| {
                    Some((held(&qualities, at.checked_add_signed(-seconds * 1_000_000)?)?, rate))
                })
                .collect();
            let correlation = if pairs.len() < FEWEST { None } else { rank_correlation(&pairs) };
            Lag { seconds, correlation, pairs: pairs.len() }
        })
        .collect()
    }
}

/// Returns the last value that is not after `at`, unless it is too old.
fn held(series: &[(Micros, f64)], at: Micros) -> Option<f64> {
    let (since, value) = *series[..series.partition_point(|&(since, _)| since <= at)].last()?;
    (at - since <= HOLD).then_some(value)
}

/// Returns Spearman's rank correlation: Pearson's of the ranks, where equal values share their mean
/// rank. `None` if there are fewer than two pairs, a value is NaN, or one side is constant.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 2 || pairs.iter().any(|(a, b)| a.is_nan() || b.is_nan()) {
        return None;
    }
    let first = ranks(pairs.iter().map(|pair| pair.0));
    let second = ranks(pairs.iter().map(|pair| pair.1));
    // Ranks 1…n have this mean, whether shared or not.
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let spread = (product(&first, &first) * product(&second, &second)).sqrt();
    (spread > 0.0).then(|| (product(&first, &second) / spread).clamp(-1.0, 1.0))
}

fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut order: Vec<(f64, usize)> = values.enumerate().map(|(place, value)| (value, place)).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0.0; order.len()];
    let mut below = 0;
    // 0 and −0 are equal, but not for `total_cmp`; they are adjacent.
    for equal in order.chunk_by(|a, b| a.0 == b.0) {
        let rank = below as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|&(_, place)| ranks[place] = rank);
        below += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Quantity, Row, Tech};

    #[test]
    fn the_order_counts_and_nothing_else() {
        let of = |pairs: &[(f64, f64)]| rank_correlation(pairs).map(|r| (r * 1e4).round() / 1e4);
        assert_eq!(of(&[(1.0, 1.0), (2.0, 10.0), (3.0, 1e9)]), Some(1.0));
        assert_eq!(of(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), Some(-1.0));
        // d = (0, 1, −1, 0): 1 − 6·2/(4·15) = 0.8.
        assert_eq!(of(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 4.0)]), Some(0.8));
        // Ranks 1, 2.5, 2.5, 4 with 1, 2, 3, 4: 4.5/√(4.5·5).
        assert_eq!(of(&[(1.0, 1.0), (2.0, 2.0), (2.0, 3.0), (3.0, 4.0)]), Some(0.9487));
        assert_eq!(of(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(of(&[(1.0, 1.0)]), None);
        assert_eq!(of(&[(f64::NAN, 1.0), (1.0, 2.0)]), None);
    }

    /// Returns a recording of a signal without a pattern, and a rate that follows it `late` seconds
    /// later.
    fn following(late: usize) -> Recording {
        let level = |second: usize| -50.0 - (second * second % 37) as f64;
        let tech = Tech::new("WiFi").expect("is a word");
        let row = |second: usize| Row {
            tech: tech.clone(),
            ..Row::new(second as Micros * 1_000_000)
                .with(Quantity::Down, second.checked_sub(late).map(|then| 100.0 + level(then)))
                .with(Quantity::Rssi, level(second))
        };
        Recording::new((0..60).map(row).collect()).expect("is one")
    }

    #[test]
    fn a_signal_that_leads_does_so_at_its_lag() {
        for late in [0, 1, 3] {
            let lags = following(late).lags(&QualityIndex::default());
            let best =
                lags.iter().max_by(|a, b| a.correlation.partial_cmp(&b.correlation).expect("are numbers"));
            let best = best.expect("there are lags");
            assert_eq!((best.seconds, best.pairs), (late as i64, 60 - late));
            assert!(best.correlation > Some(0.999), "{best:?}");
        }
    }

    #[test]
    fn an_old_index_counts_no_more() {
        let mut rows = following(0).rows().to_vec();
        rows.iter_mut().skip(1).for_each(|row| row[Quantity::Rssi] = None);
        let lags = Recording::new(rows).expect("is one").lags(&QualityIndex::default());
        assert_eq!(lags[2].pairs, 6);
        assert_eq!(lags[2].correlation, None);
    }

    proptest! {
        #[test]
        fn correlation_is_symmetric_and_bounded(
            pairs in prop::collection::vec((-5i32..5, -5i32..5), 0..40)
        ) {
            let pairs: Vec<(f64, f64)> =
                pairs.iter().map(|&(a, b)| (f64::from(a), f64::from(b))).collect();
            let turned: Vec<(f64, f64)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
            let mirrored: Vec<(f64, f64)> = pairs.iter().map(|&(a, b)| (a, -b)).collect();
            let one = rank_correlation(&pairs);
            prop_assert_eq!(one, rank_correlation(&turned));
            if let (Some(one), Some(other)) = (one, rank_correlation(&mirrored)) {
                prop_assert!((-1.0..=1.0).contains(&one));
                prop_assert!((one + other).abs() < 1e-9);
            }
        }
    }
}
