//! The class of a picture in a byte stream, from its first NAL units or start codes.

use super::{class::Class, h264, h265::Layers};

/// Bytes of a picture that are searched for its first slice.
const MAX_SCAN: usize = 8192;

/// Video in an elementary stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    /// MPEG-1 or MPEG-2 video.
    Mpeg2,
    H264,
    H265,
    /// A codec whose pictures are not parsed.
    Other,
}

/// Searches a picture for its first slice, piece by piece.
#[derive(Debug)]
pub(super) struct Scan {
    codec: Codec,
    layers: Layers,
    begin: Vec<u8>,
    /// The bytes before this are searched.
    looked: usize,
    found: Option<Class>,
    over: bool,
}

impl Scan {
    pub(super) fn new(codec: Codec) -> Self {
        Self { codec, layers: Layers::default(), begin: Vec::new(), looked: 0, found: None, over: true }
    }

    pub(super) fn codec(&self) -> Codec {
        self.codec
    }

    /// A picture begins.
    pub(super) fn restart(&mut self) {
        self.begin.clear();
        (self.looked, self.found, self.over) = (0, None, self.codec == Codec::Other);
    }

    /// The next bytes of the picture.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        if self.over {
            return;
        }
        let room = MAX_SCAN - self.begin.len();
        self.begin.extend_from_slice(&piece[..piece.len().min(room)]);
        while let Some(at) = start_code(&self.begin[self.looked..]) {
            let unit = self.looked + at + 3;
            // As much of parameter sets as declares the layers.
            let Some(bytes) = self.begin.get(unit..unit + 4) else { break };
            let bytes: [u8; 4] = [bytes[0], bytes[1], bytes[2], bytes[3]];
            self.looked = unit;
            if self.is_slice(bytes) {
                self.over = true;
                return;
            }
        }
        // A start code may lie across two pieces.
        self.looked = self.looked.max(self.begin.len().saturating_sub(6).min(self.pending()));
        self.over = self.begin.len() >= MAX_SCAN;
    }

    /// The class of the picture, once known.
    pub(super) fn class(&self) -> Option<Class> {
        self.found
    }

    /// Position of a start code whose unit is incomplete, or the end.
    fn pending(&self) -> usize {
        start_code(&self.begin[self.looked..]).map_or(self.begin.len(), |at| self.looked + at)
    }

    /// Reads a unit. Returns whether it is a slice, behind which the class does not change.
    fn is_slice(&mut self, unit: [u8; 4]) -> bool {
        let (class, slice) = match self.codec {
            Codec::H264 => (h264::of_nal(unit[0]), matches!(unit[0] & 0x1f, 1..=5)),
            Codec::H265 => (self.layers.of_nal(&unit), unit[0] >> 1 & 0x3f < 32),
            // A sequence header; a picture header with its coding type: 1 for I, 2 for P, 3 for B (H.262 §6.3.9).
            Codec::Mpeg2 => match (unit[0], unit[2] >> 3 & 0x07) {
                (0xb3, _) => (Some(Class::Key), false),
                (0x00, 3) => (Some(Class::Disposable), true),
                (0x00, _) => (Some(Class::Reference), true),
                _ => (None, false),
            },
            Codec::Other => (None, true),
        };
        self.found = self.found.max(class);
        slice
    }
}

fn start_code(bytes: &[u8]) -> Option<usize> {
    bytes.windows(3).position(|three| three == [0, 0, 1])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDR: &[u8] = &[0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x67, 1, 2, 3, 0, 0, 1, 0x65, 1, 2, 3, 4];
    const B: &[u8] = &[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 6, 5, 4, 3, 0, 0, 1, 0x01, 1, 2, 3, 4];

    fn scan(codec: Codec, pieces: &[&[u8]]) -> Option<Class> {
        let mut scan = Scan::new(codec);
        scan.restart();
        for piece in pieces {
            scan.feed(piece);
        }
        scan.class()
    }

    #[test]
    fn pictures_are_classed_by_what_they_open_with() {
        assert_eq!(scan(Codec::H264, &[IDR]), Some(Class::Key));
        assert_eq!(scan(Codec::H264, &[B]), Some(Class::Disposable));
        assert_eq!(scan(Codec::Other, &[B]), None);
        let of_type = |kind: u8| [0, 0, 1, 0, 0, kind << 3, 0, 0];
        assert_eq!(scan(Codec::Mpeg2, &[&of_type(3)]), Some(Class::Disposable));
        assert_eq!(scan(Codec::Mpeg2, &[&of_type(2)]), Some(Class::Reference));
        assert_eq!(scan(Codec::Mpeg2, &[&[0, 0, 1, 0xb3, 0, 0, 0, 0], &of_type(1)]), Some(Class::Key));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_a_picture_is_cut(at in 0..22usize, other in 0..22usize) {
            for (picture, class) in [(IDR, Class::Key), (B, Class::Disposable)] {
                let (low, high) = (at.min(other).min(picture.len()), at.max(other).min(picture.len()));
                let pieces = [&picture[..low], &picture[low..high], &picture[high..]];
                prop_assert_eq!(scan(Codec::H264, &pieces), Some(class));
            }
        }

        #[test]
        fn memory_is_bounded(pieces in prop::collection::vec(prop::collection::vec(0..3u8, 0..4000), 0..8)) {
            let mut scan = Scan::new(Codec::H265);
            scan.restart();
            for piece in &pieces {
                scan.feed(piece);
            }
            prop_assert!(scan.begin.len() <= MAX_SCAN);
        }
    }
}
