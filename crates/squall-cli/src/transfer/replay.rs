//! Blocks without an acknowledgement, which the next session may have to send again.

use std::collections::VecDeque;

use bytes::Bytes;

use super::message::Position;

/// Maximum bytes that are kept; beyond it the source waits for the receiver.
const MAX_BYTES: u64 = 64 << 20;

/// Maximum number of blocks that are kept.
const MAX_BLOCKS: usize = 16_384;

/// Blocks from the first unacknowledged one on.
#[derive(Debug, Default)]
pub(super) struct Replay {
    first: u64,
    bytes: u64,
    kept: VecDeque<Bytes>,
}

impl Replay {
    /// Returns the number of the first kept block; that of the next one if none is kept.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of the next block.
    pub(super) fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Keeps the next block.
    pub(super) fn keep(&mut self, block: Bytes) {
        self.bytes += block.len() as u64;
        self.kept.push_back(block);
    }

    /// Drops the blocks before this position, which the receiver acknowledged. Returns `false` if
    /// they were never sent.
    pub(super) fn confirm(&mut self, taken: Position) -> bool {
        while self.first < taken.next {
            let Some(block) = self.kept.pop_front() else { return false };
            self.bytes -= block.len() as u64;
            self.first += 1;
        }
        true
    }

    /// `true` if another block may be kept.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < MAX_BYTES && self.kept.len() < MAX_BLOCKS
    }

    /// Returns the block of this number, if it is kept.
    pub(super) fn block(&self, number: u64) -> Option<Bytes> {
        self.kept.get(usize::try_from(number.checked_sub(self.first)?).ok()?).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(next: u64) -> Position {
        Position { next, bytes: 0 }
    }

    #[test]
    fn blocks_are_kept_until_they_are_confirmed() {
        let mut replay = Replay::default();
        for byte in 0..4u8 {
            replay.keep(vec![byte].into());
        }
        assert!(replay.confirm(at(2)));
        assert_eq!((replay.first(), replay.next()), (2, 4));
        assert_eq!(replay.block(1), None);
        assert_eq!(replay.block(3).expect("is kept")[..], [3]);
        // An older confirmation changes nothing; one of unsent blocks is invalid.
        assert!(replay.confirm(at(1)));
        assert_eq!(replay.first(), 2);
        assert!(!replay.confirm(at(5)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut replay = Replay::default();
        while replay.has_room() {
            replay.keep("x".into());
        }
        assert_eq!(replay.next(), MAX_BLOCKS as u64);
        assert!(replay.confirm(at(1)) && replay.has_room());
        replay.keep(vec![0; MAX_BYTES as usize].into());
        assert!(!replay.has_room());
    }
}
