//! Blocks whose bytes come into being over a time: sent with their last byte, or while they grow.

use std::collections::BTreeMap;

use squall_proto::sched::BlockId;

use crate::offer::Offer;
use crate::world::Side;

/// What is to be done when more of a block is there.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// All of it is there, and is handed over as one.
    Whole {
        flow: usize,
        /// Which of the flow's blocks it is.
        index: u64,
        offer: Offer,
    },
    /// A block that was opened grows.
    Piece { side: Side, block: BlockId, bytes: u64, is_last: bool },
}

/// The steps to come, in order.
#[derive(Default)]
pub(super) struct Growth {
    steps: BTreeMap<(u64, u64), Step>,
    count: u64,
}

impl Growth {
    pub(super) fn add(&mut self, at_us: u64, step: Step) {
        self.steps.insert((at_us, self.count), step);
        self.count += 1;
    }

    /// When the first step is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.steps.first_key_value().map(|((at_us, _), _)| *at_us)
    }

    /// The first step, if it is due.
    pub(super) fn due(&mut self, now: u64) -> Option<Step> {
        self.next().filter(|at| *at <= now)?;
        self.steps.pop_first().map(|(_, step)| step)
    }
}
