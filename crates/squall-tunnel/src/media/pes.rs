//! Pictures of a PES packet with more than one: some multiplexers put a second of video, or a whole
//! film, into one PES packet.

use super::annexb::Codec;

/// Number of pictures at the start of a PES packet that form one frame: the two fields of a frame
/// are two pictures. Each further picture is a frame.
const FIELDS: u32 = 2;

/// Maximum number of packets of a picture. For a codec that is not parsed, the next packet of the
/// PES packet counts as another picture.
const MAX_PACKETS: u32 = 1 << 15;

/// A start code with the first byte of its unit.
pub(super) type Begin = [u8; 4];

/// Counts the pictures of a PES packet.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    /// Latest four bytes.
    latest: u32,
    /// A slice of the current picture was read.
    slices: bool,
    count: u32,
    packets: u32,
}

impl Pictures {
    /// Begins a PES packet.
    pub(super) fn restart(&mut self) {
        *self = Self { count: 1, ..Self::default() };
    }

    /// Counts a packet. Returns `true` if the picture exceeds its maximum, so that another picture
    /// must begin.
    pub(super) fn is_too_long(&mut self) -> bool {
        self.packets += 1;
        let is_too_long = self.packets > MAX_PACKETS;
        if is_too_long {
            self.packets = 0;
        }
        is_too_long
    }

    /// Reads up to the beginning of the next picture that is a frame, and returns that beginning.
    pub(super) fn next(&mut self, codec: Codec, bytes: &mut &[u8]) -> Option<Begin> {
        while let Some((&byte, rest)) = bytes.split_first() {
            *bytes = rest;
            self.latest = self.latest << 8 | u32::from(byte);
            if self.latest >> 8 == 1 && self.begins(codec, byte) {
                self.count += 1;
                if self.count > FIELDS {
                    self.packets = 0;
                    return Some(self.latest.to_be_bytes());
                }
            }
        }
        None
    }

    /// `true` if a unit begins a picture after another one: in H.264 and H.265 a delimiter, which
    /// every picture of a transport stream has (ISO 13818-1 §2.14.1, §2.17.1).
    fn begins(&mut self, codec: Codec, unit: u8) -> bool {
        let (is_slice, is_first) = match codec {
            Codec::Mpeg2 => (matches!(unit, 0x01..=0xaf), matches!(unit, 0x00 | 0xb3 | 0xb8)),
            Codec::H264 => (matches!(unit & 0x1f, 1..=5), unit & 0x1f == 9),
            Codec::H265 => (unit >> 1 & 0x3f < 32, unit >> 1 & 0x3f == 35),
            Codec::Other => (false, false),
        };
        let begins = is_first && self.slices;
        self.slices = is_slice || self.slices && !begins;
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the frames that further units begin, for all positions of a cut.
    fn count(codec: Codec, units: &[&[u8]]) -> usize {
        let bytes: Vec<u8> = units.iter().flat_map(|unit| [&[0, 0, 1], *unit, &[7; 9]].concat()).collect();
        let counts = (0..bytes.len()).map(|cut| {
            let mut pictures = Pictures::default();
            pictures.restart();
            let mut found = 0;
            for mut part in [&bytes[..cut], &bytes[cut..]] {
                while let Some(begin) = pictures.next(codec, &mut part) {
                    assert_eq!(begin[..3], [0, 0, 1]);
                    found += 1;
                }
            }
            found
        });
        let counts: Vec<usize> = counts.collect();
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
        counts[0]
    }

    #[test]
    fn the_third_picture_of_a_pes_packet_is_a_frame() {
        let mpeg2: [&[u8]; 3] = [&[0xb3, 1, 1], &[0x00, 1, 1], &[0x01, 1, 1]];
        let h264: [&[u8]; 4] = [&[0x09, 0xf0, 1], &[0x67, 1, 1], &[0x65, 0x88, 1], &[0x65, 0x08, 1]];
        let h265: [&[u8]; 3] = [&[35 << 1, 1, 1], &[19 << 1, 1, 0x80], &[19 << 1, 1, 0x08]];
        for pictures in 1..6 {
            let expected = pictures - 2_usize.min(pictures);
            assert_eq!(count(Codec::Mpeg2, &mpeg2.repeat(pictures)), expected);
            assert_eq!(count(Codec::H264, &h264.repeat(pictures)), expected);
            assert_eq!(count(Codec::H265, &h265.repeat(pictures)), expected);
            assert_eq!(count(Codec::H265, &h265[1..].repeat(pictures)), 0, "slices");
            assert_eq!(count(Codec::Other, &h265.repeat(pictures)), 0);
        }
    }
}
