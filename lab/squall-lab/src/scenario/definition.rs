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

/// Most paths of a scenario.
pub const MAX_PATHS: usize = 8;

/// Most flows of a scenario.
pub const MAX_FLOWS: usize = 64;

/// Most seeds, schedulers and checks of a scenario.
pub const MAX_LIST: usize = 1_000;

/// Longest name or scheduler in characters.
const MAX_NAME: usize = 200;

/// One experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub description: String,
    /// Length of a run in microseconds.
    pub duration_us: u64,
    /// Seeds to run each scheduler with, at least one.
    pub seeds: Vec<u64>,
    /// Schedulers to compare, at least one: labels as [`Variant::of`](crate::Variant::of) takes them.
    pub schedulers: Vec<String>,
    /// Options of these schedulers beside those of the labels, by name.
    pub options: SchedulerOptions,
    /// Congestion control of all paths.
    pub congestion: CongestionControl,
    /// The emulated paths, 1 to 8.
    pub paths: Vec<PathConfig>,
    /// The flows, at least one.
    pub flows: Vec<Flow>,
    /// What decides which channel's data is next when several wait: a stream scheduler with its options, as the registry takes it.
    pub streams: String,
    /// How sessions use the reports of radios, with schedulers that do.
    pub signal: WatermarkConfig,
    /// Whether it is measured how long the schedulers take: in real time, so that two runs differ in it.
    pub timed: bool,
    /// Whether its file is that of an experiment with axes, of which this is no point.
    pub has_axes: bool,
    /// What must hold of the results.
    pub checks: Vec<Check>,
}

/// By scheduler, the values of its options.
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

/// A scenario file that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file can't be read.
    #[error(transparent)]
    Read(#[from] FileError),
    /// Something in it is wrong.
    #[error("{name}:{line}:{column}: {problem}")]
    Invalid {
        /// The file.
        name: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong, and with which field.
        problem: String,
    },
}

impl ScenarioError {
    /// What is wrong, without the place.
    pub fn problem(&self) -> String {
        match self {
            Self::Invalid { problem, .. } => problem.clone(),
            Self::Read(_) => self.to_string(),
        }
    }
}

/// Finds fault with the name of a scenario, a path or a flow.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let length = name.chars().count();
    if name.trim().is_empty() || length > MAX_NAME || name.chars().any(char::is_control) {
        return Err(format!("name: {name:?} is not 1 to {MAX_NAME} printable characters"));
    }
    Ok(())
}
