//! Result records: what one run measured, as plain data.
//!
//! A record holds integers (microseconds, bytes, bits per second) and ratios rounded to six decimals, in
//! vectors and ordered maps, and no wall-clock time: identical runs give byte-identical JSON.

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

/// Everything one run measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Name of the scenario.
    pub scenario: String,
    /// The scheduler with its options, as it was asked for.
    pub scheduler: String,
    /// Congestion control of all paths.
    pub congestion: String,
    /// Seed of the run.
    pub seed: u64,
    /// Version of the program that ran it.
    pub version: String,
    /// Length of the run in microseconds.
    pub duration_us: u64,
    /// Direction that most samples of the paths are about.
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
    /// How long the schedulers of both ends took, in nanoseconds of real time, if it was measured: the only number
    /// that differs when a run is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_ns: Option<u64>,
    /// The clairvoyant bound of each direction that had blocks; a live session has none, as what its networks
    /// could have carried is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<DirectionBound>,
    /// What the scenario's checks found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Verdict>,
    /// Measures from elsewhere, such as the stalls of a media player; numbers are rounded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Extra>,
}

impl RunResult {
    /// Block bytes sent again, after a loss or before one is certain, as a share of all bytes that the sender of
    /// most flows sent, 0 to 1; `None` if it sent nothing.
    pub fn retransmission_ratio(&self) -> Option<f64> {
        let again = self.paths.iter().map(|p| p.totals.retransmitted_bytes + p.totals.reinjected_bytes).sum();
        let sent: u64 = self.paths.iter().map(|path| path.sent_bytes(self.direction)).sum();
        ratio(again, sent)
    }

    /// The run without its series over time and its single blocks: a few kilobytes instead of hundreds.
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

    /// Packets that either end declared lost, over all paths.
    pub fn lost_packets(&self) -> u64 {
        self.paths.iter().map(|path| path.totals.lost_packets).sum()
    }
}

/// What a check of the scenario found; `check` judges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The check in words: target, measure and part of the run.
    pub check: String,
    /// What was measured.
    pub measured: String,
    /// What was asked for.
    pub limit: String,
    /// Whether the measure was within its limits.
    pub pass: bool,
}

/// What no scheduler could have surpassed in one direction of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionBound {
    /// Which end sent the blocks.
    pub direction: Direction,
    /// For the blocks of all flows together.
    pub bound: Bound,
}

/// A measure from elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Extra {
    /// A number, in the unit that its name says.
    Number(f64),
    /// Anything else.
    Text(String),
}

impl From<f64> for Extra {
    /// Rounds; what is not finite, such as the PSNR of equal pictures, becomes text, as JSON has no number
    /// for it.
    fn from(value: f64) -> Self {
        if value.is_finite() { Extra::Number(round6(value)) } else { Extra::Text(value.to_string()) }
    }
}

impl From<&str> for Extra {
    fn from(value: &str) -> Self {
        Extra::Text(value.to_owned())
    }
}

/// Why a block was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LostReason {
    /// Its deadline passed.
    Expired,
    /// The scheduler or the application gave it up.
    Cancelled,
    /// The session at either end would not take it.
    Refused,
    /// The session or the run ended first.
    Closed,
}

/// Blocks by fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Blocks handed over by the application.
    pub offered_blocks: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Blocks that reached the receiver whole.
    pub delivered_blocks: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Delivered before their deadline; without a deadline, delivered.
    pub in_time_blocks: u64,
    /// Their bytes.
    pub in_time_bytes: u64,
    /// Delivered before their deadline, and all that they need, directly or through others, before that too; without a
    /// deadline, delivered with all that they need.
    #[serde(default)]
    pub decodable_blocks: u64,
    /// Not delivered: the deadline passed.
    pub expired_blocks: u64,
    /// Not delivered: cancelled by the scheduler or the application.
    pub cancelled_blocks: u64,
    /// Not delivered: the session at either end would not take it.
    pub refused_blocks: u64,
    /// Not delivered: the session or the run ended first.
    pub closed_blocks: u64,
    /// Undecided: the run ended before they were due.
    pub open_blocks: u64,
    /// Their bytes.
    pub open_bytes: u64,
    /// Neither delivered nor undecided, though some of their data arrived.
    #[serde(default)]
    pub wasted_blocks: u64,
}

impl Tally {
    /// Blocks that are counted in ratios: all that were offered, without those that the run left undecided.
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

/// The blocks of one class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassResult {
    /// What they are, unique within the flow.
    pub name: String,
    /// Whether lost data is repaired until it arrives.
    pub reliable: bool,
    /// Priority, 0 first.
    pub priority: u8,
    /// What became of them.
    pub tally: Tally,
    /// Offered → delivered, of the delivered blocks.
    pub latency: Option<Percentiles>,
    /// Waiting time: offered → last byte sent for the first time, of the blocks that were delivered, and until a block was
    /// cancelled, of those that were.
    pub waiting: Option<Percentiles>,
    /// Bytes that arrived before the deadline of their block, whatever became of it, as a share of those
    /// of the decided blocks: completion rate by packets. `None` if no block was decided.
    pub in_time_bytes_ratio: Option<f64>,
    /// New bytes that arrived over each path, in the order of the scenario; shorter if the last carried none.
    pub path_bytes: Vec<u64>,
    /// What no scheduler could have surpassed, had there been no other blocks; a live session has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Limit>,
}

impl From<Class> for ClassResult {
    fn from(Class { name, reliable, priority }: Class) -> Self {
        Self { name, reliable, priority, ..Self::default() }
    }
}

/// What became of one flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// `video`, `blocks`, `bulk`, or what a live session calls it.
    pub kind: String,
    /// Which end sent.
    pub direction: Direction,
    /// Deadline of its blocks in microseconds.
    pub deadline_us: Option<u64>,
    /// All blocks.
    pub total: Tally,
    /// The same by class, those that had blocks.
    pub classes: Vec<ClassResult>,
    /// Bytes that arrived before the deadline of their block, whatever became of it, as a share of those
    /// of the decided blocks: completion rate by packets. `None` if no block was decided.
    pub in_time_bytes_ratio: Option<f64>,
    /// What no scheduler could have surpassed, had there been no other flows; a live session has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Limit>,
    /// What a player showed, if the blocks are pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playback: Option<Playback>,
    /// User perceived ratio of a 360° video (STORM §5.5.1): bytes of the tiles in front of the viewer that were there
    /// when their picture was shown, over the bytes of the same tiles in full; 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perceived_ratio: Option<f64>,
    /// How good the pictures were that a viewer saw, if the flow has real ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<PictureQuality>,
    /// Time from one picture to the next in microseconds, if its blocks are pictures; none after the run, as only the
    /// recorder needs it.
    #[serde(skip)]
    pub picture_us: Option<u64>,
    /// By block, when it was whole at its receiver, in microseconds from the start of the run; only of a film that was
    /// [encoded before](crate::traffic::Encoded), for a caller that decodes the frames that arrived. No file has it.
    #[serde(skip)]
    pub arrivals_us: Vec<Option<u64>>,
    /// Completion rate: in time / decided; `None` if no block was decided.
    pub completion_rate: Option<f64>,
    /// Offered → delivered, of the delivered blocks. See `distribution` for all.
    pub latency: Option<Percentiles>,
    /// Waiting time: offered → last byte sent for the first time.
    pub waiting: Option<Percentiles>,
    /// Offered → packet with new bytes of the block arrived, of all packets that did, whatever became of
    /// their blocks. A live session does not record it.
    #[serde(default)]
    pub packet_delay: Option<Percentiles>,
    /// Packet left → arrived, of the same packets, in steps of 4 µs. A live session does not record it.
    #[serde(default)]
    pub transit: Option<Percentiles>,
    /// Longest time without a delivery, in microseconds: from the first offer, and up to the end of the run
    /// if blocks were missing then.
    pub longest_gap_us: u64,
    /// Delivered bytes over the length of the run, in bits per second.
    pub goodput_bps: u64,
    /// Deliveries of blocks that were never offered or already delivered; anything but 0 is a defect.
    pub stray_deliveries: u64,
    /// Share of the decided blocks that took longer than each latency; the ones that never arrived took
    /// longer than all.
    pub distribution: Vec<DistributionPoint>,
    /// Latency of each delivered block over the time it was offered; thinned to 4,000 points at most, the
    /// slowest of each interval kept.
    pub latencies: Vec<LatencyPoint>,
    /// When blocks that never arrived were offered, in microseconds; thinned likewise.
    pub missing_at_us: Vec<u64>,
    /// Why, for each of these; empty in records of programs that did not note it.
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

/// The latency of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// When it was offered, in microseconds.
    pub at_us: u64,
    /// How long it took, in microseconds.
    pub latency_us: u64,
}

/// A part of a whole to six decimals; `None` of nothing, which is no share at all.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| round6(part as f64 / whole as f64))
}

/// Rounds to six decimals, so that the last digits of a quotient don't differ between machines.
pub fn round6(value: f64) -> f64 {
    // Adding 0 turns -0 into 0.
    (value * 1e6).round() / 1e6 + 0.0
}

/// A share as whole thousandths; what is beyond 0…1 counts as its nearer end.
pub fn thousandths(share: f64) -> u16 {
    // Between 0 and 1,000; what is no number becomes 0.
    (share.clamp(0.0, 1.0) * 1e3).round() as u16
}

/// Adds to a place of a column, which grows up to it if it is shorter.
fn add_at(column: &mut Vec<u64>, slot: usize, amount: u64) {
    if column.len() <= slot {
        column.resize(slot + 1, 0);
    }
    column[slot] += amount;
}

/// Bytes over a time as bits per second; 0 for no time.
pub(crate) fn rate_bps(bytes: u64, over_us: u64) -> u64 {
    if over_us == 0 { 0 } else { (u128::from(bytes) * 8_000_000 / u128::from(over_us)) as u64 }
}
