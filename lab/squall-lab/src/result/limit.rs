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

/// Limits that no scheduler can surpass with some blocks.
///
/// Blocks count as in a [`Tally`](super::Tally): one without a deadline, or with one that is not before the end of the
/// run, is in time if it arrives before the end. So each number is a limit of the number of the same name there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Blocks handed over.
    pub offered_blocks: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// The most of them that can be whole in time. An upper bound.
    pub in_time_blocks: u64,
    /// The most of them that can be whole in time with all that they need. An upper bound.
    pub decodable_blocks: u64,
    /// The most of their bytes that can arrive in time, whether their blocks become whole or not. Exact for the network
    /// as [`Supply`](crate::bound::Supply) sees it.
    pub in_time_bytes: u64,
    /// The same of the blocks with a deadline before the end of the run, as if there were no others.
    pub due: Due,
    /// The least times from handing over to arrival, each block with the network to itself; of all blocks
    /// that can arrive before the end of the run. Of all blocks of a run, those that never arrived being the
    /// latest, no percentile is below these.
    pub latency: Option<Percentiles>,
}

/// Limits for the blocks whose deadline is before the end of the run, which always decides them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// Their number.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The most of them that can be whole in time.
    pub in_time_blocks: u64,
    /// The most of them that can be whole in time with all that they need.
    pub decodable_blocks: u64,
    /// The most of their bytes that can arrive in time.
    pub in_time_bytes: u64,
}

impl Limit {
    /// The highest [`Tally::in_time_ratio`](super::Tally::in_time_ratio) that a run can show. `None` without blocks.
    pub fn in_time_ratio(&self) -> Option<f64> {
        share(self.in_time_blocks, self.due.in_time_blocks, self.due.blocks)
    }

    /// The highest [`Tally::decodable_ratio`](super::Tally::decodable_ratio) that a run can show. `None` without blocks.
    pub fn decodable_ratio(&self) -> Option<f64> {
        share(self.decodable_blocks, self.due.decodable_blocks, self.due.blocks)
    }

    /// The highest [`FlowResult::in_time_bytes_ratio`](super::FlowResult::in_time_bytes_ratio) that a run can show. `None`
    /// without blocks.
    pub fn in_time_bytes_ratio(&self) -> Option<f64> {
        share(self.in_time_bytes, self.due.in_time_bytes, self.due.bytes)
    }

    /// Those of two directions together, which do not limit each other; without percentiles.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            offered_blocks: self.offered_blocks + other.offered_blocks,
            offered_bytes: self.offered_bytes + other.offered_bytes,
            in_time_blocks: self.in_time_blocks + other.in_time_blocks,
            decodable_blocks: self.decodable_blocks + other.decodable_blocks,
            in_time_bytes: self.in_time_bytes + other.in_time_bytes,
            due: Due {
                blocks: self.due.blocks + other.due.blocks,
                bytes: self.due.bytes + other.due.bytes,
                in_time_blocks: self.due.in_time_blocks + other.due.in_time_blocks,
                decodable_blocks: self.due.decodable_blocks + other.due.decodable_blocks,
                in_time_bytes: self.due.in_time_bytes + other.due.in_time_bytes,
            },
            latency: None,
        }
    }
}

/// The highest share in time of what a run decides: all that is due, and of the rest what arrives.
///
/// With `a` of those due and `b` of the rest in time, a run shows `(a + b) / (due + b)`. It grows with `a`, and with `a + b`:
/// so it is highest where both have their most.
fn share(most: u64, most_due: u64, due: u64) -> Option<f64> {
    ratio(most, due + most.saturating_sub(most_due))
}
