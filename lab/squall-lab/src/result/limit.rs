//! Clairvoyant bound of a run, as a record; `bound` computes it.

use serde::{Deserialize, Serialize};

use super::{Percentiles, ratio};

/// Bound that no scheduler can exceed for the blocks of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Bounds by priority, 0 first; only priorities with blocks.
    pub classes: Vec<ClassBound>,
    /// Bound for all blocks together.
    pub total: Limit,
}

/// Bound that no scheduler can exceed for the blocks of one priority.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassBound {
    /// The priority, 0 first.
    pub priority: u8,
    /// Bound for these blocks, regardless of the others.
    pub alone: Limit,
    /// Bound for these blocks together with all of higher priority. A single scheduler can reach
    /// the `in_time_bytes` of all classes at once, if blocks can be divided arbitrarily; the
    /// difference to the class before is the share of this class under strict priority.
    pub so_far: Limit,
}

/// Limits that no scheduler can exceed for a set of blocks.
///
/// Blocks count as in a [`Tally`](super::Tally): a block without a deadline before the end of the
/// run is in time if it arrives before the end. So each number is a limit of the field of the same
/// name there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Blocks that were submitted.
    pub offered_blocks: u64,
    /// Total size of these blocks in bytes.
    pub offered_bytes: u64,
    /// Upper bound of the blocks that can be complete in time.
    pub in_time_blocks: u64,
    /// Upper bound of the blocks that can be complete in time with all their dependencies.
    pub decodable_blocks: u64,
    /// Maximum number of bytes that can arrive in time, even of blocks that never complete. Exact
    /// for the network as modelled by [`Supply`](crate::bound::Supply).
    pub in_time_bytes: u64,
    /// Limits for the blocks with a deadline before the end of the run, as if there were no others.
    pub due: Due,
    /// Minimum latencies, each block with the network to itself, of all blocks that can arrive
    /// before the end of the run. They bound the percentiles over all blocks of a run, where blocks
    /// that never arrive count as the slowest.
    pub latency: Option<Percentiles>,
}

/// Limits for the blocks with a deadline before the end of the run, which are always decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// Number of these blocks.
    pub blocks: u64,
    /// Total size of these blocks in bytes.
    pub bytes: u64,
    /// Upper bound of the blocks that can be complete in time.
    pub in_time_blocks: u64,
    /// Upper bound of the blocks that can be complete in time with all their dependencies.
    pub decodable_blocks: u64,
    /// Maximum number of bytes that can arrive in time.
    pub in_time_bytes: u64,
}

impl Limit {
    /// Upper bound of [`Tally::in_time_ratio`](super::Tally::in_time_ratio) for a run. `None`
    /// without blocks.
    pub fn in_time_ratio(&self) -> Option<f64> {
        share(self.in_time_blocks, self.due.in_time_blocks, self.due.blocks)
    }

    /// Upper bound of [`Tally::decodable_ratio`](super::Tally::decodable_ratio) for a run. `None`
    /// without blocks.
    pub fn decodable_ratio(&self) -> Option<f64> {
        share(self.decodable_blocks, self.due.decodable_blocks, self.due.blocks)
    }

    /// Upper bound of [`FlowResult::in_time_bytes_ratio`](super::FlowResult::in_time_bytes_ratio)
    /// for a run. `None` without blocks.
    pub fn in_time_bytes_ratio(&self) -> Option<f64> {
        share(self.in_time_bytes, self.due.in_time_bytes, self.due.bytes)
    }

    /// Adds the limits of another direction, which are independent; without percentiles.
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

/// Returns the highest in-time share of the decided blocks: all that are due, and those of the
/// others that arrive.
///
/// With `a` of the due blocks and `b` of the others in time, a run shows `(a + b) / (due + b)`.
/// This increases with `a` and with `a + b`, so it is highest when both are at their maximum.
fn share(most: u64, most_due: u64, due: u64) -> Option<f64> {
    ratio(most, due + most.saturating_sub(most_due))
}
