//! Blocks of a flow on the wire: datagrams, and a header from which the far end restores their
//! order and timing. A block can be sent, and read, while it grows.
//!
//! ```text
//! flag and class (1)  number (6)  stamp (6)  before (4)  held (4)  { length (2)  offset (2)  datagram }…
//! ```
//!
//! All numbers are big-endian. `docs/tunnel.md` describes the fields.

use std::{mem, ops::Range};

use bytes::{Buf as _, Bytes, BytesMut};
use squall::Depends;
use squall_units::{Span, Time};

use crate::{media::Class, wire::nulls};

/// Bytes before the first datagram.
pub(crate) const HEADER: usize = 21;

/// Bytes before each datagram.
pub(crate) const RECORD: usize = 4;

/// Step of the offsets of datagrams, which range up to a second.
const STEP: Span = Span::from_micros(16);

/// Largest number or stamp.
const MAX_48: u64 = (1 << 48) - 1;

/// Number of strands of a flow, each with an order of its own.
pub(crate) const STRANDS: u16 = 1 << 10;

/// Bits of the number of a block in its strand; those above are the strand.
const NUMBER: u32 = 48 - STRANDS.ilog2();

/// Flag in the class byte: the datagrams are written by [`nulls::delete`].
const WITHOUT_NULLS: u8 = 0x80;

/// Datagrams of a block, or the next ones of a block that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) class: Class,
    /// Dependency of the block on others.
    pub(crate) depends: Depends,
    /// Arrival of the first datagram of the block.
    pub(crate) stamp: Time,
    pub(crate) datagrams: u32,
    /// The datagrams are written without null packets.
    without_nulls: bool,
    /// Bytes of the removed null packets.
    pub(crate) deleted: usize,
    /// Bytes of the datagrams, including null packets.
    pub(crate) payload: usize,
    /// The block begins with these datagrams.
    pub(crate) begins: bool,
    /// The block ends with these datagrams.
    pub(crate) ends: bool,
    /// Expected size of the whole block.
    pub(crate) expected: usize,
    /// Strand of the flow, below [`STRANDS`].
    pub(crate) strand: u16,
    /// The block goes ahead of others of its flow that wait in the session.
    pub(crate) is_urgent: bool,
    wire: Vec<u8>,
}

impl Frame {
    /// Creates the beginning of a block, without datagrams.
    pub(crate) fn new(stamp: Time, expected: usize) -> Self {
        let wire = vec![0; HEADER];
        Self {
            class: Class::Reference,
            depends: Depends::Nothing,
            stamp,
            datagrams: 0,
            without_nulls: false,
            deleted: 0,
            payload: 0,
            begins: true,
            ends: false,
            expected,
            strand: 0,
            is_urgent: false,
            wire,
        }
    }

    /// Sets whether datagrams are written without null packets.
    pub(crate) fn without_nulls(self, without_nulls: bool) -> Self {
        Self { without_nulls, ..self }
    }

    /// Returns the next part of the same block, without datagrams.
    pub(crate) fn next(&self) -> Self {
        Self {
            class: self.class,
            depends: self.depends,
            without_nulls: self.without_nulls,
            begins: false,
            ..Self::new(self.stamp, self.expected)
        }
    }

    /// Makes this the beginning of a block whose actual beginning was dropped.
    pub(crate) fn beginning(self) -> Self {
        Self { begins: true, ..self }
    }

    /// `true` if it has no datagrams, and only ends the block.
    pub(crate) fn is_empty(&self) -> bool {
        self.datagrams == 0
    }

    /// Appends a datagram of less than 65,535 bytes that arrived at `now`.
    pub(crate) fn push(&mut self, now: Time, datagram: &[u8]) {
        debug_assert!(datagram.len() < usize::from(u16::MAX));
        let offset = u16::try_from((now - self.stamp) / STEP).unwrap_or(u16::MAX);
        self.append(offset, datagram);
    }

    fn append(&mut self, offset: u16, datagram: &[u8]) {
        let at = self.wire.len();
        self.wire.extend_from_slice(&[0; 2]);
        self.wire.extend_from_slice(&offset.to_be_bytes());
        if self.without_nulls {
            self.deleted += nulls::delete(datagram, &mut self.wire);
        } else {
            self.wire.extend_from_slice(datagram);
        }
        let length = self.wire.len() - at - RECORD;
        self.wire[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
        self.datagrams += 1;
        self.payload += datagram.len();
    }

    /// Appends the next part of the same block.
    pub(crate) fn extend(&mut self, next: &Self) {
        self.wire.extend_from_slice(&next.wire[HEADER..]);
        self.datagrams += next.datagrams;
        self.deleted += next.deleted;
        self.payload += next.payload;
        self.ends = next.ends;
    }

    /// Restores all null packets, for an end that does not restore them.
    pub(crate) fn with_nulls(self) -> Self {
        if !self.without_nulls {
            return self;
        }
        let mut whole = Self { without_nulls: false, begins: self.begins, ends: self.ends, ..self.next() };
        let (mut rest, mut buffer) = (&self.wire[HEADER..], Vec::new());
        while let Some((offset, datagram, after)) = record(rest) {
            buffer.clear();
            // Cannot fail: this end wrote it.
            let _ = nulls::restore(datagram, &mut buffer);
            whole.append(offset, &buffer);
            rest = after;
        }
        whole
    }

    /// Returns the same part of the block without its datagrams.
    pub(crate) fn emptied(&self) -> Self {
        Self { begins: self.begins, ends: self.ends, ..self.next() }
    }

    /// Returns the bytes on the wire.
    pub(crate) fn len(&self) -> usize {
        if self.begins { self.wire.len() } else { self.wire.len() - HEADER }
    }

    /// Returns the first bytes of a block that is sent at `now`, with its number in its flow and
    /// session, and its distance in time to the previous block.
    pub(crate) fn seal(mut self, now: Time, number: u64, before: Span) -> Bytes {
        let in_32 = |span: Span| u32::try_from(span.micros()).unwrap_or(u32::MAX).to_be_bytes();
        self.wire[0] = self.class as u8 | if self.without_nulls { WITHOUT_NULLS } else { 0 };
        self.wire[1..7].copy_from_slice(&number.to_be_bytes()[2..]);
        self.wire[7..13].copy_from_slice(&(self.stamp.micros() & MAX_48).to_be_bytes()[2..]);
        self.wire[13..17].copy_from_slice(&in_32(before));
        self.wire[17..21].copy_from_slice(&in_32(now - self.stamp));
        self.wire.into()
    }

    /// Returns the next bytes of a block that has begun.
    pub(crate) fn into_rest(self) -> Bytes {
        Bytes::from(self.wire).slice(HEADER..)
    }
}

/// Returns the number on the wire of a block in a strand.
pub(crate) fn number(strand: u16, number: u64) -> u64 {
    u64::from(strand) << NUMBER | number & ((1 << NUMBER) - 1)
}

/// Returns the strand of a number on the wire, and the number of the block in it.
pub(crate) fn strand(number: u64) -> (u16, u64) {
    ((number >> NUMBER) as u16, number & ((1 << NUMBER) - 1))
}

/// Reason why a block cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a block ends within its header")]
    Short,
    #[error("unknown class {0}")]
    Class(u8),
    #[error("a block ends within a datagram")]
    Cut,
    #[error("a block without datagrams")]
    Empty,
    #[error("a datagram whose null packets cannot be restored")]
    Nulls,
}

/// Header of a received block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) class: Class,
    /// The datagrams are written without null packets.
    without_nulls: bool,
    pub(crate) number: u64,
    /// Arrival of the first datagram, by the sender's clock.
    pub(crate) stamp: Time,
    /// Time from the stamp of the previous block to this one.
    pub(crate) before: Span,
    /// Time from the stamp to the departure.
    pub(crate) held: Span,
}

impl Header {
    fn read(bytes: &[u8; HEADER]) -> Result<Self, FrameError> {
        let number =
            |range: Range<usize>| bytes[range].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let class = Class::from_number(bytes[0] & !WITHOUT_NULLS).ok_or(FrameError::Class(bytes[0]))?;
        let without_nulls = bytes[0] & WITHOUT_NULLS != 0;
        let span = |range| Span::from_micros(number(range));
        let (stamp, before, held) = (Time::EPOCH + span(7..13), span(13..17), span(17..21));
        Ok(Self { class, without_nulls, number: number(1..7), stamp, before, held })
    }

    /// Returns a datagram of the block as it entered at the other end.
    pub(crate) fn whole<'a>(&self, datagram: &'a [u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
        if !self.without_nulls {
            return datagram;
        }
        buffer.clear();
        // Checked by the reader.
        let _ = nulls::restore(datagram, buffer);
        buffer
    }
}

/// Reads a block as it grows. Stores the header, and at most one incomplete datagram.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    header: Option<Header>,
    /// Bytes of an incomplete header or datagram.
    rest: BytesMut,
    has_datagrams: bool,
}

impl FrameReader {
    /// Returns the header, once it is complete.
    pub(crate) fn header(&self) -> Option<Header> {
        self.header
    }

    /// Adds the next bytes of the block. Returns the datagrams that they complete, for
    /// [`datagram`].
    ///
    /// # Errors
    /// If they are malformed, or if they are the last ones and end within a datagram.
    pub(crate) fn read(&mut self, part: Bytes, is_last: bool) -> Result<Bytes, FrameError> {
        let mut bytes = part;
        if !self.rest.is_empty() {
            self.rest.extend_from_slice(&bytes);
            bytes = if self.is_whole() { mem::take(&mut self.rest).freeze() } else { Bytes::new() };
        }
        if let (None, Some(header)) = (self.header, bytes.first_chunk()) {
            self.header = Some(Header::read(header)?);
            bytes.advance(HEADER);
        }
        let datagrams = bytes.split_to(self.header.map_or(0, |_| whole(&bytes)));
        if self.header.is_some_and(|header| header.without_nulls) && !are_valid(&datagrams) {
            return Err(FrameError::Nulls);
        }
        self.has_datagrams |= !datagrams.is_empty();
        // Copied, because a slice would keep the memory of the whole packet.
        self.rest.extend_from_slice(&bytes);
        if is_last { self.check_end().map(|()| datagrams) } else { Ok(datagrams) }
    }

    /// `true` if the stored bytes are complete.
    fn is_whole(&self) -> bool {
        if self.header.is_some() { record(&self.rest).is_some() } else { self.rest.len() >= HEADER }
    }

    fn check_end(&self) -> Result<(), FrameError> {
        match (self.header, self.rest.is_empty(), self.has_datagrams) {
            (None, ..) => Err(FrameError::Short),
            (_, false, _) => Err(FrameError::Cut),
            (.., false) => Err(FrameError::Empty),
            _ => Ok(()),
        }
    }
}

/// Returns the number of bytes of complete datagrams.
fn whole(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some((_, _, after)) = record(rest) {
        rest = after;
    }
    bytes.len() - rest.len()
}

/// `true` if the null packets of all complete datagrams can be restored.
fn are_valid(mut datagrams: &[u8]) -> bool {
    while let Some((_, datagram, after)) = record(datagrams) {
        if !nulls::is_valid(datagram) {
            return false;
        }
        datagrams = after;
    }
    true
}

/// A datagram, and the position of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Arrival relative to the first datagram of its block.
    pub(crate) offset: Span,
    pub(crate) datagram: &'a [u8],
    pub(crate) next: usize,
}

/// Returns the datagram at this position of the bytes from [`FrameReader::read`]; the first is at
/// 0.
pub(crate) fn datagram(datagrams: &[u8], at: usize) -> Option<Record<'_>> {
    let (offset, datagram, _) = record(datagrams.get(at..)?)?;
    Some(Record { offset: STEP * offset.into(), datagram, next: at + RECORD + datagram.len() })
}

/// Returns the offset of a datagram in steps, its bytes, and the bytes after it.
fn record(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<RECORD>()?;
    let (datagram, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([head[0], head[1]])))?;
    Some((u16::from_be_bytes([head[2], head[3]]), datagram, rest))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use squall_units::short::{at_ms, at_us, us};

    use super::*;
    use crate::wire::nulls::tests::usual;

    /// Returns complete datagrams with their arrival relative to the first one of their block.
    pub(crate) fn listed(datagrams: &[u8]) -> Vec<(Span, Vec<u8>)> {
        let mut at = 0;
        let next = || {
            let record = datagram(datagrams, at)?;
            at = record.next;
            Some((record.offset, record.datagram.to_vec()))
        };
        std::iter::from_fn(next).collect()
    }

    /// Returns complete datagrams as they entered at the other end.
    pub(crate) fn restored(header: Header, datagrams: &[u8]) -> Vec<(Span, Vec<u8>)> {
        let whole = |bytes: Vec<u8>| header.whole(&bytes, &mut Vec::new()).to_vec();
        listed(datagrams).into_iter().map(|(offset, bytes)| (offset, whole(bytes))).collect()
    }

    /// Test vectors of `tests/vectors/0.1.0.txt`.
    #[test]
    fn a_frame_is_written_as_documented() {
        let mut frame = Frame::new(at_ms(1_000), 0);
        frame.class = Class::Key;
        frame.push(at_ms(1_000), b"abc");
        let mut next = frame.next();
        next.push(at_us(1_000_160), b"");
        assert_eq!((frame.len(), next.len()), (28, 4));
        let wire = [&frame.seal(at_us(1_000_200), 258, us(33_333))[..], &next.into_rest()].concat();
        let expected = "02 000000000102 0000000f4240 00008235 000000c8 0003 0000 616263 0000 000a";
        let hex: String = wire.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected.replace(' ', ""));

        let mut frame = Frame::new(at_ms(1_000), 0).without_nulls(true);
        frame.push(at_ms(1_000), &usual());
        frame.push(at_us(1_000_160), b"abc");
        assert_eq!((frame.datagrams, frame.payload, frame.deleted), (2, 191, 188));
        let hex: String =
            frame.seal(at_us(1_000_200), 0, us(0)).iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = "81 000000000000 0000000f4240 00000000 000000c8 \
            0009 0000 01 0000 00bc 00 1f 10 ff 0004 000a 00 616263";
        assert_eq!(hex, expected.replace(' ', ""));
    }

    #[test]
    fn faults_have_names() {
        let open =
            |bytes: &[u8], is_last| FrameReader::default().read(Bytes::copy_from_slice(bytes), is_last);
        let mut frame = Frame::new(at_us(0), 0);
        frame.push(at_us(0), b"abc");
        let wire = frame.seal(at_us(0), 0, us(0));
        for (bytes, fault) in [
            (&wire[..20], FrameError::Short),
            (&wire[..21], FrameError::Empty),
            (&wire[..wire.len() - 1], FrameError::Cut),
        ] {
            assert_eq!(open(bytes, true), Err(fault));
            assert_eq!(open(bytes, false), Ok(Bytes::new()), "more may come");
        }
        let mut strange = wire.to_vec();
        strange[0] = 9;
        assert_eq!(open(&strange[..21], false), Err(FrameError::Class(9)));
        // The first byte of the datagram counts runs; here there are none.
        strange[0] = Class::Key as u8 | WITHOUT_NULLS;
        assert_eq!(open(&strange, false), Err(FrameError::Nulls));
    }

    #[test]
    fn a_reader_keeps_less_than_a_datagram() {
        let mut frame = Frame::new(at_us(0), 0);
        (0..10).for_each(|_| frame.push(at_us(0), &[7; 1_000]));
        let wire = frame.seal(at_us(0), 0, us(0));
        let mut reader = FrameReader::default();
        let whole = reader.read(wire.slice(..HEADER + 9 * 1_004 + 1_003), false).expect("is well formed");
        assert_eq!((whole.len(), reader.rest.len()), (9 * 1_004, 1_003));
        assert!(reader.rest.capacity() < 2_000, "{} bytes", reader.rest.capacity());
        assert_eq!(listed(&reader.read(wire.slice(wire.len() - 1..), true).expect("is the end")).len(), 1);
    }

    proptest! {
        /// Blocks are written and read at once, or in parts with arbitrary boundaries.
        #[test]
        fn what_goes_in_comes_out(
            all in prop::collection::vec(
                (0..70_000u64, prop::collection::vec(any::<u8>(), 0..2000), 0..9usize),
                1..20,
            ),
            without_nulls in any::<bool>(),
            restores in any::<bool>(),
            stamp in 0..MAX_48,
            number in 0..MAX_48,
            before in 0..u64::from(u32::MAX),
            pieces in 1..5usize,
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let stamp = at_us(stamp);
            let all: Vec<_> =
                all.into_iter().map(|(after, data, nulls)| (after, [data, usual().repeat(nulls)].concat())).collect();
            let (mut wire, mut frame) = (Vec::new(), Frame::new(stamp, 0).without_nulls(without_nulls));
            for (n, (after, datagram)) in all.iter().enumerate() {
                frame.push(stamp + us(*after), datagram);
                if n % pieces == 0 {
                    let next = frame.next();
                    wire.push(mem::replace(&mut frame, next));
                }
            }
            wire.push(frame);
            // An end that does not restore null packets gets all of them.
            let wire = wire.into_iter().map(|frame| if restores { frame } else { frame.with_nulls() });
            let write = |frame: Frame| match frame.begins {
                true => frame.seal(stamp + us(9), number, us(before)),
                false => frame.into_rest(),
            };
            let wire = Bytes::from(wire.map(write).collect::<Vec<_>>().concat());
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(wire.len())).chain([0, wire.len()]).collect();
            cuts.sort_unstable();
            let (mut reader, mut came) = (FrameReader::default(), Vec::new());
            for cut in cuts.windows(2) {
                let part = reader.read(wire.slice(cut[0]..cut[1]), cut[1] == wire.len());
                let part = part.expect("is well formed");
                came.extend(reader.header().map(|header| restored(header, &part)).unwrap_or_default());
            }
            let header = reader.header().expect("is there");
            prop_assert_eq!(header.without_nulls, without_nulls && restores);
            prop_assert_eq!((header.number, header.stamp, header.before, header.held), (number, stamp, us(before), us(9)));
            let sent = all.into_iter().map(|(after, datagram)| (STEP * (us(after) / STEP), datagram));
            prop_assert_eq!(came, sent.collect::<Vec<_>>());
        }

        #[test]
        fn junk_is_an_error_or_harmless(junk in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(datagrams) = FrameReader::default().read(junk.into(), true) {
                prop_assert!(!listed(&datagrams).is_empty());
            }
        }
    }
}
