//! The `squall-lab` program: the laboratory that proves what `squall` does.

// A line that cannot be written, on a full disk or to a reader that has gone, must not end what runs.
#![deny(clippy::print_stderr)]

mod bench;
mod demo;
mod findings;
mod report;
mod repro;
mod run;
mod schedulers;
#[cfg(target_os = "linux")]
mod shell;
mod signal;
mod trace;
#[cfg(target_os = "linux")]
mod versus;
mod video;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The laboratory of Squall: schedulers and links in virtual time, experiments, reports, programs behind emulated links.
#[derive(Parser)]
#[command(name = "squall-lab", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Run(run::RunArgs),
    Repro(repro::ReproArgs),
    Report(report::ReportArgs),
    Schedulers(schedulers::SchedulersArgs),
    Signal(signal::SignalArgs),
    Trace(trace::TraceArgs),
    #[cfg(target_os = "linux")]
    Shell(shell::ShellArgs),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    ShellKeeper(shell::KeeperArgs),
    Video(video::VideoArgs),
    #[cfg(target_os = "linux")]
    Versus(versus::VersusArgs),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    VersusSide(versus::PartArgs),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    VersusRelay(versus::PartArgs),
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Repro(args) => repro::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Schedulers(args) => schedulers::run(&args),
        Command::Signal(args) => signal::run(&args),
        Command::Trace(args) => trace::run(&args),
        #[cfg(target_os = "linux")]
        Command::Shell(args) => shell::run(&args),
        #[cfg(target_os = "linux")]
        Command::ShellKeeper(args) => Ok(shell::keep(&args)),
        Command::Video(args) => video::run(&args),
        #[cfg(target_os = "linux")]
        Command::Versus(args) => versus::run(&args),
        #[cfg(target_os = "linux")]
        Command::VersusSide(args) => versus::side(&args),
        #[cfg(target_os = "linux")]
        Command::VersusRelay(args) => versus::relay(&args),
        Command::Bench(args) => bench::run(&args),
    };
    outcome.unwrap_or_else(|error| squall_terminal::error::report("squall-lab", &error))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn examples_in_help_can_be_copied() {
        let lines = squall_testing::check_help(Cli::command(), &["squall-lab ", "squall "]);
        assert!(lines > 30, "only {lines} lines of examples");
    }
}
