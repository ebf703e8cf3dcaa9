//! What losses say: whether they are a queue's, and what may be in flight then.

use squall_sched::Micros;

/// Weight of a packet in the shares that are compared: means over some 2,000 packets. Over 500, chance cuts the window of a link
/// that loses 1 % by itself to two thirds on average, and four of five key frames of `lossy-12mbps` come too late.
const COMPARED_WEIGHT: f64 = 0.0005;
/// More than one lost packet in this many is congestion in any case (draft-ietf-rmcat-gcc-02 draws the line there, too), …
const TOLERATED: u32 = 10;
/// … if that many rounds in a row have as many: the losses of an outage are reported within one or two.
const HEAVY_ROUNDS: u8 = 3;
/// Packets that a round has at least. With fewer it goes on.
const LEAST_PACKETS: u32 = 10;
/// How many times as often packets must be lost that met a queue. Random loss hits both alike.
const CONTRAST: f64 = 2.0;
/// Packets lost one after the other are one event. Of a longer row one in this many may arrive: radios have outages of which
/// single packets escape.
const ESCAPED: u64 = 16;
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

/// How often packets are lost: those that met a queue, those that met none, and all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// Events per packet.
    queued: f64,
    clear: f64,
    /// The packet that was lost last, and how many of the same event.
    row: Option<(u64, u64)>,
    /// Packets of this round, and how many of them were lost.
    round: (u32, u32),
    /// Rounds in a row that lost too many.
    heavy: u8,
}

impl Losses {
    /// A packet has arrived, while the path had a queue or not.
    pub(super) fn on_packet(&mut self, met_queue: bool) {
        self.round.0 += 1;
        let share = self.share(met_queue);
        *share -= COMPARED_WEIGHT * *share;
    }

    /// A packet is lost.
    pub(super) fn on_loss(&mut self, packet: u64, met_queue: bool) {
        self.round = (self.round.0 + 1, self.round.1 + 1);
        let row = self.row.filter(|(last, count)| (last + 1..=last + 1 + count / ESCAPED).contains(&packet));
        let count = row.map_or(0, |(_, count)| count);
        self.row = Some((packet, count + 1));
        if count == 0 {
            let share = self.share(met_queue);
            *share += COMPARED_WEIGHT * (1.0 - *share);
        }
    }

    fn share(&mut self, met_queue: bool) -> &mut f64 {
        if met_queue { &mut self.queued } else { &mut self.clear }
    }

    /// A round trip is over.
    pub(super) fn end_round(&mut self) {
        let (all, lost) = self.round;
        if all >= LEAST_PACKETS {
            self.heavy = if TOLERATED * lost > all { self.heavy.saturating_add(1) } else { 0 };
            self.round = (0, 0);
        }
    }

    /// Whether a loss now is by congestion.
    pub(super) fn is_congestion(&self, met_queue: bool) -> bool {
        // Almost three standard deviations of such a mean: each loss is judged, and one mistake in thousands is enough.
        let chance = 2.0 * (COMPARED_WEIGHT * self.clear).sqrt();
        self.heavy >= HEAVY_ROUNDS || met_queue && self.queued > CONTRAST * self.clear + chance
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

    /// One packet in `queued` is lost of those that met a queue, and one in `clear` of the others; in rounds of fifty packets.
    fn losses(queued: u64, clear: u64) -> Losses {
        let mut losses = Losses::default();
        for packet in 1..4_000 {
            for (met_queue, every) in [(true, queued), (false, clear)] {
                // Not one after the other.
                if packet % every == 0 {
                    losses.on_loss(20 * packet + 10 * u64::from(!met_queue), met_queue);
                } else {
                    losses.on_packet(met_queue);
                }
            }
            if packet % 25 == 0 {
                losses.end_round();
            }
        }
        losses
    }

    #[test]
    fn losses_are_of_congestion_if_packets_in_queues_are_lost_more_often() {
        assert!(losses(50, 1_000_000).is_congestion(true), "queues alone lose");
        assert!(!losses(50, 1_000_000).is_congestion(false), "this one met none");
        assert!(!losses(50, 50).is_congestion(true), "the medium loses");
        assert!(losses(6, 6).is_congestion(false), "too much for any medium");
    }

    #[test]
    fn chance_is_no_congestion() {
        // A medium that loses one packet in a hundred, one or four in a row, whatever the queue. Four thousand are lost.
        for (row, tolerated) in [(1, 0), (4, 40)] {
            let (mut random, mut losses, mut mistakes) = (1, Losses::default(), 0);
            let mut left = 0;
            for packet in 0..400_000 {
                let (met_queue, begins) =
                    (next_chance(&mut random) < 0.5, next_chance(&mut random) < 0.01 / f64::from(row));
                left = if begins { row } else { left.max(1) - 1 };
                if left == 0 {
                    losses.on_packet(met_queue);
                    continue;
                }
                losses.on_loss(packet, met_queue);
                mistakes += u32::from(packet >= 4_000 && losses.is_congestion(met_queue));
            }
            assert!(mistakes <= tolerated, "{row} in a row: {mistakes}");
        }
    }

    #[test]
    fn an_outage_is_one_event_and_no_congestion() {
        let mut losses = losses(1_000_000, 200);
        // Of 200 packets, three arrive.
        for packet in (50_000..50_200).filter(|packet| ![50_050, 50_100, 50_150].contains(packet)) {
            losses.on_loss(packet, true);
        }
        losses.end_round();
        assert!(!losses.is_congestion(true) && !losses.is_congestion(false));
    }

    #[test]
    fn too_much_is_lost_in_three_rounds_of_a_row() {
        let mut losses = Losses::default();
        let mut round = |lost: u64| {
            (0..50 - lost).for_each(|_| losses.on_packet(false));
            (0..lost).for_each(|packet| losses.on_loss(10 * packet, false));
            losses.end_round();
            losses.is_congestion(false)
        };
        assert_eq!([6, 6, 6, 6, 5, 6].map(&mut round), [false, false, true, true, false, false]);
    }

    #[test]
    fn a_round_of_few_packets_lasts_until_there_are_more() {
        let mut losses = Losses::default();
        for packet in 0..60 {
            if packet % 5 == 0 {
                losses.on_loss(packet, false);
            } else {
                losses.on_packet(false);
            }
            losses.end_round();
        }
        assert!(losses.is_congestion(false));
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
