//! Sections of tables, which packets carry (ISO 13818-1 §2.4.4).

use crc::{CRC_32_MPEG_2, Crc};

use super::packet::Packet;

/// Maximum length of a section of a program table in bytes (§2.4.4.3, §2.4.4.8: a section length of
/// at most 1021).
pub(super) const MAX_SECTION: usize = 1_024;

/// Bytes up to the end of the section length.
const HEAD: usize = 3;
/// Bytes before the body.
const HEADER: usize = 8;

/// Value in place of a table id if the rest of the packet is stuffing.
const STUFFING: u8 = 0xff;

/// Checksum chosen such that the checksum of a whole section is zero (Annex A).
pub(super) const CHECK: Crc<u32> = Crc::<u32>::new(&CRC_32_MPEG_2);

/// A section of a table that is currently applicable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section<'a> {
    /// Subject of the table: for a map, the number of its program.
    pub(super) subject: u16,
    /// Number of the section in its table.
    pub(super) number: u8,
    /// Number of the last section of the table.
    pub(super) last: u8,
    pub(super) body: &'a [u8],
    /// Checksum in the section.
    pub(super) sum: u32,
}

/// Assembles sections of one table id from the packets of one PID.
#[derive(Debug)]
pub(super) struct Sections {
    table: u8,
    /// A section may begin or continue with the next byte.
    open: bool,
    /// Bytes of the current section.
    bytes: Vec<u8>,
    /// Remaining bytes of a section of another table.
    skip: usize,
    /// Latest packet, to detect duplicates: a packet may be sent twice (§2.4.3.3).
    latest: Vec<u8>,
}

impl Sections {
    pub(super) fn new(table: u8) -> Self {
        Self { table, open: false, bytes: Vec::new(), skip: 0, latest: Vec::new() }
    }

    /// Adds a packet, and passes on each section that it completes.
    pub(super) fn feed(&mut self, packet: Packet<'_>, mut section: impl FnMut(Section<'_>)) {
        if self.latest == packet.bytes() {
            return;
        }
        self.latest.clear();
        self.latest.extend_from_slice(packet.bytes());
        let mut payload = packet.payload();
        if packet.is_unit_start() {
            let Some((pointer, rest)) = payload.split_first() else { return };
            let (end, begin) = rest.split_at(rest.len().min(usize::from(*pointer)));
            // The bytes before the pointer complete the previous section.
            self.push(end, &mut section);
            (self.open, self.skip) = (!begin.is_empty(), 0);
            self.bytes.clear();
            payload = begin;
        }
        self.push(payload, &mut section);
    }

    fn push(&mut self, mut piece: &[u8], section: &mut impl FnMut(Section<'_>)) {
        while self.open && !piece.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(piece.len());
                self.skip -= skipped;
                piece = &piece[skipped..];
                continue;
            }
            if self.bytes.is_empty() && piece[0] == STUFFING {
                self.open = false;
                return;
            }
            // First up to the length, then up to the end.
            let end = self.end().unwrap_or(HEAD);
            let (part, rest) = piece.split_at(piece.len().min(end - self.bytes.len()));
            self.bytes.extend_from_slice(part);
            piece = rest;
            let Some(end) = self.end() else { continue };
            if self.bytes[0] != self.table || end > MAX_SECTION {
                self.skip = end - self.bytes.len();
                self.bytes.clear();
            } else if self.bytes.len() == end {
                read(&self.bytes).into_iter().for_each(&mut *section);
                self.bytes.clear();
            }
        }
    }

    /// Returns the number of bytes kept of a section.
    #[cfg(any(test, fuzzing))]
    pub(super) fn memory(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the length of the section, once its length field has arrived.
    fn end(&self) -> Option<usize> {
        let [_, high, low] = *self.bytes.first_chunk::<HEAD>()?;
        Some(HEAD + (usize::from(high & 0x0f) << 8 | usize::from(low)))
    }
}

/// Parses a section; `None` if it is not currently applicable, or damaged.
fn read(bytes: &[u8]) -> Option<Section<'_>> {
    let (content, sum) = bytes.split_last_chunk::<4>()?;
    let (&[_, syntax, _, high, low, version, number, last], body) = content.split_first_chunk::<HEADER>()?;
    let is_current = syntax & 0x80 != 0 && version & 1 != 0 && number <= last;
    let section = Section {
        subject: u16::from_be_bytes([high, low]),
        number,
        last,
        body,
        sum: u32::from_be_bytes(*sum),
    };
    (is_current && CHECK.checksum(bytes) == 0).then_some(section)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::*;

    const TABLE: u8 = 2;

    fn read(packets: &[Vec<u8>]) -> Vec<(u8, Vec<u8>)> {
        sections_in(TABLE, packets)
    }

    fn numbered(number: u8, body: &[u8]) -> Vec<u8> {
        section_of(TABLE, 1, [number, 200], true, body)
    }

    #[test]
    fn several_sections_are_in_a_packet() {
        let (one, two) = (numbered(0, b"one"), numbered(1, b"two"));
        let stuffing: &[u8] = &[0x72, 0x30, 3, 0, 0, 0];
        let private = section_of(0xc0, 0x1500, [0, 0], true, &[0; 12]);
        let long = section_of(0xc0, 0x1500, [0, 0], true, &[0; 3_000]);
        let expected = [(0, b"one".to_vec()), (1, b"two".to_vec())];
        for shift in [0, 1, 60] {
            for others in [&[][..], stuffing, &private, &long] {
                assert_eq!(
                    read(&alone(0x20, shift, &[&one[..], others, &two])),
                    expected,
                    "{}",
                    others.len()
                );
                assert_eq!(
                    read(&alone(0x20, shift, &[others, &one[..], &two])),
                    expected,
                    "{}",
                    others.len()
                );
            }
        }
    }

    #[test]
    fn only_sections_count_that_are_current_and_whole() {
        let (right, mut wrong) = (numbered(0, b"right"), numbered(1, b"wrong"));
        let end = wrong.len() - 1;
        wrong[end] ^= 1;
        let next = section_of(TABLE, 1, [2, 2], false, b"next");
        let beyond = section_of(TABLE, 1, [3, 2], true, b"beyond");
        let mut short = numbered(4, b"");
        short[1..3].copy_from_slice(&[0xb0, 5]);
        let come = read(&alone(0x20, 0, &[&wrong, &next, &beyond, &right, &short]));
        assert_eq!(come, [(0, b"right".to_vec())]);
    }

    #[test]
    fn a_packet_that_is_sent_twice_counts_once() {
        let packets = packed(0x20, &[], &[&numbered(0, &[1; 300]), &numbered(1, &[2; 300])]);
        let twice: Vec<_> = packets.iter().flat_map(|packet| [packet.clone(), packet.clone()]).collect();
        assert_eq!(read(&twice), [(0, vec![1; 300]), (1, vec![2; 300])]);
    }

    #[test]
    fn the_next_section_is_found_behind_a_lost_packet() {
        let body = [3; 194];
        let sections: Vec<_> = (0..40).map(|n| numbered(n, &body)).collect();
        let mut packets = packed(0x20, &[], &sections.iter().map(Vec::as_slice).collect::<Vec<_>>());
        packets.remove(10);
        assert!(read(&packets).len() >= 38);
    }

    proptest! {
        /// Every one of consecutive sections is found, after the rest of an earlier one.
        #[test]
        fn packed_sections_are_all_found(
            before in prop::collection::vec(0..255u8, 0..183),
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..1_012), 1..30),
        ) {
            let sections: Vec<_> = (0..).zip(&bodies).map(|(n, body)| numbered(n, body)).collect();
            let packets = packed(0x20, &before, &sections.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let expected: Vec<_> = (0..).zip(bodies).collect();
            prop_assert_eq!(read(&packets), expected);
        }

        /// The memory for arbitrary packets is bounded.
        #[test]
        fn no_packet_is_too_strange(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 188), 0..20)) {
            let mut packets = packets;
            for packet in &mut packets {
                packet[0] = 0x47;
                packet[3] = 0x10 | packet[3] & 0x0f;
                packet[4] %= 8;
                packet[12] = TABLE;
            }
            read(&packets);
        }
    }
}
