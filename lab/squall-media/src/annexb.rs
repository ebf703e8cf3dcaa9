//! H.264 byte streams (ITU-T H.264 Annex B): splitting into NAL units and access units, and writing.
//!
//! Splitting loses nothing: the access units put one after the other are the file again.

use std::io::{self, Read, Write};

use bytes::{Bytes, BytesMut};
use thiserror::Error;

use crate::frame::{EncodedFrame, FrameKind, MAX_FRAME_BYTES};

/// Bytes read from the file at a time.
const READ_BYTES: usize = 64 << 10;

/// NAL unit types that matter here (ITU-T H.264 table 7-1).
mod nal {
    pub(super) const SLICE: u8 = 1;
    pub(super) const IDR: u8 = 5;
    pub(super) const SEI: u8 = 6;
    pub(super) const DELIMITER: u8 = 9;
}

/// Why a byte stream cannot be read further.
#[derive(Debug, Error)]
pub enum AnnexBError {
    /// The file could not be read.
    #[error("byte {offset}: {source}")]
    Read {
        /// How far the file was read.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The stream does not begin with a start code.
    #[error("byte {offset}: not an H.264 byte stream: no start code (00 00 01)")]
    NoStartCode {
        /// Where it was expected.
        offset: u64,
    },
    /// A frame exceeds [`MAX_FRAME_BYTES`].
    #[error("byte {offset}: the frame that begins here is larger than {MAX_FRAME_BYTES} bytes")]
    TooLarge {
        /// Where the frame begins.
        offset: u64,
    },
}

/// One NAL unit inside a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nal<'a> {
    /// Everything after the start code up to the next one, trailing zeros included; may be empty.
    pub payload: &'a [u8],
}

impl Nal<'_> {
    /// `nal_unit_type`; 0 for an empty unit.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.payload.first().map_or(0, |byte| byte & 0x1F)
    }

    /// `nal_ref_idc`: 0 when no other frame refers to this one.
    #[must_use]
    pub fn reference(&self) -> u8 {
        self.payload.first().map_or(0, |byte| byte >> 5 & 3)
    }

    /// Whether the unit is a slice of a picture (or the first partition of one).
    #[must_use]
    pub fn is_slice(&self) -> bool {
        matches!(self.kind(), nal::SLICE | 2 | nal::IDR)
    }

    /// Whether the slice begins at the picture's first macroblock: `first_mb_in_slice` is 0, which Exp-Golomb
    /// coding writes as a single 1 bit.
    #[must_use]
    pub fn is_first_slice(&self) -> bool {
        self.is_slice() && self.payload.get(1).is_some_and(|byte| byte & 0x80 != 0)
    }

    /// Whether the unit may only stand before the first slice of a picture (ITU-T H.264 § 7.4.1.2.3).
    fn opens_unit(&self) -> bool {
        matches!(self.kind(), nal::SEI..=nal::DELIMITER | 14..=18)
    }
}

/// The NAL units of a buffer; bytes before its first start code are left out.
pub fn nals(data: &[u8]) -> impl Iterator<Item = Nal<'_>> {
    let mut next = find_start_code(data, 0);
    std::iter::from_fn(move || {
        let begin = next? + 3;
        next = find_start_code(data, begin);
        let end = next.map_or(data.len(), |next| start_of(data, next, begin));
        Some(Nal { payload: &data[begin..end] })
    })
}

/// What is lost with this access unit: [`FrameKind::Key`] when it holds an IDR slice,
/// [`FrameKind::Disposable`] when none of its slices is a reference.
#[must_use]
pub fn frame_kind(data: &[u8]) -> FrameKind {
    let mut referenced = false;
    let mut slices = false;
    for unit in nals(data).filter(Nal::is_slice) {
        if unit.kind() == nal::IDR {
            return FrameKind::Key;
        }
        slices = true;
        referenced |= unit.reference() != 0;
    }
    if slices && !referenced { FrameKind::Disposable } else { FrameKind::Delta }
}

/// Whether the bytes begin like a byte stream: zeros, a start code, and a NAL header with its first bit 0
/// and a type that can begin a stream.
#[must_use]
pub fn looks_like(data: &[u8]) -> bool {
    let Some(code) = find_start_code(data, 0) else { return false };
    let header = data.get(code + 3).copied().unwrap_or(0xFF);
    // § 7.4.1 ties nal_ref_idc to some types, which tells H.264 from MPEG-2 and H.265.
    let fits = match header & 0x1F {
        nal::SLICE => true,
        nal::IDR | 7 | 8 => header & 0x60 != 0,
        nal::SEI | nal::DELIMITER => header & 0x60 == 0,
        _ => false,
    };
    fits && header & 0x80 == 0 && data[..code].iter().all(|&byte| byte == 0)
}

/// Position of the next `00 00 01` at or after `from`.
fn find_start_code(data: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while at + 2 < data.len() {
        match (data[at], data[at + 1], data[at + 2]) {
            (0, 0, 1) => return Some(at),
            // A byte above 1 can be no part of a start code: go on behind it.
            (_, _, 2..) => at += 3,
            _ => at += 1,
        }
    }
    None
}

/// Where the unit at start code `code` begins: one zero byte before the code belongs to it
/// (`zero_byte` of § B.1.1), but not a byte before `limit`.
fn start_of(data: &[u8], code: usize, limit: usize) -> usize {
    if code > limit && data[code - 1] == 0 { code - 1 } else { code }
}

/// Access units of a byte stream, read piece by piece: memory is bounded by one frame.
///
/// The iterator ends after the first error. Presentation times are not in such a stream; they are counted
/// by the reader of the file (see [`source`](crate::source)).
#[derive(Debug)]
pub struct AccessUnits<R> {
    input: R,
    /// From the start of the current access unit.
    buffer: BytesMut,
    /// Bytes of the file before `buffer`.
    offset: u64,
    /// Where the search for the next start code goes on.
    scan: usize,
    /// The current NAL unit in `buffer`: its first byte and its payload.
    unit: Option<(usize, usize)>,
    has_slice: bool,
    ended: bool,
    failed: bool,
}

impl<R: Read> AccessUnits<R> {
    /// Reads from `input`, which need not be buffered.
    pub fn new(input: R) -> Self {
        let buffer = BytesMut::new();
        Self { input, buffer, offset: 0, scan: 0, unit: None, has_slice: false, ended: false, failed: false }
    }

    fn read_unit(&mut self) -> Result<Option<Bytes>, AnnexBError> {
        loop {
            if let Some(code) = find_start_code(&self.buffer, self.scan) {
                if let Some(done) = self.at_start_code(code)? {
                    return Ok(Some(done));
                }
            } else if self.ended {
                return self.at_end();
            } else {
                self.fill()?;
            }
        }
    }

    /// Closes the unit before the start code; gives the access unit that ends with it, if one does.
    fn at_start_code(&mut self, code: usize) -> Result<Option<Bytes>, AnnexBError> {
        let Some((_, payload)) = self.unit else {
            if self.buffer[..code].iter().any(|&byte| byte != 0) {
                return Err(AnnexBError::NoStartCode { offset: self.offset });
            }
            self.unit = Some((0, code + 3));
            self.scan = code + 3;
            return Ok(None);
        };
        let start = start_of(&self.buffer, code, payload);
        let done = self.close_unit(start);
        let shift = done.as_ref().map_or(0, Bytes::len);
        self.unit = Some((start - shift, code + 3 - shift));
        self.scan = code + 3 - shift;
        Ok(done)
    }

    /// Looks at the finished unit, which ends at `end`: when it opens a new access unit, what stands before
    /// it is complete and taken out.
    fn close_unit(&mut self, end: usize) -> Option<Bytes> {
        let (start, payload) = self.unit?;
        let unit = Nal { payload: &self.buffer[payload..end] };
        let opens = self.has_slice && (unit.opens_unit() || unit.is_first_slice());
        self.has_slice = unit.is_slice() || self.has_slice && !opens;
        opens.then(|| self.take(start))
    }

    fn at_end(&mut self) -> Result<Option<Bytes>, AnnexBError> {
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let Some((start, payload)) = self.unit else {
            return Err(AnnexBError::NoStartCode { offset: self.offset });
        };
        let end = self.buffer.len();
        if let Some(done) = self.close_unit(end) {
            // The last unit remains, as an access unit of its own.
            self.unit = Some((0, payload - start));
            self.has_slice = false;
            self.scan = self.buffer.len();
            return Ok(Some(done));
        }
        Ok(Some(self.take(end)))
    }

    fn take(&mut self, bytes: usize) -> Bytes {
        self.offset += bytes as u64;
        self.buffer.split_to(bytes).freeze()
    }

    fn fill(&mut self) -> Result<(), AnnexBError> {
        let old = self.buffer.len();
        if old > MAX_FRAME_BYTES {
            return Err(AnnexBError::TooLarge { offset: self.offset });
        }
        // The last two bytes may be the beginning of a start code.
        self.scan = self.scan.max(old.saturating_sub(2));
        self.buffer.resize(old + READ_BYTES, 0);
        let read = loop {
            match self.input.read(&mut self.buffer[old..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let read = read.map_err(|source| AnnexBError::Read { offset: self.offset + old as u64, source })?;
        self.buffer.truncate(old + read);
        self.ended = read == 0;
        Ok(())
    }
}

impl<R: Read> Iterator for AccessUnits<R> {
    type Item = Result<Bytes, AnnexBError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let begin = self.offset;
        let item = match self.read_unit() {
            Ok(Some(unit)) if unit.len() > MAX_FRAME_BYTES => Err(AnnexBError::TooLarge { offset: begin }),
            other => other,
        };
        self.failed = item.is_err();
        item.transpose()
    }
}

/// Writes H.264 frames to a file that players can open.
///
/// Frames that did not arrive are simply absent; players show what ours shows, a frozen picture.
#[derive(Debug)]
pub struct AnnexBWriter<W> {
    out: W,
}

impl<W: Write> AnnexBWriter<W> {
    /// Writes to `out`, best a buffered one.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// Adds one frame.
    ///
    /// # Errors
    /// Those of the output; and `InvalidInput` when the frame is not in Annex B form.
    pub fn write(&mut self, frame: &EncodedFrame) -> io::Result<()> {
        if !looks_like(&frame.data) {
            let text = format!("frame {} is not H.264 in Annex B form", frame.index);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
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
