//! Events of the inbox, and violations of the protocol that it detects.

use std::ops::Range;

use bytes::Bytes;
use squall_sched::{BlockId, MAX_PATHS, Time};

use crate::{
    outbox::ID_SPAN,
    wire::{CancelReason, RefuseReason},
};

/// A block that arrived, whole or, if it is partial, in part; in session time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The sender's id of the block.
    pub id: BlockId,
    /// Bytes of the block; zeros for missing ones.
    pub data: Bytes,
    /// Ranges that did not arrive, ascending and apart; empty for a whole block. If the length of
    /// the block never arrived, the last one ends at [`MAX_BLOCK`](squall_sched::MAX_BLOCK), beyond
    /// the data.
    pub missing: Vec<Range<u32>>,
    /// Channel of the block.
    pub channel: u16,
    /// Priority of the block.
    pub priority: u8,
    /// The block is reliable.
    pub reliable: bool,
    /// Arrival of its first byte.
    pub first_at: Time,
    /// Time at which it was complete, or ended incomplete.
    pub whole_at: Time,
    /// Deadline, if it has one.
    pub deadline: Option<Time>,
    /// Bytes that arrived over each path, duplicates included.
    pub over: [u32; MAX_PATHS],
    /// Bytes that were handed over before, as [parts](Part).
    pub handed_over: u32,
}

/// Bytes of a block that is handed over as it grows: those that follow the previous part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The block.
    pub label: Label,
    /// The block is reliable.
    pub reliable: bool,
    /// Deadline of the block, if it has one.
    pub deadline: Option<Time>,
    /// Offset of the bytes in the block.
    pub offset: u32,
    /// The bytes; only the last part can be empty. For a partial block, missing bytes are zeros.
    pub data: Bytes,
    /// Ranges of the block that did not arrive, as in [`Arrived::missing`]; empty unless the part
    /// is the last.
    pub missing: Vec<Range<u32>>,
    /// The block ends with these bytes.
    pub is_last: bool,
}

impl Arrived {
    /// Converts the rest of a block of which parts were handed over before.
    pub(super) fn into_last_part(self) -> Part {
        Part {
            label: Label { id: self.id, channel: self.channel, priority: self.priority },
            reliable: self.reliable,
            deadline: self.deadline,
            offset: self.handed_over,
            data: self.data.slice(self.handed_over as usize..),
            missing: self.missing,
            is_last: true,
        }
    }
}

/// An event of the inbox. Each block that was begun ends in exactly one of these, not counting
/// parts that are not the last; see [`Inbox::unreported`](super::Inbox::unreported) for the one
/// exception.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxEvent {
    /// A block is whole, or partial and incomplete at its end, and its turn has come.
    Arrived(Box<Arrived>),
    /// Bytes of a block on a channel whose blocks are handed over in parts.
    Part(Box<Part>),
    /// The deadline of an incomplete block passed.
    Expired(Label),
    /// The sender cancelled an incomplete block.
    Cancelled(Label, CancelReason),
    /// This side refuses a block; the sender is to be informed.
    Refused(Label, RefuseReason),
}

impl InboxEvent {
    /// Returns the channel of its block.
    pub fn channel(&self) -> u16 {
        match self {
            Self::Arrived(arrived) => arrived.channel,
            Self::Part(part) => part.label.channel,
            Self::Expired(label) | Self::Cancelled(label, _) | Self::Refused(label, _) => label.channel,
        }
    }
}

/// Attributes of a block without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The sender's id of the block.
    pub id: BlockId,
    /// Channel of the block.
    pub channel: u16,
    /// Priority of the block.
    pub priority: u8,
}

/// Violation of the protocol by a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    /// A block further ahead of the oldest open one than an honest sender would begin.
    #[error("block {id} is {ID_SPAN} or more ahead of block {oldest}, which has not ended")]
    TooFarAhead {
        /// Id of the block.
        id: u64,
        /// The oldest block that has not ended.
        oldest: u64,
    },
    /// More blocks beyond the limits, or more gaps in ordered channels, than an honest sender
    /// makes.
    #[error("flood of blocks beyond the limits")]
    Flood,
    /// Chunks of one block that contradict each other, or two blocks that claim the same place.
    #[error("what is said of block {0} contradicts what was said before")]
    Contradiction(u64),
}
