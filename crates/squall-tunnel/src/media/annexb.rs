//! Class of a picture in a byte stream, from its first NAL units or start codes.

use std::ops::Range;

use super::{
    class::Class,
    h264, h265,
    picture::{Pictures, Unit},
};

/// Bytes of a picture that are searched for its first slice.
const MAX_SCAN: usize = 8192;

/// Video codec of an elementary stream.
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
    h264: h264::Stream,
    h265: h265::Stream,
    mpeg2: Pictures,
    begin: Vec<u8>,
    /// Bytes before this position have been searched.
    looked: usize,
    found: Option<Class>,
    over: bool,
}

impl Scan {
    pub(super) fn new(codec: Codec) -> Self {
        Self {
            codec,
            h264: h264::Stream::default(),
            h265: h265::Stream::default(),
            mpeg2: Pictures::default(),
            begin: Vec::new(),
            looked: 0,
            found: None,
            over: true,
        }
    }

    pub(super) fn codec(&self) -> Codec {
        self.codec
    }

    /// Begins a picture.
    pub(super) fn restart(&mut self) {
        self.begin.clear();
        self.h264.begin();
        self.h265.begin();
        self.mpeg2.begin();
        (self.looked, self.found, self.over) = (0, None, self.codec == Codec::Other);
    }

    /// Adds bytes of the picture.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        if self.over {
            return;
        }
        let room = MAX_SCAN - self.begin.len();
        self.begin.extend_from_slice(&piece[..piece.len().min(room)]);
        let is_full = self.begin.len() >= MAX_SCAN;
        while let Some(at) = start_code(&self.begin[self.looked..]) {
            let start = self.looked + at + 3;
            let unit = &self.begin[start..];
            let end = start_code(unit);
            if end.is_none() && !is_full && !self.is_enough(unit) {
                break;
            }
            let end = end.map_or(self.begin.len(), |end| start + end);
            self.looked = start;
            if self.is_slice(start..end) {
                self.over = true;
                return;
            }
        }
        // A start code may span two pieces.
        self.looked = self.looked.max(self.begin.len().saturating_sub(6).min(self.pending()));
        self.over = is_full;
    }

    /// Returns the class of the picture; `None` until found.
    pub(super) fn class(&self) -> Option<Class> {
        self.found
    }

    /// Returns the position of a start code whose unit is incomplete, or the end.
    fn pending(&self) -> usize {
        start_code(&self.begin[self.looked..]).map_or(self.begin.len(), |at| self.looked + at)
    }

    /// `true` if these first bytes of a unit show its class. SEI messages are read completely.
    fn is_enough(&self, unit: &[u8]) -> bool {
        let Some(header) = unit.first() else { return false };
        match self.codec {
            Codec::H264 => unit.len() >= 4 && !h264::is_sei(*header),
            Codec::H265 => unit.len() >= 6 && !h265::is_sei(*header),
            Codec::Mpeg2 | Codec::Other => unit.len() >= 4,
        }
    }

    /// Reads a unit. Returns `true` if it is a slice, after which the class does not change.
    fn is_slice(&mut self, unit: Range<usize>) -> bool {
        let unit = &self.begin[unit];
        let Some(header) = unit.first() else { return false };
        let (class, slice) = match self.codec {
            Codec::H264 => (self.h264.of_nal(unit), h264::is_slice(*header)),
            Codec::H265 => (self.h265.of_nal(unit), h265::is_slice(*header)),
            Codec::Mpeg2 => {
                let unit = mpeg2(unit);
                (unit.and_then(|unit| self.mpeg2.class_of(unit)), matches!(unit, Some(Unit::Slice(_))))
            }
            Codec::Other => (None, true),
        };
        self.found = self.found.max(class);
        slice
    }
}

/// Parses a sequence header, or a picture header with its coding type: 1 for I, 2 for P, 3 for B
/// (H.262 §6.2.2.1, §6.3.9).
fn mpeg2(unit: &[u8]) -> Option<Unit> {
    match (unit.first()?, unit.get(2).map(|byte| byte >> 3 & 0x07)) {
        (0xb3, _) => Some(Unit::Parameters),
        (0x00, Some(1)) => Some(Unit::Slice(Class::Key)),
        (0x00, Some(3)) => Some(Unit::Slice(Class::Disposable)),
        (0x00, Some(_)) => Some(Unit::Slice(Class::Reference)),
        _ => None,
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
    /// A P picture after a user message that looks like a recovery point, and after a recovery
    /// point.
    const GRADUAL: &[u8] = &[0, 0, 1, 6, 5, 3, 6, 1, 0x80, 6, 1, 0x24, 0x80, 0, 0, 0, 1, 0x41, 0x9a, 3, 4];
    const I: &[u8] = &[0, 0, 1, 9, 0x10, 0, 0, 1, 0x61, 0x88, 3, 4, 5];
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
        assert_eq!(scan(Codec::Mpeg2, &[&of_type(1)]), Some(Class::Key), "without a sequence header");
        assert_eq!(scan(Codec::Mpeg2, &[&[0, 0, 1, 0xb3, 0, 0, 0, 0], &of_type(1)]), Some(Class::Key));
        let hevc = |kind: u8, begin: u8| [0, 0, 1, kind << 1, 1, begin, 0x80, 0xff, 0xff];
        assert_eq!(scan(Codec::H265, &[&hevc(1, 0b1101_1000)]), Some(Class::Key), "I");
        assert_eq!(scan(Codec::H265, &[&hevc(1, 0b1101_0000)]), Some(Class::Reference), "P");
    }

    #[test]
    fn parameters_before_each_picture_are_no_sign_of_a_key_picture() {
        let mut scan = Scan::new(Codec::H264);
        let mut class = |slice: u8| {
            scan.restart();
            scan.feed(&[0, 0, 1, 0x67, 1, 2, 3, 0, 0, 1, 0x68, 1, 2, 3, 0, 0, 1, slice, 0x9a, 1, 1]);
            scan.class()
        };
        let classes = [0x65, 0x41, 0x41, 0x65, 0x41].map(&mut class);
        use Class::{Key, Reference};
        assert_eq!(classes, [Key, Key, Reference, Key, Reference].map(Some), "all but the first one");
    }

    #[test]
    fn long_messages_end_the_search_without_harm() {
        let message = [&[0, 0, 1, 6, 5][..], &[0xff; 40], &[1], &vec![7; MAX_SCAN]].concat();
        assert_eq!(scan(Codec::H264, &message.chunks(184).collect::<Vec<_>>()), None);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_a_picture_is_cut(at in 0..22usize, other in 0..22usize) {
            for (picture, class) in
                [(IDR, Class::Key), (I, Class::Key), (GRADUAL, Class::Key), (B, Class::Disposable)]
             {
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
