//! The radios of a network's paths.

use squall_signal::Reading;
use squall_trace::Micros;

use super::{Network, mix, slot};
use crate::{
    config::{Direction, PathConfig},
    error::ConfigError,
    radio::{Air, Follower, Parts, Radio, RadioConfig},
};

/// Apart from the seeds of links and trunks.
const LEVELS: usize = 2_000;
const NOISE: usize = 3_000;

impl<T: Clone> Network<T> {
    /// Gives each path its radio, and lets its links follow it.
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
        // The links of a trace have their rate from elsewhere.
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

    /// The newest reading that the radio of a path has reported by `now`; its time is that of the measurement.
    /// `None` if the path has no radio, before the first report, and after the last of a recording.
    ///
    /// It takes nothing from [`poll_report`](Self::poll_report). Times must not decrease, as everywhere.
    pub fn report(&mut self, now: Micros, path: usize) -> Option<Reading> {
        self.radios[path].as_mut()?.report(now)
    }

    /// When the next report of any radio arrives; `None` if there is none any more.
    ///
    /// Apart from [`poll_timeout`](Self::poll_timeout), because radios go on reporting when nothing is on its
    /// way.
    pub fn next_report(&self) -> Option<Micros> {
        self.radios.iter().flatten().filter_map(Radio::next_report).min()
    }

    /// The next report that has arrived by `now`, with its path: in the order of arrival, then of paths.
    pub fn poll_report(&mut self, now: Micros) -> Option<(usize, Reading)> {
        let due = |radio: &Option<Radio>| radio.as_ref().and_then(Radio::next_report);
        let next = self.radios.iter().enumerate().filter_map(|(path, radio)| Some((due(radio)?, path))).min();
        let (_, path) = next.filter(|(at, _)| *at <= now)?;
        Some((path, self.radios[path].as_mut()?.poll_report(now)?))
    }

    /// What the links of a path follow at `now`, without noise, for logs; `None` if it has no radio. For a path
    /// whose rate was measured beside its levels, the levels are those of that time.
    pub fn air(&mut self, now: Micros, path: usize) -> Option<Air> {
        Some(self.radios[path].as_mut()?.air(now))
    }

    /// The quality index of [`air`](Self::air); `None` without radio or without levels.
    pub fn true_quality(&mut self, now: Micros, path: usize) -> Option<f64> {
        self.air(now, path)?.quality
    }
}
