//! Where the video is in a transport stream: program tables (ISO 13818-1 §2.4.4).

use std::ops::RangeInclusive;

use mpeg2ts_reader::{
    StreamType,
    packet::{Packet, Pid},
    psi::{
        pat::{PAT_PID, PatSection, ProgramDescriptor},
        pmt::PmtSection,
    },
};

use super::annexb::Codec;

/// Longest section in bytes (§2.4.4.3, §2.4.4.8: a section length of at most 1021).
const MAX_SECTION: usize = 1024;

/// Packets with names of stations, programme guides and the time of day (ETSI EN 300 468 §5.1.3).
const SERVICE_INFORMATION: RangeInclusive<u16> = 0x10..=0x1f;

/// Table ids (§2.4.4.4).
const PAT: u8 = 0;
const PMT: u8 = 2;

/// The streams of the first program.
#[derive(Debug, Default)]
pub(super) struct Psi {
    pat: Section,
    pmt: Section,
    map: Option<Pid>,
    streams: Option<Streams>,
}

/// What the first program's map tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Streams {
    /// The first video stream, if there is one.
    pub(super) video: Option<(Pid, Codec)>,
}

impl Psi {
    /// What is known of the streams, once it is.
    pub(super) fn streams(&self) -> Option<Streams> {
        self.streams
    }

    /// Takes in a packet; only those of the tables matter. Whether it may be lost without harm: it repeats a table, or is
    /// of those that no decoder needs.
    pub(super) fn feed(&mut self, packet: &Packet<'_>) -> bool {
        let pid = packet.pid();
        if pid == PAT_PID {
            let Some((table, news)) = self.pat.feed(packet, PAT) else { return false };
            if news {
                let mut programs = PatSection::new(table).programs();
                let program = programs.find(|program| matches!(program, ProgramDescriptor::Program { .. }));
                self.map = program.map(|program| program.pid());
            }
            return !news;
        }
        if Some(pid) == self.map {
            let Some((table, news)) = self.pmt.feed(packet, PMT) else { return false };
            if let Ok(map) = PmtSection::from_bytes(table) {
                let video =
                    map.streams().find_map(|one| Some((one.elementary_pid(), codec(one.stream_type())?)));
                self.streams = Some(Streams { video });
            }
            return !news;
        }
        SERVICE_INFORMATION.contains(&u16::from(pid))
    }
}

/// The codec of a stream type, if it is video (ISO 13818-1 Table 2-34).
fn codec(kind: StreamType) -> Option<Codec> {
    match kind {
        StreamType::ISO_11172_VIDEO | StreamType::H262 => Some(Codec::Mpeg2),
        StreamType::H264 => Some(Codec::H264),
        StreamType::H265 => Some(Codec::H265),
        // MPEG-4 part 2, AVS, JPEG 2000, VVC, VC-1.
        other => matches!(u8::from(other), 0x10 | 0x21 | 0x33 | 0x42 | 0xea).then_some(Codec::Other),
    }
}

/// A section that comes in several packets.
#[derive(Debug, Default)]
struct Section {
    bytes: Vec<u8>,
    /// The whole one before.
    known: Vec<u8>,
}

impl Section {
    /// Takes in a packet; the table's own part of a section that is whole now, and current; and whether it is
    /// another than before.
    fn feed(&mut self, packet: &Packet<'_>, table: u8) -> Option<(&[u8], bool)> {
        let mut payload = packet.payload()?;
        if packet.payload_unit_start_indicator() {
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
        // Behind the length: five bytes of head, with a bit for "current"; at the end a check sum of four.
        let body = self.bytes.get(8..end.checked_sub(4)?)?;
        if id != table || self.bytes[5] & 1 == 0 {
            return None;
        }
        let news = self.known != self.bytes[..end];
        if news {
            self.known = self.bytes[..end].to_vec();
        }
        Some((body, news))
    }
}
