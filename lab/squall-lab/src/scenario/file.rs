//! The file in its written form, before defaults are filled in.

use serde::de::{self, Deserialize, Deserializer, IgnoredAny};
use squall_net::PathConfig;
use squall_proto::CongestionControl;
use squall_units::Span;

use super::{Quantity, definition::SchedulerOptions, signal::SignalTable};
use crate::flow::Direction;
use crate::measure::Measure;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) duration: Span,
    pub(super) seed: Option<u64>,
    pub(super) seeds: Option<Vec<u64>>,
    pub(super) schedulers: Vec<String>,
    #[serde(default)]
    pub(super) options: SchedulerOptions,
    #[serde(default, deserialize_with = "congestion")]
    pub(super) congestion: CongestionControl,
    #[serde(rename = "path", default)]
    pub(super) paths: Vec<PathConfig>,
    /// Each flow is read according to its kind, from the [outline](super::place::Outline).
    #[serde(rename = "flow", default)]
    pub(super) flows: Vec<IgnoredAny>,
    #[serde(default)]
    pub(super) streams: StreamsTable,
    #[serde(default)]
    pub(super) signal: SignalTable,
    #[serde(default)]
    pub(super) timed: bool,
    #[serde(rename = "check", default)]
    pub(super) checks: Vec<CheckTable>,
    /// Tables of an experiment, which are read there.
    #[serde(rename = "paper")]
    _paper: Option<de::IgnoredAny>,
    #[serde(rename = "axis")]
    pub(super) axes: Option<de::IgnoredAny>,
    #[serde(rename = "assumption")]
    _assumptions: Option<de::IgnoredAny>,
    #[serde(rename = "traces")]
    _traces: Option<de::IgnoredAny>,
    #[serde(rename = "quick")]
    _quick: Option<de::IgnoredAny>,
    #[serde(rename = "verdict")]
    _verdict: Option<de::IgnoredAny>,
    #[serde(rename = "claim")]
    _claims: Option<de::IgnoredAny>,
    #[serde(rename = "figure")]
    _figures: Option<de::IgnoredAny>,
}

fn congestion<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CongestionControl, D::Error> {
    squall_papers::controllers().build(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckTable {
    pub(super) path: Option<String>,
    pub(super) flow: Option<String>,
    pub(super) class: Option<String>,
    pub(super) measure: Measure,
    pub(super) direction: Option<Direction>,
    pub(super) from: Option<Span>,
    pub(super) to: Option<Span>,
    pub(super) at_least: Option<Quantity>,
    pub(super) at_most: Option<Quantity>,
    #[serde(default)]
    pub(super) schedulers: Vec<String>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamsTable {
    pub(super) scheduler: Option<String>,
}
