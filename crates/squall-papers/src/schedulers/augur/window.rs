//! Counts by state over the recent past (the window Δ of §3.5.2).

use std::collections::VecDeque;

use squall_sched::{Span, Time};

/// Parts of a window; they expire one at a time, so that counts cover between nine and ten tenths
/// of the window.
const PARTS: usize = 10;

/// Number of samples of each state within the window.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Oldest first; the last one is being filled. Never empty, never more than [`PARTS`].
    parts: VecDeque<Box<[u32]>>,
    /// The sum over all parts.
    counts: Box<[u32]>,
    /// Duration of a part.
    part: Span,
    /// End of the last part.
    ends: Time,
}

impl Window {
    /// Creates a window for `states` states over `span`.
    pub(super) fn new(states: usize, span: Span) -> Self {
        let none: Box<[u32]> = vec![0; states].into();
        let part = (span / PARTS as u64).max(Span::TICK);
        Self { parts: VecDeque::from([none.clone()]), counts: none, part, ends: Time::EPOCH }
    }

    /// Adds `times` samples of `state`.
    pub(super) fn add(&mut self, now: Time, state: usize, times: u32) {
        self.forget(now);
        if let Some(last) = self.parts.back_mut() {
            last[state] = last[state].saturating_add(times);
            self.counts[state] = self.counts[state].saturating_add(times);
        }
    }

    /// Returns the counts without expired samples.
    pub(super) fn counts(&mut self, now: Time) -> &[u32] {
        self.forget(now);
        &self.counts
    }

    fn forget(&mut self, now: Time) {
        if now < self.ends {
            return;
        }
        let passed = (now - self.ends) / self.part + 1;
        for _ in 0..passed.min(PARTS as u64) {
            self.turn();
        }
        self.ends += self.part * passed;
    }

    /// Starts a new part, in the memory of the expired one.
    fn turn(&mut self) {
        let oldest = if self.parts.len() < PARTS { None } else { self.parts.pop_front() };
        let mut part = oldest.unwrap_or_else(|| vec![0; self.counts.len()].into());
        for (count, old) in self.counts.iter_mut().zip(part.iter_mut()) {
            *count -= std::mem::take(old);
        }
        self.parts.push_back(part);
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use squall_units::short::{at_ms, at_us, ms};

    use super::*;

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let mut window = Window::new(3, ms(1));
        window.add(Time::EPOCH, 1, 1);
        window.add(at_us(450), 2, 4);
        assert_eq!(window.counts(at_us(899)), [0, 1, 4]);
        assert_eq!(window.counts(at_ms(1)), [0, 0, 4], "the first tenth has left");
        assert_eq!(window.counts(at_us(1399)), [0, 0, 4]);
        assert_eq!(window.counts(at_us(1400)), [0, 0, 0]);
        window.add(at_ms(1_000), 0, 7);
        assert_eq!(window.counts(at_ms(1_000)), [7, 0, 0], "after a long silence");
    }

    proptest! {
        /// Each sample counts for at least nine tenths of the window and is gone after the window.
        #[test]
        fn counts_are_those_of_the_last_parts(
            samples in vec((0..400u64, 0..4usize, 1..5u32), 0..60), idle in 0..2500u64,
        ) {
            let mut window = Window::new(4, ms(1));
            let mut now = 0;
            let mut all = Vec::new();
            for (pause, state, times) in samples {
                now += pause;
                window.add(at_us(now), state, times);
                all.push((now, state, times));
            }
            now += idle;
            let mut expected = [0; 4];
            for (at, state, times) in all {
                if now / 100 - at / 100 < 10 {
                    expected[state] += times;
                }
            }
            prop_assert_eq!(window.counts(at_us(now)), expected);
        }
    }
}
