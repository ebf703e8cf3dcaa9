//! What was handed over and is not known to be at the receiver: it is sent again over the next session.

use std::{collections::VecDeque, time::Instant};

use squall::Block;

use super::message::Position;

/// Bytes that are kept at most. Beyond that the source waits for the receiver.
const MAX_BYTES: u64 = 64 << 20;

/// Blocks that are kept at most, should they be small.
const MAX_BLOCKS: usize = 16_384;

/// Blocks from the first one that the receiver is not known to have.
#[derive(Debug, Default)]
pub(super) struct Replay {
    first: u64,
    bytes: u64,
    kept: VecDeque<Kept>,
}

#[derive(Debug)]
struct Kept {
    block: Block,
    until: Option<Instant>,
}

impl Replay {
    /// Number of the first block that is kept; of the next one if none is.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Number of the next block.
    pub(super) fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Keeps the next block. Its deadline counts from now.
    pub(super) fn keep(&mut self, now: Instant, block: Block) {
        let until = block.deadline.map(|deadline| now + deadline);
        self.bytes += block.data.len() as u64;
        self.kept.push_back(Kept { block, until });
    }

    /// The receiver has taken all blocks before this one, or does not need them. Says whether that can be.
    pub(super) fn confirm(&mut self, taken: Position) -> bool {
        while self.first < taken.next && !self.kept.is_empty() {
            self.forget_first();
        }
        self.first >= taken.next
    }

    /// Whether another block may be kept. Blocks that are too late by now make room.
    pub(super) fn has_room(&mut self, now: Instant) -> bool {
        while self.is_full()
            && self.kept.front().is_some_and(|kept| kept.until.is_some_and(|until| until < now))
        {
            self.forget_first();
        }
        !self.is_full()
    }

    /// The block of this number with what is left of its deadline; `None` if it is too late by now.
    pub(super) fn block(&self, number: u64, now: Instant) -> Option<Block> {
        let kept = self.kept.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        let mut block = kept.block.clone();
        if let Some(until) = kept.until {
            block.deadline = Some(until.checked_duration_since(now).filter(|left| !left.is_zero())?);
        }
        Some(block)
    }

    fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES || self.kept.len() >= MAX_BLOCKS
    }

    fn forget_first(&mut self) {
        if let Some(kept) = self.kept.pop_front() {
            self.bytes -= kept.block.data.len() as u64;
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(next: u64) -> Position {
        Position { next, bytes: 0 }
    }

    #[test]
    fn blocks_are_kept_until_they_are_confirmed() {
        let (mut replay, now) = (Replay::default(), Instant::now());
        for byte in 0..4u8 {
            replay.keep(now, Block::new(vec![byte]));
        }
        assert!(replay.confirm(at(2)));
        assert_eq!((replay.first(), replay.next()), (2, 4));
        assert_eq!(replay.block(1, now), None);
        assert_eq!(replay.block(3, now).expect("is kept").data[..], [3]);
        // An older confirmation changes nothing; one of what was never sent is a lie.
        assert!(replay.confirm(at(1)));
        assert_eq!(replay.first(), 2);
        assert!(!replay.confirm(at(5)));
    }

    #[test]
    fn a_block_that_is_too_late_is_not_sent_again() {
        let (mut replay, now) = (Replay::default(), Instant::now());
        let deadline = Duration::from_millis(100);
        replay.keep(now, Block::new("frame").deadline(deadline));
        let left = replay.block(0, now + Duration::from_millis(40)).expect("is in time").deadline;
        assert_eq!(left, Some(Duration::from_millis(60)));
        assert_eq!(replay.block(0, now + deadline), None);
    }

    #[test]
    fn memory_is_bounded() {
        let (mut replay, now) = (Replay::default(), Instant::now());
        while replay.has_room(now) {
            replay.keep(now, Block::new("x").deadline(Duration::from_secs(1)));
        }
        assert_eq!(replay.next(), MAX_BLOCKS as u64);
        // Late blocks make room for the next ones.
        assert!(replay.has_room(now + Duration::from_secs(2)));
        assert_eq!(replay.first(), 1);
    }
}
