//! Why pictures could not be made or decoded.

use std::{ffi::OsString, io, path::PathBuf};

use thiserror::Error;

use super::coding::Coding;
use crate::picture::SizeError;

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
    /// Its `showinfo` filter has no `pos`, which identifies pictures for [`Decoded`](super::Decoded).
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
    pub(super) fn failed(doing: &'static str, complaint: impl Into<String>) -> Self {
        Self::Failed { doing, complaint: complaint.into() }
    }

    pub(super) fn io(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// Whether ffmpeg is missing or lacks what is needed.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NoEncoder { .. } | Self::NoPositions)
    }
}
