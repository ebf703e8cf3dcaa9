//! What makes the blocks of a flow.

use std::fmt;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::Offer;
use crate::result::{PictureQuality, Playback};

/// The blocks of one kind of traffic. Its clock is the flow's own: times are in microseconds from the flow's start,
/// and it goes on for ever, as the flow's end is not its business.
pub(super) trait Source: fmt::Debug + Send {
    /// The next block, not before the last one. None while it waits for what it will be told.
    fn next(&mut self) -> Option<Offer>;

    /// The receiver has the `index`th block of the flow, counted from 0 in the order of the offers.
    fn on_delivered(&mut self, _index: u64, _at_us: u64) {}

    /// The receiver knows that it will not have the `index`th block, which its sender may or may not know.
    fn on_missed(&mut self, _index: u64, _at_us: u64) {}

    /// The session that sent the `index`th block is done with it: the receiver has it, or it was given up or never
    /// taken.
    fn on_ended(&mut self, _index: u64, _at_us: u64, _delivered: bool) {}

    /// The session allows this much now. Told before each block is made, if the traffic
    /// [follows it](crate::flow::Traffic::follows).
    fn on_allowed(&mut self, _at_us: u64, _allowed: Allowed) {}

    /// What the receiving end made of it all until `end_us`.
    fn outcome(&self, _end_us: u64) -> Outcome {
        Outcome::default()
    }
}

/// What a session allows an encoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Rate in bits per second.
    pub bps: u64,
    /// Bytes of the next frame at most.
    pub frame: u64,
}

/// What the receiving end of a flow made of its blocks, where that is more than that they arrived.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// How a player of its own fared.
    pub(crate) playback: Option<Playback>,
    /// How much of a 360° video its viewer saw; see [`FlowResult::perceived_ratio`](crate::result::FlowResult::perceived_ratio).
    pub(crate) perceived_ratio: Option<f64>,
    /// How good the pictures were that its viewer saw.
    pub(crate) pictures: Option<PictureQuality>,
    /// When each block arrived whole, if somebody wants to know; see
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
