//! `squall-lab trace info`: statistics of recorded links.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use squall_terminal::output;
use squall_trace::LinkSurvey;

use super::{
    figures::{json, table, text},
    reading::ReadingArgs,
};

/// Shows statistics of recorded links: rate and its variation, outages, and round-trip times.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  squall-lab trace info scenarios/traces/drive.csv\n  \
    squall-lab trace info scenarios/traces/*\n  \
    squall-lab trace info --column up_mbps scenarios/traces/drive.csv\n  \
    squall-lab trace info scenarios/traces/* --json | jq '.rate.mean_mbps'\n\n\
    Rates are means of windows of 1 s. An outage is a time of more than 200 ms in which a packet of 1500 bytes takes \
    longer than that: without an opportunity, or below 60 kbit/s. docs/traces.md has the formats and all rules")]
pub(crate) struct InfoArgs {
    /// Recorded links; if several, a table with one row each is printed
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Print one line of JSON for each file instead
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<ExitCode> {
    let mut surveys = Vec::new();
    for file in &args.files {
        let survey = LinkSurvey::of(&args.reading.load(file)?, args.reading.gaps());
        surveys.push((file.display().to_string(), survey));
    }
    let shown = match &surveys[..] {
        all if args.json => all.iter().map(|(file, survey)| format!("{}\n", json(file, survey))).collect(),
        [(file, survey)] => text(file, survey),
        all => table(all),
    };
    output::print(&shown)?;
    Ok(ExitCode::SUCCESS)
}
