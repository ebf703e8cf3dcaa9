//! Native half of Squall's Python package: the module `squall._squall`, which `squall` and
//! `squall.lab` use.
//!
//! `scenario` and `run` wrap the laboratory's scenarios and results, `jobs` runs them on all cores
//! with the interpreter released, and `scheduler` connects sessions to schedulers written in
//! Python. `session` provides the product's sessions for asyncio. `python/squall/_squall.pyi`
//! documents the Python interface.

mod error;
mod jobs;
mod measures;
mod run;
mod scenario;
mod scheduler;
mod session;

/// Contents of the native module.
#[pyo3::pymodule]
mod _squall {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::error::{Error, RunError, ScenarioError, SessionError};
    #[pymodule_export]
    use crate::jobs::{check, program, run_jobs};
    #[pymodule_export]
    use crate::measures::measures;
    #[pymodule_export]
    use crate::run::{Run, read_runs};
    #[pymodule_export]
    use crate::scenario::Scenario;
    #[pymodule_export]
    use crate::scheduler::{Block, Cancel, Context, Event, Idle, Path, Probe, SendWork, Work};
    #[pymodule_export]
    use crate::session::{Listener, Received, Sent, Session, connect, listen};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::session::end_at_exit(module.py())
    }
}
