//! Times and contents of a receiver's reports.
//!
//! noq puts pending acknowledgements into the next packet of the path that is open. The feedback
//! datagram, sent through the gate of the path of our choice, therefore carries them there: it
//! steers the acknowledgements, and it must leave before any other packet. It is kept to a small
//! share of the bytes received, and to a smaller one while the way back has a queue ([`Strain`],
//! `path/way_back.rs`).

use squall_sched::{Span, Time};

use crate::wire::{Feedback, Sample, Stamp};

/// Longest time that an arrival stays unreported. noq's own acknowledgement timer is set above it.
pub(crate) const MAX_DELAY: Span = Span::from_millis(10);
/// Longest time that a packet waits for others, to be reported with them. With 5 ms the start takes
/// longer: with 30 Mbps over two links of 20 Mbps the slowest frame takes 230 ms instead of 180.
const QUICK_DELAY: Span = Span::from_millis(2);
/// Part of the shortest round trip that it waits at most, 1/16, where all wait: beside the round
/// trip it must not count.
const WAIT_SHARE: u64 = 16;
/// Number of packets that a report is due with at once, unless the peer takes joint reports.
const BATCH: u32 = 2;
/// Pause between reports when packets arrive out of order: overtaken packets must be reported
/// before the sender declares them lost (RFC 9000 §13.2.1 requires an immediate acknowledgement).
const URGENT_DELAY: Span = Span::from_millis(1);
// Packets overtaken by more than a round trip are reported at once, whatever the cost: when a
// packet that acknowledged a later one is itself acknowledged, noq-proto 1.4.0 no longer
// acknowledges anything below (`PendingAcks::subtract_below`), and such acknowledgements arrive all
// the time. Packets not reported by then are retransmitted in vain.

/// Share of the bytes received that whole packets with reports may use; the report itself is about
/// a quarter of its packet.
const SHARE: f64 = 0.03;
/// Largest number of bytes saved up for reports.
const MAX_SAVINGS: f64 = 2_000.0;
/// Cost of a report in bytes, before the first one was measured.
const FIRST_COST: f64 = 70.0;

/// Largest factor of a report's cost: a quarter of the reports is left, and each arrival is
/// reported within [`MAX_DELAY`] in any case.
const MOST_STRAIN: f64 = 4.0;
/// Time in microseconds within which strain fades to a third. Reports that follow the momentary
/// queue make it oscillate: at 15 Mbps with uplinks of 300 kbps 67 % of the frames are in time
/// without a memory, 99.4 % with this one. With a longer one reports would be rare where only a
/// radio had held its packets.
const STRAIN_MEMORY: f64 = 2e6;

/// Factor of a report's cost in the allowance for reports: 1 without a queue on the way back.
/// Reports that fill a thin uplink all arrive late (RFC 3449 §5.2).
#[derive(Clone, Copy, Debug)]
struct Strain {
    now: f64,
    at: Time,
}

impl Strain {
    /// Updates the strain for a way back that takes `slowdown` times as long as usual, at least 1.
    fn update(&mut self, at: Time, slowdown: f64) {
        let fade = (-((at - self.at).micros() as f64) / STRAIN_MEMORY).exp();
        // Squared: a queue as long as the way itself is one that grows.
        let shown = (slowdown * slowdown).min(MOST_STRAIN);
        self.now = shown.max(1.0 + (self.now - 1.0) * fade);
        self.at = at;
    }
}

/// Collects the pending reports.
#[derive(Debug)]
pub(crate) struct Reporter {
    samples: Vec<Sample>,
    pending: u32,
    /// The peer takes reports of several packets together.
    is_joint: bool,
    /// Shortest round trip of all paths.
    round_trip: Span,
    since: Option<Time>,
    /// Time of the last report.
    reported: Time,
    /// A packet arrived that was overtaken on its path.
    overtaken: bool,
    /// It was overtaken by more than a round trip.
    stale: bool,
    savings: f64,
    cost: f64,
    strain: Strain,
    sequence: u64,
}

impl Default for Reporter {
    fn default() -> Self {
        Self {
            samples: Vec::new(),
            pending: 0,
            is_joint: false,
            round_trip: Span::ZERO,
            since: None,
            reported: Time::EPOCH,
            overtaken: false,
            stale: false,
            savings: MAX_SAVINGS,
            cost: FIRST_COST,
            strain: Strain { now: 1.0, at: Time::EPOCH },
            sequence: 0,
        }
    }
}

impl Reporter {
    /// Has packets reported together from now on.
    pub(crate) fn join(&mut self) {
        self.is_joint = true;
    }

    /// Records the arrival of a DATA item that departed at `sent`, on the path of that number,
    /// overtaken by this much ([`Arrivals`](crate::path::Arrivals)). `round_trip` is the shortest
    /// of all paths.
    pub(crate) fn on_data(
        &mut self,
        now: Time,
        path: u32,
        sent: Stamp,
        bytes: usize,
        overtaken_by: Span,
        round_trip: Span,
    ) {
        let delay = Stamp::at(now).since(sent);
        let overtaken = !overtaken_by.is_zero();
        self.overtaken |= overtaken;
        self.stale |= overtaken_by > round_trip;
        self.pending += 1;
        self.round_trip = round_trip;
        self.since.get_or_insert(now);
        self.savings = (self.savings + bytes as f64 * SHARE).min(MAX_SAVINGS);
        match self.samples.iter_mut().find(|s| s.path == path) {
            Some(sample) => {
                if !overtaken {
                    (sample.delay, sample.departure) = (delay, Some(sent));
                }
                sample.received += 1;
            }
            None => self.samples.push(Sample { path, delay, departure: Some(sent), received: 1 }),
        }
    }

    /// Returns when the next report is due.
    pub(crate) fn due_at(&self) -> Option<Time> {
        let since = self.since?;
        Some(if self.stale {
            since
        } else if self.overtaken && self.savings > -MAX_SAVINGS {
            self.reported + URGENT_DELAY
        } else if self.savings < self.cost {
            since + MAX_DELAY
        } else if self.is_joint {
            since + QUICK_DELAY.min(self.round_trip / WAIT_SHARE)
        } else if self.pending >= BATCH {
            since
        } else {
            since + QUICK_DELAY
        })
    }

    /// Returns the report; the caller fills in credit and counters.
    pub(crate) fn report(&mut self, now: Time) -> Feedback {
        self.reported = now;
        (self.overtaken, self.stale) = (false, false);
        let samples = std::mem::take(&mut self.samples);
        self.pending = 0;
        self.since = None;
        self.sequence += 1;
        Feedback { sequence: self.sequence, samples, ..Feedback::default() }
    }

    /// Records that the last report left in a packet of this size, on a way that takes `slowdown`
    /// times as long as usual.
    pub(crate) fn on_sent(&mut self, packet: usize, slowdown: f64) {
        self.strain.update(self.reported, slowdown);
        self.cost = packet as f64 * self.strain.now;
        self.savings = (self.savings - self.cost).max(-MAX_SAVINGS);
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::{at_ms, at_us, us};

    use super::*;

    const RTT: Span = Span::from_millis(20);

    #[test]
    fn packets_are_reported_together_if_the_peer_takes_that() {
        let mut reporter = Reporter::default();
        reporter.join();
        for now in [1_000, 1_100, 1_200] {
            reporter.on_data(at_us(now), 0, Stamp::at(at_us(900)), 1200, us(0), RTT);
            assert_eq!(reporter.due_at(), Some(at_us(2_250)), "a sixteenth of a round trip");
        }
        reporter.report(at_us(2_250));
        reporter.on_data(at_ms(9), 0, Stamp::at(at_ms(8)), 1200, us(0), RTT * 10);
        assert_eq!(reporter.due_at(), Some(at_ms(11)));
    }

    #[test]
    fn a_pair_of_packets_is_reported_at_once_and_a_single_one_soon() {
        let mut reporter = Reporter::default();
        assert_eq!(reporter.due_at(), None);
        reporter.on_data(at_ms(1), 0, Stamp::at(at_us(972)), 1200, us(0), RTT);
        assert_eq!(reporter.due_at(), Some(at_ms(3)));
        reporter.on_data(at_us(1_500), 1, Stamp::at(at_us(1_464)), 1200, us(0), RTT);
        assert_eq!(reporter.due_at(), Some(at_ms(1)));
        let report = reporter.report(at_us(1_500));
        let sample =
            |path, delay, at| Sample { path, delay, departure: Some(Stamp::at(at_us(at))), received: 1 };
        assert_eq!(report.samples, [sample(0, 7, 972), sample(1, 9, 1_464)]);
        assert_eq!((report.sequence, reporter.due_at()), (1, None));
    }

    #[test]
    fn what_was_overtaken_does_not_wait() {
        let mut reporter = Reporter { savings: 0.0, reported: at_ms(5), ..Reporter::default() };
        reporter.on_data(at_us(5_200), 0, Stamp::at(at_ms(5)), 100, us(100), RTT);
        assert_eq!(reporter.due_at(), Some(at_ms(6)));
    }

    #[test]
    fn what_was_overtaken_by_a_round_trip_is_reported_at_once() {
        let mut reporter = Reporter { savings: -MAX_SAVINGS, reported: at_ms(5), ..Reporter::default() };
        reporter.on_data(at_us(5_200), 0, Stamp::at(at_ms(5)), 100, RTT, RTT);
        assert_eq!(reporter.due_at(), Some(at_ms(6)));
        reporter.on_data(at_us(5_300), 0, Stamp::at(at_ms(5)), 100, RTT + us(1), RTT);
        assert_eq!(reporter.due_at(), Some(at_us(5_200)));
        reporter.report(at_us(5_300));
        assert_eq!(reporter.due_at(), None);
    }

    #[test]
    fn the_newest_packet_is_reported_where_packets_overtake() {
        let mut reporter = Reporter::default();
        for (now, sent, overtaken_by) in [(5_000, 4_000, 0), (5_400, 3_600, 400)] {
            reporter.on_data(at_us(now), 0, Stamp::at(at_us(sent)), 100, us(overtaken_by), RTT);
        }
        let newest = Sample { path: 0, delay: 250, departure: Some(Stamp::at(at_ms(4))), received: 2 };
        assert_eq!(reporter.report(at_us(5_400)).samples, [newest]);
    }

    /// Returns the share of the bytes received that reports use in eight seconds, and checks that
    /// none is late.
    fn share(slowdown: impl Fn(Time) -> f64) -> f64 {
        let mut reporter = Reporter::default();
        let (mut received, mut spent, mut latest) = (0, 0, at_us(0));
        for i in 0..20_000u64 {
            let now = at_us(i * 400);
            reporter.on_data(now, 0, Stamp::at(now), 1100, us(i % 9 / 8), RTT);
            received += 1100;
            if reporter.due_at().is_some_and(|due| due <= now) {
                reporter.report(now);
                reporter.on_sent(80, slowdown(now));
                spent += 80;
                latest = now;
            }
            assert!(now - latest <= MAX_DELAY + us(400), "at most {MAX_DELAY} late");
        }
        f64::from(spent) / f64::from(received)
    }

    #[test]
    fn reports_keep_to_their_share() {
        let share = share(|_| 1.0);
        assert!((0.02..0.032).contains(&share), "{share}");
    }

    #[test]
    fn reports_leave_a_queue_on_the_way_back_room_to_drain() {
        let queued = share(|_| 3.0);
        assert!((0.005..0.01).contains(&queued), "a quarter of them: {queued}");
        let once = share(|now| if now < at_ms(1_000) { 3.0 } else { 1.0 });
        // ∫ dt / (1 + 3·e^(−t/2)) from 0 to 7 is 4.4 s, and a quarter of the first second: 58 %.
        assert!((0.016..0.019).contains(&once), "the queue is gone: {once}");
    }
}
