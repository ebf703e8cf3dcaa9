//! Log of decisions and losses, which explains what became of a block.

use std::{ops::Range, time::Instant};

use squall_sched::{BlockId, Decision, PathId, Time};

#[cfg(feature = "trace")]
use super::trace::Trace;

/// A decision of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLog {
    /// When, counted from the endpoint's epoch.
    pub at: Time,
    /// What, with its reason.
    pub decision: Decision,
    /// Bytes of the block, or of parity, that the path took: a path takes no more than its window has room for.
    pub taken: u64,
}

/// Bytes of a block whose packet was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossLog {
    /// When that was known, counted from the endpoint's epoch.
    pub at: Time,
    /// Of which block.
    pub block: BlockId,
    /// Which bytes.
    pub range: Range<u32>,
    /// On which path.
    pub path: PathId,
    /// [`PacketFate::Lost`] or [`PacketFate::Unknown`].
    pub fate: PacketFate,
}

/// Why data took its way: see [`Session::take_reasons`](crate::Session::take_reasons).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasons {
    /// The epoch from which the times count.
    pub epoch: Instant,
    /// Decisions, oldest first.
    pub decisions: Vec<DecisionLog>,
    /// Losses, oldest first.
    pub losses: Vec<LossLog>,
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFate {
    /// It left.
    Sent,
    /// The peer has it.
    Acked,
    /// It was declared lost.
    Lost,
    /// Its path moved or is gone: it will not be known.
    Unknown,
}

/// Reasons kept at most, decisions and losses each: what paths of 1 Gbps need for half a second.
pub(super) const MAX_REASONS: usize = 1 << 16;

/// The logs that were asked for.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// Packets and arrivals.
    #[cfg(feature = "trace")]
    pub(super) trace: Trace,
    /// Decisions and losses.
    pub(super) reasons: Option<(Vec<DecisionLog>, Vec<LossLog>)>,
}
