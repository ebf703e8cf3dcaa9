//! Pictures through the `ffmpeg` program: any video as pictures, encodes with B frames or layers, what a decoder makes
//! of a stream with holes, and how much pictures resemble others by ffmpeg's own filters.
//!
//! Everything goes through pipes, so memory holds a few pictures, never a film. Programs are started without a shell,
//! may open local files only, and end with what started them.
//!
//! | step | what |
//! | --- | --- |
//! | [`Footage`] | the source, picture by picture |
//! | [`encode`] | source → frames in decoding order, each with its place in the order of display |
//! | [`Decoded`] | an IVF file, with or without holes → pictures with their places |
//! | [`Judge`] | each picture against its source: PSNR and SSIM |

mod child;
mod decode;
mod encode;
mod footage;
mod judge;
mod rate;

use std::ffi::OsString;
use std::io;
use std::process::{Command, Stdio};

use thiserror::Error;

use crate::ffmpeg::FfmpegOptions;
use crate::picture::SizeError;

pub use decode::Decoded;
pub use encode::{CodedFrame, Coding, Encoding, encode};
pub use footage::{Footage, Pictures};
pub use judge::{Judge, Likenesses};
pub use rate::FrameRate;

/// Why pictures could not be made, decoded or compared: always one line.
#[derive(Debug, Error)]
pub enum StudioError {
    /// A program is not installed.
    #[error("{} was not found; install it with: apt-get install ffmpeg", .program.display())]
    Missing {
        /// The program.
        program: OsString,
    },
    /// It is installed without an encoder.
    #[error("this ffmpeg cannot encode {coding}: it is built without {encoder}")]
    NoEncoder {
        /// What was to be made.
        coding: Coding,
        /// Its name for the encoder.
        encoder: &'static str,
    },
    /// Its `showinfo` filter has no `pos`, by which [`Decoded`] knows pictures.
    #[error("this ffmpeg does not tell where frames are in their file: version 5 does, the latest do not")]
    NoPositions,
    /// It gave up, or said what cannot be.
    #[error("ffmpeg {doing}: {complaint}")]
    Failed {
        /// What it was doing.
        doing: &'static str,
        /// What it said, or what was wrong with it.
        complaint: String,
    },
    /// A size that pictures cannot have.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The system refused a pipe or a file.
    #[error("ffmpeg {doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl StudioError {
    fn failed(doing: &'static str, complaint: impl Into<String>) -> Self {
        Self::Failed { doing, complaint: complaint.into() }
    }

    fn io(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// Whether ffmpeg is missing or lacks what is needed.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NoEncoder { .. } | Self::NoPositions)
    }
}

/// Whether everything that is needed is installed: both programs, the encoder, and a filter that tells where frames are.
///
/// # Errors
/// [`StudioError::Missing`], [`StudioError::NoEncoder`] and [`StudioError::NoPositions`] say what is not.
pub fn check(options: &FfmpegOptions, coding: Coding) -> Result<(), StudioError> {
    said(&options.ffprobe, &["-v", "error", "-version"])?;
    let encoders = said(&options.ffmpeg, &["-hide_banner", "-v", "error", "-encoders"])?;
    let encoder = coding.encoder();
    let listed = |line: &str| line.split_whitespace().nth(1) == Some(encoder);
    if !encoders.lines().any(listed) {
        return Err(StudioError::NoEncoder { coding, encoder });
    }
    if decode::tells_positions(&options.ffmpeg)? { Ok(()) } else { Err(StudioError::NoPositions) }
}

fn said(program: &OsString, args: &[&str]) -> Result<String, StudioError> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|source| child::cannot_start(program, source))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests;
