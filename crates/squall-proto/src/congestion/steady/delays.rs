//! One-way delays of a path: the queue, the round trip without it, and the lateness of packets that
//! were overtaken.
//!
//! One-way delays are whole microseconds, up to the offset of the receiver's clock.

use squall_units::{Span, Time};

use super::{
    bursts::Bursts,
    own_delay::{MEMORY, OwnDelay},
    units::Delay,
};
use crate::congestion::{
    Arrival,
    minimum::{Maximum, Minimum},
};

/// Shortest time over which the smallest delay of a round is taken.
const SHORTEST_ROUND: Span = Span::from_millis(30);
/// Number of packets over which the mean of their lateness is taken.
const LATE_PACKETS: u64 = 64;
/// Weight of a new round trip in the mean.
const WEIGHT: f64 = 1.0 / 16.0;
/// Ratio of the excess of the mean delay over the smallest to the mean difference of two delays:
/// 1.5 for uniform jitter, 3 for normal jitter and thousands of packets.
const VARIATIONS: f64 = 2.0;
/// Jitter: smallest excess that is a queue.
const JITTER: Delay = Delay::new(3e3);
/// Share of the recent largest excess above which a packet met a queue: near the largest, packets
/// are dropped.
const DEEP: f64 = 0.5;

/// Delays of one path.
#[derive(Debug, Default)]
pub(super) struct Delays {
    /// One-way delay of the latest report.
    latest: i64,
    /// Smallest delay of [`MEMORY`].
    smallest: Minimum,
    /// Largest delay of [`MEMORY`].
    largest: Maximum,
    /// Smallest delay of a round trip.
    recent: Minimum,
    /// Mean round trip without the excess of the forward way. With the smallest instead, a varying
    /// way back closes the window.
    back: Option<Delay>,
    /// Mean difference between the delays of consecutive reports.
    variation: Delay,
    lateness: Lateness,
    bursts: Bursts,
    own: OwnDelay,
    /// Paths of the session wait in one queue, which has overflowed: excess delays of all belong to
    /// it.
    is_shared: bool,
}

/// Mean time by which packets are later than those that overtake them.
#[derive(Debug, Default)]
struct Lateness {
    /// Newest acknowledged packet.
    newest: u64,
    /// Number of acknowledged packets.
    acked: u64,
    mean: Delay,
}

impl Lateness {
    /// Records the acknowledgement of a packet at this age, where packets that none overtakes take
    /// a round trip.
    fn on_ack(&mut self, packet: u64, age: Delay, round_trip: Delay) {
        let late = if packet < self.newest { (age - round_trip).max(Delay::ZERO) } else { Delay::ZERO };
        self.acked += 1;
        self.mean = self.mean + (late - self.mean) / self.acked.min(LATE_PACKETS) as f64;
        self.newest = self.newest.max(packet);
    }
}

impl Delays {
    /// Records the departure of a packet.
    pub(super) fn on_sent(&mut self, now: Time, packet: u64) {
        self.bursts.on_sent(now, packet);
    }

    /// Records the acknowledgement of a packet at this age.
    pub(super) fn on_ack(&mut self, packet: u64, age: Span, smoothed_rtt: Delay) {
        self.lateness.on_ack(packet, age.into(), smoothed_rtt);
    }

    /// Records an arrival that the peer reported; `takes` is the time of a packet at the present
    /// rate.
    pub(super) fn on_arrival(&mut self, now: Time, arrival: Arrival, smoothed_rtt: Delay, takes: Delay) {
        let delay = arrival.delay();
        let ahead = self.bursts.on_arrival(arrival.packet, self.queue(), takes);
        if self.back.is_some() {
            self.variation.approach(Delay::new((delay - self.latest).abs() as f64), WEIGHT);
        }
        self.latest = delay;
        self.smallest.add(now, delay, MEMORY);
        self.largest.add(now, delay, MEMORY);
        self.recent.add(now, delay, smoothed_rtt.span().max(SHORTEST_ROUND));
        if let Some(ahead) = ahead {
            let own = self.queue() - takes * ahead as f64;
            self.own.add(now, self.smallest() + own.span().micros() as i64, self.smallest());
        }
        self.own.forget_old(now);
        // Acknowledgements use the quickest path: when that becomes silent, the round trips of all
        // others grow.
        let empty = (Delay::from(now - arrival.sent) - self.queue()).max(Delay::ZERO);
        self.back.get_or_insert(empty).approach(empty, WEIGHT);
    }

    /// Takes the latest delay as the path's own: a dip has ended, and no queue of ours is left.
    pub(super) fn set_own(&mut self, now: Time) {
        self.own.set(now, self.latest);
    }

    /// Forgets the path's own delay, which was a queue of ours.
    pub(super) fn forget_own(&mut self) {
        self.own = OwnDelay::default();
    }

    /// Sets whether paths of the session share a queue that has overflowed.
    pub(super) fn set_shared(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
    }

    fn smallest(&self) -> i64 {
        self.smallest.get().unwrap_or(self.latest)
    }

    /// Returns the excess of a delay over the smallest.
    fn excess(&self, delay: i64) -> Delay {
        Delay::new((delay - self.smallest()) as f64)
    }

    /// Returns the excess of the latest delay over the smallest.
    pub(super) fn queue(&self) -> Delay {
        self.excess(self.latest)
    }

    /// Returns `J`, the excess of the path's own delay over the smallest.
    pub(super) fn own(&self) -> Delay {
        let own = self.own.get(self.smallest()).filter(|_| !self.is_shared);
        own.map_or(Delay::ZERO, |own| self.excess(own).max(Delay::ZERO)).max(self.reordered())
    }

    /// Returns the excess of the mean delay over the smallest that jitter explains on a path that
    /// reorders, up to twice the mean lateness; zero on others, where packets wait for each other.
    ///
    /// A transfer has no pauses after which a packet would show the path's own delay. But
    /// consecutive reports differ by jitter alone, as a queue changes by no more than the time
    /// between them.
    fn reordered(&self) -> Delay {
        (self.variation * VARIATIONS).min(self.lateness.mean * 2.0)
    }

    /// Returns the jitter, below which gaps between packets are no measure of the rate.
    pub(super) fn jitter(&self) -> Delay {
        self.own().max(self.lateness.mean * 2.0)
    }

    /// Returns the smallest excess of the last round trip over the path's own delay; negative
    /// without a queue.
    pub(super) fn standing(&self) -> Delay {
        self.excess(self.recent.get().unwrap_or(0)) - self.own()
    }

    /// Returns `R + J`, the round trip without a queue. Reports are of packets that overtook
    /// others.
    pub(super) fn round_trip(&self) -> Delay {
        self.back.unwrap_or_default() + self.own() + self.lateness.mean
    }

    /// Returns `true` if the latest packet met a queue.
    pub(super) fn met_queue(&self) -> bool {
        let deepest = self.excess(self.largest.get().unwrap_or(self.latest));
        self.queue() > (deepest * DEEP).max(JITTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends packets every `gap` microseconds that arrive after these delays.
    fn after(gap: u64, delays: impl IntoIterator<Item = i64>) -> Delays {
        let mut all = Delays::default();
        for (packet, delay) in (0..).zip(delays) {
            let sent = packet * gap;
            all.on_sent(Time::from_micros(sent), packet);
            let arrival = Arrival { packet, sent: Time::from_micros(sent), at: sent as i64 + delay };
            let now = Time::from_micros(sent + delay as u64 + 20_000);
            all.on_arrival(now, arrival, Delay::new(60e3), Delay::new(500.0));
        }
        all
    }

    #[test]
    fn jitter_that_reorders_is_no_queue() {
        // Delays of 20 to 40 ms; every other packet is acknowledged 20 ms late.
        let mut delays = after(500, (0..200).map(|i| 20_000 + 4_000 * (i % 6)));
        assert_eq!(micros(delays.own()), 0.0, "in order it may be one");
        for packet in 0..200 {
            let age = Span::from_millis(if packet % 2 == 0 { 60 } else { 80 });
            delays.on_ack(packet ^ 1, age, Delay::new(60e3));
        }
        let own = micros(delays.own());
        assert!((8e3..20e3).contains(&own), "{own}: the mean is 10 ms beyond the smallest");
    }

    fn micros(delay: Delay) -> f64 {
        delay.micros()
    }

    #[test]
    fn single_packets_show_the_delay_of_the_path() {
        let delays = after(50_000, (0..100).map(|i| 20_000 + 10_000 * (i % 5)));
        assert_eq!(
            (micros(delays.own()), micros(delays.queue())),
            (20_000.0, 40_000.0),
            "10 to 50 ms beyond the smallest"
        );
        assert!(
            (micros(delays.round_trip()) - 60_000.0).abs() < 1.0,
            "20 there, 20 of jitter, 20 back: {}",
            micros(delays.round_trip())
        );
    }

    #[test]
    fn packets_behind_others_show_nothing() {
        let delays = after(1_000, (0..100).map(|i| 20_000 + 1_000 * i));
        assert!(micros(delays.own()) < 3_000.0, "a queue grows: {}", micros(delays.own()));
    }

    #[test]
    fn what_was_not_tested_is_bounded() {
        let mut delays = after(500_000, (0..20).map(|i| if i == 0 { 20_000 } else { 300_000 }));
        assert_eq!(micros(delays.own()), 50e3);
        delays.set_own(Time::from_micros(10_000_000));
        assert_eq!(micros(delays.own()), 280_000.0);
        delays.forget_own();
        assert_eq!(micros(delays.own()), 0.0);
    }

    #[test]
    fn a_spell_of_delay_is_no_queue_of_the_next() {
        // Half of a second 20 ms, half of it 60, three packets a slot.
        let delays = after(33_333, (0..300).map(|i| if i / 15 % 2 == 0 { 20_000 } else { 60_000 }));
        assert!(
            micros(delays.own()) <= 40_000.0 && micros(delays.standing()) <= 40_000.0,
            "{}",
            micros(delays.own())
        );
    }
}
