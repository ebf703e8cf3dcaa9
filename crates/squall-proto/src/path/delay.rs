//! Round trips and one-way delays of a path.

use squall_sched::{Span, Time};

use super::Path;
use crate::wire::{Stamp, TICK};

/// Round-trip time: smoothed, smallest, mean deviation (RFC 9002 §5.3, without the correction for
/// acknowledgement delay, since our receiver sends feedback at once).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    pub(crate) smoothed: Span,
    /// Smoothed round trip of data alone, without regard to pauses, at which the window was found.
    /// Paced by a shorter one, the window would leave faster than the path has ever carried it.
    pub(crate) steady: Span,
    pub(crate) latest: Span,
    pub(crate) min: Span,
    pub(crate) deviation: Span,
    /// Smallest round trip of packets with data.
    of_data: Option<Span>,
    /// Time of the last sample.
    pub(crate) sampled_at: Option<Time>,
}

/// Kind of packet that measured a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sample {
    /// A part of a block.
    Data,
    /// A packet without one.
    Other,
    /// A probe, or its answer.
    Probe,
}

/// Round-trip time before the first sample (RFC 9002 §6.2.2).
const INITIAL: Span = Span::from_millis(333);
/// Pause after which earlier samples are obsolete.
const OBSOLETE: Span = Span::from_secs(2);
/// Pause in shorter round trips after which an earlier, longer sample is obsolete.
pub(super) const OBSOLETE_ROUND_TRIPS: u64 = 4;

impl Default for Rtt {
    fn default() -> Self {
        Self {
            smoothed: INITIAL,
            steady: INITIAL,
            latest: INITIAL,
            min: INITIAL,
            deviation: INITIAL / 2,
            of_data: None,
            sampled_at: None,
        }
    }
}

impl Rtt {
    /// Sets the round trip of path validation, until there are samples.
    pub(crate) fn seed(&mut self, rtt: Span) {
        if self.sampled_at.is_none() {
            let deviation = rtt / 2;
            *self = Self { smoothed: rtt, steady: rtt, latest: rtt, min: rtt, deviation, ..Self::default() };
        }
    }

    /// Returns `true` if no data had a round trip of up to twice this one: the path itself has
    /// become quicker, not only its queue shorter.
    pub(crate) fn is_new_to_data(&self, rtt: Span) -> bool {
        self.of_data.is_none_or(|least| rtt * 2 < least)
    }

    /// Records a round trip. The probe of an idle path resets the smoothed time: a scheduler that
    /// left a path because of a queue must see that the queue is gone.
    pub(crate) fn sample(&mut self, now: Time, rtt: Span, with: Sample) {
        let before = self.sampled_at.replace(now);
        self.latest = rtt;
        if with == Sample::Data {
            self.of_data = Some(self.of_data.map_or(rtt, |least| least.min(rtt)));
        }
        let Some(before) = before else {
            (self.smoothed, self.steady, self.min, self.deviation) = (rtt, rtt, rtt, rtt / 2);
            return;
        };
        let pause = now - before;
        self.min = self.min.min(rtt);
        if with == Sample::Data {
            self.steady = (self.steady * 7 + rtt) / 8;
        }
        let is_obsolete = pause > OBSOLETE || rtt < self.smoothed && pause > rtt * OBSOLETE_ROUND_TRIPS;
        if with == Sample::Probe && is_obsolete {
            self.smoothed = rtt;
            self.deviation = self.deviation.min(rtt / 2);
        } else {
            self.deviation = (self.deviation * 3 + self.smoothed.abs_diff(rtt)) / 4;
            self.smoothed = (self.smoothed * 7 + rtt) / 8;
        }
    }

    /// Returns the probe timeout: the time by which an acknowledgement should have arrived (RFC
    /// 9002 §6.2.1).
    pub(crate) fn probe_timeout(&self) -> Span {
        self.smoothed + (self.deviation * 4).max(Span::from_millis(1)) + crate::feedback::MAX_DELAY
    }
}

/// One-way delay to the peer, up to the offset of its clock, which is the same for every path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delay {
    /// Ticks modulo 2²⁴ of the reference sample of `smoothed`.
    reference: Option<u32>,
    /// Smoothed distance from the reference, in microseconds.
    smoothed: i64,
    /// Smallest value of `smoothed` so far.
    least: i64,
    /// Ticks and round trip of the last packet whose report and acknowledgement arrived together.
    exact: Option<(u32, Span)>,
}

/// Change beyond the round trip that indicates a change of one of the two clocks.
const STEP: Span = Span::from_millis(500);

impl Delay {
    /// Returns `true` if one of the two clocks was stopped since the last report of a packet: a
    /// queue that forms or drains is no longer than the round trip. `ticks` are of a packet whose
    /// round trip took `rtt`.
    pub(crate) fn is_step(&mut self, ticks: u32, rtt: Span) -> bool {
        let before = self.exact.replace((ticks, rtt));
        before.is_some_and(|(last, last_rtt)| {
            let change = Span::from_micros(Stamp::distance(ticks, last).unsigned_abs() * TICK);
            change > rtt.max(last_rtt) + STEP
        })
    }

    /// Forgets the samples.
    pub(crate) fn forget(&mut self) {
        *self = Self { exact: self.exact, ..Self::default() };
    }

    pub(crate) fn sample(&mut self, ticks: u32) {
        let Some(reference) = self.reference else {
            *self = Self { reference: Some(ticks), smoothed: 0, least: 0, ..*self };
            return;
        };
        let distance = Stamp::distance(ticks, reference) * TICK as i64;
        self.smoothed += (distance - self.smoothed) / 8;
        self.least = self.least.min(self.smoothed);
    }

    /// Returns the delay at its smallest.
    fn at_least(self) -> Self {
        Self { smoothed: self.least, ..self }
    }

    /// Returns the delay after a pause: an own queue drains when nothing is added to it.
    pub(super) fn after_pause(self, pause: Span) -> Self {
        let pause = i64::try_from(pause.micros()).unwrap_or(i64::MAX);
        Self { smoothed: self.smoothed.saturating_sub(pause).max(self.least), ..self }
    }

    /// Returns the delay shortened by `by`, in its smallest value too.
    pub(super) fn shortened(self, by: Span) -> Self {
        let smoothed = self.smoothed.saturating_sub_unsigned(by.micros());
        Self { smoothed, least: self.least.min(smoothed), ..self }
    }

    /// Returns by how much this path takes longer than `other`, in microseconds.
    pub(crate) fn longer_than(&self, other: &Self) -> Option<i64> {
        let difference = Stamp::distance(self.reference?, other.reference?) * TICK as i64;
        Some(difference + self.smoothed - other.smoothed)
    }
}

/// The peer's report of the newest data packet that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported {
    /// Arrival of the report.
    pub(crate) at: Time,
    /// Delay in ticks, up to the offset of the peer's clock.
    pub(crate) delay: u32,
    /// Departure of the packet, if the peer reports it.
    pub(crate) departure: Option<Stamp>,
}

impl Reported {
    /// Returns the microseconds from `sent` to the departure of that packet; 0 if the peer does not
    /// report it.
    pub(crate) fn departed_after(&self, sent: Time) -> i64 {
        self.departure
            .map_or(0, |departure| Stamp::distance(departure.since(Stamp::at(sent)), 0) * TICK as i64)
    }
}

/// Smallest delay of data on a path, in ticks modulo 2²⁴, up to the offset of the peer's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quickest(Option<u32>);

impl Quickest {
    pub(crate) fn on_arrival(&mut self, took: u32) {
        if self.0.is_none_or(|least| Stamp::distance(took, least) < 0) {
            self.0 = Some(took);
        }
    }

    /// Returns the delay of a packet on any path, if the quickest one took half of this path's
    /// smallest round trip. `None` if nothing has arrived on it.
    pub(crate) fn transit(&self, took: u32, smallest: Span) -> Option<Span> {
        let longer = Span::from_micros(Stamp::distance(took, self.0?).max(0) as u64 * TICK);
        Some(smallest / 2 + longer)
    }
}

/// Reference of one-way delays: the quickest path of all, at its quickest, took half of its
/// smallest round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    base: Span,
    quickest: Delay,
}

impl Level {
    /// Returns `None` without a path.
    pub(crate) fn of<'a>(paths: impl Iterator<Item = &'a Path>) -> Option<Self> {
        let quickest = paths.filter(|p| p.life.is_up()).min_by(|a, b| {
            let difference = a.delay.at_least().longer_than(&b.delay.at_least()).unwrap_or(0);
            difference.cmp(&0).then(a.rtt.smoothed.cmp(&b.rtt.smoothed))
        })?;
        Some(Self { base: quickest.rtt.min / 2, quickest: quickest.delay.at_least() })
    }

    /// Returns the one-way delay of a packet whose ticks the peer reports.
    pub(crate) fn of_ticks(&self, ticks: u32) -> Option<Span> {
        self.of_delay(&Delay { reference: Some(ticks), ..Delay::default() })
    }

    fn of_delay(&self, delay: &Delay) -> Option<Span> {
        Some(Span::from_micros(self.base.micros().saturating_add_signed(delay.longer_than(&self.quickest)?)))
    }
}

/// Returns the one-way delays of all paths. Their differences are exact.
pub(crate) fn one_way_delays<'a>(
    paths: impl Iterator<Item = &'a Path> + Clone,
    now: Time,
) -> impl Iterator<Item = Span> {
    let level = Level::of(paths.clone());
    paths.map(move |path| {
        let delay = path.delay.after_pause(now - path.departed_at);
        level.and_then(|level| level.of_delay(&delay)).unwrap_or(path.rtt.smoothed / 2)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_sched::PathId;
    use squall_units::short::{at_ms, at_us, ms, us};

    use super::*;
    use crate::{
        path::{PACKET_OVERHEAD, flight::InFlight},
        steering::QuicPath,
    };

    fn delays<'a>(paths: impl IntoIterator<Item = &'a Path, IntoIter: Clone>, now: u64) -> Vec<u64> {
        one_way_delays(paths.into_iter(), at_us(now)).map(Span::micros).collect()
    }

    fn up(id: PathId, now: Time) -> Path {
        let mut path = Path::new(id, QuicPath::detached(id.0.into()), now);
        path.life.on_validated(now, Span::ZERO);
        path
    }

    proptest! {
        #[test]
        fn delays_are_compared_across_the_wrap(base in any::<u32>(), gap in -2_000_000i64..2_000_000) {
            let ticks = |micros: i64| (i64::from(base) + micros / TICK as i64) as u32 & 0xff_ffff;
            let (mut a, mut b) = (Delay::default(), Delay::default());
            for _ in 0..100 {
                a.sample(ticks(gap));
                b.sample(ticks(0));
            }
            prop_assert!((a.longer_than(&b).unwrap() - gap).abs() <= TICK as i64);
        }
    }

    #[test]
    fn a_clock_that_was_stopped_is_noticed_and_a_queue_is_not() {
        let mut delay = Delay::default();
        let mut is_step = |millis: u64, rtt| delay.is_step((millis * 1_000 / TICK) as u32, ms(rtt));
        assert!(!is_step(20_000, 30), "the first one");
        assert!(!is_step(25_000, 5_030), "a queue of 5 s comes");
        assert!(!is_step(20_000, 30), "and goes");
        assert!(!is_step(20_400, 30), "too little to be noticed");
        assert!(is_step(21_400, 30), "the sender slept for a second");
        assert!(is_step(11_400, 30), "the receiver slept for ten");
        assert!(!is_step(11_410, 40));
    }

    #[test]
    fn a_packet_took_no_longer_than_the_quickest_path_explains() {
        let (mut quick, mut slow) = (Quickest::default(), Quickest::default());
        assert_eq!(quick.transit(0, ms(50)), None, "nothing has arrived");
        let ticks = |micros: u64| (micros / TICK) as u32 & 0xff_ffff;
        // The peer's clock is ahead until stamps wrap, and the second path took 2 s at first.
        let offset = (1 << 26) - 100_000;
        quick.on_arrival(ticks(offset + 27_000));
        quick.on_arrival(ticks(offset + 25_000));
        slow.on_arrival(ticks(offset + 2_000_000));
        let least = |slow: &Quickest, took| {
            let took = ticks(offset + took);
            [quick.transit(took, ms(50)), slow.transit(took, ms(4_000))]
                .map(|transit| transit.expect("arrivals").micros())
        };
        assert_eq!(least(&slow, 2_000_000), [2_000_000, 2_000_000]);
        slow.on_arrival(ticks(offset + 40_000));
        assert_eq!(least(&slow, 40_000), [40_000, 2_000_000], "its own round trip is that of before");
    }

    #[test]
    fn a_path_is_new_to_data_that_has_never_been_as_quick() {
        let mut rtt = Rtt::default();
        assert!(rtt.is_new_to_data(ms(50)), "there was no data");
        rtt.sample(at_us(1), ms(20), Sample::Probe);
        rtt.sample(at_us(2), ms(120), Sample::Data);
        rtt.sample(at_us(3), ms(400), Sample::Data);
        assert!(rtt.is_new_to_data(ms(59)) && !rtt.is_new_to_data(ms(60)));
    }

    #[test]
    fn a_probe_shortens_what_data_measured_before() {
        let mut path = up(PathId(0), at_us(0));
        let mut quick = up(PathId(1), at_us(0));
        quick.rtt.sample(at_us(1), ms(20), Sample::Data);
        for (path, delay) in [(&mut quick, 10_000), (&mut path, 4_000_000)] {
            path.rtt.sample(at_us(1), ms(20), Sample::Data);
            path.delay.sample(delay / TICK as u32);
        }
        let owd = |path: &Path| delays([path, &quick], 60_000_000)[0];
        assert_eq!(owd(&path), 4_000_000, "no pause makes it shorter than it has been");
        path.shorten_delay(at_ms(60_000), ms(3_920));
        assert_eq!(owd(&path), 80_000);
        path.shorten_delay(at_ms(60_000), us(0));
        path.delay.sample(40_000 / TICK as u32);
        assert_eq!(owd(&path), 75_000, "data goes on from there");
    }

    #[test]
    fn a_report_is_of_the_packet_that_departed_then() {
        let departed_at = |at| Reported { at: at_us(0), delay: 0, departure: Some(Stamp::at(at)) };
        assert_eq!(departed_at(at_ms(1_000)).departed_after(at_ms(1_000)), 0);
        assert_eq!(
            departed_at(at_ms(1_000)).departed_after(at_us(1_000_200)),
            -200,
            "a later packet is acknowledged"
        );
        assert_eq!(
            departed_at(at_us(1_000_200)).departed_after(at_ms(1_000)),
            200,
            "its packet is not acknowledged yet"
        );
        let wrapped = 4 << 24;
        assert_eq!(departed_at(at_us(wrapped + 40)).departed_after(at_us(wrapped - 80)), 120);
        assert_eq!(
            Reported { at: at_us(0), delay: 0, departure: None }.departed_after(at_ms(1_000)),
            0,
            "no report of a departure"
        );
    }

    #[test]
    fn one_way_delays_hold_the_queue_that_all_paths_have() {
        let path = |id, rtt, ticks: &[u32]| {
            let mut path = up(PathId(id), at_us(0));
            path.rtt.sample(at_us(1), us(rtt), Sample::Data);
            ticks.iter().for_each(|delay| (0..200).for_each(|_| path.delay.sample(delay / TICK as u32)));
            path
        };
        // 5 ms and 20 ms, then 60 ms more on both; the receiver's clock is 1 s ahead.
        let calm = [path(0, 10_000, &[1_005_000]), path(1, 40_000, &[1_020_000])];
        assert_eq!(delays(&calm, 0), [5_000, 20_000]);
        let queued = [path(0, 10_000, &[1_005_000, 1_065_000]), path(1, 40_000, &[1_020_000, 1_080_000])];
        for (owd, expected) in delays(&queued, 0).into_iter().zip([65_000, 80_000]) {
            assert!(owd.abs_diff(expected) < 100, "{owd}");
        }
        // A path that sends nothing drains.
        assert!(delays(&queued, 30_000)[0].abs_diff(35_000) < 100);
        assert_eq!(delays(&queued, 3_000_000), [5_000, 20_000]);
    }

    #[test]
    fn a_queue_that_drained_in_a_pause_is_not_counted_on_after_it() {
        let mut path = up(PathId(0), at_ms(990));
        path.rtt.sample(at_us(1), ms(20), Sample::Data);
        let report = |path: &mut Path, delay: u32| path.delay.sample(delay / TICK as u32);
        report(&mut path, 10_000);
        (0..200).for_each(|_| report(&mut path, 810_000));
        path.on_departure(at_ms(1_000), 0, 0);
        assert!(delays([&path], 1_000_000)[0].abs_diff(810_000) < 1_000);
        // Half a second later the next one leaves, and a report of it shows that the queue is gone.
        path.on_departure(at_ms(1_500), 0, 0);
        report(&mut path, 10_000);
        let owd = delays([&path], 1_500_000)[0];
        assert!(owd.abs_diff(310_000 - 300_000 / 8) < 1_000, "{owd}");
    }

    #[test]
    fn a_packet_arrives_behind_what_is_in_flight() {
        let mut path = up(PathId(0), at_us(0));
        path.rtt.sample(at_us(1), ms(20), Sample::Data);
        path.committed_bytes = 2_400;
        assert_eq!(path.view(at_us(0), 1_000, ms(10), 0).owd, ms(10), "the rate is unknown");
        path.capacity = Some(300_000);
        // All bytes take this long at 300 kbps; the acknowledgement takes the last 10 ms of that.
        let bytes = 2_400 + 1_000 + u64::from(PACKET_OVERHEAD);
        assert_eq!(path.view(at_us(0), 1_000, ms(10), 0).owd, us(bytes * 8_000_000 / 300_000) - ms(10));
        assert_eq!(path.view(at_us(0), 1_000, ms(200), 0).owd, ms(200), "what was measured is longer");
    }

    #[test]
    fn a_full_window_opens_as_the_oldest_packet_is_acknowledged() {
        let mut path = up(PathId(0), at_us(0));
        path.rtt.sample(at_us(1), ms(20), Sample::Data);
        let opens_in = |path: &Path, now| path.view(now, 1_000, ms(10), 0).opens_in;
        path.flight.insert(0, InFlight::of(at_ms(5), 1_200, None));
        path.flight.insert(1, InFlight::of(at_ms(9), 1_200, None));
        let packet = 1_000 + u64::from(PACKET_OVERHEAD);
        path.window = path.in_flight() + packet;
        assert_eq!(opens_in(&path, at_ms(10)), ms(0), "there is room");
        path.window -= 1;
        assert_eq!(opens_in(&path, at_ms(10)), ms(15));
        assert_eq!(opens_in(&path, at_ms(26)), ms(0), "it is due");
    }

    #[test]
    fn delays_are_counted_from_the_path_that_was_quickest_at_its_quickest() {
        let path = |id, rtt, ticks: &[u32]| {
            let mut path = up(PathId(id), at_us(0));
            path.rtt.sample(at_us(1), us(rtt), Sample::Data);
            ticks.iter().for_each(|delay| (0..200).for_each(|_| path.delay.sample(delay / TICK as u32)));
            path
        };
        assert!(Level::of(std::iter::empty()).is_none());
        // The first path took 5 ms before its queue; the clock of the receiver is 1 s ahead.
        let mut paths = [path(0, 10_000, &[1_005_000, 1_505_000]), path(1, 60_000, &[1_030_000])];
        let of = |paths: &[Path], ticks: u32| {
            Level::of(paths.iter())?.of_ticks(ticks / TICK as u32).map(Span::micros)
        };
        assert_eq!(of(&paths, 1_035_000).map(|delay| delay / 100), Some(350));
        assert_eq!(of(&paths, 1_001_000).map(|delay| delay / 100), Some(10), "quicker than ever");
        assert_eq!(of(&paths, 900_000), Some(0), "no packet takes less than nothing");
        // The other one alone: 30 ms are half of its round trip.
        paths[0].life = Path::new(PathId(0), QuicPath::detached(0), at_us(0)).life;
        assert_eq!(of(&paths, 1_035_000), Some(35_000));
        paths[1].delay = Delay::default();
        assert_eq!(of(&paths, 1_035_000), None, "nothing was reported");
    }

    #[test]
    fn the_rtt_is_smoothed_as_rfc_9002_says() {
        let mut rtt = Rtt::default();
        rtt.seed(ms(40));
        assert_eq!((rtt.smoothed, rtt.deviation), (ms(40), ms(20)));
        rtt.sample(at_ms(1), ms(80), Sample::Data);
        assert_eq!((rtt.smoothed, rtt.deviation, rtt.min), (ms(80), ms(40), ms(80)));
        rtt.seed(us(1));
        rtt.sample(at_ms(2), ms(40), Sample::Data);
        // 7/8 · 80 + 1/8 · 40 = 75 ms; 3/4 · 40 + 1/4 · |80 − 40| = 40 ms.
        assert_eq!((rtt.smoothed, rtt.deviation, rtt.min), (ms(75), ms(40), ms(40)));
    }

    #[test]
    fn a_probe_after_a_pause_replaces_what_was_before() {
        let mut rtt = Rtt::default();
        rtt.sample(at_ms(1_000), ms(500), Sample::Data);
        rtt.sample(at_ms(2_000), ms(500), Sample::Data);
        rtt.sample(at_ms(4_500), ms(30), Sample::Probe);
        assert_eq!((rtt.smoothed, rtt.deviation, rtt.min), (ms(30), ms(15), ms(30)));
        assert_eq!(rtt.steady, ms(500));
    }

    #[test]
    fn a_shorter_probe_replaces_what_was_before_once_the_path_is_idle() {
        let after_pause = |pause, probe| {
            let mut rtt = Rtt::default();
            rtt.sample(at_ms(1_000), ms(800), Sample::Data);
            rtt.sample(at_ms(1_000) + pause, probe, Sample::Probe);
            rtt.smoothed
        };
        assert_eq!(after_pause(ms(81), ms(20)), ms(20), "the queue of an outage is gone");
        assert_eq!(after_pause(ms(79), ms(20)), us(702_500), "7/8 · 800 + 1/8 · 20");
        assert_eq!(after_pause(ms(1_000), ms(1_600)), ms(900), "7/8 · 800 + 1/8 · 1600");
    }
}
