//! Removal and restoration of null packets in transport streams (ISO 13818-1 §2.4.3.3), as in RIST
//! (VSF TR-06-2, null packet deletion).
//!
//! Each datagram is processed separately, and packets may begin anywhere in it: a run of null
//! packets may begin and end within a packet. A null packet may have any flags and any counter, and
//! is filled with a single byte value; others are kept. The restored datagram therefore equals the
//! original byte for byte.
//!
//! ```text
//! runs (1)  { kept (2)  bytes  length (2)  phase (1)  second (1)  fourth (1)  stuffing (1) }…  bytes
//! ```
//!
//! `docs/tunnel.md` describes the fields.

/// Length of a packet in bytes.
const PACKET: usize = 188;

/// First byte of a packet.
const SYNC: u8 = 0x47;
/// Third byte of a null packet.
const PID_LOW: u8 = 0xff;
/// Five set bits at the end of the second byte of a null packet.
const PID_HIGH: u8 = 0x1f;

/// Length of a packet header in bytes.
const HEADER: usize = 4;

/// Length of the description of a run in bytes.
const RUN: usize = 6;

/// Minimum length of a run. Shorter ones are kept, as they would save next to nothing.
const MIN_RUN: usize = 16;

/// Maximum length of a run. Bounds the bytes that a peer can make the other end send with a short
/// message.
const MAX_RUN: usize = 8 * PACKET;

/// Maximum size of a datagram that is restored: that of UDP over IPv4.
const MAX_DATAGRAM: usize = 65_507;

/// Consecutive bytes of equal null packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    length: usize,
    /// Position in a packet at which they begin.
    phase: usize,
    /// Second byte of the null packets.
    second: u8,
    /// Fourth byte of the null packets.
    fourth: u8,
    /// Byte that fills the null packets.
    stuffing: u8,
}

impl Run {
    /// Finds the rest of a packet that began in an earlier datagram, and the packets after it.
    fn at_start(datagram: &[u8]) -> Option<Self> {
        let stuffing = *datagram.first()?;
        let rest = datagram.iter().take_while(|byte| **byte == stuffing).count();
        if rest > PACKET - HEADER {
            return None;
        }
        let next = Self::of_packet(&datagram[rest..]).filter(|run| run.stuffing == stuffing);
        let alone = Self { length: 0, phase: 0, second: PID_HIGH, fourth: 0x10, stuffing };
        let run = Self { length: rest, phase: PACKET - rest, ..next.unwrap_or(alone) };
        let run = if next.is_some() { run.extended(datagram, rest) } else { run };
        (run.length >= MIN_RUN).then_some(run)
    }

    /// Finds the packets of which the first begins here.
    fn of_packets(bytes: &[u8]) -> Option<Self> {
        let run = Self::of_packet(bytes)?;
        let run = run.extended(bytes, run.length);
        (run.length >= MIN_RUN).then_some(run)
    }

    /// Finds the packet that begins here. The end of the datagram may truncate it.
    fn of_packet(bytes: &[u8]) -> Option<Self> {
        let &[SYNC, second, PID_LOW, fourth, stuffing, ..] = bytes else { return None };
        let length = bytes.len().min(PACKET);
        let is_null =
            second & PID_HIGH == PID_HIGH && bytes[HEADER..length].iter().all(|byte| *byte == stuffing);
        is_null.then_some(Self { length, phase: 0, second, fourth, stuffing })
    }

    /// Extends the run by the equal packets that begin at `end`.
    fn extended(mut self, bytes: &[u8], mut end: usize) -> Self {
        let packet = self.packet();
        while let Some(next) = bytes.get(end..bytes.len().min(end + PACKET)) {
            let fits = !next.is_empty() && end + next.len() <= MAX_RUN && packet.starts_with(next);
            if !fits {
                break;
            }
            end += next.len();
        }
        self.length = end;
        self
    }

    fn packet(self) -> [u8; PACKET] {
        let mut packet = [self.stuffing; PACKET];
        packet[..HEADER].copy_from_slice(&[SYNC, self.second, PID_LOW, self.fourth]);
        packet
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.length as u16).to_be_bytes());
        out.extend_from_slice(&[self.phase as u8, self.second, self.fourth, self.stuffing]);
    }

    fn read(bytes: [u8; RUN]) -> Option<Self> {
        let [high, low, phase, second, fourth, stuffing] = bytes;
        let (length, phase) = (usize::from(u16::from_be_bytes([high, low])), usize::from(phase));
        let fits = (1..=MAX_RUN).contains(&length) && phase < PACKET;
        fits.then_some(Self { length, phase, second, fourth, stuffing })
    }

    fn restore(self, out: &mut Vec<u8>) {
        let packet = self.packet();
        let (mut left, mut phase) = (self.length, self.phase);
        while left > 0 {
            let piece = left.min(PACKET - phase);
            out.extend_from_slice(&packet[phase..phase + piece]);
            (left, phase) = (left - piece, 0);
        }
    }
}

/// Writes a datagram without its null packets. Returns the number of bytes left out. If none are,
/// the result is one byte longer.
pub(crate) fn delete(datagram: &[u8], out: &mut Vec<u8>) -> usize {
    let count_at = out.len();
    out.push(0);
    let (mut deleted, mut kept_from, mut at) = (0, 0, 0);
    let mut first = Run::at_start(datagram);
    while at < datagram.len() && datagram.len() <= MAX_DATAGRAM && out[count_at] < u8::MAX {
        let Some(run) = first.take().or_else(|| Run::of_packets(&datagram[at..])) else {
            let next = datagram[at + 1..].iter().position(|byte| *byte == SYNC);
            at = next.map_or(datagram.len(), |next| at + 1 + next);
            continue;
        };
        out[count_at] += 1;
        let kept = &datagram[kept_from..at];
        out.extend_from_slice(&(kept.len() as u16).to_be_bytes());
        out.extend_from_slice(kept);
        run.write(out);
        deleted += run.length;
        at += run.length;
        kept_from = at;
    }
    out.extend_from_slice(&datagram[kept_from..]);
    deleted
}

/// `true` if [`restore`] can restore a datagram from these bytes.
pub(crate) fn is_valid(bytes: &[u8]) -> bool {
    read(bytes, |_, _| {}).is_some()
}

/// Appends the datagram that [`delete`] wrote as these bytes. `None` if the bytes are invalid; a
/// part of a datagram may have been appended then.
pub(crate) fn restore(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let rest = read(bytes, |kept, run| {
        out.extend_from_slice(kept);
        run.restore(out);
    })?;
    out.extend_from_slice(rest);
    Some(())
}

/// Passes on the bytes before each run, and the run. Returns the bytes after the last run.
fn read<'a>(bytes: &'a [u8], mut each: impl FnMut(&'a [u8], Run)) -> Option<&'a [u8]> {
    let (runs, mut rest) = bytes.split_first()?;
    let mut whole = 0;
    for _ in 0..*runs {
        let (kept, after) = rest.split_first_chunk()?;
        let (kept, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*kept)))?;
        let (run, after) = after.split_first_chunk()?;
        let run = Run::read(*run)?;
        whole += kept.len() + run.length;
        if whole > MAX_DATAGRAM {
            return None;
        }
        each(kept, run);
        rest = after;
    }
    (*runs == 0 || whole + rest.len() <= MAX_DATAGRAM).then_some(rest)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn null(second: u8, fourth: u8, stuffing: u8) -> Vec<u8> {
        Run { length: PACKET, phase: 0, second, fourth, stuffing }.packet().to_vec()
    }

    /// Returns the null packet that every multiplexer uses.
    pub(crate) fn usual() -> Vec<u8> {
        null(0x1f, 0x10, 0xff)
    }

    fn deleted(datagram: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        delete(datagram, &mut out);
        out
    }

    fn restored(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        restore(bytes, &mut out).map(|()| out)
    }

    /// Test vector of `docs/tunnel.md`.
    #[test]
    fn a_datagram_is_written_as_documented() {
        let datagram = [b"abc", &usual()[..], &usual()[..20]].concat();
        let hex: String = deleted(&datagram).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "01 0003 616263 00d0 00 1f 10 ff".replace(' ', ""));
        assert_eq!(restored(&deleted(&datagram)), Some(datagram));
    }

    #[test]
    fn a_datagram_of_null_packets_is_nine_bytes_however_it_is_cut() {
        let stream = usual().repeat(100);
        // A header split over two datagrams is kept: four bytes in one of them, or all bytes after
        // it in the other.
        for (size, most) in [(1_316, 9), (1_472, 9), (188, 9), (204, 13), (100, 13), (1_358, 9 + 187)] {
            for datagram in stream.chunks_exact(size) {
                let bytes = deleted(datagram);
                assert!(bytes.len() <= most, "{} of {size} bytes", bytes.len());
                assert_eq!(restored(&bytes).as_deref(), Some(datagram));
            }
        }
    }

    #[test]
    fn null_packets_are_found_wherever_they_are() {
        let video = [&[0x47, 0x01, 0x00, 0x10][..], &[7; 184]].concat();
        let counting: Vec<u8> = (0..7).flat_map(|n| null(0x1f, 0x10 | n, 0xff)).collect();
        let marked = [null(0x9f, 0x10, 0xff), null(0x3f, 0x50, 0), null(0x5f, 0x1f, 0x47)].concat();
        // Timestamps before each packet (BDAV), and parity after it (Reed-Solomon).
        let stamped: Vec<u8> = (0..7u32).flat_map(|n| [&n.to_be_bytes()[..], &usual()].concat()).collect();
        let checked: Vec<u8> = (0..7u8).flat_map(|n| [usual(), vec![n; 16]].concat()).collect();
        for (datagram, most) in [
            ([video.clone(), usual().repeat(5), video.clone()].concat(), 2 * 188 + 9),
            ([&[0x80, 33, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3][..], &usual().repeat(7)].concat(), 12 + 9),
            (counting, 7 * 8 + 1),
            (marked, 3 * 8 + 1),
            (stamped, 7 * (8 + 4) + 1),
            (checked, 7 * (8 + 16) + 1),
            (usual().repeat(348), 44 * 8 + 1),
        ] {
            let bytes = deleted(&datagram);
            assert!(bytes.len() <= most, "{} bytes of {}", bytes.len(), datagram.len());
            assert_eq!(restored(&bytes), Some(datagram));
        }
    }

    #[test]
    fn what_is_no_null_packet_takes_one_byte() {
        let mut other = usual();
        other[100] = 0;
        for datagram in [Vec::new(), other, vec![0xff; 1_316], vec![7; 65_534], b"hello".to_vec()] {
            assert_eq!(deleted(&datagram), [&[0], &datagram[..]].concat());
            assert_eq!(restored(&deleted(&datagram)), Some(datagram));
        }
    }

    #[test]
    fn what_is_larger_than_a_datagram_is_not_restored() {
        let run =
            |length: u16, phase| [&[0, 0][..], &length.to_be_bytes(), &[phase, 0x1f, 0x10, 0xff]].concat();
        let all = |runs: &[Vec<u8>], rest: &[u8]| [&[runs.len() as u8], &runs.concat()[..], rest].concat();
        let full = vec![run(1_504, 0); 43];
        assert_eq!(restored(&all(&full, &[1; 835])).map(|datagram| datagram.len()), Some(MAX_DATAGRAM));
        for bytes in [
            all(&full, &[1; 836]),
            all(&vec![run(1_504, 0); 44], &[]),
            all(&[run(1_505, 0)], &[]),
            all(&[run(0, 0)], &[]),
            all(&[run(1, 188)], &[]),
            Vec::new(),
            vec![1],
            vec![1, 0, 9, 1],
            vec![2, 0, 0, 0, 1, 0, 0x1f, 0x10, 0xff],
        ] {
            assert!(restored(&bytes).is_none() && !is_valid(&bytes), "{bytes:02x?}");
        }
        // The largest datagram of IPv6 is not changed.
        let huge = usual().repeat(349);
        assert_eq!(deleted(&huge[..65_527]).len(), 65_528);
    }

    /// Generates a packet: with content, null, or almost null.
    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let content =
            prop::collection::vec(any::<u8>(), PACKET - 1).prop_map(|rest| [&[SYNC], &rest[..]].concat());
        let nulls = (any::<u8>(), any::<u8>(), prop::sample::select(vec![0xff, 0xff, 0, SYNC, 0x1f]))
            .prop_map(|(flags, fourth, stuffing)| null(flags | PID_HIGH, fourth, stuffing));
        let wrong = (nulls.clone(), 0..PACKET, any::<u8>()).prop_map(|(mut packet, at, byte)| {
            packet[at] = byte;
            packet
        });
        prop_oneof![2 => content, 6 => Just(usual()), 2 => nulls, 1 => wrong]
    }

    proptest! {
        /// Arbitrary streams, cut into datagrams anywhere, with timestamps or parity at their
        /// packets, or headers before them.
        #[test]
        fn what_leaves_is_what_entered(
            packets in prop::collection::vec(packet(), 0..40),
            before in prop::sample::select(vec![0, 4]),
            behind in prop::sample::select(vec![0, 16]),
            extra in any::<u8>(),
            header in prop::sample::select(vec![0, 12]),
            from in 0..400usize,
            size in prop::sample::select(vec![1_316, 1_472, 1_358, 1_344, 1_428, 188, 192, 204, 100, 65_424]),
            cut in prop::option::of(1..2_000usize),
        ) {
            let stride = |packet: &Vec<u8>| [&vec![extra; before][..], packet, &vec![extra; behind]].concat();
            let stream: Vec<u8> = packets.iter().flat_map(stride).collect();
            for datagram in stream[from.min(stream.len())..].chunks(cut.unwrap_or(size)) {
                let datagram = [&[0x80; 12][..header], datagram].concat();
                let bytes = deleted(&datagram);
                prop_assert!(bytes.len() <= datagram.len() + 1);
                prop_assert_eq!(restored(&bytes), Some(datagram));
            }
        }

        #[test]
        fn any_bytes_are_refused_or_restored_within_bounds(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let datagram = restored(&bytes);
            prop_assert_eq!(datagram.is_some(), is_valid(&bytes));
            prop_assert!(datagram.is_none_or(|datagram| datagram.len() <= MAX_RUN / (2 + RUN) * bytes.len()));
        }
    }
}
