//! Logs of packets and arrivals, for research (feature `trace`).

use std::ops::Range;

use squall_sched::{BlockId, PathId, Span, Time, WorkKind};

use super::log::PacketFate;
use crate::path::Chunk;

/// Something that happened to a packet of ours that asks for an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketLog {
    /// When, counted from the endpoint's epoch.
    pub at: Time,
    /// The path.
    pub id: PathId,
    /// Number of the path on the wire.
    pub path: u32,
    /// Packet number on the path.
    pub packet: u64,
    /// Size of the packet in bytes; 0 for a further chunk of a packet that has an entry.
    pub bytes: u16,
    /// What happened.
    pub fate: PacketFate,
    /// The chunk that it carried, if any.
    pub chunk: Option<ChunkLog>,
}

/// The chunk of a block that left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkLog {
    /// The block; of parity over a run of blocks, the first of them.
    pub block: BlockId,
    /// Bytes of the block; of parity, symbols.
    pub range: Range<u32>,
    /// Bytes of its payload.
    pub bytes: u32,
    /// New data, a repair, a copy, or parity.
    pub kind: WorkKind,
    /// The path it was meant for.
    pub meant: PathId,
    /// Time when the scheduler gave it to its path, counted from the endpoint's epoch.
    pub assigned_at: Time,
    /// Time when it was written, which its header states.
    pub written_at: Time,
}

impl ChunkLog {
    pub(super) fn of(chunk: &Chunk) -> Self {
        let &Chunk { block, bytes, kind, path: meant, assigned_at, written_at, .. } = chunk;
        Self { block, range: chunk.range.clone(), bytes, kind, meant, assigned_at, written_at }
    }
}

/// A chunk of the peer's that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalLog {
    /// When, counted from the endpoint's epoch.
    pub at: Time,
    /// The peer's id of the block; of parity over a run of blocks, of the first of them.
    pub block: BlockId,
    /// Over which path.
    pub path: PathId,
    /// First byte of the block; of parity, the symbol.
    pub offset: u32,
    /// Whether it is parity.
    pub is_parity: bool,
    /// Bytes that were not here before; of parity, all that came before its block was complete.
    pub bytes: u32,
    /// Time since it was written, by the clocks of both ends, in steps of 4 µs, modulo 67 s.
    pub transit: Span,
}

/// Entries kept at most; later ones are dropped until they are taken.
pub(super) const MAX_LOG: usize = 1 << 20;

/// The logs that were asked for.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) packets: Option<Vec<PacketLog>>,
    pub(super) arrivals: Option<Vec<ArrivalLog>>,
}

impl Trace {
    pub(super) fn on_packet(&mut self, entry: impl FnOnce() -> PacketLog) {
        if let Some(log) = self.packets.as_mut().filter(|log| log.len() < MAX_LOG) {
            log.push(entry());
        }
    }
}
