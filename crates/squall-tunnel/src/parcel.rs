//! A block of a flow on the wire: datagrams, and what the far end has to know to let them out as they came in.
//!
//! ```text
//! class (1)  number (6)  stamp (6)  before (4)  held (4)  { length (2)  offset (2)  datagram }…
//! ```
//!
//! All numbers are big-endian. `docs/tunnel.md` says what they mean.

use squall_net::Micros;

use crate::media::Class;

/// Bytes before the first datagram.
pub(crate) const HEAD: usize = 21;

/// Bytes before each datagram.
const RECORD: usize = 4;

/// Offsets of datagrams are told in steps of this many microseconds, up to a second.
const STEP: Micros = 16;

/// Largest number or stamp.
const MAX_48: u64 = (1 << 48) - 1;

/// Datagrams that are carried together, ready to be sent but for their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) class: Class,
    /// When the first datagram came in.
    pub(crate) stamp: Micros,
    pub(crate) datagrams: u32,
    /// Of the datagrams themselves.
    pub(crate) bytes: usize,
    wire: Vec<u8>,
}

impl Parcel {
    /// Without datagrams. `capacity` is a guess of the bytes that will come.
    pub(crate) fn new(stamp: Micros, capacity: usize) -> Self {
        let mut wire = Vec::with_capacity(HEAD + capacity);
        wire.resize(HEAD, 0);
        Self { class: Class::Reference, stamp, datagrams: 0, bytes: 0, wire }
    }

    /// Takes in a datagram of at most 65,535 bytes that came at `now`.
    pub(crate) fn push(&mut self, now: Micros, datagram: &[u8]) {
        debug_assert!(datagram.len() <= usize::from(u16::MAX));
        let offset = u16::try_from(now.saturating_sub(self.stamp) / STEP).unwrap_or(u16::MAX);
        self.wire.extend_from_slice(&(datagram.len() as u16).to_be_bytes());
        self.wire.extend_from_slice(&offset.to_be_bytes());
        self.wire.extend_from_slice(datagram);
        self.datagrams += 1;
        self.bytes += datagram.len();
    }

    /// Bytes that it takes on the wire.
    pub(crate) fn len(&self) -> usize {
        self.wire.len()
    }

    /// As it is sent at `now`: the `number`th of its flow in its session, `before` microseconds after the one before.
    pub(crate) fn seal(mut self, now: Micros, number: u64, before: Micros) -> Vec<u8> {
        let in_32 = |span: Micros| u32::try_from(span).unwrap_or(u32::MAX).to_be_bytes();
        self.wire[0] = self.class as u8;
        self.wire[1..7].copy_from_slice(&number.to_be_bytes()[2..]);
        self.wire[7..13].copy_from_slice(&(self.stamp & MAX_48).to_be_bytes()[2..]);
        self.wire[13..17].copy_from_slice(&in_32(before));
        self.wire[17..21].copy_from_slice(&in_32(now.saturating_sub(self.stamp)));
        self.wire
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
    pub(crate) datagrams: u32,
}

/// Reads the head, and sees that all datagrams are whole.
pub(crate) fn open(block: &[u8]) -> Result<Head, ParcelError> {
    let (head, mut rest) = block.split_first_chunk::<HEAD>().ok_or(ParcelError::Short)?;
    let number = |at: usize| head[at..at + 6].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    let class = Class::from_number(head[0]).ok_or(ParcelError::Class(head[0]))?;
    let mut datagrams = 0;
    while !rest.is_empty() {
        (_, _, rest) = record(rest).ok_or(ParcelError::Cut)?;
        datagrams += 1;
    }
    if datagrams == 0 {
        return Err(ParcelError::Empty);
    }
    let in_32 = |at: usize| head[at..at + 4].iter().fold(0, |value, byte| value << 8 | Micros::from(*byte));
    Ok(Head { class, number: number(1), stamp: number(7), before: in_32(13), held: in_32(17), datagrams })
}

/// A datagram of a block, and where the next one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// How long after the first it came in.
    pub(crate) offset: Micros,
    pub(crate) datagram: &'a [u8],
    pub(crate) next: usize,
}

/// The datagram at this byte of a block that [`open`] found well formed; the first is at [`HEAD`].
pub(crate) fn datagram(block: &[u8], at: usize) -> Option<Record<'_>> {
    let (offset, datagram, _) = record(block.get(at..)?)?;
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

    /// All datagrams of a block, each with how long after the first it came in.
    pub(crate) fn datagrams(block: &[u8]) -> impl Iterator<Item = (Micros, &[u8])> {
        let mut at = HEAD;
        std::iter::from_fn(move || {
            let record = datagram(block, at)?;
            at = record.next;
            Some((record.offset, record.datagram))
        })
    }

    /// The vector of `docs/tunnel.md`.
    #[test]
    fn a_parcel_is_written_as_documented() {
        let mut parcel = Parcel::new(1_000_000, 0);
        parcel.class = Class::Key;
        parcel.push(1_000_000, b"abc");
        parcel.push(1_000_160, b"");
        let wire = parcel.seal(1_000_200, 258, 33_333);
        let expected = "02 000000000102 0000000f4240 00008235 000000c8 0003 0000 616263 0000 000a";
        let hex: String = wire.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected.replace(' ', ""));
    }

    #[test]
    fn faults_have_names() {
        let mut parcel = Parcel::new(0, 0);
        parcel.push(0, b"abc");
        let wire = parcel.seal(0, 0, 0);
        assert_eq!(open(&wire[..20]), Err(ParcelError::Short));
        assert_eq!(open(&wire[..21]), Err(ParcelError::Empty));
        assert_eq!(open(&wire[..wire.len() - 1]), Err(ParcelError::Cut));
        let mut strange = wire;
        strange[0] = 9;
        assert_eq!(open(&strange), Err(ParcelError::Class(9)));
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(
            all in prop::collection::vec((0..70_000u64, prop::collection::vec(any::<u8>(), 0..2000)), 1..20),
            stamp in 0..MAX_48,
            number in 0..MAX_48,
            before in 0..u64::from(u32::MAX),
        ) {
            let mut parcel = Parcel::new(stamp, 0);
            for (after, datagram) in &all {
                parcel.push(stamp + after, datagram);
            }
            let wire = parcel.seal(stamp + 9, number, before);
            let head = open(&wire).expect("is well formed");
            prop_assert_eq!((head.number, head.stamp, head.before, head.held), (number, stamp, before, 9));
            prop_assert_eq!(head.datagrams as usize, all.len());
            let came: Vec<_> = datagrams(&wire).collect();
            for ((after, datagram), (offset, out)) in all.iter().zip(came) {
                prop_assert_eq!(datagram, out);
                prop_assert_eq!(offset, after / STEP * STEP);
            }
        }

        #[test]
        fn junk_is_an_error_or_harmless(junk in prop::collection::vec(any::<u8>(), 0..200)) {
            if open(&junk).is_ok() {
                prop_assert!(datagrams(&junk).count() > 0);
            }
        }
    }
}
