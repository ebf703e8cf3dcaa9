//! SQP: a rate estimate from video frames, which are sent as packet trains.
//!
//! Devdeep Ray, Connor Smith, Teng Wei, David Chu, Srinivasan Seshan: "SQP: Congestion Control for
//! Low-Latency Interactive Video Streaming", arXiv 2207.11857, 2022. Only its abstract is
//! confirmed: frame-coupled, paced packet trains sample the bandwidth; an adaptive measurement of
//! the one-way delay lets a queue drain; delay stays bounded beside flows that build queues. The
//! paper's text was not available, so no sections are cited, and each constant is an option of
//! [`SqpConfig`]: the values are those commonly attributed to the algorithm, not checked against
//! the paper.
//!
//! **Sample.** A train of `I` bytes whose first packet left at `S_start` and whose last arrived at
//! `R_end` indicates the rate ([`sample`])
//!
//! ```text
//! S = γ·I / (R_end − S_start − Δmin + (γ − 1)·I/ρ)
//! ```
//!
//! `Δmin` is the smallest one-way delay of the last two round trips. A queue that existed before
//! the train therefore lowers the sample, and one that persists for longer counts as delay of the
//! path: this lets SQP keep its share beside flows that fill the queue. A train smaller than the
//! frame that it could have been, `F = T·B/f`, is extrapolated to that size (`γ = max(1, F/I)`) at
//! the rate `ρ` at which it arrived; otherwise a small delay would weigh more, the smaller the
//! frame is.
//!
//! **Update.** With each train, the estimate `B` moves towards `S`, but never past it:
//!
//! ```text
//! B ← B + δ·(r·(S/B − 1) − (B/S − 1))
//! ```
//!
//! The step is proportionally smaller for trains that follow one another sooner than frames do.
//!
//! **Sending.** Packets leave at `m·B`, so that a train can indicate more than `B`; on average a
//! source may send `T·B`. Here the window enforces the second rule: it is the amount that such a
//! source has in flight over an empty queue, one frame included, `W = T·B·(RTT_min + 1/f)`. A video
//! source whose encoder follows the estimate never reaches it; one that does not, and bulk data, is
//! limited by it.
//!
//! Differences from a description for one flow of frames:
//! - The controller of a path does not see frames. A train is a sequence of packets without a
//!   silence in between, for one frame interval at most ([`SqpConfig::interval`]).
//! - The first packet of a train does not count in `I`: its transmission time is part of `Δmin`.
//! - A rate requires at least three packets and two times of arrival. Smaller trains can lower the
//!   estimate, by their delay, but not raise it.
//! - No sample is above `m·B`: a paced train cannot indicate more, and a burst (the pacer lets ten
//!   packets pass) is not trusted more.
//! - Loss has no effect by itself; persistent congestion halves the estimate.
//! - It starts with ten packets in the first round trip; the authors' start is unknown to us.
//!
//! Findings (`docs/congestion.md`): the estimate rises by 0.24 Mbps a frame at most, so a stream of
//! 8 Mbps is late for its first half second. Jitter on the scale of a frame interval is mistaken
//! for a queue and costs half of a link; reordering costs more. Below about 2 Mbps a frame interval
//! has too few packets for a good sample, and only a third of the link is used.

#[cfg(test)]
mod tests;

use squall_proto::congestion::{
    Ack, Arrival, Controller, ControllerFactory, Evidence, INITIAL_PACKETS, MAX_WINDOW, Minimum, NewPath,
};
use squall_sched::{Span, Time};

use super::train::{Cut, Train, Trains};

/// Packets that must arrive for a train to raise the estimate.
const MIN_TRAIN: u64 = 3;
/// Minimum number of packets of a train before it may be cut for its length: twice [`MIN_TRAIN`],
/// so that slow paths get samples too.
const CUT_TRAIN: u64 = 2 * MIN_TRAIN;
/// Shorter silences do not end a train.
const SILENCE: Span = Span::from_millis(4);
/// Silences of fewer packets than this at the pacing rate do not end a train if the window was
/// full: acknowledgements arrive in pairs, and release packets in pairs, each in the time of four
/// packets at twice the estimate. If this were as much as [`MIN_WINDOW`] at the estimate, a window
/// of that size would look like a train without end.
const SILENT_PACKETS: f64 = 4.0;
/// Minimum window in packets: enough for a train that indicates a rate.
const MIN_WINDOW: u64 = 4;
/// Minimum dispersion in microseconds: the resolution of the timestamps.
const RESOLUTION: f64 = 4.0;

/// Parameters of SQP.
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
    /// `1/f`: frame interval, and maximum duration of a train. Default: 16,667 µs (60 frames a
    /// second, the rate of AUGUR's streams).
    pub interval: Span,
    /// Time over which the smallest round-trip time is taken for the window. Default: 10 s, as in
    /// BBR. A choice of this implementation.
    pub rtt_window: Span,
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
            interval: Span::from_micros(16_667),
            rtt_window: Span::from_secs(10),
            min_rate: 50_000.0,
            max_rate: 1e9,
        }
    }
}

impl ControllerFactory for SqpConfig {
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
        Box::new(Sqp::new(*self, path.mtu))
    }

    fn evidence(&self) -> Evidence {
        Evidence::Arrivals
    }

    /// The window is the target rate times this.
    fn window_time(&self, smallest_rtt: Span, _smoothed_rtt: Span) -> Span {
        smallest_rtt + self.interval
    }
}

/// SQP on one path.
#[derive(Clone, Debug)]
pub struct Sqp {
    config: SqpConfig,
    mtu: u64,
    /// `B` in bits per second, once a packet has been acknowledged.
    estimate: Option<f64>,
    smoothed_rtt: f64,
    rtts: Minimum,
    delays: Minimum,
    trains: Trains,
    /// Start of the last train that updated the estimate.
    learnt: Option<Time>,
    in_flight: u64,
    /// The window had room for a packet after the last one left: a silence is then the
    /// application's.
    has_room: bool,
}

impl Sqp {
    /// Creates a controller for a path with packets of up to `mtu` bytes.
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

    /// Returns the estimate `B` in bits per second; `None` before the first acknowledgement.
    pub fn estimate(&self) -> Option<f64> {
        self.estimate
    }

    fn bounded(&self, rate: f64) -> f64 {
        rate.clamp(self.config.min_rate, self.config.max_rate)
    }

    fn sample_rtt(&mut self, now: Time, rtt: Span) {
        let rtt = rtt.max(Span::TICK).micros();
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
        let pacing = self.estimate.map_or(0.0, |b| silent * self.mtu as f64 * 8e6 / self.pace(b));
        let pacing = Span::from_micros(pacing as u64);
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
        let frame = self.config.target * estimate * self.config.interval.micros() as f64 / 8e6;
        let dispersion = (last.at - train.started.micros() as i64 - smallest_delay) as f64;
        let sample = sample(last.bytes as f64, frame, dispersion, arrival_rate);
        let most = if shown { self.pace(estimate) } else { estimate };
        let since = self.learnt.replace(train.started).map_or(Span::MAX, |last| train.started - last);
        let frames = since.micros() as f64 / self.config.interval.micros() as f64;
        self.estimate = Some(self.bounded(updated(estimate, sample.min(most), frames, &self.config)));
    }
}

/// Returns the rate indicated by a train of `bytes`, in bits per second. `dispersion` is the time
/// in microseconds from its first departure to its last arrival, less the smallest delay; a train
/// smaller than a `frame` is extrapolated at its `arrival_rate`.
pub fn sample(bytes: f64, frame: f64, dispersion: f64, arrival_rate: f64) -> f64 {
    let full = frame.max(bytes);
    let continued = (full - bytes) * 8e6 / arrival_rate;
    full * 8e6 / (dispersion.max(RESOLUTION) + continued)
}

/// Returns the estimate after a sample, both in bits per second: between the old one and the
/// sample.
///
/// `frames` is the time since the last update in frame intervals, and counts up to 1.
pub fn updated(estimate: f64, sample: f64, frames: f64, config: &SqpConfig) -> f64 {
    let step = config.step * frames.min(1.0);
    let step = step * (config.reward * (sample / estimate - 1.0) - (estimate / sample - 1.0));
    let (low, high) = if sample < estimate { (sample, estimate) } else { (estimate, sample) };
    (estimate + step).clamp(low, high)
}

impl Controller for Sqp {
    fn on_sent(&mut self, now: Time, packet: u64, bytes: u64) {
        self.trains.on_sent(now, packet, self.cut());
        self.in_flight += bytes;
        self.has_room = self.in_flight + self.mtu <= self.window();
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        self.sample_rtt(now, now - ack.sent);
        self.trains.on_ack(ack.packet, ack.bytes);
    }

    fn on_end_acks(&mut self, _now: Time, in_flight: u64) {
        self.in_flight = in_flight;
    }

    fn on_arrival(&mut self, now: Time, arrival: Arrival) {
        let window = Span::from_micros((self.config.delay_window * self.smoothed_rtt) as u64);
        let smallest = self.delays.add(now, arrival.delay(), window);
        for train in self.trains.on_arrival(&arrival) {
            self.learn(&train, smallest);
        }
    }

    fn on_loss(&mut self, _now: Time, _packet: u64, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    fn on_persistent_congestion(&mut self, _now: Time) {
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
        let time = rtt as f64 + self.config.interval.micros() as f64;
        let bytes = self.config.target * estimate * time / 8e6;
        (bytes as u64).clamp(MIN_WINDOW * self.mtu, MAX_WINDOW)
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pace(self.estimate?) as u64)
    }
}
