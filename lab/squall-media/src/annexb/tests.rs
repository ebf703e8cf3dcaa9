use proptest::prelude::*;

use super::*;
use crate::clip::{Clip, ClipConfig};
use crate::encoder::EncoderConfig;

/// Gives its bytes in small pieces, so that start codes fall on every boundary.
struct Dribble<'a>(&'a [u8], usize);

impl Read for Dribble<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(to.len()).min(self.0.len());
        to[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

fn split(data: &[u8]) -> Vec<Bytes> {
    AccessUnits::new(data).collect::<Result<_, _>>().unwrap()
}

/// NAL units of the given headers; a slice's second byte says whether it begins a picture.
fn stream(units: &[&[u8]]) -> Vec<u8> {
    units.iter().flat_map(|unit| [&[0, 0, 0, 1], *unit].concat()).collect()
}

#[test]
fn encoder_output_splits_into_its_frames() {
    let encoder = EncoderConfig { width: 160, height: 90, key_interval: 4, ..Default::default() };
    let clip = Clip::generate(ClipConfig { encoder, seed: 2 }, 0.4).unwrap();
    let mut writer = AnnexBWriter::new(Vec::new());
    for frame in clip.frames() {
        writer.write(frame).unwrap();
    }
    let units = split(&writer.finish().unwrap());
    assert_eq!(units.len(), 12);
    for (unit, frame) in units.iter().zip(clip.frames()) {
        assert_eq!((unit, frame_kind(unit)), (&frame.data, frame.kind));
    }
}

#[test]
fn access_units_begin_where_the_standard_says() {
    // SPS, PPS, IDR of two slices; delimiter, P; P; SEI, B (not a reference).
    let sps: &[u8] = &[0x67, 1];
    let units: [&[u8]; 9] = [
        sps,
        &[0x68, 2],
        &[0x65, 0x88],
        &[0x65, 0x44],
        &[0x09, 0x30],
        &[0x41, 0x9A],
        &[0x41, 0x9B],
        &[0x06, 5],
        &[0x01, 0x9C],
    ];
    let data = stream(&units);
    let got = split(&data);
    let expected = [stream(&units[..4]), stream(&units[4..6]), stream(&units[6..7]), stream(&units[7..])];
    assert_eq!(got, expected);
    let kinds: Vec<_> = got.iter().map(|unit| frame_kind(unit)).collect();
    assert_eq!(kinds, [FrameKind::Key, FrameKind::Delta, FrameKind::Delta, FrameKind::Disposable]);
}

#[test]
fn what_is_no_byte_stream_is_said_so() {
    let error = AccessUnits::new(&b"hello, this is no video"[..]).next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "byte 0: not an H.264 byte stream: no start code (00 00 01)");
    assert!(AccessUnits::new(&[][..]).next().is_none());
    assert!(!looks_like(b"\0\0\0\x18ftypmp42") && !looks_like(&[0, 0, 1, 0xBA]) && !looks_like(&[]));
    // Delimiter and parameter sets of H.265.
    assert!(!looks_like(&[0, 0, 0, 1, 0x46, 1, 0x50]) && !looks_like(&[0, 0, 0, 1, 0x42, 1]));
    assert!(looks_like(&[0, 0, 0, 1, 0x67]) && looks_like(&[0, 0, 1, 9, 0x10]));
}

#[test]
fn a_frame_without_end_is_refused_before_memory_is_taken() {
    let endless = (&[0u8, 0, 0, 1, 0x65, 0x88][..]).chain(io::repeat(0xFF));
    let mut units = AccessUnits::new(endless);
    let error = units.next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "byte 0: the frame that begins here is larger than 16777216 bytes");
    assert!(units.buffer.len() <= MAX_FRAME_BYTES + READ_BYTES);
    assert!(units.next().is_none());
}

#[test]
fn the_writer_refuses_other_formats() {
    let data = Bytes::from_static(b"DKIF");
    let frame = EncodedFrame { index: 4, pts_us: 0, kind: FrameKind::Delta, data };
    let error = AnnexBWriter::new(Vec::new()).write(&frame).unwrap_err();
    assert_eq!(error.to_string(), "frame 4 is not H.264 in Annex B form");
}

proptest! {
    #[test]
    fn joining_what_was_split_gives_the_input(
        zeros in 0usize..3,
        bytes in prop::collection::vec(prop_oneof![4 => 0u8..2, 1 => Just(0x65u8), 1 => any::<u8>()], 0..400),
        piece in 1usize..40,
    ) {
        let mut data = vec![0; zeros];
        data.extend([0, 0, 1]);
        data.extend(bytes);
        let units: Vec<Bytes> = AccessUnits::new(Dribble(&data, piece)).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(units.concat(), data.clone());
        prop_assert_eq!(units, split(&data));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..9) {
        let count = AccessUnits::new(Dribble(&bytes, piece)).count();
        prop_assert!(count <= bytes.len());
        let _ = (frame_kind(&bytes), looks_like(&bytes));
        prop_assert!(nals(&bytes).map(|unit| unit.payload.len() + 3).sum::<usize>() <= bytes.len());
    }
}
