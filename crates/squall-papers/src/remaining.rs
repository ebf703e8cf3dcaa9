//! Blocks with unsent bytes, ordered by their number.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
};

use squall_sched::{Block, BlockId, BlockQueue};

/// Sort key of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum By {
    /// Unsent bytes.
    #[default]
    Remaining,
    /// All bytes.
    Size,
}

impl FromStr for By {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "remaining" => Ok(Self::Remaining),
            "size" => Ok(Self::Size),
            _ => Err("must be remaining or size"),
        }
    }
}

/// Blocks with unsent bytes (fresh, or lost ones of reliable blocks): fewest bytes first, the older
/// first among equals.
///
/// The queue is authoritative; this index follows it in O(log blocks) per block that may have
/// changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remaining {
    by: By,
    order: BTreeSet<(u32, BlockId)>,
    /// Position of each block in the order, and its unsent bytes.
    blocks: BTreeMap<BlockId, Place>,
    total: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    rank: u32,
    unsent: u32,
}

impl Remaining {
    /// Builds the index of all blocks in the queue.
    pub(crate) fn of(queue: &BlockQueue, by: By) -> Self {
        let mut remaining = Self { by, ..Self::default() };
        queue.iter().for_each(|block| remaining.refresh(queue, block.meta().id));
        remaining
    }

    /// Updates the unsent bytes of a block; none if it is not in the queue.
    pub(crate) fn refresh(&mut self, queue: &BlockQueue, id: BlockId) {
        let now = queue.get(id).and_then(|block| self.place(block));
        let before = self.blocks.get(&id).copied();
        if now == before {
            return;
        }
        if let Some(Place { rank, unsent }) = before {
            self.order.remove(&(rank, id));
            self.blocks.remove(&id);
            self.total -= u64::from(unsent);
        }
        if let Some(place) = now {
            self.order.insert((place.rank, id));
            self.blocks.insert(id, place);
            self.total += u64::from(place.unsent);
        }
    }

    fn place(&self, block: &Block) -> Option<Place> {
        let unsent = block.unsent_bytes();
        let rank = match self.by {
            By::Remaining => unsent,
            By::Size => block.meta().len,
        };
        (unsent > 0).then_some(Place { rank, unsent })
    }

    /// Returns the unsent bytes of each block, in order.
    pub(crate) fn fewest_first(&self) -> impl Iterator<Item = (u32, BlockId)> {
        self.order.iter().map(|(_, id)| (self.blocks[id].unsent, *id))
    }

    /// Returns the last block in the order.
    pub(crate) fn last(&self) -> Option<BlockId> {
        self.order.last().map(|(_, id)| *id)
    }

    /// Returns the unsent bytes of all blocks.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use squall_units::short::at_us;

    use super::*;
    use squall_sched::{BlockMeta, PathId};

    fn insert(queue: &mut BlockQueue, id: u64, len: u32, reliable: bool) {
        queue.insert(BlockMeta { reliable, ..BlockMeta::new(BlockId(id), len) });
    }

    fn order(remaining: &Remaining) -> Vec<(u32, u64)> {
        remaining.fewest_first().map(|(bytes, id)| (bytes, id.0)).collect()
    }

    #[test]
    fn fewest_first_and_among_equals_the_older() {
        let mut queue = BlockQueue::new();
        for (id, len) in [(0, 300), (1, 100), (2, 200), (3, 100), (4, 0)] {
            insert(&mut queue, id, len, true);
        }
        let mut remaining = Remaining::of(&queue, By::Remaining);
        assert_eq!(order(&remaining), [(100, 1), (100, 3), (200, 2), (300, 0)]);
        assert_eq!((remaining.total(), remaining.last()), (700, Some(BlockId(0))));

        queue.mark_sent(BlockId(0), 0..250, PathId(0), at_us(1));
        remaining.refresh(&queue, BlockId(0));
        queue.remove(BlockId(3));
        remaining.refresh(&queue, BlockId(3));
        assert_eq!(order(&remaining), [(50, 0), (100, 1), (200, 2)]);
        assert_eq!((remaining.total(), remaining.last()), (350, Some(BlockId(2))));
    }

    #[test]
    fn by_size_what_was_sent_of_a_block_does_not_count() {
        let mut queue = BlockQueue::new();
        for (id, len) in [(0, 300), (1, 200)] {
            insert(&mut queue, id, len, true);
        }
        queue.mark_sent(BlockId(0), 0..250, PathId(0), at_us(1));
        assert_eq!(order(&Remaining::of(&queue, By::Remaining)), [(50, 0), (200, 1)]);
        assert_eq!(order(&Remaining::of(&queue, By::Size)), [(200, 1), (50, 0)]);
    }

    #[test]
    fn lost_bytes_of_reliable_blocks_count() {
        let mut queue = BlockQueue::new();
        let mut remaining = Remaining::default();
        for (id, reliable) in [(0, true), (1, false)] {
            insert(&mut queue, id, 100, reliable);
            queue.mark_sent(BlockId(id), 0..80, PathId(0), at_us(1));
            queue.mark_lost(BlockId(id), 0..30, PathId(0));
            remaining.refresh(&queue, BlockId(id));
        }
        assert_eq!(order(&remaining), [(20, 1), (50, 0)]);
    }

    proptest! {
        /// Following block by block gives the same index as building it from the queue.
        #[test]
        fn following_the_queue_and_reading_it_agree(
            lens in vec((0..500u32, any::<bool>()), 1..10),
            by in prop_oneof![Just(By::Remaining), Just(By::Size)],
            changes in vec((any::<prop::sample::Index>(), 0..4u8, 0..500u32, 0..500u32), 0..60),
        ) {
            let mut queue = BlockQueue::new();
            for (id, (len, reliable)) in (0..).zip(&lens) {
                insert(&mut queue, id, *len, *reliable);
            }
            let mut remaining = Remaining::of(&queue, by);
            for (which, what, start, len) in changes {
                let (id, range) = (BlockId(which.index(lens.len()) as u64), start..start + len);
                match what {
                    0 => queue.mark_sent(id, range, PathId(0), at_us(1)),
                    1 => _ = queue.mark_lost(id, range, PathId(0)),
                    2 => queue.mark_unsent(id, range, PathId(0)),
                    _ => _ = queue.mark_acked(id, range),
                }
                remaining.refresh(&queue, id);
                let built = Remaining::of(&queue, by);
                prop_assert_eq!(order(&remaining), order(&built));
                prop_assert_eq!(remaining.total(), built.total());
                let sum = queue.iter().map(|b| u64::from(b.unsent_bytes())).sum::<u64>();
                prop_assert_eq!(remaining.total(), sum);
            }
        }
    }
}
