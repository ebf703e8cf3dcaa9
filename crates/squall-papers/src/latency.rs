//! The latest latencies of a path: mean, deviation, age.

use std::collections::VecDeque;

use squall_sched::{Span, Time};

/// Maximum latency, a minute: bounds the sums of squares.
const LONGEST: Span = Span::from_millis(60_000);

/// Mean and deviation of a changing set of measurements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    count: u64,
    sum: u64,
    squares: u128,
}

impl Moments {
    pub(crate) fn add(&mut self, latency: Span) {
        let latency = latency.min(LONGEST);
        self.count += 1;
        self.sum += latency.micros();
        self.squares += square(latency);
    }

    /// Removes a measurement that was added.
    pub(crate) fn remove(&mut self, latency: Span) {
        let latency = latency.min(LONGEST);
        self.count -= 1;
        self.sum -= latency.micros();
        self.squares -= square(latency);
    }

    /// Returns the mean of the measurements; 0 without any.
    pub(crate) fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// Returns the standard deviation, estimated from the measurements; 0 for fewer than two.
    pub(crate) fn deviation(&self) -> f64 {
        let n = u128::from(self.count);
        if n < 2 {
            return 0.0;
        }
        let spread = n * self.squares - u128::from(self.sum) * u128::from(self.sum);
        (spread as f64 / (n * (n - 1)) as f64).sqrt()
    }
}

/// A window of measurements with their mean and deviation.
#[derive(Clone, Debug)]
pub(crate) struct LatencyWindow {
    samples: VecDeque<Span>,
    capacity: usize,
    moments: Moments,
    /// Time of the path's last delivery.
    delivered: Time,
}

impl LatencyWindow {
    /// Creates a window of at most `capacity` measurements.
    pub(crate) fn new(capacity: usize) -> Self {
        let samples = VecDeque::with_capacity(capacity);
        Self { samples, capacity, moments: Moments::default(), delivered: Time::EPOCH }
    }

    /// Records the path's latest measurement. A value equal to the last may be the same
    /// measurement, and is not counted.
    pub(crate) fn observe(&mut self, latency: Span, now: Time) {
        if self.samples.back() != Some(&latency.min(LONGEST)) {
            self.push(latency, now);
        }
    }

    /// Records an acknowledgement and the latest measurement. It counts even if it equals the last,
    /// unless one was recorded at this time already.
    pub(crate) fn answered(&mut self, latency: Span, now: Time) {
        if self.delivered < now {
            self.push(latency, now);
        }
    }

    fn push(&mut self, latency: Span, now: Time) {
        let latency = latency.min(LONGEST);
        if self.samples.len() == self.capacity {
            self.samples.pop_front().into_iter().for_each(|oldest| self.moments.remove(oldest));
        }
        self.samples.push_back(latency);
        self.moments.add(latency);
        self.delivered = now;
    }

    /// Removes all measurements.
    pub(crate) fn clear(&mut self) {
        self.samples.clear();
        (self.moments, self.delivered) = (Moments::default(), Time::EPOCH);
    }

    /// Returns the number of measurements.
    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns the mean of the measurements; 0 without any.
    pub(crate) fn mean(&self) -> f64 {
        self.moments.mean()
    }

    /// Returns the standard deviation, estimated from the measurements; 0 for fewer than two.
    pub(crate) fn deviation(&self) -> f64 {
        self.moments.deviation()
    }

    /// Returns the time since the path's last delivery.
    pub(crate) fn age(&self, now: Time) -> Span {
        now - self.delivered
    }
}

fn square(latency: Span) -> u128 {
    u128::from(latency.micros()).pow(2)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use squall_units::short::{at_us, ms, us};

    use super::*;

    fn window(capacity: usize, samples: &[Span]) -> LatencyWindow {
        let mut window = LatencyWindow::new(capacity);
        samples.iter().for_each(|sample| window.observe(*sample, at_us(7)));
        window
    }

    #[test]
    fn mean_and_deviation_by_hand() {
        // Mean 20, squares of the differences 100 + 0 + 100, over 2: 10² = 100.
        let three = window(8, &[us(10), us(20), us(30)]);
        assert_eq!((three.len(), three.mean(), three.deviation()), (3, 20.0, 10.0));
        let one = window(8, &[us(10)]);
        assert_eq!((one.len(), one.mean(), one.deviation()), (1, 10.0, 0.0));
        assert_eq!(window(8, &[]).mean(), 0.0);
    }

    #[test]
    fn the_oldest_leave_and_the_same_counts_once() {
        let window = window(3, &[ms(1), us(10), us(10), us(20), us(20), us(30)]);
        assert_eq!((window.len(), window.mean(), window.deviation()), (3, 20.0, 10.0));
    }

    #[test]
    fn an_answer_is_a_measurement_of_its_own_and_renews_the_age() {
        let mut window = window(3, &[us(90)]);
        assert_eq!(window.age(at_us(10)), us(3));
        window.observe(us(90), at_us(9));
        assert_eq!((window.len(), window.age(at_us(10))), (1, us(3)), "may be the same measurement");
        window.answered(us(10), at_us(9));
        window.answered(us(10), at_us(9));
        assert_eq!(
            (window.len(), window.age(at_us(10)), window.age(at_us(8))),
            (2, us(1), us(0)),
            "one at a time"
        );
        // On a steady path too, an outlier leaves the window.
        (10..13).for_each(|now| window.answered(us(10), at_us(now)));
        assert_eq!((window.len(), window.mean(), window.deviation()), (3, 10.0, 0.0));
        window.clear();
        assert_eq!((window.len(), window.mean()), (0, 0.0));
    }

    proptest! {
        #[test]
        fn running_sums_agree_with_a_fresh_count(samples in vec((0..100_000_000u64).prop_map(us), 0..60), capacity in 1..20usize) {
            let window = window(capacity, &samples);
            let mut kept: Vec<_> = samples.iter().map(|s| (*s).min(LONGEST).micros() as f64).collect();
            kept.dedup();
            let kept = &kept[kept.len().saturating_sub(capacity)..];
            prop_assert_eq!(window.len(), kept.len());
            if kept.len() > 1 {
                let mean = kept.iter().sum::<f64>() / kept.len() as f64;
                let variance = kept.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (kept.len() - 1) as f64;
                prop_assert!((window.mean() - mean).abs() < 1e-3);
                prop_assert!((window.deviation() - variance.sqrt()).abs() < 1e-3 * variance.sqrt().max(1.0));
            }
        }
    }
}
