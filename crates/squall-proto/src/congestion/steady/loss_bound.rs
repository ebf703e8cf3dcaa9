//! The window that CUBIC (RFC 9438) allows, where losses are congestion.

use squall_units::Time;

use super::units::Delay;

/// Multiplicative decrease (RFC 9438 §4.6).
const BETA: f64 = 0.7;
/// Smallest window in packets.
const MIN_PACKETS: u64 = 2;
/// `C` in packets per cubic second (RFC 9438 §5).
const CUBIC: f64 = 0.4;
/// Growth in packets a round trip that is fair beside Reno, `3·(1 − β)/(1 + β)` (RFC 9438 §4.3).
const RENO: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Multiple of the window that met congestion above which the bound has outlived the queue it was
/// made for.
const OUTLIVED: f64 = 1.15;
/// Growth factor per round of a bound that has outlived its queue.
const PROBE: f64 = 1.25;

/// A window in bytes; without limit until there was a loss. Names are those of RFC 9438 §4.1.2.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossBound {
    cwnd: f64,
    w_max: f64,
    /// Reno's window.
    w_est: f64,
    /// Start of the epoch.
    epoch_start: Time,
    /// Window at the start of the epoch: the last cut, or the first bound.
    cwnd_epoch: f64,
    /// Window that last met congestion.
    met: f64,
    /// `w_max` and window before the last cut.
    prior: (f64, f64),
}

impl Default for LossBound {
    fn default() -> Self {
        Self::at(Time::EPOCH, f64::INFINITY)
    }
}

impl LossBound {
    /// Creates a bound that grows from a window.
    pub(super) fn at(now: Time, window: f64) -> Self {
        Self {
            cwnd: window,
            w_max: window,
            w_est: window,
            epoch_start: now,
            cwnd_epoch: window,
            met: window,
            prior: (window, window),
        }
    }

    /// Returns the window in bytes.
    pub(super) fn window(&self) -> f64 {
        self.cwnd
    }

    pub(super) fn is_finite(&self) -> bool {
        self.cwnd.is_finite()
    }

    /// Responds to a loss by congestion with `in_flight` bytes; fast convergence is that of RFC
    /// 9438 §4.7. The bound stays at two packets of `mtu` bytes at least after any number of
    /// losses, because it is the rate, too: with less, one packet could wait for hours.
    pub(super) fn cut(&mut self, now: Time, in_flight: f64, mtu: u64) {
        let least = (MIN_PACKETS * mtu) as f64;
        self.prior = (self.w_max, self.cwnd);
        self.met = self.cwnd.min(in_flight).max(least);
        let yields = self.w_max.is_finite() && self.met < self.w_max;
        self.w_max = if yields { self.met * (1.0 + BETA) / 2.0 } else { self.met };
        self.cwnd = (BETA * self.met).max(least);
        (self.epoch_start, self.cwnd_epoch, self.w_est) = (now, self.cwnd, self.cwnd);
    }

    /// Undoes the last cut, whose losses were spurious (RFC 9438 §4.9.2).
    pub(super) fn undo(&mut self) {
        let (w_max, cwnd) = self.prior;
        if cwnd > self.cwnd {
            (self.w_max, self.cwnd, self.cwnd_epoch, self.w_est) = (w_max, cwnd, cwnd, cwnd);
        }
    }

    /// Grows by `acked` bytes that are acknowledged (RFC 9438 §4.2 to §4.5). `flows` of them
    /// together grow as slowly as one flow's share requires: by 1/n² and 1/n⁴, as the window is
    /// proportional to the root of Reno's growth and to the fourth root of `C`.
    pub(super) fn grow(&mut self, now: Time, acked: u64, rtt: Delay, mtu: u64, flows: f64) {
        if !self.is_finite() {
            return;
        }
        let (acked, mtu) = (acked as f64, mtu as f64);
        let (growth, reno) = (CUBIC / flows.powi(4), RENO / flows.powi(2));
        let inflection = ((self.w_max - self.cwnd_epoch).max(0.0) / mtu / growth).cbrt();
        let time = (Delay::from(now - self.epoch_start) + rtt).micros() / 1e6;
        let cubic = growth * (time - inflection).powi(3) * mtu + self.w_max;
        self.w_est += reno * mtu * acked / self.cwnd;
        self.cwnd += (cubic.min(1.5 * self.cwnd) - self.cwnd).max(0.0) / self.cwnd * acked;
        self.cwnd = self.cwnd.max(self.w_est);
    }

    /// Grows faster at the end of a round with the window in use, if the bound is obsolete. The
    /// bound is removed once it is beyond the delay bound.
    pub(super) fn probe(&mut self, delay_bound: f64) {
        if self.is_finite() && self.cwnd > OUTLIVED * self.met {
            self.cwnd *= PROBE;
            if self.cwnd > delay_bound {
                *self = Self::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u64 = 1_250;
    const RTT: Delay = Delay::new(40e3);

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    #[test]
    fn after_a_cut_the_window_is_back_at_its_maximum_after_the_time_that_cubic_takes() {
        let mut bound = LossBound::default();
        assert_eq!(bound.window(), f64::INFINITY);
        bound.cut(at(0), 1_000.0 * MTU as f64, MTU);
        assert!((bound.window() / MTU as f64 - 700.0).abs() < 0.1, "β is 0.7");
        // RFC 9438 §4.2: K = ∛((W_max − W)/C) = ∛(300/0.4) = 9.1 s.
        let back = (1..).map(|round| round * 40_000).find(|now| {
            bound.grow(at(*now), bound.window() as u64, RTT, MTU, 1.0);
            bound.window() > 990.0 * MTU as f64
        });
        let seconds = back.unwrap() as f64 / 1e6;
        assert!((6.0..9.1).contains(&seconds), "the curve is flat at its end: {seconds}");
    }

    #[test]
    fn a_small_window_grows_as_renos() {
        let mut bound = LossBound::default();
        bound.cut(at(0), 10.0 * MTU as f64, MTU);
        for round in 1..=40 {
            bound.grow(at(round * 10_000), bound.window() as u64, Delay::new(10e3), MTU, 1.0);
        }
        let packets = bound.window() / MTU as f64;
        assert!((packets - 7.0 - 40.0 * RENO).abs() < 1.0, "{packets}");
    }

    #[test]
    fn a_flow_that_is_cut_again_before_its_maximum_makes_room() {
        let mut bound = LossBound::at(at(0), 100_000.0);
        bound.cut(at(0), 100_000.0, MTU);
        bound.cut(at(50_000), 100_000.0, MTU);
        assert_eq!(bound.w_max, 0.85 * 70_000.0);
    }

    #[test]
    fn a_cut_for_nothing_is_undone() {
        let mut bound = LossBound::at(at(0), 100_000.0);
        bound.cut(at(0), 100_000.0, MTU);
        bound.undo();
        assert_eq!(bound.window(), 100_000.0);
        let mut unbound = LossBound::default();
        unbound.cut(at(0), 100_000.0, MTU);
        unbound.undo();
        assert_eq!(unbound.window(), f64::INFINITY);
    }

    #[test]
    fn a_bound_that_the_queue_has_outlived_goes() {
        let mut bound = LossBound::at(at(0), 100_000.0);
        bound.probe(150_000.0);
        assert_eq!(bound.window(), 100_000.0, "it may be the queue's");
        bound.cwnd = 120_000.0;
        bound.probe(160_000.0);
        assert_eq!(bound.window(), 150_000.0);
        bound.probe(160_000.0);
        assert_eq!(bound.window(), f64::INFINITY);
    }

    #[test]
    fn losses_without_end_leave_two_packets() {
        let mut bound = LossBound::default();
        (0..100).for_each(|second| bound.cut(at(second * 1_000_000), 10.0 * MTU as f64, MTU));
        assert_eq!(bound.window(), 2.0 * MTU as f64);
        // And it grows again.
        (0..20).for_each(|round| bound.grow(at(100_000_000 + round * 40_000), 2 * MTU, RTT, MTU, 1.0));
        assert!(bound.window() > 4.0 * MTU as f64, "{}", bound.window());
    }
}
