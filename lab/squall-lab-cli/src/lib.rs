//! The `squall-lab` program as a library: the laboratory with any set of schedulers.
//!
//! A scheduler, stream scheduler or multiplexer of another crate can take part in everything that
//! the program does, without a fork: register it, and call [`main`] from a program of your own.
//! `examples/own_laboratory.rs` is such a program.
//!
//! ```no_run
//! use squall_lab_cli::{main, registry};
//!
//! # fn program() -> std::process::ExitCode {
//! let mut registry = registry();
//! // registry.register(…);
//! main(registry)
//! # }
//! ```

// A failed write, on a full disk or to a closed pipe, must not end the program.
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

use std::{process::ExitCode, sync::Arc};

#[cfg(any(test, feature = "man"))]
use clap::CommandFactory as _;
use clap::{Parser, Subcommand};
/// API for implementing schedulers.
pub use squall::sched;
/// Registry of the schedulers of this repository.
pub use squall_papers::registry;

/// Laboratory of Squall: schedulers and links in virtual time, experiments, reports, programs
/// behind emulated links.
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
    ShellInit(shell::InitArgs),
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
    #[cfg(feature = "man")]
    #[command(flatten)]
    Manual(squall_terminal::manual::ManualCommand),
}

/// Runs the program on the arguments of the command line, with these schedulers. Returns the exit
/// code: 0; 1 if something failed; 2 for invalid arguments.
pub fn main(registry: sched::Registry) -> ExitCode {
    let registry = Arc::new(registry);
    let outcome = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args, &registry),
        Command::Run(args) => run::run(&args, &registry),
        Command::Repro(args) => repro::run(&args, &registry),
        Command::Report(args) => report::run(&args, &registry),
        Command::Schedulers(args) => schedulers::run(&args, &registry),
        Command::Signal(args) => signal::run(&args),
        Command::Trace(args) => trace::run(&args),
        #[cfg(target_os = "linux")]
        Command::Shell(args) => shell::run(&args),
        #[cfg(target_os = "linux")]
        Command::ShellInit(args) => Ok(shell::init(&args)),
        Command::Video(args) => video::run(&args, &registry),
        #[cfg(target_os = "linux")]
        Command::Versus(args) => versus::run(&args),
        #[cfg(target_os = "linux")]
        Command::VersusSide(args) => versus::side(&args),
        #[cfg(target_os = "linux")]
        Command::VersusRelay(args) => versus::relay(&args),
        Command::Bench(args) => bench::run(&args),
        #[cfg(feature = "man")]
        Command::Manual(command) => command.run(Cli::command()),
    };
    outcome.unwrap_or_else(|error| squall_terminal::error::report("squall-lab", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_in_help_can_be_copied() {
        let lines = squall_testkit::check_help(Cli::command(), &["squall-lab ", "squall "]);
        assert!(lines > 30, "only {lines} lines of examples");
    }
}
