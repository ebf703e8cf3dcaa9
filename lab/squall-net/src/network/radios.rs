//! The radios of a network's paths.

use squall_signal::Reading;
use squall_trace::Micros;

use super::{Network, mix, slot};
use crate::{
    config::{Direction, PathConfig},
    error::ConfigError,
    radio::{Air, Follower, Parts, Radio, RadioConfig},
};

/// Offsets that keep these seeds apart from those of links and trunks.
const LEVELS: usize = 2_000;
const NOISE: usize = 3_000;

impl<T: Clone> Network<T> {
    /// Creates the radio of each path and makes its links follow it.
    pub(super) fn equip(&mut self, paths: &[PathConfig], seed: u64) -> Result<(), ConfigError> {
        for (index, path) in paths.iter().enumerate() {
            let radio = path.check_radio().and_then(|()| {
                path.radio.as_ref().map(|radio| self.equip_path(index, radio, seed)).transpose()
            });
            let problem =
                |problem| ConfigError::Path { path: self.names[index].clone(), problem: Box::new(problem) };
            self.radios.push(radio.map_err(problem)?);
        }
        Ok(())
    }

    fn equip_path(&mut self, index: usize, config: &RadioConfig, seed: u64) -> Result<Radio, ConfigError> {
        let levels = config.seed.unwrap_or_else(|| mix(seed, LEVELS + index));
        let unread = || ConfigError::NotLoaded { field: "radio" };
        // The links of a trace have their own measured rate.
        let followers: &[Direction] = if config.is_trace() { &[] } else { &[Direction::Up, Direction::Down] };
        for &direction in followers {
            let follow = |parts| Follower::new(config, levels, parts).ok_or_else(unread);
            let route = &mut self.links[slot(index, direction)];
            match route.trunk {
                None => route.link.follow(follow(Parts::All)?),
                Some(trunk) => {
                    route.link.follow(follow(Parts::Rest)?);
                    self.trunks[trunk].follow(follow(Parts::Share)?);
                }
            }
        }
        Radio::new(config, levels, mix(seed, NOISE + index)).ok_or_else(unread)
    }

    /// Returns the newest reading of the radio of a path that has been reported by `now`; its time
    /// is that of the measurement. `None` if the path has no radio, before the first report, and
    /// after the last one of a recording.
    ///
    /// Does not affect [`poll_report`](Self::poll_report). Times must not decrease.
    pub fn report(&mut self, now: Micros, path: usize) -> Option<Reading> {
        self.radios[path].as_mut()?.report(now)
    }

    /// Returns the time of the next report of any radio; `None` after the last report.
    ///
    /// Separate from [`poll_timeout`](Self::poll_timeout), because radios report even if no packet
    /// is in a link.
    pub fn next_report(&self) -> Option<Micros> {
        self.radios.iter().flatten().filter_map(Radio::next_report).min()
    }

    /// Returns the next report that has arrived by `now`, with the index of its path, ordered by
    /// arrival, then by path.
    pub fn poll_report(&mut self, now: Micros) -> Option<(usize, Reading)> {
        let due = |radio: &Option<Radio>| radio.as_ref().and_then(Radio::next_report);
        let next = self.radios.iter().enumerate().filter_map(|(path, radio)| Some((due(radio)?, path))).min();
        let (_, path) = next.filter(|(at, _)| *at <= now)?;
        Some((path, self.radios[path].as_mut()?.poll_report(now)?))
    }

    /// Returns the true conditions of the links of a path at `now`, without noise, for logs; `None`
    /// if it has no radio. For a path whose rate was measured together with its levels, the levels
    /// are those of that time.
    pub fn air(&mut self, now: Micros, path: usize) -> Option<Air> {
        Some(self.radios[path].as_mut()?.air(now))
    }

    /// Returns the quality index of [`air`](Self::air); `None` without radio or without levels.
    pub fn true_quality(&mut self, now: Micros, path: usize) -> Option<f64> {
        self.air(now, path)?.quality
    }
}
