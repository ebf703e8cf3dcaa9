//! Counters of a session, its paths and its blocks.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use squall_sched::PathState;

use crate::Role;

/// Counters of one path since it was opened. Bytes are UDP payload, headers of QUIC included.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PathStats {
    /// Number of the path on the wire.
    pub number: u32,
    /// Whether it is in use.
    pub state: PathState,
    /// Whether its bytes cost money, as either side says.
    pub metered: bool,
    /// What it is used for, as both sides say.
    pub role: Role,
    /// What this side may send on it at most, in bits per second, if there is a bound.
    pub rate_limit: Option<u64>,
    /// Signal factor F in (0, 1]: 1 unless a radio at either end gave a warning.
    pub signal_factor: f64,
    /// Quality index of the radio at this end, 0…1, if it is read.
    pub signal_quality: Option<f64>,
    /// Bytes of data, headers included, that its budget leaves, if it has one.
    pub budget: Option<u64>,
    /// Smoothed round-trip time (RFC 9002 §5.3).
    pub srtt: Duration,
    /// Smallest round-trip time.
    pub min_rtt: Duration,
    /// Mean deviation of the round-trip time.
    pub rtt_deviation: Duration,
    /// One-way delay to the peer; differences between paths are exact.
    pub one_way_delay: Duration,
    /// Congestion window in bytes.
    pub window: u64,
    /// What the path carries as its congestion controller estimates it, in bits per second, if it does.
    pub capacity: Option<u64>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Delivery rate in bits per second.
    pub delivery_rate: u64,
    /// Share of packets lost over the last two seconds.
    pub loss: f64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// UDP datagrams sent.
    pub sent_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// UDP datagrams received.
    pub received_packets: u64,
    /// Packets with our data that were acknowledged.
    pub acked_packets: u64,
    /// Packets with our data that were declared lost.
    pub lost_packets: u64,
    /// Of these, packets that arrived later: they were overtaken, or late.
    pub spurious_losses: u64,
    /// Block bytes sent for the first time.
    pub fresh_bytes: u64,
    /// Block bytes sent again after a loss.
    pub repair_bytes: u64,
    /// Block bytes sent as a copy of what was in flight on another path.
    pub copy_bytes: u64,
    /// Bytes of parity sent.
    pub parity_bytes: u64,
    /// Block bytes received, duplicates included; without parity.
    pub data_received: u64,
    /// Of these, bytes that were here already.
    pub duplicate_bytes: u64,
    /// Congestion events reported to the controller.
    pub congestion_events: u64,
    /// Of these, how many turned out to be reordering.
    pub spurious_events: u64,
    /// Times the path was suspected.
    pub suspicions: u64,
    /// Packets that left on this path although another was meant (tail-loss probes).
    pub strays: u64,
    /// How well the arrival of our data was predicted.
    pub predictions: PredictionStats,
}

/// How well the arrival of data on a path was predicted: the newest of each report of the peer counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictionStats {
    /// Arrivals for which there were bounds: the 5th and the 95th of 100 of the latest errors.
    pub bounded: u64,
    /// Of these, arrivals within the bounds; 9 of 10 should be.
    pub within: u64,
    /// All arrivals by their error, arrival less predicted arrival, between edges at ± 2, 5, 10, 20 and 50 ms. An error that
    /// is equal to an edge counts below it.
    pub errors: [u64; EDGES.len() + 1],
}

/// Edges between the counts of [`PredictionStats::errors`], in microseconds.
const EDGES: [i64; 10] = [-50_000, -20_000, -10_000, -5_000, -2_000, 2_000, 5_000, 10_000, 20_000, 50_000];

impl PredictionStats {
    /// Whether nothing arrived of which the arrival was predicted.
    pub fn is_empty(&self) -> bool {
        self.errors.iter().all(|count| *count == 0)
    }

    /// An arrival, with the bounds that there were for it.
    pub(crate) fn count(&mut self, error: i64, bounds: Option<(i64, i64)>) {
        self.errors[EDGES.partition_point(|edge| *edge < error)] += 1;
        if let Some((low, high)) = bounds {
            self.bounded += 1;
            self.within += u64::from((low..=high).contains(&error));
        }
    }
}

/// Counters of a session since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SessionStats {
    /// Blocks handed over for sending.
    pub blocks_offered: u64,
    /// Of these, delivered whole.
    pub blocks_delivered: u64,
    /// Of these, ended by their deadline.
    pub blocks_expired: u64,
    /// Of these, unreliable and lost in part.
    pub blocks_lost: u64,
    /// Of these, cancelled by the application or the scheduler.
    pub blocks_cancelled: u64,
    /// Of these, not ended when the session did.
    pub blocks_closed: u64,
    /// Of these, refused by the peer.
    pub blocks_refused: u64,
    /// Blocks of the peer's that arrived whole.
    pub blocks_received: u64,
    /// Of these, how many were completed with parity.
    pub blocks_rebuilt: u64,
    /// Blocks of the peer's that did not arrive.
    pub blocks_missed: u64,
    /// Block bytes handed over.
    pub bytes_offered: u64,
    /// Block bytes of blocks delivered whole.
    pub bytes_delivered: u64,
    /// Block bytes of blocks received whole.
    pub bytes_received: u64,
    /// Bytes the peer received although it had them: copies, and repairs of what was not lost.
    pub peer_duplicates: u64,
    /// Bytes received although they were here already.
    pub duplicates: u64,
    /// Bytes of feedback datagrams sent.
    pub feedback_bytes: u64,
    /// Feedback datagrams sent.
    pub feedback_sent: u64,
    /// Bytes handed over and not known to have arrived.
    pub queued_bytes: u64,
    /// Blocks handed over and not finished.
    pub open_blocks: usize,
    /// Memory that incoming blocks take.
    pub held_bytes: u64,
    /// Outcomes of blocks that were asked for, not taken, and dropped.
    pub outcomes_dropped: u64,
    /// Path events that were not taken, and dropped.
    pub path_events_dropped: u64,
}
