//! What leaves next.
//!
//! The order matters, because whatever noq sends first takes the pending acknowledgements along:
//! feedback, on the path of our choice; then noq's timers and the tail-loss probes they bring;
//! control items; data, which takes the end of a block along; at last whatever else noq has to say.

use std::time::Instant;

use bytes::Bytes;
use squall_sched::{BlockId, Micros, PathId, WorkKind};

use super::{PacketFate, Session, Stage, decide::ACK_RESERVE, probe::Waiting};
use crate::{
    path::{Chunk, Control, InFlight, PACKET_OVERHEAD, Path, Payload},
    steering::{Sent, Transmit},
    wire::{self, Data, Item, Stamp},
};

/// Packets of one batch at most; the driver may allow fewer.
const MAX_BATCH: usize = 32;

/// A path that lets no data through is tried again after a round trip, within these bounds.
const MIN_BLOCK: Micros = 5_000;
const MAX_BLOCK: Micros = 200_000;

/// Bytes that a DATAGRAM frame has beside its content at most, in a packet that has room for more (RFC 9221 §4).
const FRAME_OVERHEAD: usize = 3;

/// Heard within this time of one another, paths count as equally alive.
const EQUALLY_ALIVE: Micros = 10_000;

impl Session {
    /// The next packets to send, written to `buf`, which must be empty.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        max_packets: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let _span = self.span.clone().entered();
        let at = self.micros(now);
        self.mind_budgets(now);
        self.look_ahead(at);
        if self.stage != Stage::Open {
            return self.transmit_unsteered(now, at, max_packets, buf);
        }
        if self.conn.has_queued() {
            // What noq kept comes first, and nothing of ours is put behind it.
            return self
                .transmit_queued(now, at, buf)
                .or_else(|| self.transmit_probes(now, at, buf))
                .or_else(|| self.transmit_rest(now, at, buf));
        }
        self.transmit_feedback(now, at, buf)
            .or_else(|| self.transmit_probes(now, at, buf))
            .or_else(|| self.transmit_control(now, at, buf))
            .or_else(|| self.transmit_data(now, at, max_packets.min(MAX_BATCH), buf))
            // An end for which there was no data after all.
            .or_else(|| self.transmit_control(now, at, buf))
            .or_else(|| self.transmit_rest(now, at, buf))
    }

    /// Handshake and farewell: noq knows best.
    fn transmit_unsteered(
        &mut self,
        now: Instant,
        at: Micros,
        max: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.duties.take_quic_timer() {
            self.conn.on_timeout(now);
        }
        let transmit = match self.stage {
            // Once, and once more for each packet that still arrives: before the handshake is over noq writes the
            // farewell for each kind of key again at every call.
            Stage::Closed if !self.duties.take_flush() => None,
            Stage::Closed => self.conn.poll_farewell(now, max, buf, &mut self.sent),
            _ => self.conn.poll_free(now, buf, &mut self.sent),
        };
        self.sent.clear();
        if self.stage == Stage::Closed
            && let Some(index) = transmit.as_ref().and_then(|sent| self.conn.index_of_net(sent.path))
        {
            // Should another farewell be needed, this path may have lost the first one. The last path stays.
            let _ = self.conn.close_path(index, now, 0);
        }
        self.pump(at);
        transmit
    }

    /// Datagrams that noq kept, because the poll for them brought something else.
    fn transmit_queued(&mut self, now: Instant, at: Micros, buf: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self
            .conn
            .poll_on(self.batch_path, now, MAX_BATCH, buf, &mut self.sent)
            .or_else(|| self.conn.poll_free(now, buf, &mut self.sent));
        self.book_departures(at);
        transmit
    }

    fn transmit_feedback(&mut self, now: Instant, at: Micros, buf: &mut Vec<u8>) -> Option<Transmit> {
        let due = self.reporter.due_at()?;
        // Whatever else is about to leave would take the acknowledgements along.
        let probing = self.is_probe_due(at) || !self.probes.is_empty();
        if due > at && !self.duties.precede_feedback() && !probing {
            return None;
        }
        let index = self.report_path()?;
        let mut datagram = Vec::with_capacity(64);
        let mut payload = Payload::Fleeting;
        // The acknowledgement of a block that is refused must not come without the refusal.
        if let Some(at) = self.control.iter().position(|c| matches!(c, Control::Refused(..)))
            && let Some(Control::Refused(block, reason)) = self.control.remove(at)
        {
            Item::Refused(block.0, reason).encode(&mut datagram);
            payload = Payload::Control(Control::Refused(block, reason));
        }
        self.report(at, &mut datagram);
        let len = datagram.len();
        let transmit = self.send_one(index, datagram, payload, now, at, buf)?;
        self.reporter.on_sent(transmit.size);
        self.stats.feedback_sent += 1;
        self.stats.feedback_bytes += len as u64;
        self.duties.flush();
        Some(transmit)
    }

    fn report(&mut self, at: Micros, datagram: &mut Vec<u8>) {
        let mut feedback = self.reporter.report(at);
        self.told_credit = self.inbox.credit();
        feedback.credit = self.told_credit >> 10;
        feedback.duplicates = self.inbox.duplicate_bytes();
        feedback.expired = self.inbox.expired_blocks();
        feedback.wanted = self.wanted_rate;
        Item::Feedback(feedback).encode(datagram);
    }

    /// The path for feedback: of those heard just now the quickest, and trusted by both sides if there is one.
    ///
    /// A path that is heard and yet suspected, while the only trusted one is silent, is a contradiction:
    /// either may be the dead one, since what is missing may be an acknowledgement that the other took along.
    /// Then they take turns, so that half of the reports get through. A path whose budget is spent is used
    /// only if no other is alive.
    fn report_path(&self) -> Option<usize> {
        let frugal = self.paths.iter().any(|p| p.up && !Self::is_suspect(p) && !p.is_spent());
        let up = || self.paths.iter().filter(|p| p.up && !(frugal && p.is_spent()));
        let latest = up().map(|p| p.heard_at).max()?;
        let heard = up().filter(|p| p.heard_at + EQUALLY_ALIVE >= latest);
        let best =
            heard.min_by_key(|p| (Self::is_suspect(p), p.is_out(), p.remote_suspects, p.rtt.smoothed))?;
        let trusted = up().filter(|p| !Self::is_suspect(p)).max_by_key(|p| p.heard_at);
        let best = trusted
            .filter(|_| Self::is_suspect(best) && self.stats.feedback_sent.is_multiple_of(2))
            .unwrap_or(best);
        self.conn.index_of(best.number)
    }

    /// noq's timers, the probes they bring, and our own probes of suspected paths.
    fn transmit_probes(&mut self, now: Instant, at: Micros, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.duties.take_quic_timer() {
            self.conn.on_timeout(now);
            self.pump(at);
            self.duties.after_quic_timer();
        }
        for path in &mut self.paths {
            if path.up && path.probe_at().is_some_and(|due| due <= at) {
                path.liveness.on_probe(at);
                if let Some(index) = self.conn.index_of(path.number) {
                    self.conn.ping(index);
                    self.duties.flush();
                }
            }
        }
        if !self.duties.has_tail_probes() {
            return None;
        }
        let transmit = self.conn.poll_closed(now, buf, &mut self.sent);
        self.duties.after_tail_probe(transmit.is_some());
        self.book_departures(at);
        transmit
    }

    fn is_probe_due(&self, at: Micros) -> bool {
        self.paths.iter().any(|p| p.up && p.probe_at().is_some_and(|due| due <= at))
    }

    /// Items that are no data: probes and answers on their path, the rest on the best.
    fn transmit_control(&mut self, now: Instant, at: Micros, buf: &mut Vec<u8>) -> Option<Transmit> {
        if let Some((index, control, item)) = self.next_urgent() {
            let mut datagram = Vec::with_capacity(16);
            item.encode(&mut datagram);
            let transmit = self.send_one(index, datagram, Payload::Control(control), now, at, buf);
            if transmit.is_some() {
                return transmit;
            }
        }
        while let Some(Waiting { path, item, full_size }) = self.probes.pop_front() {
            let Some(index) = self.conn.index_of(path) else { continue };
            let mut datagram = Vec::with_capacity(16);
            match item {
                Item::Probe(id, stamp) if full_size => {
                    wire::encode_padded_probe(id, stamp, self.conn.max_datagram(), &mut datagram);
                }
                _ => item.encode(&mut datagram),
            }
            let payload = if let Item::Probe(id, _) = item { Payload::Probe(id) } else { Payload::Fleeting };
            if let Some(transmit) = self.send_one(index, datagram, payload, now, at, buf) {
                return Some(transmit);
            }
        }
        if matches!(self.control.front(), Some(Control::End(_))) && self.has_data_to_send(at) {
            return None;
        }
        let rank = |p: &&Path| (Self::is_suspect(p), p.is_out(), p.is_spent(), p.rtt.smoothed);
        let best = self.paths.iter().filter(|p| p.up).min_by_key(rank)?;
        let index = self.conn.index_of(best.number)?;
        let mut datagram = Vec::with_capacity(32);
        let control = loop {
            let control = self.control.pop_front()?;
            match control {
                Control::Cancel(cancel) => Item::Cancel(cancel).encode(&mut datagram),
                Control::Refused(block, reason) => Item::Refused(block.0, reason).encode(&mut datagram),
                Control::Credit => self.report(at, &mut datagram),
                Control::End(id) => match self.end_of(at, id) {
                    Some(end) => Item::Data(end, &[]).encode(&mut datagram),
                    // It has ended, or the peer knows by now.
                    None => continue,
                },
                // Has a queue of its own.
                Control::Alert { .. } => continue,
                Control::PathInfo(number) => match self.path_info(number) {
                    Some(info) => Item::PathInfo(info).encode(&mut datagram),
                    // The path is gone.
                    None => continue,
                },
            }
            break control;
        };
        self.send_one(index, datagram, Payload::Control(control), now, at, buf)
    }

    /// Whether data leaves next.
    fn has_data_to_send(&mut self, at: Micros) -> bool {
        self.ready_path(at).is_some() || self.decide(at) && self.ready_path(at).is_some()
    }

    /// The announcement of an end that leaves next.
    fn next_end(&mut self, at: Micros) -> Option<(BlockId, Vec<u8>)> {
        let Some(&Control::End(id)) = self.control.front() else { return None };
        self.control.pop_front();
        let mut datagram = Vec::with_capacity(32);
        Item::Data(self.end_of(at, id)?, &[]).encode(&mut datagram);
        Some((id, datagram))
    }

    /// Queues one datagram and polls the gate of its path.
    fn send_one(
        &mut self,
        index: usize,
        datagram: Vec<u8>,
        payload: Payload,
        now: Instant,
        at: Micros,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.batch_path = index;
        match self.conn.queue(Bytes::from(datagram), payload) {
            Ok(()) => {}
            Err(Payload::Control(control)) => {
                self.control.push_front(control);
                return None;
            }
            Err(Payload::Fleeting | Payload::Probe(_) | Payload::Chunk(_)) => {
                // A later report or probe takes its place; what must arrive is a control item.
                tracing::warn!(
                    path = self.conn.paths[index].number,
                    "a datagram was not taken by QUIC, and is dropped"
                );
                return None;
            }
        }
        let transmit = self.conn.poll_on(index, now, 1, buf, &mut self.sent);
        self.book_departures(at);
        transmit
    }

    /// A batch of chunks on one path.
    fn transmit_data(&mut self, now: Instant, at: Micros, max: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            if let Some((position, packets)) = self.ready_path(at) {
                let index = self.conn.index_of(self.paths[position].number)?;
                if self.queue_batch(position, at, packets.min(max)) == 0 {
                    continue;
                }
                self.batch_path = index;
                let transmit = self.conn.poll_on(index, now, max, buf, &mut self.sent);
                self.book_departures(at);
                self.duties.after_data();
                if transmit.is_none() {
                    self.block_path(position, at);
                    return self.transmit_queued(now, at, buf);
                }
                return transmit;
            }
            if !self.decide(at) {
                self.note_waiting(now);
                return None;
            }
        }
    }

    /// Reports to the controllers of paths whose pacer or window keeps data waiting.
    fn note_waiting(&mut self, now: Instant) {
        let packet = self.packet_size();
        let queued = self.outbox.queue.by_deadline().next().is_some();
        for path in &self.paths {
            let waits = !path.committed.is_empty() || (queued && path.is_full(packet));
            if let Some(index) = self.conn.index_of(path.number) {
                self.conn.paths[index].ledger.on_waiting(now, waits);
            }
        }
    }

    /// noq let nothing through on the path: it is being validated anew. It gets no data for a while.
    pub(super) fn block_path(&mut self, position: usize, at: Micros) {
        let path = &mut self.paths[position];
        path.blocked_until = at + path.rtt.smoothed.clamp(MIN_BLOCK, MAX_BLOCK);
        self.uncommit(position);
    }

    /// A path with assigned data that its pacer lets go, and how many packets.
    fn ready_path(&mut self, at: Micros) -> Option<(usize, usize)> {
        let packet = self.packet_size();
        self.paths.iter_mut().enumerate().find_map(|(position, path)| {
            if path.committed.is_empty() {
                return None;
            }
            let packets = path.pacer.packets(at, packet).min(path.affordable());
            (packets > 0).then_some((position, packets))
        })
    }

    pub(super) fn packet_size(&mut self) -> u64 {
        self.conn.max_datagram() as u64 + u64::from(PACKET_OVERHEAD)
    }

    /// Queues up to `packets` chunks inside noq; returns how many. A chunk that does not fill its
    /// packet ends the batch. The first packet takes the announcement of an end along.
    fn queue_batch(&mut self, position: usize, at: Micros, packets: usize) -> usize {
        let size = self.conn.max_datagram();
        let mut queued = 0;
        let mut end = self.next_end(at);
        while queued < packets {
            let acks = if queued == 0 && self.duties.owes_acks() { ACK_RESERVE } else { 0 };
            let reserve = acks + end.as_ref().map_or(0, |(_, end)| end.len() + FRAME_OVERHEAD);
            let Some((datagram, chunk)) = self.next_chunk(position, at, size - reserve) else { break };
            let full = datagram.len() + reserve >= size;
            if let Err(Payload::Chunk(chunk)) = self.conn.queue(datagram.into(), Payload::Chunk(chunk)) {
                // Larger than fits now: the path's MTU has just shrunk. Cut anew.
                let path = chunk.path;
                self.take_back(chunk, path);
                break;
            }
            queued += 1;
            if let Some((id, datagram)) = end.take()
                && self.conn.queue(datagram.into(), Payload::Control(Control::End(id))).is_err()
            {
                self.control.push_front(Control::End(id));
            }
            if !full {
                break;
            }
        }
        if let Some((id, _)) = end {
            self.control.push_front(Control::End(id));
        }
        queued
    }

    /// Cuts the next chunk off what is assigned to a path, as a datagram of at most `size` bytes.
    fn next_chunk(&mut self, position: usize, at: Micros, size: usize) -> Option<(Vec<u8>, Chunk)> {
        let path = &mut self.paths[position];
        loop {
            let Some(front) = path.committed.front_mut() else {
                path.committed_bytes = 0;
                return None;
            };
            let Some(block) = self.outbox.queue.get(front.block) else {
                path.committed.pop_front();
                continue;
            };
            let meta = *block.meta();
            let header = Data {
                block: meta.id.0,
                reliable: meta.reliable,
                previous: self.outbox.previous(meta.id),
                priority: meta.priority,
                offset: front.range.start,
                total: self.outbox.total(meta.id),
                channel: meta.channel,
                left: meta.deadline.map(|deadline| deadline.saturating_sub(at)),
                sent: Stamp::at(at),
            };
            let room = size.saturating_sub(header.header_len()).max(1) as u32;
            let range = front.range.start..front.range.end.min(front.range.start + room);
            let data = self.outbox.bytes(meta.id, &range)?;
            let mut datagram = Vec::with_capacity(header.header_len() + data.len());
            header.encode(data, &mut datagram);
            let tells_end = header.total.is_some();
            let chunk =
                Chunk { range: range.clone(), path: path.id, tells_end, written_at: at, ..front.clone() };
            front.range.start = range.end;
            if front.range.is_empty() {
                path.committed.pop_front();
            }
            let cost = u64::from(range.end - range.start + PACKET_OVERHEAD);
            path.committed_bytes = path.committed_bytes.saturating_sub(cost);
            if path.committed.is_empty() {
                // What was assigned was reckoned with the longest headers there can be.
                path.committed_bytes = 0;
            }
            return Some((datagram, chunk));
        }
    }

    /// Control frames, path validation, acknowledgements that nothing else took along.
    fn transmit_rest(&mut self, now: Instant, at: Micros, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.duties.has_flush() {
            return None;
        }
        let transmit = self.conn.poll_free(now, buf, &mut self.sent);
        self.duties.after_flush(transmit.is_some());
        self.book_departures(at);
        transmit
    }

    /// Enters what has just left into the books of the paths it left on.
    fn book_departures(&mut self, at: Micros) {
        let usual = self.packet_size();
        let mut sent = std::mem::take(&mut self.sent);
        for Sent { path: index, packet, bytes, certain, payload } in sent.drain(..) {
            let number = self.conn.paths[index].number;
            let Some(position) = self.ensure_path(number, at) else { continue };
            let path = &mut self.paths[position];
            if let Some(Payload::Chunk(chunk)) = &payload {
                let (meant, actual) = (chunk.path, path.id);
                count(&mut path.stats, chunk);
                self.outlook.on_departure(chunk.range.end - chunk.range.start, bytes);
                path.on_departure(at);
                self.outbox.queue.mark_departed(chunk.block, chunk.range.clone(), chunk.kind, at);
                if meant != actual {
                    path.stats.strays += 1;
                    self.correct_path(chunk.clone(), meant, actual, at);
                }
            }
            if let Some(Payload::Probe(id)) = payload {
                self.asked.on_departure(id, number);
            }
            self.paths[position].pacer.on_sent(bytes.into());
            if !certain {
                // No acknowledgement will ever say that it has arrived.
                self.give_up_packet(at, position, InFlight::of(at, bytes, payload));
                continue;
            }
            if bytes == 0 {
                self.paths[position].flight.add(packet, payload);
                continue;
            }
            let is_mtu_probe = payload.is_none() && u64::from(bytes) > usual;
            let path = &mut self.paths[position];
            let mark = path.bottleneck.mark(path.flight.bytes() == 0);
            let entry = InFlight { is_mtu_probe, mark, ..InFlight::of(at, bytes, payload) };
            self.note_packet(at, number, packet, PacketFate::Sent, &entry);
            self.paths[position].flight.insert(packet, entry);
        }
        self.sent = sent;
    }

    /// A chunk left with a tail-loss probe of another path: the ledger is right, the intention was not.
    fn correct_path(&mut self, chunk: Chunk, meant: PathId, actual: PathId, at: Micros) {
        self.outbox.queue.mark_sent(chunk.block, chunk.range.clone(), actual, at);
        self.outbox.queue.mark_lost(chunk.block, chunk.range, meant);
    }
}

fn count(stats: &mut crate::PathStats, chunk: &Chunk) {
    let bytes = u64::from(chunk.range.end - chunk.range.start);
    match chunk.kind {
        WorkKind::Fresh => stats.fresh_bytes += bytes,
        WorkKind::Repair => stats.repair_bytes += bytes,
        WorkKind::Copy => stats.copy_bytes += bytes,
    }
}
