//! Encoding of a buffer as a block: a header of fixed size, the caps while the receiver may not
//! have them, and the bytes.
//!
//! Numbers are big-endian. Times are running times of the sender in nanoseconds, at which a sink
//! there would show the buffer.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::caps;

/// Bytes of the header.
pub(crate) const HEADER: usize = 47;

/// A buffer, or the end of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Buffer(Header, Option<Bytes>, Bytes),
    /// The last block, with the number of buffers before it.
    End(u64),
}

/// All data of a buffer except its bytes and caps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) flags: Flags,
    /// Number of the buffer, from 0.
    pub(crate) number: u64,
    /// Number of its caps; it changes with the caps.
    pub(crate) generation: u32,
    /// Running time at which the buffer was pushed.
    pub(crate) sent: i64,
    pub(crate) pts: Option<i64>,
    pub(crate) dts: Option<i64>,
    pub(crate) duration: Option<u64>,
}

/// The transmitted flags of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) delta: bool,
    pub(crate) droppable: bool,
    pub(crate) header: bool,
    pub(crate) discont: bool,
    pub(crate) marker: bool,
}

const BUFFER: u8 = 0;
const END: u8 = 1;

const DELTA: u16 = 1;
const DROPPABLE: u16 = 1 << 1;
const HEADER_FLAG: u16 = 1 << 2;
const DISCONT: u16 = 1 << 3;
const MARKER: u16 = 1 << 4;
const PTS: u16 = 1 << 5;
const DTS: u16 = 1 << 6;
const DURATION: u16 = 1 << 7;
const CAPS: u16 = 1 << 8;

/// Bound of the times of a peer, 146 years, above which they are malformed, so that sums do not
/// overflow.
const MAX_TIME: i64 = 1 << 62;

impl Flags {
    fn bits(self) -> u16 {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        bit(self.delta, DELTA)
            | bit(self.droppable, DROPPABLE)
            | bit(self.header, HEADER_FLAG)
            | bit(self.discont, DISCONT)
            | bit(self.marker, MARKER)
    }

    fn of(bits: u16) -> Self {
        let has = |bit| bits & bit != 0;
        Self {
            delta: has(DELTA),
            droppable: has(DROPPABLE),
            header: has(HEADER_FLAG),
            discont: has(DISCONT),
            marker: has(MARKER),
        }
    }
}

impl Frame {
    /// Encodes the frame as a block.
    pub(crate) fn encode(&self) -> Bytes {
        match self {
            Self::Buffer(header, caps, data) => buffer(header, caps.as_deref(), data),
            Self::End(count) => {
                let mut block = BytesMut::with_capacity(9);
                block.put_u8(END);
                block.put_u64(*count);
                block.freeze()
            }
        }
    }

    /// Decodes a block of the peer.
    ///
    /// # Errors
    /// A description, if it is malformed.
    pub(crate) fn decode(mut block: Bytes) -> Result<Self, &'static str> {
        match block.try_get_u8() {
            Ok(BUFFER) if block.len() >= HEADER - 1 => decode_buffer(block),
            Ok(END) if block.len() == 8 => Ok(Self::End(block.get_u64())),
            Ok(BUFFER | END) => Err("a block is too short"),
            _ => Err("a block is of an unknown kind"),
        }
    }
}

fn buffer(header: &Header, caps: Option<&[u8]>, data: &[u8]) -> Bytes {
    let optional = [(header.pts.is_some(), PTS), (header.dts.is_some(), DTS)];
    let optional =
        optional.into_iter().chain([(header.duration.is_some(), DURATION), (caps.is_some(), CAPS)]);
    let bits =
        optional.fold(header.flags.bits(), |bits, (is_set, bit)| if is_set { bits | bit } else { bits });
    let mut block = BytesMut::with_capacity(HEADER + 2 + caps.map_or(0, <[u8]>::len) + data.len());
    block.put_u8(BUFFER);
    block.put_u16(bits);
    block.put_u64(header.number);
    block.put_u32(header.generation);
    block.put_i64(header.sent);
    block.put_i64(header.pts.unwrap_or(0));
    block.put_i64(header.dts.unwrap_or(0));
    block.put_u64(header.duration.unwrap_or(0));
    if let Some(caps) = caps {
        // `caps::encode` enforces the bound.
        block.put_u16(caps.len() as u16);
        block.put_slice(caps);
    }
    block.put_slice(data);
    block.freeze()
}

fn decode_buffer(mut block: Bytes) -> Result<Frame, &'static str> {
    let bits = block.get_u16();
    let has = |bit| bits & bit != 0;
    let (number, generation) = (block.get_u64(), block.get_u32());
    let (sent, pts, dts, duration) = (block.get_i64(), block.get_i64(), block.get_i64(), block.get_u64());
    let is_time = |time: i64| (-MAX_TIME..=MAX_TIME).contains(&time);
    if ![sent, pts, dts].into_iter().all(is_time) || duration > MAX_TIME as u64 {
        return Err("a time is out of bounds");
    }
    let caps = if has(CAPS) { Some(take_caps(&mut block)?) } else { None };
    let header = Header {
        flags: Flags::of(bits),
        number,
        generation,
        sent,
        pts: has(PTS).then_some(pts),
        dts: has(DTS).then_some(dts),
        duration: has(DURATION).then_some(duration),
    };
    Ok(Frame::Buffer(header, caps, block))
}

fn take_caps(block: &mut Bytes) -> Result<Bytes, &'static str> {
    let len = usize::from(block.try_get_u16().map_err(|_| "caps are cut off")?);
    if len > caps::MAX_BYTES || len > block.len() {
        return Err("caps are too long or cut off");
    }
    Ok(block.split_to(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Header {
        Header {
            flags: Flags { delta: true, marker: true, ..Flags::default() },
            number: 7,
            generation: 2,
            sent: -5,
            pts: Some(1_000_000_007),
            dts: Some(-33_000_000),
            duration: Some(33_333_333),
        }
    }

    #[test]
    fn frames_survive_the_wire() {
        let data = Bytes::from_static(b"picture");
        let frames = [
            Frame::Buffer(full(), Some(Bytes::from_static(b"caps")), data.clone()),
            Frame::Buffer(Header::default(), None, data),
            Frame::Buffer(Header { pts: None, ..full() }, None, Bytes::new()),
            Frame::End(u64::MAX),
        ];
        for frame in frames {
            assert_eq!(Frame::decode(frame.encode()), Ok(frame));
        }
    }

    #[test]
    fn every_prefix_and_every_changed_byte_is_handled() {
        let whole =
            Frame::Buffer(full(), Some(Bytes::from_static(b"caps")), Bytes::from_static(b"p")).encode();
        for len in 0..HEADER + 6 {
            assert!(Frame::decode(whole.slice(..len)).is_err(), "{len}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.to_vec();
                changed[at] = value;
                let _ = Frame::decode(changed.into());
            }
        }
    }

    #[test]
    fn times_are_bounded() {
        let far = Header { pts: Some(i64::MAX), ..full() };
        assert!(Frame::decode(Frame::Buffer(far, None, Bytes::new()).encode()).is_err());
        let far = Header { duration: Some(u64::MAX), ..full() };
        assert!(Frame::decode(Frame::Buffer(far, None, Bytes::new()).encode()).is_err());
    }
}
