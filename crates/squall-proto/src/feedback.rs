//! When a receiver reports, and what.
//!
//! noq puts pending acknowledgements into the next packet of the path that is open. So the feedback
//! datagram, sent through the gate of the path of our choice, carries them there: it steers the
//! acknowledgements, and it must leave before anything else does. It is kept to a small share of the
//! bytes received.

use squall_sched::Micros;

use crate::wire::{Feedback, Sample};

/// Longest that an arrival goes unreported. noq's own acknowledgement timer is set above it.
pub(crate) const MAX_DELAY: Micros = 10_000;
/// How long a single packet waits for company.
const QUICK_DELAY: Micros = 2_000;
/// Packets after which a report is due at once.
const BATCH: u32 = 2;
/// Pause between reports when packets come out of order: what was overtaken must be reported before
/// the sender takes it for lost (RFC 9000 §13.2.1 asks for immediate acknowledgement).
const URGENT_DELAY: Micros = 1_000;
/// Whole packets with reports may take this share of the bytes received; the report itself is about a
/// quarter of its packet.
const SHARE: f64 = 0.03;
/// Bytes that may be saved up for reports.
const MAX_SAVINGS: f64 = 2_000.0;
/// What a report costs, before the first one was measured.
const FIRST_COST: f64 = 70.0;

/// Collects what there is to report.
#[derive(Debug)]
pub(crate) struct Reporter {
    samples: Vec<Sample>,
    pending: u32,
    since: Option<Micros>,
    /// When the last report was made.
    reported: Micros,
    /// Something arrived that was overtaken on its path.
    overtaken: bool,
    savings: f64,
    cost: f64,
    sequence: u64,
}

impl Default for Reporter {
    fn default() -> Self {
        Self {
            samples: Vec::new(),
            pending: 0,
            since: None,
            reported: 0,
            overtaken: false,
            savings: MAX_SAVINGS,
            cost: FIRST_COST,
            sequence: 0,
        }
    }
}

impl Reporter {
    /// A DATA item arrived on the path of that number; `delay` as in [`Sample::delay`]; `overtaken` by
    /// a later one.
    pub(crate) fn on_data(&mut self, now: Micros, path: u32, delay: u32, bytes: usize, overtaken: bool) {
        self.overtaken |= overtaken;
        self.pending += 1;
        self.since.get_or_insert(now);
        self.savings = (self.savings + bytes as f64 * SHARE).min(MAX_SAVINGS);
        match self.samples.iter_mut().find(|s| s.path == path) {
            Some(sample) => {
                sample.delay = delay;
                sample.received += 1;
            }
            None => self.samples.push(Sample { path, delay, received: 1 }),
        }
    }

    /// When the next report is due.
    pub(crate) fn due_at(&self) -> Option<Micros> {
        let since = self.since?;
        Some(if self.overtaken && self.savings > -MAX_SAVINGS {
            self.reported + URGENT_DELAY
        } else if self.savings < self.cost {
            since + MAX_DELAY
        } else if self.pending >= BATCH {
            since
        } else {
            since + QUICK_DELAY
        })
    }

    /// The report; credit and counters are filled in by the caller.
    pub(crate) fn report(&mut self, now: Micros) -> Feedback {
        self.reported = now;
        self.overtaken = false;
        let samples = std::mem::take(&mut self.samples);
        self.pending = 0;
        self.since = None;
        self.sequence += 1;
        Feedback { sequence: self.sequence, samples, ..Feedback::default() }
    }

    /// A report left in a packet of this size.
    pub(crate) fn on_sent(&mut self, packet: usize) {
        self.cost = packet as f64;
        self.savings = (self.savings - self.cost).max(-MAX_SAVINGS);
    }
}
