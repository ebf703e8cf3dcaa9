//! Pictures through the `ffmpeg` program: any video as pictures, encodes with B frames or layers, and what a decoder makes
//! of a stream with holes.
//!
//! Everything goes through pipes, so memory holds a few pictures, never a film. Programs are started without a shell,
//! may open local files only, and end with their owner.
//!
//! | step | what |
//! | --- | --- |
//! | [`Footage`] | the source, picture by picture |
//! | [`encode`] | source → frames in decoding order, each with its place in the order of display |
//! | [`Decoded`] | an IVF file, with or without holes → pictures with their places |

mod child;
mod decode;
mod encode;
mod footage;
mod rate;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use thiserror::Error;

use crate::picture::SizeError;

pub use decode::Decoded;
pub use encode::{CodedFrame, Coding, Encoding, encode};
pub use footage::{Footage, Pictures};
pub use rate::FrameRate;

/// The programs, names to be found in `PATH` or paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// `ffmpeg`.
    pub ffmpeg: OsString,
    /// `ffprobe`, which comes with it.
    pub ffprobe: OsString,
}

impl Default for Programs {
    fn default() -> Self {
        Self { ffmpeg: "ffmpeg".into(), ffprobe: "ffprobe".into() }
    }
}

/// Why pictures could not be made or decoded: always one line.
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
    /// Its `showinfo` filter has no `pos`, which identifies pictures for [`Decoded`].
    #[error("this ffmpeg does not report where frames are in their file: version 5 does, the latest do not")]
    NoPositions,
    /// A file is no film.
    #[error("{}: {problem}", .path.display())]
    Film {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// ffmpeg failed, or its output is wrong.
    #[error("ffmpeg {doing}: {complaint}")]
    Failed {
        /// What it was doing.
        doing: &'static str,
        /// Its message, or what was wrong with its output.
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

/// Whether everything that is needed is installed: both programs, the encoder, and a filter that reports where frames are.
///
/// # Errors
/// [`StudioError::Missing`], [`StudioError::NoEncoder`] and [`StudioError::NoPositions`] say what is not.
pub fn check(programs: &Programs, coding: Coding) -> Result<(), StudioError> {
    output(&programs.ffprobe, "-v error -version".split(' '))?;
    let listed = output(&programs.ffmpeg, "-hide_banner -v error -encoders".split(' '))?;
    let encoder = coding.encoder();
    let is_listed = |line: &str| line.split_whitespace().nth(1) == Some(encoder);
    if !String::from_utf8_lossy(&listed.stdout).lines().any(is_listed) {
        return Err(StudioError::NoEncoder { coding, encoder });
    }
    if decode::has_positions(&programs.ffmpeg)? { Ok(()) } else { Err(StudioError::NoPositions) }
}

/// Runs a program without input until it ends.
fn output(program: &OsStr, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Output, StudioError> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    output.map_err(|source| child::cannot_start(program, source))
}

#[cfg(test)]
mod tests;
