//! CUBIC that emulates several connections.
//!
//! CUBIC (RFC 9438) as in quic-go when NineTails (§V) was evaluated on it, after Chromium: one
//! connection takes the share of `N`, two by default there, because pages used to be loaded over
//! several TCP connections. With one connection's factor of 0.7:
//!
//! ```text
//! β = (N − 1 + 0.7) / N                 share of the window after a loss: one of N reduces its own
//! α = 3 · N² · (1 − β) / (1 + β)        packets per round trip in Reno's region (RFC 9438 §4.3, N = 1)
//! W_cubic(t) = origin + 0.4 · (t − K)³  K = ∛((origin − initial window) / 0.4)   (RFC 9438 §4.2, unscaled)
//! ```
//!
//! In Reno's region the mean window at a loss rate `p` is `N · √(3 / 2p)` packets, so two
//! connections carry twice as much. Further details of that implementation:
//!
//! - `origin` is the window before the last reduction, or `(N − 1 + 0.85) / N` of it if that one
//!   was smaller than the one before (fast convergence).
//! - While the application is the limit, the curve restarts from the current window (RFC 9438
//!   §5.8).
//! - The curve adds at most half of the acknowledged bytes. Reno's estimate grows by acknowledged
//!   bytes, and `α` is the same above the window before the last reduction.
//! - Slow start ends with the first loss; quic-go also ends it when round trips grow. After
//!   persistent congestion the window is two packets.

use squall_proto::{
    CongestionControl,
    congestion::{Ack, Arrival, Controller, ControllerFactory, INITIAL_PACKETS, NewPath},
};
use squall_sched::{Span, Time};

/// Speed of the curve, in packets per cubic second (RFC 9438 §5.1).
const C: f64 = 0.4;

/// Minimum window in packets (RFC 9002 §7.2).
const MIN_PACKETS: u64 = 2;

/// Share of the total window that remains when one of `connections` reduces its own to `alone`.
fn shared(connections: u8, alone: f64) -> f64 {
    (f64::from(connections) - 1.0 + alone) / f64::from(connections)
}

/// The course of the window since the last reduction, or since the application was last the limit.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// Seconds from the start to the flat part of the curve.
    k: f64,
    /// Window in the flat part, in bytes.
    origin: f64,
    /// Window of Reno, in bytes.
    reno: f64,
}

/// State that a spurious loss restores.
#[derive(Clone, Copy, Debug)]
struct State {
    /// In bytes.
    window: f64,
    /// In bytes; below it the window grows by the acknowledged bytes.
    slow_start_until: f64,
    /// Window before the last reduction, in bytes.
    largest: f64,
    epoch: Option<Epoch>,
    /// Packets below this number were sent before the last reduction, which also covers their
    /// losses.
    answered: u64,
}

/// CUBIC with the share of this many connections, 1 to 8.
pub fn of_connections(connections: u8) -> CongestionControl {
    CongestionControl::new(format!("cubic(connections={connections})"), Connections(connections))
}

/// Returns the controller of that name.
pub(super) fn find(name: &str) -> Option<CongestionControl> {
    let number = name.strip_prefix("cubic(connections=")?.strip_suffix(')')?.parse().ok()?;
    (1..=8).contains(&number).then(|| of_connections(number))
}

struct Connections(u8);

impl ControllerFactory for Connections {
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
        Box::new(Cubic::new(self.0, path.mtu))
    }
}

/// CUBIC for a number of connections on one path.
#[derive(Clone, Debug)]
struct Cubic {
    connections: u8,
    mtu: u64,
    /// Number of the next packet.
    next: u64,
    state: State,
    /// State before the last reduction by a loss.
    before: Option<State>,
}

impl Cubic {
    /// Creates a controller for `connections` ≥ 1 and packets of `mtu` bytes.
    fn new(connections: u8, mtu: u64) -> Self {
        let window = (INITIAL_PACKETS * mtu) as f64;
        let slow_start_until = f64::INFINITY;
        let state = State { window, slow_start_until, largest: 0.0, epoch: None, answered: 0 };
        Self { connections: connections.max(1), mtu, next: 0, state, before: None }
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

    /// Growth after slow start.
    fn avoid_congestion(&mut self, now: Time, bytes: f64, smallest_rtt: Span) {
        let (alpha, mtu) = (self.alpha(), self.mtu as f64);
        let State { window, largest, .. } = self.state;
        let epoch = self.state.epoch.get_or_insert_with(|| {
            let origin = largest.max(window);
            Epoch { start: now, k: ((origin - window) / mtu / C).cbrt(), origin, reno: window }
        });
        epoch.reno += alpha * bytes * mtu / epoch.reno;
        let time = seconds(now - epoch.start) + seconds(smallest_rtt) - epoch.k;
        let curve = epoch.origin + C * time.powi(3) * mtu;
        self.state.window = curve.min(window + bytes / 2.0).max(epoch.reno).max(window);
    }

    /// Reduces the window for a lost or marked packet, unless the last reduction covers it.
    fn reduce(&mut self, packet: u64) {
        if packet < self.state.answered {
            return;
        }
        let (window, mtu) = (self.state.window, self.mtu as f64);
        let converging = window + mtu < self.state.largest;
        self.state.largest = if converging { shared(self.connections, 0.85) * window } else { window };
        self.state.window = (self.beta() * window).max(self.least());
        self.state.slow_start_until = self.state.window;
        self.state.epoch = None;
        self.state.answered = self.next;
    }
}

fn seconds(span: Span) -> f64 {
    span.duration().as_secs_f64()
}

impl Controller for Cubic {
    fn on_sent(&mut self, _now: Time, packet: u64, _bytes: u64) {
        self.next = packet + 1;
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        if ack.is_app_limited {
            self.state.epoch = None;
        }
        if ack.is_app_limited || ack.packet < self.state.answered {
            return;
        }
        let bytes = ack.bytes as f64;
        if self.is_in_slow_start() {
            self.state.window += bytes;
        } else {
            self.avoid_congestion(now, bytes, ack.smallest_rtt);
        }
    }

    fn on_end_acks(&mut self, _now: Time, _in_flight: u64) {}

    fn on_arrival(&mut self, _now: Time, _arrival: Arrival) {}

    fn on_loss(&mut self, _now: Time, _packet: u64, _bytes: u64) {}

    fn on_end_losses(&mut self, _now: Time, newest: u64) {
        if newest >= self.state.answered {
            self.before = Some(self.state);
        }
        self.reduce(newest);
    }

    fn on_mark(&mut self, _now: Time, packet: u64) {
        self.reduce(packet);
    }

    fn on_spurious_loss(&mut self) {
        if let Some(before) = self.before.take().filter(|before| before.window > self.state.window) {
            self.state = before;
        }
    }

    fn on_persistent_congestion(&mut self, now: Time) {
        self.on_end_losses(now, self.next);
        self.state.window = self.least();
        self.state.largest = 0.0;
        self.state.answered = 0;
    }

    fn on_mtu(&mut self, bytes: u64) {
        self.mtu = bytes;
        self.state.window = self.state.window.max(self.least());
    }

    fn window(&self) -> u64 {
        self.state.window as u64
    }

    fn is_in_slow_start(&self) -> bool {
        self.state.window < self.state.slow_start_until
    }

    fn pacing_rate(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_ms, ms};

    use super::*;

    const MTU: u64 = 1_000;
    const RTT: Span = Span::from_millis(100);

    /// The packet sent last is lost.
    fn loses(cubic: &mut Cubic, at: Time) {
        cubic.on_end_losses(at, cubic.next - 1);
    }

    fn acks(cubic: &mut Cubic, at: Time, packets: u64) {
        for _ in 0..packets {
            acked(cubic, at, MTU, false);
        }
    }

    /// Sends and acknowledges a packet.
    fn acked(cubic: &mut Cubic, at: Time, bytes: u64, is_app_limited: bool) {
        let packet = cubic.next;
        cubic.on_sent(at, packet, bytes);
        cubic.on_ack(at, &Ack { packet, sent: at, bytes, is_app_limited, smallest_rtt: RTT });
    }

    /// Returns a controller in slow start with a window of this many packets.
    fn grown(connections: u8, packets: u64) -> (Cubic, Time) {
        let (mut cubic, now) = (Cubic::new(connections, MTU), at_ms(1_000));
        acks(&mut cubic, now, packets - INITIAL_PACKETS);
        assert_eq!(cubic.window(), packets * 1_000);
        (cubic, now)
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
            // Half a packet for each acknowledged packet, up to the curve.
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
        cubic.on_sent(now, cubic.next, MTU);
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
        acked(&mut cubic, later, 50_000, true);
        assert_eq!(cubic.window(), window);
        // The elapsed time does not count: the curve restarts.
        acks(&mut cubic, later + ms(1), 10);
        // 0.4 · (3.31³ − 3.21³) packets; after ten seconds it would be half of the acknowledged bytes.
        assert!(cubic.window() - window < 2_000, "{} after {window}", cubic.window());
    }

    #[test]
    fn a_spurious_loss_is_taken_back_and_a_mark_is_not() {
        let (mut cubic, now) = grown(2, 100);
        loses(&mut cubic, now);
        cubic.on_spurious_loss();
        assert_eq!(cubic.window(), 100_000);
        cubic.on_mark(now + ms(1), cubic.next);
        cubic.on_spurious_loss();
        assert_eq!(cubic.window(), 85_000);
    }

    #[test]
    fn persistent_congestion_leaves_two_packets() {
        let (mut cubic, now) = grown(2, 100);
        cubic.on_persistent_congestion(now);
        assert_eq!(cubic.window(), 2_000);
        acks(&mut cubic, now + ms(1), 10);
        assert_eq!(cubic.window(), 12_000, "slow start");
        cubic.on_mtu(9_000);
        assert_eq!(cubic.window(), 18_000);
    }
}
