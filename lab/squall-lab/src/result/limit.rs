//! The clairvoyant bound of a run, as a record; `bound` computes it.

use serde::{Deserialize, Serialize};

use super::{Percentiles, ratio};

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
    /// Of the decided blocks, the most that can be whole before their deadline with all that they need. An upper bound.
    #[serde(default)]
    pub decodable_blocks: u64,
    /// Of the bytes of the decided blocks, the most that can arrive before their deadline, whether their
    /// blocks become whole or not. Exact for the network as [`Supply`](crate::bound::Supply) sees it.
    pub in_time_bytes: u64,
    /// The least times from handing over to arrival, each block with the network to itself; of all blocks
    /// that can arrive before the end of the run. Of all blocks of a run, those that never arrived being the
    /// latest, no percentile is below these.
    pub latency: Option<Percentiles>,
}

impl Limit {
    /// The highest [`Tally::in_time_ratio`](super::Tally::in_time_ratio) that a run can show. There
    /// an open block counts if it happens to be delivered. `None` without blocks.
    pub fn in_time_ratio(&self) -> Option<f64> {
        ratio(self.in_time_blocks + self.open_blocks, self.offered_blocks)
    }

    /// The highest [`Tally::decodable_ratio`](super::Tally::decodable_ratio) that a run can show, with open blocks as
    /// above. `None` without blocks.
    pub fn decodable_ratio(&self) -> Option<f64> {
        ratio(self.decodable_blocks + self.open_blocks, self.offered_blocks)
    }

    /// The highest share of the bytes of decided blocks that can arrive before the deadline of their block. `None`
    /// when there are none.
    pub fn in_time_bytes_ratio(&self) -> Option<f64> {
        ratio(self.in_time_bytes, self.offered_bytes - self.open_bytes)
    }

    /// The most [`Tally::in_time_bytes`](super::Tally::in_time_bytes) that a run can show, open
    /// blocks that happen to be delivered included.
    pub fn tally_bytes(&self) -> u64 {
        self.in_time_bytes + self.open_bytes
    }

    /// The same for [`Tally::in_time_blocks`](super::Tally::in_time_blocks).
    pub fn tally_blocks(&self) -> u64 {
        self.in_time_blocks + self.open_blocks
    }
}
