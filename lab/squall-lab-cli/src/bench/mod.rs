//! `squall-lab bench`: what it costs on this machine.

mod crowd;
mod decision;
mod heap;
mod life;
mod loopback;
mod memory;
mod sessions;
mod virtual_time;

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Subcommand};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use squall_lab::{
    statistics,
    table::{self, Column, Table},
};
use squall_units::format::digits;

use squall_terminal::output;

/// Measures decisions, virtual time, memory, many sessions and loopback throughput, beside the targets.
///
/// Takes about a minute. Figures of a machine that is busy with other things say little.
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  squall-lab bench\n  squall-lab bench --json out/bench.json\n  squall-lab bench life --hours 3\n  squall-lab bench sessions --count 200 --workers 2"
)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    other: Option<Other>,
    /// Write the figures as JSON; - for standard output, instead of everything else there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Debug, Subcommand)]
enum Other {
    Life(life::LifeArgs),
    Sessions(sessions::SessionsArgs),
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
struct Figure {
    /// What was measured.
    name: &'static str,
    /// The median.
    value: f64,
    /// Unit of the value.
    unit: &'static str,
    /// What is asked for, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
    /// Every measurement the median is of, where there are few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    all: Vec<f64>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Target {
    /// The value or more.
    AtLeast(f64),
    /// The value or less.
    AtMost(f64),
}

impl Target {
    /// How many times the value keeps what was asked for: met from 1 on.
    fn ratio(self, value: f64) -> f64 {
        match self {
            Self::AtLeast(limit) => value / limit,
            Self::AtMost(limit) => limit / value,
        }
    }

    fn words(self) -> String {
        match self {
            Self::AtLeast(limit) => format!("≥ {}", digits(limit)),
            Self::AtMost(limit) => format!("≤ {}", digits(limit)),
        }
    }
}

impl Figure {
    fn single(name: &'static str, unit: &'static str, value: f64) -> Self {
        Self { name, value, unit, target: None, all: Vec::new() }
    }

    /// The median of a few measurements.
    fn of(name: &'static str, unit: &'static str, all: Vec<f64>) -> Self {
        let value = median(&all);
        Self { all, ..Self::single(name, unit, value) }
    }

    fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    fn row(&self) -> Vec<String> {
        let dash = || "–".to_owned();
        vec![
            self.name.to_owned(),
            digits(self.value),
            self.unit.to_owned(),
            self.target.map_or_else(dash, Target::words),
            self.target.map_or_else(dash, |target| digits(target.ratio(self.value))),
        ]
    }
}

/// Runs the command.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    if cfg!(debug_assertions) {
        // A closed standard error is no failure.
        let _ = writeln!(stderr(), "note: this is not a release build; its figures say nothing");
    }
    match &args.other {
        Some(Other::Life(args)) => return life::run(args),
        Some(Other::Sessions(args)) => return sessions::run(args),
        None => {}
    }
    // Memory first, while the heap is fresh; loopback last, as it leaves threads behind.
    let mut figures = Vec::new();
    step("memory");
    figures.extend(memory::measure()?);
    step("decision");
    figures.push(decision::measure());
    step("virtual time");
    figures.extend(virtual_time::measure()?);
    step("sessions in memory");
    figures.extend(crowd::measure()?);
    step("loopback");
    figures.extend(loopback::measure()?);
    if let Some(file) = &args.json {
        output::write(file, &format!("{}\n", serde_json::to_string_pretty(&figures)?))?;
        if output::is_stdout(file) {
            return Ok(ExitCode::SUCCESS);
        }
    }
    output::print(&(table::render(&as_table(&figures)) + &missed(&figures)))?;
    Ok(ExitCode::SUCCESS)
}

/// A line that names the targets that were missed; nothing if none was.
fn missed(figures: &[Figure]) -> String {
    let is_missed = |figure: &&Figure| figure.target.is_some_and(|target| target.ratio(figure.value) < 1.0);
    let names: Vec<&str> = figures.iter().filter(is_missed).map(|figure| figure.name).collect();
    if names.is_empty() { String::new() } else { format!("missed: {}\n", names.join(", ")) }
}

fn step(name: &str) {
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[Kmeasuring {name}\r");
    }
}

fn as_table(figures: &[Figure]) -> Table {
    Table {
        title: "Medians on this machine; a ratio of 1 or more meets the target; squall / plain is the median of the ratios turn by turn"
            .into(),
        columns: vec![
            Column::text("what"),
            Column::number("measured", ""),
            Column::text("unit"),
            Column::number("target", ""),
            Column::number("ratio", ""),
        ],
        rows: figures.iter().map(Figure::row).collect(),
    }
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    processor_time(ClockId::ThreadCPUTime)
}

/// Processor time of this process, with the system's on its behalf.
fn process_time() -> Duration {
    processor_time(ClockId::ProcessCPUTime)
}

fn processor_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The median; no number of nothing.
fn median(values: &[f64]) -> f64 {
    statistics::median(values.to_vec()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_shows_whether_the_target_is_met() {
        assert_eq!(Target::AtLeast(25.0).ratio(50.0), 2.0);
        assert_eq!(Target::AtMost(1_000.0).ratio(250.0), 4.0);
        let row = Figure::single("a", "ns", 250.0).target(Target::AtMost(1_000.0)).row();
        assert_eq!(row, ["a", "250", "ns", "≤ 1000", "4.00"]);
        let figures = [
            Figure::single("slow", "×", 14.4).target(Target::AtLeast(25.0)),
            Figure::single("quick", "ns", 250.0).target(Target::AtMost(1_000.0)),
            Figure::single("other", "kB", 71.0),
        ];
        assert_eq!((missed(&figures).as_str(), missed(&figures[1..]).as_str()), ("missed: slow\n", ""));
    }
}
