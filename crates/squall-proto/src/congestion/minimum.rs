//! The smallest and the largest of recent values.

use std::collections::VecDeque;

use squall_sched::Micros;

/// The minimum over a sliding window of time, in constant amortised time: what a later, smaller value
/// outdoes is forgotten at once.
#[derive(Clone, Debug, Default)]
pub struct Minimum {
    /// Ascending, in time and in value.
    samples: VecDeque<(Micros, i64)>,
}

impl Minimum {
    /// Adds a value and drops those older than `window` microseconds. Returns the minimum.
    pub fn add(&mut self, now: Micros, value: i64, window: Micros) -> i64 {
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

    /// The minimum when last added to.
    pub fn get(&self) -> Option<i64> {
        self.samples.front().map(|&(_, value)| value)
    }
}

/// The maximum over a sliding window of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Maximum(Minimum);

impl Maximum {
    /// Adds a value and drops those older than `window` microseconds.
    pub(super) fn add(&mut self, now: Micros, value: i64, window: Micros) {
        self.0.add(now, -value, window);
    }

    /// The maximum when last added to.
    pub(super) fn get(&self) -> Option<i64> {
        self.0.get().map(|value| -value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_old_minimum_is_forgotten() {
        let mut minimum = Minimum::default();
        assert_eq!(minimum.get(), None);
        assert_eq!(minimum.add(0, 5, 100), 5);
        assert_eq!(minimum.add(50, 9, 100), 5);
        assert_eq!(minimum.add(100, 7, 100), 5, "just within the window");
        assert_eq!(minimum.add(101, 8, 100), 7);
        assert_eq!(minimum.get(), Some(7));
    }

    proptest! {
        #[test]
        fn it_is_the_minimum_of_the_window(steps in prop::collection::vec((0u64..40, -50i64..50), 1..200), window in 1u64..200) {
            let mut minimum = Minimum::default();
            let (mut now, mut all) = (0, Vec::new());
            for (step, value) in steps {
                now += step;
                all.push((now, value));
                let expected = all.iter().filter(|(t, _)| t + window >= now).map(|(_, v)| *v).min();
                prop_assert_eq!(Some(minimum.add(now, value, window)), expected);
            }
        }
    }
}
