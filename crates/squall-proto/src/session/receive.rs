//! Processing of received packets, and of the fates of sent ones.

use std::time::Instant;

use squall_sched::{BlockId, ParityFate, PathId, SchedEvent, Span, Time};

use super::{PacketFate, Session, duties::Content};
use crate::{
    Channel, CloseReason, Event, Missed, NetPath, PathChange, Priority, Received,
    inbox::{InboxError, InboxEvent, Label},
    outbox::Ending,
    path::{Control, Delay, InFlight, Level, Payload, Reported, Sample},
    steering::{Ecn, Fate, PacketEvent, QuicEvent},
    wire::{Data, Feedback, Item, Items, Repair, RunParity, Stalled, Stamp, WRAP, WireError},
};

/// Close code for a violation of the protocol by the peer.
const PROTOCOL_ERROR: u32 = 1;

/// Largest delay of an acknowledgement after the report of an arrival that belongs to it: noq
/// acknowledges a packet on its own within less.
const MAX_REPORT_AGE: Span = Span::from_millis(50);

/// Number of waiting events for the scheduler above which reports of stalls are dropped: one of
/// them costs a peer few bytes.
const MAX_WAITING_EVENTS: usize = 4096;

/// Violation of the protocol by the peer.
#[derive(Debug, thiserror::Error)]
enum BadPeer {
    #[error(transparent)]
    Item(#[from] WireError),
    #[error(transparent)]
    Block(#[from] InboxError),
    #[error("{0}")]
    Hello(&'static str),
}

impl Session {
    /// Processes a packet that arrived over `net`.
    pub(crate) fn on_packet(&mut self, now: Instant, net: NetPath, ecn: Option<Ecn>, event: PacketEvent) {
        let at = self.time(now);
        if !self.receives_at(at, net.local) {
            return;
        }
        let _span = self.conn.span().clone().entered();
        self.conn.on_event(event);
        if ecn.is_none() {
            self.conn.on_unmarked(net);
        }
        let path = self.arrival_path(at, net);
        self.flush();
        // Before the fates: a refusal arrives with the acknowledgement, and must count first.
        let mut content = None;
        self.inbox.on_packet();
        while let Some(datagram) = self.conn.recv() {
            match self.on_datagram(at, path, &datagram) {
                Ok(its) => content = content.max(Some(its)),
                Err(error) => return self.break_off(at, &error),
            }
        }
        self.pump(at);
        if let Some(path) = path {
            self.leave_unvalidated(at, path);
        }
        self.grant_paths(at);
        let content = content.filter(|_| self.is_open()).unwrap_or(Content::Other);
        self.duties.on_packet(content, at);
        if content == Content::Data {
            self.announce();
        }
    }

    /// Closes the session, because the peer violated the protocol.
    fn break_off(&mut self, at: Time, error: &BadPeer) {
        if self.is_closed() {
            return;
        }
        let (now, error) = (self.instant(at), error.to_string());
        self.conn.close(now, PROTOCOL_ERROR, error.clone().into_bytes().into());
        self.end(now, CloseReason::Protocol(error));
    }

    /// Returns the path that carried a packet, if it is one of the session; handles moves of paths.
    fn arrival_path(&mut self, at: Time, net: NetPath) -> Option<PathId> {
        // Also if there is a path of these addresses: another one may have moved there.
        self.notice_moves(at);
        let number = self.conn.number_of(net);
        let id = self.conn.paths.find(number.unwrap_or(0))?;
        self.conn.paths[id].received_at = at;
        Some(id)
    }

    /// Processes all news from noq: dropped packets, fates, then events.
    pub(super) fn pump(&mut self, at: Time) {
        self.take_back_dropped(at);
        self.collect_fates(at);
        while let Some(event) = self.conn.poll() {
            match event {
                QuicEvent::Confirmed => self.on_confirmed(at),
                QuicEvent::PathUp { number } => self.on_path_up(at, number),
                QuicEvent::PathGone { number, net, used, by_peer } => {
                    if let Some(net) = net {
                        self.settle_budget(number, net, used, by_peer);
                        if let Some(wanted) = self.side.wanted(net) {
                            wanted.on_down(at);
                        }
                    }
                    self.on_path_gone(at, number);
                }
                QuicEvent::RemoteStatus { number, backup } => {
                    if let Some(id) = self.conn.paths.find(number) {
                        self.conn.paths[id].life.remote_suspects = backup;
                    }
                }
                QuicEvent::Hello(hello) => {
                    if let Err(error) = hello.and_then(|hello| self.on_hello(&hello)) {
                        self.break_off(at, &BadPeer::Hello(error));
                    }
                }
                QuicEvent::Closed(reason) => {
                    let now = self.instant(at);
                    self.end(now, reason);
                }
            }
        }
    }

    fn on_confirmed(&mut self, at: Time) {
        if !self.life.confirm() {
            return;
        }
        // The handshake's packet numbers collide with those of data: none of them is ours.
        self.conn.forget_packets();
        if self.side.is_client() {
            self.conn.change_keys();
        }
        self.send_hello();
        if self.side.is_client() {
            self.announce();
        }
        self.on_path_up(at, 0);
    }

    /// Reads the ledgers.
    pub(super) fn collect_fates(&mut self, at: Time) {
        self.conn.drop_pending_fates();
        if self.conn.paths.iter().all(|path| path.quic.ledger.lock().fates.is_empty()) {
            return;
        }
        for id in self.conn.paths.by_number() {
            let ledger = self.conn.paths[id].quic.ledger.clone();
            let mut fates = std::mem::take(&mut ledger.lock().fates);
            if fates.is_empty() {
                continue;
            }
            self.on_fates(at, id, &fates);
            self.refresh_path(at, id);
            self.report_ecn(id);
            fates.clear();
            // Return the allocation: this runs for every packet that arrives.
            let mut ledger = ledger.lock();
            if ledger.fates.is_empty() {
                ledger.fates = fates;
            }
        }
    }

    /// Reports the end of ECN on a path, once it is up.
    fn report_ecn(&mut self, id: PathId) {
        let path = &self.conn.paths[id];
        if !path.life.is_up() {
            return;
        }
        let news = path.quic.ledger.lock().marks.take_news();
        if let Some(why) = news {
            self.path_event(id, PathChange::EcnOff { why });
        }
    }

    fn on_fates(&mut self, at: Time, id: PathId, fates: &[Fate]) {
        self.schedule();
        let newest = fates.iter().filter(|f| f.acked).map(|f| f.packet).max();
        // Packets in flight when the path became silent, or deactivated, show nothing about the
        // path that is back.
        let forgiven = self.conn.paths[id].quic.ledger.lock().forgive_below;
        let clock = *self.conn.clock();
        let (mut newest_data, mut lost) = (None, Vec::new());
        for fate in fates {
            let Some(entry) = self.conn.paths[id].flight.take(fate.packet) else {
                self.on_late_fate(at, id, *fate);
                continue;
            };
            if !fate.acked {
                lost.push((fate.packet, entry));
                continue;
            }
            self.log_packet(at, id, fate.packet, PacketFate::Acked, &entry);
            let path = &mut self.conn.paths[id];
            if entry.counts() && fate.packet >= forgiven {
                path.losses.on_fate(true);
            }
            let is_measurable = !self.clock.was_suspended_after(entry.sent_at);
            if is_measurable {
                path.reordering.on_ack(at, fate.packet, entry.sent_at, Some(fate.packet) == newest);
            }
            let known = self.time(clock.of_session(fate.at));
            let path = &mut self.conn.paths[id];
            let counts = is_measurable && !path.life.is_stale(known, entry.sent_at);
            if Some(fate.packet) == newest && counts {
                let with = match entry.payload {
                    Some(Payload::Chunk(_)) => Sample::Data,
                    Some(Payload::Probe(_)) => Sample::Probe,
                    _ => Sample::Other,
                };
                let rtt = (known - entry.sent_at).max(Span::TICK);
                if path.received_at == at {
                    path.way_back.on_answer(at, rtt);
                }
                self.sample_rtt(at, id, rtt, with);
            }
            let path = &mut self.conn.paths[id];
            let change = path.life.on_proof(at, entry.packet(), path.rtt.steady);
            path.delivery.record(at, entry.bytes.into());
            for bottleneck in [&mut path.bottleneck, &mut path.bottleneck_of_flights] {
                bottleneck.on_ack(at, entry.mark, entry.sent_at, entry.bytes.into());
            }
            newest_data = newest_data.max(entry.written_at().map(|written| (fate.packet, written)));
            self.carry_out(at, id, change);
            self.on_packet_acked(at, id, entry);
        }
        if let Some((packet, (written, expected))) = newest_data {
            self.report_arrival(at, id, packet, written, expected);
        }
        self.lose(at, id, lost, true);
        if let Some(newest) = newest {
            self.detect_losses(at, id);
            self.forget_mtu_probes(at, id, newest);
        }
    }

    /// Uses a report of the delay of the newest data that arrived on the path, if that is also the
    /// newest acknowledged packet: reports and acknowledgements take different paths and overtake
    /// each other. A single packet is often reported first and acknowledged shortly after.
    fn report_arrival(&mut self, at: Time, id: PathId, packet: u64, written: Time, expected: Time) {
        let level = Level::of(self.conn.paths.iter());
        let path = &mut self.conn.paths[id];
        let reported = path.reported.filter(|reported| at - reported.at <= MAX_REPORT_AGE);
        let Some(reported) = reported.filter(|_| !self.clock.was_suspended_after(written)) else { return };
        let departed_after = reported.departed_after(written);
        if departed_after > 0 {
            return;
        }
        path.reported = None;
        if departed_after == 0 && at - written >= WRAP {
            // Its stamp has been reused since.
            path.delay = Delay::default();
        } else if departed_after == 0 {
            if let Some(took) = level.and_then(|level| level.of_ticks(reported.delay)) {
                path.predictions.observe(expected, written + took);
            }
            let is_step = path.delay.is_step(reported.delay, at - written);
            if is_step {
                // One of the two clocks was stopped. All paths have the same two.
                self.conn.paths.iter_mut().for_each(|path| path.delay.forget());
                self.conn.paths[id].delay.sample(reported.delay);
            }
            let (now, written) = (self.instant(at), self.instant(written));
            let clock = *self.conn.clock();
            let (now, written) = (clock.of_quic(now), clock.of_quic(written));
            let ledger = &self.conn.paths[id].quic.ledger;
            ledger.on_arrival(now, packet, written, reported.delay, is_step);
        }
    }

    /// Removes lost MTU probes, which noq does not report. An MTU probe holds nothing of ours, so
    /// it is removed once a later packet is acknowledged and two probe timeouts have passed.
    fn forget_mtu_probes(&mut self, at: Time, id: PathId, newest: u64) {
        let limit = self.conn.paths[id].rtt.probe_timeout() * 2;
        loop {
            let flight = &mut self.conn.paths[id].flight;
            let Some((packet, entry)) = flight.first() else { return };
            if entry.payload.is_some() || packet >= newest || at - entry.sent_at <= limit {
                return;
            }
            let Some(entry) = flight.take(packet) else { return };
            self.log_packet(at, id, packet, PacketFate::Lost, &entry);
        }
    }

    fn on_packet_acked(&mut self, at: Time, id: PathId, entry: InFlight) {
        if entry.counts() {
            let path = &mut self.conn.paths[id];
            path.loss.record(at, false);
            path.stats.acked_packets += 1;
        }
        for payload in entry.payload.into_iter().chain(entry.more) {
            self.on_payload_acked(at, id, payload);
        }
    }

    pub(super) fn on_payload_acked(&mut self, at: Time, id: PathId, payload: Payload) {
        match payload {
            Payload::Chunk(chunk) if chunk.is_parity() => {
                self.on_parity(at, chunk, id, ParityFate::Acked);
            }
            Payload::Chunk(chunk) => {
                self.outbox.queue.note(SchedEvent::Acked {
                    block: chunk.block,
                    range: chunk.range.clone(),
                    path: id,
                });
                let ended = self.outbox.on_acked(chunk.block, chunk.range, id, chunk.has_end);
                match ended {
                    Some(ended) => self.on_ended(at, &ended),
                    None => self.announce_end(chunk.block),
                }
            }
            Payload::Control(Control::End(block)) => {
                if let Some(ended) = self.outbox.on_end_known(block) {
                    self.on_ended(at, &ended);
                }
            }
            Payload::Control(Control::Alert { path, sequence }) => self.radios.on_acked(path, sequence),
            Payload::Control(_) | Payload::Probe(_) | Payload::Ephemeral | Payload::Losses => {}
        }
    }

    /// Processes a datagram.
    fn on_datagram(&mut self, at: Time, path: Option<PathId>, datagram: &[u8]) -> Result<Content, BadPeer> {
        let mut content = Content::Feedback;
        for item in Items::of(datagram) {
            let item = item?;
            content = content.max(match item {
                Item::Data(..) | Item::Repair(..) | Item::RunParity(..) => Content::Data,
                Item::Feedback(_) | Item::PathLoss(_) | Item::Stalled(_) => Content::Feedback,
                _ => Content::Other,
            });
            match item {
                Item::Data(header, payload) => {
                    self.on_data(at, path, &header, payload, None)?;
                }
                Item::Repair(repair, payload) => {
                    self.on_data(at, path, &repair.block, payload, Some(&repair))?;
                }
                Item::RunParity(run, payload) => {
                    self.on_run_parity(at, path, &run, payload)?;
                }
                Item::Rebuilt(block) => self.on_rebuilt(at, BlockId(block)),
                Item::Cancel(cancel) => self.inbox.on_cancel(at, &cancel)?,
                Item::Refused(block, reason) => {
                    self.end_block(at, BlockId(block), Ending::Refused(reason));
                }
                Item::Feedback(feedback) => self.on_feedback(at, &feedback),
                Item::PathInfo(info) => self.on_path_info(at, &info),
                Item::Stalled(stalled) => self.on_stalled(stalled),
                Item::PathAlert(alert) => self.on_path_alert(at, &alert),
                Item::PathLoss(loss) => self.on_path_loss(&loss),
                Item::Probe(id, stamp) => {
                    if let Some(path) = path {
                        self.probes.answer(path, id, stamp);
                    }
                }
                Item::ProbeReply(id, _) => self.on_probe_reply(at, path, id),
            }
        }
        self.inbox.watch(at);
        Ok(content)
    }

    /// Handles the peer's reports of stalls. A gap that this side made itself is none.
    fn on_stalled(&mut self, stalled: Stalled) {
        if !self.outbox.queue.profile().wants_stalls {
            return;
        }
        for block in stalled.blocks() {
            if self.outbox.queue.events() < MAX_WAITING_EVENTS && !self.outbox.was_pause(block) {
                self.outbox.queue.note(SchedEvent::Stalled(block));
            }
        }
        self.schedule();
    }

    /// Processes a chunk, or a symbol of parity with the fields of its block.
    fn on_data(
        &mut self,
        at: Time,
        id: Option<PathId>,
        header: &Data,
        payload: &[u8],
        repair: Option<&Repair>,
    ) -> Result<(), BadPeer> {
        let (path, transit) = self.note_arrival(at, id, header.sent, payload.len());
        let duplicates = self.inbox.duplicate_bytes();
        match repair {
            Some(repair) => self.inbox.on_repair(at, path, transit, repair, payload)?,
            None => self.inbox.on_data(at, path, transit, header, payload)?,
        }
        let duplicates = self.inbox.duplicate_bytes() - duplicates;
        #[cfg(feature = "trace")]
        self.log_arrival(super::ArrivalLog {
            at,
            block: BlockId(header.block),
            path,
            offset: repair.map_or(header.offset, |repair| repair.index),
            is_parity: repair.is_some(),
            bytes: (payload.len() as u64).saturating_sub(duplicates) as u32,
            transit: header.sent.age(at),
        });
        if let Some(path) = id.and_then(|id| self.conn.paths.get_mut(id)).filter(|_| repair.is_none()) {
            path.stats.data_received += payload.len() as u64;
            path.stats.duplicate_bytes += duplicates;
        }
        self.answer_blocks();
        Ok(())
    }

    /// Processes a symbol of parity over a run of small blocks.
    fn on_run_parity(
        &mut self,
        at: Time,
        id: Option<PathId>,
        run: &RunParity,
        payload: &[u8],
    ) -> Result<(), BadPeer> {
        let (path, transit) = self.note_arrival(at, id, run.sent, payload.len());
        #[cfg(feature = "trace")]
        self.log_arrival(super::ArrivalLog {
            at,
            block: BlockId(run.members.first().map_or(0, |member| member.block)),
            path,
            offset: run.index,
            is_parity: true,
            bytes: 0,
            transit: run.sent.age(at),
        });
        // The sender relies on it only once the rebuilt block is reported.
        if self.peer.is_trusted() {
            self.inbox.on_run_parity(at, path, transit, run, payload)?;
            self.answer_blocks();
        }
        Ok(())
    }

    /// Records an arrival of data for feedback. Returns the path that it counts for, and the least
    /// time that it can have taken.
    fn note_arrival(&mut self, at: Time, id: Option<PathId>, sent: Stamp, bytes: usize) -> (PathId, Span) {
        // A path that is just closing: its bytes still count, because they are acknowledged.
        let Some(id) = id else { return (PathId(0), Span::ZERO) };
        let round_trip = self.conn.paths.iter().map(|path| path.rtt.min).min().unwrap_or_default();
        let path = &mut self.conn.paths[id];
        path.way_back.on_arrival(at, sent);
        let overtaken_by = path.arrivals.on_data(at, sent);
        self.reporter.on_data(at, path.quic.number, sent, bytes, overtaken_by, round_trip);
        let took = Stamp::at(at).since(sent);
        path.quickest.on_arrival(took);
        // The round trips of a side that only answers may date from a past outage.
        let half = path.rtt.min / 2;
        let by_stamps = self.conn.paths.iter().filter_map(|path| path.quickest.transit(took, path.rtt.min));
        (id, by_stamps.fold(half, Span::min))
    }

    /// Handles the peer's report that it rebuilt a lost block.
    fn on_rebuilt(&mut self, at: Time, block: BlockId) {
        if let Some(ended) = self.outbox.on_rebuilt(block) {
            self.on_ended(at, &ended);
        }
        self.schedule();
    }

    /// Reports refused and rebuilt blocks to the sender.
    fn answer_blocks(&mut self) {
        while let Some(block) = self.inbox.take_rebuilt() {
            self.queues.push_rebuilt(block);
        }
        while let Some((block, reason)) = self.inbox.take_refusal() {
            self.queues.push(Control::Refused(block, reason));
        }
    }

    fn on_feedback(&mut self, at: Time, feedback: &Feedback) {
        for sample in &feedback.samples {
            if sample.departure.is_some_and(|departure| self.clock.is_from_before(at, departure)) {
                continue;
            }
            if let Some(id) = self.conn.paths.find(sample.path) {
                let path = &mut self.conn.paths[id];
                path.delay.sample(sample.delay);
                path.reported = Some(Reported { at, delay: sample.delay, departure: sample.departure });
            }
        }
        if self.peer.on_feedback(feedback.sequence) {
            self.outbox.set_credit(feedback.credit.saturating_mul(1024));
            self.stats.peer_duplicates = feedback.duplicates;
            self.schedule();
            self.outlook.on_wanted(feedback.wanted);
        }
    }

    /// Announces to the peer that the application has freed memory.
    pub(super) fn offer_credit(&mut self) {
        if self.inbox.has_more_credit() {
            self.queues.push(Control::Credit);
        }
    }

    /// Queues an item, which is repeated until it arrives.
    pub(super) fn send_item(&mut self, item: Control) {
        self.queues.push(item);
    }

    /// Repeats a lost item if it is still current.
    pub(super) fn repeat_control(&mut self, at: Time, control: Control) {
        match control {
            Control::Alert { path, sequence } => self.radios.on_lost(at, path, sequence),
            // Leaves with the next feedback.
            Control::Stalled(stalled) => self.inbox.repeat_stalled(stalled),
            other => self.send_item(other),
        }
    }

    /// Converts the next event of the inbox for the application.
    pub(super) fn poll_inbox(&mut self, wanted: impl Fn(u16) -> bool) -> Option<Event> {
        let (label, why) = match self.inbox.poll_on(wanted)? {
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
                    missing: arrived.missing,
                }));
            }
            InboxEvent::Part(part) => return Some(Event::Part(self.on_part(*part))),
            InboxEvent::Expired(label) => (label, Missed::Expired),
            InboxEvent::Cancelled(label, reason) => (label, Missed::Cancelled(reason)),
            InboxEvent::Refused(label, reason) => (label, Missed::Refused(reason)),
        };
        Some(self.missed(&label, why))
    }

    pub(super) fn missed(&mut self, label: &Label, why: Missed) -> Event {
        self.stats.blocks_missed += 1;
        let (channel, priority) = (Channel::new(label.channel), Priority::new(label.priority));
        Event::Missed { id: label.id, channel, priority, why }
    }
}
