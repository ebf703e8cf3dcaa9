use proptest::prelude::*;
use squall_units::short::{at_ms, at_us, ms, us};

use super::{super::ack, *};

const MTU: u64 = 1_250;

/// A link with a queue, which packets leave one after another.
struct Link {
    rate: f64,
    delay: Span,
    free_at: f64,
}

impl Link {
    fn new(rate: f64) -> Self {
        Self { rate, delay: ms(20), free_at: 0.0 }
    }

    fn pass(&mut self, now: Time, bytes: u64) -> Time {
        self.free_at = self.free_at.max(now.micros() as f64) + bytes as f64 * 8e6 / self.rate;
        at_us(self.free_at as u64) + self.delay
    }
}

/// Sends `frames` of `bytes` each 16,667 µs, paced; they are acknowledged in pairs, 20 ms after
/// their arrival. The receiver's clock is a second behind.
fn frames(sqp: &mut Sqp, link: &mut Link, bytes: u64, frames: Range) {
    let mut acks: Vec<(Time, u64, Time)> = Vec::new();
    let mut packet = frames.start * 1_000;
    let mut now = at_us(0);
    for frame in frames {
        now = now.max(at_us(frame * 16_667));
        for _ in 0..bytes / MTU {
            deliver(sqp, &mut acks, now);
            sqp.on_sent(now, packet, MTU);
            acks.push((link.pass(now, MTU), packet, now));
            packet += 1;
            now += us(sqp.pacing_rate().map_or(1_000, |rate| MTU * 8_000_000 / rate));
        }
    }
}

type Range = std::ops::Range<u64>;

fn deliver(sqp: &mut Sqp, acks: &mut Vec<(Time, u64, Time)>, now: Time) {
    while acks.len() > 1 && acks[1].0 + ms(20) <= now {
        for (_, packet, sent) in &acks[..2] {
            sqp.on_ack(now, &ack(*packet, *sent, MTU));
        }
        let (at, packet, sent) = acks[1];
        acks.drain(..2);
        sqp.on_end_acks(now, acks.len() as u64 * MTU);
        sqp.on_arrival(now, Arrival { packet, sent, at: at.micros() as i64 - 1_000_000 });
    }
}

#[test]
fn a_sample_is_bytes_over_dispersion() {
    // 20 kB within 16 ms are 10 Mbps.
    assert_eq!(sample(20_000.0, 20_000.0, 16_000.0, 1.0), 10e6);
    // Half a frame, with 8 ms of queue before it, at 10 Mbps: 10 kB take 8 + 8 ms, so a whole frame
    // would take 8 + 16 ms.
    assert_eq!(sample(10_000.0, 20_000.0, 16_000.0, 10e6), 20_000.0 * 8e6 / 24_000.0);
    // A train of one packet that waited 4 ms, with 5 kB frames at 10 Mbps.
    assert_eq!(sample(0.0, 5_000.0, 4_000.0, 10e6), 5e6);
}

#[test]
fn the_update_is_the_formula_and_stops_at_the_sample() {
    let config = SqpConfig::default();
    // S = 2B: 320 kbps · (0.25 · 1 + 0.5) = 240 kbps.
    assert_eq!(updated(10e6, 20e6, 1.0, &config), 10.24e6);
    // S = B/2: 320 kbps · (−0.125 − 1) = −360 kbps.
    assert_eq!(updated(10e6, 5e6, 3.0, &config), 9.64e6);
    // A quarter of a frame interval after the last.
    assert_eq!(updated(10e6, 20e6, 0.25, &config), 10.06e6);
    assert_eq!(updated(10e6, 10e6, 1.0, &config), 10e6);
    // S = B/10: −2.95 Mbps would go past a sample of 0.1 Mbps.
    assert_eq!(updated(1e6, 0.1e6, 1.0, &config), 0.1e6);
}

#[test]
fn before_the_first_answer_ten_packets_may_leave() {
    let mut sqp = Sqp::new(SqpConfig::default(), MTU);
    assert_eq!((sqp.window(), sqp.pacing_rate()), (12_500, None));
    sqp.on_sent(at_us(0), 0, MTU);
    sqp.on_ack(at_ms(50), &ack(0, at_us(0), MTU));
    // 12,500 bytes in 50 ms are 2 Mbps, and 0.9 of that over 50 + 16.667 ms are 15,000 bytes.
    assert_eq!(sqp.estimate(), Some(2e6));
    assert_eq!((sqp.window(), sqp.pacing_rate()), (15_000, Some(4_000_000)));
}

#[test]
fn the_estimate_finds_the_rate_of_the_link() {
    let mut sqp = Sqp::new(SqpConfig::default(), MTU);
    // Frames of 15 kB are 7.2 Mbps.
    frames(&mut sqp, &mut Link::new(10e6), 15_000, 0..300);
    let estimate = sqp.estimate().unwrap();
    assert!((9.5e6..10.5e6).contains(&estimate), "{estimate}");
}

#[test]
fn it_follows_a_link_that_slows_down() {
    let mut sqp = Sqp::new(SqpConfig::default(), MTU);
    let mut link = Link::new(20e6);
    frames(&mut sqp, &mut link, 12_500, 0..200);
    assert!(sqp.estimate().unwrap() > 18e6);
    link.rate = 5e6;
    frames(&mut sqp, &mut link, 12_500, 200..230);
    let estimate = sqp.estimate().unwrap();
    assert!((2e6..6e6).contains(&estimate), "{estimate} after half a second");
}

#[test]
fn single_packets_do_not_raise_the_estimate() {
    let mut sqp = Sqp::new(SqpConfig::default(), MTU);
    frames(&mut sqp, &mut Link::new(50e6), MTU, 0..10);
    let early = sqp.estimate().unwrap();
    frames(&mut sqp, &mut Link::new(50e6), MTU, 1_000..1_500);
    let late = sqp.estimate().unwrap();
    assert!(late <= early && late > 0.5 * early, "{early} and {late}");
}

#[test]
fn persistent_congestion_halves_it() {
    let mut sqp = Sqp::new(SqpConfig::default(), MTU);
    sqp.on_sent(at_us(0), 0, MTU);
    sqp.on_ack(at_ms(50), &ack(0, at_us(0), MTU));
    sqp.on_persistent_congestion(at_ms(60));
    assert_eq!(sqp.estimate(), Some(1e6));
}

proptest! {
    #[test]
    fn the_estimate_moves_towards_the_sample_and_not_past_it(b in 5e4..1e9f64, s in 5e4..1e9f64, t in 5e4..1e9f64, f in 0.01..2.0f64) {
        let config = SqpConfig::default();
        let new = updated(b, s, f, &config);
        prop_assert!((b.min(s)..=b.max(s)).contains(&new));
        prop_assert_eq!(new.partial_cmp(&b), s.partial_cmp(&b));
        // The larger sample never gives the smaller estimate.
        let (low, high) = (s.min(t), s.max(t));
        prop_assert!(updated(b, low, f, &config) <= updated(b, high, f, &config));
    }

    #[test]
    fn whatever_happens_the_window_keeps_its_bounds(events in prop::collection::vec((0u8..5, 0u64..50_000, any::<i32>(), 1u64..1_500), 1..300)) {
        let mut sqp = Sqp::new(SqpConfig::default(), MTU);
        let (mut now, mut next, mut acked) = (at_us(0), 0, 0);
        let mut sent = Vec::new();
        for (kind, step, clock, bytes) in events {
            now += us(step);
            match kind {
                0 | 1 => {
                    sqp.on_sent(now, next, bytes);
                    sent.push((now, bytes));
                    next += 1;
                }
                2 | 3 if acked < next => {
                    let (at, bytes) = sent[acked as usize];
                    sqp.on_ack(now, &ack(acked, at, bytes));
                    sqp.on_arrival(now, Arrival { packet: acked, sent: at, at: clock.into() });
                    acked += 1;
                }
                4 => sqp.on_persistent_congestion(now),
                _ => {}
            }
            prop_assert!((MIN_WINDOW * MTU..=MAX_WINDOW).contains(&sqp.window()));
            let estimate = sqp.estimate().unwrap_or(1e6);
            prop_assert!((5e4..=1e9).contains(&estimate));
        }
    }
}
