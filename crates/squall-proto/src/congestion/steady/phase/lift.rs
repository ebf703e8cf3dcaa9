//! Phase with twice as much in flight, to determine the owner of the queue where a dip has nothing
//! to leave out.
//!
//! If we are alone on the link, sending more only lengthens the queue; the delivery rate stays. A
//! link whose rate grows by itself does so once, and not again for each lift until as much is in
//! flight as left the queue within the target.

use super::{
    super::loss_bound::LossBound,
    round::{Next, Round, Sample, Step, count_down},
};

/// Rounds in which twice as much is sent.
const ROUNDS: u8 = 4;
/// Multiple of the earlier rate above which the rate has grown.
const GROWN: f64 = 1.5;
/// Multiple of the earlier queue below which the queue has not grown.
const SAME_QUEUE: f64 = 1.3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lift {
    rounds_left: u8,
    before: Sample,
    /// The flight has been doubled before.
    again: bool,
}

impl Lift {
    pub(crate) fn new(before: Sample, again: bool) -> Self {
        Self { rounds_left: ROUNDS, before, again }
    }

    /// Returns the bytes that may be in flight.
    pub(crate) fn window(&self) -> u64 {
        2 * self.before.flight
    }

    pub(crate) fn end_round(&mut self, round: &Round) -> Option<Step> {
        count_down(&mut self.rounds_left).then(|| self.judge(round))
    }

    fn judge(&self, round: &Round) -> Step {
        let before = &self.before;
        let has_grown = round.rate > before.rate * GROWN && round.queue.latest < before.queue * SAME_QUEUE;
        if has_grown && round.in_flight < round.calm {
            Step::new(Next::Lift { before: round.sample_of_window(), again: true }, "more is carried")
        } else if has_grown || self.again && !round.is_own(before) {
            let next = Next::Beside { since: round.now, start: round.sample() };
            let loss_bound = Some(LossBound::at(round.now, round.in_flight as f64));
            Step { loss_bound, ..Step::new(next, "more is carried, no later") }
        } else {
            Step::new(Next::Alone, "no more is carried")
        }
    }
}
