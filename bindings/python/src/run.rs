//! Results.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use squall_lab::experiment::{Point, Record, read_records, record_line};
use squall_lab::measure::{Measure, Subject, View};

use crate::error::Error;

/// One number of a run: its flow, class and path, the name of the measure, and its value.
type Value = (Option<String>, Option<String>, Option<String>, String, f64);

/// Result of one run.
#[pyclass(module = "squall.lab", frozen)]
pub(crate) struct Run {
    pub(crate) record: Record,
}

/// Reads the runs in a file of a results folder. An incomplete last line is skipped.
#[pyfunction]
pub(crate) fn read_runs(py: Python<'_>, file: PathBuf) -> PyResult<Vec<Run>> {
    let records =
        py.detach(move || read_records(&file)).map_err(|error| Error::new_err(error.to_string()))?;
    Ok(records.into_iter().map(|record| Run { record }).collect())
}

#[pymethods]
impl Run {
    /// Parses a line of a results folder.
    #[staticmethod]
    fn from_record(line: &str) -> PyResult<Self> {
        let record = serde_json::from_str(line).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { record })
    }

    /// Returns the line for a results folder, including its end.
    fn to_record(&self) -> String {
        record_line(&self.record)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<Self>().getattr("from_record")?, (self.to_record(),)))
    }

    #[getter]
    fn scenario(&self) -> &str {
        &self.record.run.scenario
    }

    #[getter]
    fn experiment(&self) -> &str {
        &self.record.experiment
    }

    #[getter]
    fn point(&self) -> Point {
        self.record.point.clone()
    }

    #[getter]
    fn scheduler(&self) -> &str {
        &self.record.run.scheduler
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.record.run.seed
    }

    #[getter]
    fn key(&self) -> &str {
        &self.record.key
    }

    /// `true` if all checks of the scenario that concern its scheduler passed.
    #[getter]
    fn passed(&self) -> bool {
        self.record.run.checks.iter().all(|check| check.pass)
    }

    fn to_json(&self) -> String {
        serde_json::to_string(&self.record.run).expect("records have string keys and finite numbers")
    }

    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (self.to_json(),))
    }

    #[pyo3(signature = (measure, *, flow = None, class_ = None, path = None))]
    fn measure(
        &self,
        measure: &str,
        flow: Option<String>,
        class_: Option<String>,
        path: Option<String>,
    ) -> PyResult<Option<f64>> {
        let measure: Measure = measure.parse().map_err(PyValueError::new_err)?;
        let subject = Subject { flow, class: class_, path };
        let (known, what) = (Subject::all(&self.record.run), subject.describe());
        if !known.contains(&subject) {
            let known: Vec<String> = known.iter().map(Subject::describe).collect();
            return Err(PyValueError::new_err(format!("there is no {what}, only {}", known.join("; "))));
        }
        if !subject.has(measure) {
            return Err(PyValueError::new_err(format!("{measure} is no measure of a {}", subject.kind())));
        }
        Ok(subject.measure(measure, View::default(), &self.record.run))
    }

    /// Returns all numbers, in the order of `squall-lab repro --csv`.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let run = &self.record.run;
        let values: Vec<Value> = Subject::all(run)
            .iter()
            .flat_map(|subject| {
                Measure::all().filter_map(move |measure| {
                    let value = subject.measure(measure, View::default(), run)?;
                    let Subject { flow, class, path } = subject.clone();
                    Some((flow, class, path, measure.to_string(), value))
                })
            })
            .collect();
        PyList::new(py, values)
    }

    fn __repr__(&self) -> String {
        format!("<squall.lab.Run {:?}, {}, seed {}>", self.scenario(), self.scheduler(), self.seed())
    }
}
