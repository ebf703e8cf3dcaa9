//! Runs scenarios in virtual time.
//!
//! The session connects before the scenario begins, over links with the initial delay of each path
//! but without rate limits, losses or events. Then the paths of the scenario replace these links;
//! their time 0 is also that of the flows. So the handshake cannot influence the result: the same
//! scenario, scheduler and seed give the same record, byte for byte.
//!
//! `course` controls a run; `application` submits and receives the blocks, those of each flow from
//! a `source`; `sampler` reads the paths; `clairvoyant` computes bounds. `live` controls a run in
//! real time; `ends` hides the differences.

mod application;
mod clairvoyant;
mod course;
mod ends;
mod growth;
mod live;
mod quota;
mod sampler;
mod source;
mod stopwatch;

pub use live::{LiveError, LiveRun, PathStatus, Status, View};

use std::path::PathBuf;
use std::sync::Arc;
use std::{fs::File, io::BufWriter};

use squall_proto::sched::{BuildError, Registry};

use crate::file::FileError;
use crate::message_log::{InOrder, MessageLog};
use crate::parallel;
use crate::result::RunResult;
use crate::scenario::Scenario;
use crate::traffic::PictureError;
use crate::world::{Protection, WorldError};
use course::Handling;

/// Reasons why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scheduler does not exist or rejects its options.
    #[error("scenario {scenario}: {source}")]
    Scheduler {
        /// Name of the scenario.
        scenario: String,
        /// Underlying error.
        source: BuildError,
    },
    /// Pictures could not be encoded.
    #[error("scenario {scenario}, flow {flow}: {source}")]
    Pictures {
        /// Name of the scenario.
        scenario: String,
        /// Name of the flow.
        flow: String,
        /// Underlying error.
        source: PictureError,
    },
    /// The paths or the endpoints could not be created.
    #[error("scenario {scenario}: {source}")]
    World {
        /// Name of the scenario.
        scenario: String,
        /// Underlying error.
        source: WorldError,
    },
    /// The session was not established before the scenario began.
    #[error(
        "scenario {scenario}, scheduler {scheduler}, seed {seed}: path {path} did not connect; is its mtu below 1300 bytes?"
    )]
    NotConnected {
        /// Name of the scenario.
        scenario: String,
        /// Scheduler label.
        scheduler: String,
        /// Seed of the run.
        seed: u64,
        /// First path that is not up.
        path: String,
    },
    /// The folder for qlog files could not be created, or the file of messages not written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Runs a scenario with one scheduler and one seed, and evaluates the scenario's checks.
///
/// `progress` receives the virtual time reached so far, in microseconds, every tenth of a second.
///
/// # Errors
/// [`RunError`] names the scenario and the problem. A session that ends early is not an error; it
/// is noted in [`RunResult::extra`] as `session ended`.
pub fn run(
    scenario: &Scenario,
    scheduler: &str,
    seed: u64,
    registry: &Arc<Registry>,
    progress: &mut dyn FnMut(u64),
) -> Result<RunResult, RunError> {
    course::run(scenario, scheduler, seed, registry, &Handling::default(), progress).map(|(result, _)| result)
}

/// Several runs of one scenario: each scheduler with each seed.
#[derive(Debug, Clone)]
pub struct Batch<'a> {
    /// Scenario to run.
    pub scenario: &'a Scenario,
    /// Schedulers with options and suffix; see [`Scenario::schedulers`].
    pub schedulers: Vec<String>,
    /// Seeds; see [`Scenario::seeds`].
    pub seeds: Vec<u64>,
    /// Registry that creates the schedulers.
    pub registry: Arc<Registry>,
    /// Parent folder for qlog files, one folder per run. Default: none are written.
    #[cfg(feature = "qlog")]
    pub qlog_dir: Option<PathBuf>,
    /// CSV file for the time stamps of all messages, chunks and packets. Default: not written.
    pub messages: Option<PathBuf>,
    /// Treatment of packet contents. Encryption changes only the duration of the runs, not their
    /// results. Default: no encryption.
    pub protection: Protection,
}

impl<'a> Batch<'a> {
    /// Creates the batch of all schedulers and seeds of a scenario.
    pub fn of(scenario: &'a Scenario, registry: Arc<Registry>) -> Self {
        Self {
            scenario,
            schedulers: scenario.schedulers.clone(),
            seeds: scenario.seeds.clone(),
            registry,
            #[cfg(feature = "qlog")]
            qlog_dir: None,
            messages: None,
            protection: Protection::default(),
        }
    }

    /// Virtual time of all runs together, in microseconds.
    pub fn work_us(&self) -> u64 {
        self.scenario.duration_us * (self.schedulers.len() * self.seeds.len()) as u64
    }

    /// Runs everything, on one thread per processor. The results are ordered by scheduler, then by
    /// seed, whatever finishes first. `progress` receives each piece of virtual time that has been
    /// run, in microseconds; [`Self::work_us`] is their sum.
    ///
    /// # Errors
    /// The first error in the order of the results. No run begins after one has failed.
    pub fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Vec<RunResult>, RunError> {
        let pairs = self
            .schedulers
            .iter()
            .flat_map(|scheduler| self.seeds.iter().map(move |seed| (scheduler, *seed)));
        let jobs: Vec<(usize, &str, u64)> =
            pairs.enumerate().map(|(index, (scheduler, seed))| (index, scheduler.as_str(), seed)).collect();
        let open = |path: &PathBuf| {
            let rows = File::create(path).and_then(|file| InOrder::new(BufWriter::new(file)));
            rows.map_err(FileError::of(path))
        };
        let messages =
            self.messages.as_ref().map(|path| Ok::<_, FileError>((path, open(path)?))).transpose()?;
        parallel::each(&jobs, |(index, scheduler, seed)| {
            let (result, log) = self.run_one(scheduler, *seed, progress)?;
            if let (Some((path, rows)), Some(log)) = (&messages, log) {
                rows.write(*index, log.rows(scheduler, *seed)).map_err(FileError::of(path))?;
            }
            Ok(result)
        })
    }

    fn run_one(
        &self,
        scheduler: &str,
        seed: u64,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(RunResult, Option<MessageLog>), RunError> {
        let mut reported = 0;
        let handling = Handling {
            protection: self.protection,
            messages: self.messages.is_some(),
            #[cfg(feature = "qlog")]
            qlog_dir: self.qlog_dir.as_ref().map(|dir| {
                let plain: String =
                    scheduler.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
                dir.join(format!("{}-{seed}", plain.trim_matches('-')))
            }),
        };
        course::run(self.scenario, scheduler, seed, &self.registry, &handling, &mut |at| {
            progress(at - reported);
            reported = at;
        })
    }
}
