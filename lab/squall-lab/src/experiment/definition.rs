//! An experiment as data.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::claim::Claim;
use super::figure::Plot;
use super::reduced::{Reduced, Thorough};
use crate::scenario::Scenario;

/// Maximum number of combinations of the points of all axes.
pub const MAX_CELLS: usize = 1_000;

/// A scenario, parameters that vary, and claims about the results.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// File that the experiment was loaded from.
    pub file: PathBuf,
    /// Origin of the experiment.
    pub source: Source,
    /// Scenario as written in the file. Its name is that of the experiment.
    pub scenario: Scenario,
    /// Parameters that vary, in the order of the file. Empty: only the scenario is run.
    pub axes: Vec<Axis>,
    /// Set-up that the paper leaves open.
    pub assumptions: Vec<Assumption>,
    /// Claims about the results.
    pub claims: Vec<Claim>,
    /// Figures to draw of the results.
    pub plots: Vec<Plot>,
    /// Reductions for quick runs.
    pub reduced: Reduced,
    /// More seeds for the final verdict, too slow for everyday runs.
    pub thorough: Option<Thorough>,
    /// The runs use `thorough`.
    pub(super) is_thorough: bool,
    /// Schedulers compared, if the experiment is [challenged](Self::challenged_by).
    pub challenge: Option<Challenge>,
    /// Recordings that can replace synthetic inputs: `traces` of the file.
    pub traces: toml::Table,
    /// Folder of the recordings, if they are used.
    pub(super) recorded: Option<PathBuf>,
    /// The text of the file.
    pub(super) text: String,
}

/// Origin of an experiment: `[paper]` of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Source {
    /// System or paper, such as `STORM`; empty for an experiment of Squall's own.
    #[serde(rename = "system")]
    pub paper: String,
    /// Section or figure, such as `§5.2, Fig. 10`.
    pub place: String,
    /// Differences between this set-up and the paper's, in words.
    pub setup: String,
    /// Names of further experiments of the paper that the claims cover.
    pub also: Vec<String>,
    /// The paper's own system, one of the schedulers; empty if none of them is.
    pub scheduler: String,
    /// The paper's baselines over a stock transport, by the name of the corresponding Squall
    /// scheduler. Claims about the latter are also judged for the former.
    pub stock: BTreeMap<String, String>,
}

/// A parameter that varies: an `[[axis]]` of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Name, unique among the axes.
    pub name: String,
    /// Unit of the points' positions, for figures.
    #[serde(default)]
    pub unit: String,
    /// Point at which the axis stays while another axis with a base varies. Without a base, the
    /// axis is combined with all points of the others.
    pub base: Option<String>,
    /// Points, at least one.
    pub points: Vec<AxisPoint>,
}

/// One value of a parameter.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisPoint {
    /// Name, unique among the points of the axis.
    pub name: String,
    /// Position in figures, if the point is a number.
    pub at: Option<f64>,
    /// Fields of the scenario and their values, such as `path.fast.rate` and `"20mbps"`.
    pub set: toml::Table,
}

/// A parameter that the paper leaves open: an `[[assumption]]` of the file. The scenario has one
/// value; each claim is also judged with the others, one assumption at a time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// Name, different from those of the axes.
    pub name: String,
    /// The paper's statement about it.
    pub published: String,
    /// Value in the scenario, in words.
    pub ours: String,
    /// Number of seeds, from 1, for the other values. Default: the seeds of the scenario.
    pub seeds: Option<u16>,
    /// Other values, at least one.
    pub points: Vec<AxisPoint>,
}

/// Name of the point on each axis, by axis; also of the assumption, if it differs from the
/// scenario's.
pub type Point = BTreeMap<String, String>;

/// Two schedulers to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The paper's own system, as in [`Source::scheduler`].
    pub system: String,
    /// The challenger, with the suffixes that it shares with the system.
    pub challenger: String,
}
