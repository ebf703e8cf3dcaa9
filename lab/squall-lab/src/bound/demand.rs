//! The blocks that a bound is about.

use crate::offer::Offer;

/// A block that is to be carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// When it is handed over, in microseconds from the start of the run.
    pub release_us: u64,
    /// Its size in bytes; one of 0 bytes is no block and does not count.
    pub size: u64,
    /// Its deadline in microseconds after the release; `None` if it has none.
    pub deadline_us: Option<u64>,
    /// Its priority, 0 first.
    pub priority: u8,
}

impl From<&Offer> for Demand {
    fn from(offer: &Offer) -> Self {
        let Offer { at_us, size, deadline_us, priority, .. } = *offer;
        Self { release_us: at_us, size, deadline_us, priority }
    }
}

impl Demand {
    /// The time of its deadline if the run is to decide it. As in [`Tally`](crate::result::Tally), a block
    /// whose deadline is not before the end of the run is open, and so is one without a deadline.
    pub(super) fn due(&self, duration_us: u64) -> Option<u64> {
        Some(self.release_us.saturating_add(self.deadline_us?)).filter(|due| *due < duration_us)
    }
}
