//! The video in a transport stream, by its program tables (ISO 13818-1 §2.4.4).

use std::ops::RangeInclusive;

use super::{annexb::Codec, packet::Packet};

/// Longest section in bytes (§2.4.4.3, §2.4.4.8: a section length of at most 1021).
const MAX_SECTION: usize = 1024;

/// Packets with names of stations, programme guides and the time of day (ETSI EN 300 468 §5.1.3).
const SERVICE_INFORMATION: RangeInclusive<u16> = 0x10..=0x1f;

/// Table ids (§2.4.4.4), and the packet id of the first table.
const PAT: u8 = 0;
const PMT: u8 = 2;
const PAT_PID: u16 = 0;

/// The streams of the first program.
#[derive(Debug, Default)]
pub(super) struct Psi {
    pat: Section,
    pmt: Section,
    pmt_pid: Option<u16>,
    streams: Option<Streams>,
}

/// The content of the first program's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Streams {
    /// Packet id and codec of the first video stream.
    pub(super) video: Option<(u16, Codec)>,
}

impl Psi {
    /// The streams, once they are known.
    pub(super) fn streams(&self) -> Option<Streams> {
        self.streams
    }

    /// Reads a packet; only those of the tables matter. Returns whether it may be lost without harm: it repeats a table, or
    /// no decoder needs it.
    pub(super) fn feed(&mut self, packet: Packet<'_>) -> bool {
        let pid = packet.pid();
        if pid == PAT_PID {
            let Some((table, changed)) = self.pat.feed(packet, PAT) else { return false };
            if changed {
                self.pmt_pid = first_program(table);
            }
            return !changed;
        }
        if Some(pid) == self.pmt_pid {
            let Some((table, changed)) = self.pmt.feed(packet, PMT) else { return false };
            self.streams = Some(Streams { video: first_video(table) });
            return !changed;
        }
        SERVICE_INFORMATION.contains(&pid)
    }
}

/// The packet id of the first program's map (§2.4.4.3): entries of a program number, 0 for the network, and a packet id.
fn first_program(table: &[u8]) -> Option<u16> {
    table.chunks_exact(4).find(|entry| entry[..2] != [0, 0]).map(|entry| number(entry[2], entry[3], 0x1f))
}

/// The first video stream of a map (§2.4.4.8). Descriptors stand in front of the streams, and behind each of them.
fn first_video(table: &[u8]) -> Option<(u16, Codec)> {
    let mut rest = table.get(4 + usize::from(number(*table.get(2)?, *table.get(3)?, 0x0f))..)?;
    while let Some((&[kind, pid_high, pid_low, length_high, length_low], after)) = rest.split_first_chunk() {
        if let Some(codec) = codec(kind) {
            return Some((number(pid_high, pid_low, 0x1f), codec));
        }
        rest = after.get(usize::from(number(length_high, length_low, 0x0f))..)?;
    }
    None
}

/// A number of two bytes, of the first of which these bits count.
fn number(high: u8, low: u8, mask: u8) -> u16 {
    u16::from_be_bytes([high & mask, low])
}

/// The codec of a stream type, if it is video (Table 2-34).
fn codec(kind: u8) -> Option<Codec> {
    match kind {
        0x01 | 0x02 => Some(Codec::Mpeg2),
        0x1b => Some(Codec::H264),
        0x24 => Some(Codec::H265),
        // MPEG-4 part 2, AVS, JPEG 2000, VVC, VC-1.
        0x10 | 0x21 | 0x33 | 0x42 | 0xea => Some(Codec::Other),
        _ => None,
    }
}

/// A section that is spread over several packets.
#[derive(Debug, Default)]
struct Section {
    bytes: Vec<u8>,
    /// The previous complete one.
    previous: Vec<u8>,
}

impl Section {
    /// Adds a packet. Returns the body of a section that is complete now, and current; and whether it has changed.
    fn feed(&mut self, packet: Packet<'_>, table: u8) -> Option<(&[u8], bool)> {
        let mut payload = packet.payload()?;
        if packet.is_unit_start() {
            let pointer = usize::from(*payload.first()?);
            payload = payload.get(1 + pointer..)?;
            self.bytes.clear();
        } else if self.bytes.is_empty() {
            return None;
        }
        let room = MAX_SECTION - self.bytes.len();
        self.bytes.extend_from_slice(&payload[..payload.len().min(room)]);
        let &[id, high, low] = self.bytes.first_chunk::<3>()?;
        let end = 3 + (usize::from(high & 0x0f) << 8 | usize::from(low));
        let whole = self.bytes.get(..end)?;
        // Behind the length: five bytes of header, with a bit for "current"; at the end a checksum of four.
        let body = whole.get(8..end.checked_sub(4)?)?;
        if id != table || whole[5] & 1 == 0 {
            return None;
        }
        let changed = self.previous != whole;
        if changed {
            self.previous = whole.to_vec();
        }
        Some((body, changed))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAP: u16 = 0x100;

    /// A section with a right length and its check sum, which is not looked at.
    fn section(id: u8, current: bool, body: &[u8]) -> Vec<u8> {
        let length = body.len() + 9;
        let mut section =
            vec![id, 0xb0 | (length >> 8) as u8, length as u8, 0, 1, 0xc0 | u8::from(current), 0, 0];
        section.extend(body);
        section.extend([0; 4]);
        section
    }

    /// The table that names [`MAP`].
    fn programs() -> Vec<u8> {
        section(PAT, true, &[0, 1, 0xe0 | (MAP >> 8) as u8, MAP as u8])
    }

    /// A map of one H.264 stream on PID 0x101, and that many bytes of sound streams with descriptors of this size.
    fn map(sounds: usize, descriptor: usize) -> Vec<u8> {
        let mut body = vec![0xe1, 1, 0xf0, 0, 0x1b, 0xe1, 1, 0xf0, 0];
        for n in 0..sounds {
            body.extend([0x03, 0xe1, 2 + n as u8, 0xf0, descriptor as u8]);
            body.extend(vec![0; descriptor]);
        }
        section(PMT, true, &body)
    }

    /// Packets of this PID, the first with the beginning of the section up to `first` bytes of it.
    fn packets(pid: u16, section: &[u8], first: usize) -> Vec<Vec<u8>> {
        let (begin, rest) = section.split_at(first.min(183).min(section.len()));
        let mut all = vec![packet(pid, true, &[&[0], begin].concat(), rest.is_empty())];
        all.extend(rest.chunks(184).map(|part| packet(pid, false, part, part.len() + 184 > rest.len())));
        all
    }

    /// A packet with this payload; what is left of it is an adaptation field, or behind the last of a section 0xff.
    fn packet(pid: u16, starts: bool, payload: &[u8], last: bool) -> Vec<u8> {
        let mut packet = vec![0x47, u8::from(starts) << 6 | (pid >> 8) as u8, pid as u8, 0x10];
        let spare = 184 - payload.len();
        if !last && spare > 0 {
            packet[3] |= 0x20;
            packet.push(spare as u8 - 1);
            packet.extend([0].iter().chain(&[0xff; 182]).take(spare - 1));
        }
        packet.extend(payload);
        packet.resize(188, 0xff);
        packet
    }

    fn feed(psi: &mut Psi, packets: &[Vec<u8>]) {
        for packet in packets {
            psi.feed(Packet::new(packet).expect("has a sync byte"));
        }
    }

    #[test]
    fn a_section_that_ends_in_the_middle_of_its_check_sum_waits_for_the_rest() {
        for end in 184..=188 {
            let section = section(PAT, true, &[0; 176][..end - 12]);
            assert_eq!(section.len(), end);
            feed(&mut Psi::default(), &packets(0, &section, 183)[..1]);
        }
    }

    /// The map of a stream with one video and 15 sound tracks that name their language has 186 bytes.
    #[test]
    fn tables_are_read_wherever_they_are_split() {
        for (sounds, descriptor) in [(0, 0), (1, 5), (15, 6), (16, 6), (15, 60)] {
            let section = map(sounds, descriptor);
            for first in 1..=section.len().min(183) {
                let mut psi = Psi::default();
                feed(&mut psi, &packets(0, &programs(), 183));
                feed(&mut psi, &packets(MAP, &section, first));
                let video = psi.streams().and_then(|streams| streams.video);
                assert_eq!(video, Some((0x101, Codec::H264)), "{} bytes at {first}", section.len());
            }
        }
    }

    proptest! {
        /// Whatever is in tables, and wherever they are cut off.
        #[test]
        fn no_table_is_too_strange(
            on_map in any::<bool>(),
            length in 0..1100usize,
            body in prop::collection::vec(any::<u8>(), 0..1100),
            first in 1..184usize,
            kept in 0..8usize,
        ) {
            let mut psi = Psi::default();
            feed(&mut psi, &packets(0, &programs(), 183));
            let (pid, id) = if on_map { (MAP, PMT) } else { (0, PAT) };
            let mut section = section(id, true, &body);
            (section[1], section[2]) = (0xb0 | (length >> 8) as u8 & 0x0f, length as u8);
            let packets = packets(pid, &section, first);
            feed(&mut psi, &packets[..kept.min(packets.len())]);
            feed(&mut psi, &packets);
        }

        /// Whatever is in packets of tables.
        #[test]
        fn no_packet_of_tables_is_too_strange(
            bytes in prop::collection::vec((any::<bool>(), any::<bool>(), prop::collection::vec(any::<u8>(), 188)), 0..12),
        ) {
            let mut psi = Psi::default();
            feed(&mut psi, &packets(0, &programs(), 183));
            for (on_map, is_table, mut packet) in bytes {
                let pid = if on_map { MAP } else { 0 };
                (packet[0], packet[1], packet[2]) = (0x47, packet[1] & 0xe0 | (pid >> 8) as u8, pid as u8);
                if is_table {
                    packet[3] &= 0xdf;
                    packet[4] = 0;
                    packet[5] = if on_map { PMT } else { PAT };
                    packet[6] &= 0x03;
                    packet[10] |= 1;
                }
                feed(&mut psi, &[packet]);
            }
        }
    }
}
