//! Video processing with the `ffmpeg` program: decoding of any video, encoding with B frames or
//! layers, and decoding of streams with losses.
//!
//! All data goes through pipes, so memory holds a few pictures, never a film. Programs are started
//! without a shell, may open only local files, and end with their owner.
//!
//! | step | what |
//! | --- | --- |
//! | [`Footage`] | the source, picture by picture |
//! | [`encode`] | source → frames in decoding order, each with its place in the order of display |
//! | [`Decoded`] | an IVF file, with or without holes → pictures with their places |

mod child;
mod coding;
mod decode;
mod encode;
mod error;
mod footage;
mod rate;

use std::ffi::OsString;

pub use coding::Coding;
pub use decode::Decoded;
pub use encode::{CodedFrame, Encoding, encode};
pub use error::StudioError;
pub use footage::{Footage, Pictures};
pub use rate::FrameRate;

/// The programs, as names in `PATH` or as paths.
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

/// Checks that all requirements are installed: both programs, the encoder, and a filter that
/// reports the positions of frames.
///
/// # Errors
/// [`StudioError::Missing`], [`StudioError::NoEncoder`] and [`StudioError::NoPositions`] for a
/// missing requirement.
pub fn check(programs: &Programs, coding: Coding) -> Result<(), StudioError> {
    child::output(&programs.ffprobe, "-v error -version".split(' '))?;
    let listed = child::output(&programs.ffmpeg, "-hide_banner -v error -encoders".split(' '))?;
    let encoder = coding.encoder();
    let is_listed = |line: &str| line.split_whitespace().nth(1) == Some(encoder);
    if !String::from_utf8_lossy(&listed.stdout).lines().any(is_listed) {
        return Err(StudioError::NoEncoder { coding, encoder });
    }
    if decode::has_positions(&programs.ffmpeg)? { Ok(()) } else { Err(StudioError::NoPositions) }
}

#[cfg(test)]
mod tests;
