//! DATA: bytes of a block.

use squall_sched::{MAX_BLOCK, PRIORITIES};

use super::{Stamp, TYPE_DATA, WireError, check_channel, check_previous, next, read_u24, write_u24};
use crate::varint;

const PARTIAL: u64 = 0x40;
const RELIABLE: u64 = 0x10;
const ORDERED: u64 = 0x08;
const PRIORITY: u64 = 0x07;

/// Unit of the time left to the deadline, in microseconds.
const DEADLINE_UNIT: u64 = 256;

/// Longest header of a DATA item in bytes, with every field at its largest; one more if the block
/// is partial.
pub(crate) const MAX_DATA_HEADER: usize = 1 + 8 + 8 + 4 + 4 + 2 + 8 + 3;

/// Header of a DATA item; the payload is the rest of the datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Id of the block; ids grow by one with each block that a sender hands over.
    pub block: u64,
    /// Lost bytes are sent again.
    pub reliable: bool,
    /// The receiver can use parts of the block if it does not arrive whole.
    pub partial: bool,
    /// For a block of an ordered channel: distance in ids back to the channel's previous block; 0
    /// for the first one.
    pub previous: Option<u64>,
    /// Priority, 0 (most important) to 7.
    pub priority: u8,
    /// Offset of the payload in the block.
    pub offset: u32,
    /// Length of the whole block; `None` while it is not final.
    pub total: Option<u32>,
    /// Channel of the block.
    pub channel: u16,
    /// Microseconds left until the deadline, in steps of 256; `None` for no deadline.
    pub left: Option<u64>,
    /// Time at which it was sent.
    pub sent: Stamp,
}

impl Data {
    /// Returns the encoded length of the header in bytes, with an offset of this many bytes.
    pub fn header_len(&self, offset_len: usize) -> usize {
        self.flags_len() + self.fields_len() + offset_len
    }

    /// Returns the shortest encoding of the offset in bytes.
    pub fn offset_len(&self) -> usize {
        varint::len(self.offset.into())
    }

    /// Returns the encoding of the longest offset of the block in bytes. With it, the headers of
    /// all its chunks have one length, and packets of one size can leave in one call.
    pub fn even_offset_len(&self) -> usize {
        varint::len(self.offset.max(self.total.unwrap_or(0)).into())
    }

    /// Returns the length of the fields of the block in bytes.
    pub(super) fn fields_len(&self) -> usize {
        varint::len(self.block)
            + self.previous.map_or(0, varint::len)
            + varint::len(self.total.unwrap_or(0).into())
            + varint::len(self.channel.into())
            + varint::len(encode_left(self.left))
            + 3
    }

    /// Returns the length of the type in bytes, which is that of its flags alone.
    pub(super) fn flags_len(&self) -> usize {
        varint::len(self.flags())
    }

    /// Returns the flags of the type.
    pub(super) fn flags(&self) -> u64 {
        debug_assert!(self.priority < PRIORITIES);
        let reliable = if self.reliable { RELIABLE } else { 0 };
        let ordered = if self.previous.is_some() { ORDERED } else { 0 };
        let partial = if self.partial { PARTIAL } else { 0 };
        partial | reliable | ordered | u64::from(self.priority)
    }

    /// Appends header and payload; nothing may follow in the same datagram. Without payload it
    /// announces the end of a block that grew: the offset is the length.
    pub fn encode(&self, payload: &[u8], out: &mut Vec<u8>) {
        self.encode_with(self.offset_len(), payload, out);
    }

    /// Like [`Self::encode`], with an offset of this many bytes (1, 2, 4 or 8), which may be more
    /// than it needs (RFC 9000 §16).
    pub fn encode_with(&self, offset_len: usize, payload: &[u8], out: &mut Vec<u8>) {
        varint::write(out, TYPE_DATA | self.flags());
        self.encode_fields(Some(offset_len), out);
        out.extend_from_slice(payload);
    }

    /// Appends the fields of the block, with the offset of a payload after the id of the block, in
    /// this many bytes.
    pub(super) fn encode_fields(&self, offset_len: Option<usize>, out: &mut Vec<u8>) {
        varint::write(out, self.block);
        if let Some(back) = self.previous {
            varint::write(out, back);
        }
        if let Some(len) = offset_len {
            varint::write_in(out, self.offset.into(), len);
        }
        varint::write(out, self.total.unwrap_or(0).into());
        varint::write(out, self.channel.into());
        varint::write(out, encode_left(self.left));
        write_u24(out, self.sent.0);
    }

    /// Reads the fields of the block; returns the offset separately, 0 if there is none.
    pub(super) fn decode_fields(
        flags: u64,
        has_offset: bool,
        input: &mut &[u8],
    ) -> Result<(Self, u64), WireError> {
        let block = next(input)?;
        let previous = if flags & ORDERED != 0 { Some(next(input)?) } else { None };
        check_previous(block, previous)?;
        let offset = if has_offset { next(input)? } else { 0 };
        let total = next(input)?;
        let channel = next(input)?;
        let left = decode_left(next(input)?);
        let sent = Stamp(read_u24(input)?);
        if total > u64::from(MAX_BLOCK) {
            return Err(WireError::BlockTooLong(total));
        }
        let data = Self {
            block,
            reliable: flags & RELIABLE != 0,
            partial: flags & PARTIAL != 0,
            previous,
            priority: (flags & PRIORITY) as u8,
            offset: 0,
            total: Some(total as u32).filter(|total| *total > 0),
            channel: check_channel(channel)?,
            left,
            sent,
        };
        Ok((data, offset))
    }

    pub(super) fn decode<'a>(kind: u64, input: &mut &'a [u8]) -> Result<(Self, &'a [u8]), WireError> {
        let (data, offset) = Self::decode_fields(kind, true, input)?;
        let payload = std::mem::take(input);
        let total = u64::from(data.total.unwrap_or(0));
        // Without payload only the end of a block that grew can be announced.
        if payload.is_empty() && (total == 0 || offset != total) {
            return Err(WireError::Empty);
        }
        let longest = if total == 0 { u64::from(MAX_BLOCK) } else { total };
        if offset > longest || payload.len() as u64 > longest - offset {
            return Err(WireError::ChunkOutside { offset, len: payload.len(), total: longest });
        }
        Ok((Self { offset: offset as u32, ..data }, payload))
    }
}

/// Longest time that can be encoded, in units: 584,000 years, so that it fits `u64` in
/// microseconds.
const MAX_LEFT: u64 = u64::MAX / DEADLINE_UNIT;

pub(super) fn encode_left(left: Option<u64>) -> u64 {
    left.map_or(0, |micros| 1 + micros / DEADLINE_UNIT)
}

pub(super) fn decode_left(value: u64) -> Option<u64> {
    value.checked_sub(1).map(|units| units.min(MAX_LEFT) * DEADLINE_UNIT)
}
