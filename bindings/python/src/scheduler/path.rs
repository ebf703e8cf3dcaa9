//! Paths for schedulers in Python.

use pyo3::prelude::*;
use squall_sched::PathView;

/// A path at one moment; [`PathView`] documents the fields.
#[pyclass(module = "squall.lab", frozen)]
pub(crate) struct Path {
    view: PathView,
    #[pyo3(get)]
    pub(super) id: u8,
    #[pyo3(get)]
    state: &'static str,
    #[pyo3(get)]
    usable: bool,
    #[pyo3(get)]
    srtt: u64,
    #[pyo3(get)]
    latest_rtt: u64,
    #[pyo3(get)]
    rtt_dev: u64,
    #[pyo3(get)]
    owd: u64,
    #[pyo3(get)]
    loss: f64,
    #[pyo3(get)]
    window: u64,
    #[pyo3(get)]
    in_flight: u64,
    #[pyo3(get)]
    waiting: u64,
    #[pyo3(get)]
    chunk: u32,
    #[pyo3(get)]
    bandwidth: u64,
    #[pyo3(get)]
    rate: u64,
    #[pyo3(get)]
    factor: f64,
    #[pyo3(get)]
    metered: bool,
    #[pyo3(get)]
    budget: Option<u64>,
}

impl Path {
    pub(super) fn of(view: &PathView) -> Self {
        Self {
            view: view.clone(),
            id: view.id.0,
            state: view.state.name(),
            usable: view.usable,
            srtt: view.srtt.micros(),
            latest_rtt: view.latest_rtt.micros(),
            rtt_dev: view.rtt_dev.micros(),
            owd: view.owd.micros(),
            loss: view.loss,
            window: view.window,
            in_flight: view.in_flight,
            waiting: view.waiting,
            chunk: view.chunk,
            bandwidth: view.bandwidth,
            rate: view.rate,
            factor: view.factor,
            metered: view.metered,
            budget: view.budget,
        }
    }
}

#[pymethods]
impl Path {
    #[getter]
    fn room(&self) -> u64 {
        self.view.room()
    }

    #[getter]
    fn has_room(&self) -> bool {
        self.view.has_room()
    }

    #[getter]
    fn is_open(&self) -> bool {
        self.view.is_open()
    }

    fn arrives_in(&self, bytes: u64) -> u64 {
        self.view.arrives_in(bytes).micros()
    }

    fn __repr__(&self) -> String {
        format!(
            "<squall.lab.Path {}, {}, srtt {} us, room {} B>",
            self.id,
            self.state,
            self.srtt,
            self.room()
        )
    }
}
