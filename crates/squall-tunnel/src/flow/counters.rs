//! Counters of a flow.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use hdrhistogram::Histogram;
use squall_observe::{
    clock::lock,
    status::{Amount, LATENCY_BUCKETS, LatencyStatus, ReceivedStatus, SentStatus},
};
use squall_units::{Span, Time};

use super::reorder::{Count, Ready};
use crate::media::Class;

/// Window of percentiles, which cover the last one to two windows.
const WINDOW: Span = Span::from_secs(10);

/// Upper limit of recorded latencies; longer ones count as this.
const MAX_LATENCY: Span = Span::from_secs(60);

/// Outcome of a block at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The other end has received it.
    Delivered,
    /// Its deadline passed in the session.
    Expired,
    /// Bytes of it were lost, and the block is not retransmitted.
    Lost,
    /// The scheduler cancelled it.
    Cancelled,
    /// The other end refused it.
    Refused,
    /// The session closed before it was delivered.
    Closed,
    /// Its deadline passed without a session.
    Unsent,
    /// Too many blocks were in transit.
    Overflow,
}

/// Names of the outcomes, in the order of the enum.
const OUTCOMES: [&str; 8] =
    ["delivered", "expired", "lost", "cancelled", "refused", "closed", "unsent", "overflow"];

impl Outcome {
    pub(crate) fn name(self) -> &'static str {
        OUTCOMES[self as usize]
    }
}

#[derive(Debug, Default)]
struct Pair {
    blocks: AtomicU64,
    bytes: AtomicU64,
}

impl Pair {
    fn add(&self, blocks: u64, bytes: usize) {
        self.blocks.fetch_add(blocks, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Returns the non-zero amounts by name.
    fn named<'a>(all: impl Iterator<Item = (&'a str, &'a Self)>) -> BTreeMap<String, Amount> {
        let amount = |one: &Self| Amount { blocks: one.blocks.load(Relaxed), bytes: one.bytes.load(Relaxed) };
        let amounts = all.map(|(name, one)| (name.to_owned(), amount(one)));
        amounts.filter(|(_, amount)| amount.blocks > 0).collect()
    }
}

/// Counters of a flow.
#[derive(Debug, Default)]
pub(crate) struct FlowCounters {
    sent: [[Pair; OUTCOMES.len()]; Class::ALL.len()],
    received: [Pair; Class::ALL.len()],
    /// Datagrams that entered here.
    pub(crate) datagrams_in: AtomicU64,
    /// Datagrams that left here.
    pub(crate) datagrams_out: AtomicU64,
    /// Bytes of null packets that entered here and were removed before sending.
    pub(crate) null_bytes_deleted: AtomicU64,
    /// Datagrams that waited too long in the socket.
    pub(crate) stale: AtomicU64,
    /// Datagrams dropped because the socket buffer was full.
    pub(crate) overflowed: AtomicU64,
    /// Datagrams from senders that are not permitted.
    pub(crate) foreign: AtomicU64,
    /// Datagrams that the system did not send.
    pub(crate) unwritten: AtomicU64,
    late: AtomicU64,
    missing: AtomicU64,
    waits: AtomicU64,
    waited_us: AtomicU64,
    latency: Mutex<Latency>,
}

impl FlowCounters {
    /// Adds datagrams dropped because the socket buffer was full. Returns their number if they are
    /// the first.
    pub(crate) fn overflowed(&self, more: u32) -> Option<u64> {
        let before = self.overflowed.fetch_add(more.into(), Relaxed);
        (before == 0 && more > 0).then_some(more.into())
    }

    /// Returns the number of datagrams that have arrived at the socket.
    pub(crate) fn arrivals(&self) -> u64 {
        self.datagrams_in.load(Relaxed) + self.foreign.load(Relaxed)
    }

    /// Counts the outcome of a block.
    pub(crate) fn ended(&self, class: Class, outcome: Outcome, bytes: usize) {
        self.sent[class as usize][outcome as usize].add(1, bytes);
    }

    /// Counts a frame from the other end that leaves here, or its next part.
    pub(crate) fn leaves(&self, ready: &Ready) {
        self.received[ready.header.class as usize].add(u64::from(ready.is_first), ready.bytes());
        if !ready.waited.is_zero() {
            self.waits.fetch_add(1, Relaxed);
            self.waited_us.fetch_add(ready.waited.micros(), Relaxed);
        }
    }

    /// Records the latency of a datagram that left.
    pub(crate) fn left(&self, now: Time, latency: Span) {
        lock(&self.latency).add(now, latency);
    }

    /// Adds frames of a session that did not leave.
    pub(crate) fn not_left(&self, count: Count) {
        self.late.fetch_add(count.late, Relaxed);
        self.missing.fetch_add(count.missing, Relaxed);
    }

    pub(crate) fn sent(&self) -> BTreeMap<String, SentStatus> {
        let of = |class: Class| SentStatus {
            outcomes: Pair::named(OUTCOMES.into_iter().zip(&self.sent[class as usize])),
        };
        let all = Class::ALL.into_iter().map(|class| (class.name().to_owned(), of(class)));
        all.filter(|(_, sent)| !sent.outcomes.is_empty()).collect()
    }

    pub(crate) fn received(&self) -> ReceivedStatus {
        ReceivedStatus {
            classes: Pair::named(
                Class::ALL.into_iter().map(|class| (class.name(), &self.received[class as usize])),
            ),
            late: self.late.load(Relaxed),
            missing: self.missing.load(Relaxed),
            waits: self.waits.load(Relaxed),
            waited_us: self.waited_us.load(Relaxed),
        }
    }

    pub(crate) fn latency(&self, now: Time) -> LatencyStatus {
        lock(&self.latency).status(now)
    }
}

/// Latencies: in buckets since the start, and exactly for recent windows.
#[derive(Debug)]
struct Latency {
    buckets: [u64; LATENCY_BUCKETS.len() + 1],
    count: u64,
    sum_us: u64,
    /// Previous and current window.
    recent: [Histogram<u32>; 2],
    window_start: Time,
}

impl Default for Latency {
    fn default() -> Self {
        let empty =
            || Histogram::new_with_bounds(1, MAX_LATENCY.micros(), 2).expect("the bounds are in order");
        Self {
            buckets: [0; LATENCY_BUCKETS.len() + 1],
            count: 0,
            sum_us: 0,
            recent: [empty(), empty()],
            window_start: Time::EPOCH,
        }
    }
}

impl Latency {
    fn add(&mut self, now: Time, latency: Span) {
        self.rotate(now);
        let micros = latency.micros();
        let bucket =
            LATENCY_BUCKETS.iter().position(|bound| micros <= *bound).unwrap_or(LATENCY_BUCKETS.len());
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum_us += micros;
        self.recent[1].saturating_record(micros.clamp(1, MAX_LATENCY.micros()));
    }

    fn rotate(&mut self, now: Time) {
        let passed = now - self.window_start;
        if passed < WINDOW {
            return;
        }
        self.recent.swap(0, 1);
        self.recent[1].clear();
        if passed >= WINDOW * 2 {
            self.recent[0].clear();
        }
        self.window_start = now;
    }

    fn status(&mut self, now: Time) -> LatencyStatus {
        self.rotate(now);
        let mut recent = self.recent[0].clone();
        // Cannot fail: both have the same bounds.
        let _ = recent.add(&self.recent[1]);
        let at =
            |quantile: f64| if recent.is_empty() { None } else { Some(recent.value_at_quantile(quantile)) };
        LatencyStatus {
            p50_us: at(0.5),
            p95_us: at(0.95),
            p99_us: at(0.99),
            max_us: at(1.0),
            count: self.count,
            sum_us: self.sum_us,
            buckets: self.buckets.to_vec(),
        }
    }
}
