//! What a recorder is given: what is known before the run, and what is measured during it.

use serde::{Deserialize, Serialize};
use squall_net::Direction;

use super::{Interval, PathState};
use crate::offer::Class;

/// What is known of a run before it starts.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInfo {
    /// Name of the scenario.
    pub scenario: String,
    /// The scheduler with its options.
    pub scheduler: String,
    /// Congestion control of all paths.
    pub congestion: String,
    /// Seed of the run.
    pub seed: u64,
    /// Planned length in microseconds.
    pub duration_us: u64,
    /// Direction that the samples of the paths are about.
    pub direction: Direction,
    /// The flows, in order.
    pub flows: Vec<FlowInfo>,
    /// The paths, in order.
    pub paths: Vec<PathInfo>,
}

/// What is known of a flow before the run.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowInfo {
    /// Its name.
    pub name: String,
    /// `video`, `blocks`, `bulk`, or anything a live session calls it.
    pub kind: String,
    /// Which end sends.
    pub direction: Direction,
    /// Deadline of its blocks in microseconds.
    pub deadline_us: Option<u64>,
    /// Its classes, at least one; offers name them by their place.
    pub classes: Vec<Class>,
    /// Time from one picture to the next in microseconds, if its blocks are pictures.
    pub picture_us: Option<u64>,
}

/// What is known of a path before the run.
#[derive(Debug, Clone, PartialEq)]
pub struct PathInfo {
    /// Its name.
    pub name: String,
    /// Whether its traffic costs money.
    pub metered: bool,
    /// When its emulated link carries nothing.
    pub outages: Vec<Interval>,
}

/// A path at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathSample {
    /// New bytes of blocks that the client got over it since the start of the run.
    pub delivered_down: u64,
    /// New bytes of blocks that the server got over it since the start of the run.
    pub delivered_up: u64,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes in the queue of the emulated link.
    pub queue: u64,
    /// What the emulated link can carry now, in bits per second, if known.
    pub link_bps: Option<u64>,
    /// Its state as the sending end sees it.
    pub state: PathState,
    /// Quality index of the radio at the client's end in [`thousandths`](super::thousandths), if the client
    /// uses it.
    pub quality: Option<u16>,
    /// Signal factor of the sending end in thousandths; 1,000 without signals.
    pub factor: u16,
    /// How far the last level that the radio reported is from the true one, as a share of the true one in dBm, 0
    /// and up; `None` if there is no radio, or it is in no network.
    pub signal_bias: Option<f64>,
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
    /// Bytes of block data that arrived over it when the receiver had them already.
    pub duplicate_bytes: u64,
}
