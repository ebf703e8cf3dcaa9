//! CUBIC that emulates several connections.
//!
//! CUBIC (RFC 9438) as quic-go had it when NineTails (§V) was evaluated on it, after Chromium: one connection takes the share
//! of `N`, two by default there, because pages used to be loaded over several TCP connections. With one connection's factor
//! of 0.7:
//!
//! ```text
//! β = (N − 1 + 0.7) / N                      what a loss leaves of the window: one of N connections reduces its own
//! α = 3 · N² · (1 − β) / (1 + β)             packets per round trip in Reno's region (RFC 9438 §4.3, for N = 1)
//! W_cubic(t) = origin + 0.4 · (t − K)³       K = ∛((origin − window at the start) / 0.4)     (RFC 9438 §4.2, not scaled)
//! ```
//!
//! In Reno's region the mean window over a loss rate `p` is `N · √(3 / 2p)` packets, so two connections carry twice as much.
//! Further details of that implementation:
//!
//! - `origin` is the window before the last reduction, or `(N − 1 + 0.85) / N` of it if that one was smaller than the one
//!   before (fast convergence).
//! - Where the application is the limit, the curve starts again from the window at hand (RFC 9438 §5.8).
//! - The curve adds at most half of what is acknowledged. Reno's estimate grows by acknowledged bytes, and `α` stays the same
//!   above the window before the last reduction.
//! - Slow start ends with the first loss; quic-go also ends it when round trips grow. After persistent congestion two packets
//!   are left.

use std::{any::Any, time::Instant};

use noq_proto::{
    RttEstimator,
    congestion::{Controller, ControllerMetrics},
};

use crate::congestion::INITIAL_PACKETS;

/// Speed of the curve, in packets per cubic second (RFC 9438 §5.1).
const C: f64 = 0.4;

/// Packets that a window has at least (RFC 9002 §7.2).
const MIN_PACKETS: u64 = 2;

/// What one connection of `connections` that keeps `alone` of its own window leaves of all.
fn shared(connections: u8, alone: f64) -> f64 {
    (f64::from(connections) - 1.0 + alone) / f64::from(connections)
}

/// The course of the window since the last reduction, or since the application was the limit.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// Seconds from the start to the flat part of the curve.
    k: f64,
    /// Window in the flat part, in bytes.
    origin: f64,
    /// What Reno would have, in bytes.
    reno: f64,
}

/// What a spurious loss restores.
#[derive(Clone, Copy, Debug)]
struct State {
    /// In bytes.
    window: f64,
    /// In bytes; below it the window grows by what is acknowledged.
    slow_start_until: f64,
    /// Window before the last reduction, in bytes.
    largest: f64,
    epoch: Option<Epoch>,
    /// Losses of what left before belong to the reduction made then.
    reduced_at: Option<Instant>,
}

/// CUBIC for a number of connections.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    connections: u8,
    mtu: u64,
    state: State,
    /// As it was before the last reduction by a loss.
    before: Option<State>,
}

impl Cubic {
    /// `connections` from 1, packets of `mtu` bytes.
    pub(super) fn new(connections: u8, mtu: u16) -> Self {
        let window = (INITIAL_PACKETS * u64::from(mtu)) as f64;
        let slow_start_until = f64::INFINITY;
        let state = State { window, slow_start_until, largest: 0.0, epoch: None, reduced_at: None };
        Self { connections: connections.max(1), mtu: mtu.into(), state, before: None }
    }

    fn beta(&self) -> f64 {
        shared(self.connections, 0.7)
    }

    fn alpha(&self) -> f64 {
        let beta = self.beta();
        3.0 * f64::from(self.connections).powi(2) * (1.0 - beta) / (1.0 + beta)
    }

    fn least(&self) -> f64 {
        (MIN_PACKETS * self.mtu) as f64
    }

    fn is_recovering(&self, sent: Instant) -> bool {
        self.state.reduced_at.is_some_and(|at| sent <= at)
    }

    /// Bytes that left at `sent` are acknowledged; the shortest round trip is `rtt` seconds.
    fn acked(&mut self, now: Instant, sent: Instant, bytes: f64, app_limited: bool, rtt: f64) {
        if app_limited {
            self.state.epoch = None;
        }
        if app_limited || self.is_recovering(sent) {
            return;
        }
        if self.state.window < self.state.slow_start_until {
            self.state.window += bytes;
        } else {
            self.avoid_congestion(now, bytes, rtt);
        }
    }

    /// Growth after slow start.
    fn avoid_congestion(&mut self, now: Instant, bytes: f64, rtt: f64) {
        let (alpha, mtu) = (self.alpha(), self.mtu as f64);
        let State { window, largest, .. } = self.state;
        let epoch = self.state.epoch.get_or_insert_with(|| {
            let origin = largest.max(window);
            Epoch { start: now, k: ((origin - window) / mtu / C).cbrt(), origin, reno: window }
        });
        epoch.reno += alpha * bytes * mtu / epoch.reno;
        let time = now.saturating_duration_since(epoch.start).as_secs_f64() + rtt - epoch.k;
        let curve = epoch.origin + C * time.powi(3) * mtu;
        self.state.window = curve.min(window + bytes / 2.0).max(epoch.reno).max(window);
    }
}

impl Controller for Cubic {
    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        _: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.acked(now, sent, bytes as f64, app_limited, rtt.min().as_secs_f64());
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        persistent: bool,
        ecn: bool,
        _: u64,
        _: u64,
    ) {
        if self.is_recovering(sent) {
            return;
        }
        if !ecn {
            self.before = Some(self.state);
        }
        let (window, mtu) = (self.state.window, self.mtu as f64);
        let converging = window + mtu < self.state.largest;
        self.state.largest = if converging { shared(self.connections, 0.85) * window } else { window };
        self.state.window = (self.beta() * window).max(self.least());
        self.state.slow_start_until = self.state.window;
        self.state.epoch = None;
        self.state.reduced_at = Some(now);
        if persistent {
            self.state.window = self.least();
            self.state.largest = 0.0;
            self.state.reduced_at = None;
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        if let Some(before) = self.before.take().filter(|before| before.window > self.state.window) {
            self.state = before;
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu.into();
        self.state.window = self.state.window.max(self.least());
    }

    fn window(&self) -> u64 {
        self.state.window as u64
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        // Infinite until the first loss, which is the largest number there is.
        metrics.ssthresh = Some(self.state.slow_start_until as u64);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        INITIAL_PACKETS * self.mtu
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MTU: u16 = 1_000;
    const RTT: Duration = Duration::from_millis(100);

    fn loses(cubic: &mut Cubic, at: Instant) {
        cubic.on_congestion_event(at, at, false, false, 1_000, 0);
    }

    fn acks(cubic: &mut Cubic, at: Instant, packets: u64) {
        for _ in 0..packets {
            cubic.acked(at, at, f64::from(MTU), false, RTT.as_secs_f64());
        }
    }

    /// A window of this many packets, in slow start.
    fn grown(connections: u8, packets: u64) -> (Cubic, Instant) {
        let (mut cubic, now) = (Cubic::new(connections, MTU), Instant::now());
        acks(&mut cubic, now, packets - INITIAL_PACKETS);
        assert_eq!(cubic.window(), packets * 1_000);
        (cubic, now)
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_loss_costs_one_of_the_connections_its_share() {
        // 0.7, (1 + 0.7) / 2, (3 + 0.7) / 4.
        for (connections, left) in [(1, 70_000), (2, 85_000), (4, 92_500)] {
            let (mut cubic, now) = grown(connections, 100);
            loses(&mut cubic, now);
            assert_eq!(cubic.window(), left, "{connections}");
            loses(&mut cubic, now);
            assert_eq!(cubic.window(), left, "the same loss");
        }
    }

    #[test]
    fn renos_growth_is_that_of_all_connections() {
        // α = 3 · 0.3 / 1.7 = 0.529 and 3 · 4 · 0.15 / 1.85 = 0.973 packets per round trip.
        for (connections, alpha) in [(1, 0.529), (2, 0.973)] {
            let (mut cubic, now) = grown(connections, 100);
            assert!((cubic.alpha() - alpha).abs() < 1e-3);
            loses(&mut cubic, now);
            let before = cubic.window();
            acks(&mut cubic, now + ms(1), before / 1_000);
            let epoch = cubic.state.epoch.expect("has begun");
            let grown = (epoch.reno - before as f64) / 1_000.0;
            assert!((grown - alpha).abs() < 0.02, "{connections}: {grown}");
        }
    }

    #[test]
    fn the_curve_is_back_at_the_old_window_after_k() {
        // K = ∛(0.15 · 100 / 0.4) = 3.347 s for two, ∛(0.3 · 100 / 0.4) = 4.217 s for one.
        for (connections, k) in [(1, 4_217), (2, 3_347)] {
            let (mut cubic, now) = grown(connections, 100);
            loses(&mut cubic, now);
            let start = now + ms(1);
            acks(&mut cubic, start, 1);
            let epoch = cubic.state.epoch.expect("has begun");
            assert!((epoch.k - k as f64 / 1e3).abs() < 1e-3, "{connections}: {}", epoch.k);
            // Half a packet for each packet that is acknowledged, up to the curve.
            acks(&mut cubic, start + ms(k) - RTT, 80);
            let flat = cubic.window();
            assert!((99_900..=100_100).contains(&flat), "{connections}: {flat}");
            // 0.4 · 2³ packets above two seconds later.
            acks(&mut cubic, start + ms(k + 2_000) - RTT, 80);
            assert!((flat + 3_100..=flat + 3_300).contains(&cubic.window()), "{}", cubic.window());
        }
    }

    #[test]
    fn a_second_loss_on_the_way_up_leaves_room_for_others() {
        let (mut cubic, now) = grown(2, 100);
        loses(&mut cubic, now);
        loses(&mut cubic, now + ms(1));
        // (1 + 0.85) / 2 of 85 packets, and 0.85 of them.
        assert_eq!((cubic.state.largest, cubic.window()), (78_625.0, 72_250));
    }

    #[test]
    fn an_application_that_is_the_limit_does_not_open_the_window() {
        let (mut cubic, now) = grown(2, 100);
        loses(&mut cubic, now);
        acks(&mut cubic, now + ms(1), 1);
        let window = cubic.window();
        let later = now + ms(10_000);
        cubic.acked(later, later, 50_000.0, true, RTT.as_secs_f64());
        assert_eq!(cubic.window(), window);
        // The time that passed does not count: the curve starts again.
        acks(&mut cubic, later + ms(1), 10);
        // 0.4 · (3.31³ − 3.21³) packets; after ten seconds it would be half of what is acknowledged.
        assert!(cubic.window() - window < 2_000, "{} after {window}", cubic.window());
    }

    #[test]
    fn a_spurious_loss_is_taken_back_and_a_mark_is_not() {
        let (mut cubic, now) = grown(2, 100);
        loses(&mut cubic, now);
        cubic.on_spurious_congestion_event();
        assert_eq!(cubic.window(), 100_000);
        cubic.on_congestion_event(now + ms(1), now + ms(1), false, true, 0, 0);
        cubic.on_spurious_congestion_event();
        assert_eq!(cubic.window(), 85_000);
    }

    #[test]
    fn persistent_congestion_leaves_two_packets() {
        let (mut cubic, now) = grown(2, 100);
        cubic.on_congestion_event(now, now, true, false, 1_000, 0);
        assert_eq!(cubic.window(), 2_000);
        acks(&mut cubic, now + ms(1), 10);
        assert_eq!(cubic.window(), 12_000, "slow start");
        cubic.on_mtu_update(9_000);
        assert_eq!(cubic.window(), 18_000);
    }
}
