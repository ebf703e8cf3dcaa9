//! What is left of an experiment when time is short.

use std::collections::BTreeMap;

use serde::Deserialize;
use squall_units::Span;
use toml::Value;

/// `[quick]` of the file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reduced {
    /// Length of a run.
    pub duration: Option<Span>,
    /// Seeds.
    pub seeds: Option<Vec<u64>>,
    /// The points that are left of some axes.
    pub points: BTreeMap<String, Vec<String>>,
}

/// `[verdict]` of the file: what its claims need and is too long for everyday.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thorough {
    /// Seeds 1 to this number decide more claims than those of the scenario.
    pub seeds: u16,
}

/// The field that makes seeds those from 1 to `last`.
pub(super) fn seeds(last: u16) -> (String, Value) {
    let seeds: Vec<Value> = (1..=last).map(|seed| Value::from(i64::from(seed))).collect();
    ("seeds".to_owned(), Value::from(seeds))
}

impl Reduced {
    /// Whether a point of an axis is still run.
    pub fn keeps(&self, axis: &str, point: &str) -> bool {
        self.points.get(axis).is_none_or(|kept| kept.iter().any(|name| name == point))
    }

    /// The fields that it sets.
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
