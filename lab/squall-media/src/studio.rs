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

/// Whether everything that is needed is installed: both programs, the encoder, and a filter that reports where frames are.
///
/// # Errors
/// [`StudioError::Missing`], [`StudioError::NoEncoder`] and [`StudioError::NoPositions`] say what is not.
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
