//! Sources of the blocks of a flow.

use squall_proto::{
    Depends,
    sched::{BlockId, Message, Multiplexer, Span},
};

use crate::flow::{Direction, Flow, Production};
use crate::offer::Offer;
use crate::traffic::{Generator, Pace};
use crate::world::Side;

/// Generator of a flow and its next block.
pub(super) struct Source {
    /// The sending end.
    pub(super) side: Side,
    pub(super) generator: Generator,
    pub(super) pace: Pace,
    /// Way in which the bytes of the blocks are produced.
    pub(super) production: Production,
    /// The next block, if its time is already determined.
    pub(super) next: Option<Offer>,
    /// Index of the next block within the flow.
    pub(super) index: u64,
    /// Bytes of submitted blocks that have not ended.
    pub(super) queued: u64,
    pub(super) multiplexer: Box<dyn Multiplexer>,
    /// First channel of the flow.
    first: u16,
    /// Place of the next block among the channels, counted from the first, once the multiplexer has
    /// chosen it.
    place: Option<u16>,
    /// Blocks and requests so far, numbered separately.
    numbers: [u64; 2],
    /// The session's ids of the flow's blocks, by index; empty if the session receives no
    /// dependencies.
    names: Vec<Option<BlockId>>,
    /// The session receives the dependencies of blocks.
    dependencies: bool,
    /// Unreliable blocks are delivered in part.
    partial: bool,
}

impl Source {
    /// Creates the source of the `index`th flow of a scenario.
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

    /// Returns the dependencies of a block for the session. Blocks that are submitted later or were
    /// refused have no id and are omitted.
    pub(super) fn depends(&self, offer: &Offer) -> Depends {
        let Some(frame) = offer.frame.filter(|_| self.dependencies) else { return Depends::Nothing };
        let name = |need: u64| self.names.get(need as usize).copied().flatten();
        Depends::On(frame.needs.map(|need| need.and_then(name)))
    }

    /// `true` if a block with losses is delivered in part.
    pub(super) fn is_partial(&self, offer: &Offer) -> bool {
        self.partial && !offer.reliable && !offer.is_request()
    }

    /// Called when the session accepts the `index`th block of the flow.
    pub(super) fn on_taken(&mut self, index: u64, id: BlockId) {
        if self.dependencies {
            let place = index as usize;
            self.names.resize(self.names.len().max(place + 1), None);
            self.names[place] = Some(id);
        }
    }

    /// Returns the next block with its channel. The multiplexer is asked only once per block.
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

    /// Returns the channel at this place, counted from the first.
    fn channel(&self, place: u16) -> u16 {
        (self.first + place % squall_proto::MAX_CHANNELS) % squall_proto::MAX_CHANNELS
    }

    /// All channels of the flow.
    pub(super) fn channels(&self) -> impl Iterator<Item = u16> {
        (0..self.multiplexer.channels()).map(|place| self.channel(place))
    }

    /// Called when a submitted block has ended.
    pub(super) fn on_message_ended(&mut self, channel: u16, bytes: u64) {
        let all = squall_proto::MAX_CHANNELS;
        self.multiplexer.on_ended((channel + all - self.first) % all, bytes);
    }

    /// Moves on to the next block.
    pub(super) fn advance(&mut self) {
        self.place = None;
        if let Some(offer) = &self.next {
            self.numbers[usize::from(offer.is_request())] += 1;
        }
        self.index += u64::from(self.next.is_some());
        self.next = self.generator.next();
    }

    /// Called after the generator received something. Returns `true` if the generator has a next
    /// block for that reason.
    pub(super) fn wake(&mut self) -> bool {
        let waits = self.next.is_none() && self.pace == Pace::Clock;
        if waits {
            self.advance();
        }
        waits && self.next.is_some()
    }

    /// Returns the end that sends a block of the flow.
    pub(super) fn sender(&self, offer: &Offer) -> Side {
        if offer.is_request() { other(self.side) } else { self.side }
    }
}

/// Returns the end that sends in a direction.
pub(super) fn sender(direction: Direction) -> Side {
    match direction {
        Direction::Down => Side::Server,
        Direction::Up => Side::Client,
    }
}

/// Returns the opposite end.
pub(super) fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}
