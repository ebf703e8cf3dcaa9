//! Why blocks were late or lost: the answer to `/why`.

use serde::{Deserialize, Serialize};

use super::FlowStatus;

/// Why blocks of a flow took their way, and what became of those that were late or lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WhyStatus {
    /// Seconds since the start of the program.
    pub uptime_s: f64,
    /// The flow, as in the status.
    pub flow: FlowStatus,
    /// Stories of blocks that were slow, late or not delivered, oldest first; at most 64.
    pub stories: Vec<StoryStatus>,
}

/// Bytes that a path took for a reason, over the last five minutes. With the kind `""` the sum of further rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareStatus {
    /// Name of the path.
    pub path: String,
    /// `fresh`, `repair`, `copy` or `parity`.
    pub kind: String,
    /// The reason of the scheduler.
    pub reason: String,
    /// Bytes of blocks, or of parity.
    pub bytes: u64,
}

/// What became of a block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoryStatus {
    /// Number of the story in this flow, from 1. Stories that were not kept leave gaps.
    pub number: u64,
    /// When its first datagram entered, in seconds since the start of the program; at a receiver, when it was noticed.
    pub at_s: f64,
    /// Number of the session; 0 without one.
    pub session: u64,
    /// Number of the block in its flow and session; `None` if it had none.
    pub block: Option<u64>,
    /// Its class, if known.
    pub class: String,
    /// Its bytes; 0 if unknown.
    pub bytes: u64,
    /// Its latency in milliseconds: the time that it had.
    pub latency_ms: u64,
    /// `slow`, delivered after more than half of its latency; `late`; `missing`; or its outcome as in
    /// [`SentStatus`](super::SentStatus).
    pub outcome: String,
    /// The cause in one sentence.
    pub cause: String,
    /// From `at_s` to its end, in microseconds.
    pub took_us: u64,
    /// What happened, in order.
    pub steps: Vec<StepStatus>,
    /// Further steps that were not kept.
    pub omitted: u64,
}

/// A step of a story: what the scheduler decided, or what was lost. Like steps are one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepStatus {
    /// Microseconds since [`StoryStatus::at_s`].
    pub at_us: u64,
    /// The same of the last of several like steps.
    pub until_us: u64,
    /// `fresh`, `repair`, `copy`, `parity`, `lost`, `unknown` (the path moved) or `cancel`.
    pub what: String,
    /// Name of the path; empty for `cancel`.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// The reason of the scheduler.
    pub reason: String,
    /// When the scheduler expected the data to arrive, in microseconds since [`StoryStatus::at_s`].
    pub expected_us: Option<u64>,
}
