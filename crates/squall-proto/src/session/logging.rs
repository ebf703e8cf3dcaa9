//! Logs of a session that the application requests.

use squall_sched::{Decision, PathId, Time};

#[cfg(feature = "trace")]
use super::trace::{ArrivalLog, ChunkLog, MAX_LOG, PacketLog};
use super::{
    Session,
    log::{DecisionLog, LossLog, MAX_REASONS, PacketFate, Reasons},
};
use crate::path::InFlight;
#[cfg(feature = "trace")]
use crate::path::Payload;

impl Session {
    /// Starts or stops logging the scheduler's decisions and the losses of data. The cost is low
    /// enough to enable it always.
    pub fn keep_reasons(&mut self, on: bool) {
        self.logs.reasons = on.then(Default::default);
    }

    /// Takes the decisions and losses since the last call; at most 65,536 of each are kept.
    pub fn take_reasons(&mut self) -> Reasons {
        let (decisions, losses) = self.logs.reasons.as_mut().map(std::mem::take).unwrap_or_default();
        Reasons { epoch: self.clock.epoch(), decisions, losses }
    }

    /// Logs a decision, with the number of bytes that the path accepted.
    pub(super) fn log_decision(&mut self, at: Time, decision: &Decision, taken: u64) {
        if matches!(decision, Decision::Idle { .. }) {
            return;
        }
        if let Some((log, _)) = self.logs.reasons.as_mut().filter(|(log, _)| log.len() < MAX_REASONS) {
            log.push(DecisionLog { at, decision: decision.clone(), taken });
        }
    }

    pub(super) fn log_packet(
        &mut self,
        at: Time,
        path: PathId,
        #[cfg_attr(not(feature = "trace"), expect(unused, reason = "only that log has numbers"))] packet: u64,
        fate: PacketFate,
        entry: &InFlight,
    ) {
        #[cfg(feature = "trace")]
        self.logs.trace.on_packet(|| {
            let chunk = match &entry.payload {
                Some(Payload::Chunk(chunk)) => Some(ChunkLog::of(chunk)),
                _ => None,
            };
            let number = self.conn.paths[path].quic.number;
            PacketLog { at, id: path, path: number, packet, bytes: entry.bytes, fate, chunk }
        });
        if let Some((_, log)) = self.logs.reasons.as_mut().filter(|(_, log)| log.len() < MAX_REASONS)
            && matches!(fate, PacketFate::Lost | PacketFate::Unknown)
            && let Some(chunk) = entry.chunk()
        {
            log.push(LossLog { at, block: chunk.block, range: chunk.range.clone(), path, fate });
        }
    }
}

#[cfg(feature = "trace")]
impl Session {
    /// Starts or stops logging the fates of packets.
    pub fn keep_packets(&mut self, on: bool) {
        self.logs.trace.packets = on.then(Vec::new);
    }

    /// Takes the packets logged since the last call; at most 1,048,576 entries are kept.
    pub fn take_packets(&mut self) -> Vec<PacketLog> {
        self.logs.trace.packets.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Starts or stops logging arrivals, packet by packet.
    pub fn keep_arrivals(&mut self, on: bool) {
        self.logs.trace.arrivals = on.then(Vec::new);
    }

    pub(super) fn log_arrival(&mut self, entry: ArrivalLog) {
        let log = self.logs.trace.arrivals.as_mut();
        if let Some(log) = log.filter(|log| log.len() < MAX_LOG) {
            log.push(entry);
        }
    }

    /// Takes the arrivals logged since the last call; at most 1,048,576 are kept.
    pub fn take_arrivals(&mut self) -> Vec<ArrivalLog> {
        self.logs.trace.arrivals.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
