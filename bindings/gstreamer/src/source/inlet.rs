//! A bounded queue of buffers from the session to the streaming thread.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use gstreamer as gst;
use squall::{Arrival, Received, Session};
use tokio::sync::Notify;

use crate::{
    caps,
    frame::{Frame, Header},
};

/// Maximum number of buffers in the queue; more stay in the session, within its limits, and apply
/// back pressure to the peer.
const MAX_BUFFERS: usize = 64;
/// Maximum number of bytes in the queue.
const MAX_BYTES: usize = 1 << 20;

/// Interval at which the one-way delay is read.
const DELAY_PERIOD: Duration = Duration::from_millis(100);

/// An item of the queue.
pub(crate) enum Item {
    Buffer(Box<Arrived>),
    /// The end of the stream.
    End,
}

pub(crate) struct Arrived {
    pub(crate) header: Header,
    /// New caps, from this buffer on.
    pub(crate) caps: Option<gst::Caps>,
    pub(crate) data: Bytes,
    pub(crate) at: Instant,
    /// Smallest one-way delay of the paths, estimated as half the smallest round trip.
    pub(crate) one_way: Duration,
    /// The first of a session.
    pub(crate) is_first: bool,
    /// Buffers before it are missing.
    pub(crate) after_gap: bool,
}

/// Reason for the end of a wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Flushing,
    Failed,
}

#[derive(Default)]
pub(crate) struct Inlet {
    state: Mutex<State>,
    changed: Condvar,
    space: Notify,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    bytes: usize,
    flushing: bool,
    failed: bool,
    missing: u64,
    ended: bool,
}

impl Inlet {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
        self.space.notify_one();
    }

    pub(crate) fn reset(&self) {
        self.change(|state| *state = State::default());
    }

    pub(crate) fn fail(&self) {
        self.change(|state| state.failed = true);
    }

    pub(crate) fn flush(&self, on: bool) {
        self.change(|state| state.flushing = on);
    }

    /// Buffers of the sender that did not arrive.
    pub(crate) fn missing(&self) -> u64 {
        self.lock().missing
    }

    /// `true` if the sender has ended the stream.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Waits for the next item.
    pub(crate) fn next(&self) -> Result<Item, Stop> {
        let mut state = self.lock();
        loop {
            if state.flushing {
                return Err(Stop::Flushing);
            }
            if let Some(item) = state.items.pop_front() {
                state.bytes -= item.len();
                self.space.notify_one();
                return Ok(item);
            }
            if state.failed {
                return Err(Stop::Failed);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    async fn push(&self, item: Item) {
        let mut item = Some(item);
        loop {
            {
                let mut state = self.lock();
                let has_room = state.items.len() < MAX_BUFFERS && state.bytes < MAX_BYTES;
                if let Some(item) = item.take_if(|_| has_room) {
                    state.bytes += item.len();
                    state.ended |= matches!(item, Item::End);
                    state.items.push_back(item);
                    self.changed.notify_all();
                    return;
                }
            }
            self.space.notified().await;
        }
    }

    /// Moves blocks of a session until it is over.
    ///
    /// # Errors
    /// A description, if the peer sent malformed data.
    pub(crate) async fn pump(&self, session: &Session) -> Result<(), &'static str> {
        let mut reader = Reader::default();
        while let Ok(Some(arrival)) = session.recv_any().await {
            let Arrival::Block(block) = arrival else { continue };
            if block.channel.get() != 1 {
                return Err("a message after the greeting");
            }
            let (item, missing) = reader.read(block, session)?;
            self.lock().missing += missing;
            if let Some(item) = item {
                self.push(item).await;
            }
        }
        Ok(())
    }
}

impl Item {
    fn len(&self) -> usize {
        match self {
            Self::Buffer(arrived) => arrived.data.len(),
            Self::End => 0,
        }
    }
}

/// Reads the blocks of a session.
#[derive(Default)]
struct Reader {
    /// Number of the next buffer.
    next: u64,
    generation: Option<u32>,
    /// Buffers are missing since the last one.
    gap: bool,
    is_begun: bool,
    delay: Option<(Instant, Duration)>,
}

impl Reader {
    /// Returns the item, and the number of missing buffers before it.
    fn read(&mut self, block: Received, session: &Session) -> Result<(Option<Item>, u64), &'static str> {
        let (header, wire, data) = match Frame::decode(block.data)? {
            Frame::Buffer(header, wire, data) => (header, wire, data),
            Frame::End(count) => return Ok((Some(Item::End), count.saturating_sub(self.next))),
        };
        let missing = header.number.checked_sub(self.next).ok_or("a buffer is out of order")?;
        self.next = header.number.checked_add(1).ok_or("a number is out of bounds")?;
        self.gap |= missing > 0;
        let is_new = self.generation != Some(header.generation);
        let caps = match wire.filter(|_| is_new) {
            Some(wire) => Some(caps::decode(wire)?),
            None => None,
        };
        // Its caps were in a block that did not arrive.
        if is_new && caps.is_none() {
            self.gap = true;
            return Ok((None, missing + 1));
        }
        self.generation = Some(header.generation);
        let arrived = Arrived {
            header,
            caps,
            data,
            at: block.first_at,
            one_way: self.one_way(session),
            is_first: !std::mem::replace(&mut self.is_begun, true),
            after_gap: std::mem::take(&mut self.gap),
        };
        Ok((Some(Item::Buffer(Box::new(arrived))), missing))
    }

    fn one_way(&mut self, session: &Session) -> Duration {
        if let Some((_, delay)) = self.delay.filter(|(read, _)| read.elapsed() < DELAY_PERIOD) {
            return delay;
        }
        let paths = session.paths();
        let trips = paths.iter().map(|path| path.stats.min_rtt).filter(|trip| !trip.is_zero());
        let delay = trips.min().unwrap_or_default() / 2;
        self.delay = Some((Instant::now(), delay));
        delay
    }
}
