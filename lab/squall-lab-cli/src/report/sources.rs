//! Loads results from files, and the experiments that they belong to.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{bail, ensure};
use squall::sched::Registry;
use squall_lab::{
    RunResult,
    experiment::{Experiment, Point, Record, parse_records},
    result,
};

use squall_terminal::error::whole;

/// Contents of result files.
#[derive(Default)]
pub(super) struct Found {
    /// Runs of experiments.
    pub(super) records: Vec<Record>,
    /// Other runs.
    pub(super) runs: Vec<RunResult>,
}

/// Reads files, and the files in folders.
///
/// # Errors
/// If a file cannot be read, with the place, or if results for the same run differ.
pub(super) fn read(paths: &[PathBuf]) -> anyhow::Result<Found> {
    let mut found = Found::default();
    for path in paths {
        if path.is_dir() {
            let files = files(path)?;
            ensure!(!files.is_empty(), "{}: there is no file .jsonl or .json in it", path.display());
            files.iter().try_for_each(|file| read_file(file, &mut found))?;
        } else {
            read_file(path, &mut found)?;
        }
    }
    found.records = records_once(found.records)?;
    found.runs = runs_once(found.runs)?;
    ensure!(!found.records.is_empty() || !found.runs.is_empty(), "there is no result in these files");
    Ok(found)
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let problem = |error| anyhow::anyhow!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(problem)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(problem)?;
    paths
        .retain(|path| path.extension().is_some_and(|extension| extension == "jsonl" || extension == "json"));
    paths.sort();
    Ok(paths)
}

/// Reads a file: a JSON array from `squall-lab run`, or lines from `squall-lab repro`.
fn read_file(file: &Path, found: &mut Found) -> anyhow::Result<()> {
    let text = squall_file::read_text(file, result::MAX_FILE);
    let text = text.map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    if text.starts_with('[') {
        found.runs.extend(result::from_json(&text, &file.display().to_string()).map_err(whole)?);
    } else {
        found.records.extend(parse_records(&text, file).map_err(whole)?);
    }
    Ok(())
}

/// Removes duplicate runs. Without an experiment, no key shows if runs are from the same program,
/// so duplicates must agree.
fn runs_once(runs: Vec<RunResult>) -> anyhow::Result<Vec<RunResult>> {
    let id = |run: &RunResult| {
        (run.scenario.clone(), run.scheduler.clone(), run.congestion.clone(), run.seed, run.duration_us)
    };
    let mut kept: BTreeMap<_, RunResult> = BTreeMap::new();
    let mut order = Vec::with_capacity(runs.len());
    for run in runs {
        let untimed = RunResult { scheduling_ns: None, ..run.clone() };
        match kept.get(&id(&run)) {
            Some(known) if RunResult { scheduling_ns: None, ..known.clone() } == untimed => {}
            Some(_) => bail!(
                "{}: two different runs of {} with seed {}; give the results of one program and one scenario",
                run.scenario,
                run.scheduler,
                run.seed
            ),
            None => {
                order.push(id(&run));
                kept.insert(id(&run), run);
            }
        }
    }
    Ok(order.iter().filter_map(|id| kept.remove(id)).collect())
}

/// Removes duplicate records.
fn records_once(records: Vec<Record>) -> anyhow::Result<Vec<Record>> {
    let mut seen: BTreeMap<(String, Point, String, u64), String> = BTreeMap::new();
    let mut kept = Vec::with_capacity(records.len());
    for record in records {
        let (scheduler, seed) = (record.run.scheduler.clone(), record.run.seed);
        let id = (record.experiment.clone(), record.point.clone(), scheduler, seed);
        match seen.get(&id) {
            Some(key) if *key == record.key => continue,
            Some(_) => bail!(
                "{}: two different runs of {} with seed {seed} at the same points; give the results of one program",
                record.experiment,
                record.run.scheduler
            ),
            None => {
                seen.insert(id, record.key.clone());
                kept.push(record);
            }
        }
    }
    Ok(kept)
}

/// Loads the experiments of these runs whose files are in the folder, as `NAME.toml`.
///
/// # Errors
/// If such a file is invalid.
pub(super) fn experiments(
    records: &[Record],
    folder: &Path,
    registry: &Registry,
) -> anyhow::Result<Vec<Experiment>> {
    let mut names: Vec<&str> = records.iter().map(|record| record.experiment.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let files =
        names.into_iter().map(|name| folder.join(format!("{name}.toml"))).filter(|file| file.exists());
    files.map(|file| Experiment::load(&file, registry).map_err(whole)).collect()
}
