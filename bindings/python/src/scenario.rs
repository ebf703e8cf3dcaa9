//! Scenarios.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use squall_lab::Scenario as Loaded;
use squall_lab::experiment::{Cell, Experiment, Keys, Point};
use squall_sched::Registry;
use squall_terminal::{input, output};

use crate::error::scenario as problem;

/// Data that restores a scenario in another process.
type Restore<'py> = (Bound<'py, PyAny>, (String, String, PathBuf, Point));

/// A scenario, or one point of an experiment.
#[pyclass(module = "squall.lab", frozen)]
pub(crate) struct Scenario {
    pub(crate) cell: Arc<Cell>,
    /// Name of its file in errors.
    file: String,
    /// Folder of the files that it references.
    base: PathBuf,
    keys: OnceLock<Keys>,
}

#[pymethods]
impl Scenario {
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        input::check(&path).map_err(|error| problem(output::one_line(&error)))?;
        let scenario = Loaded::load(&path).map_err(problem)?;
        let file = path.display().to_string();
        // It has just been read as a scenario, so it is short and text.
        let text = std::fs::read_to_string(&path).map_err(|error| problem(format!("{file}: {error}")))?;
        let cell = Cell { point: Point::new(), scenario, text };
        Ok(Self::new(cell, file, folder(path)))
    }

    /// Parses TOML; referenced files are in `base`, and `name` is the name of the file in errors.
    #[staticmethod]
    fn parse(text: String, name: String, base: PathBuf) -> PyResult<Self> {
        Self::restore(text, name, base, Point::new())
    }

    /// Parses the JSON of a dict with the fields of the file.
    #[staticmethod]
    fn from_json(json: &str, name: String, base: PathBuf) -> PyResult<Self> {
        let table: toml::Table =
            serde_json::from_str(json).map_err(|error| problem(format!("{name}: {error}")))?;
        Self::parse(table.to_string(), name, base)
    }

    /// Returns every point of the experiment in a file.
    #[staticmethod]
    fn cells(path: PathBuf, quick: bool) -> PyResult<Vec<Self>> {
        input::check(&path).map_err(|error| problem(output::one_line(&error)))?;
        let experiment = Experiment::load(&path, &squall_papers::registry()).map_err(problem)?;
        let cells = experiment.cells(quick).map_err(problem)?;
        let (file, base) = (path.display().to_string(), folder(path));
        Ok(cells.into_iter().map(|cell| Self::new(cell, file.clone(), base.clone())).collect())
    }

    #[staticmethod]
    fn restore(text: String, file: String, base: PathBuf, point: Point) -> PyResult<Self> {
        Ok(Self::new(Cell::load(text, &file, &base, point).map_err(problem)?, file, base))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Restore<'py>> {
        let restore = py.import("squall.lab._scenario")?.getattr("_restore")?;
        let Cell { text, point, .. } = &*self.cell;
        Ok((restore, (text.clone(), self.file.clone(), self.base.clone(), point.clone())))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.cell.scenario.name
    }

    #[getter]
    fn experiment(&self) -> &str {
        self.cell.experiment()
    }

    #[getter]
    fn point(&self) -> Point {
        self.cell.point.clone()
    }

    #[getter]
    fn description(&self) -> &str {
        &self.cell.scenario.description
    }

    #[getter]
    fn duration_us(&self) -> u64 {
        self.cell.scenario.duration_us
    }

    #[getter]
    fn seeds(&self) -> Vec<u64> {
        self.cell.scenario.seeds.clone()
    }

    #[getter]
    fn schedulers(&self) -> Vec<String> {
        self.cell.scenario.schedulers.clone()
    }

    #[getter]
    fn paths(&self) -> Vec<&str> {
        self.cell.scenario.paths.iter().map(|path| path.name.as_str()).collect()
    }

    #[getter]
    fn flows(&self) -> Vec<&str> {
        self.cell.scenario.flows.iter().map(|flow| flow.name.as_str()).collect()
    }

    #[getter]
    fn text(&self) -> &str {
        &self.cell.text
    }

    /// Returns a key of everything that determines the result of a run.
    fn key(&self, scheduler: &str, seed: u64, program: u64) -> String {
        self.keys.get_or_init(|| Keys::of(&self.cell)).key(scheduler, seed, program)
    }

    fn __repr__(&self) -> String {
        format!("<squall.lab.Scenario {:?} from {}>", self.name(), self.file)
    }
}

impl Scenario {
    fn new(cell: Cell, file: String, base: PathBuf) -> Self {
        Self { cell: Arc::new(cell), file, base, keys: OnceLock::new() }
    }

    /// Returns the error of a scheduler in the text, with its position.
    pub(crate) fn check_text(&self, registry: &Registry) -> PyResult<()> {
        Loaded::check_text(&self.cell.text, &self.file, registry).map_err(problem)
    }
}

fn folder(mut file: PathBuf) -> PathBuf {
    file.pop();
    file
}
