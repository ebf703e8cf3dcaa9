//! `squall-lab repro`: runs experiments and judges their claims.

mod challenge;
mod csv;
mod progress;
mod terminal;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use clap::Args;
use squall::sched::Registry;
use squall_lab::{
    RunResult, Variant,
    experiment::{self, Experiment, Finding, Record, Shard, Study, StudyError, judge},
    summary,
    table::{self, Column, Table},
};
use squall_report::{Chapter, Report};
use squall_terminal::{
    error::{usage, whole},
    input, note, output,
};

use crate::{findings, report};
use progress::Remaining;

/// Runs experiments in virtual time, and reports for every claim of a paper the measured value and
/// the verdict.
///
/// An experiment is a scenario with axes and claims; docs/experiments.md describes it. Runs with
/// stored results are not repeated unless something has changed that they depend on. The same
/// program and files give the same numbers.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  squall-lab repro --list\n  squall-lab repro --quick\n  squall-lab repro storm-fig10 storm-fig11\n  \
    squall-lab repro dams --csv out/dams.csv\n  squall-lab repro --report out/report.html\n  \
    squall-lab repro storm --challenger minrtt\n  squall-lab repro my-experiment.toml --quick\n\n\
    Claims are judged by their 95 % confidence interval (Student's t, seed by seed): a comparison holds if all of it is at \
    least three quarters of the claimed size, in direction only if all of it goes the claimed way; a value holds if all of \
    it is within a quarter. What the interval leaves open is unclear, and one seed leaves everything open. No claim has \
    tolerances of its own; docs/experiments.md has the whole rule"
)]
pub(crate) struct ReproArgs {
    /// Names of experiments, prefixes of names, or files. Default: all
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Run all experiments (default)
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Run fewer points, seeds and seconds, as defined by each experiment: enough to test it, not
    /// to draw conclusions. Omits the findings in the files, which refer to full runs
    #[arg(long)]
    quick: bool,
    /// Run more seeds where a file defines them in [verdict], because claims remain unclear without
    #[arg(long, conflicts_with = "quick")]
    verdict: bool,
    /// List the experiments without running them
    #[arg(long)]
    list: bool,
    /// Folder of the experiments
    #[arg(long, value_name = "DIR", default_value = "scenarios/papers")]
    experiments: PathBuf,
    /// Folder of recordings that replace synthetic links, in experiments with a table of traces
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Compare this scheduler, with options, with each paper's own system in every measure of the
    /// paper's claims, instead of judging the claims: ahead, tied, unclear or behind. Only these
    /// two are run
    #[arg(long, value_name = "SCHEDULER", conflicts_with = "beside")]
    challenger: Option<String>,
    /// Folder for stored results, a JSON Lines file for each experiment
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write all measurements of every run, one row per number
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
    /// Write the results of all claims as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results and findings of all claims as a page of documentation
    #[arg(long, value_name = "FILE.md")]
    markdown: Option<PathBuf>,
    /// Results without --traces, as written by --json: the page of --markdown shows the results
    /// over recorded networks next to them. Only experiments with a table of traces are run
    #[arg(long, value_name = "FILE.json", requires_all = ["traces", "markdown"])]
    beside: Option<PathBuf>,
    /// Also print the results of every scheduler at every point, as squall-lab run does
    #[arg(long)]
    tables: bool,
    /// Write an HTML report with results of claims, figures, and single runs over time
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write each figure as a separate file, for papers
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Run only this part of all runs, such as 2/4, without judging claims; the parts can run on
    /// different machines
    #[arg(
        long,
        value_name = "NUMBER/PARTS",
        conflicts_with_all = ["list", "csv", "json", "markdown", "tables", "report", "svg", "merge"]
    )]
    shard: Option<Shard>,
    /// Use the results in these folders, as written by --shard with the same program and files.
    /// Missing runs are carried out
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with = "list")]
    merge: Vec<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &ReproArgs, registry: &Arc<Registry>) -> anyhow::Result<ExitCode> {
    let experiments = load(args, registry).map_err(usage)?;
    if args.list {
        output::print(&listing(&experiments))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Errors in this file should be reported before the runs.
    let synthetic = args.beside.as_deref().map(known_findings).transpose().map_err(usage)?;
    let folder = args.out.clone().unwrap_or_else(|| usual_folder(args));
    let mut study =
        Study::new(&experiments, registry.clone(), &folder, args.quick, program()?).map_err(explain)?;
    for folder in &args.merge {
        let count = study.adopt(folder).map_err(explain)?;
        note!("squall-lab: {}: {count} runs taken over", folder.display());
    }
    if let Some(shard) = args.shard {
        study = study.shard(shard);
    }
    let progress = Remaining::new(study.progress());
    let records = study.run(&|now| progress.show(now)).map_err(explain)?;
    progress.done();
    if let Some(shard) = args.shard {
        let count = records.len();
        output::print(&format!("shard {shard}: {count} runs in {}\n", folder.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut findings: Vec<Finding> =
        experiments.iter().flat_map(|experiment| judge(experiment, &records)).collect();
    if args.quick {
        // The findings in the files quote full runs.
        findings.iter_mut().for_each(|finding| finding.finding.clear());
    }
    let failed = terminal::failed_checks(&records);
    publish(args, &experiments, &folder, &records, &findings, synthetic.as_deref())?;
    let drawn = draw(args, experiments, records, registry)?;
    if !printed_elsewhere(args) {
        output::print(&drawn)?;
    }
    // A claim that does not hold is a result; a check that fails is an error.
    let (count, plural) = (failed.rows.len(), if failed.rows.len() == 1 { "" } else { "s" });
    anyhow::ensure!(count == 0, "{count} check{plural} failed");
    Ok(ExitCode::SUCCESS)
}

/// Default folder. Options that change the runs have folders of their own, so that they do not
/// discard each other's results.
fn usual_folder(args: &ReproArgs) -> PathBuf {
    let challenger = args.challenger.as_ref().map_or(String::new(), |label| {
        let name = label.trim().replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        format!("-challenger-{name}")
    });
    let traces = if args.traces.is_some() { "-traces" } else { "" };
    let quick = if args.quick { "-quick" } else { "" };
    let shard = args.shard.map_or(String::new(), |shard| format!("-shard-{shard}").replace('/', "-of-"));
    PathBuf::from(format!("out/repro{challenger}{traces}{quick}{shard}"))
}

/// Draws the report and the figures, if requested.
fn draw(
    args: &ReproArgs,
    experiments: Vec<Experiment>,
    records: Vec<Record>,
    registry: &Arc<Registry>,
) -> anyhow::Result<String> {
    if args.report.is_none() && args.svg.is_none() {
        return Ok(String::new());
    }
    let mut chapters = Chapter::of(records, experiments);
    report::add_representative(&mut chapters, registry)?;
    let results = Report { title: report::TITLE.into(), chapters, runs: Vec::new() };
    report::publish(&results, args.report.as_deref(), args.svg.as_deref())
}

/// `true` if one of the files goes to standard output.
fn printed_elsewhere(args: &ReproArgs) -> bool {
    [&args.csv, &args.json, &args.markdown, &args.report]
        .into_iter()
        .flatten()
        .any(|file| output::is_stdout(file))
}

fn publish(
    args: &ReproArgs,
    experiments: &[Experiment],
    folder: &Path,
    records: &[Record],
    findings: &[Finding],
    synthetic: Option<&[Finding]>,
) -> anyhow::Result<()> {
    if let Some(file) = &args.csv {
        output::write(file, &csv::text(records))?;
    }
    if let Some(file) = &args.json {
        output::write(file, &(serde_json::to_string_pretty(findings)? + "\n"))?;
    }
    if let Some(file) = &args.markdown {
        let page = match (&args.challenger, synthetic) {
            (Some(scheduler), _) => challenge::page(scheduler, &options(args), experiments, findings),
            (None, Some(synthetic)) => findings::compared(experiments, synthetic, findings),
            (None, None) => {
                let chapters = Chapter::of(records.to_vec(), experiments.to_vec());
                let ladders: Vec<_> = chapters.iter().flat_map(Chapter::ladders).collect();
                findings::page(&experiments.iter().collect::<Vec<_>>(), findings, &ladders)
            }
        };
        output::write(file, &page)?;
    }
    if printed_elsewhere(args) {
        return Ok(());
    }
    let mut text = String::new();
    if args.tables {
        let runs: Vec<RunResult> = records.iter().map(|record| record.run.clone()).collect();
        text.push_str(&summary::results(&runs, squall_terminal::wrap::width()));
        text.push('\n');
    }
    text.push_str(&match &args.challenger {
        Some(scheduler) => challenge::text(scheduler, experiments, findings),
        None => terminal::text(findings, &terminal::failed_checks(records)),
    });
    text.push_str(&format!("runs: {}\n", folder.display()));
    for (what, file) in [("csv", &args.csv), ("json", &args.json), ("markdown", &args.markdown)] {
        text.extend(file.iter().map(|file| format!("{what}: {}\n", file.display())));
    }
    output::print(&text)
}

/// Options that change the runs, for the description on a page.
fn options(args: &ReproArgs) -> String {
    let quick = if args.quick { " --quick" } else { "" };
    let traces =
        args.traces.as_ref().map_or(String::new(), |folder| format!(" --traces {}", folder.display()));
    let verdict = if args.verdict { " --verdict" } else { "" };
    format!("{traces}{verdict}{quick}")
}

/// Reads the results of an earlier `--json`.
fn known_findings(file: &Path) -> anyhow::Result<Vec<Finding>> {
    input::check(file)?;
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    serde_json::from_str(&text).with_context(|| format!("{}: not the findings of --json", file.display()))
}

/// Loads the requested experiments, ordered by name.
fn load(args: &ReproArgs, registry: &Registry) -> anyhow::Result<Vec<Experiment>> {
    let files = |ids: &[String]| ids.iter().filter(|id| id.ends_with(".toml")).map(PathBuf::from).collect();
    let mut paths: Vec<PathBuf> = files(&args.ids);
    let names: Vec<&String> = args.ids.iter().filter(|id| !id.ends_with(".toml")).collect();
    if args.ids.is_empty() {
        paths.extend(shipped(&args.experiments)?);
    } else if !names.is_empty() {
        paths.extend(named(&names, &args.experiments)?);
    }
    let load = |path: &PathBuf| {
        input::check(path)?;
        let mut experiment = Experiment::load(path, registry).map_err(whole)?;
        if args.verdict {
            experiment = experiment.thorough();
        }
        match &args.traces {
            Some(folder) => experiment.with_traces(folder).map_err(whole),
            None => Ok(experiment),
        }
    };
    let mut experiments: Vec<Experiment> = paths.iter().map(load).collect::<Result<_, _>>()?;
    // Without recordings there is nothing to compare.
    experiments.retain(|experiment| args.beside.is_none() || !experiment.traces.is_empty());
    experiments.sort_by(|a, b| a.name().cmp(b.name()));
    if let Some(pair) = experiments.windows(2).find(|pair| pair[0].name() == pair[1].name()) {
        let [first, second] = [&pair[0], &pair[1]].map(|experiment| experiment.file.display());
        anyhow::bail!("{first} and {second} are both called {:?}", pair[0].name());
    }
    match &args.challenger {
        Some(scheduler) => challenged(experiments, scheduler, registry),
        None => Ok(experiments),
    }
}

/// Reduces the experiments to comparisons of a scheduler with the papers' systems.
fn challenged(
    experiments: Vec<Experiment>,
    scheduler: &str,
    registry: &Registry,
) -> anyhow::Result<Vec<Experiment>> {
    let known = Variant::of(scheduler).check(registry);
    known.map_err(|error| anyhow::anyhow!("--challenger: {error}"))?;
    let (mut challenged, mut others) = (Vec::new(), Vec::new());
    for experiment in experiments {
        let name = experiment.name().to_owned();
        match experiment.challenged_by(scheduler, registry).map_err(whole)? {
            Some(experiment) => challenged.push(experiment),
            None => others.push(name),
        }
    }
    let others = others.join(", ");
    anyhow::ensure!(!challenged.is_empty(), "--challenger: nothing to compare {scheduler} with in {others}");
    if !others.is_empty() {
        note!("squall-lab: nothing to compare {scheduler} with in {others}");
    }
    Ok(challenged)
}

/// Returns the experiments in a folder that have an id with one of these prefixes.
fn named(names: &[&String], folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut known: Vec<(PathBuf, Vec<String>)> = Vec::new();
    for path in shipped(folder)? {
        let ids = Experiment::ids_in(&path).map_err(whole)?;
        known.push((path, ids));
    }
    let begins = |ids: &[String], name: &String| ids.iter().any(|id| id.starts_with(name.as_str()));
    for name in names {
        anyhow::ensure!(
            known.iter().any(|(_, ids)| begins(ids, name)),
            "{name}: no experiment in {} begins with that; --list lists them",
            folder.display()
        );
    }
    known.retain(|(_, ids)| names.iter().any(|name| begins(ids, name)));
    Ok(known.into_iter().map(|(path, _)| path).collect())
}

fn shipped(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let problem = |error| {
        anyhow::anyhow!("{}: {error}; --experiments names the folder of the experiments", folder.display())
    };
    let entries = fs::read_dir(folder).map_err(problem)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(problem)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    anyhow::ensure!(!paths.is_empty(), "{}: there is no experiment", folder.display());
    Ok(paths)
}

fn listing(experiments: &[Experiment]) -> String {
    let rows = experiments.iter().map(|experiment| {
        let source = &experiment.source;
        vec![
            experiment.ids().collect::<Vec<_>>().join(", "),
            format!("{} {}", source.paper, source.place).trim().to_owned(),
            experiment.scenario.description.clone(),
            experiment.claims.len().to_string(),
        ]
    });
    let columns = vec![
        Column::text("experiment"),
        Column::text("from"),
        Column::text("what"),
        Column::number("claims", ""),
    ];
    table::render(&Table { title: "Experiments".into(), columns, rows: rows.collect() })
}

/// Returns the hash that identifies this program.
fn program() -> anyhow::Result<u64> {
    experiment::program(&std::env::current_exe().context("this program")?).map_err(whole)
}

fn explain(error: StudyError) -> anyhow::Error {
    match error {
        StudyError::Scenario(_) => usage(error),
        _ => whole(error),
    }
}
