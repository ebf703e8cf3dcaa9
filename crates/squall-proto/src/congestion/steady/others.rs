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

/// What is known of others while CUBIC governs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// Since when they are known to be there.
    since: Micros,
    before: Before,
    /// Rounds in which it must still show that they are there, and rounds in a row with a short queue.
    unconfirmed: u8,
    short: u8,
}

impl Steady {
    /// Calls for a dip if a queue stands, or none was seen to be empty for long: then its owner is unknown. `standing`
    /// rounds in a row had one, `first` is the first of them.
    pub(super) fn look_for_others(
        &mut self,
        now: Micros,
        queue: f64,
        target: f64,
        limited: bool,
        (mut standing, mut first): (u8, Before),
    ) {
        let stands = limited && queue > target + self.delays.jitter() + NOTABLE.max(target / 2.0);
        if stands && (standing == 0 || queue < FALLING * first.queue) {
            (standing, first) = (0, self.at_present(queue));
        }
        standing = if stands { standing + 1 } else { 0 };
        self.phase = Phase::Alone { standing, first };
        if standing >= STANDING_ROUNDS {
            // The window has fallen since the queue was first seen: that is a part of the test.
            self.dip(now, first, None, "a queue stands");
        } else if self.is_overdue(now, None) {
            self.dip(now, self.before_dip(queue), None, "none was seen to be empty for long");
        }
    }

    /// Whether no queue was seen to be empty for too long: longer where others have been there since `beside`.
    fn is_overdue(&self, now: Micros, beside: Option<Micros>) -> bool {
        let beside = beside.map_or(0, |since| (now - since) / 2);
        let least = (OVERDUE_ROUND_TRIPS * self.delays.round_trip()) as Micros;
        now > self.empty + OVERDUE.max(beside.min(OVERDUE_BESIDE)).max(least)
    }

    /// What is remembered of the time before a dip that begins now.
    fn before_dip(&self, queue: f64) -> Before {
        Before { window: self.window(), ..self.at_present(queue) }
    }

    fn dip(&mut self, now: Micros, before: Before, beside: Option<Micros>, why: &str) {
        self.enter(now, Phase::Dip { rounds: DIP_ROUNDS - 1, before, beside }, why);
    }

    /// Judges the queue at the end of a dip. It began with CUBIC in charge if others have been there since `beside`.
    pub(super) fn judge_dip(
        &mut self,
        now: Micros,
        queue: f64,
        target: f64,
        before: Before,
        beside: Option<Micros>,
    ) {
        self.judged = now;
        let window = self.window();
        let has_left_out = before.window > 2 * window;
        let explained = before.window.saturating_sub(window) as f64 * 1e6 / before.rate.max(1.0);
        let fallen = before.queue - queue;
        let stands = queue > target + self.delays.jitter();
        if stands && !has_left_out {
            let before = Before { window: window.max(before.window), ..self.at_present(queue) };
            self.lift(now, before, false, "a dip left nothing out");
        } else if stands && fallen < UNMOVED * explained && self.sharing == 1.0 {
            self.delays.set_own(now);
            let bottom = self.at_present(queue);
            let before = Before { window: before.window.max(self.calm()), ..before };
            let phase = Phase::Restore { rounds: RESTORE_ROUNDS - 1, before, bottom };
            self.enter(now, phase, "the delay did not follow the flight");
        } else if stands && fallen < OWNED * explained {
            if beside.is_none() {
                self.loss = LossBound::at(now, self.in_flight.max(self.calm()) as f64);
            }
            self.go_beside(now, queue, beside, "the queue fell by less than was left out");
        } else {
            if self.sharing == 1.0 {
                self.delays.set_own(now);
            }
            if beside.is_some() {
                self.loss = LossBound::default();
            }
            self.go_alone(now, "the queue was ours, or is gone");
        }
    }

    /// Judges a path whose delay did not follow the flight, after as much is in flight as before: one that only delays
    /// carries as much as then, and no later. A link that lost its rate in the dip queues what it is given, and others keep
    /// what they took.
    pub(super) fn judge_restored(
        &mut self,
        now: Micros,
        queue: f64,
        target: f64,
        before: Before,
        bottom: Before,
    ) {
        let more = self.in_flight.saturating_sub(bottom.window) as f64 * 1e6;
        let is_own = queue - bottom.queue > target.max(OWN * more / self.present().max(1.0));
        if !is_own && self.present() > RESTORED * before.rate {
            return self.go_alone(now, "the path alone delays");
        }
        self.delays.forget_own();
        if is_own {
            self.go_alone(now, "the queue has grown again: it is ours");
        } else {
            self.loss = LossBound::at(now, self.in_flight.max(self.calm()) as f64);
            self.go_beside(now, queue, None, "others took what was left out");
        }
    }

    fn lift(&mut self, now: Micros, before: Before, again: bool, why: &str) {
        self.enter(now, Phase::Lift { rounds: LIFT_ROUNDS - 1, before, again }, why);
    }

    /// A link that is all ours carries no more for being given more: its queue grows instead. One that grows by itself does
    /// so once, and not again for each lift until as much is in flight as left the queue in peace.
    pub(super) fn judge_lift(&mut self, now: Micros, queue: f64, before: Before, again: bool) {
        let has_grown = self.present() > 1.5 * before.rate && queue < 1.3 * before.queue;
        if has_grown && self.in_flight < self.calm() {
            self.lift(now, self.before_dip(queue), true, "more is carried");
        } else if has_grown || again && !self.is_own(queue, before) {
            self.loss = LossBound::at(now, self.in_flight as f64);
            self.go_beside(now, queue, None, "more is carried, no later");
        } else {
            self.go_alone(now, "no more is carried");
        }
    }

    /// Finds out whether others are not there after all, or no longer. A link that lost its rate in a dip looks as if they were.
    pub(super) fn look_beside(
        &mut self,
        now: Micros,
        queue: f64,
        target: f64,
        limited: bool,
        mut beside: Beside,
    ) {
        let before = beside.before;
        beside.short = if queue <= target { beside.short + 1 } else { 0 };
        let are_gone = if beside.unconfirmed > 0 {
            beside.unconfirmed -= 1;
            if beside.unconfirmed == 0 {
                beside.before = self.at_present(queue);
            }
            let is_more = 2 * self.in_flight > 3 * before.window;
            is_more && queue > 2.0 * target && self.is_own(queue, before)
        } else {
            // They take what they take slowly.
            let has_link_fallen = self.present() < 0.5 * before.rate && queue > 2.0 * before.queue;
            has_link_fallen || beside.short > SHORT_ROUNDS
        };
        self.phase = Phase::Beside(beside);
        if are_gone {
            self.go_alone(now, "the queue is ours, or short");
        } else if self.is_overdue(now, Some(beside.since)) || !limited {
            self.dip(now, self.before_dip(queue), Some(beside.since), "others may have left");
        }
    }

    /// Whether the queue has grown by as much as is in flight more than before.
    fn is_own(&self, queue: f64, before: Before) -> bool {
        let more = self.in_flight.saturating_sub(before.window) as f64 * 1e6;
        queue - before.queue > OWN * more / self.present().max(1.0)
    }

    fn at_present(&self, queue: f64) -> Before {
        Before { queue, window: self.in_flight, rate: self.present() }
    }

    /// Largest flight of late that left the queue in peace.
    fn calm(&self) -> u64 {
        self.calm.get().unwrap_or(0) as u64
    }

    /// Others are there, and have been since then if that is known.
    fn go_beside(&mut self, now: Micros, queue: f64, since: Option<Micros>, why: &str) {
        self.empty = now;
        let (before, since) = (self.at_present(queue), since.unwrap_or(now));
        let beside = Beside { since, before, unconfirmed: CONFIRM_ROUNDS, short: 0 };
        self.enter(now, Phase::Beside(beside), why);
    }
}
