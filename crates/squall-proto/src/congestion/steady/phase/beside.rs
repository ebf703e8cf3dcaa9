//! Phase in which others keep a queue: the loss bound alone governs, and dips determine whether
//! they are gone.
//!
//! A link that lost its rate in a dip looks like one with others on it. Therefore their presence
//! must be confirmed first.

use squall_units::Time;

use super::round::{Next, Round, Sample, Step};

/// Rounds after the last dip in which the queue must not grow like one of our own.
const CONFIRM_ROUNDS: u8 = 4;
/// Consecutive rounds with a queue within the target after which others are gone: they would fill
/// it.
const SHORT_ROUNDS: u8 = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    /// Time since when others are present.
    since: Time,
    /// Sample at the beginning, or at the end of the rounds that confirm it.
    start: Sample,
    /// Rounds left to confirm competing flows.
    unconfirmed: u8,
    /// Consecutive rounds with a short queue.
    short: u8,
}

impl Beside {
    pub(crate) fn new(since: Time, start: Sample) -> Self {
        Self { since, start, unconfirmed: CONFIRM_ROUNDS, short: 0 }
    }

    pub(crate) fn end_round(&mut self, round: &Round) -> Option<Step> {
        if self.are_gone(round) {
            Some(Step::new(Next::Alone, "the queue is ours, or short"))
        } else if round.is_overdue(round.now - self.since) || !round.is_limited {
            let next = Next::Dip { before: round.sample_of_window(), others_since: Some(self.since) };
            Some(Step::new(next, "others may have left"))
        } else {
            None
        }
    }

    fn are_gone(&mut self, round: &Round) -> bool {
        let (start, queue, target) = (self.start, round.queue.latest, round.queue.target);
        self.short = if queue <= target { self.short + 1 } else { 0 };
        if let Some(left) = self.unconfirmed.checked_sub(1) {
            self.unconfirmed = left;
            if left == 0 {
                self.start = round.sample();
            }
            return 2 * round.in_flight > 3 * start.flight && queue > target * 2.0 && round.is_own(&start);
        }
        // Other flows take their share slowly.
        let has_link_fallen = round.rate < start.rate * 0.5 && queue > start.queue * 2.0;
        has_link_fallen || self.short > SHORT_ROUNDS
    }
}
