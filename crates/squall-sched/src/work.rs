//! Ranges of blocks that could be sent.

use std::ops::Range;

use crate::BlockId;

/// Reason for sending a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// Never sent before.
    Fresh,
    /// A retransmission, after every copy was lost.
    Repair,
    /// A duplicate or a reinjection, while another copy is still in flight.
    Copy,
    /// Symbols of the block's [parity](crate::Block::parity): the range counts symbols, not bytes.
    Parity,
    /// Symbols of parity over the [run](crate::BlockQueue::run_from) of small blocks that begins with the block: the range counts
    /// symbols from 0 on, at most [`parity_symbols`](crate::parity_symbols) of the run's length.
    RunParity,
}

impl WorkKind {
    /// Returns `true` for parity of a block or over a run, whose range counts symbols.
    pub fn is_parity(self) -> bool {
        matches!(self, Self::Parity | Self::RunParity)
    }
}

/// A range of a block that could be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The block.
    pub block: BlockId,
    /// Range of bytes; for [parity](WorkKind::is_parity), range of symbols.
    pub range: Range<u32>,
    /// Reason for sending it.
    pub kind: WorkKind,
}
