//! IVF files: the simple container of VP8, VP9 and AV1 streams, and of H.264 as ffmpeg reads it: in Annex B form. Unlike
//! a byte stream it tells when each picture is shown, also where some are missing.
//!
//! A header of 32 bytes (`DKIF`, version, header length, codec, width, height, time base, frame count), then
//! for each frame 4 bytes of length, 8 bytes of time and the data; all little-endian.

use std::io::{self, Read, Write};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::annexb;
use crate::frame::{EncodedFrame, FrameKind, MAX_FRAME_BYTES};

pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const FRAME_HEADER_BYTES: usize = 12;

/// What the frames of an IVF file are encoded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IvfCodec {
    /// VP8 (`VP80`).
    Vp8,
    /// VP9 (`VP90`).
    Vp9,
    /// AV1 (`AV01`).
    Av1,
    /// H.264 (`H264`).
    H264,
}

/// The file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Number of frames as the header says; 0 when its writer did not know. Not to be relied on.
    pub frames: u32,
}

/// Why an IVF file cannot be read further.
#[derive(Debug, Error)]
pub enum IvfError {
    /// The file could not be read.
    #[error("byte {offset}: {source}")]
    Read {
        /// How far the file was read.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file ends inside of something.
    #[error("byte {offset}: file ends inside {what} that begins at byte {begin}")]
    Truncated {
        /// Length of the file.
        offset: u64,
        /// What is incomplete.
        what: &'static str,
        /// Where that begins.
        begin: u64,
    },
    /// A header field has a value that cannot be.
    #[error("byte {offset}: {field} is {value}, expected {wanted}")]
    Field {
        /// Where the field is.
        offset: u64,
        /// Its name.
        field: &'static str,
        /// What it says.
        value: String,
        /// What it may say.
        wanted: &'static str,
    },
}

impl IvfHeader {
    /// Frame rate, when the time base is that of the frames (as encoders write it).
    #[must_use]
    pub fn fps(&self) -> f64 {
        f64::from(self.rate) / f64::from(self.scale)
    }

    fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, IvfError> {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let field = |ok: bool, offset, field, value: &dyn std::fmt::Display, wanted| {
            if ok { Ok(()) } else { Err(IvfError::Field { offset, field, value: value.to_string(), wanted }) }
        };
        field(&bytes[..4] == b"DKIF", 0, "signature", &bytes[..4].escape_ascii(), "DKIF")?;
        field(u16_at(4) == 0, 4, "version", &u16_at(4), "0")?;
        field(usize::from(u16_at(6)) == HEADER_BYTES, 6, "header length", &u16_at(6), "32")?;
        let codec = match &bytes[8..12] {
            b"VP80" => IvfCodec::Vp8,
            b"VP90" => IvfCodec::Vp9,
            b"AV01" => IvfCodec::Av1,
            b"H264" => IvfCodec::H264,
            other => {
                field(false, 8, "codec", &other.escape_ascii(), "VP80, VP90, AV01 or H264")?;
                unreachable!("a false field is an error")
            }
        };
        let header = Self {
            codec,
            width: u16_at(12),
            height: u16_at(14),
            rate: u32_at(16),
            scale: u32_at(20),
            frames: u32_at(24),
        };
        field(header.width > 0, 12, "width", &header.width, "at least 1")?;
        field(header.height > 0, 14, "height", &header.height, "at least 1")?;
        field(header.rate > 0, 16, "time base rate", &header.rate, "at least 1")?;
        field(header.scale > 0, 20, "time base scale", &header.scale, "at least 1")?;
        Ok(header)
    }

    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let codec = match self.codec {
            IvfCodec::Vp8 => b"VP80",
            IvfCodec::Vp9 => b"VP90",
            IvfCodec::Av1 => b"AV01",
            IvfCodec::H264 => b"H264",
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(b"DKIF");
        bytes[6..8].copy_from_slice(&(HEADER_BYTES as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(codec);
        bytes[12..14].copy_from_slice(&self.width.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.height.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.rate.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.scale.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.frames.to_le_bytes());
        bytes
    }

    /// Rounded to nearest, like [`IvfHeader::to_ticks`]: for time units above 1 µs each undoes the other.
    fn to_us(self, ticks: u64) -> u64 {
        scaled(ticks, 1_000_000 * u128::from(self.scale), self.rate.into())
    }

    fn to_ticks(self, us: u64) -> u64 {
        scaled(us, self.rate.into(), 1_000_000 * u128::from(self.scale))
    }
}

/// `value * by / over`, rounded to nearest and held to 64 bits.
fn scaled(value: u64, by: u128, over: u128) -> u64 {
    u64::try_from((u128::from(value) * by + over / 2) / over).unwrap_or(u64::MAX)
}

/// Frames of an IVF file, one at a time. The iterator ends after the first error.
#[derive(Debug)]
pub struct IvfReader<R> {
    input: R,
    header: IvfHeader,
    offset: u64,
    next_index: u64,
    failed: bool,
}

impl<R: Read> IvfReader<R> {
    /// Reads and checks the file header. `input` should be buffered.
    ///
    /// # Errors
    /// When the header is incomplete or wrong.
    pub fn new(mut input: R) -> Result<Self, IvfError> {
        let mut bytes = [0; HEADER_BYTES];
        let read = read_up_to(&mut input, &mut bytes, 0)?;
        if read < HEADER_BYTES {
            return Err(IvfError::Truncated { offset: read as u64, what: "the file header", begin: 0 });
        }
        let header = IvfHeader::parse(&bytes)?;
        Ok(Self { input, header, offset: HEADER_BYTES as u64, next_index: 0, failed: false })
    }

    /// The file header.
    #[must_use]
    pub fn header(&self) -> IvfHeader {
        self.header
    }

    fn read_frame(&mut self) -> Result<Option<EncodedFrame>, IvfError> {
        let begin = self.offset;
        let mut header = [0; FRAME_HEADER_BYTES];
        let read = read_up_to(&mut self.input, &mut header, begin)?;
        self.offset += read as u64;
        if read == 0 {
            return Ok(None);
        }
        if read < FRAME_HEADER_BYTES {
            return Err(IvfError::Truncated { offset: self.offset, what: "a frame header", begin });
        }
        let [a, b, c, d, ticks @ ..] = header;
        let size = u32::from_le_bytes([a, b, c, d]) as usize;
        if size > MAX_FRAME_BYTES {
            let (field, wanted) = ("frame size", "at most 16777216");
            return Err(IvfError::Field { offset: begin, field, value: size.to_string(), wanted });
        }
        let data = self.read_data(size, begin)?;
        let index = self.next_index;
        self.next_index += 1;
        let pts_us = self.header.to_us(u64::from_le_bytes(ticks));
        let kind = frame_kind(self.header.codec, &data);
        Ok(Some(EncodedFrame { index, pts_us, kind, data }))
    }

    /// Memory grows with what is there, not with what the frame header claims.
    fn read_data(&mut self, size: usize, begin: u64) -> Result<Bytes, IvfError> {
        let mut data = Vec::new();
        let read = self.input.by_ref().take(size as u64).read_to_end(&mut data);
        self.offset += data.len() as u64;
        read.map_err(|source| IvfError::Read { offset: self.offset, source })?;
        if data.len() < size {
            return Err(IvfError::Truncated { offset: self.offset, what: "a frame", begin });
        }
        Ok(data.into())
    }
}

impl<R: Read> Iterator for IvfReader<R> {
    type Item = Result<EncodedFrame, IvfError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.read_frame().transpose();
        self.failed = matches!(item, Some(Err(_)));
        item
    }
}

/// Reads until `to` is full or the input ends; gives the number of bytes.
fn read_up_to(input: &mut impl Read, to: &mut [u8], offset: u64) -> Result<usize, IvfError> {
    let mut done = 0;
    while done < to.len() {
        match input.read(&mut to[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(IvfError::Read { offset: offset + done as u64, source }),
        }
    }
    Ok(done)
}

/// What a frame's first bytes say about it. Frames that nothing refers to are recognised in VP9 only as
/// far as the fixed part of its header goes, so that [`FrameKind::Disposable`] is only reported in H.264.
#[must_use]
pub fn frame_kind(codec: IvfCodec, data: &[u8]) -> FrameKind {
    let key = match codec {
        // RFC 6386 § 9.1: the lowest bit of a frame is 0 in a key frame.
        IvfCodec::Vp8 => data.first().is_some_and(|byte| byte & 1 == 0),
        IvfCodec::Vp9 => data.first().is_some_and(|&byte| is_vp9_key(byte)),
        IvfCodec::Av1 => has_av1_sequence_header(data),
        IvfCodec::H264 => return annexb::frame_kind(data),
    };
    if key { FrameKind::Key } else { FrameKind::Delta }
}

/// VP9 specification § 6.2: two bits of marker, profile low and high bit, (a reserved bit in profile 3,)
/// `show_existing_frame`, `frame_type` (0 = key).
fn is_vp9_key(byte: u8) -> bool {
    let marker = byte >> 6 == 2;
    let wide = byte >> 4 & 3 == 3;
    let (existing, kind) = if wide { (byte >> 2 & 1, byte >> 1 & 1) } else { (byte >> 3 & 1, byte >> 2 & 1) };
    marker && existing == 0 && kind == 0
}

/// AV1 specification § 5.3: a random access point carries a sequence header, OBU type 1, in its temporal
/// unit, before any frame (types 3 and 6).
fn has_av1_sequence_header(mut data: &[u8]) -> bool {
    while let [header, rest @ ..] = data {
        let (kind, extension, has_size) = (header >> 3 & 15, header >> 2 & 1, header >> 1 & 1);
        match kind {
            1 => return true,
            3 | 6 => return false,
            _ => {}
        }
        let rest = rest.get(usize::from(extension)..).unwrap_or(&[]);
        if has_size == 0 {
            return false;
        }
        let Some((size, rest)) = leb128(rest) else { return false };
        data = usize::try_from(size).ok().and_then(|size| rest.get(size..)).unwrap_or(&[]);
    }
    false
}

/// AV1 specification § 4.10.5: at most eight bytes of seven bits, low ones first.
fn leb128(data: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (place, &byte) in data.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7F) << (place * 7);
        if byte & 0x80 == 0 {
            return Some((value, &data[place + 1..]));
        }
    }
    None
}

/// Writes an IVF file; the frame count in its header stays what the caller gave.
#[derive(Debug)]
pub struct IvfWriter<W> {
    out: W,
    header: IvfHeader,
}

impl<W: Write> IvfWriter<W> {
    /// Writes the file header.
    ///
    /// # Errors
    /// Those of the output; and `InvalidInput` when `rate` or `scale` is 0.
    pub fn new(mut out: W, header: IvfHeader) -> io::Result<Self> {
        if header.rate == 0 || header.scale == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "time base of an IVF file must not be 0",
            ));
        }
        out.write_all(&header.to_bytes())?;
        Ok(Self { out, header })
    }

    /// Adds one frame, its time rounded to the file's time base.
    ///
    /// # Errors
    /// Those of the output; and `InvalidInput` when the frame exceeds [`MAX_FRAME_BYTES`].
    pub fn write(&mut self, frame: &EncodedFrame) -> io::Result<()> {
        let size = u32::try_from(frame.data.len()).unwrap_or(u32::MAX);
        if size as usize > MAX_FRAME_BYTES {
            let text = format!("frame {} of {size} bytes is too large for a file", frame.index);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.out.write_all(&size.to_le_bytes())?;
        self.out.write_all(&self.header.to_ticks(frame.pts_us).to_le_bytes())?;
        self.out.write_all(&frame.data)
    }

    /// Flushes and gives the output back.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests;
