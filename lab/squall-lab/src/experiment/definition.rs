//! An experiment as data.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::claim::Claim;
use super::figure::Plot;
use super::reduced::{Reduced, Thorough};
use crate::scenario::Scenario;

/// Most combinations of the points of all axes.
pub const MAX_CELLS: usize = 1_000;

/// A scenario, what varies, and what is claimed.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// The file it is from.
    pub file: PathBuf,
    /// What it is about.
    pub source: Source,
    /// The scenario as it stands in the file. Its name is that of the experiment.
    pub scenario: Scenario,
    /// What varies, in the order of the file; none: the scenario alone is run.
    pub axes: Vec<Axis>,
    /// What the paper leaves open.
    pub assumptions: Vec<Assumption>,
    /// What is claimed.
    pub claims: Vec<Claim>,
    /// Figures to draw of the results.
    pub plots: Vec<Plot>,
    /// What to leave out when time is short.
    pub reduced: Reduced,
    /// What its claims need and is too long for everyday, if there is such.
    pub thorough: Option<Thorough>,
    /// Whether that is run.
    pub(super) is_thorough: bool,
    /// The schedulers that are compared, of an experiment that is [challenged](Self::challenged_by).
    pub challenge: Option<Challenge>,
    /// Recordings that can stand in for what is made up: `traces` of the file.
    pub traces: toml::Table,
    /// Where they are, if they do.
    pub(super) recorded: Option<PathBuf>,
    /// The text of the file.
    pub(super) text: String,
}

/// Where an experiment comes from: `[paper]` of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Source {
    /// The system or paper: `STORM`; empty for an experiment of our own.
    #[serde(rename = "system")]
    pub paper: String,
    /// Where in it: `§5.2, Fig. 10`.
    pub place: String,
    /// How our set-up differs from the one of the paper, in words.
    pub setup: String,
    /// Names of further experiments of the paper that its claims cover.
    pub also: Vec<String>,
    /// The paper's own system, one of the schedulers; empty if it is none of them.
    pub scheduler: String,
    /// The baselines as the paper had them, over a stock transport, by the name of Squall's: claims about the latter are
    /// judged for the former as well.
    pub stock: BTreeMap<String, String>,
}

/// A parameter that varies: an `[[axis]]` of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Unit of the points' places on it, for drawings.
    #[serde(default)]
    pub unit: String,
    /// The point that it stays at while another axis with such a point varies; without it the axis is combined with
    /// all points of the others.
    pub base: Option<String>,
    /// Its values, at least one.
    pub points: Vec<AxisPoint>,
}

/// One value of a parameter.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisPoint {
    /// Its name.
    pub name: String,
    /// Where it is drawn, if it is a number.
    pub at: Option<f64>,
    /// Fields of the scenario and their values: `path.fast.rate` and `"20mbps"`.
    pub set: toml::Table,
}

/// What the paper leaves open, an `[[assumption]]` of the file: the scenario has one value of it, and each claim is judged
/// under the others as well, one assumption at a time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// Its name, that of no axis.
    pub name: String,
    /// What the paper states of it.
    pub published: String,
    /// The value that the scenario has, in words.
    pub ours: String,
    /// Seeds 1 to this number are run with the other values; those of the scenario by default.
    pub seeds: Option<u16>,
    /// The other values, at least one.
    pub points: Vec<AxisPoint>,
}

/// The point of each axis, and of the assumption that is another one than the scenario's, by their names.
pub type Point = BTreeMap<String, String>;

/// The two schedulers that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The paper's own system, as [`Source::scheduler`] names it.
    pub system: String,
    /// The scheduler that is compared with it, with the suffixes that it shares with the system.
    pub challenger: String,
}
