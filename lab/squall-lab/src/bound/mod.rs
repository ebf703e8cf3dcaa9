//! The clairvoyant bound: a limit that no scheduler can exceed, even with full knowledge of the
//! future of the network.
//!
//! [`Supply`] is the capacity of the emulated paths in one direction, for the same paths and seed
//! as a run; [`Demand`] is a block of the run. [`Bound::of`] computes the maximum number of bytes
//! and blocks in time, by priority, and the minimum latencies. `docs/bound.md` proves the bounds
//! and lists what they ignore.

mod blocks;
mod carried;
mod decodable;
mod demand;
mod packet;
mod serialiser;
mod supply;
#[cfg(test)]
mod tests;

use crate::result::Percentiles;
pub use crate::result::{Bound, ClassBound, Due, Limit};
pub use demand::{Demand, Demands};
pub use supply::Supply;

use self::{blocks::most_blocks, carried::Sweep, decodable::Needs};

impl Bound {
    /// Computes the bound for these blocks, in any order.
    pub fn of(supply: &Supply, demands: &[Demand]) -> Self {
        Clairvoyant::new(supply, demands).by_priority()
    }
}

/// The future of the network, and all blocks to be carried in one direction.
pub struct Clairvoyant<'a> {
    /// Blocks in the order of their release, each with its index among all that were given.
    demands: Vec<(usize, Demand)>,
    /// Minimum latency of each block, with the network to itself.
    latencies: Vec<Option<u64>>,
    /// Latest arrival of each block that counts as in time.
    dues: Vec<u64>,
    sweep: Sweep<'a>,
    supply: &'a Supply,
    needs: Needs,
}

impl<'a> Clairvoyant<'a> {
    /// Prepares the computation for these blocks, in any order.
    pub fn new(supply: &'a Supply, demands: &[Demand]) -> Self {
        let mut demands: Vec<(usize, Demand)> =
            demands.iter().copied().enumerate().filter(|(_, demand)| demand.size > 0).collect();
        demands.sort_by_key(|(_, demand)| demand.release_us);
        let due = |(_, demand): &(usize, Demand)| demand.due(supply.duration_us());
        let dues: Vec<u64> = demands.iter().map(due).collect();
        let releases = demands.iter().map(|(_, demand)| demand.release_us);
        Self {
            latencies: demands.iter().map(|(_, demand)| supply.least_latency_us(demand)).collect(),
            needs: Needs::new(supply, &demands, &dues),
            sweep: Sweep::new(supply, releases.zip(dues.iter().copied())),
            supply,
            demands,
            dues,
        }
    }

    /// Computes the limits for some of the blocks, selected by their index among those that were
    /// given, as if there were no others.
    pub fn limit(&self, takes: impl Fn(usize) -> bool) -> Limit {
        self.limit_of(|(place, _)| takes(*place))
    }

    /// Computes the limits by priority.
    pub fn by_priority(&self) -> Bound {
        let mut priorities: Vec<u8> = self.demands.iter().map(|(_, demand)| demand.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let classes = priorities.iter().map(|&priority| {
            let so_far = self.limit_of(|(_, demand)| demand.priority <= priority);
            // For the first class, both limits are equal.
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
        let members = (0..self.demands.len()).filter(|&index| takes(&self.demands[index]));
        let members: Vec<usize> = members.collect();
        let end = self.supply.duration_us();
        let due: Vec<usize> = members.iter().copied().filter(|&index| self.dues[index] < end).collect();
        let of_due = self.most(&due);
        let of_all = if due.len() == members.len() { of_due } else { self.most(&members) };
        Limit {
            offered_blocks: of_all.blocks,
            offered_bytes: of_all.bytes,
            in_time_blocks: of_all.in_time_blocks,
            decodable_blocks: of_all.decodable_blocks,
            in_time_bytes: of_all.in_time_bytes,
            due: of_due,
            latency: Percentiles::of(members.iter().filter_map(|&index| self.latencies[index]).collect()),
        }
    }

    /// Computes the limits for these blocks, in ascending order, as if there were no others.
    fn most(&self, members: &[usize]) -> Due {
        let size = |index: usize| self.demands[index].1.size;
        let possible = |index: &usize| {
            let arrival = self.latencies[*index].map(|least| self.demands[*index].1.release_us + least);
            arrival.is_some_and(|arrival| arrival <= self.dues[*index])
        };
        let possible: Vec<usize> = members.iter().copied().filter(possible).collect();
        let in_time_blocks = most_blocks(&self.sweep, &possible, size);
        Due {
            blocks: members.len() as u64,
            bytes: members.iter().map(|index| size(*index)).sum(),
            in_time_blocks,
            decodable_blocks: self.needs.most(self, &possible, in_time_blocks),
            in_time_bytes: self.sweep.most_bytes(members, size),
        }
    }
}
