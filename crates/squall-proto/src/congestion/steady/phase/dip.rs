//! Phase with half a pipe in flight, to determine the owner of the queue.

use squall_units::Time;

use super::{
    super::{
        loss_bound::LossBound,
        units::{ByteRate, Delay},
    },
    round::{Finding, Next, Round, Sample, Step, count_down},
};

/// Share of the pipe that is in flight.
const SHARE: f64 = 0.5;
/// Rounds: one until the packets arrive, one until the queue shows it, one to measure.
const ROUNDS: u8 = 3;
/// Smallest share of the fall that the missing bytes explain at which the queue is all ours.
const OWNED: f64 = 0.5;
/// Share below which the delay has not followed the flight at all.
const UNMOVED: f64 = 0.2;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Dip {
    rounds_left: u8,
    before: Sample,
    /// Time since when others were present before the dip, if they were.
    others_since: Option<Time>,
}

impl Dip {
    pub(crate) fn new(before: Sample, others_since: Option<Time>) -> Self {
        Self { rounds_left: ROUNDS, before, others_since }
    }

    /// Returns the bytes that may be in flight. A dip halves the rate. If it falls further, the
    /// others take it.
    pub(crate) fn window(&self, rate: ByteRate, round_trip: Delay) -> u64 {
        (rate.max(self.before.rate * SHARE) * SHARE * round_trip) as u64
    }

    pub(crate) fn end_round(&mut self, round: &Round) -> Option<Step> {
        count_down(&mut self.rounds_left).then(|| self.judge(round))
    }

    fn judge(&self, round: &Round) -> Step {
        let before = self.before;
        let left_out = before.flight.saturating_sub(round.window) as f64;
        let explained = before.rate.max(ByteRate::ONE).time_for(left_out);
        let fallen = before.queue - round.queue.latest;
        if round.queue.is_within_target() || before.flight > 2 * round.window && fallen >= explained * OWNED {
            return self.end_alone(round);
        }
        if before.flight <= 2 * round.window {
            let before = Sample { flight: round.window.max(before.flight), ..round.sample() };
            return Step::new(Next::Lift { before, again: false }, "a dip left nothing out");
        }
        if fallen < explained * UNMOVED && !round.is_shared {
            let before = Sample { flight: before.flight.max(round.calm), ..before };
            let next = Next::Restore { before, bottom: round.sample() };
            return Step {
                finding: Some(Finding::Own),
                ..Step::new(next, "the delay did not follow the flight")
            };
        }
        // CUBIC continues where it governed before the dip.
        let bound = LossBound::at(round.now, round.in_flight.max(round.calm) as f64);
        let next = Next::Beside { since: self.others_since.unwrap_or(round.now), start: round.sample() };
        let step = Step::new(next, "the queue fell by less than was left out");
        Step { loss_bound: self.others_since.is_none().then_some(bound), ..step }
    }

    fn end_alone(&self, round: &Round) -> Step {
        Step {
            finding: (!round.is_shared).then_some(Finding::Own),
            loss_bound: self.others_since.map(|_| LossBound::default()),
            ..Step::new(Next::Alone, "the queue was ours, or is gone")
        }
    }
}
