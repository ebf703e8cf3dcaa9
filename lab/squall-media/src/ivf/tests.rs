use proptest::prelude::*;

use super::*;

const HEADER: IvfHeader =
    IvfHeader { codec: IvfCodec::Vp9, width: 64, height: 48, rate: 30, scale: 1, frames: 0 };

fn file(frames: &[&'static [u8]]) -> Vec<u8> {
    let mut writer = IvfWriter::new(Vec::new(), HEADER).unwrap();
    for (index, data) in (0u64..).zip(frames) {
        let pts_us = crate::frame::frame_time_us(index, 30.0);
        let data = Bytes::from_static(data);
        writer.write(&EncodedFrame { index, pts_us, kind: FrameKind::Delta, data }).unwrap();
    }
    writer.finish().unwrap()
}

fn failure(bytes: &[u8]) -> String {
    match IvfReader::new(bytes) {
        Err(error) => error.to_string(),
        Ok(mut reader) => reader.find_map(Result::err).expect("an error").to_string(),
    }
}

#[test]
fn frames_come_back_as_written() {
    let bytes = file(&[&[0x82, 1, 2], &[], &[0x86, 9]]);
    let reader = IvfReader::new(&bytes[..]).unwrap();
    assert_eq!(reader.header(), HEADER);
    let frames: Vec<_> = reader.map(Result::unwrap).collect();
    let seen: Vec<_> = frames.iter().map(|frame| (frame.index, frame.kind, frame.data.len())).collect();
    assert_eq!(seen, [(0, FrameKind::Key, 3), (1, FrameKind::Delta, 0), (2, FrameKind::Delta, 2)]);
    assert_eq!(frames.iter().map(|frame| frame.pts_us).collect::<Vec<_>>(), [0, 33_333, 66_667]);
}

#[test]
fn errors_name_the_byte() {
    let bytes = file(&[&[1, 2, 3, 4]]);
    assert_eq!(failure(&bytes[..20]), "byte 20: file ends inside the file header that begins at byte 0");
    assert_eq!(failure(&bytes[..40]), "byte 40: file ends inside a frame header that begins at byte 32");
    assert_eq!(failure(&bytes[..46]), "byte 46: file ends inside a frame that begins at byte 32");

    let broken = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        failure(&bytes)
    };
    assert_eq!(broken(0, b'X'), "byte 0: signature is XKIF, expected DKIF");
    assert_eq!(broken(4, 2), "byte 4: version is 2, expected 0");
    assert_eq!(broken(6, 31), "byte 6: header length is 31, expected 32");
    assert_eq!(broken(8, b'H'), "byte 8: codec is HP90, expected VP80, VP90, AV01 or H264");
    assert_eq!(broken(12, 0), "byte 12: width is 0, expected at least 1");
    assert_eq!(broken(20, 0), "byte 20: time base scale is 0, expected at least 1");
    assert_eq!(broken(35, 0x7F), "byte 32: frame size is 2130706436, expected at most 16777216");
}

#[test]
fn key_frames_are_recognised() {
    let key = |codec, data: &[u8]| frame_kind(codec, data) == FrameKind::Key;
    assert!(key(IvfCodec::Vp8, &[0x10]) && !key(IvfCodec::Vp8, &[0x11]) && !key(IvfCodec::Vp8, &[]));
    // Profile 0 and 3; a delta frame; an existing frame shown again; a wrong marker.
    assert!(key(IvfCodec::Vp9, &[0x82]) && key(IvfCodec::Vp9, &[0xB0]));
    assert!(!key(IvfCodec::Vp9, &[0x86]) && !key(IvfCodec::Vp9, &[0x88]) && !key(IvfCodec::Vp9, &[0x02]));
    // Temporal delimiter, then a sequence header or a frame.
    assert!(key(IvfCodec::H264, &[0, 0, 1, 0x65, 0x88]) && !key(IvfCodec::H264, &[0, 0, 1, 0x41, 0x9A]));
    assert_eq!(frame_kind(IvfCodec::H264, &[0, 0, 1, 0x01, 0x9A]), FrameKind::Disposable);
    assert!(key(IvfCodec::Av1, &[0x12, 0, 0x0A, 1, 7]));
    assert!(!key(IvfCodec::Av1, &[0x12, 0, 0x32, 1, 7]) && !key(IvfCodec::Av1, &[0x12, 0xFF, 0xFF]));
}

proptest! {
    #[test]
    fn writing_and_reading_is_the_identity(
        // Beyond 2⁶⁴ µs times are cut off: 2³⁰ ticks of at most 2,000 s stay below.
        frames in prop::collection::vec((0u64..1 << 30, prop::collection::vec(any::<u8>(), 0..50)), 0..8),
        rate in 1u32..100_000,
        scale in 1u32..2_000,
    ) {
        let header = IvfHeader { rate, scale, ..HEADER };
        // Times as a reader of such a file gives them.
        let frames: Vec<_> = (0u64..).zip(frames).map(|(index, (ticks, data))| EncodedFrame {
            index, pts_us: header.to_us(ticks), kind: frame_kind(IvfCodec::Vp9, &data), data: data.into(),
        }).collect();
        let mut writer = IvfWriter::new(Vec::new(), header).unwrap();
        for frame in &frames {
            writer.write(frame).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let read: Vec<_> = IvfReader::new(&bytes[..]).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(read, frames);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), headed in any::<bool>()) {
        let mut file = if headed { file(&[]) } else { Vec::new() };
        file.extend(&bytes);
        if let Ok(reader) = IvfReader::new(&file[..]) {
            prop_assert!(reader.count() <= bytes.len() + 1);
        }
        for codec in [IvfCodec::Vp8, IvfCodec::Vp9, IvfCodec::Av1, IvfCodec::H264] {
            let _ = frame_kind(codec, &bytes);
        }
    }
}
