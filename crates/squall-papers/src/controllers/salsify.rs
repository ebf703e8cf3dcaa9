//! Salsify: at most as many packets in flight as arrive within the target delay.
//!
//! Sadjad Fouladi, John Emmons, Emre Orbay, Catherine Wu, Riad S. Wahby, Keith Winstein: "Salsify:
//! Low-Latency Network Video through Tighter Integration between a Video Codec and a Transport
//! Protocol", NSDI 2018. The rule and the constants were read from the authors' published sender
//! and receiver (`src/salsify` of `excamera/alfalfa`); the paper's text was not available, so no
//! sections are cited.
//!
//! **Estimate.** The receiver keeps the mean time between arrivals, `τ ← τ + α·(x − τ)`, `α = 0.1`,
//! where `x` is the time since the last packet less the sender's pause before this one: the time
//! between two frames contains no information about the network.
//!
//! **Window.** With a packet each `τ`, the packets in flight arrive within the delay `d` if there
//! are at most `d/τ` of them. Packets leave five times as fast as they arrive (each `τ/5`, 2 ms at
//! most). The delay that the sender itself causes is thus bounded by `d` *including* the path's
//! own: a path whose round trip is longer than `d` carries only `d`/RTT of its rate.
//!
//! Differences in this implementation:
//! - A time of arrival is available only every few packets (see [`squall_proto::congestion`]). A
//!   gap over `n` packets counts as `n` gaps of the mean length.
//! - Packets differ in size, so `τ` is the time per full packet: a gap counts by its bytes.
//! - The pause is the time since pacing would have released the next packet, if it is longer than
//!   the time in which four packets arrive and 5 ms. Shorter intervals are not pauses:
//!   acknowledgements arrive a few at a time, and open a full window in steps.
//! - A gap with a pause in it counts only if it raises `τ`. Frames of one or two packets have no
//!   other gaps, their `x` is about 0, and by the published rule they raise the window without
//!   evidence that the path can carry it. [`SalsifyConfig::trust_pauses`] selects the published
//!   rule.
//! - The first ten gaps have equal weight, so that the first alone does not set the estimate; until
//!   then ten packets may be in flight.
//! - A gap of [`SalsifyConfig::outage`] or more is an outage, and is ignored.
//! - Loss has no effect by itself, as published (there the encoder reacts). Persistent congestion
//!   doubles `τ`.
//!
//! Findings (`docs/congestion.md`): the round trip stays at `d` if the queue is deep enough. If it
//! is not, Salsify does not detect it: with a queue of 10 kB a transfer loses a third of its
//! packets. Reordering makes the estimate jump; round trips of three times `d` were measured.

use squall_proto::congestion::{
    Ack, Arrival, Controller, ControllerFactory, Evidence, INITIAL_PACKETS, MAX_WINDOW, NewPath, Silences,
};
use squall_sched::{Span, Time};

/// Shortest time per packet in microseconds: 1.2 Gbit/s of full packets.
const MIN_GAP: f64 = 8.0;
/// Longest time per packet in microseconds.
const MAX_GAP: f64 = 1_000_000.0;
/// Longest time between two packets that leave, in microseconds (as published).
const MAX_PACING_GAP: f64 = 2_000.0;
/// Smallest window in packets (RFC 9002 §7.2).
const MIN_WINDOW: u64 = 2;
/// Packets whose gaps have equal weight at first.
const FIRST_GAPS: f64 = INITIAL_PACKETS as f64;
/// Shorter silences of the sender are not pauses.
const SILENCE: Span = Span::from_millis(5);
/// Silences in which fewer packets than this arrive are not pauses.
const SILENT_PACKETS: f64 = 4.0;

/// Parameters of Salsify's congestion control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SalsifyConfig {
    /// `d`: target delay, which bounds the data in flight. Default: 100 ms (as published).
    pub delay: Span,
    /// `α`: weight of a new gap. Default: 0.1 (as published).
    pub weight: f64,
    /// Ratio of the sending rate to the rate of arrival. Default: 5 (as published).
    pub pace: f64,
    /// Minimum length of a gap that counts as an outage. Default: 200 ms, at which a variant of the
    /// published receiver restarts.
    pub outage: Span,
    /// A gap with a pause of the sender in it may lower `τ`, as published. Default: no.
    pub trust_pauses: bool,
}

impl Default for SalsifyConfig {
    fn default() -> Self {
        Self {
            delay: Span::from_millis(100),
            weight: 0.1,
            pace: 5.0,
            outage: Span::from_millis(200),
            trust_pauses: false,
        }
    }
}

impl ControllerFactory for SalsifyConfig {
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
        Box::new(Salsify::new(*self, path.mtu))
    }

    fn evidence(&self) -> Evidence {
        Evidence::Arrivals
    }

    /// The window is the data that arrives within the delay.
    fn window_time(&self, _smallest_rtt: Span, smoothed_rtt: Span) -> Span {
        smoothed_rtt.max(self.delay)
    }
}

/// Salsify's congestion control on one path.
#[derive(Clone, Debug)]
pub struct Salsify {
    config: SalsifyConfig,
    mtu: u64,
    /// `τ` in microseconds per full packet, once a gap has been measured.
    gap: Option<f64>,
    /// Number of packets whose gaps have counted, up to [`FIRST_GAPS`].
    counted: f64,
    /// End of the last packet's time slot at the pacing rate.
    paced_until: Option<Time>,
    pauses: Silences,
    /// The last packet with a time of arrival.
    last: Option<Arrival>,
    /// Bytes acknowledged since then.
    acked: u64,
}

impl Salsify {
    /// Creates a controller for a path with packets of up to `mtu` bytes.
    pub fn new(config: SalsifyConfig, mtu: u64) -> Self {
        Self {
            config,
            mtu,
            gap: None,
            counted: 0.0,
            paced_until: None,
            pauses: Silences::default(),
            last: None,
            acked: 0,
        }
    }

    /// Returns `τ`, the mean time between arrivals in microseconds per full packet; `None` before
    /// the first ten.
    pub fn gap(&self) -> Option<f64> {
        self.gap.filter(|_| self.counted >= FIRST_GAPS)
    }

    /// Returns the length of the sender's pause, if it has paused.
    fn pause(&self, now: Time) -> Option<Span> {
        let arriving = Span::from_micros((SILENT_PACKETS * self.gap.unwrap_or(0.0)) as u64);
        let pause = now - self.paced_until?;
        (pause > arriving.max(SILENCE)).then_some(pause)
    }

    /// Updates the estimate with a gap of `time` microseconds in which `bytes` arrived.
    fn learn(&mut self, time: f64, bytes: u64, paused: bool) {
        let packets = bytes as f64 / self.mtu as f64;
        let each = (time / packets).clamp(MIN_GAP, MAX_GAP);
        if paused && self.gap.is_none_or(|gap| each < gap) && !self.config.trust_pauses {
            return;
        }
        let old = self.gap.unwrap_or(each);
        self.counted += packets;
        let mut weight = 1.0 - (1.0 - self.config.weight).powf(packets);
        if self.counted <= FIRST_GAPS {
            weight = weight.max(packets / self.counted);
        }
        self.gap = Some(old + weight * (each - old));
    }
}

impl Controller for Salsify {
    fn on_sent(&mut self, now: Time, packet: u64, bytes: u64) {
        if let Some(pause) = self.pause(now) {
            self.pauses.add(packet, pause);
        }
        let time = self.pacing_rate().map_or(Span::ZERO, |rate| Span::from_micros(bytes * 8_000_000 / rate));
        self.paced_until = Some(now + time);
    }

    fn on_ack(&mut self, _now: Time, ack: &Ack) {
        self.acked += ack.bytes;
    }

    fn on_end_acks(&mut self, _now: Time, _in_flight: u64) {}

    fn on_arrival(&mut self, _now: Time, arrival: Arrival) {
        let Some(last) = self.last else {
            self.pauses.take_until(arrival.packet);
            self.acked = 0;
            self.last = Some(arrival);
            return;
        };
        if last.packet >= arrival.packet {
            return;
        }
        let pause = self.pauses.take_until(arrival.packet);
        let bytes = std::mem::take(&mut self.acked);
        self.last = Some(arrival);
        // Times decrease only if packets were reordered; the next gap is then too long rather than
        // too short.
        let time = (arrival.at - last.at).max(0) as f64 - pause.micros() as f64;
        if time < self.config.outage.micros() as f64 && bytes > 0 {
            self.learn(time, bytes, !pause.is_zero());
        }
    }

    fn on_loss(&mut self, _now: Time, _packet: u64, _bytes: u64) {}

    fn on_persistent_congestion(&mut self, _now: Time) {
        self.gap = self.gap.map(|gap| (2.0 * gap).min(MAX_GAP));
    }

    fn on_mtu(&mut self, bytes: u64) {
        self.gap = self.gap.map(|gap| (gap * bytes as f64 / self.mtu as f64).clamp(MIN_GAP, MAX_GAP));
        self.mtu = bytes;
    }

    fn window(&self) -> u64 {
        let packets =
            self.gap().map_or(INITIAL_PACKETS as f64, |gap| self.config.delay.micros() as f64 / gap);
        ((packets * self.mtu as f64) as u64).clamp(MIN_WINDOW * self.mtu, MAX_WINDOW)
    }

    fn pacing_rate(&self) -> Option<u64> {
        let gap = (self.gap()? / self.config.pace).min(MAX_PACING_GAP);
        Some((self.mtu as f64 * 8e6 / gap) as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::short::{at_ms, at_us, ms, us};

    use super::{super::ack, *};

    const MTU: u64 = 1_250;

    fn salsify() -> Salsify {
        Salsify::new(SalsifyConfig::default(), MTU)
    }

    /// Sends one full packet and acknowledges it with its time of arrival.
    fn packet(salsify: &mut Salsify, number: u64, sent: Time, at: i64) {
        salsify.on_sent(sent, number, MTU);
        let now = sent + ms(40);
        salsify.on_ack(now, &ack(number, sent, MTU));
        salsify.on_arrival(now, Arrival { packet: number, sent, at });
    }

    /// Returns a controller after eleven packets back to back at 10 Mbps: ten gaps of 1 ms.
    fn warm() -> Salsify {
        let mut salsify = salsify();
        for number in 0..11 {
            salsify.on_sent(at_us(0), number, MTU);
        }
        for number in 0..11u64 {
            let at = 1_000 * number;
            salsify.on_ack(at_us(40_000 + at), &ack(number, at_us(0), MTU));
            salsify.on_arrival(
                at_us(40_000 + at),
                Arrival { packet: number, sent: at_us(0), at: at as i64 - 7_000_000 },
            );
        }
        salsify
    }

    #[test]
    fn the_window_is_what_arrives_within_the_delay() {
        let salsify = warm();
        assert_eq!(salsify.gap(), Some(1_000.0));
        // 100 ms at a packet each millisecond; paced at a packet each 200 µs.
        assert_eq!(salsify.window(), 125_000);
        assert_eq!(salsify.pacing_rate(), Some(50_000_000));
    }

    #[test]
    fn ten_packets_may_leave_until_ten_gaps_are_known() {
        let mut salsify = salsify();
        assert_eq!((salsify.window(), salsify.pacing_rate(), salsify.gap()), (12_500, None, None));
        for number in 0..10 {
            packet(&mut salsify, number, at_us(0), 100 * number as i64);
        }
        assert_eq!(salsify.window(), 12_500, "nine gaps");
        packet(&mut salsify, 10, at_us(0), 1_000);
        assert_eq!(salsify.window(), 1_250_000);
    }

    #[test]
    fn a_gap_over_several_packets_counts_as_that_many() {
        let (mut one, mut three) = (warm(), warm());
        for (i, at) in [12_000i64, 14_000, 16_000].into_iter().enumerate() {
            one.on_ack(at_ms(60), &ack(11 + i as u64, at_us(0), MTU));
            one.on_arrival(at_ms(60), Arrival { packet: 11 + i as u64, sent: at_us(0), at: at - 7_000_000 });
            three.on_ack(at_ms(60), &ack(11 + i as u64, at_us(0), MTU));
        }
        three.on_arrival(at_ms(60), Arrival { packet: 13, sent: at_us(0), at: 16_000 - 7_000_000 });
        // 2 + (1 − 2) · 0.9³ = 1.271 ms.
        assert!((one.gap().unwrap() - 1_271.0).abs() < 1e-6);
        assert!((three.gap().unwrap() - 1_271.0).abs() < 1e-6);
    }

    /// After [`warm`], sends a packet 50 ms after the last one; it arrives `late` later than 50 ms
    /// after the last arrival.
    fn after_a_pause(salsify: &mut Salsify, late: i64) -> f64 {
        salsify.on_sent(at_ms(50), 11, MTU);
        salsify.on_ack(at_ms(100), &ack(11, at_ms(50), MTU));
        let at = 10_000 - 7_000_000 + 50_000 + late;
        salsify.on_arrival(at_ms(100), Arrival { packet: 11, sent: at_ms(50), at });
        salsify.gap().unwrap()
    }

    #[test]
    fn with_a_pause_only_longer_gaps_count_unless_pauses_are_trusted() {
        let cases = [
            (false, 0, 1_000.0),
            (false, 1_000, 1_000.0),
            // The shortest possible gap: 1 + 0.1 · (0.008 − 1) ms.
            (true, 0, 900.8),
            // 20 ms later than after an idle path: 1 + 0.1 · (20 − 1) ms.
            (false, 20_000, 2_900.0),
        ];
        for (trust_pauses, late, expected) in cases {
            let mut salsify = warm();
            salsify.config.trust_pauses = trust_pauses;
            let gap = after_a_pause(&mut salsify, late);
            assert!((gap - expected).abs() < 1e-6, "{gap}");
        }
    }

    #[test]
    fn the_steps_of_a_full_window_are_no_pauses() {
        let mut salsify = warm();
        salsify.on_sent(at_ms(60), 11, MTU);
        salsify.on_sent(at_ms(64), 12, MTU);
        let pauses = [10, 11, 12].map(|packet| salsify.pauses.take_until(packet));
        assert_eq!(pauses, [0, 60, 0].map(ms), "the first packets left at 0");
    }

    #[test]
    fn an_outage_is_no_gap() {
        let mut salsify = warm();
        salsify.on_ack(at_ms(500), &ack(11, at_us(0), MTU));
        salsify.on_arrival(at_ms(500), Arrival { packet: 11, sent: at_us(0), at: 250_000 - 7_000_000 });
        assert_eq!(salsify.gap(), Some(1_000.0));
    }

    #[test]
    fn persistent_congestion_halves_the_window() {
        let mut salsify = warm();
        salsify.on_persistent_congestion(at_ms(60));
        assert_eq!(salsify.window(), 62_500);
    }

    proptest! {
        #[test]
        fn slower_arrivals_never_open_the_window(gaps in prop::collection::vec(1u64..20_000, 1..50), more in 0u64..20_000) {
            let run = |extra: u64| {
                let mut salsify = warm();
                let mut at = 10_000 - 7_000_000;
                for (i, gap) in gaps.iter().enumerate() {
                    at += (gap + extra) as i64;
                    salsify.on_ack(at_ms(60), &ack(11 + i as u64, at_us(0), MTU));
                    salsify.on_arrival(at_ms(60), Arrival { packet: 11 + i as u64, sent: at_us(0), at });
                }
                salsify.window()
            };
            prop_assert!(run(more) <= run(0));
        }

        #[test]
        fn whatever_happens_the_window_keeps_its_bounds(events in prop::collection::vec((0u8..6, 0u64..50_000, any::<i32>(), 1u64..1_500), 1..300)) {
            let mut salsify = salsify();
            let (mut now, mut next, mut acked) = (at_us(0), 0, 0);
            let mut sent = Vec::new();
            for (kind, step, clock, bytes) in events {
                now += us(step);
                match kind {
                    0 | 1 => {
                        salsify.on_sent(now, next, bytes);
                        sent.push((now, bytes));
                        next += 1;
                    }
                    2 | 3 if acked < next => {
                        let (at, bytes) = sent[acked as usize];
                        salsify.on_ack(now, &ack(acked, at, bytes));
                        salsify.on_arrival(now, Arrival { packet: acked, sent: at, at: clock.into() });
                        acked += 1;
                    }
                    4 => salsify.on_persistent_congestion(now),
                    5 => salsify.on_loss(now, acked, bytes),
                    _ => {}
                }
                prop_assert!((MIN_WINDOW * MTU..=MAX_WINDOW).contains(&salsify.window()));
                prop_assert!(salsify.pacing_rate().is_none_or(|rate| rate > 0));
                prop_assert!(salsify.gap().is_none_or(f64::is_finite));
            }
        }
    }
}
