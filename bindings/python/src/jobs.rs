//! Parallel runs on all cores.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use squall_lab::experiment::{Cell, Record};
use squall_lab::{Variant, parallel};

use crate::error::{RunError, scenario as problem};
use crate::run::Run;
use crate::scenario::Scenario;
use crate::scheduler::{Custom, Failure, registry};

/// Maximum time from Ctrl-C until no further run begins.
const SIGNALS: Duration = Duration::from_millis(100);

/// A run to carry out.
struct Job {
    cell: Arc<Cell>,
    scheduler: String,
    seed: u64,
    key: String,
}

/// Common parameters of all jobs of a call.
struct Work {
    custom: Vec<Custom>,
    condensed: bool,
    stop: AtomicBool,
}

/// Returns the number that identifies this module in keys, so that results of another version are
/// not reused.
#[pyfunction]
pub(crate) fn program(py: Python<'_>, file: PathBuf) -> PyResult<u64> {
    py.detach(move || squall_lab::experiment::program(&file))
        .map_err(|error| RunError::new_err(error.to_string()))
}

/// Checks schedulers and returns them; without any, those of the scenario. `custom` are pairs of a name and a class.
#[pyfunction]
pub(crate) fn check(
    scenario: &Scenario,
    schedulers: Option<Vec<String>>,
    custom: Vec<(String, Py<PyAny>)>,
) -> PyResult<Vec<String>> {
    let failure = Failure::default();
    let registry = registry(&Custom::of(custom)?, &failure);
    let is_own = schedulers.is_none();
    let names = schedulers.unwrap_or_else(|| scenario.cell.scenario.schedulers.clone());
    for name in &names {
        let known = Variant::of(name).check_in(&scenario.cell.scenario, &registry);
        failure.take().map_or(Ok(()), Err)?;
        let Err(error) = known else { continue };
        if is_own {
            scenario.check_text(&squall_papers::registry())?;
        }
        return Err(problem(format!("schedulers: {error}")));
    }
    Ok(names)
}

/// Carries out runs on all cores, each given by a scenario, a scheduler, a seed and a key. `done`
/// is called in this thread with the index and the result of each, in the order in which they end.
/// With `condensed`, results have no time series and no single blocks.
#[pyfunction]
pub(crate) fn run_jobs(
    py: Python<'_>,
    jobs: Vec<(PyRef<'_, Scenario>, String, u64, String)>,
    custom: Vec<(String, Py<PyAny>)>,
    condensed: bool,
    done: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let jobs: Vec<(usize, Job)> = jobs.into_iter().map(Job::from).enumerate().collect();
    let work = Work { custom: Custom::of(custom)?, condensed, stop: AtomicBool::new(false) };
    let (sender, mut receiver) = mpsc::channel();
    thread::scope(|scope| {
        let (jobs, work) = (&jobs, &work);
        let worker =
            scope.spawn(move || parallel::each(jobs, |(index, job)| job.carry_out(work, *index, &sender)));
        let outcome = loop {
            let receiver = &mut receiver;
            let next = py.detach(move || receiver.recv_timeout(SIGNALS));
            let taken = match next {
                Ok((index, record)) => done.call1((index, Run { record })).map(drop),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            };
            if let Err(error) = taken.and_then(|()| py.check_signals()) {
                break Err(error);
            }
        };
        work.stop.store(outcome.is_err(), Ordering::Relaxed);
        // Schedulers in Python need the interpreter until their run ends.
        let runs = py.detach(|| worker.join());
        outcome?;
        runs.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(drop)
    })
}

impl From<(PyRef<'_, Scenario>, String, u64, String)> for Job {
    fn from((scenario, scheduler, seed, key): (PyRef<'_, Scenario>, String, u64, String)) -> Self {
        Self { cell: scenario.cell.clone(), scheduler, seed, key }
    }
}

impl Job {
    fn carry_out(&self, work: &Work, index: usize, done: &Sender<(usize, Record)>) -> PyResult<()> {
        if work.stop.load(Ordering::Relaxed) {
            return Err(PyKeyboardInterrupt::new_err(()));
        }
        let failure = Failure::default();
        let registry = Arc::new(registry(&work.custom, &failure));
        let run = squall_lab::run(&self.cell.scenario, &self.scheduler, self.seed, &registry, &mut |_| ());
        failure.take().map_or(Ok(()), Err)?;
        let run = run.map_err(|error| RunError::new_err(error.to_string()))?;
        let record = Record {
            experiment: self.cell.experiment().to_owned(),
            point: self.cell.point.clone(),
            key: self.key.clone(),
            run: if work.condensed { run.condensed() } else { run },
        };
        // If the receiver is gone, the call has failed.
        let _ = done.send((index, record));
        Ok(())
    }
}
