//! What losses say: whether they are a queue's, and what may be in flight then.

use squall_sched::Micros;

/// Weight of a packet in the share of all that is lost: a mean over some 500 packets, as in [`super::super::origin`].
const WEIGHT: f64 = 0.002;
/// The same in the shares that are compared, over some 2,000. Over 500, chance cuts the window of a link that loses 1 % by
/// itself to two thirds on average, and four of five key frames of `lossy-12mbps` come too late.
const COMPARED_WEIGHT: f64 = 0.0005;
/// A larger share of all packets is congestion in any case (draft-ietf-rmcat-gcc-02 draws the line there too).
const TOLERATED: f64 = 0.1;
/// How many times as often packets must be lost that met a queue. Random loss hits both alike.
const CONTRAST: f64 = 2.0;
/// CUBIC's multiplicative decrease (RFC 9438 §4.6).
const BETA: f64 = 0.7;
/// Smallest window in packets.
const MIN_PACKETS: u64 = 2;
/// CUBIC's `C` in packets per cubic second (RFC 9438 §5).
const CUBIC: f64 = 0.4;
/// Growth in packets a round trip that is fair beside Reno, `3·(1 − β)/(1 + β)` (RFC 9438 §4.3).
const RENO: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Past this multiple of the window that met congestion the bound has outlived the queue it was made for …
const OUTLIVED: f64 = 1.15;
/// … and grows by this factor a round.
const PROBE: f64 = 1.25;

/// Shares of packets lost: of all, of those that met a queue, and of those that met none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    all: f64,
    queued: f64,
    clear: f64,
}

impl Losses {
    /// A packet has arrived or is lost, while the path had a queue or not.
    pub(super) fn on_packet(&mut self, met_queue: bool, is_lost: bool) {
        let lost = f64::from(u8::from(is_lost));
        self.all += WEIGHT * (lost - self.all);
        let share = if met_queue { &mut self.queued } else { &mut self.clear };
        *share += COMPARED_WEIGHT * (lost - *share);
    }

    /// Whether a loss now is by congestion.
    pub(super) fn is_congestion(&self, met_queue: bool) -> bool {
        // Almost three standard deviations of such a mean: each loss is judged, and one mistake in thousands is enough.
        let chance = 2.0 * (COMPARED_WEIGHT * self.clear).sqrt();
        self.all > TOLERATED || met_queue && self.queued > CONTRAST * self.clear + chance
    }

    /// The window was cut: what was lost until now has been answered for the most part.
    pub(super) fn on_answer(&mut self) {
        self.all *= 0.5;
    }
}

/// The window that CUBIC (RFC 9438) allows, in bytes; without limit until there was a loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossBound {
    window: f64,
    /// `W_max`.
    most: f64,
    /// The window that met congestion last.
    met: f64,
    /// When the epoch began, and the window then: the last cut, or the first bound.
    since: Micros,
    start: f64,
    /// `W_est`, the window of Reno.
    reno: f64,
    /// `W_max` and the window before the last cut.
    before: (f64, f64),
}

impl Default for LossBound {
    fn default() -> Self {
        let none = f64::INFINITY;
        Self { window: none, most: none, met: none, since: 0, start: none, reno: 0.0, before: (none, none) }
    }
}

impl LossBound {
    /// A bound that grows on from `window`.
    pub(super) fn at(now: Micros, window: f64) -> Self {
        Self {
            window,
            most: window,
            met: window,
            since: now,
            start: window,
            reno: window,
            before: (window, window),
        }
    }

    /// The window in bytes.
    pub(super) fn window(&self) -> f64 {
        self.window
    }

    /// A loss by congestion with `in_flight` bytes; fast convergence is that of RFC 9438 §4.7. However often that happens, the
    /// bound stays two packets of `mtu` bytes at least, as it is the rate, too: with less, one packet could wait for hours.
    pub(super) fn cut(&mut self, now: Micros, in_flight: f64, mtu: u64) {
        let least = (MIN_PACKETS * mtu) as f64;
        self.before = (self.most, self.window);
        let used = self.window.min(in_flight).max(least);
        let yields = self.most.is_finite() && used < self.most;
        self.most = if yields { used * (1.0 + BETA) / 2.0 } else { used };
        self.met = used;
        self.window = (BETA * used).max(least);
        (self.since, self.start, self.reno) = (now, self.window, self.window);
    }

    /// The last cut answered losses that had not happened (RFC 9438 §4.9.2).
    pub(super) fn undo(&mut self) {
        let (most, window) = self.before;
        if window > self.window {
            (self.most, self.window, self.start, self.reno) = (most, window, window, window);
        }
    }

    /// `acked` bytes are acknowledged; times in microseconds (RFC 9438 §4.2 to §4.5). `flows` of them grow as slowly as takes
    /// the share of one flow together: by 1/n² and 1/n⁴, as the window is proportional to the root of Reno's growth and to the
    /// fourth root of `C`.
    pub(super) fn grow(&mut self, now: Micros, acked: u64, rtt: f64, mtu: u64, flows: f64) {
        if self.window.is_infinite() {
            return;
        }
        let (acked, mtu) = (acked as f64, mtu as f64);
        let (growth, reno) = (CUBIC / flows.powi(4), RENO / flows.powi(2));
        let inflection = ((self.most - self.start).max(0.0) / mtu / growth).cbrt();
        let time = (now.saturating_sub(self.since) as f64 + rtt) / 1e6;
        let cubic = growth * (time - inflection).powi(3) * mtu + self.most;
        self.reno += reno * mtu * acked / self.window;
        self.window += (cubic.min(1.5 * self.window) - self.window).max(0.0) / self.window * acked;
        self.window = self.window.max(self.reno);
    }

    /// A round ended with the window in use. The bound goes once it is beyond what the delay allows.
    pub(super) fn probe(&mut self, delay_bound: f64) {
        if self.window.is_finite() && self.window > OUTLIVED * self.met {
            self.window *= PROBE;
            if self.window > delay_bound {
                *self = Self::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::net::next_chance, *};

    const MTU: u64 = 1_250;
    const RTT: f64 = 40_000.0;

    /// Whether a loss is by congestion, where one packet in `queued` is lost with a queue and one in `clear` without.
    fn is_congestion(queued: u64, clear: u64, met_queue: bool) -> bool {
        let mut losses = Losses::default();
        for packet in 1..4_000 {
            losses.on_packet(true, packet % queued == 0);
            losses.on_packet(false, packet % clear == 0);
        }
        losses.is_congestion(met_queue)
    }

    #[test]
    fn losses_are_of_congestion_if_packets_in_queues_are_lost_more_often() {
        assert!(is_congestion(50, 1_000_000, true), "queues alone lose");
        assert!(!is_congestion(50, 1_000_000, false), "this one met none");
        assert!(!is_congestion(50, 50, true), "the medium loses");
        assert!(is_congestion(6, 6, false), "too much for any medium");
    }

    #[test]
    fn chance_is_no_congestion() {
        // A medium that loses one packet in a hundred, whatever the queue.
        let mut random = 1;
        let mut losses = Losses::default();
        let mut mistakes = 0;
        for packet in 0..400_000 {
            let (met_queue, is_lost) = (next_chance(&mut random) < 0.5, next_chance(&mut random) < 0.01);
            losses.on_packet(met_queue, is_lost);
            mistakes += u32::from(packet >= 4_000 && is_lost && losses.is_congestion(met_queue));
        }
        assert_eq!(mistakes, 0);
    }

    #[test]
    fn an_answer_halves_what_counts_as_too_much() {
        let mut losses = Losses::default();
        for packet in 0..2_000 {
            losses.on_packet(false, packet % 6 == 0);
        }
        assert!(losses.is_congestion(false));
        losses.on_answer();
        assert!(!losses.is_congestion(false));
    }

    #[test]
    fn after_a_cut_the_window_is_back_at_its_maximum_after_the_time_that_cubic_takes() {
        let mut bound = LossBound::default();
        assert_eq!(bound.window(), f64::INFINITY);
        bound.cut(0, 1_000.0 * MTU as f64, MTU);
        assert!((bound.window() / MTU as f64 - 700.0).abs() < 0.1, "β is 0.7");
        // RFC 9438 §4.2: K = ∛((W_max − W)/C) = ∛(300/0.4) = 9.1 s.
        let back = (1..).map(|round| round * RTT as u64).find(|now| {
            bound.grow(*now, bound.window() as u64, RTT, MTU, 1.0);
            bound.window() > 990.0 * MTU as f64
        });
        let seconds = back.unwrap() as f64 / 1e6;
        assert!((6.0..9.1).contains(&seconds), "the curve is flat at its end: {seconds}");
    }

    #[test]
    fn a_small_window_grows_as_renos() {
        let mut bound = LossBound::default();
        bound.cut(0, 10.0 * MTU as f64, MTU);
        for round in 1..=40 {
            bound.grow(round * 10_000, bound.window() as u64, 10_000.0, MTU, 1.0);
        }
        let packets = bound.window() / MTU as f64;
        assert!((packets - 7.0 - 40.0 * RENO).abs() < 1.0, "{packets}");
    }

    #[test]
    fn a_flow_that_is_cut_again_before_its_maximum_makes_room() {
        let mut bound = LossBound::at(0, 100_000.0);
        bound.cut(0, 100_000.0, MTU);
        bound.cut(50_000, 100_000.0, MTU);
        assert_eq!(bound.most, 0.85 * 70_000.0);
    }

    #[test]
    fn a_cut_for_nothing_is_undone() {
        let mut bound = LossBound::at(0, 100_000.0);
        bound.cut(0, 100_000.0, MTU);
        bound.undo();
        assert_eq!(bound.window(), 100_000.0);
        let mut unbound = LossBound::default();
        unbound.cut(0, 100_000.0, MTU);
        unbound.undo();
        assert_eq!(unbound.window(), f64::INFINITY);
    }

    #[test]
    fn a_bound_that_the_queue_has_outlived_goes() {
        let mut bound = LossBound::at(0, 100_000.0);
        bound.probe(150_000.0);
        assert_eq!(bound.window(), 100_000.0, "it may be the queue's");
        bound.window = 120_000.0;
        bound.probe(160_000.0);
        assert_eq!(bound.window(), 150_000.0);
        bound.probe(160_000.0);
        assert_eq!(bound.window(), f64::INFINITY);
    }

    #[test]
    fn losses_without_end_leave_two_packets() {
        let mut bound = LossBound::default();
        (0..100).for_each(|second| bound.cut(second * 1_000_000, 10.0 * MTU as f64, MTU));
        assert_eq!(bound.window(), 2.0 * MTU as f64);
        // And it grows again.
        (0..20).for_each(|round| bound.grow(100_000_000 + round * 40_000, 2 * MTU, RTT, MTU, 1.0));
        assert!(bound.window() > 4.0 * MTU as f64, "{}", bound.window());
    }
}
