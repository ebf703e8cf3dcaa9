//! Capacity of a network, computed before anything is sent: an upper bound for a sender with
//! perfect foresight.
//!
//! [`bottlenecks`] runs the links of a network without packets and records the service that packets
//! would have had. The code that serves packets also reports its rates, opportunities, delays and
//! outages, so the two cannot disagree. The forecast is never below the service that packets get.
//! It is above it in these points:
//!
//! - Random loss and full queues are left out: a sender with perfect foresight loses nothing to
//!   either.
//! - Policers are left out too: a link with a policer counts at its full rate.
//! - Jitter counts as its least possible value, and no packet waits behind another in flight.
//! - When the delay falls, data sent shortly before counts as arriving with the data sent after it.
//!   In reality this holds only for a packet that is being sent at that moment.
//! - Durations are rounded to whole microseconds in favour of the packet; a delay on a ramp is the
//!   least of its millisecond.
//! - An opportunity of a mahimahi trace counts as 1,500 bytes. A packet of 1,500 bytes uses it in
//!   full; smaller ones do not, because each takes 4 bytes more than its size.

mod forecast;
mod reach;
mod stretch;
mod trunk;
mod volume;

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

use squall_trace::Micros;

use self::forecast::Forecast;
pub use self::{
    reach::Reach,
    volume::{Stretch, Volume},
};
use crate::{
    config::{Direction, PathConfig},
    error::ConfigError,
    network::Network,
};

/// One serialiser with the paths that share it (usually a single one).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Indices of the paths in the configuration. The clairvoyant sends each packet over the best
    /// of them.
    pub paths: Vec<usize>,
    /// Largest packet that passes at any time, in bytes (IP size).
    pub mtu: u32,
    /// Capacity in order of time; zero between stretches.
    pub stretches: Vec<Stretch>,
}

/// Returns the capacity of the links of one direction from time 0 until `until`, per bottleneck.
///
/// With the same paths and seed as for [`Network::new`], the result is the future of that network.
///
/// # Errors
///
/// Errors of [`Network::new`].
pub fn bottlenecks(
    paths: &[PathConfig],
    seed: u64,
    direction: Direction,
    until: Micros,
) -> Result<Vec<Bottleneck>, ConfigError> {
    // A stage that ends at `until` itself still counts.
    let until = until.saturating_add(1);
    let (trunks, links) = Network::<()>::new(paths, seed)?.into_links(direction);
    let trunks: Vec<_> = trunks.into_iter().map(|trunk| Forecast::of(trunk, until)).collect();
    let mut groups: Vec<(_, Vec<_>)> = Vec::new();
    for (path, (link, trunk)) in links.into_iter().enumerate() {
        let link = (path, Forecast::of(link, until));
        match groups.iter_mut().find(|(other, _)| trunk.is_some() && *other == trunk) {
            Some((_, links)) => links.push(link),
            None => groups.push((trunk, vec![link])),
        }
    }
    let of =
        |(trunk, links): &(Option<usize>, Vec<_>)| Bottleneck::of(trunk.map(|trunk| &trunks[trunk]), links);
    Ok(groups.iter().map(of).collect())
}

impl Bottleneck {
    /// Combines a shared serialiser with the paths behind it; without a trunk, there is one path
    /// with its own serialiser.
    fn of(trunk: Option<&Forecast>, paths: &[(usize, Forecast)]) -> Self {
        let links = || paths.iter().map(|(_, link)| link);
        let own = links().map(|link| link.mtu).max().unwrap_or(0);
        let (mtu, stretches) = match trunk {
            None => (own, links().flat_map(stretch::stretches).collect()),
            Some(trunk) => {
                let mtu = trunk.mtu.min(own);
                (mtu, trunk::stretches(trunk, links(), mtu))
            }
        };
        Self { paths: paths.iter().map(|(path, _)| *path).collect(), mtu, stretches }
    }
}
