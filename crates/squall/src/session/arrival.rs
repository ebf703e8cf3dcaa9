//! Blocks of the peer in order of arrival, whole or in parts.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use squall_proto::{Channel, CloseReason, Event, Missed, Part, Priority, Received, sched::BlockId};

use super::reference::SessionRef;
use crate::shared::state::ReceiverId;

/// Outcome of a block of the peer: it arrived, or it will not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrival {
    /// The block arrived, whole or, if it is [partial](squall_proto::BlockOptions::partial), in
    /// part.
    Block(Received),
    /// The block will not arrive.
    Missed(MissedBlock),
}

/// Progress of a block of the peer that is received in parts; see [`Receiver`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Growth {
    /// The next part arrived.
    Part(Part),
    /// The rest will not arrive.
    Missed(MissedBlock),
}

/// A block of the peer that will not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissedBlock {
    /// Id from the sender.
    pub id: BlockId,
    /// Channel of the block.
    pub channel: Channel,
    /// Priority of the block.
    pub priority: Priority,
    /// Reason.
    pub why: Missed,
}

impl Arrival {
    /// `None` for an event of another kind.
    fn of(event: Event) -> Option<Self> {
        match event {
            Event::Received(block) => Some(Self::Block(block)),
            event => MissedBlock::of(&event).map(Self::Missed),
        }
    }
}

impl MissedBlock {
    fn of(event: &Event) -> Option<Self> {
        let &Event::Missed { id, channel, priority, why } = event else { return None };
        Some(Self { id, channel, priority, why })
    }
}

/// Receives the blocks of some channels as they grow, from
/// [`Session::receiver`](crate::Session::receiver).
///
/// The parts of a block follow one another without a gap; only the last part of an incomplete
/// [partial](crate::BlockOptions::partial) block has gaps. The parts of an ordered block wait until
/// the block before it has ended. A block that does not arrive whole ends with a [`Growth::Missed`]
/// after its parts. It makes no difference whether the sender [opened](crate::Session::open) the
/// block or sent it whole.
///
/// A channel belongs to the receiver that added it last. When the receiver is dropped, blocks of
/// the channel are [received whole](crate::Session::recv) again, except a block of which parts were
/// handed over: the rest of it is dropped.
#[derive(Debug)]
pub struct Receiver {
    session: Arc<SessionRef>,
    id: ReceiverId,
}

impl Receiver {
    pub(super) fn new(session: Arc<SessionRef>, id: ReceiverId) -> Self {
        Self { session, id }
    }

    /// Receives the blocks of another channel too: every block of which no part was handed over
    /// yet.
    pub fn add(&self, channel: Channel) {
        self.session.shared.lock().set_receiver(self.session.id, channel, Some(self.id));
    }

    /// Returns the next part, or the end of a block that does not arrive whole; `None` when the
    /// session has ended normally and the queue is empty. Parts that are not taken hold the peer
    /// back, as blocks do. Cancel safe.
    ///
    /// # Errors
    /// If the session has not ended normally, and the queue is empty.
    pub async fn recv(&self) -> Result<Option<Growth>, CloseReason> {
        loop {
            match self.session.arrived(Some(self.id)).await? {
                Some(Event::Part(part)) => return Ok(Some(Growth::Part(part))),
                Some(event) => {
                    if let Some(missed) = MissedBlock::of(&event) {
                        return Ok(Some(Growth::Missed(missed)));
                    }
                }
                None => return Ok(None),
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.session.shared.lock().drop_receiver(self.session.id, self.id);
    }
}

/// Returns the next block of the peer that belongs to no receiver.
pub(super) async fn next(session: &SessionRef) -> Result<Option<Arrival>, CloseReason> {
    loop {
        match session.arrived(None).await?.map(Arrival::of) {
            Some(Some(arrival)) => return Ok(Some(arrival)),
            // Rest of a block whose receiver was dropped.
            Some(None) => {}
            None => return Ok(None),
        }
    }
}

type NextArrival = Pin<Box<dyn Future<Output = Result<Option<Arrival>, CloseReason>> + Send>>;

/// Stream of the blocks of the peer, from [`Session::arrivals`](crate::Session::arrivals). It ends
/// with the session; an error is the last item.
#[must_use = "streams do nothing unless polled"]
pub struct Arrivals {
    /// `None` once the session has ended.
    session: Option<Arc<SessionRef>>,
    next: Option<NextArrival>,
}

impl Arrivals {
    pub(super) fn new(session: Arc<SessionRef>) -> Self {
        Self { session: Some(session), next: None }
    }
}

impl Stream for Arrivals {
    type Item = Result<Arrival, CloseReason>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(session) = self.session.clone() else { return Poll::Ready(None) };
        let next = self.next.get_or_insert_with(|| Box::pin(async move { next(&session).await }));
        let arrival = ready!(next.as_mut().poll(cx)).transpose();
        self.next = None;
        if !matches!(arrival, Some(Ok(_))) {
            self.session = None;
        }
        Poll::Ready(arrival)
    }
}

impl std::fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrivals").field("session", &self.session).finish_non_exhaustive()
    }
}
