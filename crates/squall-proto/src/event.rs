//! Events and errors that a session reports to its application.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use squall_sched::{BlockId, PathId};
use squall_signal::AlertKind;

use crate::{Block, Capacity, Channel, Interface, NetPath, Priority, wire};

/// Why a block was not taken for sending. Only [`Self::Full`] hands it back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No room for it now: [`Config::queued_bytes`](crate::Config::queued_bytes) are queued, or
    /// [`Config::open_blocks`](crate::Config::open_blocks) have not ended. Holds the block. Room is announced
    /// by [`Event::Writable`].
    #[error("send queue is full")]
    Full(Box<Block>),
    /// No bytes.
    #[error("a block has at least one byte")]
    Empty,
    /// More bytes than this side or the peer takes.
    #[error("block of {len} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Its size.
        len: usize,
        /// The limit.
        limit: u32,
    },
    /// The session is over.
    #[error("session is closed")]
    Closed(#[source] CloseReason),
}

/// Why a block was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// [`Config::open_blocks`](crate::Config::open_blocks) have not ended. Room is announced by
    /// [`Event::Writable`].
    #[error("too many blocks are open")]
    Full,
    /// The session is over.
    #[error("session is closed")]
    Closed(#[source] CloseReason),
}

/// Why bytes were not added to an open block, or the block was not finished.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No room for them now: [`Config::queued_bytes`](crate::Config::queued_bytes) are queued. Holds the bytes.
    /// Room is announced by [`Event::Writable`].
    #[error("send queue is full")]
    Full(Bytes),
    /// With them the block would have more bytes than this side or the peer takes. It stays as it was.
    #[error("block of {len} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// The size that it would have.
        len: usize,
        /// The limit.
        limit: u32,
    },
    /// The block is to be finished and has no bytes. It is cancelled.
    #[error("a block has at least one byte")]
    Empty,
    /// The block is not open: it was finished, or has ended by its deadline, by a loss, by a refusal or with the
    /// session. Its outcome says which.
    #[error("the block is not open any more")]
    Ended,
}

/// Why a channel did not get a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightError {
    /// There is no such weight.
    #[error("there is no weight {0}: weights are 1 to 256")]
    Weight(u16),
    /// The session is over.
    #[error("session is closed")]
    Closed,
}

/// A block that arrived, whole or, if it is [partial](crate::BlockOptions::partial), in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The sender's id for it.
    pub id: BlockId,
    /// Its bytes; zeros for those that are missing.
    pub data: Bytes,
    /// Ranges of bytes that did not arrive, ascending and apart; empty if the block is whole, as every block is that is not
    /// [partial](crate::BlockOptions::partial). Of an [opened](crate::Session::open) block whose length never became known
    /// the data ends with the last byte that arrived, and the last range reaches from there to 16 MiB.
    pub missing: Vec<Range<u32>>,
    /// Its channel.
    pub channel: Channel,
    /// Its priority.
    pub priority: Priority,
    /// Whether lost bytes of it were sent again.
    pub reliable: bool,
    /// When its first byte arrived.
    pub first_at: Instant,
    /// When it was whole, or ended incomplete.
    pub whole_at: Instant,
    /// When the sender's deadline passes, if it has one: what was left of it when the first chunk was sent,
    /// counted from that chunk's arrival, less half a round trip.
    pub deadline: Option<Instant>,
    /// Bytes of it that came over each path, duplicates and parity included.
    pub over: Vec<(PathId, u32)>,
}

/// Bytes of a block on a channel whose blocks are handed over as they grow; see
/// [`Session::set_in_parts`](crate::Session::set_in_parts). The parts of a block follow one another without a gap. One
/// of them is the last, or [`Event::Missed`] says that the rest will not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The sender's id for the block.
    pub id: BlockId,
    /// Its channel.
    pub channel: Channel,
    /// Its priority.
    pub priority: Priority,
    /// Whether lost bytes of it were sent again.
    pub reliable: bool,
    /// When the sender's deadline passes, as in [`Received::deadline`].
    pub deadline: Option<Instant>,
    /// Where in the block the bytes belong: what was handed over before.
    pub offset: u32,
    /// The bytes. A last part can have none, when the end becomes known after the bytes. The last part of a partial block
    /// that ended incomplete has zeros for those that are missing.
    pub data: Bytes,
    /// Ranges of the block that did not arrive, as [`Received::missing`]; only a last part has any.
    pub missing: Vec<Range<u32>>,
    /// Whether the block ends here.
    pub is_last: bool,
}

/// How a block ended at its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The peer's session has all of it.
    Delivered {
        /// When the last acknowledgement came.
        at: Instant,
        /// From handing over to the first sending of its last byte.
        waited: Duration,
        /// Bytes acknowledged on each path, without parity.
        over: Vec<(PathId, u32)>,
    },
    /// Its deadline passed first, or could not be met by what the paths carry while other blocks waited.
    Expired {
        /// Bytes of it the peer has.
        acked: u32,
    },
    /// It is unreliable, and bytes of it were lost. If it is [partial](crate::BlockOptions::partial), the peer's application
    /// gets those that it has.
    Lost {
        /// Bytes of it the peer has.
        acked: u32,
    },
    /// The application or the scheduler took it back.
    Cancelled {
        /// Why.
        reason: &'static str,
    },
    /// The peer would not take it.
    Refused(wire::RefuseReason),
    /// The session ended first.
    SessionClosed,
}

/// How a block ended at its receiver, when it did not arrive whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missed {
    /// Its deadline passed first.
    Expired,
    /// The sender cancelled it.
    Cancelled(wire::CancelReason),
    /// This side would not take it.
    Refused(wire::RefuseReason),
    /// The session ended first.
    SessionClosed,
}

/// What changed about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathChange<L = Interface> {
    /// It may carry data.
    Up(NetPath<L>),
    /// It fell silent with packets in flight, or loses data of one size, and carries no new data.
    Suspected {
        /// How long nothing arrived, or hardly anything of that size.
        silent: Duration,
    },
    /// It proved to deliver again.
    Readmitted {
        /// How long it was suspected.
        after: Duration,
    },
    /// Small packets pass and full-size ones do not: its MTU is below the 1,200 bytes of UDP payload that QUIC needs
    /// (RFC 9000 §14). It carries no data until a full-size probe has passed.
    Narrow,
    /// A radio at one of its ends said something new.
    Signal {
        /// What changes.
        kind: AlertKind,
        /// The quality index in thousandths.
        quality: u16,
        /// Whether it is the peer's radio.
        by_peer: bool,
    },
    /// The peer's address changed (NAT rebinding).
    Rebound(NetPath<L>),
    /// Its packets leave without ECN from now on (RFC 3168).
    EcnOff {
        /// Why.
        why: &'static str,
    },
    /// It could not be opened, or is gone.
    Down,
}

impl<L> PathChange<L> {
    /// The same change, with something else for the interface, such as its address.
    pub fn with_local<M>(self, local: impl FnOnce(L) -> M) -> PathChange<M> {
        let of = |net: NetPath<L>| NetPath { local: local(net.local), remote: net.remote };
        match self {
            Self::Up(net) => PathChange::Up(of(net)),
            Self::Rebound(net) => PathChange::Rebound(of(net)),
            Self::Suspected { silent } => PathChange::Suspected { silent },
            Self::Readmitted { after } => PathChange::Readmitted { after },
            Self::Narrow => PathChange::Narrow,
            Self::Signal { kind, quality, by_peer } => PathChange::Signal { kind, quality, by_peer },
            Self::EcnOff { why } => PathChange::EcnOff { why },
            Self::Down => PathChange::Down,
        }
    }
}

/// A failure of QUIC or TLS.
#[derive(Clone, Debug, Default, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct TransportError {
    /// Error code of RFC 9000 §20.1, by either side; 0x100 and the alert for an error of TLS (RFC 9001 §4.8). `None` for
    /// an end without a code, such as a reset.
    pub code: Option<u64>,
    /// Error of TLS, if this side found it.
    pub tls: Option<Arc<rustls::Error>>,
    /// Description, in one line.
    pub message: String,
}

/// Not every error of TLS equals itself, and the message describes it.
impl PartialEq for TransportError {
    fn eq(&self, other: &Self) -> bool {
        (self.code, &self.message) == (other.code, &other.message)
    }
}

impl Eq for TransportError {}

impl TransportError {
    /// One without a code.
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// This side closed it.
    #[error("closed by this side")]
    Local,
    /// The peer closed it.
    #[error("closed by the peer{}", close_words(*code, reason))]
    ByPeer {
        /// The peer's code; 0 for a normal end.
        code: u64,
        /// The peer's words.
        reason: String,
    },
    /// Nothing arrived from the peer for too long.
    #[error("nothing received from the peer for too long")]
    TimedOut,
    /// The byte budget of the last path is used up.
    #[error("the byte budget of the last path is used up")]
    OverBudget,
    /// The peer broke the Squall protocol.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// QUIC or TLS failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// Code and reason of a close, for messages. A normal end has no code, and neither end has to give a reason.
fn close_words(code: u64, reason: &str) -> String {
    let code = if code == 0 { String::new() } else { format!(" with code {code}") };
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    code + &reason
}

impl CloseReason {
    /// Whether both sides parted as meant.
    pub fn is_normal(&self) -> bool {
        matches!(self, Self::Local | Self::ByPeer { code: 0, .. })
    }
}

/// Why a connection could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No path was named.
    #[error("no local interface can reach the peer")]
    NoPath,
    /// The request itself is wrong.
    #[error("{0}")]
    Local(String),
}

impl Event {
    /// The channel of an event about a block of the peer's.
    pub fn channel(&self) -> Option<Channel> {
        match self {
            Self::Received(Received { channel, .. })
            | Self::Part(Part { channel, .. })
            | Self::Missed { channel, .. } => Some(*channel),
            _ => None,
        }
    }
}

/// What happened in a session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The session is up: blocks can be sent.
    Connected,
    /// A block arrived.
    Received(Received),
    /// Bytes of a block arrived that is handed over in parts.
    Part(Part),
    /// A block will not arrive.
    Missed {
        /// The sender's id for it.
        id: BlockId,
        /// Its channel.
        channel: Channel,
        /// Its priority.
        priority: Priority,
        /// Why.
        why: Missed,
    },
    /// A block of ours ended, one way or the other: exactly once for each, if outcomes are asked for; see
    /// [`Session::report_outcomes`](crate::Session::report_outcomes).
    Ended {
        /// Which block.
        id: BlockId,
        /// How.
        outcome: Outcome,
    },
    /// There is room in the send queue again after [`SendError::Full`].
    Writable,
    /// A path changed.
    Path(PathId, PathChange),
    /// [`Capacity::safe`] fell by more than 5 %, or rose by more than 10 % and the last event is 50 ms old. A fall is
    /// reported at once, also one that a radio announces or that a suspected path makes. Only the latest waits to be taken.
    Capacity(Box<Capacity>),
    /// The session is over; the last event.
    Closed(CloseReason),
}
