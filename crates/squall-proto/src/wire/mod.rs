//! The wire format: typed items in QUIC datagrams.
//!
//! `docs/wire.md` is the specification. Its test vectors are those of the tests here.

mod control;
mod data;
mod feedback;
mod path_alert;
mod path_info;
mod path_loss;
mod repair;
mod run_parity;
mod stalled;
#[cfg(test)]
mod tests;

pub use control::{Cancel, CancelReason, RefuseReason};
pub use data::Data;
pub(crate) use data::MAX_DATA_HEADER;
pub use feedback::{Feedback, Sample};
pub use path_alert::PathAlert;
pub use path_info::PathInfo;
pub use path_loss::PathLoss;
pub use repair::Repair;
pub(crate) use repair::{MAX_REPAIR_HEADER, MAX_SYMBOL};
pub use run_parity::{Member, RunParity};
pub use stalled::Stalled;

use squall_sched::{MAX_BLOCK, PRIORITIES, Span, Time};

use crate::varint;

/// Number of channels of a session; a channel number is below it.
pub const MAX_CHANNELS: u16 = 1024;

const TYPE_PADDING: u8 = 0x00;
const TYPE_CANCEL: u64 = 0x01;
const TYPE_REFUSED: u64 = 0x02;
const TYPE_PATH_ALERT: u64 = 0x03;
const TYPE_FEEDBACK: u64 = 0x04;
const TYPE_PROBE: u64 = 0x05;
const TYPE_PROBE_REPLY: u64 = 0x06;
const TYPE_PATH_INFO: u64 = 0x07;
const TYPE_PATH_LOSS: u64 = 0x08;
const TYPE_STALLED: u64 = 0x09;
const TYPE_REPAIR: u64 = 0x0a;
const TYPE_RUN_PARITY: u64 = 0x0b;
const TYPE_REBUILT: u64 = 0x0c;
const TYPE_DATA: u64 = 0x20;
/// DATA uses the types from 0x20 to 0x3f, and from 0x60 to 0x7f: the other bits are flags and
/// priority.
const DATA_BITS: u64 = 0x5f;

/// Unit of send times in microseconds.
pub(crate) const TICK: u64 = 4;
const TICK_MASK: u32 = 0xff_ffff;
/// Distance of stamps beyond which they cannot be compared.
pub(crate) const WRAP: Span = Span::from_micros(TICK << 23);

/// A point in time modulo 2²⁴ ticks of 4 µs (67 s): enough for every delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u32);

impl Stamp {
    /// Returns the stamp of a time.
    pub fn at(time: Time) -> Self {
        Self((time.micros() / TICK) as u32 & TICK_MASK)
    }

    /// Returns the ticks from `earlier` to `self`, modulo 2²⁴.
    pub fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & TICK_MASK
    }

    /// Returns the time from this stamp to `now`, in whole ticks, modulo 2²⁴ of them.
    #[cfg(feature = "trace")]
    pub(crate) fn age(self, now: Time) -> Span {
        Span::from_micros(u64::from(Self::at(now).since(self)) * TICK)
    }

    /// Returns the shorter signed distance from `b` to `a`, in ticks modulo 2²⁴.
    pub(crate) fn distance(a: u32, b: u32) -> i64 {
        i64::from((a.wrapping_sub(b) << 8) as i32 >> 8)
    }
}

/// An item of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Bytes of a block, to the end of the datagram.
    Data(Data, &'a [u8]),
    /// The sender cancels a block.
    Cancel(Cancel),
    /// The receiver refuses a block.
    Refused(u64, RefuseReason),
    /// A receiver's report.
    Feedback(Feedback),
    /// A probe, to be answered at once on the same path.
    Probe(u64, Stamp),
    /// The answer to a probe, with its stamp.
    ProbeReply(u64, Stamp),
    /// Properties of a path that the sender declares.
    PathInfo(PathInfo),
    /// A report of the sender's radio about a path.
    PathAlert(PathAlert),
    /// Fates of the packets that the sender sent on a path.
    PathLoss(PathLoss),
    /// Blocks that arrived later than their reader expected.
    Stalled(Stalled),
    /// A symbol of a block's parity.
    Repair(Repair, &'a [u8]),
    /// A symbol of parity over a run of small blocks.
    RunParity(RunParity, &'a [u8]),
    /// The receiver has a block, thanks to the parity of a run.
    Rebuilt(u64),
}

/// Reason why a datagram is invalid. The session is closed with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The datagram ends within an item.
    #[error("datagram ends within an item")]
    Truncated,
    /// A block is longer than the protocol allows.
    #[error("block length {0} exceeds {MAX_BLOCK}")]
    BlockTooLong(u64),
    /// A payload does not fit its block.
    #[error("chunk at {offset} with {len} bytes does not fit a block of {total}")]
    ChunkOutside {
        /// Offset of the payload.
        offset: u64,
        /// Length of the payload.
        len: usize,
        /// Length of the block.
        total: u64,
    },
    /// A block or a chunk has no bytes.
    #[error("empty block or chunk")]
    Empty,
    /// There is no such channel.
    #[error("channel {0} is not below {MAX_CHANNELS}")]
    BadChannel(u64),
    /// A priority is not below 8.
    #[error("priority is not below {PRIORITIES}")]
    BadPriority,
    /// The previous block of the channel would have a negative id.
    #[error("block {block} names a previous block {back} ids back")]
    BadPrevious {
        /// Id of the block.
        block: u64,
        /// Distance to the previous block.
        back: u64,
    },
    /// A reason number is not defined.
    #[error("unknown reason {0}")]
    BadReason(u64),
    /// Feedback has more path samples than there can be paths.
    #[error("feedback with {0} samples")]
    TooManySamples(u64),
    /// A kind of alert is not defined.
    #[error("unknown kind of alert {0}")]
    BadAlert(u64),
    /// A quality or a gap is above 1.
    #[error("quality {0} is above 1000 thousandths")]
    BadQuality(u64),
    /// A path number is out of range.
    #[error("path number {0} out of range")]
    BadPath(u64),
    /// The block does not have this parity.
    #[error("there is no parity symbol {index} of {size} bytes of a block of {total}")]
    BadSymbol {
        /// Number of the symbol.
        index: u64,
        /// Size of the symbol.
        size: u64,
        /// Length of the block.
        total: u32,
    },
    /// A run of this number of blocks does not have this parity.
    #[error("there is no parity symbol {index} of {size} bytes of a run of {blocks} blocks")]
    BadRun {
        /// Number of blocks.
        blocks: u64,
        /// Size of the symbol.
        size: u64,
        /// Number of the symbol.
        index: u64,
    },
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
            Self::PathAlert(alert) => with_length(out, TYPE_PATH_ALERT, |body| alert.encode(body)),
            Self::PathInfo(info) => with_length(out, TYPE_PATH_INFO, |body| info.encode(body)),
            Self::PathLoss(loss) => with_length(out, TYPE_PATH_LOSS, |body| loss.encode(body)),
            Self::Stalled(stalled) => with_length(out, TYPE_STALLED, |body| stalled.encode(body)),
            Self::Repair(repair, payload) => repair.encode(payload, out),
            Self::RunParity(run, payload) => run.encode(payload, out),
            Self::Rebuilt(block) => with_length(out, TYPE_REBUILT, |body| varint::write(body, *block)),
        }
    }
}

/// Appends a PROBE whose body is padded with zeros, so that the datagram has `size` bytes: bytes
/// after the known fields of an item are skipped.
pub(crate) fn encode_padded_probe(id: u64, stamp: Stamp, size: usize, out: &mut Vec<u8>) {
    // The type, and a length of two bytes.
    let body = size.saturating_sub(out.len() + 3).clamp(64, 16_383);
    with_length(out, TYPE_PROBE, |bytes| {
        varint::write(bytes, id);
        write_u24(bytes, stamp.0);
        bytes.resize(body, 0);
    });
}

/// Returns a datagram of `size` bytes with one item that receivers skip; `None` if it is too short
/// or long for one.
pub(crate) fn padding(size: usize) -> Option<Vec<u8>> {
    // A length of two bytes, even for a short body (RFC 9000 §16).
    let body = size.checked_sub(3).filter(|body| *body < 1 << 14)?;
    let mut datagram = vec![TYPE_PADDING];
    varint::write_in(&mut datagram, body as u64, 2);
    datagram.resize(size, 0);
    Some(datagram)
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

fn check_path(number: u64) -> Result<u32, WireError> {
    u32::try_from(number).map_err(|_| WireError::BadPath(number))
}

/// The items of a datagram, one by one; items of unknown type are skipped.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    rest: &'a [u8],
}

impl<'a> Items<'a> {
    /// Iterates over the items of `datagram`.
    pub fn of(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }

    fn step(&mut self) -> Result<Option<Item<'a>>, WireError> {
        while !self.rest.is_empty() {
            let kind = next(&mut self.rest)?;
            if kind & !DATA_BITS == TYPE_DATA {
                let (data, payload) = Data::decode(kind, &mut self.rest)?;
                return Ok(Some(Item::Data(data, payload)));
            }
            let len = usize::try_from(next(&mut self.rest)?).map_err(|_| WireError::Truncated)?;
            let (mut body, rest) = self.rest.split_at_checked(len).ok_or(WireError::Truncated)?;
            self.rest = rest;
            let body = &mut body;
            // Bytes after the known fields of an item are reserved for later versions.
            return Ok(Some(match kind {
                TYPE_CANCEL => Item::Cancel(Cancel::decode(body)?),
                TYPE_REFUSED => Item::Refused(next(body)?, RefuseReason::decode(next(body)?)?),
                TYPE_FEEDBACK => Item::Feedback(Feedback::decode(body)?),
                TYPE_PROBE => Item::Probe(next(body)?, Stamp(read_u24(body)?)),
                TYPE_PROBE_REPLY => Item::ProbeReply(next(body)?, Stamp(read_u24(body)?)),
                TYPE_PATH_ALERT => Item::PathAlert(PathAlert::decode(body)?),
                TYPE_PATH_INFO => Item::PathInfo(PathInfo::decode(body)?),
                TYPE_PATH_LOSS => Item::PathLoss(PathLoss::decode(body)?),
                TYPE_STALLED => Item::Stalled(Stalled::decode(body)?),
                TYPE_REPAIR => {
                    let (repair, payload) = Repair::decode(body)?;
                    Item::Repair(repair, payload)
                }
                TYPE_RUN_PARITY => {
                    let (run, payload) = RunParity::decode(body)?;
                    Item::RunParity(run, payload)
                }
                TYPE_REBUILT => Item::Rebuilt(next(body)?),
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
