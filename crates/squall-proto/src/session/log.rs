//! Log of decisions and losses, which explains the fate of a block.

use std::{ops::Range, time::Instant};

use squall_sched::{BlockId, Decision, PathId, Time};

#[cfg(feature = "trace")]
use super::trace::Trace;

/// A decision of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLog {
    /// Time of the decision, counted from the endpoint's epoch.
    pub at: Time,
    /// The decision, with its reason.
    pub decision: Decision,
    /// Bytes of the block, or of parity, that the path accepted: at most the room of its window.
    pub taken: u64,
}

/// Bytes of a block whose packet was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossLog {
    /// Time of the detection, counted from the endpoint's epoch.
    pub at: Time,
    /// The block.
    pub block: BlockId,
    /// The lost bytes.
    pub range: Range<u32>,
    /// The path that lost them.
    pub path: PathId,
    /// [`PacketFate::Lost`] or [`PacketFate::Unknown`].
    pub fate: PacketFate,
}

/// Explanation of the paths that data took: see
/// [`Session::take_reasons`](crate::Session::take_reasons).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasons {
    /// Epoch of the times.
    pub epoch: Instant,
    /// Decisions, oldest first.
    pub decisions: Vec<DecisionLog>,
    /// Losses, oldest first.
    pub losses: Vec<LossLog>,
}

/// An event of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFate {
    /// It left.
    Sent,
    /// It was acknowledged.
    Acked,
    /// It was declared lost.
    Lost,
    /// Its path moved or was closed, so its fate stays unknown.
    Unknown,
}

/// Largest number of reasons kept, decisions and losses each: half a second on paths of 1 Gbps.
pub(super) const MAX_REASONS: usize = 1 << 16;

/// The requested logs.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// Packets and arrivals.
    #[cfg(feature = "trace")]
    pub(super) trace: Trace,
    /// Decisions and losses.
    pub(super) reasons: Option<(Vec<DecisionLog>, Vec<LossLog>)>,
}
