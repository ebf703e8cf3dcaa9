//! `squall-lab trace convert`: converts a recorded link to a file for a path of a scenario.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, ValueEnum};
use squall_terminal::{error::usage, output};
use squall_trace::{Micros, OUTAGE, Recording};
use squall_units::Span;

use super::{
    figures::{number, seconds},
    reading::ReadingArgs,
};

/// Converts a recorded link to a mahimahi trace or a table.
///
/// A path of a scenario uses the former as rate = { mahimahi = "FILE" }, the latter as rate = { csv
/// = "FILE", column = "down_mbps" }; see docs/traces.md.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  squall-lab trace convert scenarios/traces/lte.mahi out/lte.csv --to csv\n  \
    squall-lab trace convert scenarios/traces/drive.csv out/drive.up \\\n      \
    --to mahimahi --column up_mbps\n  \
    squall-lab trace convert scenarios/traces/drive.csv out/short.mahi \\\n      \
    --to mahimahi --start 5s --length 10s --scale 0.5\n  \
    squall-lab trace convert scenarios/traces/lte.mahi out/long.mahi \\\n      \
    --to mahimahi --length 10min --repeat"
)]
pub(crate) struct ConvertArgs {
    /// Recorded link
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// File to write; - for standard output
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Format of the output
    #[arg(long, value_name = "FORM")]
    to: Form,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Skip the recording before this time
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_span)]
    start: Micros,
    /// Maximum length of the output
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    length: Option<Micros>,
    /// Start the input again if it ends before --length
    #[arg(long, requires = "length")]
    repeat: bool,
    /// Multiply every rate
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = parse_factor)]
    scale: f64,
    /// Interval of the rows in a table of delivery opportunities; each has the mean rate over it
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_length)]
    step: Micros,
    /// Overwrite OUT
    #[arg(long)]
    force: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Form {
    /// Delivery opportunities of 1500 bytes, one integer number of milliseconds per line
    Mahimahi,
    /// Table of rates, round-trip times, levels and events
    Csv,
}

/// Runs the command.
pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    let (input, output) = (args.input.display(), args.output.display());
    if !args.force && !output::is_stdout(&args.output) && args.output.symlink_metadata().is_ok() {
        return Err(usage(format!("{output} is there already; --force overwrites it")));
    }
    let wrong = |problem: &dyn std::fmt::Display| usage(format!("{input}: {problem}"));
    let mut link = args.reading.load(&args.input)?;
    if args.start > 0 || args.length.is_some() {
        link = link.part(args.start, args.length, args.repeat).map_err(|error| wrong(&error))?;
    }
    if args.scale != 1.0 {
        link = link.scaled(args.scale).map_err(|error| wrong(&error))?;
    }
    let (text, summary) = written(&link, args).map_err(|error| wrong(&error))?;
    output::write(&args.output, &text)?;
    if !output::is_stdout(&args.output) {
        output::print(&format!("{output}: {summary}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the contents of the file and a summary of it.
fn written(link: &Recording, args: &ConvertArgs) -> anyhow::Result<(String, String)> {
    let mean = link.supply(args.reading.gaps()).map(|supply| supply.mean_bps(0..supply.end()) / 1e6);
    let mean = mean.map(|mean| format!(", {} Mbit/s", number(mean))).unwrap_or_default();
    let head = format!("{} s{mean}", seconds(link.duration()));
    match args.to {
        Form::Csv => {
            let table = link.table(args.step)?;
            Ok((table.to_string(), format!("csv, {head}, {} rows", table.rows().len())))
        }
        Form::Mahimahi => {
            let trace = link.mahimahi(args.reading.gaps())?;
            let mut summary = format!("mahimahi, {head}, {} opportunities", trace.millis().len());
            let end = trace.period() * 1_000;
            if end + OUTAGE < link.duration() {
                summary
                    .push_str(&format!("; it begins again after {} s, where the last one is", seconds(end)));
            }
            Ok((trace.text(), summary))
        }
    }
}

fn parse_span(text: &str) -> Result<Micros, String> {
    text.parse::<Span>().map(Span::micros).map_err(|error| error.to_string())
}

fn parse_length(text: &str) -> Result<Micros, String> {
    let length = parse_span(text)?;
    if length < 1_000 { Err("at least 1 ms is needed".to_owned()) } else { Ok(length) }
}

fn parse_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| (1e-6..=1e6).contains(factor));
    factor.ok_or_else(|| "a number from 0.000001 to 1000000 is needed".to_owned())
}
