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
/// Time without an empty queue that calls for one …
const OVERDUE: Micros = 8_000_000;
/// … half of the time for which others have been there, up to this, as each dip gives something away …
const OVERDUE_BESIDE: Micros = 16_000_000;
/// … and round trips, so that dips stay rare on long paths.
const OVERDUE_ROUND_TRIPS: f64 = 50.0;
/// A queue this long, in microseconds, calls for a dip if it is beyond the target by as much.
const NOTABLE: f64 = 10_000.0;

/// What was before a dip or a lift.
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
        let stands = limited && queue > target + self.jitter + NOTABLE.max(target / 2.0);
        self.standing = if stands { self.standing + 1 } else { 0 };
        if self.standing >= STANDING_ROUNDS || self.is_overdue(now) {
            self.dip(queue, false);
        }
    }

    pub(super) fn is_overdue(&self, now: Micros) -> bool {
        let beside = if self.phase == Phase::Beside { (now - self.beside_since) / 2 } else { 0 };
        let least = (OVERDUE_ROUND_TRIPS * self.rtt()) as Micros;
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
        if queue > target + self.jitter && !has_left_out {
            self.before = Before { queue, window: window.max(before.window), rate: self.present() };
            self.phase = Phase::Lift { rounds: LIFT_ROUNDS - 1 };
        } else if queue > target + self.jitter && before.queue - queue < 0.5 * explained {
            self.go_beside(now, beside);
        } else {
            if beside {
                self.loss = LossBound::default();
            }
            self.go_alone(now);
        }
    }

    /// A link that is all ours carries no more for being given more: its queue grows instead.
    pub(super) fn judge_lift(&mut self, now: Micros, queue: f64) {
        if self.present() > 1.5 * self.before.rate && queue < 1.3 * self.before.queue {
            self.go_beside(now, false);
        } else {
            self.go_alone(now);
        }
    }

    /// From the largest flight that left the queue in peace, unless CUBIC governed before the dip.
    fn go_beside(&mut self, now: Micros, again: bool) {
        if !again {
            let calm = self.calm.get().unwrap_or(0) as f64;
            self.loss = LossBound::at(now, calm.max(self.in_flight as f64));
            self.beside_since = now;
        }
        self.empty = now;
        self.phase = Phase::Beside;
    }
}
