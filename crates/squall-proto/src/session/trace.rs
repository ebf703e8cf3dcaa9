//! Logs of packets and arrivals, for research (feature `trace`).

use std::ops::Range;

use squall_sched::{BlockId, PathId, Span, Time, WorkKind};

use super::log::PacketFate;
use crate::path::Chunk;

/// An event of a packet of ours that elicits an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketLog {
    /// Time of the event, counted from the endpoint's epoch.
    pub at: Time,
    /// Id of the path.
    pub id: PathId,
    /// Number of the path on the wire.
    pub path: u32,
    /// Packet number on the path.
    pub packet: u64,
    /// Size of the packet in bytes; 0 for a further chunk of a packet that has an entry.
    pub bytes: u16,
    /// The event.
    pub fate: PacketFate,
    /// The chunk that it carried, if any.
    pub chunk: Option<ChunkLog>,
}

/// A chunk of a block in a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkLog {
    /// The block; for parity over a run of blocks, the first of them.
    pub block: BlockId,
    /// Bytes of the block; for parity, symbols.
    pub range: Range<u32>,
    /// Bytes of its payload.
    pub bytes: u32,
    /// New data, a repair, a copy, or parity.
    pub kind: WorkKind,
    /// The intended path.
    pub meant: PathId,
    /// Time when the scheduler assigned it to its path, counted from the endpoint's epoch.
    pub assigned_at: Time,
    /// Time when it was written, which its header contains.
    pub written_at: Time,
}

impl ChunkLog {
    pub(super) fn of(chunk: &Chunk) -> Self {
        let &Chunk { block, bytes, kind, path: meant, assigned_at, written_at, .. } = chunk;
        Self { block, range: chunk.range.clone(), bytes, kind, meant, assigned_at, written_at }
    }
}

/// A chunk that arrived from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalLog {
    /// Time of the arrival, counted from the endpoint's epoch.
    pub at: Time,
    /// The peer's id of the block; for parity over a run of blocks, of the first of them.
    pub block: BlockId,
    /// Path that carried it.
    pub path: PathId,
    /// Offset of the first byte in the block; for parity, the symbol.
    pub offset: u32,
    /// The chunk is parity.
    pub is_parity: bool,
    /// Bytes that were missing before; for parity, all that arrive before the block is complete.
    pub bytes: u32,
    /// Time since it was written, by the clocks of both ends, in steps of 4 µs, modulo 67 s.
    pub transit: Span,
}

/// Largest number of entries kept; later ones are dropped until they are taken.
pub(super) const MAX_LOG: usize = 1 << 20;

/// The requested logs.
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
