//! Runs scenarios in virtual time.
//!
//! The session is connected before the scenario begins, over links without rate, loss or events that have
//! the delay each path starts with; then the paths of the scenario take their place, and their time 0 is
//! that of the flows. So neither the handshake nor its luck moves anything: the same scenario, scheduler
//! and seed give the same record, to the byte.
//!
//! `course` leads one run, `application` offers and receives the blocks, each flow's from a `source`, `sampler` reads
//! the paths, `clairvoyant` says what would have been possible. `live` leads a run in real time: what differs is behind
//! `ends`.

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

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No such scheduler, or not with these options.
    #[error("scenario {scenario}: {source}")]
    Scheduler {
        /// Which scenario.
        scenario: String,
        /// What is wrong.
        source: BuildError,
    },
    /// Pictures could not be encoded.
    #[error("scenario {scenario}, flow {flow}: {source}")]
    Pictures {
        /// Which scenario.
        scenario: String,
        /// Which flow.
        flow: String,
        /// What is wrong.
        source: PictureError,
    },
    /// The paths or the endpoints could not be made.
    #[error("scenario {scenario}: {source}")]
    World {
        /// Which scenario.
        scenario: String,
        /// What is wrong.
        source: WorldError,
    },
    /// The session did not come up before the scenario began.
    #[error(
        "scenario {scenario}, scheduler {scheduler}, seed {seed}: path {path} did not connect; is its mtu below 1300 bytes?"
    )]
    NotConnected {
        /// Which scenario.
        scenario: String,
        /// Which scheduler.
        scheduler: String,
        /// Which seed.
        seed: u64,
        /// The first path that is not up.
        path: String,
    },
    /// The folder for qlog files could not be made, or the file of messages not be written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Runs a scenario with one scheduler and one seed, and judges it by the scenario's checks.
///
/// `progress` receives the time that has been run, in microseconds, every tenth of a second of it.
///
/// # Errors
/// [`RunError`] names the scenario and what is wrong with it. A session that ends early is a result, noted
/// in [`RunResult::extra`] as `session ended`, and no error.
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
    /// What to run.
    pub scenario: &'a Scenario,
    /// Schedulers with options and suffix; see [`Scenario::schedulers`].
    pub schedulers: Vec<String>,
    /// Seeds; see [`Scenario::seeds`].
    pub seeds: Vec<u64>,
    /// Who makes the schedulers.
    pub registry: Arc<Registry>,
    /// Where to write qlog files, one folder for each run, if anywhere. Default: nowhere.
    #[cfg(feature = "qlog")]
    pub qlog_dir: Option<PathBuf>,
    /// CSV file for the time stamps of all messages, chunks and packets, if any. Default: none.
    pub messages: Option<PathBuf>,
    /// Whether packets are encrypted, which changes nothing but the time that runs take. Default: they are not.
    pub protection: Protection,
}

impl<'a> Batch<'a> {
    /// Everything that the scenario asks for.
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

    /// Runs everything, on as many threads as there are processors. The results come scheduler by
    /// scheduler, seed by seed, whatever finishes first. `progress` receives each piece of virtual time that
    /// has been run, in microseconds; [`Self::work_us`] is their sum.
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
