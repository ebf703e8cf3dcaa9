//! Blocks whose bytes are produced over a time: sent with their last byte, or while they grow.

use std::collections::BTreeMap;

use squall_proto::sched::BlockId;

use crate::offer::Offer;
use crate::world::Side;

/// Action for the next part of a block.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// The block is complete and is submitted as a whole.
    Whole {
        flow: usize,
        /// Index within the flow.
        index: u64,
        offer: Offer,
    },
    /// Part of a block that was opened earlier.
    Piece { side: Side, block: BlockId, bytes: u64, is_last: bool },
}

/// Pending steps in order of time.
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

    /// Returns the time of the first step.
    pub(super) fn next(&self) -> Option<u64> {
        self.steps.first_key_value().map(|((at_us, _), _)| *at_us)
    }

    /// Returns the first step, if it is due.
    pub(super) fn due(&mut self, now: u64) -> Option<Step> {
        self.next().filter(|at| *at <= now)?;
        self.steps.pop_first().map(|(_, step)| step)
    }
}
