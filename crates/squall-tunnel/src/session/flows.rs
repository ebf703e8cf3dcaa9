//! Flows of a session: selection of the flows that it carries, and output of their blocks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use squall::sched::BlockId;
use squall_observe::journal::{Kind, PeerJournal};
use squall_units::{Span, Time};

use crate::{
    config::{Config, FlowConfig, MAX_FLOWS, MAX_LATENCY},
    flow::{
        Flow, SessionSender, Uplink,
        reorder::{Part, Ready, ReorderBuffer},
    },
    shared::{Identity, Shared},
    wire::{
        control::{Message, Offer, Verdict},
        frame::{self, FrameError, Record},
    },
};

/// Time for which a datagram is retried if the system has no room for it. It may belong to a large
/// key frame.
const RETRY_FOR: Span = Span::from_millis(50);

/// Interval of the retries.
const RETRY_INTERVAL: Span = Span::from_millis(1);

/// Datagrams of all flows together that leave in one turn before other sessions get theirs.
const TURN: usize = 256;
/// Minimum number of datagrams of each flow in a turn.
const TURN_OF_FLOW: usize = 8;

/// Size in bytes up to which a datagram counts once in a turn; each further such size counts once
/// more. A peer can make this end restore large datagrams from few bytes.
const USUAL_DATAGRAM: usize = 1_500;

/// Flows of a session, by channel.
pub(super) struct SessionFlows {
    /// Address of the peer, for messages.
    peer: String,
    /// Name of the peer, if its token belongs to a single entry.
    entry: Option<String>,
    /// Tenant of the peer.
    tenant: Option<String>,
    sender: Arc<SessionSender>,
    /// Channels of the flows that enter here, by name: even ones for the entry, odd ones for the exit.
    offered: BTreeMap<String, u16>,
    /// Last offer that was sent.
    last_offer: Option<Vec<Offer>>,
    /// Channels of the last offer that the peer accepts.
    accepted: BTreeSet<u16>,
    next_channel: u16,
    generation: u32,
    receivers: BTreeMap<u16, FlowReceiver>,
    /// Smallest one-way delay.
    one_way: Span,
    /// Latest offers of the peer.
    their_offers: Vec<Offer>,
    /// Journal for events that the peer causes.
    journal: PeerJournal,
}

/// Outputs the blocks of a flow that arrive from the peer.
struct FlowReceiver {
    flow: Arc<Flow>,
    buffer: ReorderBuffer,
    /// Latency of the flow at the other end.
    their_latency: Duration,
    /// The flow enters at the other end.
    enters_there: bool,
    /// The peer was notified that another session delivers the flow.
    is_taken: bool,
    output: Option<Output>,
    /// Last datagram whose null packets were restored.
    restored: Vec<u8>,
}

/// Datagrams of a frame that is being output.
struct Output {
    ready: Ready,
    /// Position of the next datagram.
    position: usize,
    /// Time since which the system has had no room for the datagram, and time of the next try.
    retry: Option<(Time, Time)>,
}

impl Output {
    /// Returns the next datagram and its departure.
    fn next(&self) -> Option<(Time, Record<'_>)> {
        let record = frame::datagram(&self.ready.datagrams, self.position)?;
        let offset = if self.ready.steady { record.offset } else { Span::ZERO };
        let due = self.ready.due + offset;
        Some((self.retry.map_or(due, |(_, retry_at)| retry_at.max(due)), record))
    }
}

impl FlowReceiver {
    fn new(flow: Arc<Flow>, their_latency: Duration, enters_there: bool, one_way: Span) -> Self {
        let mut buffer = ReorderBuffer::new(flow.rule(their_latency));
        buffer.set_one_way(one_way);
        let (is_taken, output, restored) = (false, None, Vec::new());
        Self { flow, buffer, their_latency, enters_there, is_taken, output, restored }
    }

    /// Outputs datagrams that are due, at most `most`. Returns `true` if none are left.
    fn output(&mut self, now: Time, session: u64, most: usize) -> bool {
        let counters = &self.flow.counters;
        let mut left = most;
        while left > 0 {
            let Some(output) = &mut self.output else {
                let Some(ready) = self.buffer.poll(now) else { break };
                counters.leaves(&ready);
                self.output = Some(Output { ready, position: 0, retry: None });
                continue;
            };
            let Some((due, Record { offset, datagram, next })) = output.next() else {
                self.output = None;
                continue;
            };
            if due > now {
                break;
            }
            let datagram = output.ready.header.whole(datagram, &mut self.restored);
            let weight = 1 + datagram.len() / USUAL_DATAGRAM;
            if self.flow.write(datagram) {
                let came_in = output.ready.came_in;
                counters.left(now, came_in.map_or(Span::ZERO, |came_in| now - (came_in + offset)));
            } else {
                let since = output.retry.map_or(now, |(since, _)| since);
                output.retry = Some((since, now + RETRY_INTERVAL));
                if now < since + RETRY_FOR {
                    break;
                }
                counters.unwritten.fetch_add(1, Relaxed);
            }
            (output.retry, output.position) = (None, next);
            left = left.saturating_sub(weight);
        }
        counters.not_left(self.buffer.take_count());
        for absence in self.buffer.take_absences() {
            self.flow.absent(now, session, self.their_latency, absence);
        }
        left > 0
    }

    fn poll_timeout(&self) -> Option<Time> {
        let output = self.output.as_ref().and_then(Output::next).map(|(due, _)| due);
        output.or_else(|| self.buffer.poll_timeout())
    }
}

impl SessionFlows {
    pub(super) fn new(
        sender: Arc<SessionSender>,
        peer: String,
        journal: PeerJournal,
        is_entry: bool,
    ) -> Self {
        Self {
            peer,
            entry: None,
            tenant: None,
            sender,
            offered: BTreeMap::new(),
            last_offer: None,
            accepted: BTreeSet::new(),
            next_channel: if is_entry { 2 } else { 1 },
            generation: 0,
            receivers: BTreeMap::new(),
            one_way: Span::ZERO,
            their_offers: Vec::new(),
            journal,
        }
    }

    /// Restricts the session to the flows that belong to the peer's token.
    pub(super) fn restrict(&mut self, identity: &Identity) {
        match identity {
            Identity::Exit => {}
            Identity::Peer(name) => self.entry = Some(name.clone()),
            Identity::Tenant(tenant) => self.tenant = Some(tenant.name.clone()),
        }
    }

    /// Sets the journal for events that the peer causes from now on.
    pub(super) fn set_journal(&mut self, journal: PeerJournal) {
        self.journal = journal;
    }

    /// Sets whether the peer restores null packets.
    pub(super) fn set_restores_nulls(&self, restores: bool) {
        self.sender.set_restores_nulls(restores);
    }

    /// `true` if the session may carry a flow.
    fn may_carry(&self, config: &Config, flow: &FlowConfig) -> bool {
        let is_of_tenant = flow.tenant() == self.tenant.as_deref();
        is_of_tenant && (self.tenant.is_some() || config.may_carry(self.entry.as_deref(), flow))
    }

    /// Returns the local name of a flow of the peer.
    fn name_here(&self, name: &str) -> String {
        self.tenant.as_ref().map_or_else(|| name.to_owned(), |tenant| format!("{tenant}/{name}"))
    }

    /// Waits until another session has taken a flow from this one. Cancel safe.
    pub(super) async fn displaced(&self) {
        self.sender.displaced().await;
    }

    /// Returns the offer of all flows that enter here, if it has changed for the peer, and verdicts
    /// on flows of the peer that this session lost or can now carry.
    pub(super) fn offer(&mut self, shared: &Shared) -> (Option<Message>, Option<Message>) {
        let config = shared.config();
        let is_offered = |flow: &FlowConfig| flow.is_in() && self.may_carry(&config, flow);
        let own = shared.registry.of(self.tenant.as_deref());
        let flows: Vec<_> = own.into_iter().filter(|flow| is_offered(&flow.config())).collect();
        self.offered.retain(|name, _| flows.iter().any(|flow| flow.config().name == *name));
        let (mut offers, mut is_free) = (Vec::new(), false);
        for flow in flows {
            let config = flow.config();
            let channel = self.offered.get(&config.name).copied().unwrap_or_else(|| self.new_channel());
            self.offered.insert(config.name.clone(), channel);
            let latency = config.latency_or_default();
            // The session that carried it has ended: this one may.
            is_free |= flow.carrier().is_none() && self.accepted.contains(&channel);
            // Opened before the answer, as replies may overtake it.
            if !self.receivers.contains_key(&channel) {
                self.open(channel, flow, latency, false);
            }
            offers.push(Offer { channel, latency: latency.into(), name: config.name_of_peer().to_owned() });
        }
        let mut verdicts = self.update_receivers(shared);
        verdicts.extend(self.retry_offers(shared));
        let answer = (!verdicts.is_empty()).then_some(Message::Answer { generation: 0, verdicts });
        (self.changed_offer(offers, is_free), answer)
    }

    /// Returns the message of an offer, unless the peer already has the offer.
    fn changed_offer(&mut self, flows: Vec<Offer>, is_free: bool) -> Option<Message> {
        if !is_free && self.last_offer.as_ref() == Some(&flows) {
            return None;
        }
        self.accepted.clear();
        self.last_offer = Some(flows.clone());
        self.generation += 1;
        Some(Message::Flows { generation: self.generation, flows })
    }

    fn open(&mut self, channel: u16, flow: Arc<Flow>, their_latency: Duration, enters_there: bool) {
        self.receivers.insert(channel, FlowReceiver::new(flow, their_latency, enters_there, self.one_way));
        self.sender.deliver_in_parts(channel);
    }

    fn new_channel(&mut self) -> u16 {
        loop {
            let channel = self.next_channel;
            // At most 64 of the 511 channels of each side are in use.
            self.next_channel = if channel + 2 >= 1024 { 2 - channel % 2 } else { channel + 2 };
            if !self.offered.values().any(|used| *used == channel) {
                return channel;
            }
        }
    }

    /// Applies changes of the configuration: closes receivers whose flow has ended here, and
    /// updates the others.
    fn update_receivers(&mut self, shared: &Shared) -> Vec<(u16, Verdict)> {
        let mut verdicts = Vec::new();
        let own = self.sender.id;
        self.receivers.retain(|channel, receiver| {
            let name = receiver.flow.config().name.clone();
            let current =
                shared.registry.get(&name).filter(|flow| flow.config().is_in() != receiver.enters_there);
            let Some(flow) = current else {
                receiver.flow.detach(own);
                self.sender.forget(*channel);
                if receiver.enters_there {
                    verdicts.push((*channel, Verdict::Unknown));
                }
                return false;
            };
            if !Arc::ptr_eq(&flow, &receiver.flow) {
                // The flow has a new socket, and keeps its channel.
                let uplink = receiver.flow.take_uplink(own);
                receiver.flow = flow;
                if let Some(uplink) = uplink {
                    receiver.flow.attach(uplink);
                }
            }
            if !receiver.enters_there {
                receiver.their_latency = receiver.flow.config().latency_or_default();
            }
            receiver.buffer.set_rule(receiver.flow.rule(receiver.their_latency));
            let lost = receiver.enters_there
                && receiver.flow.carrier().is_some_and(|carrier| carrier > own)
                && !self.sender.is_leaving();
            if lost {
                verdicts.push((*channel, Verdict::Taken));
                self.sender.forget(*channel);
            }
            !lost
        });
        verdicts
    }

    /// Accepts offers of the peer for flows that no session carries any more.
    fn retry_offers(&mut self, shared: &Shared) -> Vec<(u16, Verdict)> {
        let free: Vec<Offer> =
            self.their_offers.iter().filter(|offer| self.is_free(shared, offer)).cloned().collect();
        free.into_iter().map(|offer| (offer.channel, self.accept_offer(shared, &offer))).collect()
    }

    /// `true` if the peer offers a flow that no session carries and this one may carry.
    fn is_free(&self, shared: &Shared, offer: &Offer) -> bool {
        let is_unused = self.offered.values().all(|own| *own != offer.channel);
        is_unused && self.out_end(shared, offer).is_some_and(|flow| flow.carrier().is_none())
    }

    /// Returns the local end of a flow that the peer offers, if this session may carry it.
    fn out_end(&self, shared: &Shared, offer: &Offer) -> Option<Arc<Flow>> {
        let config = shared.config();
        let is_here = |flow: &FlowConfig| !flow.is_in() && self.may_carry(&config, flow);
        shared.registry.get(&self.name_here(&offer.name)).filter(|flow| is_here(&flow.config()))
    }

    /// `true` if another session withdrew from a flow that both ends of this session want it to
    /// carry.
    pub(super) fn may_have_more(&self, shared: &Shared) -> bool {
        let lost = |(name, channel): (&String, &u16)| {
            let flow = self.accepted.contains(channel).then(|| shared.registry.get(name)).flatten();
            flow.is_some_and(|flow| flow.config().is_in() && flow.carrier().is_none())
        };
        self.offered.iter().any(lost) || self.their_offers.iter().any(|offer| self.is_free(shared, offer))
    }

    /// Processes an offer of the flows that enter at the peer. Returns the verdicts.
    pub(super) fn accept_offers(&mut self, shared: &Shared, offers: Vec<Offer>) -> Vec<(u16, Verdict)> {
        let own = self.sender.id;
        self.receivers.retain(|channel, receiver| {
            let config = receiver.flow.config();
            let name = config.name_of_peer();
            let stays = !receiver.enters_there
                || offers.iter().any(|one| one.channel == *channel && one.name == name);
            if !stays {
                receiver.flow.detach(own);
                self.sender.forget(*channel);
            }
            stays
        });
        debug_assert!(offers.len() <= MAX_FLOWS, "decoding checks it");
        self.their_offers.clone_from(&offers);
        offers.into_iter().map(|offer| (offer.channel, self.accept_offer(shared, &offer))).collect()
    }

    fn accept_offer(&mut self, shared: &Shared, offer: &Offer) -> Verdict {
        let name = self.name_here(&offer.name);
        let Some(flow) = self.out_end(shared, offer) else {
            let words = format!("flow '{name}' of {} is refused: it has no out end here", self.peer);
            self.journal.warn(Kind::Flow, words);
            return Verdict::Unknown;
        };
        let (before, leaves) = (flow.carrier(), flow.carrier_leaves());
        if self.offered.values().any(|own| *own == offer.channel) {
            return Verdict::Unknown;
        }
        if !flow.attach(Uplink { sender: self.sender.clone(), channel: offer.channel }) {
            self.receivers.remove(&offer.channel);
            self.sender.forget(offer.channel);
            return Verdict::Taken;
        }
        if before.is_some_and(|before| before != self.sender.id) {
            let words = format!("flow '{name}' moves to {} from another tunnel", self.peer);
            match leaves {
                true => self.journal.info(Kind::Flow, words),
                false => self.journal.warn(Kind::Flow, words),
            }
        }
        let their_latency = offer.latency.duration().min(MAX_LATENCY);
        match self.receivers.get_mut(&offer.channel) {
            Some(receiver) => {
                receiver.their_latency = their_latency;
                receiver.buffer.set_rule(flow.rule(their_latency));
            }
            None => {
                let words = format!("flow '{name}' from {} goes {}", self.peer, flow.config().end);
                self.journal.info(Kind::Flow, words);
                self.open(offer.channel, flow, their_latency, true);
            }
        }
        Verdict::Accepted
    }

    /// Processes the verdicts of the peer on flows that enter here.
    pub(super) fn on_verdicts(&mut self, shared: &Shared, verdicts: &[(u16, Verdict)]) {
        for (channel, verdict) in verdicts {
            let offered = self.offered.iter().find(|(_, one)| *one == channel);
            let Some(name) = offered.map(|(name, _)| name.clone()) else { continue };
            let Some(flow) = shared.registry.get(&name).filter(|flow| flow.config().is_in()) else {
                continue;
            };
            if *verdict != Verdict::Accepted {
                self.accepted.remove(channel);
                let words = format!("flow '{name}': {} {}", self.peer, verdict.words());
                self.journal.warn(Kind::Flow, words);
                flow.detach(self.sender.id);
                // If the peer accepts it later, both ends start from the beginning.
                self.sender.forget(*channel);
                if let Some(receiver) = self.receivers.get_mut(channel) {
                    *receiver = FlowReceiver::new(flow, receiver.their_latency, false, self.one_way);
                }
                continue;
            }
            self.accepted.insert(*channel);
            let before = flow.carrier();
            // Fails if a later session carries the flow.
            let attached = flow.attach(Uplink { sender: self.sender.clone(), channel: *channel });
            if attached && before != Some(self.sender.id) {
                self.journal.info(Kind::Flow, format!("flow '{name}' goes to {}", self.peer));
            }
        }
    }

    /// Processes the next part of a block.
    pub(super) fn receive(&mut self, now: Time, channel: u16, part: Part) -> Result<(), FrameError> {
        // The flow may have ended here while its blocks were in transit.
        let Some(receiver) = self.receivers.get_mut(&channel) else { return Ok(()) };
        if receiver.enters_there {
            receiver.flow.delivered_by(self.sender.id);
        }
        receiver.buffer.receive(now, part)
    }

    /// Marks the session as being replaced. Data in flight is still delivered.
    pub(super) fn will_leave(&self) {
        self.sender.leave();
    }

    /// Drops waiting blocks whose deadline has passed.
    pub(super) fn sweep(&self, shared: &Shared) {
        shared.registry.of(self.tenant.as_deref()).iter().for_each(|flow| flow.sweep());
    }

    /// `true` if a flow that enters here still uses this session.
    pub(super) fn is_sending(&self, shared: &Shared) -> bool {
        let own = self.sender.id;
        let all = shared.registry.all();
        all.iter().any(|flow| flow.config().is_in() && flow.is_carried_by(own))
    }

    /// Returns verdicts on flows of the peer that another session now delivers. Until the other
    /// session delivers, the peer continues on this one, as its source may be the only one.
    pub(super) fn taken_over(&mut self) -> Option<Message> {
        let own = self.sender.id;
        let taken = self.receivers.iter_mut().filter(|(_, receiver)| {
            receiver.enters_there && !receiver.is_taken && receiver.flow.latest_delivery() > own
        });
        let mut verdicts = Vec::new();
        for (channel, receiver) in taken {
            receiver.is_taken = true;
            verdicts.push((*channel, Verdict::Taken));
        }
        (!verdicts.is_empty()).then_some(Message::Answer { generation: 0, verdicts })
    }

    /// Notes that a block will not arrive.
    pub(super) fn missed(&mut self, channel: u16, block: BlockId) {
        if let Some(receiver) = self.receivers.get_mut(&channel) {
            receiver.buffer.missed(block.0);
        }
    }

    /// Sets the smallest one-way delay.
    pub(super) fn set_one_way(&mut self, one_way: Span) {
        self.one_way = one_way;
        self.receivers.values_mut().for_each(|receiver| receiver.buffer.set_one_way(one_way));
    }

    /// Returns the time at which [`Self::output`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.receivers.values().filter_map(FlowReceiver::poll_timeout).min()
    }

    /// Outputs datagrams that are due, up to a turn of them. Returns `true` if none are left.
    pub(super) fn output(&mut self, now: Time) -> bool {
        let session = self.sender.id;
        let most = TURN_OF_FLOW.max(TURN / self.receivers.len().max(1));
        let left = self.receivers.values_mut().filter_map(|receiver| {
            let is_all = receiver.output(now, session, most);
            (!is_all).then_some(())
        });
        left.count() == 0
    }

    /// Ends the session in all receivers.
    pub(super) fn close(&mut self) {
        self.receivers.values_mut().for_each(|receiver| receiver.buffer.close());
    }
}
