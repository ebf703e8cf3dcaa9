//! `squall-lab signal fit`: how well the radio model tells a measured rate from measured levels.

mod bins;
mod habit;
mod judgement;
mod table;

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use squall_net::radio::{CellularMap, WifiMap};
use squall_signal::trace::Trace;
use squall_terminal::{error::usage, output};

use self::{habit::Habit, judgement::Judgement};

/// Compares the radio model with recorded networks: the rate that it makes of the levels with the rate that was
/// measured, and the levels with those of the model's scenes.
///
/// The best rate of a recording, exceeded in 5 % of its rows, stands for the rate of the link.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  squall-lab signal fit scenarios/traces/drive.csv\n  \
    squall-lab signal fit scenarios/traces/*.csv --json out/fit.json\n  squall-lab signal fit --scenes\n  \
    squall-lab signal fit scenarios/traces/drive.csv --margin 5 --width 80\n\n\
    Columns: rows with a rate and levels; rank correlation of the model's rate with the measured one; the lag at \
    which levels and rate agree best (positive: the levels come first) with the rank correlation there; the \
    median error of the rate where at least 0.5 Mbit/s were measured; the share of rows below 0.5 Mbit/s, by the \
    model and as measured. Then what the levels do: the share of readings below the marks Good, Warning and \
    Outage, fades below Warning a minute and their median length, the deviation of the level, and the time until \
    it keeps 1/e of its correlation. At last the share of the rate by level, over all recordings: the model's, and the quartiles of the measured one.")]
pub(crate) struct FitArgs {
    /// Recorded networks, as CSV
    #[arg(value_name = "FILE", required_unless_present = "scenes")]
    files: Vec<PathBuf>,
    /// Also what the levels do in the scenes of the radio model
    #[arg(long)]
    scenes: bool,
    /// By how many dB Wi-Fi receivers are better than the standard asks
    #[arg(long, value_name = "DB", default_value_t = WifiMap::default().margin, allow_negative_numbers = true)]
    margin: f64,
    /// Width of the Wi-Fi channel in MHz: 20, 40, 80 or 160
    #[arg(long, value_name = "MHZ", default_value_t = WifiMap::default().width)]
    width: u32,
    /// Write the numbers as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is known of one recording or scene.
#[derive(Debug, serde::Serialize)]
struct Finding {
    name: String,
    /// Absent for a scene, and for a recording without rates beside levels.
    fit: Option<Judgement>,
    /// Absent for a recording without levels.
    levels: Option<Habit>,
}

/// Runs the command.
pub(crate) fn run(args: &FitArgs) -> anyhow::Result<ExitCode> {
    let wifi = WifiMap { margin: args.margin, width: args.width, ..WifiMap::default() };
    wifi.check().map_err(usage)?;
    let cellular = CellularMap::default();
    let mut findings = Vec::new();
    for file in &args.files {
        squall_terminal::input::check(file)?;
        let trace = Trace::load(file).map_err(usage)?;
        findings.push(Finding {
            name: file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
            fit: Judgement::of(&trace, &cellular, &wifi),
            levels: Habit::of_trace(&trace),
        });
    }
    if args.scenes {
        findings.extend(habit::scenes()?.into_iter().map(|(name, levels)| Finding {
            name: name.to_owned(),
            fit: None,
            levels,
        }));
    }
    if let Some(file) = &args.json {
        let bins = table::bins_of(&findings);
        let json = serde_json::json!({ "findings": findings, "by_level": bins });
        output::write(file, &(serde_json::to_string_pretty(&json)? + "\n"))?;
    }
    if !args.json.as_deref().is_some_and(output::is_stdout) {
        output::print(&table::text(&findings))?;
    }
    Ok(ExitCode::SUCCESS)
}
