//! Variants of an experiment with shorter or longer runs.

use std::collections::BTreeMap;

use serde::Deserialize;
use squall_units::Span;
use toml::Value;

/// Reductions for quick runs: `[quick]` of the file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reduced {
    /// Length of a run.
    pub duration: Option<Span>,
    /// Seeds.
    pub seeds: Option<Vec<u64>>,
    /// Points to keep, for some of the axes.
    pub points: BTreeMap<String, Vec<String>>,
}

/// More seeds for the final verdict, too slow for everyday runs: `[verdict]` of the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thorough {
    /// Number of seeds, from 1, instead of those of the scenario. More seeds decide more claims.
    pub seeds: u16,
}

/// Returns the field that sets the seeds to 1 to `last`.
pub(super) fn seeds(last: u16) -> (String, Value) {
    let seeds: Vec<Value> = (1..=last).map(|seed| Value::from(i64::from(seed))).collect();
    ("seeds".to_owned(), Value::from(seeds))
}

impl Reduced {
    /// `true` if a point of an axis is kept.
    pub fn keeps(&self, axis: &str, point: &str) -> bool {
        self.points.get(axis).is_none_or(|kept| kept.iter().any(|name| name == point))
    }

    /// Fields to set in the scenario.
    pub(super) fn settings(&self) -> Vec<(String, Value)> {
        let duration =
            self.duration.map(|duration| ("duration".to_owned(), Value::from(duration.to_string())));
        let seeds = self.seeds.as_ref().map(|seeds| {
            let seeds: Vec<Value> = seeds.iter().map(|seed| Value::from(*seed as i64)).collect();
            ("seeds".to_owned(), Value::from(seeds))
        });
        duration.into_iter().chain(seeds).collect()
    }
}
