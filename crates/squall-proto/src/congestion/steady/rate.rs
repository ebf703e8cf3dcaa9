//! `r`, the present rate of arrivals.

use squall_units::{Span, Time};

use super::units::{ByteRate, Delay};
use crate::congestion::{Arrival, silences::Silences};

/// Number of packets over which bytes and time are averaged. With 15 or 20 fewer frames of recorded
/// networks arrive in time; with fewer the receiver's pairs are visible.
const PACKETS: f64 = 10.0;
/// Multiple of the jitter over which they are averaged on a path with jitter, since gaps of its
/// size are no measure.
const JITTERS: f64 = 2.0;
/// Length above which a silence of the application counts.
const SILENCE: Span = Span::from_millis(5);
/// Number of packets whose arrival must be shorter than a silence that counts.
const SILENT_PACKETS: f64 = 4.0;
/// Gaps of this or more are outages, and no measure of the rate.
const OUTAGE: Delay = Delay::new(200e3);
/// Time in which every gap contained a pause of the application, after which the rate is doubled.
const HIDDEN: Span = Span::from_secs(1);
/// Share of the rate that must have arrived in [`HIDDEN`] for that. An encoder that follows a
/// forecast stays below the rate.
const USED: f64 = 1.0 / 3.0;
/// Ratio of the gaps of arrivals to those of departures above which the path is the limit.
const SLOWER: f64 = 1.1;
/// Shortest time between two arrivals: the resolution of the stamps.
const RESOLUTION: Delay = Delay::new(8.0);
/// Bounds of the rate: 8 kbps to 10 Gbps.
const RATES: (ByteRate, ByteRate) = (ByteRate::new(1e3), ByteRate::new(1.25e9));

/// Bytes over the time between arrivals. The silences of the application are excluded, those of the
/// window and the pacer are not: otherwise a small window could never show that it is the limit.
#[derive(Debug, Default)]
pub(super) struct ArrivalRate {
    mtu: f64,
    mean: Mean,
    /// Last packet with a reported time of arrival.
    last: Option<Arrival>,
    /// Bytes acknowledged since that packet.
    acked: f64,
    idle: Idle,
    /// Departure and bytes of the packets since which every gap contained a pause or silence.
    hidden: Option<(Time, f64)>,
    /// The rate was doubled since then: such gaps do not lower it again.
    is_lifted: bool,
    paused: Paused,
    /// Arrival of the first packet that was reported after a pause of the application, in
    /// microseconds of the receiver's clock.
    burst: Option<i64>,
}

/// Means of bytes and of time.
#[derive(Debug, Default)]
struct Mean {
    bytes: f64,
    time: Delay,
    /// Packets that have counted.
    counted: f64,
}

impl Mean {
    fn rate(&self) -> Option<ByteRate> {
        let is_known = self.counted >= PACKETS && self.time > Delay::ZERO;
        is_known.then(|| ByteRate::of(self.bytes, self.time).max(RATES.0).min(RATES.1))
    }

    /// Adds packets of `mtu` bytes.
    fn add(&mut self, bytes: f64, time: Delay, jitter: Delay, mtu: f64) {
        let packets = bytes / mtu;
        self.counted += packets;
        let gap = self.rate().map_or(time / packets, |rate| rate.time_for(mtu));
        let memory = PACKETS.min(self.counted).max(jitter * JITTERS / gap.max(RESOLUTION));
        let keep = (1.0 - 1.0 / memory.max(1.0)).powf(packets);
        self.bytes = keep * self.bytes + bytes;
        self.time = (self.time * keep + time).max(RESOLUTION);
    }
}

/// Times in which the application sends nothing.
#[derive(Debug, Default)]
struct Idle {
    /// End of the last packet's time by the pacing rate, or time when data waited last.
    from: Option<Time>,
    /// Data waits for the window or the pacer.
    waits: bool,
    silences: Silences,
    /// Pauses that are too short for silences at the present rate.
    pauses: Silences,
}

impl Idle {
    /// Records the departure of a packet that takes the time `paced` at the pacing rate, while a
    /// few take `arriving` at the present one.
    fn on_sent(&mut self, now: Time, packet: u64, paced: Delay, arriving: Delay) {
        let idle = self.from.map_or(Span::ZERO, |from| now - from);
        if !self.waits && idle > SILENCE {
            let is_silence = Delay::from(idle) > arriving;
            if is_silence { &mut self.silences } else { &mut self.pauses }.add(packet, idle);
        }
        self.from = Some(now + paced.span());
    }

    fn on_waiting(&mut self, now: Time, waits: bool) {
        if self.waits && !waits {
            self.from = self.from.map(|from| from.max(now));
        }
        self.waits = waits;
    }

    /// Takes the silences and the pauses before a packet.
    fn take_until(&mut self, packet: u64) -> (Delay, Delay) {
        let [silence, pause] = [&mut self.silences, &mut self.pauses].map(|times| times.take_until(packet));
        (silence.into(), pause.into())
    }
}

/// Gaps that contain a pause of the application: they are its rate, not the path's, unless packets
/// arrive more slowly than they left.
#[derive(Debug, Default)]
struct Paused {
    /// Mean of the times between departures.
    left: Delay,
    /// Mean of the times between arrivals.
    arrived: Delay,
}

impl Paused {
    /// Adds a gap. Returns `true` if packets arrive more slowly than they left, by more than this
    /// jitter explains.
    fn add(&mut self, left: Delay, arrived: Delay, jitter: Delay) -> bool {
        let keep = 1.0 - 1.0 / PACKETS;
        self.left = self.left * keep + left;
        self.arrived = self.arrived * keep + arrived;
        self.arrived > self.left * SLOWER + jitter * JITTERS
    }
}

impl ArrivalRate {
    pub(super) fn new(mtu: u64) -> Self {
        Self { mtu: mtu as f64, ..Self::default() }
    }

    /// Returns the rate; `None` before the first ten packets.
    pub(super) fn get(&self) -> Option<ByteRate> {
        self.mean.rate()
    }

    pub(super) fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu as f64;
    }

    /// Halves the measured rate.
    pub(super) fn halve(&mut self) {
        self.mean.time = self.mean.time * 2.0;
    }

    /// Records the departure of a packet that takes this time at the pacing rate.
    pub(super) fn on_sent(&mut self, now: Time, packet: u64, paced: Delay) {
        let arriving = self.get().map_or(Delay::ZERO, |rate| rate.time_for(SILENT_PACKETS * self.mtu));
        self.idle.on_sent(now, packet, paced, arriving);
    }

    /// Records whether data waits.
    pub(super) fn on_waiting(&mut self, now: Time, waits: bool) {
        self.idle.on_waiting(now, waits);
    }

    pub(super) fn on_ack(&mut self, bytes: u64) {
        self.acked += bytes as f64;
    }

    /// Records a time of arrival, on a path with this jitter.
    pub(super) fn on_arrival(&mut self, arrival: Arrival, jitter: Delay) {
        if self.last.is_some_and(|last| last.packet >= arrival.packet) {
            return;
        }
        let (silence, pause) = self.idle.take_until(arrival.packet);
        let bytes = std::mem::take(&mut self.acked);
        let Some(last) = self.last.replace(arrival) else { return };
        let left = Delay::from(arrival.sent - last.sent);
        let arrived = Delay::new((arrival.at - last.at) as f64);
        let time = arrived - silence;
        if time > OUTAGE || bytes == 0.0 {
            return;
        }
        // Frames of one or two packets have only these gaps: they show no rate, only that there is
        // less than before.
        let is_faster = self.get().is_none_or(|rate| rate.is_exceeded_by(bytes, time));
        let is_paused = silence > Delay::ZERO || pause > Delay::ZERO;
        if is_paused {
            self.burst = Some(arrival.at);
        }
        // Sooner after a pause a gap may be jitter. Its beginning counts: with its end, only large
        // gaps would count.
        let is_late = |from: i64| Delay::new((last.at - from) as f64) >= jitter;
        let shows = !is_paused && self.burst.is_none_or(is_late);
        if shows {
            (self.hidden, self.is_lifted) = (None, false);
        } else {
            self.hide(arrival.sent, bytes);
        }
        let is_slower = !shows && self.paused.add(left, arrived, jitter);
        if shows || !self.is_lifted && is_slower && (silence == Delay::ZERO || !is_faster) {
            self.mean.add(bytes, time, jitter, self.mtu);
        }
    }

    /// Handles bytes that arrived with a pause of the application between them. An encoder that
    /// follows a rate measured during a fade makes frames so small that all do, and nothing would
    /// ever show that the fade is over. If all frames of a second are such, the rate is doubled.
    /// Larger frames show the actual one.
    fn hide(&mut self, sent: Time, bytes: f64) {
        let (since, hidden) = self.hidden.get_or_insert((sent, 0.0));
        *hidden += bytes;
        let time = sent - *since;
        if time >= HIDDEN {
            let arrived = ByteRate::of(*hidden, time.into());
            self.hidden = None;
            if self.get().is_some_and(|rate| arrived > rate * USED) {
                self.mean.time = self.mean.time / 2.0;
                self.is_lifted = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::silences::MAX_SILENCES;

    const MTU: u64 = 1_250;

    /// A sender and its receiver, one packet after the other.
    struct Flow {
        rate: ArrivalRate,
        next: u64,
    }

    impl Flow {
        fn new() -> Self {
            Self { rate: ArrivalRate::new(MTU), next: 0 }
        }

        /// Sends `count` packets that leave and arrive every `gap`, the first at `from`; data waits
        /// after each if the window is the limit.
        fn packets(&mut self, count: u64, from: u64, gap: u64, waits: bool) {
            for at in (0..count).map(|i| from + i * gap) {
                self.rate.on_sent(Time::from_micros(at), self.next, Delay::new(100.0));
                self.rate.on_waiting(Time::from_micros(at), waits);
                self.rate.on_ack(MTU);
                self.rate.on_arrival(
                    Arrival { packet: self.next, sent: Time::from_micros(at), at: at as i64 - 5_000_000 },
                    Delay::ZERO,
                );
                self.next += 1;
            }
        }

        /// Returns the packets in ten milliseconds.
        fn rate(&self) -> f64 {
            self.rate.get().expect("it is known") * Delay::new(10e3) / MTU as f64
        }
    }

    #[test]
    fn the_rate_is_known_after_ten_packets() {
        let mut flow = Flow::new();
        flow.packets(10, 0, 1_000, true);
        assert_eq!(flow.rate.get(), None, "nine gaps");
        flow.packets(1, 10_000, 1_000, true);
        assert!((flow.rate() - 10.0).abs() < 0.01, "{}", flow.rate());
    }

    #[test]
    fn a_pause_of_the_application_says_nothing() {
        let mut flow = Flow::new();
        flow.packets(40, 0, 1_000, false);
        flow.packets(40, 140_000, 1_000, false);
        assert!((flow.rate() - 10.0).abs() < 0.1, "{}", flow.rate());
    }

    #[test]
    fn a_pause_of_the_window_lowers_it() {
        let mut flow = Flow::new();
        flow.packets(40, 0, 1_000, true);
        flow.packets(1, 140_000, 1_000, true);
        assert!(flow.rate() < 2.0, "{}", flow.rate());
    }

    #[test]
    fn single_packets_of_an_application_show_no_higher_rate() {
        let mut flow = Flow::new();
        flow.packets(40, 0, 1_000, false);
        for packet in 1..100 {
            flow.packets(1, 39_000 + 50_000 * packet, 1_000, false);
        }
        assert!(flow.rate() < 10.1, "{}", flow.rate());
    }

    #[test]
    fn what_small_frames_cannot_show_doubles_each_second_while_they_use_it() {
        let mut flow = Flow::new();
        // A packet in 50 ms, without a pause: 0.2 in ten milliseconds.
        flow.packets(40, 0, 50_000, true);
        assert!((flow.rate() - 0.2).abs() < 0.01, "{}", flow.rate());
        let mut at = 2_000_000;
        let mut second = |flow: &mut Flow, packets: u64| {
            for _ in 0..packets {
                flow.packets(1, at, 1_000, false);
                at += 1_000_000 / packets;
            }
        };
        (0..4).for_each(|_| second(&mut flow, 20));
        assert!((flow.rate() - 0.8).abs() < 0.01, "0.2 are used, more than a third of 0.4: {}", flow.rate());
        (0..4).for_each(|_| second(&mut flow, 60));
        assert!((flow.rate() - 3.2).abs() < 0.01, "0.6 are used: {}", flow.rate());
    }

    #[test]
    fn gaps_of_small_frames_within_the_jitter_do_not_lower_it() {
        let mut flow = Flow::new();
        flow.packets(40, 0, 1_000, false);
        // Frames of four packets that jitter spreads over 12 ms.
        for frame in 1..30 {
            let sent = 39_000 + 40_000 * frame;
            for gap in [0, 3_000, 6_000, 12_000] {
                flow.rate.on_sent(Time::from_micros(sent), flow.next, Delay::new(100.0));
                flow.rate.on_waiting(Time::from_micros(sent), false);
                flow.rate.on_ack(MTU);
                let at = (sent + gap) as i64 - 5_000_000;
                flow.rate.on_arrival(
                    Arrival { packet: flow.next, sent: Time::from_micros(sent), at },
                    Delay::new(15e3),
                );
                flow.next += 1;
            }
        }
        assert!((flow.rate() - 10.0).abs() < 0.1, "not 2.5: {}", flow.rate());
    }

    #[test]
    fn an_outage_is_no_rate() {
        let mut flow = Flow::new();
        flow.packets(40, 0, 1_000, true);
        flow.packets(10, 1_040_000, 1_000, true);
        assert!((flow.rate() - 10.0).abs() < 0.01, "{}", flow.rate());
    }

    #[test]
    fn what_was_overtaken_does_not_count() {
        let mut flow = Flow::new();
        flow.packets(40, 0, 1_000, true);
        let before = flow.rate();
        flow.rate.on_arrival(Arrival { packet: 3, sent: Time::from_micros(3_000), at: 0 }, Delay::ZERO);
        assert_eq!(flow.rate(), before);
    }

    #[test]
    fn after_persistent_congestion_half_of_it_is_believed() {
        let mut flow = Flow::new();
        flow.packets(40, 0, 1_000, true);
        flow.rate.halve();
        assert!((flow.rate() - 5.0).abs() < 0.1, "{}", flow.rate());
    }

    #[test]
    fn silences_of_packets_that_never_arrive_are_bounded() {
        let mut rate = ArrivalRate::new(MTU);
        for packet in 0..2 * MAX_SILENCES as u64 {
            let now = Time::from_micros(packet * 100_000);
            rate.on_sent(now, packet, Delay::new(100.0));
            rate.on_waiting(now, false);
        }
        assert_eq!(rate.idle.silences.0.len(), MAX_SILENCES);
    }
}
