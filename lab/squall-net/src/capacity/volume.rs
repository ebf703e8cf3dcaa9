//! How much is carried, and when.

use serde::{Deserialize, Serialize};
use squall_trace::Micros;

/// What a bottleneck can carry for a while.
///
/// A byte that is carried at a moment `x` of the stretch (`from <= x < to`, or `x = from` of a moment, where
/// both are equal) was handed over at `x` at the latest, and is there at `x + lag` at the earliest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Its begin.
    pub from: Micros,
    /// Its end, or its begin if it is a moment.
    pub to: Micros,
    /// How much it can carry.
    pub volume: Volume,
    /// From the latest time to hand over to the earliest arrival. [`Micros::MAX`]: what is carried here arrives
    /// with what is carried in a later stretch, as its packet ends there.
    pub lag: Micros,
}

/// How much a stretch can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Volume {
    /// Whatever is there.
    Unlimited,
    /// Bits per second (IP size).
    Rate(u64),
    /// Bytes in all (IP size).
    Burst(u64),
}
