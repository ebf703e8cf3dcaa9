//! Minimum and maximum of recent values.

use std::collections::VecDeque;

use squall_sched::{Span, Time};

/// The minimum over a sliding window of time, in constant amortised time: values that a later,
/// smaller one undercuts are dropped at once.
#[derive(Clone, Debug, Default)]
pub struct Minimum {
    /// Ascending, in time and in value.
    samples: VecDeque<(Time, i64)>,
}

impl Minimum {
    /// Adds a value and drops those older than `window`. Returns the minimum.
    pub fn add(&mut self, now: Time, value: i64, window: Span) -> i64 {
        while self.samples.back().is_some_and(|&(_, v)| v >= value) {
            self.samples.pop_back();
        }
        self.samples.push_back((now, value));
        // The value just added is never old, so one is left.
        while self.samples.len() > 1 && self.samples[0].0 + window < now {
            self.samples.pop_front();
        }
        self.samples[0].1
    }

    /// Returns the minimum at the last addition.
    pub fn get(&self) -> Option<i64> {
        self.samples.front().map(|&(_, value)| value)
    }
}

/// The maximum over a sliding window of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Maximum(Minimum);

impl Maximum {
    /// Adds a value and drops those older than `window`.
    pub(super) fn add(&mut self, now: Time, value: i64, window: Span) {
        self.0.add(now, -value, window);
    }

    /// Returns the maximum at the last addition.
    pub(super) fn get(&self) -> Option<i64> {
        self.0.get().map(|value| -value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::short::{at_us, us};

    use super::*;

    #[test]
    fn an_old_minimum_is_forgotten() {
        let mut minimum = Minimum::default();
        assert_eq!(minimum.get(), None);
        assert_eq!(minimum.add(at_us(0), 5, us(100)), 5);
        assert_eq!(minimum.add(at_us(50), 9, us(100)), 5);
        assert_eq!(minimum.add(at_us(100), 7, us(100)), 5, "just within the window");
        assert_eq!(minimum.add(at_us(101), 8, us(100)), 7);
        assert_eq!(minimum.get(), Some(7));
    }

    proptest! {
        #[test]
        fn it_is_the_minimum_of_the_window(steps in prop::collection::vec((0u64..40, -50i64..50), 1..200), window in 1u64..200) {
            let mut minimum = Minimum::default();
            let (mut now, mut all) = (at_us(0), Vec::new());
            for (step, value) in steps {
                now += us(step);
                all.push((now, value));
                let expected = all.iter().filter(|(t, _)| *t + us(window) >= now).map(|(_, v)| *v).min();
                prop_assert_eq!(Some(minimum.add(now, value, us(window))), expected);
            }
        }
    }
}
