//! Logs of decisions, packets and arrivals, for research.

use std::ops::Range;

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

impl PacketFate {
    pub(super) fn known(acked: bool) -> Self {
        if acked { Self::Acked } else { Self::Lost }
    }
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

/// The logs that were asked for.
#[derive(Debug, Default)]
pub(super) struct Logs {
    decisions: Option<Vec<DecisionLog>>,
    packets: Option<Vec<PacketLog>>,
    arrivals: Option<Vec<ArrivalLog>>,
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

    pub(super) fn log_decision(&mut self, at: Micros, decision: &Decision) {
        if let Some(log) = &mut self.logs.decisions
            && log.len() < MAX_LOG
            && !matches!(decision, Decision::Idle { .. })
        {
            log.push(DecisionLog { at, decision: decision.clone() });
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
        let path = self.conn.paths[path].quic.number;
        let Some(log) = &mut self.logs.packets else { return };
        if log.len() < MAX_LOG {
            let chunk = entry.payload.as_ref().and_then(|payload| match payload {
                Payload::Chunk(chunk) if chunk.is_parity() => None,
                Payload::Chunk(chunk) => Some((chunk.block, chunk.range.clone(), chunk.path)),
                Payload::Control(_) | Payload::Probe(_) | Payload::Ephemeral | Payload::Losses => None,
            });
            log.push(PacketLog { at, path, packet, bytes: entry.bytes, fate, chunk });
        }
    }
}
