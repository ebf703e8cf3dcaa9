//! What every kind of traffic provides: its description as a [`Kind`], and the generator of its blocks as a [`Source`].

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
    /// The word for it in scenario files, such as `video`.
    fn kind(&self) -> &'static str;

    /// Checks the bounds of all fields.
    ///
    /// # Errors
    /// The first field that is out of bounds.
    fn validate(&self) -> Checked;

    /// Its classes, at least one; [`Offer::class`] is a place in them.
    fn classes(&self) -> Vec<Class>;

    /// Deadline of its blocks after each is offered, if they have one.
    fn deadline(&self) -> Option<Span>;

    /// The same in microseconds.
    fn deadline_us(&self) -> Option<u64> {
        self.deadline().map(Span::micros)
    }

    /// Time from one picture to the next in microseconds, if the blocks are pictures or parts of them.
    fn picture_us(&self) -> Option<u64> {
        None
    }

    /// Bytes to keep queued in the session, if that paces the blocks and not the clock.
    fn backlog(&self) -> Option<u64> {
        None
    }

    /// What the sizes of its blocks follow, if they follow what the session can carry.
    fn follows(&self) -> Option<Follow> {
        None
    }

    /// Encodes its pictures, if it has some, for all sources of it in this process. A source that finds none encodes
    /// them itself. Calls `progress` with the frames of a film that are encoded, and all that are to be. Returns the
    /// highest bitrate of a film, in bits per second.
    ///
    /// # Errors
    /// When the codec fails.
    fn prepare(&self, _progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Option<f64>, PictureError> {
        Ok(None)
    }

    /// The blocks of a flow that lasts `length_us`; `rng` is theirs alone.
    fn source(&self, rng: Pcg64Mcg, length_us: u64) -> Box<dyn Source>;
}

/// Why pictures could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// Those of a film.
    #[error(transparent)]
    Film(#[from] FilmError),
    /// Those of a sphere.
    #[error(transparent)]
    Sphere(#[from] SphereError),
}

/// A forecast of a session that an encoder can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// What its paths carry at present, headers included: [`Capacity::link`](squall_proto::Capacity::link).
    Link,
    /// What it carries in nine seconds of ten: [`Capacity::safe`](squall_proto::Capacity::safe). And no frame is larger than
    /// what [arrives](squall_proto::Session::deliverable) with the same probability within a time.
    Safe {
        /// That time, in microseconds.
        within_us: u64,
    },
}

/// What a session allows an encoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Rate in bits per second.
    pub bps: u64,
    /// Bytes of the next frame at most.
    pub frame: u64,
}

/// The blocks of one kind of traffic. Times are in microseconds from the start of the flow. A source does not stop at
/// the end of the flow.
pub trait Source: fmt::Debug + Send {
    /// The next block, not before the last one. None while it waits for an event.
    fn next(&mut self) -> Option<Offer>;

    /// The receiver has the `index`th block of the flow, counted from 0 in the order of the offers.
    fn on_delivered(&mut self, _index: u64, _at_us: u64) {}

    /// The receiver detects that it will not have the `index`th block; its sender may not have detected that.
    fn on_missed(&mut self, _index: u64, _at_us: u64) {}

    /// The session that sent the `index`th block is done with it: it was delivered, dropped or refused.
    fn on_ended(&mut self, _index: u64, _at_us: u64, _delivered: bool) {}

    /// The session allows this much now. Called before each block is made, if the traffic
    /// [follows it](Kind::follows).
    fn on_allowed(&mut self, _at_us: u64, _allowed: Allowed) {}

    /// The bytes of the `index`th block, where they are not any bytes of its size.
    fn data(&self, _index: u64) -> Option<Bytes> {
        None
    }

    /// What the receiving end made of all blocks until `end_us`.
    fn outcome(&self, _end_us: u64) -> Outcome {
        Outcome::default()
    }
}

/// What the receiving end of a flow made of its blocks, beyond their arrival.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The playback of a player with a buffer of its own.
    pub(crate) playback: Option<Playback>,
    /// How much of a 360° video its viewer saw; see [`FlowResult::perceived_ratio`](crate::result::FlowResult::perceived_ratio).
    pub(crate) perceived_ratio: Option<f64>,
    /// How good the pictures were that its viewer saw.
    pub(crate) pictures: Option<PictureQuality>,
    /// When each block arrived whole, of traffic that is decoded after the run; see
    /// [`FlowResult::arrivals_us`](crate::result::FlowResult::arrivals_us).
    pub(crate) arrivals_us: Vec<Option<u64>>,
}

/// A size that varies uniformly by up to this share in both directions, at least 1. Integers and a uniform spread
/// only: the same sizes on every machine.
pub(super) fn jittered(size: u64, jitter: f64, rng: &mut Pcg64Mcg) -> u64 {
    const ONE: u64 = 1_000_000;
    let spread = (jitter.clamp(0.0, 1.0) * ONE as f64) as u64;
    let factor = if spread == 0 { ONE } else { rng.random_range(ONE - spread..=ONE + spread) };
    (size.saturating_mul(factor) / ONE).max(1)
}
