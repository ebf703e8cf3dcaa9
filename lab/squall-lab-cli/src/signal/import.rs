//! `squall-lab signal import`: converts public measurement logs to traces.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::anyhow;
use clap::Args;

use squall_terminal::{
    error::{usage, whole},
    output,
};
use squall_trace::{Format, Input, Micros, Recording, Tech, TraceError, Wishes};

/// Converts a recording of any format, such as a public measurement log, to a trace.
///
/// A trace is a CSV file with the columns time_s, down_mbps, up_mbps, rtt_ms, rsrp_dbm, rsrq_db, sinr_db, rssi_dbm,
/// tech, event; docs/signal.md describes it. An empty cell means that nothing was measured.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  squall-lab signal import B_2019.12.16_12.27.05.csv -o drive.csv\n  \
    squall-lab signal import --format ucc --from 225 --for 600 \\\n      \
    B_2019.12.16_12.27.05.csv | head\n  \
    squall-lab signal import --part ap1-w2 final-exp-log.csv -o laps.csv\n  \
    squall-lab signal import --tech 5G-n78 arterial_n78_v60_run02.txt \\\n      \
    -o arterial.csv\n  \
    squall-lab signal import iperf.json iw.json -o shipyard.csv")]
pub(crate) struct ImportArgs {
    /// Log to convert; two for the format that consists of two
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Format of the log; recognised by its first line if omitted
    #[arg(long, value_name = "NAME", value_parser = crate::trace::formats())]
    format: Option<Format>,
    /// File of the trace; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Name of the radio technology for logs without one, such as LTE, 5G-n78 or WiFi
    #[arg(long, value_name = "WORD", value_parser = Tech::new)]
    tech: Option<Tech>,
    /// Part to use of a log with several
    #[arg(long, value_name = "NAME")]
    part: Option<String>,
    /// Skip the first seconds of the log
    #[arg(long, value_name = "S", default_value = "0", value_parser = parse_seconds)]
    from: Micros,
    /// Maximum length in seconds
    #[arg(long = "for", value_name = "S", value_parser = parse_seconds)]
    length: Option<Micros>,
}

/// Interval of the rows that are computed from delivery opportunities.
const STEP: Micros = 100_000;

/// Runs the command.
pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let load = |file: &PathBuf| Input::load(file);
    let inputs: Vec<Input> = args.files.iter().map(load).collect::<Result<_, _>>().map_err(usage)?;
    let is_own = |input: &Input| Format::detect(&input.text) == Some(Format::Csv);
    if let Some(own) = inputs.iter().find(|input| args.format.is_none() && is_own(input)) {
        return Err(anyhow!("{}: is a trace already", own.name));
    }
    let (tech, part) = (args.tech.clone(), args.part.clone());
    let wishes = Wishes { format: args.format, tech, part, column: None };
    let trace = Recording::parse(&inputs, &wishes).map_err(|error| match error {
        TraceError::Request(_) => usage(error),
        TraceError::Mistake { .. } => whole(error),
    })?;
    let trace = trace.table(STEP).map_err(whole)?;
    let trace = cut(trace, args)?;
    output::write(&args.output, &trace.to_string())?;
    if !output::is_stdout(&args.output) {
        output::print(&summary(&trace, &args.output))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn cut(trace: Recording, args: &ImportArgs) -> anyhow::Result<Recording> {
    if args.from == 0 && args.length.is_none() {
        return Ok(trace);
    }
    let seconds = trace.last() as f64 / 1e6;
    trace
        .cut(args.from, args.length.unwrap_or(Micros::MAX))
        .ok_or_else(|| anyhow!("--from, --for: there are no rows then; the log has {seconds} s"))
}

fn summary(trace: &Recording, file: &Path) -> String {
    let seconds = trace.last() as f64 / 1e6;
    format!("trace: {} ({} rows, {seconds} s)\n", file.display(), trace.rows().len())
}

fn parse_seconds(text: &str) -> Result<Micros, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=1e9).contains(seconds));
    let micros = seconds.map(|seconds| (seconds * 1e6).round() as Micros);
    micros.ok_or_else(|| "a number of seconds is needed, 0 to 1000000000".to_owned())
}
