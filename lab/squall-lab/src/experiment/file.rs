//! Tables that an experiment file adds to a scenario, in their written form.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Assumption, Axis, Reduced, Source, Thorough};
use crate::measure::Measure;
use crate::scenario::Quantity;

/// Tables of an experiment. The other tables of the file belong to the scenario, which rejects
/// unknown ones.
#[derive(Debug, Deserialize)]
pub(super) struct ExperimentFile {
    #[serde(rename = "paper", default)]
    pub(super) source: Source,
    #[serde(rename = "axis", default)]
    pub(super) axes: Vec<Axis>,
    #[serde(rename = "assumption", default)]
    pub(super) assumptions: Vec<Assumption>,
    #[serde(default)]
    pub(super) traces: toml::Table,
    #[serde(rename = "quick", default)]
    pub(super) reduced: Reduced,
    #[serde(rename = "verdict")]
    pub(super) thorough: Option<Thorough>,
    #[serde(rename = "claim", default)]
    pub(super) claims: Vec<ClaimTable>,
    #[serde(rename = "figure", default)]
    pub(super) plots: Vec<PlotTable>,
}

/// The part of a file that lists the experiments of a paper that it covers.
#[derive(Debug, Deserialize)]
pub(super) struct IdsFile {
    pub(super) name: String,
    #[serde(rename = "paper", default)]
    pub(super) source: Source,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimTable {
    pub(super) id: Option<String>,
    pub(super) says: String,
    #[serde(default)]
    pub(super) at: BTreeMap<String, String>,
    pub(super) each: Option<String>,
    #[serde(default)]
    pub(super) over: super::Over,
    #[serde(default)]
    pub(super) of: super::Of,
    pub(super) measure: Measure,
    pub(super) flow: Option<String>,
    pub(super) class: Option<String>,
    pub(super) path: Option<String>,
    pub(super) scheduler: String,
    pub(super) against: Option<String>,
    #[serde(default)]
    pub(super) against_at: BTreeMap<String, String>,
    pub(super) against_class: Option<String>,
    pub(super) value: Option<Quantity>,
    pub(super) change: Option<f64>,
    pub(super) change_at_least: Option<f64>,
    pub(super) times: Option<f64>,
    pub(super) difference: Option<Quantity>,
    pub(super) is: Option<super::claim::Way>,
    pub(super) best: Option<super::Best>,
    pub(super) at_least: Option<Quantity>,
    pub(super) at_most: Option<Quantity>,
    #[serde(default)]
    pub(super) finding: String,
    #[serde(default)]
    pub(super) evidence: BTreeMap<String, EvidenceTable>,
}

/// Omitted fields are those of the claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EvidenceTable {
    pub(super) scheduler: Option<String>,
    #[serde(default)]
    pub(super) at: BTreeMap<String, String>,
    pub(super) measure: Option<Measure>,
    pub(super) flow: Option<String>,
    pub(super) class: Option<String>,
    pub(super) path: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlotTable {
    pub(super) title: String,
    #[serde(default)]
    pub(super) kind: KindWord,
    pub(super) x: Option<String>,
    pub(super) measure: Option<Measure>,
    pub(super) measures: Option<Vec<Measure>>,
    pub(super) classes: Option<Vec<String>>,
    pub(super) flow: Option<String>,
    pub(super) class: Option<String>,
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) at: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) schedulers: Vec<String>,
    pub(super) scale: Option<super::PlotScale>,
    #[serde(default)]
    pub(super) steps: Vec<super::Step>,
    #[serde(default)]
    pub(super) paper: BTreeMap<String, Vec<Quantity>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KindWord {
    #[default]
    Values,
    Ladder,
    Tail,
    Cdf,
}
