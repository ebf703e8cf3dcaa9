//! Result records: the measurements of one run, as plain data.
//!
//! A record holds integers (microseconds, bytes, bits per second) and ratios rounded to six
//! decimals, in vectors and ordered maps, and no wall-clock time: identical runs give
//! byte-identical JSON.

mod class_recorder;
mod distribution;
mod flow_recorder;
mod inputs;
mod json;
mod limit;
mod path;
mod path_recorder;
mod pictures;
mod playback;
mod recorder;
#[cfg(any(test, feature = "sample"))]
#[path = "tests/sample.rs"]
pub mod sample;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use squall_net::Direction;

use crate::offer::Class;
pub use distribution::{DistributionPoint, Percentiles};
pub(crate) use inputs::PathSample;
pub use inputs::PathTotals;
pub use json::{MAX_FILE, ReadError, from_json, to_json};
pub use limit::{Bound, ClassBound, Due, Limit};
pub use path::{AlertWord, Interval, PathAlert, PathResult, PathSeries, PathState, SignalBias, StateChange};
pub use pictures::{PictureQuality, Spread};
pub use playback::Playback;
pub(crate) use recorder::Recorder;

/// Time between two samples of a series, in microseconds.
pub const SAMPLE_INTERVAL_US: u64 = 100_000;

/// All measurements of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Name of the scenario.
    pub scenario: String,
    /// Scheduler label as requested.
    pub scheduler: String,
    /// Congestion control of all paths.
    pub congestion: String,
    /// Seed of the run.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// Length of the run in microseconds.
    pub duration_us: u64,
    /// Main direction, which most samples of the paths refer to.
    pub direction: Direction,
    /// Offered → packet with new bytes of a block arrived, of the packets of all flows together; see
    /// [`FlowResult::packet_delay`].
    #[serde(default)]
    pub packet_delay: Option<Percentiles>,
    /// Packet with new bytes of a block left → arrived, of the packets of all flows together; see [`FlowResult::transit`].
    #[serde(default)]
    pub transit: Option<Percentiles>,
    /// One entry per flow, in the order of the scenario.
    pub flows: Vec<FlowResult>,
    /// One entry per path, in the order of the scenario.
    pub paths: Vec<PathResult>,
    /// Processor time of the schedulers of both ends in nanoseconds of real time, if measured. The
    /// only number that differs when a run is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_ns: Option<u64>,
    /// Clairvoyant bound of each direction with blocks. Empty for live sessions, because the
    /// capacity of their networks is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<DirectionBound>,
    /// Verdicts of the scenario's checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Verdict>,
    /// External measures, such as the stalls of a media player; numbers are rounded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Extra>,
}

impl RunResult {
    /// Share of block bytes that were sent again, after a loss or speculatively, in all bytes sent
    /// by the sender of the main direction, 0 to 1; `None` if it sent nothing.
    pub fn retransmission_ratio(&self) -> Option<f64> {
        let again = self.paths.iter().map(|p| p.totals.retransmitted_bytes + p.totals.reinjected_bytes).sum();
        let sent: u64 = self.paths.iter().map(|path| path.sent_bytes(self.direction)).sum();
        ratio(again, sent)
    }

    /// Removes time series and single blocks, which leaves a few kilobytes instead of hundreds.
    #[must_use]
    pub fn condensed(mut self) -> Self {
        for flow in &mut self.flows {
            flow.latencies.clear();
            flow.missing_at_us.clear();
            flow.missing_why.clear();
            flow.delivered_blocks.clear();
            flow.delivered_bytes.clear();
        }
        for path in &mut self.paths {
            path.series = PathSeries::default();
            path.states.clear();
            path.alerts.clear();
        }
        self
    }

    /// Packets declared lost by either end, over all paths.
    pub fn lost_packets(&self) -> u64 {
        self.paths.iter().map(|path| path.totals.lost_packets).sum()
    }
}

/// Verdict of a check of the scenario; `check` evaluates it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The check in words: target, measure and part of the run.
    pub check: String,
    /// Measured value.
    pub measured: String,
    /// Required range.
    pub limit: String,
    /// The measured value was within its limits.
    pub pass: bool,
}

/// Clairvoyant bound of one direction of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionBound {
    /// Direction of the blocks.
    pub direction: Direction,
    /// Bound for the blocks of all flows together.
    pub bound: Bound,
}

/// An external measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Extra {
    /// Number, in the unit that the measure's name states.
    Number(f64),
    /// Any other value.
    Text(String),
}

impl From<f64> for Extra {
    /// Rounds the value. Non-finite values, such as the PSNR of equal pictures, become text because
    /// JSON has no such numbers.
    fn from(value: f64) -> Self {
        if value.is_finite() { Extra::Number(round6(value)) } else { Extra::Text(value.to_string()) }
    }
}

impl From<&str> for Extra {
    fn from(value: &str) -> Self {
        Extra::Text(value.to_owned())
    }
}

/// Reasons why a block was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LostReason {
    /// Its deadline passed.
    Expired,
    /// The scheduler or the application cancelled it.
    Cancelled,
    /// The session at either end refused it.
    Refused,
    /// The session or the run ended before.
    Closed,
}

/// Number of blocks by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Blocks submitted by the application.
    pub offered_blocks: u64,
    /// Bytes of the offered blocks.
    pub offered_bytes: u64,
    /// Blocks that were delivered completely.
    pub delivered_blocks: u64,
    /// Bytes of the delivered blocks.
    pub delivered_bytes: u64,
    /// Blocks delivered before their deadline; without a deadline, all delivered blocks.
    pub in_time_blocks: u64,
    /// Bytes of the blocks in time.
    pub in_time_bytes: u64,
    /// Blocks in time whose direct and indirect dependencies also arrived before the block's
    /// deadline; without a deadline, delivered blocks whose dependencies were delivered, too.
    #[serde(default)]
    pub decodable_blocks: u64,
    /// Not delivered: the deadline passed.
    pub expired_blocks: u64,
    /// Not delivered: cancelled by the scheduler or the application.
    pub cancelled_blocks: u64,
    /// Not delivered: refused by the session at either end.
    pub refused_blocks: u64,
    /// Not delivered: the session or the run ended before.
    pub closed_blocks: u64,
    /// Undecided: the run ended before the block was due.
    pub open_blocks: u64,
    /// Bytes of the undecided blocks.
    pub open_bytes: u64,
    /// Decided blocks that were not delivered, although some of their data arrived.
    #[serde(default)]
    pub wasted_blocks: u64,
}

impl Tally {
    /// Blocks that count in ratios: all offered ones except the undecided.
    pub fn decided_blocks(&self) -> u64 {
        self.offered_blocks.saturating_sub(self.open_blocks)
    }

    /// Completion rate: in time / decided; `None` if no block was decided.
    pub fn in_time_ratio(&self) -> Option<f64> {
        ratio(self.in_time_blocks, self.decided_blocks())
    }

    /// Decodable in time / decided; `None` if no block was decided.
    pub fn decodable_ratio(&self) -> Option<f64> {
        ratio(self.decodable_blocks, self.decided_blocks())
    }

    /// In time / delivered; `None` if nothing arrived.
    pub fn efficiency(&self) -> Option<f64> {
        ratio(self.in_time_blocks, self.delivered_blocks)
    }

    /// Delivered / decided; `None` if no block was decided.
    pub fn delivered_ratio(&self) -> Option<f64> {
        ratio(self.delivered_blocks, self.decided_blocks())
    }

    /// The sum of two tallies.
    #[must_use]
    pub fn plus(&self, other: &Tally) -> Tally {
        Tally {
            offered_blocks: self.offered_blocks + other.offered_blocks,
            offered_bytes: self.offered_bytes + other.offered_bytes,
            delivered_blocks: self.delivered_blocks + other.delivered_blocks,
            delivered_bytes: self.delivered_bytes + other.delivered_bytes,
            in_time_blocks: self.in_time_blocks + other.in_time_blocks,
            in_time_bytes: self.in_time_bytes + other.in_time_bytes,
            decodable_blocks: self.decodable_blocks + other.decodable_blocks,
            expired_blocks: self.expired_blocks + other.expired_blocks,
            cancelled_blocks: self.cancelled_blocks + other.cancelled_blocks,
            refused_blocks: self.refused_blocks + other.refused_blocks,
            closed_blocks: self.closed_blocks + other.closed_blocks,
            open_blocks: self.open_blocks + other.open_blocks,
            open_bytes: self.open_bytes + other.open_bytes,
            wasted_blocks: self.wasted_blocks + other.wasted_blocks,
        }
    }
}

/// Results of the blocks of one class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassResult {
    /// Name, unique within the flow.
    pub name: String,
    /// Lost data is repaired until it arrives.
    pub reliable: bool,
    /// Priority, 0 first.
    pub priority: u8,
    /// Number of blocks by outcome.
    pub tally: Tally,
    /// Latency: offered → delivered, of the delivered blocks.
    pub latency: Option<Percentiles>,
    /// Waiting time: offered → last byte sent for the first time, of the delivered blocks; offered
    /// → cancelled, of the cancelled ones.
    pub waiting: Option<Percentiles>,
    /// Completion rate by packets: share of the decided blocks' bytes that arrived before the
    /// deadline of their block, regardless of its outcome. `None` if no block was decided.
    pub in_time_bytes_ratio: Option<f64>,
    /// New bytes that arrived over each path, in the order of the scenario; trailing paths without
    /// bytes are omitted.
    pub path_bytes: Vec<u64>,
    /// Clairvoyant bound as if there were no other blocks; `None` for live sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Limit>,
}

impl From<Class> for ClassResult {
    fn from(Class { name, reliable, priority }: Class) -> Self {
        Self { name, reliable, priority, ..Self::default() }
    }
}

/// Results of one flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Name of the flow.
    pub name: String,
    /// Kind of the flow in scenario files, such as `video`, or the name given by a live session.
    pub kind: String,
    /// Direction of the blocks.
    pub direction: Direction,
    /// Deadline of the blocks in microseconds.
    pub deadline_us: Option<u64>,
    /// Number of all blocks by outcome.
    pub total: Tally,
    /// Results by class, only of classes with blocks.
    pub classes: Vec<ClassResult>,
    /// Completion rate by packets: share of the decided blocks' bytes that arrived before the
    /// deadline of their block, regardless of its outcome. `None` if no block was decided.
    pub in_time_bytes_ratio: Option<f64>,
    /// Clairvoyant bound as if there were no other flows; `None` for live sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Limit>,
    /// Playback, if the blocks are pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playback: Option<Playback>,
    /// User perceived ratio of a 360° video (STORM §5.5.1): bytes of the tiles in the viewport that
    /// had arrived when their picture was shown, relative to all bytes of these tiles; 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perceived_ratio: Option<f64>,
    /// Quality of the pictures as shown, if the flow has real pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<PictureQuality>,
    /// Interval between pictures in microseconds, if the blocks are pictures. Only the recorder
    /// needs it; `None` after the run.
    #[serde(skip)]
    pub picture_us: Option<u64>,
    /// Time at which each block was complete at its receiver, in microseconds from the start of the
    /// run. Only for films that were [encoded before](crate::traffic::Encoded), for a caller that
    /// decodes the received frames. Not stored in files.
    #[serde(skip)]
    pub arrivals_us: Vec<Option<u64>>,
    /// Completion rate: in time / decided; `None` if no block was decided.
    pub completion_rate: Option<f64>,
    /// Latency: offered → delivered, of the delivered blocks. See `distribution` for all blocks.
    pub latency: Option<Percentiles>,
    /// Waiting time: offered → last byte sent for the first time.
    pub waiting: Option<Percentiles>,
    /// Delay of packets: offered → packet with new bytes of the block arrived, of all such packets,
    /// regardless of the outcome of their blocks. Not recorded in live sessions.
    #[serde(default)]
    pub packet_delay: Option<Percentiles>,
    /// One-way time of packets: left → arrived, of the same packets, in steps of 4 µs. Not recorded
    /// in live sessions.
    #[serde(default)]
    pub transit: Option<Percentiles>,
    /// Longest time without a delivery, in microseconds, from the first offer. Extends to the end
    /// of the run if blocks were missing then.
    pub longest_gap_us: u64,
    /// Delivered bytes over the length of the run, in bits per second.
    pub goodput_bps: u64,
    /// Deliveries of blocks that were never offered or already delivered; any value but 0 is a
    /// defect.
    pub stray_deliveries: u64,
    /// Share of the decided blocks with a higher latency than each point. Blocks that never arrived
    /// count as slower than all.
    pub distribution: Vec<DistributionPoint>,
    /// Latency of each delivered block by offer time. Thinned to at most 4,000 points, keeping the
    /// slowest of each interval.
    pub latencies: Vec<LatencyPoint>,
    /// Offer times of blocks that never arrived, in microseconds; thinned likewise.
    pub missing_at_us: Vec<u64>,
    /// Reason for each of these; empty in records of versions that did not store it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_why: Vec<LostReason>,
    /// Blocks delivered in each sample interval.
    pub delivered_blocks: Vec<u64>,
    /// Bytes delivered in each sample interval.
    pub delivered_bytes: Vec<u64>,
}

impl FlowResult {
    /// Goodput in bits per second over the sample intervals that start within a window.
    pub fn goodput_within(&self, (from_us, to_us): (u64, u64)) -> f64 {
        let intervals = from_us.div_ceil(SAMPLE_INTERVAL_US)..to_us.div_ceil(SAMPLE_INTERVAL_US);
        let bytes: u64 = self
            .delivered_bytes
            .iter()
            .zip(0u64..)
            .filter(|(_, index)| intervals.contains(index))
            .map(|(bytes, _)| bytes)
            .sum();
        rate_bps(bytes, to_us.saturating_sub(from_us)) as f64
    }
}

/// Latency of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// Offer time in microseconds.
    pub at_us: u64,
    /// Latency in microseconds.
    pub latency_us: u64,
}

/// Returns a ratio to six decimals; `None` if the whole is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| round6(part as f64 / whole as f64))
}

/// Rounds to six decimals, so that the last digits of a quotient don't differ between machines.
pub fn round6(value: f64) -> f64 {
    // Adding 0 turns -0 into 0.
    (value * 1e6).round() / 1e6 + 0.0
}

/// Converts a share to whole thousandths; values outside 0…1 are clamped.
pub fn thousandths(share: f64) -> u16 {
    // Between 0 and 1,000; NaN becomes 0.
    (share.clamp(0.0, 1.0) * 1e3).round() as u16
}

/// Adds to a slot of a column and extends the column if necessary.
fn add_at(column: &mut Vec<u64>, slot: usize, amount: u64) {
    if column.len() <= slot {
        column.resize(slot + 1, 0);
    }
    column[slot] += amount;
}

/// Converts bytes over a time to bits per second; 0 for no time.
pub(crate) fn rate_bps(bytes: u64, over_us: u64) -> u64 {
    if over_us == 0 { 0 } else { (u128::from(bytes) * 8_000_000 / u128::from(over_us)) as u64 }
}
