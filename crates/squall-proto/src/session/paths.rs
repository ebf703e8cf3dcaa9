//! Effects of the transitions of a path's life (`path/life.rs` has the states and the diagram).

use std::{net::SocketAddr, time::Instant};

use squall_sched::{BlockId, ParityFate, PathId, SchedEvent, Span, Time, WorkKind};

use super::{PacketFate, Session};
use crate::{
    CloseReason, Event, Interface, NetPath, PathChange, TransportError,
    path::{Change, Chunk, InFlight, Moves, Payload},
};

/// Bounds of the round trip after which a path that lets no data through is tried again.
const MIN_BLOCK: Span = Span::from_millis(5);
const MAX_BLOCK: Span = Span::from_millis(200);

/// Largest number of moves within [`MOVES_WITHIN`]; a path that moves more often is closed.
const MAX_MOVES: u32 = 8;
const MOVES_WITHIN: Span = Span::from_secs(10);

/// Close code of a session whose only path noq will never validate.
const NO_VALIDATED_PATH: u32 = 4;

impl Session {
    /// Handles the validation of a path by QUIC.
    pub(super) fn on_path_up(&mut self, at: Time, number: u32) {
        let Some(id) = self.admit_path(number, at) else {
            // The path exceeds the limit of this side: the peer may have eight.
            self.conn.reject(number, self.instant(at));
            return;
        };
        if self.conn.paths[id].life.is_up() || self.in_handshake() {
            return;
        }
        let rtt = self.conn.srtt(id).map(Span::from);
        let path = &mut self.conn.paths[id];
        path.received_at = at;
        if let Some(rtt) = rtt {
            path.rtt.seed(rtt);
        }
        path.life.on_validated(at, path.rtt.smoothed);
        let net = path.quic.net;
        if let Some(wanted) = self.side.wanted(net) {
            wanted.on_up();
        }
        self.refresh_path(at, id);
        self.announce_cost(at, id);
        self.announce_signal(at, id);
        self.path_event(id, PathChange::Up(net));
        self.life.on_path_up();
        self.close_leaving(at);
    }

    /// Handles the end of a path, and frees its slot.
    pub(super) fn on_path_gone(&mut self, at: Time, number: u32) {
        let Some(id) = self.conn.paths.find(number) else { return };
        self.radios.forget(number);
        self.take_back_all(at, id);
        self.drop_flight(at, id);
        self.probes.forget(id);
        self.queues.forget(id);
        let home = self.conn.paths[id].quic.home;
        self.conn.paths.remove(id);
        self.side.on_gone(at, home);
        self.outbox.queue.forget_path(id);
        self.path_event(id, PathChange::Down);
        if !self.conn.paths.iter().any(|path| path.life.is_up()) {
            self.life.on_last_path_gone(at);
        }
    }

    /// Returns `true` if a packet that arrived at `local` is processed: at a client, where a path
    /// was opened over that interface.
    ///
    /// A client would move a path to the address where its packet arrives. If an attacker rewrote
    /// the source of one of the client's packets to another of its addresses, the server would send
    /// there, and the two would follow each other from packet to packet for good.
    pub(super) fn receives_at(&self, at: Time, local: Interface) -> bool {
        self.in_handshake()
            || self.conn.paths.iter().any(|path| path.quic.home == local)
            || self.side.receives_at(at, local)
    }

    /// Handles moves since the last packet or timer of noq.
    pub(super) fn notice_moves(&mut self, at: Time) {
        for moved in self.conn.refresh_addresses() {
            self.on_rebound(at, moved);
        }
    }

    /// Handles moves back that noq made by itself, because the new address did not answer in time.
    pub(super) fn notice_returns(&mut self, at: Time) {
        for moved in self.conn.refresh_addresses() {
            self.on_rebound(at, moved);
            self.conn.paths[moved].moves.is_back = true;
        }
    }

    /// Closes a path that has moved back, once a packet over it proves that the peer is alive.
    ///
    /// noq-proto 1.4.0 moves back only to an address that was not validated either, and does not
    /// challenge it again: only acknowledgements would ever leave there. A client opens another
    /// path, or another session if this was its last path.
    pub(super) fn leave_unvalidated(&mut self, at: Time, id: PathId) {
        if self.is_closed() || self.conn.paths.get(id).is_none_or(|path| !path.moves.is_back) {
            return;
        }
        let now = self.instant(at);
        if self.conn.close_path(id, now, 0).is_err() {
            let reason = CloseReason::from(TransportError::plain("no validated path is left"));
            self.conn.close(now, NO_VALIDATED_PATH, reason.to_string().into_bytes().into());
            self.end(now, reason);
        }
        self.flush();
    }

    /// Handles a change of the peer's address: QUIC reports no fate of packets to the old one, and
    /// validates the new one.
    ///
    /// If packets of one path arrive from two addresses alternately, and both are validated, noq
    /// would follow each of them for good: packets of a megabit a second, none of which is
    /// acknowledged. Such a path is closed, and a client opens another one.
    pub(super) fn on_rebound(&mut self, at: Time, id: PathId) {
        self.drop_flight(at, id);
        let path = &mut self.conn.paths[id];
        if at > path.moves.since + MOVES_WITHIN {
            path.moves = Moves { since: at, ..Moves::default() };
        }
        path.moves.count += 1;
        path.moves.is_back = false;
        // Fails on the last path.
        if path.moves.count > MAX_MOVES && self.conn.close_path(id, self.instant(at), 0).is_ok() {
            self.flush();
        }
        let path = &self.conn.paths[id];
        if path.life.is_up() {
            let net = path.quic.net;
            self.block_path(id, at);
            self.path_event(id, PathChange::Rebound(net));
        }
    }

    /// Blocks data on a path for a while, because noq let nothing through: it is being validated
    /// again.
    pub(super) fn block_path(&mut self, id: PathId, at: Time) {
        let path = &mut self.conn.paths[id];
        path.life.blocked_until = at + path.rtt.smoothed.clamp(MIN_BLOCK, MAX_BLOCK);
        self.take_back_all(at, id);
    }

    /// Suspects the paths from `local`, to `remote` or to any address, because the system cannot
    /// send there. Returns `true` if any of them was not suspected before.
    pub(crate) fn on_unreachable(
        &mut self,
        now: Instant,
        local: Interface,
        remote: Option<SocketAddr>,
    ) -> bool {
        let (_span, at) = (self.conn.span().clone().entered(), self.time(now));
        let meant = |net: NetPath| net.local == local && remote.is_none_or(|remote| net.remote == remote);
        let mut found = false;
        for id in self.conn.paths.ids() {
            let path = &self.conn.paths[id];
            let life = &path.life;
            let watched = life.is_watched() && !life.is_suspect();
            if self.is_open() && life.is_up() && watched && meant(path.quic.net) {
                self.suspect(at, id);
                found = true;
            }
        }
        found
    }

    /// Suspects a silent path.
    pub(super) fn suspect(&mut self, at: Time, id: PathId) {
        let path = &mut self.conn.paths[id];
        let change = path.life.suspect(at, path.flight.waiting_since(), path.window);
        self.carry_out(at, id, Some(change));
    }

    /// Applies the effects of a transition of a path's life.
    pub(super) fn carry_out(&mut self, at: Time, id: PathId, change: Option<Change>) {
        let Some(change) = change else { return };
        if matches!(change, Change::Suspected(_)) {
            self.conn.paths[id].stats.suspicions += 1;
            // Marked as backup, the path lets no datagram through: a probe would leave on another.
            self.probes.drop_waiting(id);
        }
        if !matches!(change, Change::Narrowed | Change::Picky(_)) {
            self.update_trust(id);
        }
        if matches!(change, Change::Suspected(_) | Change::Narrowed | Change::Picky(_) | Change::Out) {
            self.take_back_all(at, id);
        }
        match change {
            Change::Suspected(silent) => {
                self.repair_flight(at, id);
                self.path_event(id, PathChange::Suspected { silent: silent.into() });
            }
            Change::Picky(lossy) => {
                self.conn.paths[id].stats.suspicions += 1;
                self.path_event(id, PathChange::Suspected { silent: lossy.into() });
            }
            Change::Readmitted(after) => {
                self.path_event(id, PathChange::Readmitted { after: after.into() });
            }
            // The application is notified of an alert, and of a narrow path when a second full-size
            // probe is due.
            Change::Out | Change::RadioBack | Change::Narrowed | Change::StillNarrow => {}
        }
    }

    /// Applies the trust of transport and radios in a path: it decides what noq may send there on
    /// its own, and whether losses count as congestion.
    fn update_trust(&mut self, id: PathId) {
        let path = &self.conn.paths[id];
        let trusted = path.life.is_trusted();
        if path.life.is_watched() {
            // Loss on a dead path is no congestion: the controller keeps its window.
            path.quic.ledger.lock().forgive_below =
                if trusted { path.flight.next_packet() } else { u64::MAX };
        }
        self.conn.set_backup(id, !trusted);
        self.flush();
    }

    /// Copies the results of the path's controller.
    pub(super) fn refresh_path(&mut self, at: Time, id: PathId) {
        let packet = self.packet_size();
        let path = &mut self.conn.paths[id];
        let ledger = path.quic.ledger.lock();
        (path.window, path.capacity) = (ledger.window, ledger.capacity);
        (path.queue, path.held) = (ledger.queue, ledger.held);
        path.slow_start = ledger.slow_start;
        let rate = ledger.pacing_rate;
        drop(ledger);
        let window = path.effective_window();
        path.pacer.update(at, rate, window, path.rtt.steady, path.slow_start, packet);
    }

    /// Gives packets in flight on a path an unknown fate: their data is repaired where needed.
    fn drop_flight(&mut self, at: Time, id: PathId) {
        for (packet, entry) in self.conn.paths[id].flight.drain() {
            self.log_packet(at, id, packet, PacketFate::Unknown, &entry);
            self.on_packet_lost(at, id, entry);
        }
    }

    /// Repairs reliable data in flight on a suspected path at once. Unreliable data is not sent
    /// again in either case, so its fate is left to QUIC.
    fn repair_flight(&mut self, at: Time, id: PathId) {
        let mut chunks = Vec::new();
        let mut controls = Vec::new();
        for entry in self.conn.paths[id].flight.iter_mut().filter(|e| !e.repaired) {
            entry.repaired = true;
            for payload in entry.payload.iter().chain(&entry.more) {
                match payload {
                    Payload::Chunk(chunk) => chunks.push(chunk.clone()),
                    Payload::Control(control) => controls.push(*control),
                    Payload::Probe(_) | Payload::Ephemeral | Payload::Losses => {}
                }
            }
        }
        for control in controls {
            self.repeat_control(at, control);
        }
        chunks.retain(|chunk: &Chunk| self.is_reliable(chunk.block));
        for chunk in chunks {
            self.lose_chunk(at, chunk, id);
        }
    }

    /// Handles a packet that is lost, or whose fate stays unknown: its data is repaired where
    /// needed.
    pub(super) fn on_packet_lost(&mut self, at: Time, id: PathId, entry: InFlight) {
        for payload in entry.payload.into_iter().chain(entry.more) {
            match payload {
                Payload::Chunk(chunk) if !entry.repaired || !self.is_reliable(chunk.block) => {
                    self.lose_chunk(at, chunk, id);
                }
                Payload::Control(control) if !entry.repaired => self.repeat_control(at, control),
                _ => {}
            }
        }
        self.schedule();
    }

    pub(super) fn lose_chunk(&mut self, at: Time, chunk: Chunk, path: PathId) {
        if chunk.is_parity() {
            return self.on_parity(at, chunk, path, ParityFate::Lost);
        }
        let Chunk { block, range, .. } = chunk;
        self.outbox.queue.note(SchedEvent::Lost { block, range: range.clone(), path });
        if let Some(ended) = self.outbox.on_lost(block, range, path) {
            self.on_ended(at, &ended);
        }
    }

    /// Handles the fate of parity.
    pub(super) fn on_parity(&mut self, at: Time, chunk: Chunk, path: PathId, fate: ParityFate) {
        let Chunk { block, range, kind, .. } = chunk;
        if kind == WorkKind::RunParity {
            // Its blocks arrive, or are reported as rebuilt.
            self.outbox.on_run(block, &range, fate);
            return;
        }
        self.outbox.queue.note(SchedEvent::Parity { block, symbols: range.clone(), path, fate });
        if let Some(ended) = self.outbox.on_parity(block, range, fate) {
            self.on_ended(at, &ended);
        }
    }

    fn is_reliable(&self, block: BlockId) -> bool {
        self.outbox.queue.get(block).is_some_and(|b| b.meta().reliable)
    }

    /// Takes back data that was assigned to a path and has not left.
    pub(super) fn take_back_all(&mut self, at: Time, id: PathId) {
        let path = &mut self.conn.paths[id];
        path.committed_bytes = 0;
        for chunk in std::mem::take(&mut path.committed) {
            self.take_back(at, chunk, id);
        }
        self.schedule();
    }

    /// Takes back a range that was assigned to a path and did not leave.
    pub(super) fn take_back(&mut self, at: Time, chunk: Chunk, path: PathId) {
        self.schedule();
        if chunk.is_parity() {
            return self.on_parity(at, chunk, path, ParityFate::Unsent);
        }
        let Chunk { block, range, .. } = chunk;
        self.outbox.queue.note(SchedEvent::Unsent { block, range: range.clone(), path });
        if let Some(ended) = self.outbox.on_unsent(block, range, path) {
            self.on_ended(at, &ended);
        }
    }

    /// Repeats payloads that noq dropped before they left, unless newer ones replace them.
    pub(super) fn take_back_dropped(&mut self, at: Time) {
        for payload in std::mem::take(&mut self.conn.dropped) {
            match payload {
                Payload::Chunk(chunk) => {
                    let path = chunk.path;
                    self.take_back(at, chunk, path);
                }
                Payload::Control(control) => self.repeat_control(at, control),
                Payload::Probe(_) | Payload::Ephemeral | Payload::Losses => {}
            }
        }
    }

    pub(super) fn path_event(&mut self, id: PathId, change: PathChange) {
        if self.is_closed() {
            return;
        }
        let span = self.conn.paths.get(id).map_or(self.conn.span(), |path| &path.span);
        span.in_scope(|| tracing::debug!(path = id.0, ?change, "path changes"));
        self.notices.push(Event::Path(id, change));
        self.outlook.look_again();
        self.outbox.queue.note(SchedEvent::PathChanged(id));
        self.schedule();
    }
}
