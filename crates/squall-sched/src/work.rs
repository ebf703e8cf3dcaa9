//! Ranges of blocks that could be sent.

use std::ops::Range;

use crate::BlockId;

/// Why a range is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// Never sent before.
    Fresh,
    /// A retransmission: every copy was lost.
    Repair,
    /// A duplicate, or a reinjection: another copy is still in flight.
    Copy,
    /// Symbols of the block's [parity](crate::Block::parity): the range counts symbols, not bytes.
    Parity,
    /// Symbols of parity over the [run](crate::BlockQueue::run_from) of small blocks that begins with the block: the range counts
    /// symbols from 0 on, at most [`parity_symbols`](crate::parity_symbols) of the run's length.
    RunParity,
}

impl WorkKind {
    /// Whether it is parity, of a block or over a run: the range counts symbols.
    pub fn is_parity(self) -> bool {
        matches!(self, Self::Parity | Self::RunParity)
    }
}

/// A range of a block that could be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Of which block.
    pub block: BlockId,
    /// Which bytes; which symbols, of [parity](WorkKind::is_parity).
    pub range: Range<u32>,
    /// Why.
    pub kind: WorkKind,
}
