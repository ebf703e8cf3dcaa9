//! Phase before the path is measured: the window grows by its deliveries.

use super::{
    super::units::{ByteRate, Delay},
    round::{Next, Round, Step},
};
use crate::congestion::INITIAL_PACKETS;

/// Factor of the window over the delivered bytes, and of pacing over the window and round trip.
/// With slower pacing, the rate of arrivals would be that of the pacer, which bounds the window
/// too.
const GROWTH: u64 = 3;
/// Rounds without growth of a quarter that end the start: a radio may take as many to grant its
/// rate.
const FLAT_ROUNDS: u8 = 12;
const FLAT_GROWTH: f64 = 1.25;
/// Share of the round trip at which a queue ends the start, within [`QUEUES`].
const QUEUE_SHARE: f64 = 1.0 / 8.0;
/// Bounds of a queue that ends the start.
const QUEUES: (Delay, Delay) = (Delay::new(12e3), Delay::new(25e3));

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Start {
    /// Bytes that were delivered while at least half of the window was in use.
    delivered: u64,
    /// Consecutive rounds without growth.
    flat_rounds: u8,
    /// Rate before those rounds.
    grown_to: ByteRate,
}

impl Start {
    /// Returns the bytes that may be in flight, where `expected` arrive in `R + 2·T` at the present
    /// rate: an estimate, which the delivered bytes keep within bounds.
    pub(crate) fn window(&self, expected: u64, mtu: u64) -> u64 {
        expected.clamp(self.delivered / 2, GROWTH * self.delivered) + INITIAL_PACKETS * mtu
    }

    pub(crate) fn pacing_rate(window: u64, smoothed_rtt: Delay) -> ByteRate {
        ByteRate::of((GROWTH * window) as f64, smoothed_rtt)
    }

    /// Records an acknowledgement. As in slow start (RFC 9002 §7.8), bytes that did not use the
    /// window do not open it.
    pub(crate) fn on_ack(&mut self, bytes: u64, in_flight: u64, window: u64) {
        if 2 * in_flight >= window {
            self.delivered += bytes;
        }
    }

    pub(crate) fn is_ended_by(queue: Delay, round_trip: Delay) -> bool {
        queue > (round_trip * QUEUE_SHARE).max(QUEUES.0).min(QUEUES.1)
    }

    pub(crate) fn end_round(&mut self, round: &Round) -> Option<Step> {
        if round.is_limited && round.rate > self.grown_to * FLAT_GROWTH {
            (self.flat_rounds, self.grown_to) = (0, round.rate);
        } else if round.is_limited {
            self.flat_rounds = self.flat_rounds.saturating_add(1);
        }
        let is_over = self.flat_rounds >= FLAT_ROUNDS && round.is_known;
        is_over.then(|| Self::end("the rate no longer grows"))
    }

    pub(crate) fn end(why: &'static str) -> Step {
        Step::new(Next::Alone, why)
    }
}
