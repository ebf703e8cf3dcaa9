//! One-way delays of a path, and which part of them is the path's own.
//!
//! A radio delays packets by its schedule, retransmissions and handovers, as much as a queue would and whatever is in flight.
//! The smallest delay says little about such a path. Its *own* delay is that of packets which met no queue of ours: the first
//! ones after a pause in which all before them arrived, and all at the end of a dip.

use std::collections::VecDeque;

use squall_sched::Micros;

use super::super::{
    Arrival,
    minimum::{Maximum, Minimum},
};

/// Microseconds over which extremes are taken, as BBR has it for the round trip: routes change more rarely.
pub(super) const MEMORY: Micros = 10_000_000;
/// Microseconds over which own delays are averaged.
const SLOT: Micros = 100_000;
/// Excess of own delays that needs no dip, in microseconds. A link that grants its rate in bursts delays single packets by
/// more: in a fade that is no reason to keep as much in flight.
const MOST_UNTESTED: i64 = 50_000;
/// Time in microseconds for which the result of a dip holds, unless a packet that met no queue of ours …
const TESTED: Micros = MEMORY;
/// … is late by this share of it again.
const SEEN_AGAIN: f64 = 0.8;
/// Packets of a burst that show the delay of the path: later ones show how fast it is.
const FIRST_PACKETS: u64 = 8;
/// Shortest pause between packets that is remembered, in microseconds, and how many are.
const PAUSE: Micros = 1_000;
const MAX_PAUSES: usize = 256;
/// Shortest time over which the smallest delay of a round is taken, in microseconds.
const SHORTEST_ROUND: Micros = 30_000;
/// Packets over which the mean of their lateness is taken.
const LATE_PACKETS: u64 = 64;
/// Weight of a new round trip in the mean.
const WEIGHT: f64 = 1.0 / 16.0;

/// Delays in microseconds, up to the offset of the receiver's clock.
#[derive(Debug, Default)]
pub(super) struct Delays {
    latest: i64,
    /// The packet of the latest report.
    packet: u64,
    /// When a packet left last.
    left: Micros,
    /// Pauses before packets that were not reported yet.
    pauses: VecDeque<(u64, Micros)>,
    /// The first packet after the latest pause, if all before it had arrived by then.
    first: Option<u64>,
    /// Extremes of [`MEMORY`], and the smallest of a round trip.
    smallest: Minimum,
    largest: Maximum,
    recent: Minimum,
    /// Mean round trip without the excess of the way there. With the smallest instead, a return path that varies closes the
    /// window.
    back: Option<f64>,
    /// Newest packet that is acknowledged, how many are, and mean time by which they were late that had been overtaken.
    reached: u64,
    acked: u64,
    late: f64,
    /// Paths of the session wait in one queue, which has overflowed: what is late is late for it.
    is_shared: bool,
    own: Own,
}

impl Delays {
    /// A packet leaves.
    pub(super) fn on_sent(&mut self, now: Micros, packet: u64) {
        let pause = now.saturating_sub(self.left);
        self.left = now;
        if pause < PAUSE {
            return;
        }
        if self.pauses.len() == MAX_PAUSES {
            self.pauses.pop_front();
        }
        self.pauses.push_back((packet, pause));
    }

    /// A packet is acknowledged at this `age`, where packets that none overtakes take a round trip of `rtt`, in microseconds.
    pub(super) fn on_ack(&mut self, packet: u64, age: Micros, rtt: f64) {
        let late = if packet < self.reached { (age as f64 - rtt).max(0.0) } else { 0.0 };
        self.acked += 1;
        self.late += (late - self.late) / self.acked.min(LATE_PACKETS) as f64;
        self.reached = self.reached.max(packet);
    }

    /// Mean time in microseconds by which packets are later than those that overtake them.
    pub(super) fn late(&self) -> f64 {
        self.late
    }

    /// The peer has reported an arrival; `smoothed_rtt`, and the time that a packet `takes` at the present rate, in microseconds.
    pub(super) fn add(&mut self, now: Micros, arrival: Arrival, smoothed_rtt: f64, takes: f64) {
        let delay = arrival.delay();
        self.find_first(arrival.packet, takes);
        (self.latest, self.packet) = (delay, arrival.packet);
        self.smallest.add(now, delay, MEMORY);
        self.largest.add(now, delay, MEMORY);
        self.recent.add(now, delay, (smoothed_rtt as Micros).max(SHORTEST_ROUND));
        if let Some(first) = self.first.filter(|first| arrival.packet < first + FIRST_PACKETS) {
            let own = self.queue() - takes * arrival.packet.saturating_sub(first) as f64;
            self.own.add(now, self.smallest() + own.max(0.0) as i64, self.smallest());
        }
        self.own.forget_old(now);
        // Acknowledgements come over the quickest path: when that falls silent, the round trips of all others grow.
        let empty = (now.saturating_sub(arrival.sent) as i64 - (delay - self.smallest())).max(0) as f64;
        let back = self.back.get_or_insert(empty);
        *back += WEIGHT * (empty - *back);
    }

    /// Finds the first packet of the burst that this one is of, and whether all before it had arrived: those since the last
    /// report take a packet's time each, and pauses take from what they wait.
    fn find_first(&mut self, packet: u64, takes: f64) {
        let (mut before, mut wait) = (self.packet, self.queue());
        while let Some(&(first, pause)) = self.pauses.front()
            && first <= packet
        {
            self.pauses.pop_front();
            wait += takes * first.saturating_sub(before + 1) as f64 - pause as f64;
            self.first = (wait <= 0.0).then_some(first);
            (before, wait) = (first.saturating_sub(1), wait.max(0.0));
        }
    }

    /// A dip has ended: no queue of ours is left.
    pub(super) fn set_own(&mut self, now: Micros) {
        self.own.tested = Some((now, self.latest));
    }

    /// Whether paths of the session share a queue that has overflowed.
    pub(super) fn set_shared(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
    }

    /// What passed for own delay was a queue of ours.
    pub(super) fn forget_own(&mut self) {
        self.own = Own::default();
    }

    fn smallest(&self) -> i64 {
        self.smallest.get().unwrap_or(self.latest)
    }

    /// Excess of the latest delay over the smallest.
    pub(super) fn queue(&self) -> f64 {
        (self.latest - self.smallest()) as f64
    }

    /// Excess of the path's own delay over the smallest.
    pub(super) fn jitter(&self) -> f64 {
        if self.is_shared {
            return 0.0;
        }
        self.own.get(self.smallest()).map_or(0.0, |own| (own - self.smallest()).max(0) as f64)
    }

    /// Smallest excess of the last round trip over the path's own delay; negative without a queue.
    pub(super) fn standing(&self) -> f64 {
        (self.recent.get().unwrap_or(0) - self.smallest()) as f64 - self.jitter()
    }

    /// Round trip without a queue. Reports are of packets that overtook others.
    pub(super) fn round_trip(&self) -> f64 {
        self.back.unwrap_or(0.0) + self.jitter() + self.late
    }

    /// Whether the latest packet met a queue: longer than 3 ms, which jitter is, and near to the deepest of late, where
    /// packets are dropped.
    pub(super) fn met_queue(&self) -> bool {
        let deepest = (self.largest.get().unwrap_or(self.latest) - self.smallest()) as f64;
        self.queue() > (0.5 * deepest).max(3e3)
    }
}

/// Delays of packets that met no queue of ours.
#[derive(Debug, Default)]
struct Own {
    /// Number of the slot, sum of the delays in it, and their number.
    slots: VecDeque<(u64, i64, i64)>,
    /// Median of the means of the slots.
    median: Option<i64>,
    /// End of the last dip, and the delay then.
    tested: Option<(Micros, i64)>,
}

impl Own {
    fn add(&mut self, now: Micros, delay: i64, smallest: i64) {
        let number = now / SLOT;
        match self.slots.back_mut() {
            Some((last, sum, count)) if *last == number => (*sum, *count) = (*sum + delay, *count + 1),
            _ => self.slots.push_back((number, delay, 1)),
        }
        if let Some((at, tested)) = &mut self.tested
            && (delay - smallest) as f64 > SEEN_AGAIN * (*tested - smallest) as f64
        {
            *at = now;
        }
        self.find_median();
    }

    /// Forgets what is too old.
    fn forget_old(&mut self, now: Micros) {
        let is_old = |slot: Option<&(u64, i64, i64)>| {
            slot.is_some_and(|(number, ..)| (number + 1) * SLOT + MEMORY < now)
        };
        if is_old(self.slots.front()) {
            while is_old(self.slots.front()) {
                self.slots.pop_front();
            }
            self.find_median();
        }
        self.tested = self.tested.filter(|(at, _)| now < at + TESTED);
    }

    fn find_median(&mut self) {
        let mut means: Vec<i64> = self.slots.iter().map(|(_, sum, count)| sum / count).collect();
        let middle = means.len() / 2;
        self.median = (!means.is_empty()).then(|| *means.select_nth_unstable(middle).1);
    }

    fn get(&self, smallest: i64) -> Option<i64> {
        let median = self.median.map(|median| median.min(smallest + MOST_UNTESTED));
        median.max(self.tested.map(|(_, delay)| delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that leave every `gap` microseconds and arrive after these delays.
    fn after(gap: Micros, delays: impl IntoIterator<Item = i64>) -> Delays {
        let mut all = Delays::default();
        for (packet, delay) in (0..).zip(delays) {
            let sent = packet * gap;
            all.on_sent(sent, packet);
            let arrival = Arrival { packet, sent, at: sent as i64 + delay };
            all.add(sent + delay as Micros + 20_000, arrival, 60e3, 500.0);
        }
        all
    }

    #[test]
    fn single_packets_show_the_delay_of_the_path() {
        let delays = after(50_000, (0..100).map(|i| 20_000 + 10_000 * (i % 5)));
        assert_eq!(
            (delays.jitter(), delays.queue()),
            (20_000.0, 40_000.0),
            "10 to 50 ms beyond the smallest"
        );
        assert!(
            (delays.round_trip() - 60_000.0).abs() < 1.0,
            "20 there, 20 of jitter, 20 back: {}",
            delays.round_trip()
        );
    }

    #[test]
    fn packets_behind_others_show_nothing() {
        let delays = after(1_000, (0..100).map(|i| 20_000 + 1_000 * i));
        assert!(delays.jitter() < 3_000.0, "a queue grows: {}", delays.jitter());
    }

    #[test]
    fn what_was_not_tested_is_bounded() {
        let mut delays = after(500_000, (0..20).map(|i| if i == 0 { 20_000 } else { 300_000 }));
        assert_eq!(delays.jitter(), MOST_UNTESTED as f64);
        delays.set_own(10_000_000);
        assert_eq!(delays.jitter(), 280_000.0);
        delays.forget_own();
        assert_eq!(delays.jitter(), 0.0);
    }

    #[test]
    fn a_spell_of_delay_is_no_queue_of_the_next() {
        // Half of a second 20 ms, half of it 60, three packets a slot.
        let delays = after(33_333, (0..300).map(|i| if i / 15 % 2 == 0 { 20_000 } else { 60_000 }));
        assert!(delays.jitter() <= 40_000.0 && delays.standing() <= 40_000.0, "{}", delays.jitter());
    }
}
