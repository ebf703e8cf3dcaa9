//! A controller of noq's that gets reports of losses by congestion only.

use std::{
    any::Any,
    time::{Duration, Instant},
};

use noq_proto::{
    RttEstimator,
    congestion::{Controller, ControllerMetrics},
};
use squall_sched::Micros;

use crate::congestion::Origin;

/// Keeps from the controller inside what the medium loses; see [`Origin`].
#[derive(Debug)]
pub(super) struct Tolerant {
    inner: Box<dyn Controller>,
    /// Times count from here.
    epoch: Instant,
    origin: Origin,
    /// Whether the last loss was passed to the controller inside; only then is its revocation passed on too.
    passed_on: bool,
}

impl Tolerant {
    pub(super) fn new(epoch: Instant, inner: Box<dyn Controller>) -> Self {
        Self { inner, epoch, origin: Origin::default(), passed_on: false }
    }
}

impl Controller for Tolerant {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.inner.on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.inner.on_packet_sent(now, bytes, pn);
    }

    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let micros = |since: Instant| now.saturating_duration_since(since).as_micros() as Micros;
        self.origin.on_ack(micros(self.epoch), micros(sent));
        self.inner.on_ack(now, sent, bytes, pn, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.origin.on_loss();
        self.inner.on_packet_lost(lost_bytes, pn, now);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        persistent: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        self.passed_on = persistent || is_ecn || self.origin.is_congestion();
        if self.passed_on {
            self.inner.on_congestion_event(now, sent, persistent, is_ecn, lost_bytes, largest_lost_pn);
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        // Otherwise it would take back the last reduction it made, for a loss that was one.
        if self.passed_on {
            self.inner.on_spurious_congestion_event();
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, max_ack_delay: Duration) {
        self.inner.on_ack_frequency_update(threshold, max_ack_delay);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let Self { inner, epoch, origin, passed_on } = self;
        Box::new(Self {
            inner: inner.clone_box(),
            epoch: *epoch,
            origin: origin.clone(),
            passed_on: *passed_on,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noq_proto::congestion::{ControllerFactory, CubicConfig};

    use super::*;

    /// CUBIC in slow start, and a path without a queue.
    fn tolerant() -> (Tolerant, Instant) {
        let now = Instant::now();
        let mut tolerant = Tolerant::new(now, Arc::new(CubicConfig::default()).build(now, 1_200));
        tolerant.origin.on_ack(0, 30_000);
        (tolerant, now)
    }

    fn lose(tolerant: &mut Tolerant, now: Instant, persistent: bool, is_ecn: bool) -> bool {
        let before = tolerant.window();
        tolerant.on_packet_lost(1_200, 7, now);
        tolerant.on_congestion_event(now, now, persistent, is_ecn, 1_200, 7);
        tolerant.window() < before
    }

    #[test]
    fn only_congestion_closes_the_window() {
        let (mut tolerant, now) = tolerant();
        assert!(!lose(&mut tolerant, now, false, false));
        tolerant.origin.on_ack(200_000, 60_000);
        assert!(lose(&mut tolerant, now, false, false), "packets wait");
    }

    #[test]
    fn marks_and_persistent_congestion_always_do() {
        for (persistent, is_ecn) in [(true, false), (false, true)] {
            let (mut tolerant, now) = tolerant();
            assert!(lose(&mut tolerant, now, persistent, is_ecn));
        }
    }

    #[test]
    fn a_tolerated_loss_that_was_none_takes_nothing_back() {
        let (mut tolerant, now) = tolerant();
        tolerant.origin.on_ack(200_000, 60_000);
        assert!(lose(&mut tolerant, now, false, false));
        let reduced = tolerant.window();
        tolerant.origin.on_ack(400_000, 30_000);
        assert!(!lose(&mut tolerant, now + Duration::from_secs(1), false, false));
        tolerant.on_spurious_congestion_event();
        assert_eq!(tolerant.window(), reduced);
    }
}
