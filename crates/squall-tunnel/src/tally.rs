//! What became of a flow's datagrams, counted as it happens.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use hdrhistogram::Histogram;
use squall_units::Micros;

use crate::{
    media::Class,
    order::{Count, Ready},
    status::{Amount, LatencyStatus, ReceivedStatus, SentStatus},
};

/// Upper bounds of the latencies that are told together, in microseconds.
pub(crate) const BUCKETS: [Micros; 16] = [
    500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000, 200_000, 300_000,
    500_000, 1_000_000, 2_000_000,
];

/// Percentiles are those of the last one to two of these.
const WINDOW: Micros = 10_000_000;

/// Latencies above are counted as this.
const MAX_LATENCY: Micros = 60_000_000;

/// How a block ended at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The other end has it.
    Delivered,
    /// Its deadline passed on the way.
    Expired,
    /// It is not repaired, and bytes of it were lost.
    Lost,
    /// The scheduler took it back.
    Cancelled,
    /// The other end would not take it.
    Refused,
    /// The session ended with it.
    Closed,
    /// Its deadline passed while there was no session.
    Unsent,
    /// There were too many on their way.
    Overflow,
}

impl Fate {
    /// All of them.
    pub(crate) const ALL: [(Self, &'static str); 8] = [
        (Self::Delivered, "delivered"),
        (Self::Expired, "expired"),
        (Self::Lost, "lost"),
        (Self::Cancelled, "cancelled"),
        (Self::Refused, "refused"),
        (Self::Closed, "closed"),
        (Self::Unsent, "unsent"),
        (Self::Overflow, "overflow"),
    ];
}

#[derive(Debug, Default)]
struct Pair {
    blocks: AtomicU64,
    bytes: AtomicU64,
}

impl Pair {
    fn add(&self, bytes: usize) {
        self.blocks.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    fn amount(&self) -> Amount {
        Amount { blocks: self.blocks.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}

/// The counters of a flow.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    sent: [[Pair; Fate::ALL.len()]; Class::ALL.len()],
    received: [Pair; Class::ALL.len()],
    /// Datagrams that came in here, and that went out.
    pub(crate) datagrams_in: AtomicU64,
    pub(crate) datagrams_out: AtomicU64,
    /// Datagrams that had waited in the socket until they were too late.
    pub(crate) stale: AtomicU64,
    /// Datagrams of others than the source that is set.
    pub(crate) foreign: AtomicU64,
    /// Datagrams that the system would not take.
    pub(crate) unwritten: AtomicU64,
    late: AtomicU64,
    missing: AtomicU64,
    waits: AtomicU64,
    waited_us: AtomicU64,
    latency: Mutex<Latency>,
}

impl Tally {
    /// A block ended.
    pub(crate) fn ended(&self, class: Class, fate: Fate, bytes: usize) {
        self.sent[class as usize][fate as usize].add(bytes);
    }

    /// A parcel of the other end leaves here, or more of it.
    pub(crate) fn leaves(&self, ready: &Ready) {
        let received = &self.received[ready.head.class as usize];
        received.blocks.fetch_add(u64::from(ready.is_first), Relaxed);
        received.bytes.fetch_add(ready.bytes() as u64, Relaxed);
        if ready.waited > 0 {
            self.waits.fetch_add(1, Relaxed);
            self.waited_us.fetch_add(ready.waited, Relaxed);
        }
    }

    /// A datagram has left that was under way for so long.
    pub(crate) fn left(&self, now: Micros, latency: Micros) {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner).add(now, latency);
    }

    /// What the order of a session counted.
    pub(crate) fn disordered(&self, count: Count) {
        self.late.fetch_add(count.late, Relaxed);
        self.missing.fetch_add(count.missing, Relaxed);
    }

    /// What was sent, by class.
    pub(crate) fn sent(&self) -> BTreeMap<String, SentStatus> {
        let of = |class: Class| {
            let fates = Fate::ALL
                .iter()
                .map(|(fate, name)| ((*name).to_owned(), self.sent[class as usize][*fate as usize].amount()))
                .filter(|(_, amount)| amount.blocks > 0);
            SentStatus { fates: fates.collect() }
        };
        let all = Class::ALL.into_iter().map(|class| (class.name().to_owned(), of(class)));
        all.filter(|(_, sent)| !sent.fates.is_empty()).collect()
    }

    /// What came.
    pub(crate) fn received(&self) -> ReceivedStatus {
        let classes = Class::ALL
            .into_iter()
            .map(|class| (class.name().to_owned(), self.received[class as usize].amount()))
            .filter(|(_, amount)| amount.blocks > 0);
        ReceivedStatus {
            classes: classes.collect(),
            late: self.late.load(Relaxed),
            missing: self.missing.load(Relaxed),
            waits: self.waits.load(Relaxed),
            waited_us: self.waited_us.load(Relaxed),
        }
    }

    /// How long datagrams were under way.
    pub(crate) fn latency(&self, now: Micros) -> LatencyStatus {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner).status(now)
    }
}

/// Latencies since the beginning, in buckets, and lately, exactly.
#[derive(Debug)]
struct Latency {
    buckets: [u64; BUCKETS.len() + 1],
    count: u64,
    sum_us: u64,
    /// Of the window before, and of this one.
    lately: [Histogram<u32>; 2],
    begun: Micros,
}

impl Default for Latency {
    fn default() -> Self {
        let empty = || Histogram::new_with_bounds(1, MAX_LATENCY, 2).expect("the bounds are in order");
        Self { buckets: [0; BUCKETS.len() + 1], count: 0, sum_us: 0, lately: [empty(), empty()], begun: 0 }
    }
}

impl Latency {
    fn add(&mut self, now: Micros, latency: Micros) {
        self.turn(now);
        let bucket = BUCKETS.iter().position(|bound| latency <= *bound).unwrap_or(BUCKETS.len());
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum_us += latency;
        self.lately[1].saturating_record(latency.clamp(1, MAX_LATENCY));
    }

    fn turn(&mut self, now: Micros) {
        let passed = now.saturating_sub(self.begun);
        if passed < WINDOW {
            return;
        }
        self.lately.swap(0, 1);
        self.lately[1].clear();
        if passed >= 2 * WINDOW {
            self.lately[0].clear();
        }
        self.begun = now;
    }

    fn status(&mut self, now: Micros) -> LatencyStatus {
        self.turn(now);
        let mut lately = self.lately[0].clone();
        // Both have the same bounds.
        let _ = lately.add(&self.lately[1]);
        let at =
            |quantile: f64| if lately.is_empty() { None } else { Some(lately.value_at_quantile(quantile)) };
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
