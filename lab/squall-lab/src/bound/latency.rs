//! Percentiles of the least latencies.

use crate::result::Percentiles;

/// Exact percentiles of times in microseconds; `None` if there are none.
pub(super) fn percentiles(mut times: Vec<u64>) -> Option<Percentiles> {
    times.sort_unstable();
    let count = times.len();
    let max_us = *times.last()?;
    // The smallest time that so many ten-thousandths do not exceed.
    let at = |share: usize| times[(count * share).div_ceil(10_000).max(1) - 1];
    let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
    Some(Percentiles {
        count: count as u64,
        mean_us: (sum / count as u128) as u64,
        p50_us: at(5_000),
        p90_us: at(9_000),
        p95_us: at(9_500),
        p99_us: at(9_900),
        p999_us: at(9_990),
        p9999_us: at(9_999),
        max_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_occurred() {
        let all = percentiles((1..=1_000).rev().collect()).unwrap();
        assert_eq!((all.count, all.mean_us, all.p50_us, all.p99_us), (1_000, 500, 500, 990));
        assert_eq!((all.p999_us, all.p9999_us, all.max_us), (999, 1_000, 1_000));
        assert_eq!(percentiles(vec![7]).unwrap().p50_us, 7);
        assert_eq!(percentiles(Vec::new()), None);
    }
}
