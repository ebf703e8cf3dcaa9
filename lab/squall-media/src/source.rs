//! Video files as a source of frames, recognised by their content.
//!
//! H.264 byte streams and IVF files are read here; everything else is left to the `ffmpeg` program, if it is
//! installed ([`ffmpeg`]).

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::annexb::{self, AccessUnits, AnnexBError};
use crate::ffmpeg::{self, FfmpegError, FfmpegOptions};
use crate::frame::{EncodedFrame, frame_time_us};
use crate::ivf::{IvfCodec, IvfError, IvfReader};

/// Bytes looked at to recognise a file.
const PREFIX_BYTES: usize = 256;
/// Taken when neither the file nor the caller names a frame rate.
const DEFAULT_FPS: f64 = 30.0;

/// How a file is to be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceOptions {
    /// Frames per second of an H.264 byte stream, which has no times of its own. Default: 30. Not used for
    /// other files.
    pub fps: Option<f64>,
    /// How `ffmpeg` is run for other formats.
    pub ffmpeg: FfmpegOptions,
}

/// Compression of a source's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// H.264, in Annex B form.
    H264,
    /// VP8.
    Vp8,
    /// VP9.
    Vp9,
    /// AV1.
    Av1,
}

/// How the file came to be frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// An H.264 byte stream.
    AnnexB,
    /// An IVF file.
    Ivf,
    /// H.264 taken out of another container by `ffmpeg`, as it was.
    Copied,
    /// Encoded anew by `ffmpeg`, from the codec of this name.
    Transcoded(String),
}

/// What is known before the first frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceInfo {
    /// Compression of the frames.
    pub codec: Codec,
    /// How the file came to be frames.
    pub origin: Origin,
    /// Frames per second.
    pub fps: f64,
    /// Width and height in pixels; unknown for an H.264 byte stream.
    pub size: Option<(u32, u32)>,
}

/// Frames of a file, in decoding order. Ends after the first error.
pub trait FrameSource: Iterator<Item = Result<EncodedFrame, SourceError>> + Send {
    /// What is known of all frames.
    fn info(&self) -> &SourceInfo;
}

/// Why a file cannot be read (further): always one line that begins with the file.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The file cannot be opened or read.
    #[error("{}: {source}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is empty.
    #[error("{}: the file is empty", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The frame rate given for a byte stream cannot be.
    #[error("{}: frame rate {fps}: must be from 0.1 to 1000", .path.display())]
    FrameRate {
        /// The file.
        path: PathBuf,
        /// The frame rate.
        fps: f64,
    },
    /// A damaged H.264 byte stream.
    #[error("{}: {source}", .path.display())]
    AnnexB {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: AnnexBError,
    },
    /// A damaged IVF file.
    #[error("{}: {source}", .path.display())]
    Ivf {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: IvfError,
    },
    /// `ffmpeg` is missing, or cannot read the file.
    #[error("{}: {source}", .path.display())]
    Ffmpeg {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: FfmpegError,
    },
}

/// Opens a video file with default options.
///
/// # Errors
/// When the file cannot be opened or is no video.
pub fn open(path: impl AsRef<Path>) -> Result<Box<dyn FrameSource>, SourceError> {
    open_with(path, &SourceOptions::default())
}

/// Opens a video file.
///
/// # Errors
/// When the file cannot be opened or is no video, or the options are wrong.
pub fn open_with(
    path: impl AsRef<Path>,
    options: &SourceOptions,
) -> Result<Box<dyn FrameSource>, SourceError> {
    let path = path.as_ref().to_path_buf();
    let failed = |source| SourceError::Open { path: path.clone(), source };
    let mut file = File::open(&path).map_err(failed)?;
    let mut prefix = Vec::new();
    file.by_ref().take(PREFIX_BYTES as u64).read_to_end(&mut prefix).map_err(failed)?;
    if prefix.is_empty() {
        return Err(SourceError::Empty { path });
    }
    if prefix.starts_with(b"DKIF") {
        return Ok(Box::new(IvfSource::new(path, BufReader::new(Cursor::new(prefix).chain(file)))?));
    }
    if annexb::looks_like(&prefix) {
        let fps = options.fps.unwrap_or(DEFAULT_FPS);
        if !(0.1..=1000.0).contains(&fps) {
            return Err(SourceError::FrameRate { path, fps });
        }
        let info = SourceInfo { codec: Codec::H264, origin: Origin::AnnexB, fps, size: None };
        return Ok(Box::new(H264Source::new(path, info, Cursor::new(prefix).chain(file))));
    }
    drop(file);
    match ffmpeg::open(&path, &options.ffmpeg) {
        Ok((info, output)) => Ok(Box::new(H264Source::new(path, info, output))),
        Err(source) => Err(SourceError::Ffmpeg { path, source }),
    }
}

/// Access units with numbers and times.
struct H264Source<R> {
    path: PathBuf,
    info: SourceInfo,
    units: AccessUnits<R>,
    next_index: u64,
}

impl<R: Read> H264Source<R> {
    fn new(path: PathBuf, info: SourceInfo, input: R) -> Self {
        Self { path, info, units: AccessUnits::new(input), next_index: 0 }
    }
}

impl<R: Read> Iterator for H264Source<R> {
    type Item = Result<EncodedFrame, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let data = match self.units.next()? {
            Ok(data) => data,
            Err(source) => return Some(Err(self.failure(source))),
        };
        let index = self.next_index;
        self.next_index += 1;
        let pts_us = frame_time_us(index, self.info.fps);
        Some(Ok(EncodedFrame { index, pts_us, kind: annexb::frame_kind(&data), data }))
    }
}

impl<R> H264Source<R> {
    fn failure(&self, source: AnnexBError) -> SourceError {
        let path = self.path.clone();
        match source {
            // What `ffmpeg` said travels inside a read error.
            AnnexBError::Read { offset, source } => match source.downcast::<FfmpegError>() {
                Ok(source) => SourceError::Ffmpeg { path, source },
                Err(source) => SourceError::AnnexB { path, source: AnnexBError::Read { offset, source } },
            },
            source => SourceError::AnnexB { path, source },
        }
    }
}

impl<R: Read + Send> FrameSource for H264Source<R> {
    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

struct IvfSource<R> {
    path: PathBuf,
    info: SourceInfo,
    reader: IvfReader<R>,
}

impl<R: Read> IvfSource<R> {
    fn new(path: PathBuf, input: R) -> Result<Self, SourceError> {
        let reader = match IvfReader::new(input) {
            Ok(reader) => reader,
            Err(source) => return Err(SourceError::Ivf { path, source }),
        };
        let header = reader.header();
        let codec = match header.codec {
            IvfCodec::Vp8 => Codec::Vp8,
            IvfCodec::Vp9 => Codec::Vp9,
            IvfCodec::Av1 => Codec::Av1,
            IvfCodec::H264 => Codec::H264,
        };
        // Some writers give a clock (1000 or 90000) instead of the frame rate.
        let fps = if (1.0..=240.0).contains(&header.fps()) { header.fps() } else { DEFAULT_FPS };
        let size = Some((header.width.into(), header.height.into()));
        Ok(Self { path, info: SourceInfo { codec, origin: Origin::Ivf, fps, size }, reader })
    }
}

impl<R: Read> Iterator for IvfSource<R> {
    type Item = Result<EncodedFrame, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let path = &self.path;
        Some(self.reader.next()?.map_err(|source| SourceError::Ivf { path: path.clone(), source }))
    }
}

impl<R: Read + Send> FrameSource for IvfSource<R> {
    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

#[cfg(test)]
mod tests;
