//! A scenario as data.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, Error};
use squall_net::PathConfig;
use squall_proto::{CongestionControl, signal::WatermarkConfig};

use crate::check::Check;
use crate::file::FileError;
use crate::flow::Flow;

/// Longest run: 24 h, in microseconds.
pub const MAX_DURATION_US: u64 = 86_400_000_000;

/// Maximum number of paths of a scenario.
pub const MAX_PATHS: usize = 8;

/// Maximum number of flows of a scenario.
pub const MAX_FLOWS: usize = 64;

/// Maximum number of seeds, of schedulers and of checks of a scenario.
pub const MAX_LIST: usize = 1_000;

/// Maximum length of a name or scheduler in characters.
const MAX_NAME: usize = 200;

/// One emulated session with its paths and flows.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Name of the scenario.
    pub name: String,
    /// Purpose of the scenario.
    pub description: String,
    /// Length of a run in microseconds.
    pub duration_us: u64,
    /// Seeds to run each scheduler with, at least one.
    pub seeds: Vec<u64>,
    /// Schedulers to compare, at least one: labels as for [`Variant::of`](crate::Variant::of).
    pub schedulers: Vec<String>,
    /// Options of the schedulers in addition to those in the labels, by name.
    pub options: SchedulerOptions,
    /// Congestion control of all paths.
    pub congestion: CongestionControl,
    /// Emulated paths, 1 to 8.
    pub paths: Vec<PathConfig>,
    /// Flows, at least one.
    pub flows: Vec<Flow>,
    /// Stream scheduler with its options, as for the registry. It decides which channel's data is
    /// next when several wait.
    pub streams: String,
    /// Use of radio reports by sessions, with schedulers that use them.
    pub signal: WatermarkConfig,
    /// The processor time of the schedulers is measured in real time, so it differs between runs.
    pub timed: bool,
    /// The file is that of an experiment with axes, and this scenario is not one of its points.
    pub has_axes: bool,
    /// Checks of the results.
    pub checks: Vec<Check>,
}

/// Values of options, by scheduler and option.
pub type SchedulerOptions = BTreeMap<String, BTreeMap<String, OptionValue>>;

/// The value of a scheduler's option: a text, a number or a boolean, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionValue(pub(super) String);

impl<'de> Deserialize<'de> for OptionValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Self(text)),
            value @ (toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_)) => {
                Ok(Self(value.to_string()))
            }
            other => Err(D::Error::custom(format!("expected a text, number or boolean, found {other}"))),
        }
    }
}

/// Errors of scenario files.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file can't be read.
    #[error(transparent)]
    Read(#[from] FileError),
    /// The content is invalid.
    #[error("{name}:{line}:{column}: {problem}")]
    Invalid {
        /// Name of the file.
        name: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// Description of the problem, with the field.
        problem: String,
    },
}

impl ScenarioError {
    /// Returns the description of the problem, without the place.
    pub fn problem(&self) -> String {
        match self {
            Self::Invalid { problem, .. } => problem.clone(),
            Self::Read(_) => self.to_string(),
        }
    }
}

/// Checks the name of a scenario, a path or a flow.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let length = name.chars().count();
    if name.trim().is_empty() || length > MAX_NAME || name.chars().any(char::is_control) {
        return Err(format!("name: {name:?} is not 1 to {MAX_NAME} printable characters"));
    }
    Ok(())
}
