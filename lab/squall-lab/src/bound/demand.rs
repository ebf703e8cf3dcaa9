//! The blocks that a bound is about.

use std::collections::BTreeMap;

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
    /// Those that it is useless without, by their places among all demands that are given. A place that is not there
    /// does not count.
    pub needs: [Option<usize>; 2],
}

impl From<&Offer> for Demand {
    /// Without what it needs: an offer names places in its flow only; see [`Demands`].
    fn from(offer: &Offer) -> Self {
        let Offer { at_us, size, deadline_us, priority, .. } = *offer;
        Self { release_us: at_us, size, deadline_us, priority, needs: [None; 2] }
    }
}

impl Demand {
    /// The latest time at which it arrives in time. As in [`Tally`](crate::result::Tally), that is the end of the run for a
    /// block whose deadline is not before it, and for one without a deadline.
    pub(super) fn due(&self, duration_us: u64) -> u64 {
        let deadline = self.deadline_us.map_or(u64::MAX, |deadline| self.release_us.saturating_add(deadline));
        deadline.min(duration_us)
    }
}

/// Collects the blocks of flows.
#[derive(Debug, Clone, Default)]
pub struct Demands {
    all: Vec<Demand>,
    /// By flow, the places of its blocks.
    places: BTreeMap<usize, Vec<usize>>,
}

impl Demands {
    /// The next block of a flow. What it needs must be of the same flow, and may come after it.
    pub fn add(&mut self, flow: usize, offer: &Offer) {
        self.places.entry(flow).or_default().push(self.all.len());
        // Until all are there, by its number in the flow.
        let needs =
            offer.frame.map_or([None; 2], |frame| frame.needs.map(|need| need.map(|need| need as usize)));
        self.all.push(Demand { needs, ..offer.into() });
    }

    /// All of them in the order in which they were added, with what they need.
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
