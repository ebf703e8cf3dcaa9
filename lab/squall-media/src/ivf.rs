//! IVF files: the simple container of VP9 streams, and of H.264 in Annex B form, as ffmpeg reads
//! it. Unlike a byte stream it contains the display time of each picture, even if some are missing.
//!
//! A header of 32 bytes (`DKIF`, version, header length, codec, width, height, time base, frame count), then
//! for each frame 4 bytes of length, 8 bytes of time and the data; all little-endian.

use std::io::{self, Read, Write};

use bytes::Bytes;

use crate::annexb;
use crate::frame::{FrameKind, MAX_FRAME_BYTES};

pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const FRAME_HEADER_BYTES: usize = 12;

/// Codec of an IVF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IvfCodec {
    /// VP9.
    Vp9,
    /// H.264.
    H264,
}

impl IvfCodec {
    fn tag(self) -> &'static [u8; 4] {
        match self {
            Self::Vp9 => b"VP90",
            Self::H264 => b"H264",
        }
    }

    /// Returns the kind of a frame. Disposable frames are only detected in H.264.
    #[must_use]
    pub fn frame_kind(self, data: &[u8]) -> FrameKind {
        match self {
            Self::H264 => annexb::frame_kind(data),
            Self::Vp9 if data.first().is_some_and(|&byte| is_vp9_key(byte)) => FrameKind::Key,
            Self::Vp9 => FrameKind::Delta,
        }
    }
}

/// VP9 specification § 6.2: two bits of marker, profile low and high bit, (a reserved bit in profile 3,)
/// `show_existing_frame`, `frame_type` (0 = key).
fn is_vp9_key(byte: u8) -> bool {
    let marker = byte >> 6 == 2;
    let wide = byte >> 4 & 3 == 3;
    let (existing, kind) = if wide { (byte >> 2 & 1, byte >> 1 & 1) } else { (byte >> 3 & 1, byte >> 2 & 1) };
    marker && existing == 0 && kind == 0
}

/// The file header, without the number of frames, which is unknown to writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IvfHeader {
    /// The codec.
    pub codec: IvfCodec,
    /// Width in pixels.
    pub width: u16,
    /// Height in pixels.
    pub height: u16,
    /// Time units in a second: `rate / scale`. Never 0.
    pub rate: u32,
    /// See `rate`. Never 0.
    pub scale: u32,
}

impl IvfHeader {
    fn parse(bytes: [u8; HEADER_BYTES]) -> Option<Self> {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let codec = [IvfCodec::Vp9, IvfCodec::H264].into_iter().find(|codec| bytes[8..12] == *codec.tag())?;
        let (width, height, rate, scale) = (u16_at(12), u16_at(14), u32_at(16), u32_at(20));
        let known = bytes[..4] == *b"DKIF" && u16_at(4) == 0 && usize::from(u16_at(6)) == HEADER_BYTES;
        (known && rate > 0 && scale > 0).then_some(Self { codec, width, height, rate, scale })
    }

    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(b"DKIF");
        bytes[6..8].copy_from_slice(&(HEADER_BYTES as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(self.codec.tag());
        bytes[12..14].copy_from_slice(&self.width.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.height.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.rate.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.scale.to_le_bytes());
        bytes
    }
}

/// A frame of an IVF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IvfFrame {
    /// Display time of its picture, in time units of the file.
    pub time: u64,
    /// The compressed bytes.
    pub data: Bytes,
}

/// Frames of an IVF file, one at a time.
#[derive(Debug)]
pub struct IvfReader<R> {
    input: R,
    header: IvfHeader,
}

impl<R: Read> IvfReader<R> {
    /// Reads and checks the file header. `input` should be buffered.
    ///
    /// # Errors
    /// Errors of the input; and `InvalidData` if the header is neither of VP9 nor of H.264.
    pub fn new(mut input: R) -> io::Result<Self> {
        let mut bytes = [0; HEADER_BYTES];
        input.read_exact(&mut bytes)?;
        let header = IvfHeader::parse(bytes);
        let header = header.ok_or_else(|| invalid("not the header of an IVF file of VP9 or H.264"))?;
        Ok(Self { input, header })
    }

    /// Returns the file header.
    #[must_use]
    pub fn header(&self) -> IvfHeader {
        self.header
    }

    fn read_frame(&mut self) -> io::Result<Option<IvfFrame>> {
        let mut header = Vec::new();
        self.input.by_ref().take(FRAME_HEADER_BYTES as u64).read_to_end(&mut header)?;
        let Some(&[a, b, c, d, ref time @ ..]) = header.first_chunk::<FRAME_HEADER_BYTES>() else {
            return if header.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        };
        let size = u32::from_le_bytes([a, b, c, d]) as usize;
        if size > MAX_FRAME_BYTES {
            return Err(invalid(&format!("a frame of {size} bytes is larger than {MAX_FRAME_BYTES}")));
        }
        // Memory grows with the available bytes, not with the size claimed by the header.
        let mut data = Vec::new();
        if self.input.by_ref().take(size as u64).read_to_end(&mut data)? < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(IvfFrame { time: u64::from_le_bytes(*time), data: data.into() }))
    }
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

impl<R: Read> Iterator for IvfReader<R> {
    type Item = io::Result<IvfFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read_frame().transpose()
    }
}

/// Writes an IVF file.
#[derive(Debug)]
pub struct IvfWriter<W> {
    out: W,
}

impl<W: Write> IvfWriter<W> {
    /// Writes the file header.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn new(mut out: W, header: IvfHeader) -> io::Result<Self> {
        out.write_all(&header.to_bytes())?;
        Ok(Self { out })
    }

    /// Adds one frame, of at most [`MAX_FRAME_BYTES`].
    ///
    /// # Errors
    /// Errors of the output.
    pub fn write(&mut self, frame: &IvfFrame) -> io::Result<()> {
        self.out.write_all(&(frame.data.len() as u32).to_le_bytes())?;
        self.out.write_all(&frame.time.to_le_bytes())?;
        self.out.write_all(&frame.data)
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: IvfHeader =
        IvfHeader { codec: IvfCodec::Vp9, width: 64, height: 48, rate: 30_000, scale: 1_001 };

    fn file(frames: &[IvfFrame]) -> Vec<u8> {
        let mut writer = IvfWriter::new(Vec::new(), HEADER).unwrap();
        for frame in frames {
            writer.write(frame).unwrap();
        }
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<IvfFrame>> {
        IvfReader::new(bytes)?.collect()
    }

    #[test]
    fn damaged_files_are_errors() {
        let frame = IvfFrame { time: 7, data: Bytes::from_static(&[1, 2, 3, 4]) };
        let bytes = file(std::slice::from_ref(&frame));
        assert_eq!(IvfReader::new(&bytes[..]).unwrap().header(), HEADER);
        assert_eq!(read(&bytes).unwrap(), [frame]);
        for length in [20, 40, 46] {
            assert_eq!(read(&bytes[..length]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        // Signature, version, header length, codec, time base (of three bytes at 20), size of the frame.
        for (at, value) in [(0, b'X'), (4, 2), (6, 31), (8, b'H'), (35, 0x7F)] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            assert_eq!(read(&bytes).unwrap_err().kind(), io::ErrorKind::InvalidData, "byte {at}");
        }
        let mut bytes = bytes;
        bytes[20..24].fill(0);
        assert_eq!(read(&bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn key_frames_are_recognised() {
        let key = |codec: IvfCodec, data: &[u8]| codec.frame_kind(data) == FrameKind::Key;
        // Profile 0 and 3; a delta frame; an existing frame shown again; a wrong marker.
        assert!(key(IvfCodec::Vp9, &[0x82]) && key(IvfCodec::Vp9, &[0xB0]));
        assert!(!key(IvfCodec::Vp9, &[0x86]) && !key(IvfCodec::Vp9, &[0x88]) && !key(IvfCodec::Vp9, &[0x02]));
        assert!(key(IvfCodec::H264, &[0, 0, 1, 0x65, 0x88]) && !key(IvfCodec::H264, &[0, 0, 1, 0x41, 0x9A]));
        assert_eq!(IvfCodec::H264.frame_kind(&[0, 0, 1, 0x01, 0x9A]), FrameKind::Disposable);
    }

    proptest! {
        #[test]
        fn writing_and_reading_is_the_identity(
            frames in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..50)), 0..8),
        ) {
            let frames: Vec<IvfFrame> =
                frames.into_iter().map(|(time, data)| IvfFrame { time, data: data.into() }).collect();
            prop_assert_eq!(read(&file(&frames)).unwrap(), frames);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), headed: bool) {
            let mut file = if headed { file(&[]) } else { Vec::new() };
            file.extend(&bytes);
            crate::fuzz::ivf(&file);
        }
    }
}
