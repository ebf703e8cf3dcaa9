//! Whether a queue that stands is ours: dips, and lifts of flows that have nothing to leave out.

use squall_sched::Micros;

use super::{super::Controller, LossBound, Phase, Steady};

/// Share of the pipe that is in flight in a dip.
pub(super) const DIP: f64 = 0.5;
/// Rounds of a dip: one until its packets arrive, one until the queue shows it, one to measure.
const DIP_ROUNDS: u8 = 3;
/// Rounds in which twice as much is sent.
const LIFT_ROUNDS: u8 = 4;
/// Rounds in a row with a queue beyond the target that call for a dip.
const STANDING_ROUNDS: u8 = 3;
/// Share of a queue at the first of them below which it falls by itself, as after a hold of the path, and needs no dip.
const FALLING: f64 = 0.9;
/// Rounds after the last dip in which the queue must not grow as one of our own does.
const CONFIRM_ROUNDS: u8 = 4;
/// Share of what more bytes in flight explain, beyond which the queue has grown for them alone. Beside one other flow it is a half.
const OWN: f64 = 0.8;
/// Rounds in a row with a queue within the target after which others are gone: they would fill it.
const SHORT_ROUNDS: u8 = 8;
/// Share of what the missing bytes explain by which a queue falls at least that is all ours, …
const OWNED: f64 = 0.5;
/// … and below which the delay has not followed the flight at all.
const UNMOVED: f64 = 0.2;
/// Rounds with as much in flight as before a dip: one until its packets arrive, one until the delay shows it, one to measure.
const RESTORE_ROUNDS: u8 = 3;
/// Share of the rate before a dip that a path carries again which only delays.
const RESTORED: f64 = 0.7;
/// Time without an empty queue that calls for one …
const OVERDUE: Micros = 8_000_000;
/// … half of the time for which others have been there, up to this, as each dip gives something away …
const OVERDUE_BESIDE: Micros = 16_000_000;
/// … and round trips, so that dips stay rare on long paths.
const OVERDUE_ROUND_TRIPS: f64 = 50.0;
/// A queue this long, in microseconds, calls for a dip if it is beyond the target by as much.
const NOTABLE: f64 = 10_000.0;

/// What was before a dip or a lift, or at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    /// Queueing delay in microseconds.
    queue: f64,
    pub(super) window: u64,
    /// Bytes per second.
    pub(super) rate: f64,
}

impl Steady {
    /// Calls for a dip if a queue stands, or none was seen to be empty for long: then its owner is unknown.
    pub(super) fn look_for_others(&mut self, now: Micros, queue: f64, target: f64, limited: bool) {
        let stands = limited && queue > target + self.delays.jitter() + NOTABLE.max(target / 2.0);
        if stands && (self.standing == 0 || queue < FALLING * self.before.queue) {
            self.before = self.at_present(queue);
            self.standing = 0;
        }
        self.standing = if stands { self.standing + 1 } else { 0 };
        if self.standing >= STANDING_ROUNDS {
            // The window has fallen since the queue was first seen: that is a part of the test.
            self.phase = Phase::Dip { rounds: DIP_ROUNDS - 1, beside: false };
        } else if self.is_overdue(now) {
            self.dip(queue, false);
        }
    }

    pub(super) fn is_overdue(&self, now: Micros) -> bool {
        let beside = if self.phase == Phase::Beside { (now - self.beside_since) / 2 } else { 0 };
        let least = (OVERDUE_ROUND_TRIPS * self.delays.round_trip()) as Micros;
        now > self.empty + OVERDUE.max(beside.min(OVERDUE_BESIDE)).max(least)
    }

    pub(super) fn dip(&mut self, queue: f64, beside: bool) {
        self.before = Before { queue, window: self.window(), rate: self.present() };
        self.phase = Phase::Dip { rounds: DIP_ROUNDS - 1, beside };
    }

    /// Judges the queue at the end of a dip that began with CUBIC in charge (`beside`) or not.
    pub(super) fn judge_dip(&mut self, now: Micros, queue: f64, target: f64, beside: bool) {
        self.judged = now;
        let (before, window) = (self.before, self.window());
        let has_left_out = before.window > 2 * window;
        let explained = before.window.saturating_sub(window) as f64 * 1e6 / before.rate.max(1.0);
        let fallen = before.queue - queue;
        let stands = queue > target + self.delays.jitter();
        if stands && !has_left_out {
            self.lift(queue, window.max(before.window), false);
        } else if stands && fallen < UNMOVED * explained && self.sharing == 1.0 {
            self.delays.set_own(now);
            self.bottom = self.at_present(queue);
            self.before.window = self.before.window.max(self.calm());
            self.phase = Phase::Restore { rounds: RESTORE_ROUNDS - 1 };
        } else if stands && fallen < OWNED * explained {
            if !beside {
                self.loss = LossBound::at(now, self.in_flight.max(self.calm()) as f64);
            }
            self.go_beside(now, queue, beside);
        } else {
            if self.sharing == 1.0 {
                self.delays.set_own(now);
            }
            if beside {
                self.loss = LossBound::default();
            }
            self.go_alone(now);
        }
    }

    /// Judges a path whose delay did not follow the flight, after as much is in flight as before: one that only delays
    /// carries as much as then, and no later. A link that lost its rate in the dip queues what it is given, and others keep
    /// what they took.
    pub(super) fn judge_restored(&mut self, now: Micros, queue: f64, target: f64) {
        let more = self.in_flight.saturating_sub(self.bottom.window) as f64 * 1e6;
        let is_own = queue - self.bottom.queue > target.max(OWN * more / self.present().max(1.0));
        if !is_own && self.present() > RESTORED * self.before.rate {
            return self.go_alone(now);
        }
        self.delays.forget_own();
        if is_own {
            self.go_alone(now);
        } else {
            self.loss = LossBound::at(now, self.in_flight.max(self.calm()) as f64);
            self.go_beside(now, queue, false);
        }
    }

    fn lift(&mut self, queue: f64, window: u64, again: bool) {
        self.before = Before { queue, window, rate: self.present() };
        self.phase = Phase::Lift { rounds: LIFT_ROUNDS - 1, again };
    }

    /// A link that is all ours carries no more for being given more: its queue grows instead. One that grows by itself does
    /// so once, and not again for each lift until as much is in flight as left the queue in peace.
    pub(super) fn judge_lift(&mut self, now: Micros, queue: f64, again: bool) {
        let has_grown = self.present() > 1.5 * self.before.rate && queue < 1.3 * self.before.queue;
        if has_grown && self.in_flight < self.calm() {
            self.lift(queue, self.window(), true);
        } else if has_grown || again && !self.is_own(queue) {
            self.loss = LossBound::at(now, self.in_flight as f64);
            self.go_beside(now, queue, false);
        } else {
            self.go_alone(now);
        }
    }

    /// Whether others are not there after all, or no longer. A link that lost its rate in a dip looks as if they were.
    pub(super) fn are_others_gone(&mut self, queue: f64, target: f64) -> bool {
        let before = self.before;
        self.short = if queue <= target { self.short + 1 } else { 0 };
        if self.unconfirmed > 0 {
            self.unconfirmed -= 1;
            let is_more = 2 * self.in_flight > 3 * before.window;
            let is_own = is_more && queue > 2.0 * target && self.is_own(queue);
            if self.unconfirmed == 0 {
                self.before = self.at_present(queue);
            }
            return is_own;
        }
        // They take what they take slowly.
        let has_link_fallen = self.present() < 0.5 * before.rate && queue > 2.0 * before.queue;
        has_link_fallen || self.short > SHORT_ROUNDS
    }

    /// Whether the queue has grown by as much as is in flight more than before.
    fn is_own(&self, queue: f64) -> bool {
        let more = self.in_flight.saturating_sub(self.before.window) as f64 * 1e6;
        queue - self.before.queue > OWN * more / self.present().max(1.0)
    }

    fn at_present(&self, queue: f64) -> Before {
        Before { queue, window: self.in_flight, rate: self.present() }
    }

    /// Largest flight of late that left the queue in peace.
    fn calm(&self) -> u64 {
        self.calm.get().unwrap_or(0) as u64
    }

    fn go_beside(&mut self, now: Micros, queue: f64, again: bool) {
        if !again {
            self.beside_since = now;
        }
        self.before = self.at_present(queue);
        (self.unconfirmed, self.short) = (CONFIRM_ROUNDS, 0);
        self.empty = now;
        self.phase = Phase::Beside;
    }
}
