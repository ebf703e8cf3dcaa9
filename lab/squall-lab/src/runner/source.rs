//! Where the blocks of a flow come from.

use squall_proto::{
    Depends,
    sched::{BlockId, Message, Multiplexer, Span},
};

use crate::flow::{Direction, Flow, Production};
use crate::offer::Offer;
use crate::traffic::{Generator, Pace};
use crate::world::Side;

/// A flow's generator, and the block that is next.
pub(super) struct Source {
    /// Which end sends.
    pub(super) side: Side,
    pub(super) generator: Generator,
    pub(super) pace: Pace,
    /// How the bytes of its blocks come into being.
    pub(super) production: Production,
    /// The next block, if its time is known.
    pub(super) next: Option<Offer>,
    /// Which of the flow's blocks that is, or will be.
    pub(super) index: u64,
    /// Bytes handed over and not ended.
    pub(super) queued: u64,
    pub(super) multiplexer: Box<dyn Multiplexer>,
    /// The first channel.
    first: u16,
    /// Place of the next block among the channels from there on, once the multiplexer has chosen it.
    place: Option<u16>,
    /// Blocks so far, and requests, which are numbered apart.
    numbers: [u64; 2],
    /// By number of the flow's blocks, what the session calls it; empty unless the session learns dependencies.
    names: Vec<Option<BlockId>>,
    /// Whether it does.
    dependencies: bool,
    /// Whether unreliable blocks are delivered in part.
    partial: bool,
}

impl Source {
    /// Of the `index`th flow of a scenario.
    pub(super) fn new(flow: &Flow, index: usize, seed: u64, multiplexer: Box<dyn Multiplexer>) -> Self {
        let generator = Generator::new(flow, index, seed);
        let pace = generator.pace();
        let (side, production) = (sender(flow.direction), flow.production);
        Self {
            side,
            generator,
            pace,
            production,
            next: None,
            index: 0,
            queued: 0,
            multiplexer,
            first: flow.channel as u16,
            place: None,
            numbers: [0; 2],
            names: Vec::new(),
            dependencies: flow.dependencies,
            partial: flow.partial,
        }
    }

    /// What a block depends on, for the session. What it needs and is handed over after it cannot be named, and
    /// what the session did not take has no name.
    pub(super) fn depends(&self, offer: &Offer) -> Depends {
        let Some(frame) = offer.frame.filter(|_| self.dependencies) else { return Depends::Nothing };
        let name = |need: u64| self.names.get(need as usize).copied().flatten();
        Depends::On(frame.needs.map(|need| need.and_then(name)))
    }

    /// Whether a block is delivered in part if it loses bytes.
    pub(super) fn is_partial(&self, offer: &Offer) -> bool {
        self.partial && !offer.reliable && !offer.is_request()
    }

    /// The session took the `index`th block of the flow.
    pub(super) fn on_taken(&mut self, index: u64, id: BlockId) {
        if self.dependencies {
            let place = index as usize;
            self.names.resize(self.names.len().max(place + 1), None);
            self.names[place] = Some(id);
        }
    }

    /// The next block with its channel. The multiplexer is asked once.
    pub(super) fn placed(&mut self, offer: Offer) -> Offer {
        let message = Message {
            index: self.numbers[usize::from(offer.is_request())],
            bytes: offer.size,
            deadline: offer.deadline_us.map(Span::from_micros),
            priority: offer.priority,
            reliable: offer.reliable,
        };
        let place = *self.place.get_or_insert_with(|| self.multiplexer.channel(&message));
        let channel = self.channel(place).into();
        Offer { channel, ordered: self.multiplexer.is_ordered(), ..offer }
    }

    /// The channel at this place from the first one on.
    fn channel(&self, place: u16) -> u16 {
        (self.first + place % squall_proto::MAX_CHANNELS) % squall_proto::MAX_CHANNELS
    }

    /// Its channels.
    pub(super) fn channels(&self) -> impl Iterator<Item = u16> {
        (0..self.multiplexer.channels()).map(|place| self.channel(place))
    }

    /// A block that was handed over has ended.
    pub(super) fn on_message_ended(&mut self, channel: u16, bytes: u64) {
        let all = squall_proto::MAX_CHANNELS;
        self.multiplexer.on_ended((channel + all - self.first) % all, bytes);
    }

    /// Goes on to the next block.
    pub(super) fn advance(&mut self) {
        self.place = None;
        if let Some(offer) = &self.next {
            self.numbers[usize::from(offer.is_request())] += 1;
        }
        self.index += u64::from(self.next.is_some());
        self.next = self.generator.next();
    }

    /// The generator received something; returns whether it therefore has a block that it did not have before.
    pub(super) fn wake(&mut self) -> bool {
        let waits = self.next.is_none() && self.pace == Pace::Clock;
        if waits {
            self.advance();
        }
        waits && self.next.is_some()
    }

    /// Which end sends a block of the flow.
    pub(super) fn sender(&self, offer: &Offer) -> Side {
        if offer.is_request() { other(self.side) } else { self.side }
    }
}

/// The end that sends in a direction.
pub(super) fn sender(direction: Direction) -> Side {
    match direction {
        Direction::Down => Side::Server,
        Direction::Up => Side::Client,
    }
}

/// The end that a side sends to.
pub(super) fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}
