//! Rate of a saturating end, which keeps the queue of the bottleneck from draining.

use std::collections::VecDeque;

use super::wire::Report;

/// Queueing delay that is maintained, in microseconds.
const TARGET: f64 = 300_000.0;

/// Excess over the rate of arrivals while the queue is empty: until it first reaches its length,
/// and afterwards. Reports are delayed by the queues of both directions; with a larger excess the
/// rate would oscillate.
const EXCESS: (f64, f64) = (1.0, 0.5);

/// Minimum share of the rate of arrivals while the queue is too long.
const LEAST_SHARE: f64 = 0.5;

/// Share of lost packets above which the excess is small: the queue overflows below [`TARGET`].
const MAX_LOSS: f64 = 0.1;
/// Excess over the rate of arrivals after such losses.
const LOSSY_EXCESS: f64 = 0.05;
/// Microseconds for which [`LOSSY_EXCESS`] applies.
const LOSSY: u64 = 2_000_000;

/// Initial rate in packets per second.
const FIRST: f64 = 50.0;
/// Minimum rate in packets per second.
const LEAST_RATE: f64 = 2.0;
/// Maximum rate in packets per second.
const MOST: f64 = 200_000.0;

/// Minimum microseconds and packets of a rate measurement.
const MEASURED: (u64, u64) = (200_000, 20);

/// Microseconds without arrivals that count as an outage; the rate measured across them is not that
/// of the link.
const GAP: u64 = 500_000;

/// Microseconds of sending that may be made up for after a late wake-up.
const BURST: f64 = 20_000.0;

/// Microseconds without progress after which packets are sent beyond the rate.
const STALL: u64 = 1_000_000;
/// Microseconds between such packets.
const PROBE: u64 = 50_000;

/// Controls the rate by the rate of arrivals and the delay of packets, not by the data in flight:
/// with full queues in both directions, the packets in flight of one would depend on the queue of
/// the other. Saturator (Winstein et al., NSDI 2013, §4.1) instead reports over another link.
#[derive(Debug)]
pub(super) struct Pace {
    /// Packets per second.
    rate: f64,
    next_at: f64,
    reports: VecDeque<Report>,
    least_delay: Option<i64>,
    excess: f64,
    lossy_until: u64,
    progress_at: u64,
    probed_at: u64,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            rate: FIRST,
            next_at: 0.0,
            reports: VecDeque::new(),
            least_delay: None,
            excess: EXCESS.0,
            lossy_until: 0,
            progress_at: 0,
            probed_at: 0,
        }
    }

    /// Processes a report of the other end about packets of this end.
    pub(super) fn on_report(&mut self, report: Report, now: u64) {
        let least = self.least_delay.map_or(report.delay, |least| least.min(report.delay));
        if let Some(last) = self.reports.back().copied() {
            if report.highest <= last.highest {
                return;
            }
            let passed = (report.highest - last.highest) as f64;
            let lost = passed - report.received.saturating_sub(last.received) as f64;
            if lost > MAX_LOSS * passed {
                (self.lossy_until, self.excess) = (now + LOSSY, EXCESS.1);
            }
            if report.at.saturating_sub(last.at) > GAP {
                self.reports.clear();
            }
        }
        (self.least_delay, self.progress_at) = (Some(least), now);
        self.reports.push_back(report);
        let is_long = |one: &Report| {
            report.at.saturating_sub(one.at) >= MEASURED.0
                && report.received.saturating_sub(one.received) >= MEASURED.1
        };
        while self.reports.get(1).is_some_and(is_long) {
            self.reports.pop_front();
        }
        let Some(first) = self.reports.front().filter(|first| is_long(first)) else { return };
        let arrivals =
            report.received.saturating_sub(first.received) as f64 * 1e6 / (report.at - first.at) as f64;
        self.follow(arrivals, 1.0 - (report.delay - least) as f64 / TARGET, now);
    }

    /// Sets the rate from that of arrivals and the relative lack of queue, 1 if it is empty.
    fn follow(&mut self, arrivals: f64, missing: f64, now: u64) {
        self.rate = if missing < 0.0 {
            self.excess = EXCESS.1;
            arrivals * (1.0 + self.excess * missing).max(LEAST_SHARE)
        } else if now < self.lossy_until {
            arrivals * (1.0 + LOSSY_EXCESS)
        } else {
            // After an outage it starts with the earlier rate of the link.
            self.rate.max(arrivals * (1.0 + self.excess * missing))
        };
        self.rate = self.rate.clamp(LEAST_RATE, MOST);
    }

    /// `true` if a packet may leave now.
    pub(super) fn allows(&mut self, now: u64) -> bool {
        if now >= self.progress_at + STALL {
            let is_due = now >= self.probed_at + PROBE;
            if is_due {
                self.probed_at = now;
            }
            return is_due;
        }
        let time = now as f64;
        self.next_at = self.next_at.max(time - BURST);
        let is_due = self.next_at <= time;
        if is_due {
            self.next_at += 1e6 / self.rate;
        }
        is_due
    }
}
