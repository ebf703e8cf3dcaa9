//! Sources of readings.

use std::time::{Duration, Instant};

use crate::{Reading, Time};

/// The clock of readings. Copies of a clock agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Creates a clock whose epoch is `origin`.
    pub fn new(origin: Instant) -> Self {
        Self { origin }
    }

    /// Returns the present time.
    pub fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// Returns the time of an instant; the epoch for an earlier one.
    pub fn at(&self, instant: Instant) -> Time {
        Time::EPOCH + instant.saturating_duration_since(self.origin).into()
    }
}

/// A radio that can be read. A call may block, so it is made on a separate thread.
pub trait SignalSource: Send {
    /// Returns a readable name of the radio: `wlan0`, `ModemManager modem 0`, a file.
    fn label(&self) -> String;

    /// Returns a note for users, in one line, such as the reason for missing levels. Default:
    /// `None`.
    fn note(&self) -> Option<String> {
        None
    }

    /// Waits for a new reading, about `timeout` at most, and returns the latest one with its time
    /// by `clock`; `None` if there is none.
    ///
    /// # Errors
    /// If the radio is gone or may not be read. [`SourceError::is_lasting`] decides whether another
    /// attempt is worthwhile.
    fn next(&mut self, clock: Clock, timeout: Duration) -> Result<Option<Reading>, SourceError>;
}

/// Reason why a radio cannot be read: one line that names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// There is no such radio.
    #[error("{radio}: {problem}")]
    Missing {
        /// The radio.
        radio: String,
        /// The missing part, and the remedy.
        problem: String,
    },
    /// This user may not read it.
    #[error("{radio}: not permitted: {problem}")]
    Denied {
        /// The radio.
        radio: String,
        /// The permission that is needed.
        problem: String,
    },
    /// It exists, but did not answer or sent an invalid answer.
    #[error("{radio}: {problem}")]
    Failed {
        /// The radio.
        radio: String,
        /// Description of the failure.
        problem: String,
    },
    /// A recording is at its end.
    #[error("{0}: the recording is at its end")]
    Ended(String),
}

impl SourceError {
    /// Returns the description of the problem, without the radio's name.
    pub fn problem(&self) -> String {
        match self {
            Self::Missing { problem, .. } | Self::Failed { problem, .. } => problem.clone(),
            Self::Denied { problem, .. } => format!("not permitted: {problem}"),
            Self::Ended(_) => "the recording is at its end".to_owned(),
        }
    }

    /// Merges the errors of two kinds of radio of which neither was found.
    pub(crate) fn and(self, other: &Self) -> Self {
        let problem = format!("{}; {}", self.problem(), other.problem());
        match self {
            Self::Missing { radio, .. }
            | Self::Denied { radio, .. }
            | Self::Failed { radio, .. }
            | Self::Ended(radio) => Self::Missing { radio, problem },
        }
    }

    /// Turns the error into that of a radio that existed before and may return.
    #[cfg(all(any(feature = "modem", feature = "wifi"), target_os = "linux"))]
    pub(crate) fn passing(self) -> Self {
        match self {
            Self::Missing { radio, problem } => Self::Failed { radio, problem },
            other => other,
        }
    }

    /// Returns `true` if another attempt would give the same error.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::Failed { .. })
    }
}
