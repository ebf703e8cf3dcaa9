//! The clairvoyant bound: what no scheduler can surpass, even one that knew the whole future of the network.
//!
//! [`Supply`] is what the emulated paths can carry in one direction, for the same paths and seed as a run;
//! [`Demand`] is a block of the run. [`Bound::of`] tells the most bytes and blocks that can be in time, by
//! priority, and the least latencies. `docs/bound.md` says why these are bounds and what they leave out.

mod blocks;
mod carried;
mod lane;
mod latency;
mod packet;
mod supply;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use supply::Supply;

use self::{blocks::most_blocks, carried::Sweep};
use crate::{
    result::{Percentiles, ratio},
    traffic::Offer,
};

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
    fn due(&self, duration_us: u64) -> Option<u64> {
        Some(self.release_us.saturating_add(self.deadline_us?)).filter(|due| *due < duration_us)
    }
}

/// What no scheduler can surpass with the blocks of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// By priority, 0 first; those that have blocks.
    pub classes: Vec<ClassBound>,
    /// For all blocks together.
    pub total: Limit,
}

/// What no scheduler can surpass with the blocks of one priority.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassBound {
    /// The priority, 0 first.
    pub priority: u8,
    /// For these blocks, whatever becomes of the others.
    pub alone: Limit,
    /// For these blocks and all that are more important, together. One scheduler can reach all the
    /// `in_time_bytes` of these at once, with blocks that can be cut as finely as one likes: the difference to
    /// the class before is what a class gets from one that always puts the more important first.
    pub so_far: Limit,
}

/// What no scheduler can surpass with some blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Blocks handed over.
    pub offered_blocks: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Those of them that the run does not decide: their deadline is not before its end, or they have none.
    pub open_blocks: u64,
    /// Their bytes.
    pub open_bytes: u64,
    /// Of the decided blocks, the most that can be whole before their deadline. An upper bound.
    pub in_time_blocks: u64,
    /// Of the bytes of the decided blocks, the most that can arrive before their deadline, whether their
    /// blocks become whole or not. Exact for the network as [`Supply`] sees it.
    pub in_time_bytes: u64,
    /// The least times from handing over to arrival, each block with the network to itself; of all blocks
    /// that can arrive before the end of the run. Of all blocks of a run, those that never arrived being the
    /// latest, no percentile is below these.
    pub latency: Option<Percentiles>,
}

impl Limit {
    /// The highest [`Tally::in_time_ratio`](crate::result::Tally::in_time_ratio) that a run can show. There
    /// an open block counts if it happens to be delivered. `None` without blocks.
    pub fn in_time_ratio(&self) -> Option<f64> {
        ratio(self.in_time_blocks + self.open_blocks, self.offered_blocks)
    }

    /// The highest share of the bytes of decided blocks that can arrive before the deadline of their block. `None`
    /// when there are none.
    pub fn in_time_bytes_ratio(&self) -> Option<f64> {
        ratio(self.in_time_bytes, self.offered_bytes - self.open_bytes)
    }

    /// The most [`Tally::in_time_bytes`](crate::result::Tally::in_time_bytes) that a run can show, open
    /// blocks that happen to be delivered included.
    pub fn tally_bytes(&self) -> u64 {
        self.in_time_bytes + self.open_bytes
    }

    /// The same for [`Tally::in_time_blocks`](crate::result::Tally::in_time_blocks).
    pub fn tally_blocks(&self) -> u64 {
        self.in_time_blocks + self.open_blocks
    }
}

impl Bound {
    /// The bound for these blocks, in any order.
    pub fn of(supply: &Supply, demands: &[Demand]) -> Self {
        Clairvoyant::new(supply, demands).by_priority()
    }
}

/// Somebody who knows the future of the network, and all blocks that are to be carried in one direction.
pub struct Clairvoyant<'a> {
    /// In order of their release, each with its place among all that were given.
    demands: Vec<(usize, Demand)>,
    /// Of each, with the network to itself.
    latencies: Vec<Option<u64>>,
    /// Of each, whether the run decides it.
    decided: Vec<bool>,
    sweep: Sweep<'a>,
}

impl<'a> Clairvoyant<'a> {
    /// Somebody who has these blocks before them, in any order.
    pub fn new(supply: &'a Supply, demands: &[Demand]) -> Self {
        let mut demands: Vec<(usize, Demand)> =
            demands.iter().copied().enumerate().filter(|(_, demand)| demand.size > 0).collect();
        demands.sort_by_key(|(_, demand)| demand.release_us);
        let due = |(_, demand): &(usize, Demand)| demand.due(supply.duration_us());
        let dues: Vec<Option<u64>> = demands.iter().map(due).collect();
        let releases = demands.iter().map(|(_, demand)| demand.release_us);
        Self {
            latencies: demands.iter().map(|(_, demand)| supply.least_latency_us(demand)).collect(),
            decided: dues.iter().map(Option::is_some).collect(),
            sweep: Sweep::new(supply, releases.zip(dues)),
            demands,
        }
    }

    /// What no scheduler can surpass with some of the blocks, named by their places among those that were
    /// given, if it cares for no others.
    pub fn limit(&self, takes: impl Fn(usize) -> bool) -> Limit {
        self.limit_of(|(place, _)| takes(*place))
    }

    /// The same by priority.
    pub fn by_priority(&self) -> Bound {
        let mut priorities: Vec<u8> = self.demands.iter().map(|(_, demand)| demand.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let classes = priorities.iter().map(|&priority| {
            let so_far = self.limit_of(|(_, demand)| demand.priority <= priority);
            // The first class has nobody before it.
            let is_first = priority == priorities[0];
            let alone =
                if is_first { so_far } else { self.limit_of(|(_, demand)| demand.priority == priority) };
            ClassBound { priority, alone, so_far }
        });
        let classes: Vec<ClassBound> = classes.collect();
        let total = classes.last().map_or_else(|| self.limit_of(|_| true), |last| last.so_far);
        Bound { classes, total }
    }

    fn limit_of(&self, takes: impl Fn(&(usize, Demand)) -> bool) -> Limit {
        let members = || (0..self.demands.len()).filter(|&index| takes(&self.demands[index]));
        let size = |index: usize| self.demands[index].1.size;
        let open = || members().filter(|&index| !self.decided[index]);
        let decided: Vec<usize> = members().filter(|&index| self.decided[index]).collect();
        let in_time_bytes = self.sweep.most_bytes(&decided, size);
        let possible = |index: &usize| {
            let deadline = self.demands[*index].1.deadline_us;
            self.latencies[*index].is_some_and(|least| deadline.is_some_and(|most| least <= most))
        };
        let possible: Vec<usize> = decided.iter().copied().filter(possible).collect();
        Limit {
            offered_blocks: members().count() as u64,
            offered_bytes: members().map(size).sum(),
            open_blocks: open().count() as u64,
            open_bytes: open().map(size).sum(),
            in_time_blocks: most_blocks(&self.sweep, &possible, size),
            in_time_bytes,
            latency: latency::percentiles(members().filter_map(|index| self.latencies[index]).collect()),
        }
    }
}
