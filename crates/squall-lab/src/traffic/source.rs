//! What makes the blocks of a flow.

use std::fmt;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::Offer;

/// The blocks of one kind of traffic. Its clock is the flow's own: times are in microseconds from the flow's start,
/// and it goes on for ever, as the flow's end is not its business.
pub(super) trait Source: fmt::Debug + Send {
    /// The next block, not before the last one. None while it waits for what it will be told.
    fn next(&mut self) -> Option<Offer>;

    /// The receiver has the `index`th block of the flow, counted from 0 in the order of the offers.
    fn on_delivered(&mut self, _index: u64, _at_us: u64) {}

    /// The session's congestion control allows this many bits per second now.
    fn on_rate(&mut self, _at_us: u64, _bps: u64) {}
}

/// A size that varies uniformly by up to this share in both directions, at least 1. Integers and a uniform spread
/// only: the same sizes on every machine.
pub(super) fn jittered(size: u64, jitter: f64, rng: &mut Pcg64Mcg) -> u64 {
    const ONE: u64 = 1_000_000;
    let spread = (jitter.clamp(0.0, 1.0) * ONE as f64) as u64;
    let factor = if spread == 0 { ONE } else { rng.random_range(ONE - spread..=ONE + spread) };
    (size.saturating_mul(factor) / ONE).max(1)
}
