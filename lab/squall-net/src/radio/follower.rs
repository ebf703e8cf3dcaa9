//! Conditions of a link over time.

use squall_signal::{QualityIndex, Technology};
use squall_trace::Micros;
use squall_units::{Ratio, Time};

use super::{
    CellularMap, Lead, Levels, RadioConfig, Source, WifiMap,
    conditions::{Air, Conditions},
    course::Course,
};
use crate::time::{NEVER, Nanos, micros_before, nanos};

/// Function from levels to conditions.
#[derive(Debug, Clone)]
enum Map {
    Cellular(CellularMap),
    Wifi(WifiMap),
    /// None: the link has a measured rate.
    None,
}

impl Map {
    fn of(config: &RadioConfig) -> Self {
        match (&config.source, config.technology()) {
            (Source::Trace(_), _) => Self::None,
            (_, Technology::Wifi) => Self::Wifi(config.wifi),
            _ => Self::Cellular(config.cellular),
        }
    }

    fn conditions(&self, levels: &Levels) -> Conditions {
        match self {
            Self::Cellular(map) => map.conditions(levels),
            Self::Wifi(map) => map.conditions(levels),
            Self::None => Conditions::FULL,
        }
    }
}

/// The part of the conditions that a link follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    All,
    /// The share only: for a serialiser that several paths have in common.
    Share,
    /// Loss and outages only: for a path behind such a serialiser.
    Rest,
}

/// The conditions of one link over time.
#[derive(Debug, Clone)]
pub(crate) struct Follower {
    course: Course,
    map: Map,
    lead: Lead,
    technology: Technology,
    parts: Parts,
    levels: Levels,
    conditions: Conditions,
    /// Time until which the conditions hold, by the link's clock.
    until: Micros,
}

impl Follower {
    /// Returns `None` if a file has not been loaded.
    pub(crate) fn new(config: &RadioConfig, seed: u64, parts: Parts) -> Option<Self> {
        let map = Map::of(config);
        // With a measured rate, the lead moves the reports instead.
        let lead = if matches!(map, Map::None) { Lead::default() } else { config.lead };
        let mut follower = Self {
            course: Course::new(&config.source, seed)?,
            map,
            lead,
            technology: config.technology(),
            parts,
            levels: Levels::default(),
            conditions: Conditions::FULL,
            until: 0,
        };
        follower.advance(0);
        Some(follower)
    }

    /// Returns the time of the next possible change of the conditions.
    pub(crate) fn next(&self) -> Nanos {
        if self.until == Micros::MAX { NEVER } else { nanos(self.until) }
    }

    /// Returns the conditions at `at`, which must not decrease.
    pub(crate) fn conditions(&mut self, at: Nanos) -> Conditions {
        self.advance(micros_before(at));
        self.conditions
    }

    /// Returns the true levels and conditions of the link at `now`.
    pub(crate) fn air(&mut self, now: Micros) -> Air {
        self.advance(now);
        let reading = self.levels.reading(Time::from_micros(now), self.technology);
        let quality = QualityIndex::default().base(&reading);
        Air { levels: self.levels, conditions: self.conditions, quality }
    }

    fn advance(&mut self, now: Micros) {
        if now < self.until {
            return;
        }
        let (levels, until) = self.course.at(self.lead.before(now));
        self.levels = levels;
        self.until = self.lead.after(until);
        let all = self.map.conditions(&levels);
        self.conditions = match self.parts {
            Parts::All => all,
            // For the links behind it, a stalled trunk equals an outage.
            Parts::Share => Conditions { share: all.share, ..Conditions::FULL },
            Parts::Rest => Conditions { share: Ratio::ONE, ..all },
        };
    }
}
