//! Taking in packets, and the fates of those we sent.

use std::time::Instant;

use squall_sched::{BlockId, Micros, PathId, SchedEvent};

use super::{PacketFate, Session, Stage, probe::Waiting};
use crate::{
    Channel, CloseReason, Event, Missed, NetPath, PathChange, Priority, Received,
    inbox::InboxEvent,
    liveness::Packet,
    outbox::Ending,
    path::{Control, InFlight, Payload, Reported, Sample},
    steering::{Fate, PacketEvent, QuicEvent},
    wire::{Data, Feedback, Item, Items},
};

/// Code with which a session is closed when the peer breaks the protocol.
const PROTOCOL_ERROR: u32 = 1;

/// A report of an arrival belongs to an acknowledgement that comes this much later at most, in
/// microseconds: noq acknowledges a packet on its own within less.
const MAX_REPORT_AGE: Micros = 50_000;

/// Probes and answers that wait to leave at most.
pub(super) const MAX_PROBES: usize = 16;

impl Session {
    /// Takes in a packet that came over `net`.
    pub(crate) fn on_packet(&mut self, now: Instant, net: NetPath, event: PacketEvent) {
        let _span = self.span.clone().entered();
        self.conn.on_event(event);
        let at = self.micros(now);
        let number = self.arrival_path(at, net);
        self.duties.flush();
        // Before the fates: a refusal comes with the acknowledgement, and must count first.
        let mut media = false;
        while let Some(datagram) = self.conn.recv() {
            match self.on_datagram(at, number, &datagram) {
                Ok(data) => media |= data,
                Err(error) => return self.break_off(at, error),
            }
        }
        self.pump(at);
        let media = media && self.stage == Stage::Open;
        self.duties.on_packet(media);
        if media {
            self.announce();
        }
    }

    /// The peer broke the protocol.
    fn break_off(&mut self, at: Micros, error: String) {
        if self.stage == Stage::Closed {
            return;
        }
        let now = self.instant(at);
        self.conn.close(now, PROTOCOL_ERROR, error.clone().into_bytes().into());
        self.end(now, CloseReason::Protocol(error));
    }

    /// Number of the path a packet came over; notices when a path has moved.
    fn arrival_path(&mut self, at: Micros, net: NetPath) -> u32 {
        let index = self.conn.index_of_net(net).or_else(|| {
            for moved in self.conn.refresh_addresses() {
                self.on_rebound(at, moved);
            }
            self.conn.index_of_net(net)
        });
        let number = index.map_or(0, |i| self.conn.paths[i].number);
        if let Some(path) = self.paths.iter_mut().find(|p| p.number == number) {
            path.heard_at = at;
        }
        number
    }

    /// The peer's address changed: noq will tell no fate of what was sent to the old one.
    fn on_rebound(&mut self, at: Micros, index: usize) {
        let quic = &self.conn.paths[index];
        let (number, net) = (quic.number, quic.net);
        let Some(position) = self.paths.iter().position(|p| p.number == number) else { return };
        let id = self.paths[position].id;
        for (packet, entry) in self.paths[position].flight.drain() {
            self.note_packet(at, number, packet, PacketFate::Unknown, &entry);
            self.give_up_packet(at, position, entry);
        }
        if self.paths[position].up {
            self.block_path(position, at);
            self.path_event(id, PathChange::Rebound(net));
        }
    }

    /// Runs through everything noq has learnt: fates first, then events.
    pub(super) fn pump(&mut self, at: Micros) {
        self.collect_fates(at);
        while let Some(event) = self.conn.poll() {
            match event {
                QuicEvent::Confirmed => self.on_confirmed(at),
                QuicEvent::PathUp { number } => self.on_path_up(at, number),
                QuicEvent::PathGone { number, net, sent, by_peer } => {
                    self.settle_path(number, net, sent, by_peer);
                    self.on_path_gone(at, number, net);
                }
                QuicEvent::RemoteStatus { number, backup } => {
                    if let Some(path) = self.paths.iter_mut().find(|p| p.number == number) {
                        path.remote_suspects = backup;
                    }
                }
                QuicEvent::Hello(hello) => {
                    if let Err(error) = hello.and_then(|hello| self.on_hello(&hello)) {
                        self.break_off(at, error.to_owned());
                    }
                }
                QuicEvent::Closed(reason) => {
                    let now = self.instant(at);
                    self.end(now, reason);
                }
            }
        }
    }

    fn on_confirmed(&mut self, at: Micros) {
        if self.stage != Stage::Handshake {
            return;
        }
        self.stage = Stage::Open;
        // The handshake's packet numbers collide with those of data: none of them is ours.
        for path in &self.conn.paths {
            let mut book = path.ledger.book();
            book.sent.clear();
            book.fates.clear();
        }
        if self.is_client {
            self.conn.change_keys();
        }
        self.say_hello();
        if self.is_client {
            self.announce();
        }
        self.on_path_up(at, 0);
    }

    fn on_path_up(&mut self, at: Micros, number: u32) {
        let Some(index) = self.conn.index_of(number) else { return };
        let Some(position) = self.ensure_path(number, at) else {
            let now = self.instant(at);
            // More paths than the limit: the peer may have eight.
            let _ = self.conn.close_path(index, now, 0);
            return;
        };
        if self.paths[position].up || self.stage == Stage::Handshake {
            return;
        }
        let rtt = self.conn.srtt(index).map(|rtt| rtt.as_micros() as Micros);
        let net = self.conn.paths[index].net;
        if let Some(wanted) = self.wanted.iter_mut().find(|w| w.net == net) {
            wanted.failures = 0;
        }
        let path = &mut self.paths[position];
        path.up = true;
        path.heard_at = at;
        if let Some(rtt) = rtt {
            path.rtt.seed(rtt);
        }
        // Its validation was a round trip.
        let rtt = path.rtt.smoothed;
        path.liveness.on_proof(at, Packet { sent_at: at.saturating_sub(rtt), full_size: true }, rtt);
        let id = path.id;
        self.refresh_path(at, position);
        self.introduce(number);
        self.introduce_signal(at, number);
        self.path_event(id, PathChange::Up(net));
    }

    fn on_path_gone(&mut self, at: Micros, number: u32, net: Option<NetPath>) {
        if let Some(wanted) = self.wanted.iter_mut().find(|w| Some(w.net) == net) {
            self.to_open.push_back((at + wanted.next_delay(), wanted.net));
        }
        let Some(position) = self.paths.iter().position(|p| p.number == number) else { return };
        self.radios.forget(number);
        self.uncommit(position);
        for (packet, entry) in self.paths[position].flight.drain() {
            self.note_packet(at, number, packet, PacketFate::Unknown, &entry);
            self.give_up_packet(at, position, entry);
        }
        let path = self.paths.remove(position);
        self.outbox.queue.forget_path(path.id);
        self.path_event(path.id, PathChange::Down);
    }

    /// Reads the ledgers.
    pub(super) fn collect_fates(&mut self, at: Micros) {
        for index in 0..self.conn.paths.len() {
            let ledger = self.conn.paths[index].ledger.clone();
            let mut fates = {
                let mut book = ledger.book();
                if book.fates.is_empty() {
                    continue;
                }
                std::mem::take(&mut book.fates)
            };
            let number = self.conn.paths[index].number;
            if let Some(position) = self.paths.iter().position(|p| p.number == number) {
                self.on_fates(at, position, &fates);
                self.refresh_path(at, position);
            }
            fates.clear();
            // Hand the memory back: this runs for every packet that arrives.
            let mut book = ledger.book();
            if book.fates.is_empty() {
                book.fates = fates;
            }
        }
    }

    fn on_fates(&mut self, at: Micros, position: usize, fates: &[Fate]) {
        self.duties.schedule();
        let newest = fates.iter().filter(|f| f.acked).map(|f| f.packet).max();
        let mut newest_data = None;
        for fate in fates {
            let Some(entry) = self.paths[position].flight.take(fate.packet) else { continue };
            let number = self.paths[position].number;
            self.note_packet(at, number, fate.packet, PacketFate::known(fate.acked), &entry);
            let path = &mut self.paths[position];
            if fate.acked {
                let known = fate.at.saturating_duration_since(self.epoch).as_micros() as Micros;
                if Some(fate.packet) == newest {
                    let with = match entry.payload {
                        Some(Payload::Chunk(_)) => Sample::Data,
                        Some(Payload::Probe(_)) => Sample::Probe,
                        _ => Sample::Other,
                    };
                    path.rtt.sample(at, known.saturating_sub(entry.sent_at).max(1), with);
                }
                let packet = Packet { sent_at: entry.sent_at, full_size: entry.is_full_size() };
                let recovery = path.liveness.on_proof(at, packet, path.rtt.steady);
                path.delivery.record(at, entry.bytes.into());
                path.bottleneck.on_ack(at, entry.mark, entry.sent_at, entry.bytes.into());
                newest_data = newest_data.max(entry.written_at().map(|written| (fate.packet, written)));
                self.on_recovery(position, recovery);
                self.on_packet_acked(at, position, entry);
            } else {
                if entry.counts() {
                    path.loss.record(at, true);
                    path.stats.lost_packets += 1;
                }
                let packet = Packet { sent_at: entry.sent_at, full_size: entry.is_full_size() };
                if path.liveness.on_loss(at, packet, path.window) {
                    self.uncommit(position);
                }
                self.give_up_packet(at, position, entry);
            }
        }
        if let Some((packet, written)) = newest_data {
            self.report_arrival(at, position, packet, written);
        }
        if let Some(newest) = newest {
            self.forget_probes(at, position, newest);
        }
    }

    /// Feedback reports the delay of the newest data that arrived on the path. It is used if that is also the newest that
    /// is acknowledged: reports and acknowledgements take different paths and overtake each other. A single packet is often
    /// reported first and acknowledged a little later.
    fn report_arrival(&mut self, at: Micros, position: usize, packet: u64, written: Micros) {
        let path = &mut self.paths[position];
        let Some(reported) = path.reported.filter(|reported| at - reported.at <= MAX_REPORT_AGE) else {
            return;
        };
        let departed_after = reported.departed_after(written);
        if departed_after > 0 {
            return;
        }
        path.reported = None;
        if departed_after == 0
            && let Some(index) = self.conn.index_of(path.number)
        {
            let (now, written) = (self.instant(at), self.instant(written));
            self.conn.paths[index].ledger.on_arrival(now, packet, written, reported.delay);
        }
    }

    /// noq does not tell of a lost MTU probe. It holds nothing of ours, so once a later packet is
    /// acknowledged and two probe timeouts have passed, it is struck off.
    fn forget_probes(&mut self, at: Micros, position: usize, newest: u64) {
        let limit = 2 * self.paths[position].rtt.probe_timeout();
        loop {
            let path = &mut self.paths[position];
            let number = path.number;
            let Some((packet, entry)) = path.flight.first() else { return };
            if entry.payload.is_some() || packet >= newest || at - entry.sent_at <= limit {
                return;
            }
            let Some(entry) = path.flight.take(packet) else { return };
            self.note_packet(at, number, packet, PacketFate::Lost, &entry);
        }
    }

    fn on_packet_acked(&mut self, at: Micros, position: usize, entry: InFlight) {
        let path = &mut self.paths[position];
        let id = path.id;
        if entry.counts() {
            path.loss.record(at, false);
            path.stats.acked_packets += 1;
        }
        for payload in entry.payload.into_iter().chain(entry.more) {
            match payload {
                Payload::Chunk(chunk) => {
                    self.sched_events.push(SchedEvent::Acked {
                        block: chunk.block,
                        range: chunk.range.clone(),
                        path: id,
                    });
                    let ended = self.outbox.on_acked(chunk.block, chunk.range, id, chunk.tells_end);
                    match ended {
                        Some(ended) => self.on_ended(at, &ended),
                        None => self.tell_end(chunk.block),
                    }
                }
                Payload::Control(Control::End(block)) => {
                    if let Some(ended) = self.outbox.on_end_known(block) {
                        self.on_ended(at, &ended);
                    }
                }
                Payload::Control(Control::Alert { path, sequence }) => self.radios.on_acked(path, sequence),
                Payload::Control(_) | Payload::Probe(_) | Payload::Fleeting => {}
            }
        }
    }

    /// A packet is lost, or will never be heard of: its data is repaired where that is wanted.
    pub(super) fn give_up_packet(&mut self, at: Micros, position: usize, entry: InFlight) {
        let id = self.paths[position].id;
        for payload in entry.payload.into_iter().chain(entry.more) {
            match payload {
                Payload::Chunk(chunk) if !entry.presumed_lost || !self.is_reliable(chunk.block) => {
                    self.sched_events.push(SchedEvent::Lost {
                        block: chunk.block,
                        range: chunk.range.clone(),
                        path: id,
                    });
                    if let Some(ended) = self.outbox.on_lost(chunk.block, chunk.range, id) {
                        self.on_ended(at, &ended);
                    }
                }
                Payload::Control(control) if !entry.presumed_lost => self.repeat_control(at, control),
                _ => {}
            }
        }
        self.duties.schedule();
    }

    pub(super) fn is_reliable(&self, block: BlockId) -> bool {
        self.outbox.queue.get(block).is_some_and(|b| b.meta().reliable)
    }

    /// Takes over what the path's controller has worked out.
    fn refresh_path(&mut self, at: Micros, position: usize) {
        let packet = self.packet_size();
        let path = &mut self.paths[position];
        let Some(index) = self.conn.index_of(path.number) else { return };
        let book = self.conn.paths[index].ledger.book();
        path.window = book.window;
        path.capacity = book.capacity;
        let (rate, slow_start) = (book.pacing_rate, book.slow_start);
        drop(book);
        let window = path.effective_window();
        path.pacer.update(at, rate, window, path.rtt.steady, slow_start, packet);
    }

    /// Takes in a datagram; returns whether it held data.
    fn on_datagram(&mut self, at: Micros, number: u32, datagram: &[u8]) -> Result<bool, String> {
        let mut data = false;
        for item in Items::of(datagram) {
            match item.map_err(|e| e.to_string())? {
                Item::Data(header, payload) => {
                    data = true;
                    self.on_data(at, number, &header, payload)?;
                }
                Item::Cancel(cancel) => self.inbox.on_cancel(&cancel).map_err(|e| e.to_string())?,
                Item::Refused(block, reason) => {
                    self.end_block(at, BlockId(block), Ending::Refused(reason));
                }
                Item::Feedback(feedback) => self.on_feedback(at, &feedback),
                Item::PathInfo(info) => self.on_path_info(&info),
                Item::PathAlert(alert) => self.on_path_alert(at, &alert),
                // A peer that asks faster than it is answered gets no more answers.
                Item::Probe(id, stamp) if self.probes.len() < MAX_PROBES => {
                    let item = Item::ProbeReply(id, stamp);
                    self.probes.push_back(Waiting { path: number, item, full_size: false });
                }
                Item::Probe(..) => {}
                Item::ProbeReply(id, _) => self.on_probe_reply(at, number, id),
            }
        }
        Ok(data)
    }

    fn on_data(&mut self, at: Micros, number: u32, header: &Data, payload: &[u8]) -> Result<(), String> {
        let Some(path) = self.paths.iter_mut().find(|p| p.number == number) else {
            // A path that is just closing: its bytes count all the same, for they are acknowledged.
            return self.take_in(at, PathId(0), 0, header, payload);
        };
        // Less than half the range of the stamps behind the latest.
        let overtaken = path.latest_sent.is_some_and(|t| (1..1 << 23).contains(&t.since(header.sent)));
        if !overtaken {
            path.latest_sent = Some(header.sent);
        }
        path.stats.data_received += payload.len() as u64;
        // The least it can have been: the smoothed round trip of one who only answers may be that of an outage long ago.
        let (id, transit) = (path.id, path.rtt.min / 2);
        self.reporter.on_data(at, number, header.sent, payload.len(), overtaken);
        self.take_in(at, id, transit, header, payload)
    }

    fn take_in(
        &mut self,
        at: Micros,
        path: PathId,
        transit: Micros,
        header: &Data,
        payload: &[u8],
    ) -> Result<(), String> {
        let duplicates = self.inbox.duplicate_bytes();
        self.inbox.on_data(at, path, transit, header, payload).map_err(|e| e.to_string())?;
        let duplicates = self.inbox.duplicate_bytes() - duplicates;
        let new = (payload.len() as u64).saturating_sub(duplicates);
        self.note_arrival(at, BlockId(header.block), path, new as u32);
        if let Some(path) = self.paths.iter_mut().find(|p| p.id == path) {
            path.stats.duplicate_bytes += duplicates;
        }
        while let Some((block, reason)) = self.inbox.take_refusal() {
            self.control.push_back(Control::Refused(block, reason));
        }
        Ok(())
    }

    fn on_feedback(&mut self, at: Micros, feedback: &Feedback) {
        for sample in &feedback.samples {
            if let Some(path) = self.paths.iter_mut().find(|p| p.number == sample.path) {
                path.delay.sample(sample.delay);
                path.reported = Some(Reported { at, delay: sample.delay, departure: sample.departure });
            }
        }
        if feedback.sequence > self.heard_feedback {
            self.heard_feedback = feedback.sequence;
            self.outbox.set_credit(feedback.credit.saturating_mul(1024));
            self.stats.peer_duplicates = feedback.duplicates;
            self.duties.schedule();
            self.outlook.on_wanted(feedback.wanted);
        }
    }

    /// Tells the peer when the application has made room: a quarter more than it knows of.
    pub(super) fn offer_credit(&mut self) {
        let step = self.config.limits.reassembly / 4;
        if self.inbox.credit() >= self.told_credit.saturating_add(step) {
            self.queue_control(Control::Credit);
        }
    }

    /// Has an item sent, and sent again until it arrives. What is made up only when it leaves need not
    /// wait twice.
    pub(super) fn queue_control(&mut self, control: Control) {
        let made_up = matches!(control, Control::Credit | Control::PathInfo(_));
        if !made_up || !self.control.contains(&control) {
            self.control.push_back(control);
        }
    }

    /// An item is lost, and sent again if it is still news.
    pub(super) fn repeat_control(&mut self, at: Micros, control: Control) {
        match control {
            Control::Alert { path, sequence } => self.radios.on_lost(at, path, sequence),
            other => self.queue_control(other),
        }
    }

    /// Turns what the inbox tells into an event for the application.
    pub(super) fn poll_inbox(&mut self) -> Option<Event> {
        let (label, why) = match self.inbox.poll()? {
            InboxEvent::Arrived(arrived) => {
                self.offer_credit();
                self.stats.blocks_received += 1;
                self.stats.bytes_received += arrived.data.len() as u64;
                return Some(Event::Received(Received {
                    id: arrived.id,
                    channel: Channel::new(arrived.channel),
                    priority: Priority::new(arrived.priority),
                    reliable: arrived.reliable,
                    first_at: self.instant(arrived.first_at),
                    whole_at: self.instant(arrived.whole_at),
                    deadline: arrived.deadline.map(|at| self.instant(at)),
                    over: super::per_path(&arrived.over),
                    data: arrived.data,
                }));
            }
            InboxEvent::Part(part) => return Some(Event::Part(self.on_part(*part))),
            InboxEvent::Expired(label) => (label, Missed::Expired),
            InboxEvent::GivenUp(label, reason) => (label, Missed::GivenUp(reason)),
            InboxEvent::Refused(label, reason) => (label, Missed::Refused(reason)),
        };
        self.stats.blocks_missed += 1;
        let (channel, priority) = (Channel::new(label.channel), Priority::new(label.priority));
        Some(Event::Missed { id: label.id, channel, priority, why })
    }
}
