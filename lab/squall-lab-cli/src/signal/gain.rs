//! `squall-lab signal gain`: what the lead of a radio is worth.

use std::{
    io::{IsTerminal as _, stderr},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex},
};

use clap::Args;
use squall::sched::Registry;
use squall_lab::{
    Scenario, ScenarioError,
    gain::{self, Gain, GainError, Study},
};

use squall_terminal::{
    error::{usage, whole},
    output,
    progress::Progress,
};

/// The scenarios that ship.
const SHIPPED: [(&str, &str); 2] = [
    ("walking.toml", include_str!("../../../../scenarios/walking.toml")),
    ("edge.toml", include_str!("../../../../scenarios/edge.toml")),
];

/// Most seeds of one call.
const MAX_SEEDS: u64 = 1_000;

const SEEDS: u64 = 8;
const QUICK_SEEDS: u64 = 2;

/// Runs scenarios with radios that are more or less ahead of their links, noisy and late, and tells what going by
/// them brings: minrtt and STORM's ras, each without and with the signal.
///
/// Lead, noise and lateness are set one after the other for all radios of a scenario; all else stays as in the
/// file. The same call gives the same numbers.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  squall-lab signal gain --quick\n  squall-lab signal gain --draw out/gain.svg\n  \
    squall-lab signal gain scenarios/walking.toml --seeds 20 --json out/gain.json\n\n\
    Columns: delays of the packets with new data that arrived, from the offering of their block, all flows \
    together; blocks in time of all that were offered; packets declared lost; block bytes sent again, of all bytes. \
    Δ is the difference to the same scheduler without the signal, seed by seed. All are means over the seeds with \
    half of their 95 % confidence interval (Student's t). Packets that never arrived have no delay: look at the \
    blocks in time as well"
)]
pub(crate) struct GainArgs {
    /// Scenario files whose paths have radios. Default: walking and edge, which ship
    #[arg(value_name = "SCENARIO.toml")]
    scenarios: Vec<PathBuf>,
    /// Runs of each kind. Default: 8, or 2 with --quick
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_SEEDS))]
    seeds: Option<u64>,
    /// Draw it, as SVG; - for standard output
    #[arg(long, value_name = "FILE.svg")]
    draw: Option<PathBuf>,
    /// Write what each run measured, as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fewer values, seeds and seconds: to see what it does, not to conclude from
    #[arg(long)]
    quick: bool,
}

/// Runs the command.
pub(crate) fn run(args: &GainArgs) -> anyhow::Result<ExitCode> {
    let to_stdout = |file: &Option<PathBuf>| file.as_deref().is_some_and(output::is_stdout);
    if to_stdout(&args.draw) && to_stdout(&args.json) {
        return Err(usage("--draw and --json: only one of them can have standard output"));
    }
    let scenarios = scenarios(&args.scenarios).map_err(usage)?;
    let studies: Result<Vec<Study>, GainError> =
        scenarios.iter().map(|scenario| study(args, scenario)).collect();
    let gains = execute(&studies.map_err(usage)?)?;
    let mut text: String = gains.iter().map(gain::text).collect();
    if let Some(file) = &args.draw {
        output::write(file, &gain::svg(&gains))?;
        text.push_str(&format!("picture: {}\n", file.display()));
    }
    if let Some(file) = &args.json {
        output::write(file, &(serde_json::to_string_pretty(&gains)? + "\n"))?;
        text.push_str(&format!("json: {}\n", file.display()));
    }
    if !to_stdout(&args.draw) && !to_stdout(&args.json) {
        output::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn scenarios(files: &[PathBuf]) -> Result<Vec<Scenario>, ScenarioError> {
    if files.is_empty() {
        return SHIPPED.iter().map(|(name, text)| Scenario::parse(text, name)).collect();
    }
    files.iter().map(|file| Scenario::load(Path::new(file))).collect()
}

fn study(args: &GainArgs, scenario: &Scenario) -> Result<Study, GainError> {
    let seeds = args.seeds.unwrap_or(if args.quick { QUICK_SEEDS } else { SEEDS });
    let study = if args.quick { Study::quick } else { Study::of };
    study(scenario, (1..=seeds).collect())
}

fn execute(studies: &[Study]) -> anyhow::Result<Vec<Gain>> {
    let registry = Arc::new(Registry::standard());
    let work: u64 = studies.iter().map(Study::work_us).sum();
    let shown = stderr().is_terminal().then(|| Mutex::new((0, Progress::default())));
    let progress = |piece| {
        let Some(Ok(mut shown)) = shown.as_ref().map(Mutex::lock) else { return };
        shown.0 += piece;
        let percent = shown.0 * 100 / work;
        shown.1.show(&format!("{} s in virtual time, {percent} %", work / 1_000_000));
    };
    let gains: Result<Vec<Gain>, GainError> =
        studies.iter().map(|study| study.run(&registry, &progress)).collect();
    gains.map_err(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ships_can_be_studied() {
        let scenarios = scenarios(&[]).expect("are scenarios");
        assert_eq!(scenarios.len(), SHIPPED.len());
        for scenario in &scenarios {
            Study::of(scenario, vec![1]).expect("has radios");
        }
    }
}
