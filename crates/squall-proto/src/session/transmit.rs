//! The next packets, in the order of [`Session::poll_transmit`].
//!
//! The order matters, because the first packet from noq carries the pending acknowledgements along,
//! and those belong on the path that feedback chooses. Therefore noq's timers, which may produce
//! packets, run after feedback, and data carries the end of a block along.

use std::time::Instant;

use bytes::Bytes;
use squall_sched::{BlockId, PathId, Span, Time, WorkKind};

use super::{PacketFate, Session, decide::ACK_RESERVE, probes::Waiting};
use crate::{
    capacity::predicted_rate,
    outbox::Outbox,
    path::{Chunk, Control, FULL_SIZE, InFlight, PACKET_OVERHEAD, Path, Payload},
    steering::{Gate, Sent, Transmit},
    varint,
    wire::{self, Data, Item, Repair},
};

/// Largest number of packets in a batch; the driver may allow fewer.
const MAX_BATCH: usize = 32;

/// Largest overhead of a DATAGRAM frame in bytes, in a packet that has room for more (RFC 9221 §4).
const FRAME_OVERHEAD: usize = 3;

/// Bytes of a packet beside the datagram of a probe: header, connection id, packet number, frame
/// and tag.
const HEADERS: u16 = 32;

/// Difference of arrival times within which paths count as equally alive.
const EQUALLY_ALIVE: Span = Span::from_millis(10);

/// Parameters of a poll: the time, the largest number of packets, and the buffer for them.
struct Out<'a> {
    now: Instant,
    at: Time,
    max: usize,
    buf: &'a mut Vec<u8>,
}

/// Largest size in bytes of a REFUSED or a REBUILT with its frame.
const MAX_ANSWER: usize = 40;

impl Session {
    /// Writes the next packets to `buf`, which must be empty.
    pub(crate) fn poll_transmit(&mut self, now: Instant, max: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        let _span = self.conn.span().clone().entered();
        let out = &mut Out { now, at: self.time(now), max, buf };
        self.enforce_budgets(now);
        self.update_forecast(out.at);
        if !self.is_open() {
            return self.transmit_unsteered(out);
        }
        if self.conn.has_queued() {
            // Packets that noq kept are first, and nothing of ours is put behind them.
            let transmit = self
                .transmit_queued(out)
                .or_else(|| self.transmit_probes(out))
                .or_else(|| self.transmit_rest(out));
            if transmit.is_some() || !self.conn.drop_oversized() {
                return transmit;
            }
            self.take_back_dropped(out.at);
        }
        self.duties.expire(out.at);
        self.transmit_feedback(out)
            .or_else(|| self.transmit_probes(out))
            .or_else(|| self.transmit_control(out))
            .or_else(|| self.transmit_data(out))
            // An end for which there was no data.
            .or_else(|| self.transmit_control(out))
            .or_else(|| self.transmit_rest(out))
    }

    /// Polls noq, and records the packets that left.
    fn poll_quic(&mut self, gate: Gate, max: usize, out: &mut Out<'_>) -> Option<Transmit> {
        let transmit = self.conn.poll_transmit(gate, out.now, max, out.buf);
        self.enter_departures(out.at);
        transmit
    }

    /// Sends handshake and close, which noq steers.
    fn transmit_unsteered(&mut self, out: &mut Out<'_>) -> Option<Transmit> {
        // A close leaves before timers run, however late they are: noq forgets it three probe
        // timeouts after the request.
        let owes_close = self.is_closed() && self.duties.has_flush();
        if !owes_close && self.duties.take_quic_timer() {
            self.conn.on_timeout(out.now);
        }
        // A close is a packet for each kind of key, once, and once more for each packet that still
        // arrives: before the handshake is over noq writes it again at every call.
        let max = match self.is_closed() {
            true if self.duties.take_flush() => out.max,
            true => 0,
            false => 1,
        };
        let transmit =
            if max > 0 { self.conn.poll_transmit(Gate::Open, out.now, max, out.buf) } else { None };
        if transmit.is_none() && self.duties.take_quic_timer() {
            self.conn.on_timeout(out.now);
        }
        self.conn.departures.clear();
        if self.is_closed()
            && let Some(number) = transmit.as_ref().and_then(|sent| self.conn.number_of(sent.path))
            && let Some(id) = self.conn.paths.find(number)
        {
            // If another close is needed, this path may have lost the first one. The last path
            // stays.
            let _ = self.conn.close_path(id, out.now, 0);
        }
        self.pump(out.at);
        transmit
    }

    /// Sends datagrams that noq kept, because the poll for them returned another packet.
    fn transmit_queued(&mut self, out: &mut Out<'_>) -> Option<Transmit> {
        let gate = self.queues.batch_path.map_or(Gate::Open, Gate::Only);
        let transmit = self.poll_quic(gate, MAX_BATCH, out);
        transmit.or_else(|| self.poll_quic(Gate::Open, 1, out))
    }

    fn transmit_feedback(&mut self, out: &mut Out<'_>) -> Option<Transmit> {
        let due = self.reporter.due_at()?;
        // Any other packet that leaves now would carry the acknowledgements along.
        let probing = self.is_probe_due(out.at) || self.probes.any_waiting();
        if due > out.at && !self.duties.precede_feedback() && !probing {
            return None;
        }
        let id = self.report_path()?;
        let mut datagram = Vec::with_capacity(64);
        let mut payload = Payload::Ephemeral;
        // The acknowledgement of a refused block must not arrive without the refusal.
        if let Some((block, reason)) = self.queues.take_refusal() {
            Item::Refused(block.0, reason).encode(&mut datagram);
            payload = Payload::Control(Control::Refused(block, reason));
        }
        if matches!(payload, Payload::Ephemeral)
            && let Some(stalled) = self.inbox.take_stalled()
        {
            Item::Stalled(stalled).encode(&mut datagram);
            payload = Payload::Control(Control::Stalled(stalled));
        }
        self.report(out.at, &mut datagram);
        let len = datagram.len();
        self.write_losses(out.at, &mut datagram);
        let transmit = self.send_one(id, datagram, payload, out)?;
        self.reporter.on_sent(transmit.size, self.conn.paths[id].way_back.slowdown(out.at));
        self.stats.feedback_sent += 1;
        self.stats.feedback_bytes += len as u64;
        self.flush();
        Some(transmit)
    }

    fn report(&mut self, at: Time, datagram: &mut Vec<u8>) {
        let mut feedback = self.reporter.report(at);
        feedback.credit = self.inbox.announce_credit() >> 10;
        feedback.duplicates = self.inbox.duplicate_bytes();
        feedback.expired = self.inbox.expired_blocks();
        feedback.wanted = self.outlook.requested;
        Item::Feedback(feedback).encode(datagram);
    }

    /// Selects the path for feedback: the quickest of those on which packets arrived just now,
    /// preferably one that both sides trust.
    ///
    /// If a path delivers and yet is suspected, while the only trusted one is silent, either may be
    /// the dead one, since the missing packet may be an acknowledgement that the other carried
    /// along. Then they alternate, so that half of the reports arrive. A path whose budget is spent
    /// is used only if no other is alive.
    fn report_path(&self) -> Option<PathId> {
        let up = || self.conn.paths.iter().filter(|path| path.life.is_up());
        if !self.config.switches().steer_acks {
            return up().map(|path| path.id).min();
        }
        let frugal = up().any(|path| !path.life.is_suspect() && !path.life.is_spent());
        let up = || up().filter(|path| !(frugal && path.life.is_spent()));
        let latest = up().map(|path| path.received_at).max()?;
        let alive = up().filter(|path| path.received_at + EQUALLY_ALIVE >= latest);
        let rank = |path: &&Path| {
            let life = &path.life;
            (life.is_suspect(), life.is_out(), life.remote_suspects, path.role, path.rtt.smoothed)
        };
        let best = alive.min_by_key(rank)?;
        let trusted = up().filter(|path| !path.life.is_suspect()).max_by_key(|path| path.received_at);
        let takes_turn = best.life.is_suspect() && self.stats.feedback_sent.is_multiple_of(2);
        Some(trusted.filter(|_| takes_turn).unwrap_or(best).id)
    }

    /// Runs noq's timers, and sends the probes that they produce and our own probes of suspected
    /// paths.
    fn transmit_probes(&mut self, out: &mut Out<'_>) -> Option<Transmit> {
        if self.duties.take_quic_timer() {
            self.conn.on_timeout(out.now);
            self.notice_returns(out.at);
            self.pump(out.at);
            self.duties.after_quic_timer();
        }
        for id in self.conn.paths.ids() {
            let life = &mut self.conn.paths[id].life;
            if life.probe_at().is_some_and(|due| due <= out.at) {
                life.on_probe(out.at);
                self.conn.ping(id);
                self.flush();
            }
        }
        if !self.duties.has_tail_probes() {
            return None;
        }
        let probed = self.duties.take_probed().filter(|_| self.config.switches().probe_with_data);
        let has_data = probed.is_some_and(|id| self.queue_oldest(id, out.at));
        let transmit = self.conn.poll_transmit(Gate::Closed, out.now, 1, out.buf);
        let ping = self.conn.departures.first().filter(|sent| sent.payload.is_none()).map(|sent| sent.path);
        self.enter_departures(out.at);
        let probed = ping.and_then(|number| self.conn.paths.find(number));
        self.duties.after_tail_probe(transmit.is_some(), probed);
        // It was no tail-loss probe, and noq has no other one.
        transmit.or_else(|| if has_data { self.transmit_queued(out) } else { None })
    }

    /// Queues the oldest reliable bytes in flight on a path inside noq once more, if they left more
    /// than a round trip ago. Returns `true` if noq accepted them.
    ///
    /// A copy on the same path needs no entry in the block: it shares the fate of the first
    /// (`BlockQueue::mark_sent`).
    fn queue_oldest(&mut self, id: PathId, at: Time) -> bool {
        let path = &self.conn.paths[id];
        let is_old = |entry: &&InFlight| entry.sent_at + path.rtt.smoothed <= at;
        let is_needed = |chunk: &&Chunk| self.outbox.needs_again(chunk.block, &chunk.range);
        let chunk =
            path.flight.iter().take_while(is_old).filter_map(InFlight::chunk).find(is_needed).cloned();
        let Some(chunk) = chunk else { return false };
        let chunk = Chunk { kind: WorkKind::Repair, ..chunk };
        let most = self.conn.max_datagram();
        let written = write(&mut self.outbox, &chunk, at, most, self.config.even_offsets);
        let Some(Written { end, bytes, has_end, datagram }) = written else { return false };
        let range = chunk.range.start..end;
        let chunk = Chunk { range, bytes, has_end, path: id, written_at: at, ..chunk };
        self.queues.batch_path = Some(id);
        self.conn.queue(datagram.into(), Payload::Chunk(chunk)).is_ok()
    }

    fn is_probe_due(&self, at: Time) -> bool {
        self.conn.paths.iter().any(|path| path.life.probe_at().is_some_and(|due| due <= at))
    }

    /// Sends items that are no data: probes and answers on their path, the others on the best one.
    fn transmit_control(&mut self, out: &mut Out<'_>) -> Option<Transmit> {
        if let Some((id, control, item)) = self.next_urgent() {
            let mut datagram = Vec::with_capacity(16);
            item.encode(&mut datagram);
            let transmit = self.send_one(id, datagram, Payload::Control(control), out);
            if transmit.is_some() {
                return transmit;
            }
        }
        while let Some(Waiting { path, item, size }) = self.probes.next() {
            let mut datagram = Vec::with_capacity(16);
            match item {
                Item::Probe(id, stamp) if size > 0 => {
                    let most = self.conn.max_datagram();
                    let size = if size < FULL_SIZE { size.saturating_sub(HEADERS).into() } else { most };
                    wire::encode_padded_probe(id, stamp, size.min(most), &mut datagram);
                }
                _ => item.encode(&mut datagram),
            }
            let payload = if let Item::Probe(id, _) = item { Payload::Probe(id) } else { Payload::Ephemeral };
            // Answers leave in one packet.
            while matches!(item, Item::ProbeReply(..))
                && let Some(other) = self.probes.next_answer(path)
            {
                let mut datagram = Vec::with_capacity(16);
                other.encode(&mut datagram);
                // An answer that noq does not accept is requested again by the peer's next probe.
                let _ = self.conn.queue(datagram.into(), Payload::Ephemeral);
            }
            if let Some(transmit) = self.send_one(path, datagram, payload, out) {
                return Some(transmit);
            }
        }
        if self.losses_due().is_some_and(|due| due <= out.at)
            && let Some(id) = self.report_path()
        {
            let mut datagram = Vec::with_capacity(16);
            self.write_losses(out.at, &mut datagram);
            let transmit = self.send_one(id, datagram, Payload::Losses, out);
            if transmit.is_some() {
                return transmit;
            }
        }
        match self.queues.front() {
            None => return None,
            Some(Control::End(_)) if self.has_data_to_send(out.at) => return None,
            Some(_) => {}
        }
        let rank = |path: &&Path| {
            let life = &path.life;
            (life.is_suspect(), life.is_out(), life.is_spent(), path.role, path.rtt.smoothed)
        };
        let id = self.conn.paths.iter().filter(|path| path.life.is_up()).min_by_key(rank)?.id;
        let (control, datagram) = self.next_control(out.at)?;
        let mut room = self.conn.max_datagram().saturating_sub(datagram.len());
        if !self.queue_item(control, datagram) {
            return None;
        }
        // Items that a peer causes share a packet, with a frame each: one of its packets can cause
        // a hundred.
        while let Some(Control::Refused(..) | Control::Rebuilt(_)) = self.queues.front()
            && room >= MAX_ANSWER
        {
            let Some((control, datagram)) = self.next_control(out.at) else { break };
            room = room.saturating_sub(FRAME_OVERHEAD + datagram.len());
            if !self.queue_item(control, datagram) {
                break;
            }
        }
        self.queues.batch_path = Some(id);
        self.poll_quic(Gate::Only(id), 1, out)
    }

    /// Queues a control item inside noq. Returns `true` if noq accepted it; otherwise the item
    /// waits again.
    fn queue_item(&mut self, control: Control, datagram: Vec<u8>) -> bool {
        let is_taken = self.conn.queue(datagram.into(), Payload::Control(control)).is_ok();
        if !is_taken {
            self.queues.put_back(control);
        }
        is_taken
    }

    /// Returns the next control item that is still needed.
    fn next_control(&mut self, at: Time) -> Option<(Control, Vec<u8>)> {
        let mut datagram = Vec::with_capacity(32);
        loop {
            let control = self.queues.pop()?;
            match control {
                Control::Cancel(cancel) => Item::Cancel(cancel).encode(&mut datagram),
                Control::Refused(block, reason) => Item::Refused(block.0, reason).encode(&mut datagram),
                Control::Rebuilt(block) => Item::Rebuilt(block.0).encode(&mut datagram),
                Control::Stalled(stalled) => Item::Stalled(stalled).encode(&mut datagram),
                Control::Credit => self.report(at, &mut datagram),
                Control::End(block) => match self.end_of(at, block) {
                    Some(end) => Item::Data(end, &[]).encode(&mut datagram),
                    // The block has ended, or the peer has the end by now.
                    None => continue,
                },
                // Alerts have a queue of their own.
                Control::Alert { .. } => continue,
                Control::PathInfo(id) => match self.path_info(id) {
                    Some(info) => Item::PathInfo(info).encode(&mut datagram),
                    // The path is closed.
                    None => continue,
                },
            }
            return Some((control, datagram));
        }
    }

    /// Returns `true` if data leaves next.
    fn has_data_to_send(&mut self, at: Time) -> bool {
        self.ready_path(at).is_some() || self.decide(at) && self.ready_path(at).is_some()
    }

    /// Returns the announcement of an end that leaves next.
    fn next_end(&mut self, at: Time) -> Option<(BlockId, Vec<u8>)> {
        let id = self.queues.take_end()?;
        let mut datagram = Vec::with_capacity(32);
        Item::Data(self.end_of(at, id)?, &[]).encode(&mut datagram);
        Some((id, datagram))
    }

    /// Queues one datagram and polls the gate of its path.
    fn send_one(
        &mut self,
        id: PathId,
        datagram: Vec<u8>,
        payload: Payload,
        out: &mut Out<'_>,
    ) -> Option<Transmit> {
        self.queues.batch_path = Some(id);
        match self.conn.queue(Bytes::from(datagram), payload) {
            Ok(()) => self.poll_quic(Gate::Only(id), 1, out),
            Err(Payload::Control(control)) => {
                self.queues.put_back(control);
                None
            }
            Err(Payload::Ephemeral | Payload::Losses | Payload::Probe(_) | Payload::Chunk(_)) => {
                // A later report or probe replaces it; items that must arrive are control items.
                tracing::warn!(path = id.0, "a datagram was not taken by QUIC, and is dropped");
                None
            }
        }
    }

    /// Sends a batch of chunks on one path.
    fn transmit_data(&mut self, out: &mut Out<'_>) -> Option<Transmit> {
        let max = out.max.min(MAX_BATCH);
        loop {
            if let Some((id, packets)) = self.ready_path(out.at) {
                if self.queue_batch(id, out.at, packets.min(max)) == 0 {
                    continue;
                }
                self.queues.batch_path = Some(id);
                let transmit = self.poll_quic(Gate::Only(id), max, out);
                self.duties.after_data();
                if transmit.is_none() {
                    self.block_path(id, out.at);
                    return self.transmit_queued(out);
                }
                return transmit;
            }
            if !self.decide(out.at) && !self.report_waiting(out.now) {
                return None;
            }
        }
    }

    /// Reports paths whose pacer or window keeps data waiting to their controllers. Returns `true`
    /// if this has opened a window: the only path may hold the packets in flight.
    fn report_waiting(&mut self, now: Instant) -> bool {
        let packet = self.packet_size();
        let queued = self.outbox.queue.has_work();
        let quic_now = self.conn.clock().of_quic(now);
        let only = self.only_path();
        for path in self.conn.paths.iter() {
            let waits =
                path.waits_for_window() && (!path.committed.is_empty() || (queued && path.is_full(packet)));
            path.quic.ledger.on_waiting(quic_now, waits, only == Some(path.id));
        }
        let Some(only) = only.filter(|only| self.conn.paths[*only].is_full(packet)) else { return false };
        self.refresh_path(self.time(now), only);
        !self.conn.paths[only].is_full(packet)
    }

    /// Returns the only path that is up, if there is exactly one.
    fn only_path(&self) -> Option<PathId> {
        let mut up = self.conn.paths.iter().filter(|path| path.life.is_up()).map(|path| path.id);
        up.next().filter(|_| up.next().is_none())
    }

    /// Returns a path with assigned data that its pacer releases, and the number of packets.
    fn ready_path(&mut self, at: Time) -> Option<(PathId, usize)> {
        self.charge_limiters(at);
        let packet = self.packet_size();
        self.conn.paths.iter_mut().find_map(|path| {
            if path.committed.is_empty() {
                return None;
            }
            let limit = path.limiter.map_or(usize::MAX, |limiter| limiter.packets(packet));
            let packets = path.pacer.packets(at, packet).min(path.affordable()).min(limit);
            (packets > 0).then_some((path.id, packets))
        })
    }

    /// Charges the limiters for packets that left on paths with a rate limit.
    fn charge_limiters(&mut self, at: Time) {
        for id in self.conn.paths.ids() {
            if self.conn.paths[id].limiter.is_none() {
                continue;
            }
            let sent = self.conn.sent_bytes(id);
            if let Some(limiter) = &mut self.conn.paths[id].limiter {
                limiter.charge(at, sent);
            }
        }
    }

    pub(super) fn packet_size(&mut self) -> u64 {
        self.conn.max_datagram() as u64 + u64::from(PACKET_OVERHEAD)
    }

    /// Queues up to `packets` chunks inside noq; returns their number. A chunk that does not fill
    /// its packet ends the batch. The first packet carries the announcement of an end along.
    fn queue_batch(&mut self, id: PathId, at: Time, packets: usize) -> usize {
        let size = self.conn.max_datagram();
        let mut fills = self.conn.lacks_full(id, self.instant(at));
        let mut queued = 0;
        let mut end = self.next_end(at);
        while queued < packets {
            let acks = if queued == 0 && self.duties.owes_acks() { ACK_RESERVE } else { 0 };
            let reserve = acks + end.as_ref().map_or(0, |(_, end)| end.len() + FRAME_OVERHEAD);
            let Some((datagram, chunk)) = self.next_chunk(id, at, size - reserve) else { break };
            let len = datagram.len();
            let full = len + reserve >= size || self.is_followed(id, &chunk);
            if let Err(Payload::Chunk(chunk)) = self.conn.queue(datagram.into(), Payload::Chunk(chunk)) {
                // Larger than fits now, because the path's MTU has just shrunk. Cut again.
                let path = chunk.path;
                self.take_back(at, chunk, path);
                break;
            }
            if fills && reserve == 0 {
                fills = !self.conn.fill(id, len, queued, Payload::Ephemeral);
            }
            queued += 1;
            if let Some((block, datagram)) = end.take() {
                self.queue_item(Control::End(block), datagram);
            }
            if !full {
                break;
            }
        }
        if let Some((block, _)) = end {
            self.queues.put_back(Control::End(block));
        }
        queued
    }

    /// Returns `true` if a chunk is a symbol of a block, and an equally long one follows on the
    /// path.
    fn is_followed(&self, id: PathId, chunk: &Chunk) -> bool {
        let Some(next) = self.conn.paths[id].committed.front() else { return false };
        let block = self.outbox.queue.get(chunk.block);
        let symbol_end = block.and_then(|block| block.symbol_end(chunk.range.start));
        let is_symbol = chunk.is_parity() || self.outbox.cuts_symbols && symbol_end == Some(chunk.range.end);
        let is_same = next.kind == chunk.kind || !(next.is_parity() || chunk.is_parity());
        // The header has the start of the range.
        let (start, next_start) = (chunk.range.start.into(), next.range.start.into());
        let is_even = self.config.even_offsets || varint::len(start) == varint::len(next_start);
        next.block == chunk.block && is_same && is_symbol && is_even
    }

    /// Cuts the next chunk off the data assigned to a path, as a datagram of at most `size` bytes;
    /// parity may need more.
    fn next_chunk(&mut self, id: PathId, at: Time, size: usize) -> Option<(Vec<u8>, Chunk)> {
        let most = self.conn.max_datagram();
        loop {
            let path = &mut self.conn.paths[id];
            let rate = predicted_rate(&self.config.congestion, path, at);
            let Some(front) = path.committed.front_mut() else {
                path.committed_bytes = 0;
                return None;
            };
            if front.kind != WorkKind::RunParity && self.outbox.queue.get(front.block).is_none() {
                path.committed.pop_front();
                continue;
            }
            let size = if front.is_parity() { most } else { size };
            let Some(Written { end, bytes, has_end, datagram }) =
                write(&mut self.outbox, front, at, size, self.config.even_offsets)
            else {
                // The packets of the path have become smaller than a symbol.
                let chunk = path.committed.pop_front()?;
                self.lose_chunk(at, chunk, id);
                continue;
            };
            let range = front.range.start..end;
            let chunk = Chunk { range, bytes, path: path.id, has_end, written_at: at, ..front.clone() };
            let cost = u64::from(bytes + PACKET_OVERHEAD);
            front.range.start = end;
            // The next packet follows it at the rate of the path.
            front.expected_at += Span::from_micros((8_000_000 * cost).checked_div(rate).unwrap_or(0));
            if front.range.is_empty() {
                path.committed.pop_front();
                if chunk.kind == WorkKind::RunParity {
                    self.outbox.end_run(chunk.block);
                }
            }
            path.committed_bytes = path.committed_bytes.saturating_sub(cost);
            if path.committed.is_empty() {
                // The cost of assigned data was computed with the longest possible headers.
                path.committed_bytes = 0;
            }
            return Some((datagram, chunk));
        }
    }

    /// Sends control frames, path validation, and acknowledgements that no other packet carried
    /// along.
    fn transmit_rest(&mut self, out: &mut Out<'_>) -> Option<Transmit> {
        if !self.duties.has_flush() {
            return None;
        }
        let transmit = self.poll_quic(Gate::Open, 1, out);
        self.duties.after_flush(transmit.is_some());
        transmit
    }

    /// Records departed packets at the paths on which they left.
    fn enter_departures(&mut self, at: Time) {
        let usual = self.packet_size();
        let mut departures = std::mem::take(&mut self.conn.departures);
        for Sent { path: number, packet, bytes, certain, payload } in departures.drain(..) {
            let Some(id) = self.admit_path(number, at) else { continue };
            let path = &mut self.conn.paths[id];
            if let Some(Payload::Chunk(chunk)) = &payload {
                let meant = chunk.path;
                count(&mut path.stats, chunk.kind, chunk.bytes.into());
                self.outlook.on_departure(chunk.bytes, bytes);
                let rate = predicted_rate(&self.config.congestion, path, at);
                path.on_departure(at, bytes.into(), rate);
                if !chunk.is_parity() {
                    self.outbox.queue.of_mut(chunk.block).mark_departed(
                        chunk.block,
                        chunk.range.clone(),
                        chunk.kind,
                        at,
                    );
                }
                if meant != id {
                    path.stats.strays += 1;
                    self.correct_path(chunk.clone(), meant, id, at);
                }
            }
            if let Some(Payload::Probe(probe)) = payload {
                self.probes.on_departure(probe, id);
            }
            #[cfg(feature = "trace")]
            if bytes == 0 && matches!(payload, Some(Payload::Chunk(_))) {
                self.log_packet(at, id, packet, PacketFate::Sent, &InFlight::of(at, bytes, payload.clone()));
            }
            let path = &mut self.conn.paths[id];
            path.pacer.on_sent(bytes.into());
            if !certain {
                // No acknowledgement will ever report its arrival.
                self.on_packet_lost(at, id, InFlight::of(at, bytes, payload));
            } else if bytes == 0 {
                path.flight.add(packet, payload);
            } else {
                let is_mtu_probe = payload.is_none() && u64::from(bytes) > usual;
                let idle = path.flight.bytes() == 0;
                path.bottleneck_of_flights.mark(idle);
                let mark = path.bottleneck.mark(idle);
                let entry = InFlight { is_mtu_probe, mark, ..InFlight::of(at, bytes, payload) };
                self.log_packet(at, id, packet, PacketFate::Sent, &entry);
                self.conn.paths[id].flight.insert(packet, entry);
            }
        }
        self.conn.departures = departures;
    }

    /// Corrects the path of a chunk that left with a tail-loss probe of another path than intended.
    fn correct_path(&mut self, chunk: Chunk, meant: PathId, actual: PathId, at: Time) {
        if chunk.is_parity() {
            return;
        }
        self.outbox.queue.mark_sent(chunk.block, chunk.range.clone(), actual, at);
        self.outbox.queue.mark_lost(chunk.block, chunk.range, meant);
    }
}

/// Part of a chunk that fits one packet.
struct Written {
    /// End of the part in the range.
    end: u32,
    /// Bytes of its payload.
    bytes: u32,
    /// The header contains the length of the block.
    has_end: bool,
    datagram: Vec<u8>,
}

/// Writes the largest start of a chunk that fits a datagram of `most` bytes; `None` if a symbol of
/// parity is too long for one.
fn write(outbox: &mut Outbox, chunk: &Chunk, at: Time, most: usize, even: bool) -> Option<Written> {
    let (block, start) = (chunk.block, chunk.range.start);
    if chunk.kind == WorkKind::RunParity {
        let (run, symbol) = outbox.run_symbol(block, start, at)?;
        return write_symbol(&Item::RunParity(run, symbol), start, symbol.len(), most);
    }
    let header = outbox.header(block, at)?;
    if chunk.kind == WorkKind::Parity {
        let symbol = outbox.parity(block, start)?;
        let repair = Repair { block: header, symbol_size: symbol.len() as u32, index: start };
        return write_symbol(&Item::Repair(repair, symbol), start, symbol.len(), most);
    }
    let header = Data { offset: start, ..header };
    let offset_len = if even { header.even_offset_len() } else { header.offset_len() };
    let header_len = header.header_len(offset_len);
    let room = most.saturating_sub(header_len).max(1) as u32;
    let symbol_end =
        outbox.queue.get(block)?.symbol_end(start).filter(|_| outbox.cuts_symbols).unwrap_or(u32::MAX);
    let end = chunk.range.end.min(start + room).min(symbol_end);
    let data = outbox.bytes(block, &(start..end))?;
    let mut datagram = Vec::with_capacity(header_len + data.len());
    header.encode_with(offset_len, data, &mut datagram);
    Some(Written { end, bytes: end - start, has_end: header.total.is_some(), datagram })
}

fn write_symbol(item: &Item<'_>, index: u32, len: usize, most: usize) -> Option<Written> {
    let mut datagram = Vec::with_capacity(most);
    item.encode(&mut datagram);
    let fits = datagram.len() <= most;
    fits.then_some(Written { end: index + 1, bytes: len as u32, has_end: true, datagram })
}

fn count(stats: &mut crate::PathStats, kind: WorkKind, bytes: u64) {
    match kind {
        WorkKind::Fresh => stats.fresh_bytes += bytes,
        WorkKind::Repair => stats.repair_bytes += bytes,
        WorkKind::Copy => stats.copy_bytes += bytes,
        WorkKind::Parity | WorkKind::RunParity => stats.parity_bytes += bytes,
    }
}
