//! `squall-lab report`: one page about any set of results.

mod choice;
mod sources;
mod timelines;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use clap::Args;
use squall::sched::Registry;
use squall_lab::experiment::{Experiment, Finding};
use squall_report::{Chapter, Report};
use squall_terminal::{error::usage, input, output};

use crate::findings;
use choice::Choice;
pub(crate) use timelines::add_representative;

/// Draws results: one self-contained page with figures, findings and single runs over time.
///
/// Takes what `squall-lab repro` remembers (a file of JSON Lines for each experiment), what `squall-lab run --json` writes, and
/// folders of these. The page needs no network and no script, and can be read without colour.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  squall-lab report out/repro\n  \
    squall-lab report out/repro/storm-fig10.jsonl --out out/fig10.html \\\n      \
    --svg out/figures\n  \
    squall-lab report out/repro --timeline 'storm-fig10[bandwidth=5+10]:dams:3'\n  \
    squall-lab run scenarios/fading.toml --json out/fading.json\n  \
    squall-lab report out/fading.json\n\n\
    `squall-lab repro` writes out/repro, with --quick out/repro-quick")]
pub(crate) struct ReportArgs {
    /// Files of results, or folders of such files
    #[arg(value_name = "RESULTS", required = true)]
    results: Vec<PathBuf>,
    /// The page
    #[arg(long, value_name = "FILE.html", default_value = "out/report.html")]
    out: PathBuf,
    /// Also write each figure as a file of its own, for papers
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Also write what was found of every claim, and why, as a page of documentation
    #[arg(long, value_name = "FILE.md")]
    markdown: Option<PathBuf>,
    /// Where the files of the experiments are, for axes, claims and figures
    #[arg(long, value_name = "DIR", default_value = "scenarios/papers")]
    experiments: PathBuf,
    /// A run to show over time, instead of the one of each experiment that most claims are about; it is run again.
    /// Without points the first that fit, without a scheduler all of them, without a seed the first
    #[arg(long = "timeline", value_name = "EXPERIMENT[AXIS=POINT,…]:SCHEDULER:SEED")]
    timelines: Vec<Choice>,
    /// Show no run over time
    #[arg(long, conflicts_with = "timelines")]
    no_timelines: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ReportArgs, registry: &Arc<Registry>) -> anyhow::Result<ExitCode> {
    args.results.iter().try_for_each(|file| input::check(file))?;
    let found = sources::read(&args.results).map_err(usage)?;
    let experiments = sources::experiments(&found.records, &args.experiments, registry).map_err(usage)?;
    let mut chapters = Chapter::of(found.records, experiments);
    if !args.timelines.is_empty() {
        timelines::add(&mut chapters, &args.timelines, registry)?;
    } else if !args.no_timelines {
        add_representative(&mut chapters, registry)?;
    }
    if let Some(file) = &args.markdown {
        let experiments: Vec<&Experiment> =
            chapters.iter().filter_map(|chapter| chapter.experiment.as_ref()).collect();
        let ladders: Vec<_> = chapters.iter().flat_map(Chapter::ladders).collect();
        let found: Vec<Finding> = chapters.iter().flat_map(Chapter::findings).collect();
        output::write(file, &findings::page(&experiments, &found, &ladders))?;
    }
    let title = title(&chapters, &args.results);
    let written =
        publish(&Report { title, chapters, runs: found.runs }, Some(&args.out), args.svg.as_deref())?;
    if !output::is_stdout(&args.out) {
        output::print(&written)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a page about experiments is called; about other runs, after their file.
fn title(chapters: &[Chapter], results: &[PathBuf]) -> String {
    match (chapters, results) {
        ([], [one]) => {
            one.file_stem().map_or_else(|| "Results".into(), |stem| stem.to_string_lossy().into_owned())
        }
        ([], _) => "Results".into(),
        ([one], _) => one.name.clone(),
        _ => TITLE.into(),
    }
}

/// The title of a page about several experiments.
pub(crate) const TITLE: &str = "Experiments: what is claimed, and what was measured";

/// Writes the page and its figures; says which files.
///
/// # Errors
/// Names the file and what the system says.
pub(crate) fn publish(results: &Report, page: Option<&Path>, svg: Option<&Path>) -> anyhow::Result<String> {
    let mut said = String::new();
    if let Some(file) = page {
        output::write(file, &results.html())?;
        said.push_str(&format!("report: {}\n", file.display()));
    }
    if let Some(folder) = svg {
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let drawings = results.drawings();
        for drawing in &drawings {
            output::write(&folder.join(&drawing.file), &drawing.svg)?;
        }
        said.push_str(&format!("svg: {} files in {}\n", drawings.len(), folder.display()));
    }
    Ok(said)
}
