//! Packets that are declared lost, and those that arrive after all.
//!
//! noq's thresholds are the same for all paths and fixed, and it does not report the
//! acknowledgement of a packet that it has declared lost. Therefore the session declares losses
//! itself, by the reordering that each path shows (`path/reordering.rs`), long before noq does. A
//! packet leaves the flight when it is declared lost. If it is acknowledged later, its data is no
//! longer repaired, and if nothing else was lost with it, the controller reverts its response
//! (`steering/governor.rs`).

use squall_sched::{PathId, Time};

use super::{PacketFate, Session};
use crate::{
    path::{InFlight, Payload},
    steering::{BACKSTOP_ROUND_TRIPS, Fate, Lost},
};

impl Session {
    /// Returns the time at which the next packet is lost, if it is not acknowledged until then.
    pub(super) fn next_loss(&self) -> Option<Time> {
        let paths = self.conn.paths.iter().filter(|_| self.config.switches().track_reordering);
        paths.filter_map(|path| path.lost_at(self.clock.runs_since())).min()
    }

    /// Declares overdue packets of all paths lost.
    pub(super) fn watch_losses(&mut self, at: Time) {
        for id in self.conn.paths.ids() {
            self.detect_losses(at, id);
        }
    }

    /// Declares overdue packets of a path lost.
    pub(super) fn detect_losses(&mut self, at: Time, id: PathId) {
        let resumed = self.clock.runs_since();
        let path = &mut self.conn.paths[id];
        let mut lost = Vec::new();
        while self.config.switches().track_reordering
            && path.lost_at(resumed).is_some_and(|due| due <= at)
            && let Some((packet, _)) = path.overtaken()
            && let Some(entry) = path.flight.lose(packet)
        {
            lost.push((packet, entry));
        }
        if self.config.switches().track_reordering {
            path.quic.ledger.set_lead(path.reordering.lead(BACKSTOP_ROUND_TRIPS));
        }
        self.lose(at, id, lost, false);
    }

    /// Handles lost packets, by ascending number; with `is_final` noq has declared them lost too.
    pub(super) fn lose(&mut self, at: Time, id: PathId, packets: Vec<(u64, InFlight)>, is_final: bool) {
        if packets.is_empty() {
            return;
        }
        let clock = *self.conn.clock();
        let path = &self.conn.paths[id];
        let quic = |at| clock.of_quic(self.instant(at));
        let lost = |(packet, entry): &(u64, InFlight)| Lost {
            packet: *packet,
            bytes: entry.bytes,
            sent: quic(entry.sent_at),
        };
        if self.config.switches().track_reordering {
            let lost: Vec<Lost> = packets.iter().map(lost).collect();
            path.quic.ledger.lose(quic(at), &lost, path.flight.next_packet(), is_final);
        }
        for (packet, entry) in packets {
            if is_final {
                self.on_certain_loss(at, id, &entry);
            }
            self.on_loss(at, id, packet, entry);
        }
        self.refresh_path(at, id);
    }

    /// Handles a lost packet.
    fn on_loss(&mut self, at: Time, id: PathId, packet: u64, entry: InFlight) {
        self.log_packet(at, id, packet, PacketFate::Lost, &entry);
        let path = &mut self.conn.paths[id];
        if entry.counts() {
            if packet >= path.quic.ledger.lock().forgive_below {
                path.losses.on_fate(false);
            }
            path.loss.record(at, true);
            path.stats.lost_packets += 1;
        }
        self.on_packet_lost(at, id, entry);
    }

    /// Handles a packet that noq has declared lost. noq has then processed every loss from which it
    /// detects that the path's MTU has shrunk, so the size of packets is judged here only now.
    fn on_certain_loss(&mut self, at: Time, id: PathId, entry: &InFlight) {
        let has_others = self.conn.paths.iter().any(|path| path.id != id && path.life.is_in_use());
        let path = &mut self.conn.paths[id];
        let change = path.life.on_loss(at, entry.packet(), path.window, has_others);
        self.carry_out(at, id, change);
    }

    /// Handles the fate of a packet that is no longer in flight: it was declared lost, and arrives,
    /// or it is lost indeed.
    pub(super) fn on_late_fate(&mut self, at: Time, id: PathId, fate: Fate) {
        match self.conn.paths[id].flight.take_lost(fate.packet) {
            Some(entry) if fate.acked => self.on_late(at, id, fate.packet, entry),
            Some(entry) => self.on_certain_loss(at, id, &entry),
            None => {}
        }
    }

    /// Handles the arrival of a packet that was declared lost.
    fn on_late(&mut self, at: Time, id: PathId, packet: u64, entry: InFlight) {
        let path = &mut self.conn.paths[id];
        if !self.clock.was_suspended_after(entry.sent_at) {
            path.reordering.on_ack(at, packet, entry.sent_at, false);
        }
        if entry.counts() {
            if packet >= path.quic.ledger.lock().forgive_below {
                path.losses.revoke();
            }
            path.loss.revoke(at);
            path.stats.spurious_losses += 1;
        }
        let change = path.life.on_proof(at, entry.packet(), path.rtt.steady);
        path.delivery.record(at, entry.bytes.into());
        self.carry_out(at, id, change);
        // Parity and items that are repeated until they arrive were sent again, or replaced.
        let payloads = entry.payload.into_iter().chain(entry.more);
        let chunks =
            payloads.filter(|payload| matches!(payload, Payload::Chunk(chunk) if !chunk.is_parity()));
        chunks.for_each(|chunk| self.on_payload_acked(at, id, chunk));
    }
}
