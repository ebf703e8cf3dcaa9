//! Inputs of a recorder during a run.

use serde::{Deserialize, Serialize};
use squall_proto::PredictionStats;

use super::PathState;

/// State of a path at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PathSample {
    /// New bytes of blocks received by the client since the start of the run.
    pub(crate) delivered_down: u64,
    /// New bytes of blocks received by the server since the start of the run.
    pub(crate) delivered_up: u64,
    /// Smoothed round-trip time in microseconds.
    pub(crate) srtt_us: u64,
    /// Bytes in flight.
    pub(crate) in_flight: u64,
    /// Congestion window in bytes.
    pub(crate) window: u64,
    /// Bytes in the queue of the emulated link.
    pub(crate) queue: u64,
    /// Current rate of the emulated link in bits per second, if known.
    pub(crate) link_bps: Option<u64>,
    /// State from the sender's view.
    pub(crate) state: PathState,
    /// Quality index of the client's radio in [`thousandths`](super::thousandths), if the client
    /// uses it.
    pub(crate) quality: Option<u16>,
    /// Signal factor of the sending end in thousandths; 1,000 without signals.
    pub(crate) factor: u16,
    /// Deviation of the latest reported radio level from the true one, as a fraction of the true
    /// one in dBm; not negative. `None` without a radio or while it is disconnected.
    pub(crate) signal_bias: Option<f64>,
}

/// `true` for 0, which is also the default for results of earlier versions.
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Totals of a path over the run, for both ends and directions together unless stated otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTotals {
    /// Bytes of UDP payload that the server sent.
    pub wire_bytes_down: u64,
    /// Bytes of UDP payload that the client sent.
    pub wire_bytes_up: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Bytes of block data retransmitted after they were declared lost.
    pub retransmitted_bytes: u64,
    /// Bytes of block data sent again, or on another path, while the first copy was in flight.
    pub reinjected_bytes: u64,
    /// Bytes of parity sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parity_bytes: u64,
    /// Bytes of received block data that the receiver already had.
    pub duplicate_bytes: u64,
    /// Accuracy of both ends' predictions of arrivals.
    #[serde(default, skip_serializing_if = "PredictionStats::is_empty")]
    pub predictions: PredictionStats,
}
