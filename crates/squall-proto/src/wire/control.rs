//! CANCEL and REFUSED: blocks that end before they are whole.

use squall_sched::PRIORITIES;

use super::{WireError, check_channel, check_previous, next};
use crate::varint;

/// A block that its sender cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Id of the block.
    pub block: u64,
    /// Reason of the end.
    pub reason: CancelReason,
    /// Priority of the block.
    pub priority: u8,
    /// Channel of the block.
    pub channel: u16,
    /// As in [`Data::previous`](super::Data::previous), so that the order is kept though nothing of
    /// the block ever arrived.
    pub previous: Option<u64>,
}

/// Reason why a sender cancelled a block; the numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The application or the scheduler cancelled it.
    Cancelled = 0,
    /// Its deadline passed.
    Expired = 1,
    /// It is unreliable, and bytes of it were lost.
    Lost = 2,
}

/// Reason why a receiver refuses a block; the numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefuseReason {
    /// The block exceeds the limit of the receiver.
    TooLarge = 0,
    /// No memory is left for it.
    NoMemory = 1,
    /// Too many blocks are open.
    TooManyBlocks = 2,
}

impl Cancel {
    pub(super) fn encode(&self, body: &mut Vec<u8>) {
        varint::write(body, self.block);
        varint::write(body, self.reason as u64);
        varint::write(body, self.priority.into());
        varint::write(body, self.channel.into());
        varint::write(body, self.previous.map_or(0, |back| back + 1));
    }

    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, WireError> {
        let block = next(input)?;
        let reason = CancelReason::decode(next(input)?)?;
        let priority = next(input)?;
        let channel = next(input)?;
        let previous = next(input)?.checked_sub(1);
        check_previous(block, previous)?;
        let channel = check_channel(channel)?;
        let priority = u8::try_from(priority).ok().filter(|p| *p < PRIORITIES);
        let priority = priority.ok_or(WireError::BadPriority)?;
        Ok(Self { block, reason, priority, channel, previous })
    }
}

impl CancelReason {
    pub(super) fn decode(value: u64) -> Result<Self, WireError> {
        match value {
            0 => Ok(Self::Cancelled),
            1 => Ok(Self::Expired),
            2 => Ok(Self::Lost),
            other => Err(WireError::BadReason(other)),
        }
    }
}

impl RefuseReason {
    pub(super) fn decode(value: u64) -> Result<Self, WireError> {
        match value {
            0 => Ok(Self::TooLarge),
            1 => Ok(Self::NoMemory),
            2 => Ok(Self::TooManyBlocks),
            other => Err(WireError::BadReason(other)),
        }
    }
}
