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
    /// The sender's id for it.
    pub id: BlockId,
    /// Its bytes; zeros for those that are missing.
    pub data: Bytes,
    /// Ranges that did not arrive, ascending and apart; none of a whole block. If the length of the block never became known
    /// the last one ends at [`MAX_BLOCK`](squall_sched::MAX_BLOCK), beyond the data.
    pub missing: Vec<Range<u32>>,
    /// Its channel.
    pub channel: u16,
    /// Its priority.
    pub priority: u8,
    /// Whether it is reliable.
    pub reliable: bool,
    /// When its first byte arrived.
    pub first_at: Time,
    /// When it was whole, or ended incomplete.
    pub whole_at: Time,
    /// When its deadline passes, if it has one.
    pub deadline: Option<Time>,
    /// Bytes that came over each path, duplicates included.
    pub over: [u32; MAX_PATHS],
    /// Bytes of it that were handed over before, as [parts](Part).
    pub handed_over: u32,
}

/// Bytes of a block that is handed over as it grows: those that follow the part before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Of which block.
    pub label: Label,
    /// Whether the block is reliable.
    pub reliable: bool,
    /// When its deadline passes, if it has one.
    pub deadline: Option<Time>,
    /// Where in the block the bytes belong.
    pub offset: u32,
    /// The bytes; only the last part can have none. Of a partial block it has zeros for those that are missing.
    pub data: Bytes,
    /// Ranges of the block that did not arrive, as [`Arrived::missing`]; only the last part has any.
    pub missing: Vec<Range<u32>>,
    /// Whether the block ends with them.
    pub is_last: bool,
}

impl Arrived {
    /// The rest of it, of which parts were handed over before.
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

/// An event of the inbox. Each block that it took notice of ends in exactly one of these, a part that is not the last
/// left aside; see [`Inbox::unreported`](super::Inbox::unreported) for the one exception.
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
    /// A block that this side will not take; the sender is to be informed.
    Refused(Label, RefuseReason),
}

impl InboxEvent {
    /// The channel of its block.
    pub fn channel(&self) -> u16 {
        match self {
            Self::Arrived(arrived) => arrived.channel,
            Self::Part(part) => part.label.channel,
            Self::Expired(label) | Self::Cancelled(label, _) | Self::Refused(label, _) => label.channel,
        }
    }
}

/// What is known of a block without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The sender's id for it.
    pub id: BlockId,
    /// Its channel.
    pub channel: u16,
    /// Its priority.
    pub priority: u8,
}

/// What a peer may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    /// A block so far ahead of the oldest open one that no honest sender would have begun it.
    #[error("block {id} is {ID_SPAN} or more ahead of block {oldest}, which has not ended")]
    TooFarAhead {
        /// Its id.
        id: u64,
        /// The oldest block that has not ended.
        oldest: u64,
    },
    /// More blocks beyond the limits, or more gaps in ordered channels, than an honest sender makes.
    #[error("flood of blocks beyond the limits")]
    Flood,
    /// Chunks of one block that do not agree about it, or two blocks that claim the same place.
    #[error("what is said of block {0} contradicts what was said before")]
    Contradiction(u64),
}
