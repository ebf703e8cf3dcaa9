//! Holds: a radio that delivers nothing for a while, and then all of it.
//!
//! Packets that leave during a hold arrive with the others as soon as it is over, so a full window
//! delays data in vain. A link whose rate has failed looks the same until it delivers again; there,
//! earlier packets delay later ones. The end distinguishes them: the packets in flight arrive more
//! quickly than at the rate of the path, or they do not.

use std::collections::VecDeque;

use squall_units::{Span, Time};

use super::units::{ByteRate, Delay};
use crate::congestion::Arrival;

/// Time for which a report has been due after which a path may hold packets: a receiver waits up to
/// 10 ms with it.
const SILENCE: Span = Span::from_millis(30);
/// Time between departures that are remembered.
const SPACING: Span = Span::from_millis(5);
/// Largest number of departures that are remembered.
const MAX_DEPARTURES: usize = 512;
/// Allowed length of holds before one was observed. With 300 ms the links of recorded networks,
/// each alone, have 0.3 to 0.6 % fewer frames in time, and recorded round trips none more.
const FIRST: Delay = Delay::new(150e3);
/// Bounds of the allowed length.
const LENGTHS: (Delay, Delay) = (Delay::new(50e3), Delay::new(1e6));
/// Lengths of a hold for which as much may be in flight after it: radios hold again, and deliver
/// with pauses.
const AFTER: f64 = 2.0;

/// The holds of a path.
#[derive(Debug)]
pub(super) struct Holds {
    /// Time of the latest call.
    now: Time,
    /// Time when a packet was last reported, or next to nothing was in flight.
    reported: Time,
    /// Some of the packets that were not reported yet, and their departures.
    departures: VecDeque<(u64, Time)>,
    stage: Stage,
    /// Length of the hold.
    length: Delay,
    /// Rate of the path before the hold.
    rate: ByteRate,
    /// Allowed length of a hold.
    most: Delay,
    release: Option<Release>,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Delivers,
    Holds,
    /// As much as in the hold may be in flight until then.
    Released(Time),
}

/// Bytes in flight when a hold ended: packets below `end`, from that time on the receiver's clock
/// on.
#[derive(Debug)]
struct Release {
    end: u64,
    bytes: f64,
    from: i64,
}

impl Default for Holds {
    fn default() -> Self {
        Self {
            now: Time::EPOCH,
            reported: Time::EPOCH,
            departures: VecDeque::new(),
            stage: Stage::Delivers,
            length: Delay::ZERO,
            rate: ByteRate::default(),
            most: FIRST,
            release: None,
        }
    }
}

impl Holds {
    /// Records the departure of a packet; `is_first` if next to nothing else is in flight.
    pub(super) fn on_sent(&mut self, now: Time, packet: u64, is_first: bool) {
        self.now = now;
        if is_first {
            self.reported = now;
            self.departures.clear();
        }
        let is_next = self.departures.back().is_none_or(|(_, last)| now >= *last + SPACING);
        if is_next && self.departures.len() < MAX_DEPARTURES {
            self.departures.push_back((packet, now));
        }
    }

    /// Records that data waits for the window, and no other path could carry it, on a path of this
    /// `capacity` and smoothed round trip.
    pub(super) fn on_waiting(&mut self, now: Time, capacity: ByteRate, smoothed_rtt: Delay) {
        self.now = now;
        let due = self.departures.front().map_or(now, |(_, left)| *left + smoothed_rtt.span());
        let silence = now - self.reported.max(due);
        if silence <= SILENCE {
            return;
        }
        if self.length() == Delay::ZERO {
            (self.length, self.rate) = (Delay::ZERO, capacity);
        }
        self.length = self.length.max(Delay::from(silence - SILENCE).min(self.most));
        self.stage = Stage::Holds;
    }

    /// Records a report of a packet while `bytes` are in flight, of packets below `end`.
    pub(super) fn on_arrival(&mut self, now: Time, arrival: Arrival, end: u64, bytes: u64) {
        (self.now, self.reported) = (now, now);
        while self.departures.front().is_some_and(|(packet, _)| *packet <= arrival.packet) {
            self.departures.pop_front();
        }
        if let Some(release) = self.release.take_if(|release| arrival.packet + 1 >= release.end) {
            let took = Delay::new((arrival.at - release.from) as f64);
            let was_hold = self.rate * took < release.bytes;
            self.most = (self.most * if was_hold { 2.0 } else { 0.5 }).max(LENGTHS.0).min(LENGTHS.1);
        }
        if matches!(self.stage, Stage::Holds) {
            self.stage = Stage::Released(now + (self.length * AFTER).span());
            self.release = Some(Release { end, bytes: bytes as f64, from: arrival.at });
        }
    }

    /// Returns the time for which the path has held packets, while that matters; else zero.
    pub(super) fn length(&self) -> Delay {
        match self.stage {
            Stage::Delivers => Delay::ZERO,
            Stage::Released(until) if self.now >= until => Delay::ZERO,
            Stage::Holds | Stage::Released(_) => self.length,
        }
    }

    /// Returns the present rate, but at least that before a hold: arrivals during one are no
    /// measure.
    pub(super) fn at_least(&self, rate: ByteRate) -> ByteRate {
        if self.length() > Delay::ZERO { rate.max(self.rate) } else { rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Delay = Delay::new(50e3);
    const RATE: ByteRate = ByteRate::new(1e6);

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    fn arrival(packet: u64, at: i64) -> Arrival {
        Arrival { packet, sent: Time::EPOCH, at }
    }

    /// Puts 100 kB in flight from 1.1 to 1.4 s on a path of 1 MB/s. Their arrival takes `took`
    /// microseconds.
    fn held(holds: &mut Holds, took: i64) {
        holds.on_sent(at(1_000_000), 10, true);
        for now in (1_050_000..=1_400_000).step_by(10_000) {
            holds.on_waiting(at(now), RATE, RTT);
        }
        holds.on_arrival(at(1_400_000), arrival(10, 0), 100, 100_000);
        holds.on_arrival(at(1_500_000), arrival(99, took), 200, 100_000);
    }

    fn micros(holds: &Holds) -> f64 {
        holds.length().micros()
    }

    #[test]
    fn a_hold_is_allowed_for_as_long_as_it_lasts() {
        let mut holds = Holds::default();
        holds.on_sent(at(0), 1, true);
        holds.on_waiting(at(80_000), RATE, RTT);
        assert_eq!(holds.length(), Delay::ZERO, "a round trip, and a report that waits");
        holds.on_waiting(at(180_000), RATE, RTT);
        assert_eq!((micros(&holds), holds.at_least(ByteRate::ONE)), (100e3, RATE));
        holds.on_arrival(at(190_000), arrival(1, 0), 2, 0);
        assert_eq!(micros(&holds), 100e3, "another one may follow");
        holds.on_sent(at(389_999), 2, false);
        assert_eq!(micros(&holds), 100e3);
        holds.on_sent(at(390_000), 3, false);
        assert_eq!((micros(&holds), holds.at_least(ByteRate::ONE)), (0.0, ByteRate::ONE));
    }

    #[test]
    fn what_arrives_at_once_was_held() {
        let mut holds = Holds::default();
        held(&mut holds, 99_000);
        assert_eq!(holds.length(), FIRST);
        held(&mut holds, 99_000);
        assert_eq!(holds.length(), FIRST * 2.0);
    }

    #[test]
    fn what_arrives_at_the_rate_of_the_path_was_queued() {
        let mut holds = Holds::default();
        for expected in [150e3, 75e3, 50e3, 50e3] {
            held(&mut holds, 100_000);
            assert_eq!(holds.length.micros(), expected);
            holds.stage = Stage::Delivers;
        }
    }

    #[test]
    fn a_gap_between_bursts_is_no_hold() {
        let mut holds = Holds::default();
        holds.on_sent(at(0), 1, true);
        holds.on_sent(at(100_000), 2, false);
        holds.on_arrival(at(300_000), arrival(1, 0), 3, 1_000);
        holds.on_waiting(at(390_000), RATE, Delay::new(300e3));
        assert_eq!(holds.length(), Delay::ZERO, "the second one is not due yet");
    }

    #[test]
    fn few_departures_are_remembered() {
        let mut holds = Holds::default();
        (0..2 * MAX_DEPARTURES as u64)
            .for_each(|packet| holds.on_sent(at(packet * SPACING.micros()), packet, false));
        assert_eq!(holds.departures.len(), MAX_DEPARTURES);
    }
}
