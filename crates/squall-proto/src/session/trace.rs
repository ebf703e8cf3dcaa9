//! Logs of packets and arrivals, for research (feature `trace`).

use std::ops::Range;

use squall_sched::{BlockId, PathId, Time};

use super::log::PacketFate;

/// Something that happened to a packet of ours that asks for an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketLog {
    /// When, counted from the endpoint's epoch.
    pub at: Time,
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

/// Bytes of a block of the peer's that arrived, and were not here before; or of its parity, before it was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalLog {
    /// When, counted from the endpoint's epoch.
    pub at: Time,
    /// The peer's id of the block.
    pub block: BlockId,
    /// Over which path.
    pub path: PathId,
    /// How many bytes.
    pub bytes: u32,
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
