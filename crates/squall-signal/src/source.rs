//! Where readings come from.

use std::time::{Duration, Instant};

use crate::{Reading, Time};

/// The clock of readings. Clocks that are copies of one another agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose epoch is `origin`.
    pub fn new(origin: Instant) -> Self {
        Self { origin }
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// The time of an instant; the epoch if it is before that.
    pub fn at(&self, instant: Instant) -> Time {
        Time::EPOCH + instant.saturating_duration_since(self.origin).into()
    }
}

/// A radio that can be read. A call may wait, so it is made on a thread of its own.
pub trait SignalSource: Send {
    /// What it reads, for people: `wlan0`, `ModemManager modem 0`, a file.
    fn label(&self) -> String;

    /// A note for its users, in one line, such as that it reports less than it could and
    /// why. `None` by default.
    fn note(&self) -> Option<String> {
        None
    }

    /// Waits for something new, at most about `timeout`, and returns the newest reading with its time by
    /// `clock`; `None` if there was nothing new.
    ///
    /// # Errors
    /// When the radio is gone or may not be read. Whether another attempt is worthwhile is the answer of
    /// [`SourceError::is_lasting`].
    fn next(&mut self, clock: Clock, timeout: Duration) -> Result<Option<Reading>, SourceError>;
}

/// Why a radio cannot be read: one line that names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// There is no such radio.
    #[error("{radio}: {problem}")]
    Missing {
        /// The radio.
        radio: String,
        /// What is missing, and what would help.
        problem: String,
    },
    /// It may not be read by this user.
    #[error("{radio}: not permitted: {problem}")]
    Denied {
        /// The radio.
        radio: String,
        /// What would be needed.
        problem: String,
    },
    /// It was there, and did not answer or answered nonsense.
    #[error("{radio}: {problem}")]
    Failed {
        /// The radio.
        radio: String,
        /// What happened.
        problem: String,
    },
    /// A recording is at its end.
    #[error("{0}: the recording is at its end")]
    Ended(String),
}

impl SourceError {
    /// What is wrong, without the radio's name.
    pub fn problem(&self) -> String {
        match self {
            Self::Missing { problem, .. } | Self::Failed { problem, .. } => problem.clone(),
            Self::Denied { problem, .. } => format!("not permitted: {problem}"),
            Self::Ended(_) => "the recording is at its end".to_owned(),
        }
    }

    /// Neither of two kinds of radio was found.
    pub(crate) fn and(self, other: &Self) -> Self {
        let problem = format!("{}; {}", self.problem(), other.problem());
        match self {
            Self::Missing { radio, .. }
            | Self::Denied { radio, .. }
            | Self::Failed { radio, .. }
            | Self::Ended(radio) => Self::Missing { radio, problem },
        }
    }

    /// The same error of a radio that was there before, and may come back.
    #[cfg(all(any(feature = "modem", feature = "wifi"), target_os = "linux"))]
    pub(crate) fn passing(self) -> Self {
        match self {
            Self::Missing { radio, problem } => Self::Failed { radio, problem },
            other => other,
        }
    }

    /// Whether another attempt would give the same error.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::Failed { .. })
    }
}
