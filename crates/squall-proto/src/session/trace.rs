//! Logs of packets and arrivals, for research (feature `trace`).

use std::ops::Range;

use squall_sched::{BlockId, Micros, PathId};

use super::{PacketFate, Session};

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
pub(super) struct Trace {
    packets: Option<Vec<PacketLog>>,
    arrivals: Option<Vec<ArrivalLog>>,
}

impl Trace {
    pub(super) fn on_packet(&mut self, entry: impl FnOnce() -> PacketLog) {
        if let Some(log) = self.packets.as_mut().filter(|log| log.len() < MAX_LOG) {
            log.push(entry());
        }
    }
}

impl Session {
    /// Starts or stops to log the fates of packets.
    pub fn keep_packets(&mut self, on: bool) {
        self.logs.trace.packets = on.then(Vec::new);
    }

    /// Takes the packets logged since the last call; at most 1,048,576 entries are kept.
    pub fn take_packets(&mut self) -> Vec<PacketLog> {
        self.logs.trace.packets.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Starts or stops to log what arrives, packet by packet.
    pub fn keep_arrivals(&mut self, on: bool) {
        self.logs.trace.arrivals = on.then(Vec::new);
    }

    pub(super) fn log_arrival(&mut self, entry: ArrivalLog) {
        let log = self.logs.trace.arrivals.as_mut();
        if let Some(log) = log.filter(|log| log.len() < MAX_LOG && entry.bytes > 0) {
            log.push(entry);
        }
    }

    /// Takes the arrivals logged since the last call; at most 1,048,576 are kept.
    pub fn take_arrivals(&mut self) -> Vec<ArrivalLog> {
        self.logs.trace.arrivals.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
