//! What a network can carry, computed before anything is sent: the most that a sender with its future could use.
//!
//! [`bottlenecks`] lets the links of a network run without packets and writes down what they would have done for
//! some: the code that serves packets also reports its rates, opportunities, delays and outages, so the two
//! cannot disagree. The forecast is never less than what packets get. It is more in these points:
//!
//! - Random loss and full queues are left out: a sender with the future loses nothing to either.
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

/// One serialiser with the paths that share it; mostly that is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// The paths, in the order of the configuration. The clairvoyant sends each packet over the best of them.
    pub paths: Vec<usize>,
    /// The largest packet it takes at any time, in bytes (IP size).
    pub mtu: u32,
    /// What it can carry, in order of time; nothing between them.
    pub stretches: Vec<Stretch>,
}

/// What the links of one direction can carry from time 0 until `until`, bottleneck by bottleneck.
///
/// The same paths and seed as for [`Network::new`] give the future of that network.
///
/// # Errors
///
/// Those of [`Network::new`].
pub fn bottlenecks(
    paths: &[PathConfig],
    seed: u64,
    direction: Direction,
    until: Micros,
) -> Result<Vec<Bottleneck>, ConfigError> {
    // What ends at `until` itself still counts.
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
    /// A shared serialiser with the paths behind it; without one, the serialiser of the only path.
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
