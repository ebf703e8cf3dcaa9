//! Runs again what is to be shown over time: results are kept without it.

use std::sync::Arc;

use anyhow::anyhow;
use squall::sched::Registry;
use squall_lab::{
    Batch,
    experiment::{Point, Record},
    report::{Chapter, Timeline},
};
use squall_terminal::{
    error::{usage, whole},
    progress::Progress,
};

use super::choice::Choice;

/// One cell with some schedulers and a seed.
struct Wish {
    point: Point,
    schedulers: Vec<String>,
    seed: u64,
}

/// Adds to each chapter the cell that most claims are about, with its first seed.
///
/// # Errors
/// What a run tells.
pub(crate) fn add_telling(chapters: &mut [Chapter], registry: &Arc<Registry>) -> anyhow::Result<()> {
    let mut progress = Progress::default();
    let count = chapters.len();
    for (index, chapter) in chapters.iter_mut().enumerate() {
        progress.show(&format!("single runs: {} of {count} experiments, {}", index + 1, chapter.name));
        let Some((point, seed)) = chapter.telling().filter(|_| chapter.experiment.is_some()) else {
            continue;
        };
        let wish = Wish { schedulers: schedulers(chapter, &point), point, seed };
        chapter.timelines.push(retrace(chapter, &wish, registry)?);
    }
    if count > 0 {
        let plural = if count == 1 { "" } else { "s" };
        progress.done(&format!("single runs of {count} experiment{plural}"));
    }
    Ok(())
}

/// Adds what was chosen.
///
/// # Errors
/// A choice of which there are no results, or no file of the experiment; what a run tells.
pub(super) fn add(
    chapters: &mut [Chapter],
    choices: &[Choice],
    registry: &Arc<Registry>,
) -> anyhow::Result<()> {
    for choice in choices {
        let refuse = |words: String| usage(format!("--timeline: {}: {words}", choice.experiment));
        let names: Vec<String> = chapters.iter().map(|chapter| chapter.name.clone()).collect();
        let chapter = chapters.iter_mut().find(|chapter| chapter.name == choice.experiment);
        let chapter = chapter
            .ok_or_else(|| refuse(format!("there are no results of it, only of {}", names.join(", "))))?;
        let wish = wish(chapter, choice).map_err(|error| refuse(error.to_string()))?;
        chapter.timelines.push(retrace(chapter, &wish, registry)?);
    }
    Ok(())
}

fn wish(chapter: &Chapter, choice: &Choice) -> anyhow::Result<Wish> {
    if chapter.experiment.is_none() {
        return Err(anyhow!("its file is not at hand to run it again; --experiments says where it is"));
    }
    let fits = |record: &&Record| {
        choice.at.iter().all(|(axis, name)| record.point.get(axis) == Some(name))
            && choice.scheduler.as_ref().is_none_or(|scheduler| record.run.scheduler == *scheduler)
            && choice.seed.is_none_or(|seed| record.run.seed == seed)
    };
    let first = chapter.records.iter().find(fits);
    let first = first.ok_or_else(|| anyhow!("no result is of these points, this scheduler and this seed"))?;
    let schedulers = choice
        .scheduler
        .clone()
        .map_or_else(|| schedulers(chapter, &first.point), |scheduler| vec![scheduler]);
    Ok(Wish { point: first.point.clone(), schedulers, seed: first.run.seed })
}

/// Everybody who ran at a point.
fn schedulers(chapter: &Chapter, point: &Point) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for record in chapter.records.iter().filter(|record| record.point == *point) {
        if !names.contains(&record.run.scheduler) {
            names.push(record.run.scheduler.clone());
        }
    }
    names
}

fn retrace(chapter: &Chapter, wish: &Wish, registry: &Arc<Registry>) -> anyhow::Result<Timeline> {
    let known = |record: &&Record| record.point == wish.point && record.run.seed == wish.seed;
    let records: Vec<&Record> = chapter.records.iter().filter(known).collect();
    let cell = match (&chapter.experiment, records.first()) {
        (Some(experiment), Some(record)) => experiment.cell_of(record).map_err(usage)?,
        _ => None,
    };
    let cell = cell.ok_or_else(|| {
        usage(format!("{}: its file has no scenario that these results could be of", chapter.name))
    })?;
    let batch = Batch {
        schedulers: wish.schedulers.clone(),
        seeds: vec![wish.seed],
        ..Batch::of(&cell.scenario, registry.clone())
    };
    let runs = batch.run(&|_| {}).map_err(whole)?;
    let same = |run: &squall_lab::RunResult| {
        let record = records.iter().find(|record| record.run.scheduler == run.scheduler);
        record.is_none_or(|record| record.run == run.clone().condensed())
    };
    let as_recorded = runs.iter().all(same);
    Ok(Timeline { point: wish.point.clone(), runs, as_recorded })
}
