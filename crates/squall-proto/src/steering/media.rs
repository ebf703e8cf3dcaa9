//! Squall's own congestion controllers behind noq's interface.

use std::{
    any::Any,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use noq_proto::{
    RttEstimator,
    congestion::{Controller, ControllerMetrics},
};
use squall_sched::{Span, Time};

use crate::{
    congestion::{Ack, Arrival, Controller as MediaController, INITIAL_PACKETS},
    wire::{Stamp, TICK},
};

/// A controller for media behind noq's interface. Clones share their state: noq clones a path's
/// controller when the path moves, and steering to determine its path.
#[derive(Clone, Debug)]
pub(super) struct Media(Arc<Shared>);

/// Estimates of a controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    /// Bytes that may be in flight.
    pub(super) window: u64,
    /// Rate in bytes per second.
    pub(super) pacing_rate: Option<u64>,
    /// Rate of the path in bits per second.
    pub(super) capacity: Option<u64>,
    /// Delay of our own queue.
    pub(super) queue: Option<Span>,
    /// Time for which the path has held packets.
    pub(super) held: Span,
}

/// State shared by clones and the ledger of the path.
#[derive(Debug)]
struct Shared {
    /// Origin of times.
    epoch: Instant,
    initial_window: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    controller: Box<dyn MediaController>,
    clock: Clock,
}

/// One-way delays arrive as ticks modulo 2²⁴; this extends them across the wrap, so that a clock
/// that drifts by half of the range in the life of a path does no harm.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// Latest reported ticks, and their delay in microseconds.
    last: Option<(u32, i64)>,
}

impl Clock {
    /// Returns the delay in microseconds, from the first reported one.
    fn micros(&mut self, ticks: u32) -> i64 {
        let micros =
            self.last.map_or(0, |(last, micros)| micros + Stamp::distance(ticks, last) * TICK as i64);
        self.last = Some((ticks, micros));
        micros
    }

    /// Makes these ticks stand for the last reported delay from now on.
    fn step(&mut self, ticks: u32) {
        self.last = self.last.map(|(_, micros)| (ticks, micros));
    }
}

impl Media {
    pub(super) fn new(epoch: Instant, mtu: u16, controller: Box<dyn MediaController>) -> Self {
        let state = Mutex::new(State { controller, clock: Clock::default() });
        Self(Arc::new(Shared { epoch, initial_window: INITIAL_PACKETS * u64::from(mtu), state }))
    }

    /// Processes the peer's report of the delay of a packet, in ticks. Returns the controller's
    /// estimate.
    pub(super) fn on_arrival(
        &self,
        now: Instant,
        packet: u64,
        sent: Instant,
        delay: u32,
        is_step: bool,
    ) -> Estimate {
        let (now, sent) = (self.time(now), self.time(sent));
        let mut state = self.state();
        if is_step {
            state.clock.step(delay);
        }
        let delay = state.clock.micros(delay);
        state.controller.on_arrival(now, Arrival { packet, sent, at: sent.micros() as i64 + delay });
        state.estimate()
    }

    /// Handles the loss of a packet that left during an outage.
    pub(super) fn on_forgiven(&self, bytes: u16) {
        self.state().controller.on_forgiven(bytes.into());
    }

    /// Records whether data waits for the path's pacer or window. Returns the controller's
    /// estimate.
    pub(super) fn on_waiting(&self, now: Instant, waits: bool, is_alone: bool) -> Estimate {
        let mut state = self.state();
        state.controller.on_waiting(self.time(now), waits, is_alone);
        state.estimate()
    }

    fn time(&self, at: Instant) -> Time {
        Time::EPOCH + at.saturating_duration_since(self.0.epoch).into()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic that poisoned the lock already unwinds through the session.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn estimate(&self) -> Estimate {
        Estimate {
            window: self.controller.window(),
            pacing_rate: self.pacing_rate(),
            capacity: self.controller.capacity(),
            queue: self.controller.queue(),
            held: self.controller.held(),
        }
    }

    /// Returns the pacing rate in bytes per second.
    fn pacing_rate(&self) -> Option<u64> {
        self.controller.pacing_rate().map(|rate| rate / 8)
    }
}

impl Controller for Media {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.state().controller.on_sent(self.time(now), pn, bytes.into());
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        packet: u64,
        is_app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let (sent, smallest_rtt) = (self.time(sent), rtt.min().into());
        let ack = Ack { packet, sent, bytes, is_app_limited, smallest_rtt };
        self.state().controller.on_ack(self.time(now), &ack);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        self.state().controller.on_end_acks(self.time(now), in_flight);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        _: Instant,
        persistent: bool,
        ecn: bool,
        _: u64,
        pn: u64,
    ) {
        if persistent {
            self.state().controller.on_persistent_congestion(self.time(now));
        } else if ecn {
            self.state().controller.on_mark(self.time(now), pn);
        } else {
            self.state().controller.on_end_losses(self.time(now), pn);
        }
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.state().controller.on_loss(self.time(now), pn, lost_bytes.into());
    }

    fn on_spurious_congestion_event(&mut self) {
        self.state().controller.on_spurious_loss();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.state().controller.on_mtu(new_mtu.into());
    }

    fn window(&self) -> u64 {
        self.state().controller.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let (state, mut metrics) = (self.state(), ControllerMetrics::default());
        metrics.congestion_window = state.controller.window();
        metrics.pacing_rate = state.pacing_rate();
        metrics.ssthresh = state.controller.is_in_slow_start().then_some(u64::MAX);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.0.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_count_on_across_the_wrap() {
        let mut clock = Clock::default();
        let delays = [0xff_fff0, 0xff_fffa, 0x00_0004, 0xff_fff0].map(|ticks| clock.micros(ticks));
        assert_eq!(delays, [0, 40, 80, 0]);
        // A clock that gains a quarter of the range with each delay passes the whole of it.
        let micros = (0..8).map(|i| clock.micros(i << 22 & 0xff_ffff)).last();
        assert_eq!(micros, Some(64 + 7 * (4 << 22)));
    }
}
