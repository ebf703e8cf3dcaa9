//! Capacity of the paths in one direction.

use squall_net::{ConfigError, Direction, PathConfig, capacity};
use squall_trace::Micros;

use super::{
    demand::Demand,
    serialiser::{PER_BYTE, Serialiser},
};

/// Stands for an unlimited number of bytes; small enough to add it up over all serialisers.
const ANY: i128 = i128::MAX >> 32;

/// The future capacity of a run's paths in one direction: all that a clairvoyant scheduler uses.
#[derive(Debug, Clone)]
pub struct Supply {
    serialisers: Vec<Serialiser>,
    duration_us: u64,
}

impl Supply {
    /// Computes the supply of a run with these paths, this seed and this length.
    ///
    /// # Errors
    ///
    /// If the configuration of a path is invalid.
    pub fn of(
        paths: &[PathConfig],
        seed: u64,
        duration_us: u64,
        direction: Direction,
    ) -> Result<Self, ConfigError> {
        let bottlenecks = capacity::bottlenecks(paths, seed, direction, duration_us)?;
        Ok(Self { serialisers: bottlenecks.into_iter().map(Serialiser::new).collect(), duration_us })
    }

    /// Limits the UDP payload on each metered path to `cap` bytes. Without a cap, nothing changes.
    #[must_use]
    pub fn capped(self, cap: Option<u64>, paths: &[PathConfig]) -> Self {
        let Some(cap) = cap else { return self };
        let is_metered = |path: usize| paths.get(path).is_some_and(|path| path.metered);
        let serialisers = self.serialisers.into_iter().map(|serialiser| serialiser.capped(cap, is_metered));
        Self { serialisers: serialisers.collect(), ..self }
    }

    /// Length of the run in microseconds.
    pub fn duration_us(&self) -> u64 {
        self.duration_us
    }

    /// Returns the maximum number of bytes of one block that can arrive by `by_us` if it is
    /// released at `from_us` and has all packets to itself. `None`: unlimited.
    pub fn most_bytes(&self, from_us: u64, by_us: u64) -> Option<u64> {
        let by_us = by_us.min(self.duration_us);
        self.serialisers
            .iter()
            .try_fold(0u64, |sum, serialiser| Some(sum.saturating_add(serialiser.most(from_us, by_us)?)))
    }

    /// Returns the minimum latency in microseconds of a block that has the network to itself.
    /// `None` if it cannot arrive before the end of the run.
    pub fn least_latency_us(&self, demand: &Demand) -> Option<u64> {
        let from = demand.release_us;
        let suffices = |latency: u64| {
            let most = self.most_bytes(from, from.saturating_add(latency));
            most.is_none_or(|bytes| bytes >= demand.size)
        };
        let longest = self.duration_us.checked_sub(from).filter(|longest| suffices(*longest))?;
        // Most blocks take milliseconds, while a run lasts minutes.
        let mut most = 1_000;
        while most < longest && !suffices(most) {
            most *= 2;
        }
        let (mut below, mut most) = (if most == 1_000 { 0 } else { most / 2 }, most.min(longest));
        while below < most {
            let middle = below.midpoint(most);
            if suffices(middle) {
                most = middle;
            } else {
                below = middle + 1;
            }
        }
        Some(most)
    }

    /// Returns the maximum number of bytes, in millionths and in packets that may be shared, that
    /// can be released from `from` on and arrive by `by`. If unlimited, far more than all blocks
    /// have.
    pub(super) fn room(&self, from: Micros, by: Micros) -> i128 {
        let most = |serialiser: &Serialiser| {
            let most = serialiser.most_shared(from, by).unwrap_or(u128::MAX);
            let cap = serialiser.cap.map_or(u128::MAX, u128::from);
            i128::try_from(most.min(cap)).unwrap_or(ANY).min(ANY)
        };
        // The sum of rounded pieces may exceed one rounded sum, by far less than a byte.
        self.serialisers.iter().map(most).sum::<i128>() + i128::from(PER_BYTE)
    }

    /// `true` if a serialiser has a cap.
    pub(super) fn is_capped(&self) -> bool {
        self.serialisers.iter().any(|serialiser| serialiser.cap.is_some())
    }

    pub(super) fn serialisers(&self) -> &[Serialiser] {
        &self.serialisers
    }
}
