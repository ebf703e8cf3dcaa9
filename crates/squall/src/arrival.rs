//! Blocks of the peer in order of arrival, whole or in parts, and changes of paths.

use std::{
    net::IpAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use squall_proto::{
    Channel, CloseReason, Event, Missed, Part, Priority, Received,
    sched::{BlockId, PathId},
};

use crate::{Session, state::ReceiverId};

/// A block of the peer's: it arrived, or it will not arrive whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrival {
    /// It arrived whole.
    Block(Received),
    /// It will not arrive whole.
    Missed(MissedBlock),
}

/// News of a block of the peer's that is received in parts; see [`Receiver`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Growth {
    /// More of it arrived.
    Part(Part),
    /// The rest of it will not arrive.
    Missed(MissedBlock),
}

/// A block of the peer's that will not arrive whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissedBlock {
    /// The sender's id for it.
    pub id: BlockId,
    /// Its channel.
    pub channel: Channel,
    /// Its priority.
    pub priority: Priority,
    /// Why.
    pub why: Missed,
}

/// Change of a path, with local addresses.
pub type PathChange = squall_proto::PathChange<IpAddr>;

/// A change of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathEvent {
    /// Which path, as in [`Session::paths`].
    pub path: PathId,
    /// What changed.
    pub change: PathChange,
}

impl Arrival {
    /// `None` for an event of another kind.
    pub(crate) fn of(event: Event) -> Option<Self> {
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

/// Receives the blocks of some channels as they grow, from [`Session::receiver`].
///
/// The parts of a block follow one another without a gap; those of an ordered block wait until the block before is out of
/// the way. A block that does not arrive whole is a [`Growth::Missed`] after its parts. It makes no difference whether the
/// sender [opened](Session::open) the block or sent it whole.
///
/// A channel belongs to the receiver that added it last. Its blocks are [received whole](Session::recv) again when the
/// receiver is dropped, except one of which parts were handed over: the rest of that is dropped.
#[derive(Debug)]
pub struct Receiver {
    session: Session,
    id: ReceiverId,
}

impl Receiver {
    pub(crate) fn new(session: Session, id: ReceiverId) -> Self {
        Self { session, id }
    }

    /// Receives the blocks of another channel too: every block of which nothing was handed over yet.
    pub fn add(&self, channel: Channel) {
        self.session.set_receiver(channel, self.id);
    }

    /// The next part, or the end of a block that does not arrive whole; `None` when the session has ended normally and
    /// everything was taken. Parts that are not taken hold the peer back, as blocks do. Cancel safe.
    ///
    /// # Errors
    /// If the session has not ended normally, and everything was taken.
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
        self.session.drop_receiver(self.id);
    }
}

type NextArrival = Pin<Box<dyn Future<Output = Result<Option<Arrival>, CloseReason>> + Send>>;

/// The blocks of the peer's as a stream, from [`Session::arrivals`]. It ends with the session; an error is the last item.
#[must_use = "streams do nothing unless polled"]
pub struct Arrivals {
    /// `None` once the session has ended.
    session: Option<Session>,
    next: Option<NextArrival>,
}

impl Arrivals {
    pub(crate) fn new(session: Session) -> Self {
        Self { session: Some(session), next: None }
    }
}

impl Stream for Arrivals {
    type Item = Result<Arrival, CloseReason>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(session) = self.session.clone() else { return Poll::Ready(None) };
        let next = self.next.get_or_insert_with(|| Box::pin(async move { session.recv_any().await }));
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
