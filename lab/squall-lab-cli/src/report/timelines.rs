//! Repeats the runs that are shown over time, because results are stored without time series.

use std::sync::Arc;

use squall::sched::Registry;
use squall_lab::{
    Batch, RunResult,
    experiment::{Point, Record},
};
use squall_report::{Chapter, Timeline};
use squall_terminal::{
    error::{usage, whole},
    progress::Progress,
};

use super::choice::Choice;

/// Adds to each chapter the cell that most claims are about, with its first seed.
///
/// # Errors
/// If a run fails.
pub(crate) fn add_representative(chapters: &mut [Chapter], registry: &Arc<Registry>) -> anyhow::Result<()> {
    let mut progress = Progress::default();
    let count = chapters.len();
    for (index, chapter) in chapters.iter_mut().enumerate() {
        progress.show(&format!("single runs: {} of {count} experiments, {}", index + 1, chapter.name));
        if let Some((point, seed)) = chapter.representative().filter(|_| chapter.experiment.is_some()) {
            let timeline = rerun(chapter, point, seed, None, registry)?;
            chapter.timelines.push(timeline);
        }
    }
    if count > 0 {
        let plural = if count == 1 { "" } else { "s" };
        progress.done(&format!("single runs of {count} experiment{plural}"));
    }
    Ok(())
}

/// Adds the selected runs.
///
/// # Errors
/// If a selection has no results or no experiment file, or if a run fails.
pub(super) fn add(
    chapters: &mut [Chapter],
    choices: &[Choice],
    registry: &Arc<Registry>,
) -> anyhow::Result<()> {
    for choice in choices {
        let refuse = |words: &str| usage(format!("--timeline: {}: {words}", choice.experiment));
        let names: Vec<String> = chapters.iter().map(|chapter| chapter.name.clone()).collect();
        let chapter = chapters.iter_mut().find(|chapter| chapter.name == choice.experiment);
        let chapter = chapter
            .ok_or_else(|| refuse(&format!("there are no results of it, only of {}", names.join(", "))))?;
        if chapter.experiment.is_none() {
            return Err(refuse("its file is not at hand to run it again; --experiments says where it is"));
        }
        let fits = |record: &&Record| {
            choice.at.iter().all(|(axis, name)| record.point.get(axis) == Some(name))
                && choice.scheduler.as_ref().is_none_or(|scheduler| record.run.scheduler == *scheduler)
                && choice.seed.is_none_or(|seed| record.run.seed == seed)
        };
        let first = chapter.records.iter().find(fits);
        let first =
            first.ok_or_else(|| refuse("no result is of these points, this scheduler and this seed"))?;
        let (point, seed) = (first.point.clone(), first.run.seed);
        let timeline = rerun(chapter, point, seed, choice.scheduler.clone(), registry)?;
        chapter.timelines.push(timeline);
    }
    Ok(())
}

/// Repeats the run of one scheduler, or of all schedulers at a point.
fn rerun(
    chapter: &Chapter,
    point: Point,
    seed: u64,
    scheduler: Option<String>,
    registry: &Arc<Registry>,
) -> anyhow::Result<Timeline> {
    let there = || chapter.records.iter().filter(|record| record.point == point);
    let mut schedulers: Vec<String> = scheduler.into_iter().collect();
    if schedulers.is_empty() {
        for name in there().map(|record| &record.run.scheduler) {
            if !schedulers.contains(name) {
                schedulers.push(name.clone());
            }
        }
    }
    let records: Vec<&Record> = there().filter(|record| record.run.seed == seed).collect();
    let cell = match (&chapter.experiment, records.first()) {
        (Some(experiment), Some(record)) => experiment.cell_of(record).map_err(usage)?,
        _ => None,
    };
    let cell = cell.ok_or_else(|| {
        usage(format!("{}: its file has no scenario that these results could be of", chapter.name))
    })?;
    let batch = Batch { schedulers, seeds: vec![seed], ..Batch::of(&cell.scenario, registry.clone()) };
    let runs = batch.run(&|_| {}).map_err(whole)?;
    let same = |run: &RunResult| {
        let record = records.iter().find(|record| record.run.scheduler == run.scheduler);
        record.is_none_or(|record| record.run == run.clone().condensed())
    };
    let as_recorded = runs.iter().all(same);
    Ok(Timeline { point, runs, as_recorded })
}
