//! `squall-lab bench`: performance on this machine.

mod clock;
mod crowd;
mod decision;
mod ends;
mod figure;
mod heap;
mod life;
mod loopback;
mod memory;
mod request;
mod sessions;
mod side;
mod stream;
mod virtual_time;

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Subcommand};
use squall_lab::table::{self, Column, Table};
use squall_terminal::output;

use figure::Figure;

/// Measures decisions, virtual time, memory, many sessions and loopback throughput, and compares
/// them with their targets.
///
/// Takes about a minute. Results are not meaningful if the machine is busy.
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  squall-lab bench\n  squall-lab bench --json out/bench.json\n  squall-lab bench life --hours 3\n  squall-lab bench request\n  squall-lab bench sessions --count 200 --workers 2\n  squall-lab bench stream --transport noq"
)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    other: Option<Other>,
    /// Write the results as JSON; - for standard output, which replaces all other output there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Debug, Subcommand)]
enum Other {
    Life(life::LifeArgs),
    Request(request::RequestArgs),
    Sessions(sessions::SessionsArgs),
    Stream(stream::StreamArgs),
}

/// Runs the command.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    if cfg!(debug_assertions) {
        // A closed standard error is not a failure.
        let _ = writeln!(stderr(), "note: this is not a release build; its figures say nothing");
    }
    match &args.other {
        Some(Other::Life(args)) => return life::run(args),
        Some(Other::Request(args)) => return request::run(args),
        Some(Other::Sessions(args)) => return sessions::run(args),
        Some(Other::Stream(args)) => return stream::run(args),
        None => {}
    }
    // Memory first, while the heap is fresh; loopback last, because it leaves threads behind.
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

/// Returns a line with the missed targets; empty if there are none.
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

#[cfg(test)]
mod tests {
    use super::{figure::Target, *};

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
