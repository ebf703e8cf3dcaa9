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

/// Reason why a block was not accepted for sending. Only [`Self::Full`] returns it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No room for it now: [`Config::queued_bytes`](crate::Config::queued_bytes) are queued, or
    /// [`Config::open_blocks`](crate::Config::open_blocks) have not ended. Contains the block.
    /// [`Event::Writable`] announces room.
    #[error("send queue is full")]
    Full(Box<Block>),
    /// The block has no bytes.
    #[error("a block has at least one byte")]
    Empty,
    /// The block exceeds the limit of this side or of the peer.
    #[error("block of {len} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Size of the block.
        len: usize,
        /// The limit.
        limit: u32,
    },
    /// The session is over.
    #[error("session is closed")]
    Closed(#[source] CloseReason),
}

/// Reason why a block was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// [`Config::open_blocks`](crate::Config::open_blocks) have not ended. [`Event::Writable`]
    /// announces room.
    #[error("too many blocks are open")]
    Full,
    /// The session is over.
    #[error("session is closed")]
    Closed(#[source] CloseReason),
}

/// Reason why bytes were not added to an open block, or the block was not finished.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No room for them now: [`Config::queued_bytes`](crate::Config::queued_bytes) are queued.
    /// Contains the bytes. [`Event::Writable`] announces room.
    #[error("send queue is full")]
    Full(Bytes),
    /// The block would exceed the limit of this side or of the peer. It is unchanged.
    #[error("block of {len} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Size that the block would have.
        len: usize,
        /// The limit.
        limit: u32,
    },
    /// The block was to be finished, but has no bytes. It is cancelled.
    #[error("a block has at least one byte")]
    Empty,
    /// The block is not open: it was finished, or has ended by its deadline, by a loss, by a
    /// refusal or with the session. Its outcome has the reason.
    #[error("the block is not open any more")]
    Ended,
}

/// Reason why a channel did not get a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightError {
    /// The weight is out of range.
    #[error("there is no weight {0}: weights are 1 to 256")]
    Weight(u16),
    /// The session is over.
    #[error("session is closed")]
    Closed,
}

/// A block that arrived, whole or, if it is [partial](crate::BlockOptions::partial), in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The sender's id of the block.
    pub id: BlockId,
    /// Bytes of the block; zeros for missing ones.
    pub data: Bytes,
    /// Ranges of bytes that did not arrive, ascending and apart; empty unless the block is
    /// [partial](crate::BlockOptions::partial). If the length of an [opened](crate::Session::open)
    /// block never arrived, the data ends with the last byte that did, and the last range reaches
    /// from there to 16 MiB.
    pub missing: Vec<Range<u32>>,
    /// Channel of the block.
    pub channel: Channel,
    /// Priority of the block.
    pub priority: Priority,
    /// Lost bytes were sent again.
    pub reliable: bool,
    /// Time at which its first byte arrived.
    pub first_at: Instant,
    /// Time at which it was complete, or ended incomplete.
    pub whole_at: Instant,
    /// Deadline of the sender; `None` without one. It is computed from the time left when the first
    /// chunk was sent, counted from that chunk's arrival, less half a round trip.
    pub deadline: Option<Instant>,
    /// Bytes that arrived over each path, duplicates and parity included.
    pub over: Vec<(PathId, u32)>,
}

/// Bytes of a block on a channel whose blocks are handed over as they grow; see
/// [`Session::set_in_parts`](crate::Session::set_in_parts). The parts of a block follow one another
/// without a gap. One of them is the last, or [`Event::Missed`] reports that the rest will not
/// arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The sender's id of the block.
    pub id: BlockId,
    /// Channel of the block.
    pub channel: Channel,
    /// Priority of the block.
    pub priority: Priority,
    /// Lost bytes were sent again.
    pub reliable: bool,
    /// Deadline of the sender, as in [`Received::deadline`].
    pub deadline: Option<Instant>,
    /// Offset of the bytes in the block: the number of bytes handed over before.
    pub offset: u32,
    /// The bytes. A last part is empty if the end is determined after the bytes. The last part of a
    /// partial block that ended incomplete has zeros for missing bytes.
    pub data: Bytes,
    /// Ranges of the block that did not arrive, as in [`Received::missing`]; empty unless the part
    /// is the last.
    pub missing: Vec<Range<u32>>,
    /// The block ends here.
    pub is_last: bool,
}

/// The fate of a block at its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The peer's session has all of it.
    Delivered {
        /// Arrival of the last acknowledgement.
        at: Instant,
        /// Time from the hand-over to the first sending of its last byte.
        waited: Duration,
        /// Bytes acknowledged on each path, without parity.
        over: Vec<(PathId, u32)>,
    },
    /// Its deadline passed, or could not be met by the rates of the paths while other blocks
    /// waited.
    Expired {
        /// Bytes that the peer has.
        acked: u32,
    },
    /// The block is unreliable, and bytes of it were lost. If it is
    /// [partial](crate::BlockOptions::partial), the peer's application gets the bytes that arrived.
    Lost {
        /// Bytes that the peer has.
        acked: u32,
    },
    /// The application or the scheduler cancelled it.
    Cancelled {
        /// Reason for the cancellation.
        reason: &'static str,
    },
    /// The peer refused it.
    Refused(wire::RefuseReason),
    /// The session ended before.
    SessionClosed,
}

/// Reason why a block did not arrive whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missed {
    /// Its deadline passed.
    Expired,
    /// The sender cancelled it.
    Cancelled(wire::CancelReason),
    /// This side refused it.
    Refused(wire::RefuseReason),
    /// The session ended before.
    SessionClosed,
}

/// A change of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathChange<L = Interface> {
    /// The path may carry data.
    Up(NetPath<L>),
    /// The path was silent with packets in flight, or loses data of one size, and carries no new
    /// data.
    Suspected {
        /// Time for which nothing arrived, or almost nothing of that size.
        silent: Duration,
    },
    /// The path proved to deliver again.
    Readmitted {
        /// Time for which it was suspected.
        after: Duration,
    },
    /// Small packets pass and full-size ones do not: the path's MTU is below the 1,200 bytes of UDP
    /// payload that QUIC needs (RFC 9000 §14). It carries no data until a full-size probe has
    /// passed.
    Narrow,
    /// A radio at one of the ends reported a change.
    Signal {
        /// Kind of the change.
        kind: AlertKind,
        /// The quality index in thousandths.
        quality: u16,
        /// The radio is the peer's.
        by_peer: bool,
    },
    /// The peer's address changed (NAT rebinding).
    Rebound(NetPath<L>),
    /// Packets on the path leave without ECN from now on (RFC 3168).
    EcnOff {
        /// Reason for disabling it.
        why: &'static str,
    },
    /// The path could not be opened, or is closed.
    Down,
}

impl<L> PathChange<L> {
    /// Replaces the interface, for instance by its address.
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
    /// Error code of RFC 9000 §20.1, from either side; 0x100 plus the alert for an error of TLS
    /// (RFC 9001 §4.8). `None` for an end without a code, such as a reset.
    pub code: Option<u64>,
    /// Error of TLS, if this side detected it.
    pub tls: Option<Arc<rustls::Error>>,
    /// Description, in one line.
    pub message: String,
}

/// Ignores `tls`: not every error of TLS equals itself, and the message describes it.
impl PartialEq for TransportError {
    fn eq(&self, other: &Self) -> bool {
        (self.code, &self.message) == (other.code, &other.message)
    }
}

impl Eq for TransportError {}

impl TransportError {
    /// Creates an error without a code.
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
}

/// Reason for the end of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// This side closed it.
    #[error("closed by this side")]
    Local,
    /// The peer closed it.
    #[error("closed by the peer{}", close_words(*code, reason))]
    ByPeer {
        /// Code from the peer; 0 for a normal end.
        code: u64,
        /// Reason text from the peer.
        reason: String,
    },
    /// The idle timeout passed without a packet from the peer.
    #[error("nothing received from the peer for too long")]
    TimedOut,
    /// The byte budget of the last path is used up.
    #[error("the byte budget of the last path is used up")]
    OverBudget,
    /// The peer violated the Squall protocol.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// QUIC or TLS failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// Formats the code and reason of a close for messages. A normal end has no code, and the reason is
/// optional.
fn close_words(code: u64, reason: &str) -> String {
    let code = if code == 0 { String::new() } else { format!(" with code {code}") };
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    code + &reason
}

impl CloseReason {
    /// Returns `true` if this side closed the session, or the peer with code 0.
    pub fn is_normal(&self) -> bool {
        matches!(self, Self::Local | Self::ByPeer { code: 0, .. })
    }
}

/// Reason why a connection could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No path was given.
    #[error("no local interface can reach the peer")]
    NoPath,
    /// The request itself is invalid.
    #[error("{0}")]
    Local(String),
}

impl Event {
    /// Returns the channel of an event about a block of the peer.
    pub fn channel(&self) -> Option<Channel> {
        match self {
            Self::Received(Received { channel, .. })
            | Self::Part(Part { channel, .. })
            | Self::Missed { channel, .. } => Some(*channel),
            _ => None,
        }
    }
}

/// An event of a session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The session is up: blocks can be sent.
    Connected,
    /// A block arrived.
    Received(Received),
    /// Bytes arrived of a block that is handed over in parts.
    Part(Part),
    /// A block will not arrive.
    Missed {
        /// The sender's id of the block.
        id: BlockId,
        /// Channel of the block.
        channel: Channel,
        /// Priority of the block.
        priority: Priority,
        /// Reason why it will not arrive.
        why: Missed,
    },
    /// A block of this side ended: exactly once for each, if outcomes are requested; see
    /// [`Session::report_outcomes`](crate::Session::report_outcomes).
    Ended {
        /// The block.
        id: BlockId,
        /// Its fate.
        outcome: Outcome,
    },
    /// There is room in the send queue again after [`SendError::Full`].
    Writable,
    /// A path changed.
    Path(PathId, PathChange),
    /// [`Capacity::safe`] fell by more than 5 %, or rose by more than 10 % and the last event is 50
    /// ms old. A fall is reported at once, including one that is announced by a radio or caused by
    /// a suspected path. Only the latest event is kept.
    Capacity(Box<Capacity>),
    /// The session is over. This is the last event.
    Closed(CloseReason),
}
