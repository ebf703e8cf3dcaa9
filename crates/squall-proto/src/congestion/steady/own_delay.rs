//! The part of a delay that is the path's own.
//!
//! A radio delays packets by its schedule, retransmissions and handovers, as much as a queue would
//! and independent of the bytes in flight. The smallest delay is no measure of such a path. Its
//! *own* delay is that of packets which met no queue of ours: the first ones after a pause in which
//! all before them arrived, and all at the end of a dip.

use std::collections::VecDeque;

use squall_units::{Span, Time};

/// Span over which extremes of delays are taken, as for the round trip in BBR: routes change more
/// rarely.
pub(super) const MEMORY: Span = Span::from_secs(10);
/// Span over which delays are averaged.
const SLOT: Span = Span::from_millis(100);
/// Excess in microseconds that needs no dip. A link that grants its rate in bursts delays single
/// packets by more: in a fade that is no reason to keep as much in flight.
const MOST_UNTESTED: i64 = 50_000;
/// Span for which the result of a dip is valid, unless it is confirmed ([`SEEN_AGAIN`]).
const TESTED: Span = MEMORY;
/// Share of the result by which a packet that met no queue of ours must be late to confirm it.
const SEEN_AGAIN: f64 = 0.8;

/// One-way delays of packets that met no queue of ours.
#[derive(Debug, Default)]
pub(super) struct OwnDelay {
    slots: VecDeque<Slot>,
    /// Median of the means of the slots.
    median: Option<i64>,
    tested: Option<Tested>,
}

/// Delays of a tenth of a second.
#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u64,
    sum: i64,
    count: i64,
}

impl Slot {
    fn is_old(&self, now: Time) -> bool {
        Time::EPOCH + SLOT * (self.number + 1) + MEMORY < now
    }
}

/// Delay at the end of a dip, and the time when it was last confirmed.
#[derive(Clone, Copy, Debug)]
struct Tested {
    at: Time,
    delay: i64,
}

impl OwnDelay {
    /// Records the delay of a packet that met no queue, where the smallest of all is `smallest`.
    pub(super) fn add(&mut self, now: Time, delay: i64, smallest: i64) {
        let number = now.micros() / SLOT.micros();
        match self.slots.back_mut() {
            Some(last) if last.number == number => {
                last.sum += delay;
                last.count += 1;
            }
            _ => self.slots.push_back(Slot { number, sum: delay, count: 1 }),
        }
        if let Some(tested) = &mut self.tested
            && (delay - smallest) as f64 > SEEN_AGAIN * (tested.delay - smallest) as f64
        {
            tested.at = now;
        }
        self.find_median();
    }

    /// Records the delay at the end of a dip.
    pub(super) fn set(&mut self, now: Time, delay: i64) {
        self.tested = Some(Tested { at: now, delay });
    }

    pub(super) fn forget_old(&mut self, now: Time) {
        let count = self.slots.len();
        while self.slots.front().is_some_and(|slot| slot.is_old(now)) {
            self.slots.pop_front();
        }
        if self.slots.len() < count {
            self.find_median();
        }
        self.tested = self.tested.filter(|tested| now < tested.at + TESTED);
    }

    fn find_median(&mut self) {
        let mut means: Vec<i64> = self.slots.iter().map(|slot| slot.sum / slot.count).collect();
        let middle = means.len() / 2;
        self.median = (!means.is_empty()).then(|| *means.select_nth_unstable(middle).1);
    }

    /// Returns the path's own delay, where the smallest of all is `smallest`.
    pub(super) fn get(&self, smallest: i64) -> Option<i64> {
        let median = self.median.map(|median| median.min(smallest + MOST_UNTESTED));
        median.max(self.tested.map(|tested| tested.delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_micros(1_000 * millis)
    }

    #[test]
    fn it_is_the_median_of_ten_seconds() {
        let mut own = OwnDelay::default();
        for (slot, delay) in [10, 90, 30, 20, 40].into_iter().enumerate() {
            own.add(at(100 * slot as u64), 1_000 * delay, 0);
            own.add(at(100 * slot as u64 + 50), 1_000 * delay, 0);
        }
        assert_eq!(own.get(0), Some(30_000));
        own.forget_old(at(10_350));
        assert_eq!(own.get(0), Some(40_000), "of 20 and 40");
        own.forget_old(at(20_000));
        assert_eq!(own.get(0), None);
    }

    #[test]
    fn a_tested_delay_holds_for_ten_seconds_after_it_was_last_seen() {
        let mut own = OwnDelay::default();
        own.set(at(0), 200_000);
        own.add(at(5_000), 150_000, 0);
        own.forget_old(at(9_999));
        assert_eq!(own.get(0), Some(200_000));
        own.add(at(9_999), 170_000, 0);
        own.forget_old(at(19_998));
        assert_eq!(own.get(0), Some(200_000), "seen again");
        own.forget_old(at(19_999));
        assert_eq!(own.get(0), Some(MOST_UNTESTED));
    }
}
