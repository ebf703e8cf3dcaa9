//! H.264 byte streams (ITU-T H.264 Annex B): the NAL units of a frame, and its kind.

use crate::frame::FrameKind;

/// Types of NAL units that hold a slice of a picture or the first partition of one, and of those that hold a slice of an
/// IDR picture (ITU-T H.264 table 7-1).
const SLICE: u8 = 1;
const PARTITION: u8 = 2;
const IDR: u8 = 5;

/// Returns the NAL units of a buffer, each from its header up to the next start code; bytes before
/// the first start code are left out.
pub fn nals(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut next = start_code(data);
    std::iter::from_fn(move || {
        let unit = &data[next? + 3..];
        let end = start_code(unit);
        next = end.map(|end| data.len() - unit.len() + end);
        Some(&unit[..end.unwrap_or(unit.len())])
    })
}

fn start_code(data: &[u8]) -> Option<usize> {
    memchr::memmem::find(data, &[0, 0, 1])
}

/// Returns the kind of this access unit: [`FrameKind::Key`] if it has an IDR slice,
/// [`FrameKind::Disposable`] if none of its slices is a reference.
#[must_use]
pub fn frame_kind(data: &[u8]) -> FrameKind {
    let headers = nals(data).filter_map(|unit| unit.first().copied());
    let kinds = headers.filter_map(|header| match (header & 0x1F, header >> 5 & 3) {
        (IDR, _) => Some(FrameKind::Key),
        // `nal_ref_idc` is 0 if no other frame refers to this one.
        (SLICE | PARTITION, 0) => Some(FrameKind::Disposable),
        (SLICE | PARTITION, _) => Some(FrameKind::Delta),
        _ => None,
    });
    kinds.min().unwrap_or(FrameKind::Delta)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clip::{Clip, ClipConfig};
    use crate::encoder::EncoderConfig;

    #[test]
    fn frames_are_known_by_their_slices() {
        let kind = |units: &[&[u8]]| {
            frame_kind(&units.iter().flat_map(|unit| [&[0, 0, 0, 1], *unit].concat()).collect::<Vec<u8>>())
        };
        // Parameter sets and two IDR slices; a delimiter and a P slice; supplemental data and a B slice; no slice.
        assert_eq!(kind(&[&[0x67, 1], &[0x68, 2], &[0x65, 0x88], &[0x65, 0x44]]), FrameKind::Key);
        assert_eq!(kind(&[&[0x09, 0x30], &[0x41, 0x9A]]), FrameKind::Delta);
        assert_eq!(kind(&[&[0x06, 5], &[0x01, 0x9C]]), FrameKind::Disposable);
        assert_eq!(kind(&[&[0x01, 0x9C], &[0x41, 0x9A]]), FrameKind::Delta);
        assert_eq!((kind(&[&[0x67, 1]]), kind(&[])), (FrameKind::Delta, FrameKind::Delta));
    }

    #[test]
    fn the_encoder_and_we_agree_on_key_frames() {
        let encoder = EncoderConfig { width: 160, height: 90, key_interval: 4, ..Default::default() };
        let clip = Clip::generate(ClipConfig { encoder, seed: 2 }, 0.4).unwrap();
        let keys = clip.frames().iter().map(|frame| frame_kind(&frame.data) == FrameKind::Key);
        assert!(keys.eq((0..12).map(|index| index % 4 == 0)));
    }

    proptest! {
        #[test]
        fn units_are_what_stands_between_start_codes(units in prop::collection::vec("[\\x01-\\x7f]{1,20}", 1..9)) {
            let data: Vec<u8> = units.iter().flat_map(|unit| [&[0, 0, 1], unit.as_bytes()].concat()).collect();
            prop_assert!(nals(&data).eq(units.iter().map(String::as_bytes)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(prop_oneof![0u8..2, any::<u8>()], 0..300)) {
            crate::fuzz::annexb(&bytes);
        }
    }
}
