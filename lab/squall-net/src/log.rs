//! Counters of a link, and on request a record of every packet.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use squall_trace::Micros;
use squall_trace::mahimahi::{OPPORTUNITY, TUN_HEADER};

use crate::time::{Nanos, micros_after};

/// Reason for dropping a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DropReason {
    /// The queue was full.
    Queue,
    /// CoDel dropped the packet because it had waited too long.
    Codel,
    /// Random loss on the way.
    Loss,
    /// The packet was pushed during an outage, or was waiting or in flight when one began.
    Outage,
    /// The packet exceeds the link's MTU.
    Mtu,
    /// The packet exceeds the policer's rate.
    Policer,
    /// The link drops packets whose sender uses ECN.
    Ecn,
}

/// A number of packets and the bytes in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes, as IP sizes.
    pub bytes: u64,
}

impl Count {
    fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, size: u32) {
        self.packets += 1;
        self.bytes += u64::from(size);
    }
}

impl std::ops::Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// Drops by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Drops {
    /// The queue was full.
    pub queue: Count,
    /// Dropped by CoDel.
    pub codel: Count,
    /// Lost at random.
    pub loss: Count,
    /// Dropped by outages.
    pub outage: Count,
    /// Above the MTU.
    pub mtu: Count,
    /// Dropped by policers.
    #[serde(default, skip_serializing_if = "Count::is_zero")]
    pub policer: Count,
    /// Packets whose sender uses ECN, on a link that drops them.
    #[serde(default, skip_serializing_if = "Count::is_zero")]
    pub ecn: Count,
}

impl Drops {
    /// Returns the sum over all reasons.
    pub fn total(&self) -> Count {
        self.queue + self.codel + self.loss + self.outage + self.mtu + self.policer + self.ecn
    }

    fn of(&mut self, reason: DropReason) -> &mut Count {
        match reason {
            DropReason::Queue => &mut self.queue,
            DropReason::Codel => &mut self.codel,
            DropReason::Loss => &mut self.loss,
            DropReason::Outage => &mut self.outage,
            DropReason::Mtu => &mut self.mtu,
            DropReason::Policer => &mut self.policer,
            DropReason::Ecn => &mut self.ecn,
        }
    }
}

/// Counters of one direction of a link.
///
/// All packets are accounted for: `pushed + duplicated = delivered + dropped + waiting + flying`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkStats {
    /// Pushed into the link.
    pub pushed: Count,
    /// Delivered at the end of the link, duplicates included.
    pub delivered: Count,
    /// Dropped, by reason.
    pub dropped: Drops,
    /// Duplicates made on the link.
    pub duplicated: Count,
    /// Damaged on the link; delivered unless dropped after that.
    #[serde(default)]
    pub corrupted: Count,
    /// Packets that arrived after one that was pushed later.
    pub reordered: u64,
    /// Waiting in the queue or being sent.
    pub waiting: Count,
    /// Sent but not yet delivered.
    pub flying: Count,
    /// Maximum of the bytes in the queue (without the packet being sent).
    pub queue_bytes_max: u64,
    /// Maximum queueing delay of a packet before it was sent.
    #[serde(rename = "queueing_max_us")]
    pub queueing_max: Micros,
    /// Sum of the queueing delays of all packets that were sent.
    #[serde(rename = "queueing_sum_us")]
    pub queueing_sum: Micros,
    /// Packets sent (serialised), the number of queueing delays in `queueing_sum`.
    pub sent: Count,
}

/// One entry of a link's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Time, rounded up to a microsecond.
    pub at: Micros,
    /// Event at that time.
    pub event: Event,
}

/// An event on a link. `number` counts the pushes on this link, from 0; sizes are IP sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// A packet was pushed.
    Push {
        /// Number of the packet.
        number: u64,
        /// Its size.
        size: u32,
    },
    /// A delivery opportunity of a mahimahi trace passed, used or not.
    Opportunity,
    /// The last bit of a packet left the serialiser.
    Sent {
        /// Number of the packet.
        number: u64,
        /// Its size.
        size: u32,
        /// Time of its push.
        pushed: Micros,
    },
    /// A packet was duplicated.
    Duplicate {
        /// Number of the packet.
        number: u64,
        /// Its size.
        size: u32,
    },
    /// A packet was damaged.
    Corrupt {
        /// Number of the packet.
        number: u64,
        /// Its size.
        size: u32,
    },
    /// A packet was delivered.
    Deliver {
        /// Number of the packet.
        number: u64,
        /// Its size.
        size: u32,
    },
    /// A packet was dropped.
    Drop {
        /// Number of the packet.
        number: u64,
        /// Its size.
        size: u32,
        /// Reason of the drop.
        reason: DropReason,
    },
}

/// Counters and, on request, the record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    pub(crate) stats: LinkStats,
    records: Option<Vec<Record>>,
}

impl Ledger {
    pub(crate) fn keep_records(&mut self, keep: bool) {
        self.records = keep.then(Vec::new);
    }

    pub(crate) fn keeps_records(&self) -> bool {
        self.records.is_some()
    }

    pub(crate) fn drain(&mut self) -> Vec<Record> {
        self.records.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn pushed(&mut self, at: Nanos, number: u64, size: u32) {
        self.stats.pushed.add(size);
        self.note(at, Event::Push { number, size });
    }

    pub(crate) fn opportunity(&mut self, at: Nanos) {
        self.note(at, Event::Opportunity);
    }

    pub(crate) fn sent(&mut self, at: Nanos, number: u64, size: u32, pushed: Micros, waited: Micros) {
        self.stats.sent.add(size);
        self.stats.queueing_sum += waited;
        self.stats.queueing_max = self.stats.queueing_max.max(waited);
        self.note(at, Event::Sent { number, size, pushed });
    }

    pub(crate) fn duplicated(&mut self, at: Nanos, number: u64, size: u32) {
        self.stats.duplicated.add(size);
        self.note(at, Event::Duplicate { number, size });
    }

    pub(crate) fn corrupted(&mut self, at: Nanos, number: u64, size: u32) {
        self.stats.corrupted.add(size);
        self.note(at, Event::Corrupt { number, size });
    }

    pub(crate) fn delivered(&mut self, at: Nanos, number: u64, size: u32) {
        self.stats.delivered.add(size);
        self.note(at, Event::Deliver { number, size });
    }

    pub(crate) fn dropped(&mut self, at: Nanos, number: u64, size: u32, reason: DropReason) {
        self.stats.dropped.of(reason).add(size);
        self.note(at, Event::Drop { number, size, reason });
    }

    fn note(&mut self, at: Nanos, event: Event) {
        if let Some(records) = &mut self.records {
            records.push(Record { at: micros_after(at), event });
        }
    }
}

/// The record in the format of mahimahi's `mm-link`, which `mm-throughput-graph` reads: whole
/// milliseconds, sizes with the TUN header, `+` arrival, `#` opportunity, `-` departure from the
/// link with its delay, `d` drops.
///
/// Mahimahi's log contains nothing that happens after the link (random loss, propagation delay),
/// nor the packets that CoDel drops from the head of the queue.
#[derive(Debug, Clone, Copy)]
pub struct MahimahiLog;

impl MahimahiLog {
    /// Returns the header lines. `title` describes the run and `queue` the queue; `start` is the
    /// wall-clock time of time 0 in milliseconds since 1970.
    pub fn header(title: &str, queue: &str, start: u64) -> String {
        format!(
            "# mahimahi mm-link ({title}) > squall\n# queue: {queue}\n# init timestamp: {start}\n# base timestamp: 0\n"
        )
    }

    /// Returns the lines of these records. Simultaneous drops share one line.
    pub fn lines(records: &[Record]) -> String {
        let mut log = String::new();
        let mut records = records.iter().peekable();
        while let Some(record) = records.next() {
            let millis = record.at / 1_000;
            let line = match record.event {
                Event::Push { size, .. } => writeln!(log, "{millis} + {}", tun_size(size)),
                Event::Opportunity => writeln!(log, "{millis} # {OPPORTUNITY}"),
                Event::Sent { size, pushed, .. } => {
                    writeln!(log, "{millis} - {} {}", tun_size(size), millis - pushed / 1_000)
                }
                Event::Drop { size, reason: DropReason::Queue, .. } => {
                    let mut dropped = Count { packets: 1, bytes: tun_size(size) };
                    let same = |next: &&Record| next.at == record.at && queue_drop(next).is_some();
                    while let Some(size) = records.next_if(same).and_then(queue_drop) {
                        dropped = dropped + Count { packets: 1, bytes: tun_size(size) };
                    }
                    writeln!(log, "{millis} d {} {}", dropped.packets, dropped.bytes)
                }
                Event::Duplicate { .. }
                | Event::Corrupt { .. }
                | Event::Deliver { .. }
                | Event::Drop { .. } => Ok(()),
            };
            line.expect("writing to a string cannot fail");
        }
        log
    }
}

fn tun_size(size: u32) -> u64 {
    u64::from(size) + TUN_HEADER
}

/// Returns the size of the packet if the record is a drop by a full queue.
fn queue_drop(record: &Record) -> Option<u32> {
    match record.event {
        Event::Drop { size, reason: DropReason::Queue, .. } => Some(size),
        _ => None,
    }
}
