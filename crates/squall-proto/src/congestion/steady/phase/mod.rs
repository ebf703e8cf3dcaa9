//! The state machine that governs the window. Each phase has its state in a file of its own, judges
//! the path at the end of each round, and selects the next phase.
//!
//! ```text
//! Start ──▶ Alone ◀──────────────────────────────┐ no others, or they are gone
//!             │ whose queue is it?               │
//!             ▼                                  │
//!            Dip ──▶ Restore: is it a queue? ──▶ ┤
//!           ▲ │ └──▶ Lift: nothing to leave out ▶┤
//!           │ ▼         │ ↺          │           │
//!         Beside ◀──────┴────────────┘           │
//!             └──────────────────────────────────┘
//! ```

mod alone;
mod beside;
mod dip;
mod lift;
mod restore;
mod round;
mod start;

pub(super) use self::{alone::Alone, beside::Beside, dip::Dip, lift::Lift, restore::Restore, start::Start};
pub(super) use round::{Finding, Next, QueueDelay, Round, Step};

/// A phase and its state.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    Start(Start),
    Alone(Alone),
    Dip(Dip),
    Restore(Restore),
    Lift(Lift),
    Beside(Beside),
}

impl Default for Phase {
    fn default() -> Self {
        Self::Start(Start::default())
    }
}

impl From<Next> for Phase {
    fn from(next: Next) -> Self {
        match next {
            Next::Alone => Self::Alone(Alone::default()),
            Next::Dip { before, others_since } => Self::Dip(Dip::new(before, others_since)),
            Next::Restore { before, bottom } => Self::Restore(Restore::new(before, bottom)),
            Next::Lift { before, again } => Self::Lift(Lift::new(before, again)),
            Next::Beside { since, start } => Self::Beside(Beside::new(since, start)),
        }
    }
}

impl Phase {
    /// Ends a round. Returns the step to the next phase if this one is over.
    pub(super) fn end_round(&mut self, round: &Round) -> Option<Step> {
        match self {
            Self::Start(start) => start.end_round(round),
            Self::Alone(alone) => alone.end_round(round),
            Self::Dip(dip) => dip.end_round(round),
            Self::Restore(restore) => restore.end_round(round),
            Self::Lift(lift) => lift.end_round(round),
            Self::Beside(beside) => beside.end_round(round),
        }
    }

    /// Returns `true` if `next` may follow this phase.
    pub(super) fn may_become(&self, next: &Self) -> bool {
        match self {
            Self::Start(_) => next.is_alone(),
            Self::Alone(_) => matches!(next, Self::Dip(_)),
            Self::Dip(_) => !matches!(next, Self::Start(_) | Self::Dip(_)),
            Self::Restore(_) => next.is_alone() || next.is_beside(),
            Self::Lift(_) => next.is_alone() || next.is_beside() || matches!(next, Self::Lift(_)),
            Self::Beside(_) => next.is_alone() || matches!(next, Self::Dip(_)),
        }
    }

    pub(super) fn is_alone(&self) -> bool {
        matches!(self, Self::Alone(_))
    }

    pub(super) fn is_beside(&self) -> bool {
        matches!(self, Self::Beside(_))
    }

    /// Returns its name in the log.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Start(_) => "start",
            Self::Alone(_) => "alone",
            Self::Dip(_) => "dip",
            Self::Restore(_) => "restore",
            Self::Lift(_) => "lift",
            Self::Beside(_) => "beside",
        }
    }
}

#[cfg(test)]
mod tests;
