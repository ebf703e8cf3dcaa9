//! Interface of every kind of traffic: its description as a [`Kind`] and the generator of its
//! blocks as a [`Source`].

use std::fmt;

use bytes::Bytes;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use squall_media::film::FilmError;
use squall_media::sphere::SphereError;
use squall_units::Span;

use super::fields::Checked;
use crate::offer::{Class, Offer};
use crate::result::{PictureQuality, Playback};

/// A kind of traffic with its settings, as a scenario file describes it.
pub trait Kind {
    /// Name in scenario files, such as `video`.
    fn kind(&self) -> &'static str;

    /// Checks the bounds of all fields.
    ///
    /// # Errors
    /// The first field that is out of bounds.
    fn validate(&self) -> Checked;

    /// Classes of the blocks, at least one; [`Offer::class`] is an index into them.
    fn classes(&self) -> Vec<Class>;

    /// Deadline of the blocks, counted from their offers, if they have one.
    fn deadline(&self) -> Option<Span>;

    /// Deadline in microseconds.
    fn deadline_us(&self) -> Option<u64> {
        self.deadline().map(Span::micros)
    }

    /// Interval between pictures in microseconds, if the blocks are (parts of) pictures.
    fn picture_us(&self) -> Option<u64> {
        None
    }

    /// Bytes to keep queued in the session, if that paces the blocks instead of the clock.
    fn backlog(&self) -> Option<u64> {
        None
    }

    /// Forecast of the session that the block sizes follow, if any.
    fn follows(&self) -> Option<Follow> {
        None
    }

    /// Encodes the pictures, if there are any, for all sources of this traffic in the process;
    /// otherwise the source encodes them itself. `progress` receives the number of encoded frames
    /// of a film and of all its frames. Returns the highest bitrate of a film in bits per second.
    ///
    /// # Errors
    /// If the codec fails.
    fn prepare(&self, _progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Option<f64>, PictureError> {
        Ok(None)
    }

    /// Creates the source of the blocks of a flow that lasts `length_us`, with random numbers of
    /// its own.
    fn source(&self, rng: Pcg64Mcg, length_us: u64) -> Box<dyn Source>;
}

/// Reasons why pictures could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// Encoding a film failed.
    #[error(transparent)]
    Film(#[from] FilmError),
    /// Encoding a sphere failed.
    #[error(transparent)]
    Sphere(#[from] SphereError),
}

/// A forecast of a session for its encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// Current capacity of the paths, headers included:
    /// [`Capacity::link`](squall_proto::Capacity::link).
    Link,
    /// Rate that is reached nine times out of ten:
    /// [`Capacity::safe`](squall_proto::Capacity::safe). In addition, frames are limited to the
    /// size that [arrives](squall_proto::Session::deliverable) with the same probability within a
    /// time.
    Safe {
        /// Time for a frame to arrive, in microseconds.
        within_us: u64,
    },
}

/// Limits that a session sets for an encoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Rate in bits per second.
    pub bps: u64,
    /// Maximum size of the next frame in bytes.
    pub frame: u64,
}

/// Generator of the blocks of one kind of traffic. Times are in microseconds from the start of the
/// flow. A source does not stop at the end of the flow.
pub trait Source: fmt::Debug + Send {
    /// Returns the next block, not earlier than the last one. `None` while the source waits for an
    /// event.
    fn next(&mut self) -> Option<Offer>;

    /// Called when the receiver has the `index`th block of the flow, counted from 0 in the order of
    /// the offers.
    fn on_delivered(&mut self, _index: u64, _at_us: u64) {}

    /// Called when the receiver detects that the `index`th block will not arrive; the sender may
    /// not have detected that.
    fn on_missed(&mut self, _index: u64, _at_us: u64) {}

    /// Called when the sending session has finished the `index`th block: delivered, dropped or
    /// refused it.
    fn on_ended(&mut self, _index: u64, _at_us: u64, _delivered: bool) {}

    /// Called with the limits of the session before each block is made, if the traffic [follows
    /// them](Kind::follows).
    fn on_allowed(&mut self, _at_us: u64, _allowed: Allowed) {}

    /// Contents of the `index`th block, if they are not arbitrary.
    fn data(&self, _index: u64) -> Option<Bytes> {
        None
    }

    /// Returns the results at the receiver until `end_us`.
    fn outcome(&self, _end_us: u64) -> Outcome {
        Outcome::default()
    }
}

/// Results at the receiver of a flow beyond the arrival of its blocks.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Playback, for players with a buffer of their own.
    pub(crate) playback: Option<Playback>,
    /// Perceived ratio of a 360° video; see
    /// [`FlowResult::perceived_ratio`](crate::result::FlowResult::perceived_ratio).
    pub(crate) perceived_ratio: Option<f64>,
    /// Quality of the pictures as shown.
    pub(crate) pictures: Option<PictureQuality>,
    /// Time at which each block was complete, for traffic that is decoded after the run; see
    /// [`FlowResult::arrivals_us`](crate::result::FlowResult::arrivals_us).
    pub(crate) arrivals_us: Vec<Option<u64>>,
}

/// Returns a size that varies uniformly by up to this share in both directions, at least 1. Uses
/// only integers and a uniform distribution: the sizes are the same on every machine.
pub(super) fn jittered(size: u64, jitter: f64, rng: &mut Pcg64Mcg) -> u64 {
    const ONE: u64 = 1_000_000;
    let spread = (jitter.clamp(0.0, 1.0) * ONE as f64) as u64;
    let factor = if spread == 0 { ONE } else { rng.random_range(ONE - spread..=ONE + spread) };
    (size.saturating_mul(factor) / ONE).max(1)
}
