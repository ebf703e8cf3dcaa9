//! The stalls of a network's paths.

use super::{Network, mix, slot};
use crate::{
    config::{Direction, PathConfig},
    error::ConfigError,
    stall::{self, Stalls},
};

/// Offset that keeps these seeds apart from those of links, trunks and radios.
const STALLS: usize = 4_000;

impl<T: Clone> Network<T> {
    /// Makes the links of each path stall, both directions at the same times.
    pub(super) fn stall(&mut self, paths: &[PathConfig], seed: u64) -> Result<(), ConfigError> {
        for (index, path) in paths.iter().enumerate().filter(|(_, path)| !path.stalls.is_empty()) {
            let problem =
                |problem| ConfigError::Path { path: self.names[index].clone(), problem: Box::new(problem) };
            stall::check(&path.stalls, [&path.up.rate, &path.down.rate]).map_err(problem)?;
            for direction in [Direction::Up, Direction::Down] {
                let route = &mut self.links[slot(index, direction)];
                if route.trunk.is_some() {
                    let words = "a path that shares a bottleneck cannot have any".to_owned();
                    return Err(problem(ConfigError::Field { field: "stalls".into(), problem: words }));
                }
                route.link.stall(Stalls::new(&path.stalls, mix(seed, STALLS + index)));
            }
        }
        Ok(())
    }
}
