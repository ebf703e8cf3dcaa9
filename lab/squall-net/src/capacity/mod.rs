//! What a network can carry, known before anything is sent: the most that whoever sees its future could use.
//!
//! [`lanes`] lets the links of a network run without packets and writes down what they would have done for
//! some: the same code that serves packets tells its rates, opportunities, delays and outages, so the two
//! cannot disagree. What is told is never less than what packets get. It is more in these points:
//!
//! - Random loss and full queues are left out: who knows the future loses nothing to either.
//! - Policers are left out too: a link that has one counts with its rate.
//! - Jitter counts as its least possible value, and a packet never waits for one before it on the line.
//! - When the delay falls, what was carried shortly before counts as arriving with what is carried after it.
//!   In truth only a packet that is being sent at that moment does.
//! - Lengths of time are cut to whole microseconds in favour of the packet; a delay on a ramp is the least of
//!   its millisecond.
//! - An opportunity of a mahimahi trace counts as 1,500 bytes, which a packet of 1,500 uses in full and smaller
//!   ones do not: each takes 4 bytes more than its size.

mod forecast;
mod reach;
mod stretch;
mod trunk;

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

use squall_units::Micros;

pub(crate) use self::forecast::{Forecast, Tree};
pub use self::reach::Reach;
use crate::{
    config::{Direction, PathConfig},
    error::ConfigError,
    network::Network,
};

/// One serialiser with the paths that share it; mostly that is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// The paths, in the order of the configuration. The clairvoyant sends each packet over the best of them.
    pub paths: Vec<usize>,
    /// The largest packet it takes, in bytes (IP size).
    pub mtu: u32,
    /// What it can carry, in order of time; nothing between them.
    pub stretches: Vec<Stretch>,
}

/// What a lane can carry for a while.
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
    /// So many bits per second (IP size).
    Rate(u64),
    /// So many bytes in all (IP size).
    Burst(u64),
}

/// What the links of one direction can carry from time 0 until `until`, lane by lane.
///
/// The same paths and seed as for [`Network::new`] tell the future of that network.
///
/// # Errors
///
/// Those of [`Network::new`].
pub fn lanes(
    paths: &[PathConfig],
    seed: u64,
    direction: Direction,
    until: Micros,
) -> Result<Vec<Lane>, ConfigError> {
    let network = Network::<()>::new(paths, seed)?;
    // What ends at `until` itself still counts.
    Ok(network.into_trees(direction, until.saturating_add(1)).iter().map(Tree::lane).collect())
}
