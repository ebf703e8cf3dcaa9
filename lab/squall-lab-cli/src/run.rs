//! `squall-lab run`: runs a scenario in virtual time.

use std::{
    io::{IsTerminal as _, stderr},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex},
};

use anyhow::{anyhow, bail, ensure};
use clap::Args;
use squall::sched::Registry;
use squall_lab::{
    Batch, RunResult, Scenario, ScenarioError, Variant,
    experiment::{Cell, Experiment},
    result, summary,
};

use tracing_subscriber::{
    Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use squall_terminal::{
    error::{usage, whole},
    input, list, note, output,
    progress::Progress,
    wrap,
};

/// Maximum number of seeds per call.
const MAX_SEEDS: u64 = 1_000;

/// Runs a scenario in virtual time, with each of its schedulers and seeds, and evaluates its
/// checks.
///
/// The same file and seed give the same results, to the byte. Exits with 1 if a check fails or has
/// nothing to measure. RUST_LOG=squall_proto::congestion=debug logs the decisions of congestion
/// control to standard error.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  squall-lab run scenarios/fading.toml\n  \
    squall-lab run scenarios/lossy.toml --scheduler 'minrtt,redundant' \\\n      \
    --seeds 10 --json out/lossy.json\n  \
    squall-lab run scenarios/lossy.toml --scheduler 'minrtt,minrtt-R'\n  \
    squall-lab run scenarios/fading.toml --report out/fading.html\n  \
    squall-lab run scenarios/papers/storm-fig18.toml --at place=hall \\\n      \
    --scheduler storm --report out/why.html\n  \
    squall-lab run scenarios/stable.toml --json - | jq '.[0].flows[0].goodput_bps'")]
pub(crate) struct RunArgs {
    /// Scenario file; docs/scenarios.md describes the format
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Point of each axis of an experiment, as in --at place=hall,rate=high. Default: the scenario
    /// as it stands in the file
    #[arg(long, value_name = "AXIS=POINT", value_delimiter = ',')]
    at: Vec<String>,
    /// Schedulers instead of the scenario's, with options, separated by commas; one that ends in -R
    /// sends every block reliably. The scenario's checks apply only to the schedulers that it names
    #[arg(long, value_name = "A,B")]
    scheduler: Option<String>,
    /// Seed instead of the scenario's
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Number of seeds, from 1, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_SEEDS))]
    seeds: Option<u64>,
    /// Also write all measurements as JSON; - for standard output, which replaces all other output
    /// there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write an HTML report
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Also write a table of all messages, chunks and packets with their times at both ends;
    /// docs/lab.md lists its columns
    #[arg(long, value_name = "FILE.csv")]
    messages: Option<PathBuf>,
    /// Also write qlog files of all connections, a folder for each run; only in builds with the
    /// feature qlog
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &RunArgs, registry: &Arc<Registry>) -> anyhow::Result<ExitCode> {
    input::check(&args.scenario)?;
    start_log()?;
    let scenario = if args.at.is_empty() {
        load(args, registry).map_err(usage)?
    } else {
        cell(args, registry).map_err(usage)?
    };
    if scenario.has_axes {
        let file = args.scenario.display();
        note!(
            "squall-lab: {file}: run as it stands, without its axes; --at names points, and squall-lab repro runs all"
        );
    }
    let batch = batch(args, &scenario, registry.clone()).map_err(usage)?;
    if let Some(note) = unchecked(&scenario, &batch.schedulers) {
        note!("squall-lab: {}: {note}", args.scenario.display());
    }
    let runs = execute(&batch)?;
    publish(args, &scenario, &runs)?;
    let verdicts = || runs.iter().flat_map(|run| &run.checks);
    let (all, failed) = (verdicts().count(), verdicts().filter(|verdict| !verdict.pass).count());
    ensure!(failed == 0, "{failed} of {all} checks failed");
    Ok(ExitCode::SUCCESS)
}

/// Starts logging to standard error according to `RUST_LOG`: `LEVEL`, or a list of `TARGET=LEVEL`.
/// Lines have no wall-clock time; events carry the virtual one.
fn start_log() -> anyhow::Result<()> {
    let Some(wanted) = std::env::var_os("RUST_LOG") else { return Ok(()) };
    let targets = wanted.to_str().and_then(|wanted| wanted.parse::<Targets>().ok());
    let targets =
        targets.ok_or_else(|| usage(format!("RUST_LOG: {wanted:?} is no LEVEL or TARGET=LEVEL")))?;
    let lines = fmt::layer().with_ansi(false).without_time().with_writer(stderr).with_filter(targets);
    tracing_subscriber::registry().with(lines).try_init()?;
    Ok(())
}

/// Names the schedulers that are not checked because the scenario does not list them, if it has
/// checks.
fn unchecked(scenario: &Scenario, schedulers: &[String]) -> Option<String> {
    let left = schedulers.iter().filter(|name| !scenario.schedulers.contains(name)).map(String::as_str);
    let left: Vec<&str> = left.collect();
    let mut about: Vec<&str> = Vec::new();
    for name in scenario.checks.iter().flat_map(|check| &check.schedulers) {
        if !about.contains(&name.as_str()) {
            about.push(name);
        }
    }
    (!left.is_empty() && !about.is_empty())
        .then(|| format!("its checks are for {}; not checked: {}", about.join(", "), left.join(", ")))
}

/// Loads the scenario. Its schedulers must exist, unless they are replaced.
fn load(args: &RunArgs, registry: &Registry) -> Result<Scenario, ScenarioError> {
    match args.scheduler {
        Some(_) => Scenario::load(&args.scenario),
        None => Scenario::load_with(&args.scenario, registry),
    }
}

/// Returns the scenario at the requested points.
fn cell(args: &RunArgs, registry: &Registry) -> anyhow::Result<Scenario> {
    let experiment = Experiment::load(&args.scenario, registry)?;
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for words in &args.at {
        let point = words.split_once('=').filter(|(axis, _)| wanted.iter().all(|(known, _)| known != axis));
        wanted
            .push(point.ok_or_else(|| anyhow!("--at: {words:?} is no AXIS=POINT, or names its axis again"))?);
    }
    for (name, point) in &wanted {
        let axis = experiment.axes.iter().find(|axis| axis.name == *name);
        let Some(axis) = axis else {
            bail!("--at: no axis is called {name:?}; there are {}", axes(&experiment))
        };
        let points: Vec<&str> = axis.points.iter().map(|point| point.name.as_str()).collect();
        ensure!(
            points.contains(point),
            "--at: {name} has no point {point:?}; there are {}",
            points.join(", ")
        );
    }
    let left = experiment.axes.iter().find(|axis| wanted.iter().all(|(name, _)| *name != axis.name));
    if let Some(axis) = left {
        bail!("--at: which point of {}? The axes are {}", axis.name, axes(&experiment));
    }
    let is_wanted = |cell: &Cell| wanted.iter().all(|(axis, point)| cell.point[*axis] == *point);
    let cell = experiment.cells(false)?.into_iter().find(is_wanted);
    Ok(cell.ok_or_else(|| anyhow!("--at: only one axis with a base can be off it"))?.scenario)
}

fn axes(experiment: &Experiment) -> String {
    let names: Vec<&str> = experiment.axes.iter().map(|axis| axis.name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn batch<'a>(args: &RunArgs, scenario: &'a Scenario, registry: Arc<Registry>) -> anyhow::Result<Batch<'a>> {
    let mut batch = Batch::of(scenario, registry);
    #[cfg(feature = "qlog")]
    batch.qlog_dir.clone_from(&args.qlog);
    #[cfg(not(feature = "qlog"))]
    ensure!(
        args.qlog.is_none(),
        "--qlog: this build writes no qlog, which costs time in every run; \
         `cargo install --locked --path lab/squall-lab-cli --features qlog` makes one that does"
    );
    batch.messages.clone_from(&args.messages);
    if let Some(file) = &args.messages {
        output::make_folder_of(file)?;
    }
    if let Some(list) = &args.scheduler {
        batch.schedulers = list::split(list).into_iter().map(str::to_owned).collect();
        ensure!(!batch.schedulers.is_empty(), "--scheduler: name one; `squall-lab schedulers` lists them");
        for (index, scheduler) in batch.schedulers.iter().enumerate() {
            // A duplicate would count as two runs that agree, and narrow the interval.
            ensure!(
                !batch.schedulers[..index].contains(scheduler),
                "--scheduler: {scheduler:?} is there twice"
            );
            Variant::of(scheduler)
                .check_in(scenario, &batch.registry)
                .map_err(|error| anyhow!("--scheduler: {error}"))?;
        }
    }
    if let Some(seed) = args.seed {
        batch.seeds = vec![seed];
    }
    if let Some(seeds) = args.seeds {
        batch.seeds = (1..=seeds).collect();
    }
    Ok(batch)
}

fn execute(batch: &Batch<'_>) -> anyhow::Result<Vec<RunResult>> {
    let count = batch.schedulers.len() * batch.seeds.len();
    let plural = if count == 1 { "run" } else { "runs" };
    let shown = stderr().is_terminal().then(|| Mutex::new((0, Progress::default())));
    let runs = batch.run(&|piece| {
        let Some(Ok(mut shown)) = shown.as_ref().map(Mutex::lock) else { return };
        shown.0 += piece;
        let percent = shown.0 * 100 / batch.work_us();
        shown.1.show(&format!("{}: {count} {plural}, {percent} %", batch.scenario.name));
    });
    runs.map_err(whole)
}

fn publish(args: &RunArgs, scenario: &Scenario, runs: &[RunResult]) -> anyhow::Result<()> {
    let quiet = args.json.as_deref().is_some_and(output::is_stdout);
    let mut text = output::coloured(summary::results(runs, wrap::width()));
    if let Some(file) = &args.report {
        let title = if scenario.description.is_empty() { &scenario.name } else { &scenario.description };
        output::write(file, &squall_report::html(runs, title))?;
        text.push_str(&wrote("report", file));
    }
    if let Some(file) = &args.messages {
        text.push_str(&wrote("messages", file));
    }
    if let Some(folder) = &args.qlog {
        text.push_str(&wrote("qlog", folder));
    }
    if let Some(file) = &args.json {
        output::write(file, &result::to_json(runs))?;
        text.push_str(&wrote("json", file));
    }
    if quiet { Ok(()) } else { output::print(&text) }
}

fn wrote(what: &str, file: &Path) -> String {
    format!("{what}: {}\n", file.display())
}
