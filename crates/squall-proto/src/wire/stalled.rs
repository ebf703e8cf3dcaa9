//! STALLED: blocks that arrived later than their reader expected.

use squall_sched::BlockId;

use super::{WireError, next};
use crate::varint;

/// Number of ids after the first block that one item covers.
const REACH: u64 = 62;

/// Blocks that stalled: one, and any of the 62 ids after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// Id of the first of them.
    pub block: u64,
    /// Bit n is set if block + 1 + n stalled too; below 2⁶².
    pub more: u64,
}

impl Stalled {
    /// Creates the item of one block.
    pub fn new(block: BlockId) -> Self {
        Self { block: block.0, more: 0 }
    }

    /// Adds a later block. Returns `false` if the item does not cover its id.
    pub fn add(&mut self, block: BlockId) -> bool {
        let after = block.0.checked_sub(self.block + 1).filter(|after| *after < REACH);
        self.more |= after.map_or(0, |after| 1 << after);
        after.is_some()
    }

    /// Iterates over the blocks of the item.
    pub fn blocks(self) -> impl Iterator<Item = BlockId> {
        let after = (0..REACH).filter(move |bit| self.more >> bit & 1 != 0).map(|bit| 1 + bit);
        std::iter::once(0).chain(after).map(move |after| BlockId(self.block + after))
    }

    pub(super) fn encode(self, body: &mut Vec<u8>) {
        varint::write(body, self.block);
        varint::write(body, self.more);
    }

    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, WireError> {
        Ok(Self { block: next(input)?, more: next(input)? })
    }
}
