//! Causes of late and lost blocks: the answer to `/why`.

use serde::{Deserialize, Serialize};

use super::FlowStatus;

/// Scheduling decisions for the blocks of a flow, and the stories of those that were late or lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WhyStatus {
    /// Seconds since the start of the program.
    pub uptime_s: f64,
    /// Status of the flow.
    pub flow: FlowStatus,
    /// Stories of blocks that were slow, late or not delivered, oldest first; at most 64.
    pub stories: Vec<StoryStatus>,
}

/// Bytes that a path carried for a reason, over the last five minutes. The row with kind `""` is
/// the sum of further rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareStatus {
    /// Name of the path.
    pub path: String,
    /// `fresh`, `repair`, `copy` or `parity`.
    pub kind: String,
    /// Reason given by the scheduler.
    pub reason: String,
    /// Bytes of blocks, or of parity.
    pub bytes: u64,
}

/// Story of a block that was slow, late or not delivered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoryStatus {
    /// Number of the story in this flow, from 1. Stories that were not kept leave gaps.
    pub number: u64,
    /// Time at which its first datagram entered, in seconds since the start of the program; at a
    /// receiver, the time of detection.
    pub at_s: f64,
    /// Number of the session; 0 without one.
    pub session: u64,
    /// Number of the block in its flow and session; `None` if it had none.
    pub block: Option<u64>,
    /// Class of the block, if known.
    pub class: String,
    /// Bytes of the block; 0 if unknown.
    pub bytes: u64,
    /// Latency of the flow in milliseconds.
    pub latency_ms: u64,
    /// `slow`, delivered after more than half of its latency; `late`; `missing`; or its outcome as
    /// in [`SentStatus`](super::SentStatus).
    pub outcome: String,
    /// Cause in one sentence.
    pub cause: String,
    /// Time from `at_s` to its end, in microseconds.
    pub took_us: u64,
    /// Steps in order.
    pub steps: Vec<StepStatus>,
    /// Number of further steps that were not kept.
    pub omitted: u64,
}

/// Step of a story: a decision of the scheduler, or a loss. Similar steps are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepStatus {
    /// Microseconds since [`StoryStatus::at_s`].
    pub at_us: u64,
    /// End of the step: the time of the last merged one, in microseconds since
    /// [`StoryStatus::at_s`].
    pub until_us: u64,
    /// `fresh`, `repair`, `copy`, `parity`, `lost`, `unknown` (the path was rebound) or `cancel`.
    pub what: String,
    /// Name of the path; empty for `cancel`.
    pub path: String,
    /// Bytes of the step.
    pub bytes: u64,
    /// Reason given by the scheduler.
    pub reason: String,
    /// Arrival of the data as expected by the scheduler, in microseconds since
    /// [`StoryStatus::at_s`].
    pub expected_us: Option<u64>,
}
