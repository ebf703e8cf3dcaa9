//! What a recorder is given during a run.

use serde::{Deserialize, Serialize};
use squall_proto::PredictionStats;

use super::PathState;

/// A path at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PathSample {
    /// New bytes of blocks that the client got over it since the start of the run.
    pub(crate) delivered_down: u64,
    /// New bytes of blocks that the server got over it since the start of the run.
    pub(crate) delivered_up: u64,
    /// Smoothed round-trip time in microseconds.
    pub(crate) srtt_us: u64,
    /// Bytes in flight.
    pub(crate) in_flight: u64,
    /// Congestion window in bytes.
    pub(crate) window: u64,
    /// Bytes in the queue of the emulated link.
    pub(crate) queue: u64,
    /// What the emulated link can carry now, in bits per second, if known.
    pub(crate) link_bps: Option<u64>,
    /// Its state as the sending end sees it.
    pub(crate) state: PathState,
    /// Quality index of the radio at the client's end in [`thousandths`](super::thousandths), if the client
    /// uses it.
    pub(crate) quality: Option<u16>,
    /// Signal factor of the sending end in thousandths; 1,000 without signals.
    pub(crate) factor: u16,
    /// How far the last level that the radio reported is from the true one, as a share of the true one in dBm, 0
    /// and up; `None` if there is no radio, or it is in no network.
    pub(crate) signal_bias: Option<f64>,
}

/// Whether there was none, for what earlier results do not have.
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// A path over the whole run, both ends and directions together unless said otherwise.
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
    /// Bytes of block data sent again after they were declared lost.
    pub retransmitted_bytes: u64,
    /// Bytes of block data sent again, or on a further path, while the first copy was in flight.
    pub reinjected_bytes: u64,
    /// Bytes of parity sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parity_bytes: u64,
    /// Bytes of block data that arrived over it when the receiver had them already.
    pub duplicate_bytes: u64,
    /// How well both ends predicted arrivals.
    #[serde(default, skip_serializing_if = "PredictionStats::is_empty")]
    pub predictions: PredictionStats,
}
