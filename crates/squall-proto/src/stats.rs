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
    /// State of the path.
    pub state: PathState,
    /// Bytes on the path cost money, as declared by either side.
    pub metered: bool,
    /// Role of the path, from the declarations of both sides.
    pub role: Role,
    /// Rate limit of this side in bits per second; `None` without a limit.
    pub rate_limit: Option<u64>,
    /// Signal factor F in (0, 1]: 1 unless a radio at either end issued a warning.
    pub signal_factor: f64,
    /// Quality index of the radio at this end, 0…1; `None` if none is read.
    pub signal_quality: Option<f64>,
    /// Rest of the budget for data, headers included, in bytes; `None` without a budget.
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
    /// Rate of the path in bits per second, as its congestion controller estimates it; `None` if it
    /// does not.
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
    /// The part of [`Self::lost_packets`] that arrived later: packets that were overtaken, or late.
    pub spurious_losses: u64,
    /// Block bytes sent for the first time.
    pub fresh_bytes: u64,
    /// Block bytes sent again after a loss.
    pub repair_bytes: u64,
    /// Block bytes sent as a copy of bytes in flight on another path.
    pub copy_bytes: u64,
    /// Bytes of parity sent.
    pub parity_bytes: u64,
    /// Block bytes received, duplicates included; without parity.
    pub data_received: u64,
    /// The part of [`Self::data_received`] that had been received before.
    pub duplicate_bytes: u64,
    /// Congestion events reported to the controller.
    pub congestion_events: u64,
    /// The part of [`Self::congestion_events`] that was caused by reordering.
    pub spurious_events: u64,
    /// Number of times that the path was suspected.
    pub suspicions: u64,
    /// Packets that left on this path although another was intended (tail-loss probes).
    pub strays: u64,
    /// Quality of the predictions of our data's arrival.
    pub predictions: PredictionStats,
}

/// Quality of the predictions of arrivals on a path: the newest packet of each report of the peer
/// counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictionStats {
    /// Arrivals with bounds: the 5th and the 95th percentile of the latest errors.
    pub bounded: u64,
    /// The part of [`Self::bounded`] within the bounds; 9 of 10 are expected.
    pub within: u64,
    /// All arrivals by their error, arrival less predicted arrival, between edges at ± 2, 5, 10, 20
    /// and 50 ms. An error equal to an edge counts below it.
    pub errors: [u64; EDGES.len() + 1],
}

/// Edges between the counts of [`PredictionStats::errors`], in microseconds.
const EDGES: [i64; 10] = [-50_000, -20_000, -10_000, -5_000, -2_000, 2_000, 5_000, 10_000, 20_000, 50_000];

impl PredictionStats {
    /// Returns `true` if no predicted data has arrived.
    pub fn is_empty(&self) -> bool {
        self.errors.iter().all(|count| *count == 0)
    }

    /// Counts an arrival, with its bounds if there were any.
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
    /// The part of [`Self::blocks_offered`] that was delivered whole.
    pub blocks_delivered: u64,
    /// The part of [`Self::blocks_offered`] that ended by its deadline.
    pub blocks_expired: u64,
    /// The part of [`Self::blocks_offered`] that was unreliable and lost in part.
    pub blocks_lost: u64,
    /// The part of [`Self::blocks_offered`] that was cancelled by the application or the scheduler.
    pub blocks_cancelled: u64,
    /// The part of [`Self::blocks_offered`] that ended with the session.
    pub blocks_closed: u64,
    /// The part of [`Self::blocks_offered`] that was refused by the peer.
    pub blocks_refused: u64,
    /// Blocks of the peer that arrived whole.
    pub blocks_received: u64,
    /// The part of [`Self::blocks_received`] that was completed with parity.
    pub blocks_rebuilt: u64,
    /// Blocks of the peer that did not arrive.
    pub blocks_missed: u64,
    /// Block bytes handed over.
    pub bytes_offered: u64,
    /// Block bytes of blocks delivered whole.
    pub bytes_delivered: u64,
    /// Block bytes of blocks received whole.
    pub bytes_received: u64,
    /// Bytes that the peer received in duplicate: copies, and repairs of bytes that were not lost.
    pub peer_duplicates: u64,
    /// Bytes received in duplicate.
    pub duplicates: u64,
    /// Bytes of feedback datagrams sent.
    pub feedback_bytes: u64,
    /// Feedback datagrams sent.
    pub feedback_sent: u64,
    /// Bytes handed over and not acknowledged.
    pub queued_bytes: u64,
    /// Blocks handed over and not finished.
    pub open_blocks: usize,
    /// Memory of incoming blocks in bytes.
    pub held_bytes: u64,
    /// Outcomes of blocks that were requested, not taken, and dropped.
    pub outcomes_dropped: u64,
    /// Path events that were not taken, and dropped.
    pub path_events_dropped: u64,
}
