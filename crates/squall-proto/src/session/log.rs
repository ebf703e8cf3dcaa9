//! Log of decisions and losses, which explains what became of a block.

use std::{ops::Range, time::Instant};

use squall_sched::{BlockId, Decision, Micros, PathId};

use super::Session;
#[cfg(feature = "trace")]
use super::trace::{PacketLog, Trace};
use crate::path::InFlight;

/// A decision of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLog {
    /// When, in microseconds since the endpoint's epoch.
    pub at: Micros,
    /// What, with its reason.
    pub decision: Decision,
    /// Bytes of the block, or of parity, that the path took: a path takes no more than its window has room for.
    pub taken: u64,
}

/// Bytes of a block whose packet was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossLog {
    /// When that was known, in microseconds since the endpoint's epoch.
    pub at: Micros,
    /// Of which block.
    pub block: BlockId,
    /// Which bytes.
    pub range: Range<u32>,
    /// On which path.
    pub path: PathId,
    /// [`PacketFate::Lost`] or [`PacketFate::Unknown`].
    pub fate: PacketFate,
}

/// Why data took its way: see [`Session::take_reasons`].
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
const MAX_REASONS: usize = 1 << 16;

/// The logs that were asked for.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// Packets and arrivals.
    #[cfg(feature = "trace")]
    pub(super) trace: Trace,
    /// Decisions and losses.
    reasons: Option<(Vec<DecisionLog>, Vec<LossLog>)>,
}

impl Session {
    /// Starts or stops to log the scheduler's decisions and the losses of data. This costs
    /// so little that a program can always have it.
    pub fn keep_reasons(&mut self, on: bool) {
        self.logs.reasons = on.then(Default::default);
    }

    /// Takes the decisions and losses since the last call; at most 65,536 of each are kept.
    pub fn take_reasons(&mut self) -> Reasons {
        let (decisions, losses) = self.logs.reasons.as_mut().map(std::mem::take).unwrap_or_default();
        Reasons { epoch: self.clock.epoch(), decisions, losses }
    }

    /// A decision of which the path took that many bytes.
    pub(super) fn log_decision(&mut self, at: Micros, decision: &Decision, taken: u64) {
        if matches!(decision, Decision::Idle { .. }) {
            return;
        }
        if let Some((log, _)) = self.logs.reasons.as_mut().filter(|(log, _)| log.len() < MAX_REASONS) {
            log.push(DecisionLog { at, decision: decision.clone(), taken });
        }
    }

    pub(super) fn log_packet(
        &mut self,
        at: Micros,
        path: PathId,
        #[cfg_attr(not(feature = "trace"), expect(unused, reason = "only that log has numbers"))] packet: u64,
        fate: PacketFate,
        entry: &InFlight,
    ) {
        #[cfg(feature = "trace")]
        self.logs.trace.on_packet(|| {
            let chunk = entry.chunk().map(|chunk| (chunk.block, chunk.range.clone(), chunk.path));
            let path = self.conn.paths[path].quic.number;
            PacketLog { at, path, packet, bytes: entry.bytes, fate, chunk }
        });
        if let Some((_, log)) = self.logs.reasons.as_mut().filter(|(_, log)| log.len() < MAX_REASONS)
            && matches!(fate, PacketFate::Lost | PacketFate::Unknown)
            && let Some(chunk) = entry.chunk()
        {
            log.push(LossLog { at, block: chunk.block, range: chunk.range.clone(), path, fate });
        }
    }
}
