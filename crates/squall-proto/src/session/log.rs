//! Logs of decisions, packets and arrivals, for research; and of decisions and losses, to explain what became of a block.

use std::{ops::Range, time::Instant};

use squall_sched::{BlockId, Decision, Micros, PathId};

use super::Session;
use crate::path::{InFlight, Payload};

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

/// Something that happened to a packet of ours that asks for an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketLog {
    /// When, in microseconds since the endpoint's epoch.
    pub at: Micros,
    /// Number of the path on the wire.
    pub path: u32,
    /// Packet number on the path.
    pub packet: u64,
    /// Size of the packet in bytes.
    pub bytes: u16,
    /// What happened.
    pub fate: PacketFate,
    /// The range of a block's bytes that it carried, if any, and the path it was meant for.
    pub chunk: Option<(BlockId, Range<u32>, PathId)>,
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

/// Bytes of a block of the peer's that arrived, and were not here before; or of its parity, before it was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalLog {
    /// When, in microseconds since the endpoint's epoch.
    pub at: Micros,
    /// The peer's id of the block.
    pub block: BlockId,
    /// Over which path.
    pub path: PathId,
    /// How many bytes.
    pub bytes: u32,
}

/// Entries kept at most; later ones are dropped until they are taken.
const MAX_LOG: usize = 1 << 20;

/// Reasons kept at most, decisions and losses each: what paths of 1 Gbps need for half a second.
const MAX_REASONS: usize = 1 << 16;

/// The logs that were asked for.
#[derive(Debug, Default)]
pub(super) struct Logs {
    decisions: Option<Vec<DecisionLog>>,
    packets: Option<Vec<PacketLog>>,
    arrivals: Option<Vec<ArrivalLog>>,
    reasons: Option<(Vec<DecisionLog>, Vec<LossLog>)>,
}

impl Session {
    /// Starts or stops to log the scheduler's decisions and the packets' fates.
    pub fn keep_log(&mut self, on: bool) {
        self.logs.decisions = on.then(Vec::new);
        self.logs.packets = on.then(Vec::new);
    }

    /// Starts or stops to log what arrives, packet by packet.
    pub fn keep_arrivals(&mut self, on: bool) {
        self.logs.arrivals = on.then(Vec::new);
    }

    /// Takes the arrivals logged since last time; at most 1,048,576 are kept.
    pub fn take_arrivals(&mut self) -> Vec<ArrivalLog> {
        self.logs.arrivals.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes the decisions logged since last time; at most 1,048,576 are kept.
    pub fn take_decisions(&mut self) -> Vec<DecisionLog> {
        self.logs.decisions.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes the packets logged since last time; at most 1,048,576 entries are kept.
    pub fn take_packets(&mut self) -> Vec<PacketLog> {
        self.logs.packets.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Starts or stops to log the scheduler's decisions and the losses of data. This costs less than [`Self::keep_log`], so
    /// that a program can always have it.
    pub fn keep_reasons(&mut self, on: bool) {
        self.logs.reasons = on.then(Default::default);
    }

    /// Takes the decisions and losses since the last call; at most 65,536 of each are kept.
    pub fn take_reasons(&mut self) -> Reasons {
        let (decisions, losses) = self.logs.reasons.as_mut().map(std::mem::take).unwrap_or_default();
        Reasons { epoch: self.epoch, decisions, losses }
    }

    /// A decision of which the path took that many bytes.
    pub(super) fn log_decision(&mut self, at: Micros, decision: &Decision, taken: u64) {
        if matches!(decision, Decision::Idle { .. }) {
            return;
        }
        let entry = || DecisionLog { at, decision: decision.clone(), taken };
        if let Some(log) = self.logs.decisions.as_mut().filter(|log| log.len() < MAX_LOG) {
            log.push(entry());
        }
        if let Some((log, _)) = self.logs.reasons.as_mut().filter(|(log, _)| log.len() < MAX_REASONS) {
            log.push(entry());
        }
    }

    pub(super) fn log_arrival(&mut self, at: Micros, block: BlockId, path: PathId, bytes: u32) {
        if let Some(log) = &mut self.logs.arrivals
            && log.len() < MAX_LOG
            && bytes > 0
        {
            log.push(ArrivalLog { at, block, path, bytes });
        }
    }

    pub(super) fn log_packet(
        &mut self,
        at: Micros,
        path: PathId,
        packet: u64,
        fate: PacketFate,
        entry: &InFlight,
    ) {
        let chunk = || {
            entry.payload.as_ref().and_then(|payload| match payload {
                Payload::Chunk(chunk) if chunk.is_parity() => None,
                Payload::Chunk(chunk) => Some((chunk.block, chunk.range.clone(), chunk.path)),
                Payload::Control(_) | Payload::Probe(_) | Payload::Ephemeral | Payload::Losses => None,
            })
        };
        if let Some((_, log)) = self.logs.reasons.as_mut().filter(|(_, log)| log.len() < MAX_REASONS)
            && matches!(fate, PacketFate::Lost | PacketFate::Unknown)
            && let Some((block, range, _)) = chunk()
        {
            log.push(LossLog { at, block, range, path, fate });
        }
        let path = self.conn.paths[path].quic.number;
        if let Some(log) = self.logs.packets.as_mut().filter(|log| log.len() < MAX_LOG) {
            let chunk = chunk();
            log.push(PacketLog { at, path, packet, bytes: entry.bytes, fate, chunk });
        }
    }
}
