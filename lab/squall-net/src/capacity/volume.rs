//! Amounts of data over time.

use serde::{Deserialize, Serialize};
use squall_trace::Micros;

/// The capacity of a bottleneck over an interval, or at one moment if `from` and `to` are equal.
///
/// A byte that is carried at time `x` of the stretch (`from <= x < to`, or `x = from` for a moment)
/// was sent at `x` at the latest and arrives at `x + lag` at the earliest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Its start.
    pub from: Micros,
    /// Its end; equal to `from` for a single moment.
    pub to: Micros,
    /// Amount of data that it can carry.
    pub volume: Volume,
    /// Delay from the latest sending time to the earliest arrival. [`Micros::MAX`]: the data
    /// arrives with that of a later stretch, in which its packet ends.
    pub lag: Micros,
}

/// Amount of data that a stretch can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Volume {
    /// No limit.
    Unlimited,
    /// Bits per second (IP size).
    Rate(u64),
    /// Bytes in total (IP size).
    Burst(u64),
}
