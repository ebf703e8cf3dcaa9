//! Where the blocks of a flow come from.

use squall_proto::{Depends, sched::BlockId};

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
    /// By number of the flow's blocks, what the session calls it; empty unless the session learns dependencies.
    names: Vec<Option<BlockId>>,
    /// Whether it does.
    dependencies: bool,
}

impl Source {
    /// Of the `index`th flow of a scenario.
    pub(super) fn new(flow: &Flow, index: usize, seed: u64) -> Self {
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
            names: Vec::new(),
            dependencies: flow.dependencies,
        }
    }

    /// What a block depends on, for the session. What it needs and is handed over after it cannot be named, and
    /// what the session did not take has no name.
    pub(super) fn depends(&self, offer: &Offer) -> Depends {
        let Some(frame) = offer.frame.filter(|_| self.dependencies) else { return Depends::Nothing };
        let name = |need: u64| self.names.get(need as usize).copied().flatten();
        Depends::On(frame.needs.map(|need| need.and_then(name)))
    }

    /// The session took the `index`th block of the flow.
    pub(super) fn on_taken(&mut self, index: u64, id: BlockId) {
        if self.dependencies {
            let place = index as usize;
            self.names.resize(self.names.len().max(place + 1), None);
            self.names[place] = Some(id);
        }
    }

    /// Goes on to the next block.
    pub(super) fn advance(&mut self) {
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
