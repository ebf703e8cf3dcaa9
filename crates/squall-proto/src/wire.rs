//! The wire format: typed items in QUIC datagrams.
//!
//! `docs/wire.md` is the specification; the test vectors at the end of this file stand in it too.

use crate::varint;
use squall_sched::{MAX_BLOCK, PRIORITIES};

/// Channels a session may use; a channel number is below this.
pub const MAX_CHANNELS: u16 = 1024;

/// Path samples in a feedback item at most.
const MAX_SAMPLES: usize = 16;

const TYPE_CANCEL: u64 = 0x01;
const TYPE_REFUSED: u64 = 0x02;
const TYPE_FEEDBACK: u64 = 0x04;
const TYPE_PROBE: u64 = 0x05;
const TYPE_PROBE_REPLY: u64 = 0x06;
const TYPE_DATA: u64 = 0x20;
const DATA_RELIABLE: u64 = 0x10;
const DATA_ORDERED: u64 = 0x08;

/// Send times count in units of this many microseconds.
pub(crate) const TICK: u64 = 4;
const TICK_MASK: u32 = 0xff_ffff;

/// The deadline left is told in units of this many microseconds.
const DEADLINE_UNIT: u64 = 256;

/// Longest header of a DATA item in bytes, with every field at its largest.
pub(crate) const MAX_DATA_HEADER: usize = 1 + 8 + 8 + 4 + 4 + 2 + 8 + 3;

/// A point in time modulo 2²⁴ ticks of 4 µs (67 s): enough to tell delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u32);

impl Stamp {
    /// The stamp of a time in microseconds.
    pub fn at(micros: u64) -> Self {
        Self((micros / TICK) as u32 & TICK_MASK)
    }

    /// Ticks from `earlier` to `self`, modulo 2²⁴.
    pub fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & TICK_MASK
    }
}

/// Header of a DATA item; the payload is the rest of the datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Id of the block; ids grow by one with each block a sender hands over.
    pub block: u64,
    /// Whether lost bytes are sent again.
    pub reliable: bool,
    /// For a block of an ordered channel: how many ids back the channel's previous block is; the first
    /// one names itself, with 0.
    pub previous: Option<u64>,
    /// 0 (most important) to 7.
    pub priority: u8,
    /// Where in the block the payload belongs.
    pub offset: u32,
    /// Length of the whole block.
    pub total: u32,
    /// Channel of the block.
    pub channel: u16,
    /// Microseconds left until the deadline, in steps of 256; `None` for no deadline.
    pub left: Option<u64>,
    /// When it was sent.
    pub sent: Stamp,
}

/// A block that its sender gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Id of the block.
    pub block: u64,
    /// Why.
    pub reason: CancelReason,
    /// Its priority.
    pub priority: u8,
    /// Its channel.
    pub channel: u16,
    /// As in [`Data::previous`], so that the order holds though nothing of the block ever arrived.
    pub previous: Option<u64>,
}

/// Why a sender gave a block up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The application, or the scheduler, took it back.
    Cancelled,
    /// Its deadline passed.
    Expired,
    /// It is unreliable, and bytes of it were lost.
    Lost,
}

/// Why a receiver will not take a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefuseReason {
    /// Larger than the receiver takes.
    TooLarge,
    /// No memory left for it.
    NoMemory,
    /// Too many blocks are open.
    TooManyBlocks,
}

/// What a receiver saw of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Number of the path.
    pub path: u32,
    /// Delay of the latest packet in ticks modulo 2²⁴: arrival by the receiver's clock minus departure
    /// by the sender's.
    pub delay: u32,
    /// DATA items received on the path since the feedback before.
    pub received: u32,
}

/// A receiver's report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Grows by one with each report; an older one that arrives late is ignored.
    pub sequence: u64,
    /// Bytes of blocks the receiver will take, counted over all blocks begun and not finished, in KiB.
    pub credit: u64,
    /// Bytes that arrived although they were there already, since the session began.
    pub duplicates: u64,
    /// Blocks that missed their deadline while incomplete, since the session began.
    pub expired: u64,
    /// One for each path on which something arrived since the feedback before.
    pub samples: Vec<Sample>,
}

/// An item of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Bytes of a block, to the end of the datagram.
    Data(Data, &'a [u8]),
    /// The sender gives a block up.
    Cancel(Cancel),
    /// The receiver does not take a block.
    Refused(u64, RefuseReason),
    /// What the receiver saw.
    Feedback(Feedback),
    /// To be answered at once, on the same path.
    Probe(u64, Stamp),
    /// The answer, with the stamp of the question.
    ProbeReply(u64, Stamp),
}

/// Why a datagram was not understood. The session is closed with this as the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The datagram ends within an item.
    #[error("datagram ends within an item")]
    Truncated,
    /// A block longer than the protocol allows.
    #[error("block length {0} exceeds {MAX_BLOCK}")]
    BlockTooLong(u64),
    /// Payload that does not fit its block.
    #[error("chunk at {offset} with {len} bytes does not fit a block of {total}")]
    ChunkOutside {
        /// Where it was to go.
        offset: u64,
        /// How long it is.
        len: usize,
        /// How long the block is.
        total: u64,
    },
    /// A block or a chunk of no bytes.
    #[error("empty block or chunk")]
    Empty,
    /// No such channel.
    #[error("channel {0} is not below {MAX_CHANNELS}")]
    BadChannel(u64),
    /// A priority that is not below 8.
    #[error("priority is not below {PRIORITIES}")]
    BadPriority,
    /// The previous block of the channel would have a negative id.
    #[error("block {block} names a previous block {back} ids back")]
    BadPrevious {
        /// Which block.
        block: u64,
        /// How far back.
        back: u64,
    },
    /// A reason number that is not defined.
    #[error("unknown reason {0}")]
    BadReason(u64),
    /// More path samples than there can be paths.
    #[error("feedback with {0} samples")]
    TooManySamples(u64),
    /// A path number that is out of range.
    #[error("path number {0} out of range")]
    BadPath(u64),
}

impl Data {
    /// Bytes of the header when encoded.
    pub fn header_len(&self) -> usize {
        1 + varint::len(self.block)
            + self.previous.map_or(0, varint::len)
            + varint::len(self.offset.into())
            + varint::len(self.total.into())
            + varint::len(self.channel.into())
            + varint::len(encode_left(self.left))
            + 3
    }

    /// Appends header and payload; nothing may follow in the same datagram.
    pub fn encode(&self, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert!(self.priority < PRIORITIES);
        let kind = TYPE_DATA
            | if self.reliable { DATA_RELIABLE } else { 0 }
            | if self.previous.is_some() { DATA_ORDERED } else { 0 }
            | u64::from(self.priority);
        varint::write(out, kind);
        varint::write(out, self.block);
        if let Some(back) = self.previous {
            varint::write(out, back);
        }
        varint::write(out, self.offset.into());
        varint::write(out, self.total.into());
        varint::write(out, self.channel.into());
        varint::write(out, encode_left(self.left));
        write_u24(out, self.sent.0);
        out.extend_from_slice(payload);
    }

    fn decode<'a>(kind: u64, input: &mut &'a [u8]) -> Result<(Self, &'a [u8]), WireError> {
        let block = next(input)?;
        let previous = if kind & DATA_ORDERED != 0 { Some(next(input)?) } else { None };
        check_previous(block, previous)?;
        let offset = next(input)?;
        let total = next(input)?;
        let channel = next(input)?;
        let left = decode_left(next(input)?);
        let sent = Stamp(read_u24(input)?);
        let payload = std::mem::take(input);
        if total > u64::from(MAX_BLOCK) {
            return Err(WireError::BlockTooLong(total));
        }
        if total == 0 || payload.is_empty() {
            return Err(WireError::Empty);
        }
        if offset > total || payload.len() as u64 > total - offset {
            return Err(WireError::ChunkOutside { offset, len: payload.len(), total });
        }
        let channel = check_channel(channel)?;
        let data = Self {
            block,
            reliable: kind & DATA_RELIABLE != 0,
            previous,
            priority: (kind & 0x07) as u8,
            offset: offset as u32,
            total: total as u32,
            channel,
            left,
            sent,
        };
        Ok((data, payload))
    }
}

impl Item<'_> {
    /// Appends the item. DATA must be the last of its datagram.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Data(data, payload) => data.encode(payload, out),
            Self::Cancel(cancel) => with_length(out, TYPE_CANCEL, |body| cancel.encode(body)),
            Self::Refused(block, reason) => with_length(out, TYPE_REFUSED, |body| {
                varint::write(body, *block);
                varint::write(body, *reason as u64);
            }),
            Self::Feedback(feedback) => with_length(out, TYPE_FEEDBACK, |body| feedback.encode(body)),
            Self::Probe(id, stamp) => with_length(out, TYPE_PROBE, |body| {
                varint::write(body, *id);
                write_u24(body, stamp.0);
            }),
            Self::ProbeReply(id, stamp) => with_length(out, TYPE_PROBE_REPLY, |body| {
                varint::write(body, *id);
                write_u24(body, stamp.0);
            }),
        }
    }
}

impl Cancel {
    fn encode(&self, body: &mut Vec<u8>) {
        varint::write(body, self.block);
        varint::write(body, self.reason as u64);
        varint::write(body, self.priority.into());
        varint::write(body, self.channel.into());
        varint::write(body, self.previous.map_or(0, |back| back + 1));
    }

    fn decode(input: &mut &[u8]) -> Result<Self, WireError> {
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

fn check_previous(block: u64, previous: Option<u64>) -> Result<(), WireError> {
    match previous.filter(|back| *back > block) {
        Some(back) => Err(WireError::BadPrevious { block, back }),
        None => Ok(()),
    }
}

fn check_channel(channel: u64) -> Result<u16, WireError> {
    let small = u16::try_from(channel).ok().filter(|c| *c < MAX_CHANNELS);
    small.ok_or(WireError::BadChannel(channel))
}

impl Feedback {
    fn encode(&self, body: &mut Vec<u8>) {
        varint::write(body, self.sequence);
        varint::write(body, self.credit);
        varint::write(body, self.duplicates);
        varint::write(body, self.expired);
        varint::write(body, self.samples.len() as u64);
        for sample in &self.samples {
            varint::write(body, sample.path.into());
            write_u24(body, sample.delay);
            varint::write(body, sample.received.into());
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, WireError> {
        let (sequence, credit, duplicates, expired) =
            (next(input)?, next(input)?, next(input)?, next(input)?);
        let count = next(input)?;
        if count > MAX_SAMPLES as u64 {
            return Err(WireError::TooManySamples(count));
        }
        let samples = (0..count)
            .map(|_| {
                let path = next(input)?;
                let path = u32::try_from(path).map_err(|_| WireError::BadPath(path))?;
                let delay = read_u24(input)?;
                let received = u32::try_from(next(input)?).unwrap_or(u32::MAX);
                Ok(Sample { path, delay, received })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { sequence, credit, duplicates, expired, samples })
    }
}

/// The items of a datagram, one by one; items of unknown type are skipped.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    rest: &'a [u8],
}

impl<'a> Items<'a> {
    /// The items of `datagram`.
    pub fn of(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }

    fn step(&mut self) -> Result<Option<Item<'a>>, WireError> {
        while !self.rest.is_empty() {
            let kind = next(&mut self.rest)?;
            if kind & !0x1f == TYPE_DATA {
                let (data, payload) = Data::decode(kind, &mut self.rest)?;
                return Ok(Some(Item::Data(data, payload)));
            }
            let len = usize::try_from(next(&mut self.rest)?).map_err(|_| WireError::Truncated)?;
            let (mut body, rest) = self.rest.split_at_checked(len).ok_or(WireError::Truncated)?;
            self.rest = rest;
            let body = &mut body;
            // What follows the known fields of an item is left to later versions.
            return Ok(Some(match kind {
                TYPE_CANCEL => Item::Cancel(Cancel::decode(body)?),
                TYPE_REFUSED => Item::Refused(next(body)?, RefuseReason::decode(next(body)?)?),
                TYPE_FEEDBACK => Item::Feedback(Feedback::decode(body)?),
                TYPE_PROBE => Item::Probe(next(body)?, Stamp(read_u24(body)?)),
                TYPE_PROBE_REPLY => Item::ProbeReply(next(body)?, Stamp(read_u24(body)?)),
                _ => continue,
            }));
        }
        Ok(None)
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.step().transpose();
        if matches!(item, Some(Err(_))) {
            self.rest = &[];
        }
        item
    }
}

impl CancelReason {
    fn decode(value: u64) -> Result<Self, WireError> {
        match value {
            0 => Ok(Self::Cancelled),
            1 => Ok(Self::Expired),
            2 => Ok(Self::Lost),
            other => Err(WireError::BadReason(other)),
        }
    }
}

impl RefuseReason {
    fn decode(value: u64) -> Result<Self, WireError> {
        match value {
            0 => Ok(Self::TooLarge),
            1 => Ok(Self::NoMemory),
            2 => Ok(Self::TooManyBlocks),
            other => Err(WireError::BadReason(other)),
        }
    }
}

fn next(input: &mut &[u8]) -> Result<u64, WireError> {
    varint::read(input).ok_or(WireError::Truncated)
}

fn with_length(out: &mut Vec<u8>, kind: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::with_capacity(32);
    write(&mut body);
    varint::write(out, kind);
    varint::write(out, body.len() as u64);
    out.extend_from_slice(&body);
}

fn write_u24(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes()[1..]);
}

fn read_u24(input: &mut &[u8]) -> Result<u32, WireError> {
    let (bytes, rest) = input.split_first_chunk::<3>().ok_or(WireError::Truncated)?;
    *input = rest;
    Ok(u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]))
}

fn encode_left(left: Option<u64>) -> u64 {
    left.map_or(0, |micros| (1 + micros / DEADLINE_UNIT).min(varint::MAX))
}

fn decode_left(value: u64) -> Option<u64> {
    value.checked_sub(1).map(|units| units.saturating_mul(DEADLINE_UNIT))
}
