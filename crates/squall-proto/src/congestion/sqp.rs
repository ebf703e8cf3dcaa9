//! SQP: a rate estimate from the packet trains that video frames are.
//!
//! Devdeep Ray, Connor Smith, Teng Wei, David Chu, Srinivasan Seshan: "SQP: Congestion Control for
//! Low-Latency Interactive Video Streaming", arXiv 2207.11857, 2022. What is confirmed of it is its
//! abstract: frame-coupled, paced packet trains sample the bandwidth; an adaptive measurement of the
//! one-way delay lets a queue drain; delay stays bounded beside flows that build queues. The paper's text
//! was not at hand, so no sections are cited, and each constant is an option of [`SqpConfig`]: the values
//! are those the algorithm is known by, not checked against the paper.
//!
//! **Sample.** A train of `I` bytes whose first packet left at `S_start` and whose last arrived at
//! `R_end` shows the rate ([`sample`])
//!
//! ```text
//! S = γ·I / (R_end − S_start − Δmin + (γ − 1)·I/ρ)
//! ```
//!
//! `Δmin` is the smallest one-way delay of the last two round trips. So a queue that was there before
//! the train makes the sample smaller, and one that stays for longer counts as delay of the path: this
//! is what lets SQP hold its own beside others that fill the queue. A train smaller than the frame it
//! could have been, `F = T·B/f`, is continued to that size (`γ = max(1, F/I)`) at the rate `ρ` at which
//! it arrived; else a little delay would weigh the more, the smaller the frame.
//!
//! **Update.** With each train, the estimate `B` moves towards `S` and never past it:
//!
//! ```text
//! B ← B + δ·(r·(S/B − 1) − (B/S − 1))
//! ```
//!
//! Trains that follow one another sooner than frames do move it by as much less.
//!
//! **Sending.** Packets leave at `m·B`, so that a train can show more than `B`; on the average a source
//! may send `T·B`. Here the second is what the window does: it is what such a source has in flight over
//! an empty queue, one frame included, `W = T·B·(RTT_min + 1/f)`. A video source whose encoder follows
//! the estimate never meets it, and one that does not, as well as bulk data, is held to it.
//!
//! What differs from a description for one flow of frames:
//! - A controller of a path does not see frames. A train is what leaves without a silence in between, for
//!   one frame interval at most ([`SqpConfig::interval`]).
//! - The first packet of a train does not count in `I`: the time it takes to be sent is part of `Δmin`.
//! - Only three packets and two times of arrival show a rate. Smaller trains can lower the estimate, by
//!   their delay, but not raise it.
//! - No sample is above `m·B`: a train that is paced cannot show more, and one that left as a burst (the
//!   pacer lets ten packets pass) is not believed more.
//! - Loss by itself changes nothing; persistent congestion halves the estimate.

use squall_sched::Micros;

use super::{
    Arrival, Controller, INITIAL_PACKETS, MAX_WINDOW,
    minimum::Minimum,
    train::{Cut, Train, Trains},
};

/// Packets that must arrive for a train to show a higher rate.
const MIN_TRAIN: u64 = 3;
/// Packets of a train before it may be cut for its length: twice as many, so that slow paths get
/// samples too.
const CUT_TRAIN: u64 = 2 * MIN_TRAIN;
/// Silences up to this long do not end a train, in microseconds …
const SILENCE: Micros = 4_000;
/// … nor do those of so many packets at the pacing rate, if the window was full: acknowledgements come in
/// pairs, and let packets go that way, each pair in the time of four at twice the estimate. Were it as
/// much as [`MIN_WINDOW`] at the estimate, a window so small would pass for a train without end.
const SILENT_PACKETS: f64 = 4.0;
/// Smallest window in packets: enough for a train that shows a rate.
const MIN_WINDOW: u64 = 4;
/// Shortest dispersion in microseconds: the resolution of the stamps.
const RESOLUTION: f64 = 4.0;

/// What can be set of SQP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SqpConfig {
    /// `T`: share of the estimate that is used, so that queues drain. Default: 0.9.
    pub target: f64,
    /// `m`: pacing rate as a multiple of the estimate. Default: 2.
    pub pace: f64,
    /// `δ`: step of the estimate, in bits per second and frame. Default: 320,000.
    pub step: f64,
    /// `r`: weight of samples above the estimate. Default: 0.25.
    pub reward: f64,
    /// Smoothed round-trip times over which the smallest one-way delay is taken. Default: 2.
    pub delay_window: f64,
    /// `1/f`: frame interval, the longest a train lasts, in microseconds. Default: 16,667 (60 frames a
    /// second, the rate of AUGUR's streams).
    pub interval: Micros,
    /// Time over which the smallest round-trip time is taken for the window, in microseconds. Default:
    /// 10 s, as BBR does. A choice of this implementation.
    pub rtt_window: Micros,
    /// Lowest estimate in bits per second. Default: 50,000. A choice of this implementation.
    pub min_rate: f64,
    /// Highest estimate in bits per second. Default: 1,000,000,000. A choice of this implementation.
    pub max_rate: f64,
}

impl Default for SqpConfig {
    fn default() -> Self {
        Self {
            target: 0.9,
            pace: 2.0,
            step: 320_000.0,
            reward: 0.25,
            delay_window: 2.0,
            interval: 16_667,
            rtt_window: 10_000_000,
            min_rate: 50_000.0,
            max_rate: 1e9,
        }
    }
}

/// SQP on one path.
#[derive(Clone, Debug)]
pub struct Sqp {
    config: SqpConfig,
    mtu: u64,
    /// `B` in bits per second, once there was an acknowledgement.
    estimate: Option<f64>,
    smoothed_rtt: f64,
    rtts: Minimum,
    delays: Minimum,
    trains: Trains,
    /// When the train left that the estimate last learnt from.
    learnt: Option<Micros>,
    in_flight: u64,
    /// Whether the window had room for a packet after the last one left: a silence is the
    /// application's then.
    has_room: bool,
}

impl Sqp {
    /// A controller for a path whose packets are up to `mtu` bytes.
    pub fn new(config: SqpConfig, mtu: u64) -> Self {
        Self {
            config,
            mtu,
            estimate: None,
            smoothed_rtt: 0.0,
            rtts: Minimum::default(),
            delays: Minimum::default(),
            trains: Trains::default(),
            learnt: None,
            in_flight: 0,
            has_room: true,
        }
    }

    /// The estimate `B` in bits per second; `None` before the first acknowledgement.
    pub fn estimate(&self) -> Option<f64> {
        self.estimate
    }

    fn bounded(&self, rate: f64) -> f64 {
        rate.clamp(self.config.min_rate, self.config.max_rate)
    }

    fn sample_rtt(&mut self, now: Micros, rtt: Micros) {
        let rtt = rtt.max(1);
        self.rtts.add(now, rtt as i64, self.config.rtt_window);
        if self.estimate.is_some() {
            self.smoothed_rtt += (rtt as f64 - self.smoothed_rtt) / 8.0;
        } else {
            self.smoothed_rtt = rtt as f64;
            let initial = (INITIAL_PACKETS * self.mtu) as f64 * 8e6 / rtt as f64;
            self.estimate = Some(self.bounded(initial));
        }
    }

    fn cut(&self) -> Cut {
        let silent = if self.has_room { 1.0 } else { SILENT_PACKETS };
        let pacing = self.estimate.map_or(0.0, |b| silent * self.mtu as f64 * 8e6 / self.pace(b)) as Micros;
        let silence = if self.has_room { SILENCE + pacing } else { SILENCE.max(pacing) };
        Cut { length: self.config.interval, packets: CUT_TRAIN, silence }
    }

    fn pace(&self, estimate: f64) -> f64 {
        self.config.pace * estimate
    }

    fn learn(&mut self, train: &Train, smallest_delay: i64) {
        let (Some(estimate), Some((first, last))) = (self.estimate, train.points) else { return };
        let spread = (last.at - first.at) as f64;
        let shown = train.packets >= MIN_TRAIN && last.bytes > first.bytes;
        let arrival_rate =
            if shown { (last.bytes - first.bytes) as f64 * 8e6 / spread.max(RESOLUTION) } else { estimate };
        let frame = self.config.target * estimate * self.config.interval as f64 / 8e6;
        let dispersion = (last.at - train.started as i64 - smallest_delay) as f64;
        let sample = sample(last.bytes as f64, frame, dispersion, arrival_rate);
        let most = if shown { self.pace(estimate) } else { estimate };
        let since = self.learnt.replace(train.started).map_or(Micros::MAX, |last| train.started - last);
        let frames = since as f64 / self.config.interval as f64;
        self.estimate = Some(self.bounded(updated(estimate, sample.min(most), frames, &self.config)));
    }
}

/// The rate that a train of `bytes` shows, in bits per second: `dispersion` microseconds from its first
/// departure to its last arrival, beyond the smallest delay; a train smaller than a `frame` is continued
/// at its `arrival_rate`.
pub fn sample(bytes: f64, frame: f64, dispersion: f64, arrival_rate: f64) -> f64 {
    let full = frame.max(bytes);
    let continued = (full - bytes) * 8e6 / arrival_rate;
    full * 8e6 / (dispersion.max(RESOLUTION) + continued)
}

/// The estimate after a sample, both in bits per second: between the old one and the sample.
///
/// `frames` is the time since the last update in frame intervals, and counts up to 1.
pub fn updated(estimate: f64, sample: f64, frames: f64, config: &SqpConfig) -> f64 {
    let step = config.step * frames.min(1.0);
    let step = step * (config.reward * (sample / estimate - 1.0) - (estimate / sample - 1.0));
    let (low, high) = if sample < estimate { (sample, estimate) } else { (estimate, sample) };
    (estimate + step).clamp(low, high)
}

impl Controller for Sqp {
    fn on_sent(&mut self, now: Micros, packet: u64, bytes: u64) {
        self.trains.on_sent(now, packet, self.cut());
        self.in_flight += bytes;
        self.has_room = self.in_flight + self.mtu <= self.window();
    }

    fn on_ack(&mut self, now: Micros, packet: u64, sent: Micros, bytes: u64) {
        self.sample_rtt(now, now.saturating_sub(sent));
        self.trains.on_ack(packet, bytes);
    }

    fn on_end_acks(&mut self, _now: Micros, in_flight: u64) {
        self.in_flight = in_flight;
    }

    fn on_arrival(&mut self, now: Micros, arrival: Arrival) {
        let window = (self.config.delay_window * self.smoothed_rtt) as Micros;
        let smallest = self.delays.add(now, arrival.delay(), window);
        for train in self.trains.on_arrival(&arrival) {
            self.learn(&train, smallest);
        }
    }

    fn on_loss(&mut self, _now: Micros, _packet: u64, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    fn on_persistent_congestion(&mut self, _now: Micros) {
        self.estimate = self.estimate.map(|b| self.bounded(b / 2.0));
        self.trains.clear();
    }

    fn on_mtu(&mut self, bytes: u64) {
        self.mtu = bytes;
    }

    fn window(&self) -> u64 {
        let (Some(estimate), Some(rtt)) = (self.estimate, self.rtts.get()) else {
            return INITIAL_PACKETS * self.mtu;
        };
        let time = rtt as f64 + self.config.interval as f64;
        let bytes = self.config.target * estimate * time / 8e6;
        (bytes as u64).clamp(MIN_WINDOW * self.mtu, MAX_WINDOW)
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pace(self.estimate?) as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MTU: u64 = 1_250;

    /// A link with a queue: packets leave it one after another.
    struct Link {
        rate: f64,
        delay: Micros,
        free_at: f64,
    }

    impl Link {
        fn new(rate: f64) -> Self {
            Self { rate, delay: 20_000, free_at: 0.0 }
        }

        fn pass(&mut self, now: Micros, bytes: u64) -> Micros {
            self.free_at = self.free_at.max(now as f64) + bytes as f64 * 8e6 / self.rate;
            self.free_at as Micros + self.delay
        }
    }

    /// Frames of `bytes` each 16,667 µs, paced, for `frames` of them; acknowledged in pairs, 20 ms after
    /// their arrival. The receiver's clock is a second behind.
    fn frames(sqp: &mut Sqp, link: &mut Link, bytes: u64, frames: Range) {
        let mut acks: Vec<(Micros, u64, Micros)> = Vec::new();
        let mut packet = frames.start * 1_000;
        let mut now = 0;
        for frame in frames {
            now = now.max(frame * 16_667);
            for _ in 0..bytes / MTU {
                deliver(sqp, &mut acks, now);
                sqp.on_sent(now, packet, MTU);
                acks.push((link.pass(now, MTU), packet, now));
                packet += 1;
                now += sqp.pacing_rate().map_or(1_000, |rate| MTU * 8_000_000 / rate);
            }
        }
    }

    type Range = std::ops::Range<u64>;

    fn deliver(sqp: &mut Sqp, acks: &mut Vec<(Micros, u64, Micros)>, now: Micros) {
        while acks.len() > 1 && acks[1].0 + 20_000 <= now {
            for (_, packet, sent) in &acks[..2] {
                sqp.on_ack(now, *packet, *sent, MTU);
            }
            let (at, packet, sent) = acks[1];
            acks.drain(..2);
            sqp.on_end_acks(now, acks.len() as u64 * MTU);
            sqp.on_arrival(now, Arrival { packet, sent, at: at as i64 - 1_000_000 });
        }
    }

    #[test]
    fn a_sample_is_bytes_over_dispersion() {
        // 20 kB within 16 ms are 10 Mbps.
        assert_eq!(sample(20_000.0, 20_000.0, 16_000.0, 1.0), 10e6);
        // Half a frame, with 8 ms of queue before it, at 10 Mbps: 10 kB take 8 + 8 ms, and so would a
        // whole frame take 8 + 16 ms.
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
        sqp.on_sent(0, 0, MTU);
        sqp.on_ack(50_000, 0, 0, MTU);
        // 12,500 bytes in 50 ms are 2 Mbps, and 0.9 of it over 50 + 16.667 ms are 15,000 bytes.
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
        sqp.on_sent(0, 0, MTU);
        sqp.on_ack(50_000, 0, 0, MTU);
        sqp.on_persistent_congestion(60_000);
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
            let (mut now, mut next, mut acked) = (0, 0, 0);
            let mut sent = Vec::new();
            for (kind, step, clock, bytes) in events {
                now += step;
                match kind {
                    0 | 1 => {
                        sqp.on_sent(now, next, bytes);
                        sent.push((now, bytes));
                        next += 1;
                    }
                    2 | 3 if acked < next => {
                        let (at, bytes) = sent[acked as usize];
                        sqp.on_ack(now, acked, at, bytes);
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
}
