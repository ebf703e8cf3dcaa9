//! Which flows a session carries, and what comes of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use squall::sched::BlockId;
use squall_units::Micros;

use super::Channels;
use crate::{
    config::{MAX_FLOWS, MAX_LATENCY},
    control::{Message, Offer, Verdict},
    flow::{Flow, Line, Sender},
    journal::Kind,
    order::{Order, Part, Ready},
    parcel::{self, ParcelError, Record},
    tunnel::Core,
};

/// The flows of a session by channel.
pub(super) struct Lanes {
    /// Who the other end is, for words.
    peer: String,
    sender: Arc<Sender>,
    /// Channels of flows that come in here: even ones for the caller, odd ones for the other.
    offered: Channels,
    next_channel: u16,
    generation: u32,
    lanes: BTreeMap<u16, Lane>,
    /// What the quickest way takes.
    way: Micros,
    /// What the other end told last.
    theirs: Vec<Offer>,
}

/// A flow, and what came of it from the other end.
struct Lane {
    flow: Arc<Flow>,
    order: Order,
    /// The latency at the other end, which tells until when to wait.
    theirs: Duration,
    /// Whether it comes in at the other end.
    theirs_in: bool,
    /// Datagrams that are leaving.
    playing: Option<Playing>,
}

/// Datagrams that are leaving, all of one parcel.
struct Playing {
    ready: Ready,
    /// Where the next datagram is.
    at: usize,
    /// Since when the system has had no room for it, and when it is tried again.
    stuck: Option<(Micros, Micros)>,
}

/// How long the system may have no room for a datagram, which may be one of a large key frame; and how soon it is tried
/// again.
const NO_ROOM: Micros = 50_000;
const AGAIN: Micros = 1_000;

impl Playing {
    /// The next datagram, and when it leaves.
    fn next(&self) -> Option<(Micros, Record<'_>)> {
        let record = parcel::datagram(&self.ready.datagrams, self.at)?;
        let after = if self.ready.steady { record.offset } else { 0 };
        let due = self.ready.due.saturating_add(after);
        Some((self.stuck.map_or(due, |(_, again)| again.max(due)), record))
    }

    /// How long a datagram was under way that came in so long after the first of its parcel.
    fn latency(&self, now: Micros, offset: Micros) -> Micros {
        self.ready.came_in.map_or(0, |came_in| now.saturating_sub(came_in + offset))
    }

    /// The system had no room. Whether it is tried again.
    fn wait(&mut self, now: Micros) -> bool {
        let since = self.stuck.map_or(now, |(since, _)| since);
        self.stuck = Some((since, now + AGAIN));
        now < since + NO_ROOM
    }
}

impl Lane {
    fn new(flow: Arc<Flow>, theirs: Duration, theirs_in: bool) -> Self {
        let order = Order::new(flow.rule(theirs));
        Self { flow, order, theirs, theirs_in, playing: None }
    }

    fn let_out(&mut self, now: Micros) {
        loop {
            if let Some(playing) = &mut self.playing {
                match playing.next() {
                    Some((due, _)) if due > now => break,
                    Some((_, Record { offset, datagram, next })) => {
                        if self.flow.write(datagram) {
                            self.flow.tally.left(now, playing.latency(now, offset));
                        } else {
                            if playing.wait(now) {
                                break;
                            }
                            self.flow.tally.unwritten.fetch_add(1, Relaxed);
                        }
                        playing.stuck = None;
                        playing.at = next;
                    }
                    None => self.playing = None,
                }
                continue;
            }
            let Some(ready) = self.order.poll(now) else { break };
            self.flow.tally.leaves(&ready);
            self.playing = Some(Playing { ready, at: 0, stuck: None });
        }
        self.flow.tally.disordered(self.order.take_count());
    }

    fn poll_timeout(&self) -> Option<Micros> {
        let playing = self.playing.as_ref().and_then(Playing::next).map(|(due, _)| due);
        playing.or_else(|| self.order.poll_timeout())
    }
}

impl Lanes {
    pub(super) fn new(sender: Arc<Sender>, peer: String, caller: bool) -> Self {
        let next_channel = if caller { 2 } else { 1 };
        Self {
            peer,
            sender,
            offered: Channels::new(),
            next_channel,
            generation: 0,
            lanes: BTreeMap::new(),
            way: 0,
            theirs: Vec::new(),
        }
    }

    /// The flows that come in here, to be told; and what is to be said of flows that have no end here any more, or
    /// go out for another session.
    pub(super) fn offer(&mut self, core: &Core) -> (Message, Option<Message>) {
        let flows: Vec<_> = core.registry.all().into_iter().filter(|flow| flow.config().is_in()).collect();
        let names: Vec<String> = flows.iter().map(|flow| flow.config().name.clone()).collect();
        self.offered.retain(|name, _| names.contains(name));
        let mut offers = Vec::new();
        for flow in &flows {
            let config = flow.config();
            let channel = match self.offered.get(&config.name) {
                Some(channel) => *channel,
                None => self.new_channel(),
            };
            self.offered.insert(config.name.clone(), channel);
            // There from now on: replies may overtake the answer.
            if !self.lanes.contains_key(&channel) {
                self.open(channel, flow.clone(), config.latency_or_default(), false);
            }
            let latency = crate::gather::micros(config.latency_or_default());
            offers.push(Offer { channel, latency, name: config.name.clone() });
        }
        self.generation += 1;
        let mut verdicts = self.look_over(core);
        verdicts.extend(self.look_again(core));
        let answer = (!verdicts.is_empty()).then_some(Message::Answer { generation: 0, verdicts });
        (Message::Flows { generation: self.generation, flows: offers }, answer)
    }

    fn open(&mut self, channel: u16, flow: Arc<Flow>, theirs: Duration, theirs_in: bool) {
        let mut lane = Lane::new(flow, theirs, theirs_in);
        lane.order.set_way(self.way);
        self.lanes.insert(channel, lane);
        self.sender.take_in_parts(channel);
    }

    fn new_channel(&mut self) -> u16 {
        loop {
            let channel = self.next_channel;
            // Of each side's 511 at most 64 are taken.
            self.next_channel = if channel + 2 >= 1024 { 2 - channel % 2 } else { channel + 2 };
            if !self.offered.values().any(|taken| *taken == channel) {
                return channel;
            }
        }
    }

    /// Takes leave of flows that have changed here, and adapts the others.
    fn look_over(&mut self, core: &Core) -> Vec<(u16, Verdict)> {
        let mut verdicts = Vec::new();
        let own = self.sender.id();
        self.lanes.retain(|channel, lane| {
            let name = lane.flow.config().name.clone();
            let current = core.registry.get(&name).filter(|flow| flow.config().is_in() != lane.theirs_in);
            let Some(flow) = current else {
                lane.flow.detach(own);
                self.sender.forget(*channel);
                if lane.theirs_in {
                    verdicts.push((*channel, Verdict::Unknown));
                }
                return false;
            };
            if !Arc::ptr_eq(&flow, &lane.flow) {
                // It has another socket now; its place in the session is to be taken anew.
                let line = lane.flow.take_line(own);
                lane.flow = flow;
                if let Some(line) = line {
                    lane.flow.attach(line);
                }
            }
            if !lane.theirs_in {
                lane.theirs = lane.flow.config().latency_or_default();
            }
            lane.order.set_rule(lane.flow.rule(lane.theirs));
            let taken = lane.flow.carrier().is_some_and(|carrier| carrier > own);
            let lost = taken && lane.theirs_in;
            if lost {
                verdicts.push((*channel, Verdict::Taken));
                self.sender.forget(*channel);
            }
            !lost
        });
        verdicts
    }

    /// Takes flows of the other end that could not be taken before, and can now.
    fn look_again(&mut self, core: &Core) -> Vec<(u16, Verdict)> {
        let free = |offer: &Offer| {
            let flow = core.registry.get(&offer.name).filter(|flow| !flow.config().is_in());
            flow.is_some_and(|flow| flow.carrier().is_none())
        };
        let waiting: Vec<Offer> = self.theirs.iter().filter(|offer| free(offer)).cloned().collect();
        waiting.into_iter().map(|offer| (offer.channel, self.take_offer(core, &offer))).collect()
    }

    /// The other end tells which flows come in there.
    pub(super) fn take_offers(&mut self, core: &Core, offers: Vec<Offer>) -> Vec<(u16, Verdict)> {
        let own = self.sender.id();
        self.lanes.retain(|channel, lane| {
            let stays = !lane.theirs_in
                || offers.iter().any(|one| one.channel == *channel && one.name == lane.flow.config().name);
            if !stays {
                lane.flow.detach(own);
                self.sender.forget(*channel);
            }
            stays
        });
        debug_assert!(offers.len() <= MAX_FLOWS, "decoding sees to it");
        self.theirs.clone_from(&offers);
        offers.into_iter().map(|offer| (offer.channel, self.take_offer(core, &offer))).collect()
    }

    fn take_offer(&mut self, core: &Core, offer: &Offer) -> Verdict {
        let peer = &self.peer;
        let name = &offer.name;
        let Some(flow) = core.registry.get(name).filter(|flow| !flow.config().is_in()) else {
            core.journal.warn(
                Kind::Flow,
                format!("flow '{name}' of {peer} is refused: none of that name goes out here"),
            );
            return Verdict::Unknown;
        };
        let before = flow.carrier();
        if self.offered.values().any(|own| *own == offer.channel) {
            return Verdict::Unknown;
        }
        if !flow.attach(Line::new(self.sender.clone(), offer.channel)) {
            self.lanes.remove(&offer.channel);
            self.sender.forget(offer.channel);
            return Verdict::Taken;
        }
        if before.is_some_and(|before| before != self.sender.id()) {
            core.journal.warn(
                Kind::Flow,
                format!("flow '{name}' comes from {peer} now, no more from another tunnel"),
            );
            core.registry.announce();
        }
        let theirs = Duration::from_micros(offer.latency).min(MAX_LATENCY);
        match self.lanes.get_mut(&offer.channel) {
            Some(lane) => {
                lane.theirs = theirs;
                lane.order.set_rule(flow.rule(theirs));
            }
            None => {
                core.journal
                    .info(Kind::Flow, format!("flow '{name}' from {peer} goes {}", flow.config().end));
                self.open(offer.channel, flow, theirs, true);
            }
        }
        Verdict::Accepted
    }

    /// The other end tells what it makes of the flows that come in here.
    pub(super) fn take_verdicts(&mut self, core: &Core, verdicts: &[(u16, Verdict)]) {
        let peer = &self.peer;
        for (channel, verdict) in verdicts {
            let Some((name, _)) = self.offered.iter().find(|(_, one)| *one == channel) else { continue };
            let Some(flow) = core.registry.get(name).filter(|flow| flow.config().is_in()) else { continue };
            if *verdict != Verdict::Accepted {
                core.journal.warn(Kind::Flow, format!("flow '{name}': {peer} {}", verdict.words()));
                flow.detach(self.sender.id());
                // Should it be taken after all, both ends begin anew.
                self.sender.forget(*channel);
                if let Some(lane) = self.lanes.get_mut(channel) {
                    *lane = Lane::new(flow, lane.theirs, false);
                    lane.order.set_way(self.way);
                }
                continue;
            }
            let before = flow.carrier();
            // Unless a later session has it.
            if flow.attach(Line::new(self.sender.clone(), *channel)) && before != Some(self.sender.id()) {
                core.journal.info(Kind::Flow, format!("flow '{name}' goes to {peer}"));
            }
        }
    }

    /// More of a block of a flow arrived.
    pub(super) fn arrived(&mut self, now: Micros, channel: u16, part: Part) -> Result<(), ParcelError> {
        match self.lanes.get_mut(&channel) {
            Some(lane) => lane.order.arrived(now, part),
            // Of a flow that has ended here, on its way before the other end knew.
            None => Ok(()),
        }
    }

    /// A block of a flow will not arrive.
    pub(super) fn gone(&mut self, channel: u16, block: BlockId) {
        if let Some(lane) = self.lanes.get_mut(&channel) {
            lane.order.gone(block.0);
        }
    }

    /// What the quickest way takes.
    pub(super) fn set_way(&mut self, way: Micros) {
        self.way = way;
        for lane in self.lanes.values_mut() {
            lane.order.set_way(way);
        }
    }

    /// When [`Self::let_out`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Micros> {
        self.lanes.values().filter_map(Lane::poll_timeout).min()
    }

    /// Lets out whatever has its turn.
    pub(super) fn let_out(&mut self, now: Micros) {
        for lane in self.lanes.values_mut() {
            lane.let_out(now);
        }
    }

    /// No more will come.
    pub(super) fn close(&mut self) {
        for lane in self.lanes.values_mut() {
            lane.order.close();
        }
    }
}
