//! The rate of a saturating end, so that the queue of the bottleneck is never empty.

use std::collections::VecDeque;

use super::wire::Report;

/// Delay in the queue, in microseconds, that is kept.
const TARGET: f64 = 300_000.0;

/// Excess over the rate of arrivals while the queue is empty: until it first has its length, and then. A report is as old as the queues of
/// both directions are long; with a larger excess the rate would swing.
const EXCESS: (f64, f64) = (1.0, 0.5);

/// Least share of the rate of arrivals, while the queue is too long.
const LEAST_SHARE: f64 = 0.5;

/// Share of lost packets above which the excess is small: the queue overflows before it has [`TARGET`].
const MAX_LOSS: f64 = 0.1;
const LOSSY_EXCESS: f64 = 0.05;
const LOSSY: u64 = 2_000_000;

/// Packets a second at first, at least and at most.
const FIRST: f64 = 50.0;
const LEAST_RATE: f64 = 2.0;
const MOST: f64 = 200_000.0;

/// Arrivals that a rate is measured by: microseconds and packets.
const MEASURED: (u64, u64) = (200_000, 20);

/// Pause of arrivals, as in an outage, whose rate is not that of the link.
const GAP: u64 = 500_000;

/// Time that a late look at the clock may make up for.
const BURST: f64 = 20_000.0;

/// Microseconds without progress after which a packet is sent beyond the rate, and until the next one.
const STALL: u64 = 1_000_000;
const PROBE: u64 = 50_000;

/// The rate follows that of arrivals and the delay of packets, not what is in flight: with full queues in both directions the packets in flight
/// of one would depend on the queue of the other. Saturator (Winstein et al., NSDI 2013, §4.1) reports over another link instead.
#[derive(Debug)]
pub(super) struct Pace {
    /// Packets a second.
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

    /// Takes in a report of the other end about packets of this one.
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

    /// Sets the rate from that of arrivals and how far the queue is from its length, 1 if it is empty.
    fn follow(&mut self, arrivals: f64, missing: f64, now: u64) {
        self.rate = if missing < 0.0 {
            self.excess = EXCESS.1;
            arrivals * (1.0 + self.excess * missing).max(LEAST_SHARE)
        } else if now < self.lossy_until {
            arrivals * (1.0 + LOSSY_EXCESS)
        } else {
            // After an outage it begins with what the link had before.
            self.rate.max(arrivals * (1.0 + self.excess * missing))
        };
        self.rate = self.rate.clamp(LEAST_RATE, MOST);
    }

    /// Whether a packet may leave now.
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
