//! Phase with as much in flight as before a dip, to determine whether the path itself delays.
//!
//! A path that only delays carries the same rate as then, at the same delay. A link that lost its
//! rate in the dip queues the bytes, and others keep the share that they took.

use super::{
    super::loss_bound::LossBound,
    round::{Finding, Next, Round, Sample, Step, count_down},
};

/// Rounds: one until the packets arrive, one until the delay shows it, one to measure.
const ROUNDS: u8 = 3;
/// Share of the rate before a dip that a path carries again which only delays.
const RESTORED: f64 = 0.7;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Restore {
    rounds_left: u8,
    before: Sample,
    /// Sample at the end of the dip.
    bottom: Sample,
}

impl Restore {
    pub(crate) fn new(before: Sample, bottom: Sample) -> Self {
        Self { rounds_left: ROUNDS, before, bottom }
    }

    /// Returns the bytes that may be in flight.
    pub(crate) fn window(&self, delay_bound: u64) -> u64 {
        delay_bound.max(self.before.flight)
    }

    pub(crate) fn end_round(&mut self, round: &Round) -> Option<Step> {
        count_down(&mut self.rounds_left).then(|| self.judge(round))
    }

    fn judge(&self, round: &Round) -> Step {
        let growth = round.queue.latest - self.bottom.queue;
        let is_own = growth > round.queue.target.max(round.own_growth(&self.bottom));
        if is_own {
            let step = Step::new(Next::Alone, "the queue has grown again: it is ours");
            Step { finding: Some(Finding::Queue), ..step }
        } else if round.rate > self.before.rate * RESTORED {
            Step::new(Next::Alone, "the path alone delays")
        } else {
            Step {
                finding: Some(Finding::Queue),
                loss_bound: Some(LossBound::at(round.now, round.in_flight.max(round.calm) as f64)),
                ..Step::new(
                    Next::Beside { since: round.now, start: round.sample() },
                    "others took what was left out",
                )
            }
        }
    }
}
