//! Fewer points of a series: what the eye cannot tell apart need not be in the page.

/// Microseconds that share a point.
const SLOT_US: u64 = 200_000;

/// The mean of each slot.
pub(super) fn means(points: impl Iterator<Item = (u64, f64)>) -> Vec<(u64, f64)> {
    by_slot(points, |values| values.iter().sum::<f64>() / values.len() as f64)
}

/// The highest of each slot.
pub(super) fn highest(points: impl Iterator<Item = (u64, f64)>) -> Vec<(u64, f64)> {
    by_slot(points, |values| values.iter().copied().fold(f64::MIN, f64::max))
}

/// The lowest of each slot.
pub(super) fn lowest(points: impl Iterator<Item = (u64, f64)>) -> Vec<(u64, f64)> {
    by_slot(points, |values| values.iter().copied().fold(f64::MAX, f64::min))
}

/// A point for each slot, at the time of its last value.
fn by_slot(points: impl Iterator<Item = (u64, f64)>, one: fn(&[f64]) -> f64) -> Vec<(u64, f64)> {
    let points: Vec<(u64, f64)> = points.collect();
    points
        .chunk_by(|a, b| slot(a.0) == slot(b.0))
        .filter_map(|chunk| {
            let values: Vec<f64> = chunk.iter().map(|point| point.1).collect();
            Some((chunk.last()?.0, one(&values)))
        })
        .collect()
}

/// Samples are at the ends of what they are of.
fn slot(at_us: u64) -> u64 {
    at_us.saturating_sub(1) / SLOT_US
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_one_point() {
        let points = [(100_000, 1.0), (200_000, 3.0), (300_000, 5.0), (400_000, 9.0), (500_000, 4.0)];
        assert_eq!(means(points.into_iter()), [(200_000, 2.0), (400_000, 7.0), (500_000, 4.0)]);
        assert_eq!(highest(points.into_iter())[1], (400_000, 9.0));
        assert_eq!(lowest(points.into_iter())[1], (400_000, 5.0));
        assert!(means(std::iter::empty()).is_empty());
    }
}
