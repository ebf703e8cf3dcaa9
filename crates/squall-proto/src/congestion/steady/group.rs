//! Paths of one session that share one bottleneck: together they take the share of one flow.
//!
//! Packets that wait in the same queue are late by the same time. Therefore the one-way delays of
//! two paths rise and fall together, by as much, whatever else differs between them. RFC 8382
//! detects shared bottlenecks by the shape of delays, because its flows have receivers of their
//! own; here one sender has all delays, and compares them moment by moment.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use squall_units::{Span, Time};

/// Span over which delays are averaged: longer than a burst of ours, shorter than the waves of a
/// queue. With 10 to 50 ms two paths through one queue of 100 kB are detected less often, and two
/// separate ones are taken for one more often.
const SLOT: Span = Span::from_millis(100);
/// Largest number of slots that are compared: the waves that a TCP connection makes take seconds.
/// Over 20 and 30 s waves of two queues coincide by chance.
const SLOTS: u64 = 100;
/// Smallest number of slots with delays of both paths for a decision.
const LEAST: usize = 30;
/// Largest ratio of the variance of their difference to the variances of two paths in one queue.
/// Unrelated paths have the whole; through one queue of 100 or 400 kB it is 0.01 to 0.2, of 20 kB,
/// where each flow's own bursts are as long as the queue, 0.5.
const DIFFERENCE: f64 = 0.25;
/// Variance in square microseconds below which there is nothing to compare: a tenth of a
/// millisecond is the resolution of the receiver's clock.
const FLAT: f64 = 1e4;

/// The paths of a session with measured delays.
#[derive(Clone, Debug, Default)]
pub struct Group(Arc<Mutex<Vec<Delays>>>);

/// Mean one-way delays of a path, up to the clock's offset.
#[derive(Debug)]
struct Delays {
    member: u64,
    slots: VecDeque<Slot>,
}

/// Delays of a tenth of a second, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u64,
    count: f64,
    sum: f64,
}

/// A path in a group; it leaves when dropped.
#[derive(Debug, Default)]
pub(super) struct Member {
    group: Group,
    number: u64,
    /// Time of the group at the path's epoch.
    offset: Span,
    /// Number of other paths that shared the bottleneck at the last check.
    others: u32,
}

impl Group {
    pub(super) fn join(&self, offset: Span) -> Member {
        let mut paths = self.paths();
        let number = paths.last().map_or(0, |last| last.member + 1);
        paths.push(Delays { member: number, slots: VecDeque::new() });
        Member { group: self.clone(), number, offset, others: 0 }
    }

    fn paths(&self) -> MutexGuard<'_, Vec<Delays>> {
        // A panic that poisoned the lock already unwinds through the session.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Records the path's present one-way delay, in microseconds.
    pub(super) fn add(&self, now: Time, delay: i64) {
        let number = (now + self.offset).micros() / SLOT.micros();
        let mut paths = self.group.paths();
        let Some(path) = paths.iter_mut().find(|path| path.member == self.number) else { return };
        match path.slots.back_mut() {
            Some(last) if last.number >= number => {
                last.count += 1.0;
                last.sum += delay as f64;
            }
            _ => path.slots.push_back(Slot { number, count: 1.0, sum: delay as f64 }),
        }
        while path.slots.front().is_some_and(|first| first.number + SLOTS <= number) {
            path.slots.pop_front();
        }
    }

    /// Searches for paths that share the bottleneck, at the end of a round.
    pub(super) fn end_round(&mut self) {
        let paths = self.group.paths();
        let own = paths.iter().find(|path| path.member == self.number);
        let is_shared =
            |path: &&Delays| path.member != self.number && own.is_some_and(|own| own.goes_with(path));
        self.others = paths.iter().filter(is_shared).count() as u32;
    }

    /// Returns the number of paths that share the bottleneck of this one, including itself.
    pub(super) fn sharing(&self) -> f64 {
        1.0 + f64::from(self.others)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.others > 0
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.group.paths().retain(|path| path.member != self.number);
    }
}

impl Delays {
    /// Returns `true` if both rise and fall together.
    fn goes_with(&self, other: &Self) -> bool {
        let (mut own, mut others, mut differences) =
            (Spread::default(), Spread::default(), Spread::default());
        let mut theirs = other.slots.iter().peekable();
        for slot in &self.slots {
            while theirs.next_if(|their| their.number < slot.number).is_some() {}
            let Some(their) = theirs.next_if(|their| their.number == slot.number) else { continue };
            let (one, another) = (slot.sum / slot.count, their.sum / their.count);
            own.add(one);
            others.add(another);
            differences.add(one - another);
        }
        let both = own.variance() + others.variance();
        own.count >= LEAST as f64 && both > 2.0 * FLAT && differences.variance() < DIFFERENCE * both
    }
}

/// Variance of added values, by Welford's recurrence: the delays include the clock's offset.
#[derive(Clone, Copy, Default)]
struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let before = value - self.mean;
        self.mean += before / self.count;
        self.squares += before * (value - self.mean);
    }

    fn variance(&self) -> f64 {
        if self.count > 0.0 { self.squares / self.count } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of the second of two paths after `seconds`. `one` and `another` give the
    /// delays in milliseconds at a time in seconds.
    fn sharing(seconds: u64, one: impl Fn(f64) -> f64, another: impl Fn(f64) -> f64) -> f64 {
        let group = Group::default();
        let (mut first, mut second) = (group.join(Span::ZERO), group.join(Span::from_secs(5)));
        for milli in (5_000..5_000 + 1_000 * seconds).step_by(10) {
            let time = milli as f64 / 1e3;
            let now = Time::from_micros(milli * 1_000);
            first.add(now, (1e3 * one(time)) as i64);
            second.add(now - Span::from_secs(5), (1e3 * another(time)) as i64 - 1_000_000_000_000);
        }
        first.end_round();
        second.end_round();
        assert_eq!(first.sharing(), second.sharing());
        second.sharing()
    }

    fn saw(time: f64) -> f64 {
        20.0 * (time / 2.0).fract()
    }

    /// Returns a burst each 33 ms.
    fn noise(time: f64) -> f64 {
        5.0 * (time * 30.0).fract()
    }

    #[test]
    fn delays_that_go_together_are_of_one_queue() {
        assert_eq!(sharing(10, saw, |time| saw(time) + noise(time) + 30.0), 2.0);
        assert_eq!(sharing(2, saw, saw), 1.0, "two seconds are too few");
    }

    #[test]
    fn delays_of_two_queues_do_not() {
        for shift in [0.3, 0.5, 1.0, 1.7] {
            assert_eq!(sharing(10, saw, |time| saw(time + shift)), 1.0, "the same waves, {shift} s later");
        }
        assert_eq!(sharing(10, saw, |time| 20.0 * (time / 1.7).fract()), 1.0, "others");
        assert_eq!(sharing(10, saw, |time| 4.0 * saw(time)), 1.0, "a queue four times as deep");
        assert_eq!(sharing(10, saw, noise), 1.0, "none");
        assert_eq!(sharing(10, |_| 3.0, |_| 3.0), 1.0, "none on either");
    }

    #[test]
    fn a_path_that_is_gone_counts_no_longer() {
        let group = Group::default();
        let mut first = group.join(Span::ZERO);
        {
            let second = group.join(Span::ZERO);
            for milli in (0..10_000).step_by(10) {
                let (now, delay) = (Time::from_micros(milli * 1_000), (1e3 * saw(milli as f64 / 1e3)) as i64);
                first.add(now, delay);
                second.add(now, delay);
            }
            first.end_round();
            assert_eq!(first.sharing(), 2.0);
        }
        first.end_round();
        assert_eq!(first.sharing(), 1.0);
        let third = group.join(Span::ZERO);
        assert_eq!((third.number, group.paths().len()), (1, 2));
    }
}
