//! Runs experiments on all processors, except runs whose results are stored.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use squall_sched::Registry;

use super::{Cell, Experiment, Keys, ReadRecordsError, Record, Shard, read_records, record_line};
use crate::file::FileError;
use crate::parallel;
use crate::runner::{self, RunError};
use crate::scenario::ScenarioError;

/// Reasons why a study ended early. Completed runs are kept.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A scenario cannot be created.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Stored results cannot be read.
    #[error(transparent)]
    Read(#[from] ReadRecordsError),
    /// A result cannot be written.
    #[error(transparent)]
    Write(#[from] FileError),
}

/// Progress of a study.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StudyProgress {
    /// Runs completed and runs in all.
    pub runs: (usize, usize),
    /// Runs whose results were stored before.
    pub known: usize,
    /// Work done and work in all: virtual time multiplied by the number of paths, in microseconds.
    pub work: (u64, u64),
}

/// Experiments to run, and the folder that stores their results.
#[derive(Debug)]
pub struct Study<'a> {
    experiments: &'a [Experiment],
    registry: Arc<Registry>,
    folder: PathBuf,
    jobs: Vec<Job>,
    known: Vec<Record>,
}

/// One run.
#[derive(Debug)]
struct Job {
    /// Index among all runs of the study, stored ones included.
    index: usize,
    experiment: usize,
    cell: Arc<Cell>,
    scheduler: String,
    seed: u64,
    key: String,
}

impl Job {
    fn work(&self) -> u64 {
        self.cell.scenario.duration_us * self.cell.scenario.paths.len() as u64
    }
}

impl<'a> Study<'a> {
    /// Plans the runs. `folder` holds a file per experiment, `NAME.jsonl`. Stored results with the
    /// same key are not run again; results whose key no longer occurs are dropped. `program`
    /// identifies everything in the program that results depend on.
    ///
    /// # Errors
    /// If a scenario cannot be created, or a file in the folder cannot be read.
    pub fn new(
        experiments: &'a [Experiment],
        registry: Arc<Registry>,
        folder: &Path,
        quick: bool,
        program: u64,
    ) -> Result<Self, StudyError> {
        let mut jobs = Vec::new();
        for (index, experiment) in experiments.iter().enumerate() {
            for cell in experiment.cells(quick)? {
                let cell = Arc::new(cell);
                let keys = Keys::of(&cell);
                for scheduler in &cell.scenario.schedulers {
                    for &seed in &cell.scenario.seeds {
                        let key = keys.key(scheduler, seed, program);
                        let (cell, scheduler) = (cell.clone(), scheduler.clone());
                        jobs.push(Job { index: 0, experiment: index, cell, scheduler, seed, key });
                    }
                }
            }
        }
        // Long runs first, so that the processors finish at about the same time.
        jobs.sort_by_key(|job| std::cmp::Reverse(job.work()));
        for (index, job) in jobs.iter_mut().enumerate() {
            job.index = index;
        }
        let mut study = Self { experiments, registry, folder: folder.to_owned(), jobs, known: Vec::new() };
        study.adopt(folder)?;
        Ok(study)
    }

    /// Takes matching results from another folder, such as that of a shard. Returns the number of
    /// runs that are still missing.
    ///
    /// # Errors
    /// If a file in the folder cannot be read.
    pub fn adopt(&mut self, folder: &Path) -> Result<usize, StudyError> {
        let mut wanted: HashSet<&str> = self.jobs.iter().map(|job| job.key.as_str()).collect();
        let mut found = Vec::new();
        for experiment in self.experiments {
            let file = folder.join(file_name(experiment.name()));
            let records = if file.exists() { read_records(&file)? } else { Vec::new() };
            found.extend(records.into_iter().filter(|record| wanted.remove(record.key.as_str())));
        }
        let keys: HashSet<&str> = found.iter().map(|record| record.key.as_str()).collect();
        self.jobs.retain(|job| !keys.contains(job.key.as_str()));
        let count = found.len();
        self.known.extend(found);
        Ok(count)
    }

    /// Keeps only the runs of one part. The division does not depend on the stored results.
    #[must_use]
    pub fn shard(mut self, shard: Shard) -> Self {
        self.jobs.retain(|job| shard.has(job.index));
        self
    }

    /// Progress before the first run.
    pub fn progress(&self) -> StudyProgress {
        let work = self.jobs.iter().map(Job::work).sum();
        StudyProgress { runs: (0, self.jobs.len()), known: self.known.len(), work: (0, work) }
    }

    /// Runs everything. The records are ordered by experiment, cell, scheduler and seed. Each is
    /// written as soon as it is complete, so an interrupted study can continue.
    ///
    /// # Errors
    /// The first error; no run begins after it.
    pub fn run(self, progress: &(dyn Fn(StudyProgress) + Sync)) -> Result<Vec<Record>, StudyError> {
        fs::create_dir_all(&self.folder).map_err(FileError::of(&self.folder))?;
        let files = self.open_files()?;
        let (done, work, total) = (AtomicUsize::new(0), AtomicU64::new(0), self.progress());
        let fresh = parallel::each(&self.jobs, |job| {
            let mut ran = 0;
            let record = self.carry_out(job, &files, &mut |piece| {
                ran += piece;
                let now = work.fetch_add(piece, Ordering::Relaxed) + piece;
                let runs = (done.load(Ordering::Relaxed), total.runs.1);
                progress(StudyProgress { runs, work: (now, total.work.1), ..total });
            })?;
            done.fetch_add(1, Ordering::Relaxed);
            Ok::<_, StudyError>(record)
        })?;
        self.finish(fresh)
    }

    fn carry_out(
        &self,
        job: &Job,
        files: &HashMap<usize, Mutex<File>>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Record, StudyError> {
        let Cell { scenario, point, .. } = job.cell.as_ref();
        let (paths, mut reported) = (scenario.paths.len() as u64, 0);
        let run = runner::run(scenario, &job.scheduler, job.seed, &self.registry, &mut |at| {
            progress((at - reported) * paths);
            reported = at;
        })?;
        let experiment = self.experiments[job.experiment].name();
        let record = Record {
            experiment: experiment.to_owned(),
            point: point.clone(),
            key: job.key.clone(),
            run: run.condensed(),
        };
        let mut file = lock(&files[&job.experiment]);
        let written = file.write_all(record_line(&record).as_bytes());
        written.map_err(FileError::of(&self.file(experiment)))?;
        Ok(record)
    }

    /// Opens the result files for appending, with the results that are still valid.
    fn open_files(&self) -> Result<HashMap<usize, Mutex<File>>, StudyError> {
        let mut files = HashMap::new();
        for (index, experiment) in self.experiments.iter().enumerate() {
            let path = self.file(experiment.name());
            let known: String = self.of(experiment, &self.known).map(record_line).collect();
            put(&path, &known).map_err(FileError::of(&path))?;
            let file = OpenOptions::new().append(true).open(&path);
            files.insert(index, Mutex::new(file.map_err(FileError::of(&path))?));
        }
        Ok(files)
    }

    /// Sorts the results, in the files too.
    fn finish(&self, fresh: Vec<Record>) -> Result<Vec<Record>, StudyError> {
        let mut all: Vec<Record> = self.known.iter().cloned().chain(fresh).collect();
        let mut sorted = Vec::with_capacity(all.len());
        for experiment in self.experiments {
            let (mut own, others): (Vec<Record>, Vec<Record>) =
                all.into_iter().partition(|record| record.experiment == experiment.name());
            own.sort_by_cached_key(|record| {
                (self.place(experiment, record), record.run.scheduler.clone(), record.run.seed)
            });
            let path = self.file(experiment.name());
            let text: String = own.iter().map(record_line).collect();
            put(&path, &text).map_err(FileError::of(&path))?;
            sorted.extend(own);
            all = others;
        }
        Ok(sorted)
    }

    /// Index of a record's cell and scheduler in the experiment, for sorting.
    fn place(&self, experiment: &Experiment, record: &Record) -> Vec<usize> {
        let along = experiment.axes.iter().map(|axis| {
            let name = record.point.get(&axis.name);
            axis.points.iter().position(|point| Some(&point.name) == name).unwrap_or(usize::MAX)
        });
        let schedulers = &experiment.scenario.schedulers;
        let scheduler = schedulers.iter().position(|known| *known == record.run.scheduler);
        along.chain([scheduler.unwrap_or(usize::MAX)]).collect()
    }

    fn of<'r>(&self, experiment: &'r Experiment, records: &'r [Record]) -> impl Iterator<Item = &'r Record> {
        records.iter().filter(move |record| record.experiment == experiment.name())
    }

    fn file(&self, experiment: &str) -> PathBuf {
        self.folder.join(file_name(experiment))
    }
}

fn file_name(experiment: &str) -> String {
    format!("{experiment}.jsonl")
}

/// Writes a file atomically, through a temporary file next to it.
fn put(file: &Path, text: &str) -> std::io::Result<()> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    fs::write(&part, text).and_then(|()| fs::rename(&part, file))
}

/// Ignores poisoning: every change is a single step, so data left by a thread that panicked is
/// consistent.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
