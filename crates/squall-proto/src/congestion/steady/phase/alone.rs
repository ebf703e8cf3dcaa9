//! Phase in which the delay bound governs, and the loss bound if there is one. A standing queue
//! calls for a dip: its owner is unknown.

use squall_units::Span;

use super::round::{Next, Round, Sample, Step};

/// Consecutive rounds with a notable queue that call for a dip.
const STANDING_ROUNDS: u8 = 3;
/// Share of a queue at the first of them below which it falls by itself, as after a hold of the
/// path, and needs no dip.
const FALLING: f64 = 0.9;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alone {
    /// Consecutive rounds with a notable queue.
    standing: u8,
    /// Sample of the first of them.
    first: Sample,
}

impl Alone {
    pub(crate) fn end_round(&mut self, round: &Round) -> Option<Step> {
        if round.is_limited && round.queue.is_notable() {
            if self.standing == 0 || round.queue.latest < self.first.queue * FALLING {
                (self.standing, self.first) = (0, round.sample());
            }
            self.standing += 1;
        } else {
            self.standing = 0;
        }
        let (before, why) = if self.standing >= STANDING_ROUNDS {
            // The window has fallen since the queue was first seen: that is a part of the test.
            (self.first, "a queue stands")
        } else if round.is_overdue(Span::ZERO) {
            (round.sample_of_window(), "none was seen to be empty for long")
        } else {
            return None;
        };
        Some(Step::new(Next::Dip { before, others_since: None }, why))
    }
}
