//! Experiments: a scenario with parameters that vary, and claims about the results.
//!
//! An experiment is a scenario file with additional tables, which `docs/experiments.md` describes.
//! An `[[axis]]` lists settings of some fields; the scenario is run at every combination of the
//! points of all axes (a [`Cell`]). `[quick]` reduces the experiment, a `[[claim]]` states a result
//! that the paper or this project claims, a `[[figure]]` defines a plot. [`Study`] runs experiments
//! and stores the results; [`judge`] compares claims with them; the crate `squall-report` draws.

mod cell;
mod challenge;
mod claim;
mod definition;
mod figure;
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

use std::path::Path;

use squall_sched::Registry;

pub use cell::Cell;
pub use claim::{Against, Claim, Evidence, Expectation, Of, Over};
pub use definition::{Assumption, Axis, AxisPoint, Challenge, Experiment, MAX_CELLS, Point, Source};
pub use figure::{Along, Plot, PlotKind, PlotScale, Step};
pub use judge::judge;
pub use judge::verdict::{Alternative, Finding, OnStock, Stock, Values, Verdict};
pub use key::{Keys, program};
pub use record::{ReadRecordsError, Record, parse_records, read_records, record_line};
pub use reduced::{Reduced, Thorough};
pub use shard::Shard;
pub use study::{Study, StudyError, StudyProgress};

pub use crate::measure::Best;
use crate::scenario::ScenarioError;

impl Experiment {
    /// Loads an experiment. Any scenario file is a valid one, without axes and claims.
    ///
    /// # Errors
    /// [`ScenarioError`] names the file, the place and the problem: in the scenario, in the
    /// additional tables, or in the scenario at one of the points.
    pub fn load(file: &Path, registry: &Registry) -> Result<Self, ScenarioError> {
        resolve::load(file, registry)
    }

    /// Name of the experiment.
    pub fn name(&self) -> &str {
        &self.scenario.name
    }

    /// Returns the [ids](Self::ids) of the experiment in a file, without loading the rest of it.
    ///
    /// # Errors
    /// As [`Self::load`], for the part that is read.
    pub fn ids_in(file: &Path) -> Result<Vec<String>, ScenarioError> {
        resolve::ids(file)
    }

    /// The name, followed by those of the other experiments that this one covers.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name()).chain(self.source.also.iter().map(String::as_str))
    }

    /// `true` if the point has the scenario's values of all assumptions.
    pub fn is_as_assumed(&self, point: &Point) -> bool {
        self.assumptions.iter().all(|assumption| !point.contains_key(&assumption.name))
    }

    /// Replaces synthetic inputs with the recordings of `[traces]` in this folder. An experiment
    /// without that table is unchanged.
    ///
    /// # Errors
    /// If a recording cannot be read or does not fit.
    pub fn with_traces(mut self, folder: &Path) -> Result<Self, ScenarioError> {
        if !self.traces.is_empty() {
            self.recorded = Some(folder.to_owned());
            traces::replace_axes(&mut self, folder);
            // The assumptions are about the inputs that the recordings replace.
            self.assumptions.clear();
            self.cells(false)?;
        }
        Ok(self)
    }

    /// Switches to the seeds of `[verdict]`. An experiment without that table is unchanged.
    pub fn thorough(mut self) -> Self {
        self.is_thorough = true;
        self
    }

    /// Returns the scenario at every combination of points, with the last axis varying fastest.
    /// Unless `quick`, the combinations that claims are about are repeated with each other value of
    /// each assumption.
    ///
    /// # Errors
    /// If a trace has disappeared since the experiment was loaded.
    pub fn cells(&self, quick: bool) -> Result<Vec<Cell>, ScenarioError> {
        cell::cells(self, quick)
    }

    /// Returns the cell that a record belongs to, in full or reduced by `[quick]`, according to the
    /// length of the run. `None` if the file no longer has such a cell.
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
