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
/// Reads the results that `squall-lab repro` stores (a JSON Lines file for each experiment), files
/// of `squall-lab run --json`, and folders of these. The page needs neither network nor scripts,
/// and can be read without colour.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  squall-lab report out/repro\n  \
    squall-lab report out/repro/storm-fig10.jsonl --out out/fig10.html \\\n      \
    --svg out/figures\n  \
    squall-lab report out/repro --timeline 'storm-fig10[bandwidth=5+10]:dams:3'\n  \
    squall-lab run scenarios/fading.toml --json out/fading.json\n  \
    squall-lab report out/fading.json\n\n\
    `squall-lab repro` writes out/repro, with --quick out/repro-quick")]
pub(crate) struct ReportArgs {
    /// Result files, or folders of such files
    #[arg(value_name = "RESULTS", required = true)]
    results: Vec<PathBuf>,
    /// File of the page
    #[arg(long, value_name = "FILE.html", default_value = "out/report.html")]
    out: PathBuf,
    /// Also write each figure as a separate file, for papers
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Also write the results and findings of all claims as a page of documentation
    #[arg(long, value_name = "FILE.md")]
    markdown: Option<PathBuf>,
    /// Folder of the experiment files, for axes, claims and figures
    #[arg(long, value_name = "DIR", default_value = "scenarios/papers")]
    experiments: PathBuf,
    /// Run to show over time, instead of the one that most claims of each experiment are about; it
    /// is run again. Points default to the first that match, the scheduler to all, the seed to the
    /// first
    #[arg(long = "timeline", value_name = "EXPERIMENT[AXIS=POINT,…]:SCHEDULER:SEED")]
    timelines: Vec<Choice>,
    /// Show no runs over time
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

/// Title of a page about experiments, or of one about other runs, which is named after their file.
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

/// Title of a page about several experiments.
pub(crate) const TITLE: &str = "Experiments: what is claimed, and what was measured";

/// Writes the page and its figures. Returns a message with the file names.
///
/// # Errors
/// The file and the system's error.
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
