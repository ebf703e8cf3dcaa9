//! Errors of the studio.

use std::{ffi::OsString, io, path::PathBuf};

use thiserror::Error;

use super::coding::Coding;
use crate::picture::SizeError;

/// Failure to produce or decode pictures, always one line.
#[derive(Debug, Error)]
pub enum StudioError {
    /// A program is not installed.
    #[error("{} was not found; install it with: apt-get install ffmpeg", .program.display())]
    Missing {
        /// The program.
        program: OsString,
    },
    /// The program lacks an encoder.
    #[error("this ffmpeg cannot encode {coding}: it is built without {encoder}")]
    NoEncoder {
        /// Requested encoding.
        coding: Coding,
        /// Its name for the encoder.
        encoder: &'static str,
    },
    /// Its `showinfo` filter has no `pos`, which identifies pictures for [`Decoded`](super::Decoded).
    #[error("this ffmpeg does not report where frames are in their file: version 5 does, the latest do not")]
    NoPositions,
    /// A file is not a film.
    #[error("{}: {problem}", .path.display())]
    Film {
        /// The file.
        path: PathBuf,
        /// Description of the error.
        problem: String,
    },
    /// ffmpeg failed, or its output is invalid.
    #[error("ffmpeg {doing}: {complaint}")]
    Failed {
        /// Operation in progress.
        doing: &'static str,
        /// ffmpeg's message, or a description of the invalid output.
        complaint: String,
    },
    /// An invalid size of pictures.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The operating system refused a pipe or a file.
    #[error("ffmpeg {doing}: {source}")]
    Io {
        /// Operation in progress.
        doing: &'static str,
        /// Error of the operating system.
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

    /// Returns `true` if ffmpeg or one of its required features is missing.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NoEncoder { .. } | Self::NoPositions)
    }
}
