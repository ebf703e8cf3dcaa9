//! The rate at which packets arrive at present.

use squall_sched::Micros;

use super::super::{Arrival, silences::Silences};

/// Packets over which bytes and time are averaged. With 15 or 20 frames of recorded networks arrive more rarely in time;
/// with fewer the receiver's pairs show through.
const PACKETS: f64 = 10.0;
/// Over a path with jitter they are averaged over this multiple of the jitter, as gaps of its size say nothing.
const JITTERS: f64 = 2.0;
/// Silences of the application up to this long are none, in microseconds …
const SILENCE: f64 = 5_000.0;
/// … nor are those in which this many packets arrive.
const SILENT_PACKETS: f64 = 4.0;
/// Gaps of this or more are outages, and say nothing of the rate, in microseconds.
const OUTAGE: f64 = 200_000.0;
/// After this many microseconds in which every gap held a pause of the application the rate may be higher than it was, …
const HIDDEN: Micros = 1_000_000;
/// … if the application used this share of it. An encoder that follows a forecast stays below the rate.
const USED: f64 = 1.0 / 3.0;
/// How much more slowly packets arrive than they left if the path is the limit.
const SLOWER: f64 = 1.1;
/// Shortest time in microseconds between two arrivals: the resolution of the stamps.
const RESOLUTION: f64 = 8.0;
/// Bounds of the rate in bytes per second: 8 kbps to 10 Gbps.
const RATES: (f64, f64) = (1e3, 1.25e9);

/// Bytes over the time between arrivals. The silences of the application are left out, those of the window and the pacer
/// are not: otherwise a small window could never show that it is the limit.
#[derive(Debug, Default)]
pub(super) struct ArrivalRate {
    mtu: f64,
    /// Means of bytes and of microseconds.
    bytes: f64,
    time: f64,
    /// Packets that have counted.
    counted: f64,
    /// The last packet whose time of arrival is known, and bytes acknowledged since.
    last: Option<Arrival>,
    acked: f64,
    /// When the last packet's time by the pacing rate was over, or data waited last.
    silent_from: Option<Micros>,
    /// Data waits for the window or the pacer.
    waits: bool,
    /// Silences of the application.
    silences: Silences,
    /// Its pauses that are too short for silences at the present rate.
    pauses: Silences,
    /// When the first of the packets left since which every gap held a pause or silence, and their bytes.
    hidden: Option<(Micros, f64)>,
    /// The rate was taken for more since then: such gaps do not lower it again.
    is_lifted: bool,
    paused: Paused,
    /// When the first packet arrived that was reported after a pause of the application.
    burst: Option<i64>,
}

/// Gaps that hold a pause of the application: they are its rate, not the path's, unless packets arrive more slowly than they
/// left.
#[derive(Debug, Default)]
struct Paused {
    /// Means of the times between departures and between arrivals, in microseconds.
    left: f64,
    arrived: f64,
}

impl Paused {
    /// Adds a gap. Returns whether packets arrive more slowly than they left, by more than this jitter explains.
    fn add(&mut self, left: f64, arrived: f64, jitter: f64) -> bool {
        let keep = 1.0 - 1.0 / PACKETS;
        self.left = keep * self.left + left;
        self.arrived = keep * self.arrived + arrived;
        self.arrived > SLOWER * self.left + JITTERS * jitter
    }
}

impl ArrivalRate {
    pub(super) fn new(mtu: u64) -> Self {
        Self {
            mtu: mtu as f64,
            bytes: 0.0,
            time: 0.0,
            counted: 0.0,
            last: None,
            acked: 0.0,
            silent_from: None,
            waits: false,
            silences: Silences::default(),
            pauses: Silences::default(),
            hidden: None,
            is_lifted: false,
            paused: Paused::default(),
            burst: None,
        }
    }

    /// Bytes per second; `None` before the first ten packets.
    pub(super) fn get(&self) -> Option<f64> {
        let is_known = self.counted >= PACKETS && self.time > 0.0;
        is_known.then(|| (self.bytes * 1e6 / self.time).clamp(RATES.0, RATES.1))
    }

    pub(super) fn on_mtu(&mut self, mtu: u64) {
        self.mtu = mtu as f64;
    }

    /// Half of what was measured is believed.
    pub(super) fn halve(&mut self) {
        self.time *= 2.0;
    }

    /// A packet left that takes `paced` microseconds at the pacing rate.
    pub(super) fn on_sent(&mut self, now: Micros, packet: u64, paced: f64) {
        let arriving = self.get().map_or(0.0, |rate| SILENT_PACKETS * self.mtu * 1e6 / rate);
        let silence = self.silent_from.map_or(0, |from| now.saturating_sub(from));
        if !self.waits && silence as f64 > SILENCE {
            let is_silence = silence as f64 > arriving;
            if is_silence { &mut self.silences } else { &mut self.pauses }.add(packet, silence);
        }
        self.silent_from = Some(now + paced as Micros);
    }

    /// Data waits, or does no longer.
    pub(super) fn on_waiting(&mut self, now: Micros, waits: bool) {
        if self.waits && !waits {
            self.silent_from = self.silent_from.map(|from| from.max(now));
        }
        self.waits = waits;
    }

    pub(super) fn on_ack(&mut self, bytes: u64) {
        self.acked += bytes as f64;
    }

    /// A time of arrival is known, on a path with this jitter in microseconds.
    pub(super) fn on_arrival(&mut self, arrival: Arrival, jitter: f64) {
        if self.last.is_some_and(|last| last.packet >= arrival.packet) {
            return;
        }
        let silence = self.silences.take_until(arrival.packet) as f64;
        let pause = self.pauses.take_until(arrival.packet);
        let bytes = std::mem::take(&mut self.acked);
        let Some(last) = self.last.replace(arrival) else { return };
        let time = (arrival.at - last.at) as f64 - silence;
        if time > OUTAGE || bytes == 0.0 {
            return;
        }
        // Frames of one or two packets have no gaps but these: they show no rate, only that there is less than before.
        let is_faster = self.get().is_none_or(|rate| bytes * 1e6 > rate * time);
        let is_paused = silence > 0.0 || pause > 0;
        if is_paused {
            self.burst = Some(arrival.at);
        }
        // Sooner after a pause a gap may be jitter. What counts is where it begins: with where it ends, only large gaps would count.
        let shows = !is_paused && self.burst.is_none_or(|from| (last.at - from) as f64 >= jitter);
        if shows {
            (self.hidden, self.is_lifted) = (None, false);
        } else {
            self.hide(arrival.sent, bytes);
        }
        let (left, arrived) = ((arrival.sent - last.sent) as f64, (arrival.at - last.at) as f64);
        let is_slower = !shows && self.paused.add(left, arrived, jitter);
        if shows || !self.is_lifted && is_slower && (silence == 0.0 || !is_faster) {
            self.add(bytes, time, jitter);
        }
    }

    /// These bytes arrived with a pause of the application between them. An encoder that follows what was measured during a fade
    /// makes frames so small that all do, and nothing would ever show that the fade is over. If all of a second are such, the
    /// rate is taken for twice as much. Larger frames show what it is.
    fn hide(&mut self, sent: Micros, bytes: f64) {
        let (since, hidden) = self.hidden.get_or_insert((sent, 0.0));
        *hidden += bytes;
        let time = sent.saturating_sub(*since);
        if time >= HIDDEN {
            let arrived = *hidden * 1e6 / time as f64;
            self.hidden = None;
            if self.get().is_some_and(|rate| arrived > USED * rate) {
                self.time /= 2.0;
                self.is_lifted = true;
            }
        }
    }

    fn add(&mut self, bytes: f64, time: f64, jitter: f64) {
        let packets = bytes / self.mtu;
        self.counted += packets;
        let gap = self.get().map_or(time / packets, |rate| self.mtu * 1e6 / rate);
        let memory = PACKETS.min(self.counted).max(JITTERS * jitter / gap.max(RESOLUTION));
        let keep = (1.0 - 1.0 / memory.max(1.0)).powf(packets);
        self.bytes = keep * self.bytes + bytes;
        self.time = (keep * self.time + time).max(RESOLUTION);
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

        /// `count` packets that leave and arrive every `gap`, the first at `from`; data waits after each if the window is
        /// the limit.
        fn packets(&mut self, count: u64, from: Micros, gap: Micros, waits: bool) {
            for at in (0..count).map(|i| from + i * gap) {
                self.rate.on_sent(at, self.next, 100.0);
                self.rate.on_waiting(at, waits);
                self.rate.on_ack(MTU);
                self.rate.on_arrival(Arrival { packet: self.next, sent: at, at: at as i64 - 5_000_000 }, 0.0);
                self.next += 1;
            }
        }

        /// Packets in ten milliseconds.
        fn rate(&self) -> f64 {
            self.rate.get().expect("it is known") / MTU as f64 / 100.0
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
                flow.rate.on_sent(sent, flow.next, 100.0);
                flow.rate.on_waiting(sent, false);
                flow.rate.on_ack(MTU);
                let at = (sent + gap) as i64 - 5_000_000;
                flow.rate.on_arrival(Arrival { packet: flow.next, sent, at }, 15_000.0);
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
        flow.rate.on_arrival(Arrival { packet: 3, sent: 3_000, at: 0 }, 0.0);
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
            rate.on_sent(packet * 100_000, packet, 100.0);
            rate.on_waiting(packet * 100_000, false);
        }
        assert_eq!(rate.silences.0.len(), MAX_SILENCES);
    }
}
