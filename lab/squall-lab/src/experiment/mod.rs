//! Experiments: a scenario with parameters that vary, and what is claimed of the results.
//!
//! An experiment is a scenario file with more kinds of tables, which `docs/experiments.md` describes: an
//! `[[axis]]` names settings of some fields, and the scenario is run at every combination of the points of
//! all axes (a [`Cell`]); `[quick]` says what to leave out when time is short; a `[[claim]]` holds what a
//! paper, or we, say of the results; a `[[figure]]` says how to draw them. [`Study`] runs experiments and
//! remembers what was run; [`judge`] compares claims with it; the crate `squall-report` draws.

mod cell;
mod challenge;
mod claim;
mod file;
mod judge;
mod key;
mod plot;
mod record;
mod reduced;
mod resolve;
mod shard;
mod study;
mod traces;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use squall_sched::Registry;

pub use cell::{Cell, Point};
pub use challenge::Challenge;
pub use claim::{Against, Claim, Expectation, Of, Over};
pub use judge::judge;
pub use judge::verdict::{Finding, Stock, Values, Verdict};
pub use key::{Keys, program};
pub use plot::{Along, Plot, PlotKind, PlotScale, Step};
pub use record::{ReadRecordsError, Record, parse_records, read_records, record_line};
pub use reduced::{Reduced, Thorough};
pub use shard::Shard;
pub use study::{Study, StudyError, StudyProgress};

pub use crate::measure::Best;
use crate::scenario::{Scenario, ScenarioError};

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
    /// What is claimed.
    pub claims: Vec<Claim>,
    /// Figures to draw of the results.
    pub plots: Vec<Plot>,
    /// What to leave out when time is short.
    pub reduced: Reduced,
    /// What its claims need and is too long for everyday, if there is such.
    pub thorough: Option<Thorough>,
    /// Whether that is run.
    is_thorough: bool,
    /// The schedulers that are compared, of an experiment that is [challenged](Self::challenged_by).
    pub challenge: Option<Challenge>,
    /// Recordings that can stand in for what is made up: `traces` of the file.
    pub traces: toml::Table,
    /// Where they are, if they do.
    recorded: Option<PathBuf>,
    /// The text of the file.
    text: String,
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

impl Experiment {
    /// Loads an experiment. Any scenario file is one, perhaps without axes and claims.
    ///
    /// # Errors
    /// [`ScenarioError`] names the file, and where in it and what is wrong: in the scenario, in what is
    /// added to it, or in the scenario as it is at one of the points.
    pub fn load(file: &Path, registry: &Registry) -> Result<Self, ScenarioError> {
        resolve::load(file, registry)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.scenario.name
    }

    /// The [ids](Self::ids) of the experiment in a file, without loading the rest of it.
    ///
    /// # Errors
    /// As [`Self::load`], of what is read.
    pub fn ids_in(file: &Path) -> Result<Vec<String>, ScenarioError> {
        resolve::ids(file)
    }

    /// Its name, and those of the experiments that it covers too.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name()).chain(self.source.also.iter().map(String::as_str))
    }

    /// The same experiment with the recordings of `[traces]` in place, which are in this folder. An experiment
    /// without that table stays what it is.
    ///
    /// # Errors
    /// The recording that cannot be read, or does not fit.
    pub fn with_traces(mut self, folder: &Path) -> Result<Self, ScenarioError> {
        if !self.traces.is_empty() {
            self.recorded = Some(folder.to_owned());
            traces::replace_axes(&mut self, folder);
            self.cells(false)?;
        }
        Ok(self)
    }

    /// The same experiment with the seeds of `[verdict]`. An experiment without that table stays what it is.
    pub fn thorough(mut self) -> Self {
        self.is_thorough = true;
        self
    }

    /// The scenario at every combination of the points, those of the last axis changing fastest.
    ///
    /// # Errors
    /// If a trace has gone since the experiment was loaded.
    pub fn cells(&self, quick: bool) -> Result<Vec<Cell>, ScenarioError> {
        cell::cells(self, quick)
    }

    /// The cell that a record is a run of: in full, or as `[quick]` leaves it, by the length of the run. None if
    /// the file has none of its points and length any more.
    ///
    /// # Errors
    /// As [`Self::cells`].
    pub fn cell_of(&self, record: &Record) -> Result<Option<Cell>, ScenarioError> {
        let is_it =
            |cell: &Cell| cell.point == record.point && cell.scenario.duration_us == record.run.duration_us;
        match self.cells(false)?.into_iter().find(is_it) {
            Some(cell) => Ok(Some(cell)),
            None => Ok(self.cells(true)?.into_iter().find(is_it)),
        }
    }
}
