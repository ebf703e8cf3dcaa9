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

    /// Whether what the paper leaves open is as the scenario has it at a point.
    pub fn is_as_assumed(&self, point: &Point) -> bool {
        self.assumptions.iter().all(|assumption| !point.contains_key(&assumption.name))
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
            // They stand for what is made up.
            self.assumptions.clear();
            self.cells(false)?;
        }
        Ok(self)
    }

    /// The same experiment with the seeds of `[verdict]`. An experiment without that table stays what it is.
    pub fn thorough(mut self) -> Self {
        self.is_thorough = true;
        self
    }

    /// The scenario at every combination of the points, those of the last axis changing fastest, and at those that claims are
    /// about once more under each other value of each assumption, if not `quick`.
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
