//! The application at both ends: submits the blocks of the flows and reports their outcomes to the
//! recorder.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use squall_proto::{
    Block, BlockOptions, Channel, Event, OpenError, Outcome, PathChange, Priority, Received, SendError,
    sched::{BlockId, BuildError, Registry},
};
use squall_trace::Micros;

use super::clairvoyant::Offered;
use super::ends::Ends;
use super::growth::{Growth, Step};
use super::sampler::Sampler;
use super::source::{Source, other};
use crate::flow::Flow;
use crate::message_log::{self, MessageLog};
use crate::offer::Offer;
use crate::result::{LostReason, PathAlert, Recorder, RunResult};
use crate::scenario::Scenario;
use crate::traffic::{self, Pace};
use crate::variant::Variant;
use crate::world::Side;

pub(super) struct Application {
    /// Side, channel and weight of each channel whose weight is not 1.
    weights: Vec<(Side, u16, u16)>,
    /// Time at which the flows began.
    start: Micros,
    begun: bool,
    recorder: Recorder,
    offered: Offered,
    sources: Vec<Source>,
    growth: Growth,
    /// A flow that waited for an event has a new block.
    news: bool,
    /// Blocks in flight from the client and from the server.
    blocks: [HashMap<BlockId, Sent>; 2],
    sampler: Sampler,
    /// Contents of the blocks.
    filler: Bytes,
    /// Blocks that were refused; gives them their ids.
    refused: u64,
    ended: Option<String>,
    /// The transport receives deadlines.
    has_deadlines: bool,
    /// Blocks that are delivered in order on one channel.
    stream: Stream,
    /// Time stamps of messages, chunks and packets, if requested.
    log: Option<MessageLog>,
}

/// A block in flight.
struct Sent {
    flow: usize,
    /// Index within the flow.
    index: u64,
    /// A request, which is not traffic of the flow and is not recorded.
    request: bool,
    channel: u16,
    size: u64,
    received: bool,
    finished: bool,
}

/// Kinds of blocks that form one ordered stream, in addition to those that the flows order
/// themselves.
#[derive(Clone, Copy)]
struct Stream {
    reliable: bool,
    unreliable: bool,
}

impl Stream {
    fn of(variant: &Variant<'_>) -> Self {
        Self { reliable: variant.one_stream, unreliable: variant.one_stream && variant.all_reliable }
    }

    fn has(self, offer: &Offer) -> bool {
        if offer.reliable { self.reliable } else { self.unreliable }
    }

    fn channel(self, offer: &Offer) -> Channel {
        Channel::new(if self.has(offer) { 0 } else { offer.channel as u16 })
    }

    fn is_ordered(self, offer: &Offer) -> bool {
        offer.ordered || self.has(offer)
    }
}

impl Application {
    pub(super) fn new(
        scenario: &Scenario,
        scheduler: &str,
        seed: u64,
        recorder: Recorder,
        registry: &Registry,
    ) -> Result<Self, BuildError> {
        let variant = Variant::of(scheduler);
        let source = |(index, flow): (usize, &Flow)| {
            let multiplexer = registry.build_multiplexer(&flow.multiplexer)?;
            Ok(Source::new(&variant.flow(flow), index, seed, multiplexer))
        };
        let sources =
            scenario.flows.iter().enumerate().map(source).collect::<Result<Vec<_>, BuildError>>()?;
        let weights = scenario.flows.iter().zip(&sources).filter(|(flow, _)| flow.weight != 1);
        let weights = weights
            .flat_map(|(flow, source)| source.channels().map(|channel| (source.side, channel, flow.weight)));
        Ok(Self {
            weights: weights.collect(),
            start: 0,
            begun: false,
            recorder,
            offered: Offered::default(),
            sources,
            growth: Growth::default(),
            news: false,
            blocks: [HashMap::new(), HashMap::new()],
            sampler: Sampler::new(scenario.paths.len(), scenario.direction()),
            filler: Bytes::new(),
            refused: 0,
            ended: None,
            has_deadlines: !variant.late,
            stream: Stream::of(&variant),
            log: None,
        })
    }

    /// Starts to log time stamps of messages, chunks and packets.
    pub(super) fn keep_log(&mut self, log: MessageLog) {
        self.log = Some(log);
    }

    /// Takes the log.
    pub(super) fn take_log(&mut self) -> Option<MessageLog> {
        self.log.take()
    }

    /// Returns the first path that is not up at both ends.
    pub(super) fn missing_path(&self) -> Option<usize> {
        self.sampler.missing_path()
    }

    /// Starts the flows.
    pub(super) fn begin(&mut self, world: &mut impl Ends) {
        self.start = world.now();
        self.begun = true;
        for (side, channel, weight) in &self.weights {
            world.set_channel_weight(*side, Channel::new(*channel), *weight);
        }
        self.sampler.begin(world, &mut self.recorder);
        for flow in 0..self.sources.len() {
            self.advance(world, flow);
        }
    }

    /// `true` if a flow that waited for an event has got a block since the last call of
    /// [`Self::offer`].
    pub(super) fn has_news(&self) -> bool {
        self.news
    }

    /// Returns the time of the next block after `now`, from the start of the flows. Earlier blocks
    /// that a full session has delayed do not count.
    pub(super) fn next_offer(&self, now: u64) -> Option<u64> {
        let offers = self.sources.iter().filter_map(|source| Some(source.next?.at_us));
        offers.chain(self.growth.next()).filter(|at| *at > now).min()
    }

    /// Submits all blocks that are due.
    pub(super) fn offer(&mut self, world: &mut impl Ends) {
        let now = world.now() - self.start;
        self.news = false;
        for flow in 0..self.sources.len() {
            match self.sources[flow].pace {
                Pace::Clock => {
                    while let Some(offer) = self.sources[flow].next.filter(|offer| offer.at_us <= now) {
                        let offer = self.sources[flow].placed(offer);
                        self.produce(world, flow, &offer);
                        self.advance(world, flow);
                    }
                }
                Pace::Saturate { .. } => self.fill(world, flow),
            }
        }
        while let Some(step) = self.growth.due(now) {
            self.grow(world, step);
        }
    }

    /// Starts the production of a block.
    fn produce(&mut self, world: &mut impl Ends, flow: usize, offer: &Offer) {
        let Source { production, index, .. } = self.sources[flow];
        if production.time_us == 0 || offer.is_request() {
            self.send(world, flow, index, offer);
        } else if production.growing {
            self.open(world, flow, index, offer);
        } else {
            let whole = Step::Whole { flow, index, offer: *offer };
            self.growth.add(offer.at_us + production.time_us, whole);
        }
    }

    fn grow(&mut self, world: &mut impl Ends, step: Step) {
        match step {
            Step::Whole { flow, index, offer } => _ = self.send(world, flow, index, &offer),
            Step::Piece { side, block, bytes, is_last } => {
                let data = self.payload(bytes as usize);
                world.append(side, block, data, is_last);
            }
        }
    }

    /// Opens a growing block.
    fn open(&mut self, world: &mut impl Ends, flow: usize, index: u64, offer: &Offer) {
        let options = self.options(flow, offer, 0);
        let side = self.sources[flow].side;
        let opened = world.open(side, &options);
        let Ok(block) = opened else {
            self.on_refused(flow, index, offer, matches!(opened, Err(OpenError::Closed(_))));
            return;
        };
        self.on_taken(side, block, flow, index, offer);
        let mut left = offer.size;
        for (at_us, bytes) in self.sources[flow].production.pieces(offer.at_us, offer.size) {
            left -= bytes;
            self.growth.add(at_us, Step::Piece { side, block, bytes, is_last: left == 0 });
        }
    }

    /// Returns the deadline for the session after `passed_us` of it have passed.
    fn deadline(&self, offer: &Offer, passed_us: u64) -> Option<Duration> {
        let left = |deadline: u64| Duration::from_micros(deadline.saturating_sub(passed_us));
        offer.deadline_us.filter(|_| self.has_deadlines).map(left)
    }

    /// Keeps the queue of a bulk flow full.
    fn fill(&mut self, world: &mut impl Ends, flow: usize) {
        let Pace::Saturate { start_us, end_us, backlog } = self.sources[flow].pace else { return };
        let now = world.now() - self.start;
        if now < start_us {
            return;
        }
        if now >= end_us || self.ended.is_some() {
            self.sources[flow].next = None;
            return;
        }
        while self.sources[flow].queued < backlog {
            let Some(offer) = self.sources[flow].next else { break };
            let index = self.sources[flow].index;
            let offer = self.sources[flow].placed(Offer { at_us: now, ..offer });
            if !self.send(world, flow, index, &offer) {
                break;
            }
            self.sources[flow].advance();
        }
    }

    /// Moves on to the next block of a flow. An encoder first receives the limits of its session.
    fn advance(&mut self, world: &mut impl Ends, flow: usize) {
        let source = &mut self.sources[flow];
        if let Some(follow) = source.generator.follows() {
            let at_us = world.now() - self.start;
            source.generator.on_allowed(at_us, world.allowed(source.side, follow));
        }
        source.advance();
    }

    fn options(&self, flow: usize, offer: &Offer, passed_us: Micros) -> BlockOptions {
        BlockOptions::new()
            .deadline(self.deadline(offer, passed_us))
            .priority(Priority::new(offer.priority))
            .reliable(offer.reliable)
            .partial(self.sources[flow].is_partial(offer))
            .channel(self.stream.channel(offer))
            .ordered(self.stream.is_ordered(offer))
            .depends(self.sources[flow].depends(offer))
    }

    /// Submits a block and returns `true` if the session accepts it. A block that finds no room is
    /// lost, unless the flow retries.
    fn send(&mut self, world: &mut impl Ends, flow: usize, index: u64, offer: &Offer) -> bool {
        let source = &self.sources[flow];
        let (side, retries) = (source.sender(offer), source.pace != Pace::Clock);
        let data = source.generator.data(index).filter(|_| !offer.is_request());
        let passed_us = if offer.is_request() { 0 } else { source.production.time_us };
        let data = data.unwrap_or_else(|| self.payload(offer.size as usize));
        match world.send(side, Block::with(data, self.options(flow, offer, passed_us))) {
            Ok(id) => {
                self.on_taken(side, id, flow, index, offer);
                true
            }
            Err(SendError::Full(_)) if retries => false,
            Err(error) => {
                self.on_refused(flow, index, offer, matches!(error, SendError::Closed(_)));
                false
            }
        }
    }

    /// Called when the session accepts a block.
    fn on_taken(&mut self, side: Side, id: BlockId, flow: usize, index: u64, offer: &Offer) {
        let request = offer.is_request();
        self.sources[flow].queued += offer.size;
        let (size, channel) = (offer.size, offer.channel as u16);
        let sent = Sent { flow, index, request, channel, size, received: false, finished: false };
        self.blocks[side as usize].insert(id, sent);
        if !request {
            self.sources[flow].on_taken(index, id);
            self.recorder.flows[flow].on_offer(id.0, offer);
            self.offered.add(flow, offer);
            self.log_offer(side, Some(id), flow, index, offer);
        }
    }

    fn log_offer(&mut self, side: Side, id: Option<BlockId>, flow: usize, index: u64, offer: &Offer) {
        if let Some(log) = &mut self.log {
            let channel = self.stream.channel(offer).get();
            log.on_offered(side, id, &message_log::Offered { flow, index, channel, offer });
        }
    }

    /// Called when the session refuses a block.
    fn on_refused(&mut self, flow: usize, index: u64, offer: &Offer, is_closed: bool) {
        // Ids of sessions count up from 0 and never reach these.
        self.refused += 1;
        let number = u64::MAX - self.refused;
        let why = if is_closed { LostReason::Closed } else { LostReason::Refused };
        if !offer.is_request() {
            self.recorder.flows[flow].on_offer(number, offer);
            self.offered.add(flow, offer);
            self.recorder.flows[flow].on_lost(number, why);
            self.log_offer(self.sources[flow].side, None, flow, index, offer);
            if let Some(log) = &mut self.log {
                log.on_refused(why);
            }
        }
        let source = &mut self.sources[flow];
        source.on_message_ended(offer.channel as u16, offer.size);
        source.generator.on_ended(index, offer.at_us, false);
    }

    fn payload(&mut self, size: usize) -> Bytes {
        if self.filler.len() < size {
            self.filler = vec![0; size.next_power_of_two()].into();
        }
        self.filler.slice(..size)
    }

    pub(super) fn on_event(&mut self, world: &mut impl Ends, side: Side, event: Event) {
        // The packets that complete a block are reported before the block.
        self.take_arrivals(world, side);
        match event {
            Event::Received(block) if !block.missing.is_empty() => {
                self.on_incomplete(world.now() - self.start, other(side), block.id);
            }
            Event::Received(block) => {
                let at_us = world.now() - self.start;
                if self.on_received(at_us, other(side), &block)
                    && let Some(log) = &mut self.log
                {
                    let [first_us, complete_us] = [block.first_at, block.whole_at]
                        .map(|at| world.micros(at).saturating_sub(self.start));
                    log.on_delivered(other(side), block.id, [first_us, complete_us, at_us]);
                }
            }
            Event::Ended { id, outcome } => {
                self.on_finished(world.now() - self.start, side, id, &outcome);
                self.refill(world, side);
            }
            Event::Writable => self.refill(world, side),
            Event::Path(id, change) => {
                let state = self.sampler.on_change(world, side, id, &change);
                if let Some((path, state)) = state.filter(|_| self.begun) {
                    self.recorder.paths[path].on_state(world.now() - self.start, state);
                }
                if let (true, PathChange::Signal { kind, .. }) = (self.begun, change)
                    && let Some(path) = self.sampler.sending_path(side, id)
                {
                    let alert = PathAlert { at_us: world.now() - self.start, kind: kind.into() };
                    self.recorder.paths[path].result.alerts.push(alert);
                }
            }
            Event::Closed(reason) => {
                self.ended.get_or_insert_with(|| reason.to_string());
            }
            Event::Missed { id, .. } => self.on_missed(world.now() - self.start, other(side), id),
            _ => {}
        }
    }

    /// Logs the packets of both sides.
    fn log_packets(&mut self, world: &mut impl Ends) {
        let Some(log) = &mut self.log else { return };
        for side in [Side::Client, Side::Server] {
            for entry in world.take_packets(side) {
                if let Some(path) = self.sampler.path(side, entry.id) {
                    log.on_packet(side, path, self.start, &entry);
                }
            }
        }
    }

    fn take_arrivals(&mut self, world: &mut impl Ends, side: Side) {
        self.log_packets(world);
        for arrival in world.take_arrivals(side) {
            let Some(path) = self.sampler.path(side, arrival.path) else { continue };
            if let Some(log) = &mut self.log {
                log.on_arrival(other(side), path, self.start, &arrival);
            }
            if arrival.bytes == 0 {
                continue;
            }
            let sent = self.blocks[other(side) as usize].get(&arrival.block);
            if let Some(sent) = sent.filter(|sent| !sent.request) {
                let at_us = arrival.at.micros().saturating_sub(self.start);
                let transit_us = arrival.transit.micros();
                let flow = &mut self.recorder.flows[sent.flow];
                flow.on_packet(arrival.block.0, at_us, path, arrival.bytes, transit_us);
            }
        }
    }

    fn refill(&mut self, world: &mut impl Ends, side: Side) {
        for flow in 0..self.sources.len() {
            if self.sources[flow].side == side {
                self.fill(world, flow);
            }
        }
    }

    /// Returns `true` for a block that was sent.
    fn on_received(&mut self, at_us: u64, from: Side, block: &Received) -> bool {
        let id = block.id;
        let Some(sent) = self.blocks[from as usize].get_mut(&id) else { return false };
        let source = &mut self.sources[sent.flow];
        if !sent.request {
            // A block with wrong contents does not count as delivered.
            if source.generator.data(sent.index).is_some_and(|data| data != block.data) {
                return false;
            }
            self.recorder.flows[sent.flow].on_delivered(id.0, at_us);
        }
        source.generator.on_delivered(sent.index, at_us);
        self.news |= source.wake();
        sent.received = true;
        if sent.finished {
            self.blocks[from as usize].remove(&id);
        }
        true
    }

    /// Called when a partial block ends incomplete.
    fn on_incomplete(&mut self, at_us: u64, from: Side, id: BlockId) {
        if let Some(sent) = self.blocks[from as usize].get(&id).filter(|sent| !sent.request) {
            self.recorder.flows[sent.flow].on_incomplete(id.0);
        }
        self.on_missed(at_us, from, id);
    }

    fn on_missed(&mut self, at_us: u64, from: Side, id: BlockId) {
        let Some(sent) = self.blocks[from as usize].get(&id) else { return };
        let source = &mut self.sources[sent.flow];
        source.generator.on_missed(sent.index, at_us);
        self.news |= source.wake();
    }

    fn on_finished(&mut self, at_us: u64, side: Side, id: BlockId, outcome: &Outcome) {
        let Some(sent) = self.blocks[side as usize].get_mut(&id) else { return };
        let source = &mut self.sources[sent.flow];
        source.queued -= sent.size;
        source.on_message_ended(sent.channel, sent.size);
        source.generator.on_ended(sent.index, at_us, matches!(outcome, Outcome::Delivered { .. }));
        self.news |= source.wake();
        let why = match outcome {
            Outcome::Delivered { waited, .. } => {
                if !sent.request {
                    self.recorder.flows[sent.flow].on_waited(id.0, waited.as_micros() as u64);
                }
                None
            }
            Outcome::Expired { .. } => Some(LostReason::Expired),
            // An unreliable block with losses is worthless and is cancelled.
            Outcome::Lost { .. } | Outcome::Cancelled { .. } => Some(LostReason::Cancelled),
            Outcome::Refused(_) => Some(LostReason::Refused),
            _ => Some(LostReason::Closed),
        };
        let is_evicted = matches!(outcome, Outcome::Expired { .. } | Outcome::Cancelled { .. });
        if let Some(why) = why.filter(|_| !sent.request) {
            if is_evicted {
                self.recorder.flows[sent.flow].on_evicted(id.0, at_us);
            }
            self.recorder.flows[sent.flow].on_lost(id.0, why);
        }
        if let Some(log) = &mut self.log {
            log.on_ended(side, id, at_us, why);
        }
        sent.finished = true;
        if sent.received {
            self.blocks[side as usize].remove(&id);
        }
    }

    /// Samples all paths.
    pub(super) fn sample(&mut self, world: &mut impl Ends) {
        let at_us = world.now() - self.start;
        for side in [Side::Client, Side::Server] {
            self.take_arrivals(world, side);
        }
        self.sampler.sample(world, at_us, &mut self.recorder);
    }

    /// The recorder of the run.
    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Ends the recording. Also returns the blocks that were offered.
    pub(super) fn finish(self, end_us: u64) -> (RunResult, Offered) {
        let mut result = self.recorder.finish(end_us);
        if let Some(reason) = self.ended {
            result.extra.insert("session ended".to_owned(), reason.as_str().into());
        }
        for (flow, source) in result.flows.iter_mut().zip(&self.sources) {
            let traffic::Outcome { playback, perceived_ratio, pictures, arrivals_us } =
                source.generator.outcome(end_us);
            // The flow's own player takes precedence over the one that shows its pictures.
            flow.playback = playback.or(flow.playback.take());
            (flow.perceived_ratio, flow.pictures) = (perceived_ratio, pictures);
            flow.arrivals_us = arrivals_us;
        }
        (result, self.offered)
    }
}
