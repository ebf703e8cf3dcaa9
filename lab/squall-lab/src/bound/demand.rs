//! Blocks that a bound applies to.

use std::collections::BTreeMap;

use crate::offer::Offer;

/// A block to be carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// Release time in microseconds from the start of the run.
    pub release_us: u64,
    /// Size in bytes; blocks of 0 bytes are ignored.
    pub size: u64,
    /// Deadline in microseconds after the release, if any.
    pub deadline_us: Option<u64>,
    /// Priority, 0 first.
    pub priority: u8,
    /// Blocks required to decode this one, by index among all demands. Indices out of range are
    /// ignored.
    pub needs: [Option<usize>; 2],
}

impl From<&Offer> for Demand {
    /// Converts without the dependencies, because an offer names only indices within its flow; see
    /// [`Demands`].
    fn from(offer: &Offer) -> Self {
        let Offer { at_us, size, deadline_us, priority, .. } = *offer;
        Self { release_us: at_us, size, deadline_us, priority, needs: [None; 2] }
    }
}

impl Demand {
    /// Latest arrival time that counts as in time. As in [`Tally`](crate::result::Tally), this is
    /// the end of the run if the block has no deadline before it.
    pub(super) fn due(&self, duration_us: u64) -> u64 {
        let deadline = self.deadline_us.map_or(u64::MAX, |deadline| self.release_us.saturating_add(deadline));
        deadline.min(duration_us)
    }
}

/// Collects the blocks of flows.
#[derive(Debug, Clone, Default)]
pub struct Demands {
    all: Vec<Demand>,
    /// Indices of the blocks of each flow.
    places: BTreeMap<usize, Vec<usize>>,
}

impl Demands {
    /// Adds the next block of a flow. Its dependencies must belong to the same flow and may be
    /// added later.
    pub fn add(&mut self, flow: usize, offer: &Offer) {
        self.places.entry(flow).or_default().push(self.all.len());
        // Indices within the flow, until all blocks have been added.
        let needs =
            offer.frame.map_or([None; 2], |frame| frame.needs.map(|need| need.map(|need| need as usize)));
        self.all.push(Demand { needs, ..offer.into() });
    }

    /// Returns all blocks in the order in which they were added, with their dependencies.
    pub fn finish(mut self) -> Vec<Demand> {
        for places in self.places.values() {
            for place in places {
                let needs = &mut self.all[*place].needs;
                *needs = needs.map(|need| places.get(need?).copied());
            }
        }
        self.all
    }
}
