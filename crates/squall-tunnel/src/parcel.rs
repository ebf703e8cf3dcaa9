//! A block of a flow on the wire: datagrams, and what the far end has to know to let them out as they came in. It may
//! leave, and be read, while it grows.
//!
//! ```text
//! class (1)  number (6)  stamp (6)  before (4)  held (4)  { length (2)  offset (2)  datagram }…
//! ```
//!
//! All numbers are big-endian. `docs/tunnel.md` says what they mean.

use std::{mem, ops::Range};

use bytes::{Buf as _, Bytes, BytesMut};
use squall_units::Micros;

use crate::media::Class;

/// Bytes before the first datagram.
pub(crate) const HEAD: usize = 21;

/// Bytes before each datagram.
const RECORD: usize = 4;

/// Offsets of datagrams are told in steps of this many microseconds, up to a second.
const STEP: Micros = 16;

/// Largest number or stamp.
const MAX_48: u64 = (1 << 48) - 1;

/// Datagrams that are carried together, or some of them: those that follow the parcel before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) class: Class,
    /// When the first datagram of the block came in.
    pub(crate) stamp: Micros,
    pub(crate) datagrams: u32,
    /// Whether a block begins here, and whether it ends.
    pub(crate) begins: bool,
    pub(crate) ends: bool,
    /// Bytes that the whole block is likely to take.
    pub(crate) expected: usize,
    wire: Vec<u8>,
}

impl Parcel {
    /// The beginning of a block, without datagrams.
    pub(crate) fn new(stamp: Micros, expected: usize) -> Self {
        let wire = vec![0; HEAD];
        Self { class: Class::Reference, stamp, datagrams: 0, begins: true, ends: false, expected, wire }
    }

    /// What follows in the same block, without datagrams.
    pub(crate) fn next(&self) -> Self {
        Self { class: self.class, begins: false, ..Self::new(self.stamp, self.expected) }
    }

    /// As the beginning of a block, if what came before was given up.
    pub(crate) fn beginning(self) -> Self {
        Self { begins: true, ..self }
    }

    /// Whether it has no datagrams: it is an end.
    pub(crate) fn is_empty(&self) -> bool {
        self.datagrams == 0
    }

    /// Takes in a datagram of at most 65,535 bytes that came at `now`.
    pub(crate) fn push(&mut self, now: Micros, datagram: &[u8]) {
        debug_assert!(datagram.len() <= usize::from(u16::MAX));
        let offset = u16::try_from(now.saturating_sub(self.stamp) / STEP).unwrap_or(u16::MAX);
        self.wire.extend_from_slice(&(datagram.len() as u16).to_be_bytes());
        self.wire.extend_from_slice(&offset.to_be_bytes());
        self.wire.extend_from_slice(datagram);
        self.datagrams += 1;
    }

    /// Takes in what follows in the same block.
    pub(crate) fn extend(&mut self, next: &Self) {
        self.wire.extend_from_slice(&next.wire[HEAD..]);
        self.datagrams += next.datagrams;
        self.ends = next.ends;
    }

    /// Bytes that it takes on the wire.
    pub(crate) fn len(&self) -> usize {
        if self.begins { self.wire.len() } else { self.wire.len() - HEAD }
    }

    /// As a block begins with it at `now`: the `number`th of its flow in its session, `before` microseconds after the
    /// one before.
    pub(crate) fn seal(mut self, now: Micros, number: u64, before: Micros) -> Bytes {
        let in_32 = |span: Micros| u32::try_from(span).unwrap_or(u32::MAX).to_be_bytes();
        self.wire[0] = self.class as u8;
        self.wire[1..7].copy_from_slice(&number.to_be_bytes()[2..]);
        self.wire[7..13].copy_from_slice(&(self.stamp & MAX_48).to_be_bytes()[2..]);
        self.wire[13..17].copy_from_slice(&in_32(before));
        self.wire[17..21].copy_from_slice(&in_32(now.saturating_sub(self.stamp)));
        self.wire.into()
    }

    /// As it goes on in a block that has begun.
    pub(crate) fn into_rest(self) -> Bytes {
        Bytes::from(self.wire).slice(HEAD..)
    }
}

/// Why a block is no parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParcelError {
    #[error("a block ends within its head")]
    Short,
    #[error("unknown class {0}")]
    Class(u8),
    #[error("a block ends within a datagram")]
    Cut,
    #[error("a block without datagrams")]
    Empty,
}

/// What is before the datagrams of a parcel that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) class: Class,
    pub(crate) number: u64,
    /// By the sender's clock.
    pub(crate) stamp: Micros,
    /// From the stamp of the parcel before.
    pub(crate) before: Micros,
    /// From the stamp to when it was sent.
    pub(crate) held: Micros,
}

impl Head {
    fn read(head: &[u8; HEAD]) -> Result<Self, ParcelError> {
        let number =
            |range: Range<usize>| head[range].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let class = Class::from_number(head[0]).ok_or(ParcelError::Class(head[0]))?;
        let (stamp, before, held) = (number(7..13), number(13..17), number(17..21));
        Ok(Self { class, number: number(1..7), stamp, before, held })
    }
}

/// Reads a block as it grows. Keeps the head, and of the datagrams only one that is not whole yet.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    head: Option<Head>,
    /// Bytes of the head, or of a datagram, that is not whole yet.
    rest: BytesMut,
    has_datagrams: bool,
}

impl Reader {
    /// What is before the datagrams, once it is there.
    pub(crate) fn head(&self) -> Option<Head> {
        self.head
    }

    /// The next bytes of the block. Returns the datagrams that are whole with them, as [`datagram`] reads them.
    ///
    /// # Errors
    /// If they are no parcel, or the last ones and end within one.
    pub(crate) fn read(&mut self, part: Bytes, is_last: bool) -> Result<Bytes, ParcelError> {
        let mut bytes = part;
        if !self.rest.is_empty() {
            self.rest.extend_from_slice(&bytes);
            bytes = if self.is_whole() { mem::take(&mut self.rest).freeze() } else { Bytes::new() };
        }
        if let (None, Some(head)) = (self.head, bytes.first_chunk()) {
            self.head = Some(Head::read(head)?);
            bytes.advance(HEAD);
        }
        let datagrams = bytes.split_to(self.head.map_or(0, |_| whole(&bytes)));
        self.has_datagrams |= !datagrams.is_empty();
        // A slice would keep the memory of all that came with it.
        self.rest.extend_from_slice(&bytes);
        if is_last { self.check_end().map(|()| datagrams) } else { Ok(datagrams) }
    }

    /// Whether what is kept is whole now.
    fn is_whole(&self) -> bool {
        if self.head.is_some() { record(&self.rest).is_some() } else { self.rest.len() >= HEAD }
    }

    fn check_end(&self) -> Result<(), ParcelError> {
        match (self.head, self.rest.is_empty(), self.has_datagrams) {
            (None, ..) => Err(ParcelError::Short),
            (_, false, _) => Err(ParcelError::Cut),
            (.., false) => Err(ParcelError::Empty),
            _ => Ok(()),
        }
    }
}

/// Bytes of the datagrams that are whole.
fn whole(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some((_, _, after)) = record(rest) {
        rest = after;
    }
    bytes.len() - rest.len()
}

/// A datagram, and where the next one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// How long after the first of its block it came in.
    pub(crate) offset: Micros,
    pub(crate) datagram: &'a [u8],
    pub(crate) next: usize,
}

/// The datagram at this byte of those that [`Reader::read`] found whole; the first is at 0.
pub(crate) fn datagram(datagrams: &[u8], at: usize) -> Option<Record<'_>> {
    let (offset, datagram, _) = record(datagrams.get(at..)?)?;
    Some(Record { offset, datagram, next: at + RECORD + datagram.len() })
}

fn record(bytes: &[u8]) -> Option<(Micros, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<RECORD>()?;
    let (datagram, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([head[0], head[1]])))?;
    Some((Micros::from(u16::from_be_bytes([head[2], head[3]])) * STEP, datagram, rest))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Datagrams that are whole, each with how long after the first of its block it came in.
    pub(crate) fn listed(datagrams: &[u8]) -> Vec<(Micros, Vec<u8>)> {
        let mut at = 0;
        let next = || {
            let record = datagram(datagrams, at)?;
            at = record.next;
            Some((record.offset, record.datagram.to_vec()))
        };
        std::iter::from_fn(next).collect()
    }

    /// The vector of `docs/tunnel.md`.
    #[test]
    fn a_parcel_is_written_as_documented() {
        let mut parcel = Parcel::new(1_000_000, 0);
        parcel.class = Class::Key;
        parcel.push(1_000_000, b"abc");
        let mut next = parcel.next();
        next.push(1_000_160, b"");
        assert_eq!((parcel.len(), next.len()), (28, 4));
        let wire = [&parcel.seal(1_000_200, 258, 33_333)[..], &next.into_rest()].concat();
        let expected = "02 000000000102 0000000f4240 00008235 000000c8 0003 0000 616263 0000 000a";
        let hex: String = wire.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected.replace(' ', ""));
    }

    #[test]
    fn faults_have_names() {
        let open = |bytes: &[u8], is_last| Reader::default().read(Bytes::copy_from_slice(bytes), is_last);
        let mut parcel = Parcel::new(0, 0);
        parcel.push(0, b"abc");
        let wire = parcel.seal(0, 0, 0);
        for (bytes, fault) in [
            (&wire[..20], ParcelError::Short),
            (&wire[..21], ParcelError::Empty),
            (&wire[..wire.len() - 1], ParcelError::Cut),
        ] {
            assert_eq!(open(bytes, true), Err(fault));
            assert_eq!(open(bytes, false), Ok(Bytes::new()), "more may come");
        }
        let mut strange = wire.to_vec();
        strange[0] = 9;
        assert_eq!(open(&strange[..21], false), Err(ParcelError::Class(9)));
    }

    #[test]
    fn a_reader_keeps_less_than_a_datagram() {
        let mut parcel = Parcel::new(0, 0);
        (0..10).for_each(|_| parcel.push(0, &[7; 1_000]));
        let wire = parcel.seal(0, 0, 0);
        let mut reader = Reader::default();
        let whole = reader.read(wire.slice(..HEAD + 9 * 1_004 + 1_003), false).expect("is well formed");
        assert_eq!((whole.len(), reader.rest.len()), (9 * 1_004, 1_003));
        assert!(reader.rest.capacity() < 2_000, "{} bytes", reader.rest.capacity());
        assert_eq!(listed(&reader.read(wire.slice(wire.len() - 1..), true).expect("is the end")).len(), 1);
    }

    proptest! {
        /// However a block is written and read: at once, or in parts that are cut anywhere.
        #[test]
        fn what_goes_in_comes_out(
            all in prop::collection::vec((0..70_000u64, prop::collection::vec(any::<u8>(), 0..2000)), 1..20),
            stamp in 0..MAX_48,
            number in 0..MAX_48,
            before in 0..u64::from(u32::MAX),
            pieces in 1..5usize,
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let (mut wire, mut parcel) = (Vec::new(), Parcel::new(stamp, 0));
            for (n, (after, datagram)) in all.iter().enumerate() {
                parcel.push(stamp + after, datagram);
                if n % pieces == 0 {
                    let next = parcel.next();
                    wire.push(mem::replace(&mut parcel, next));
                }
            }
            wire.push(parcel);
            let write = |parcel: Parcel| match parcel.begins {
                true => parcel.seal(stamp + 9, number, before),
                false => parcel.into_rest(),
            };
            let wire = Bytes::from(wire.into_iter().map(write).collect::<Vec<_>>().concat());
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(wire.len())).chain([0, wire.len()]).collect();
            cuts.sort_unstable();
            let (mut reader, mut came) = (Reader::default(), Vec::new());
            for cut in cuts.windows(2) {
                let part = reader.read(wire.slice(cut[0]..cut[1]), cut[1] == wire.len());
                came.extend(listed(&part.expect("is well formed")));
            }
            let head = reader.head().expect("is there");
            prop_assert_eq!((head.number, head.stamp, head.before, head.held), (number, stamp, before, 9));
            let sent = all.into_iter().map(|(after, datagram)| (after / STEP * STEP, datagram));
            prop_assert_eq!(came, sent.collect::<Vec<_>>());
        }

        #[test]
        fn junk_is_an_error_or_harmless(junk in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(datagrams) = Reader::default().read(junk.into(), true) {
                prop_assert!(!listed(&datagrams).is_empty());
            }
        }
    }
}
