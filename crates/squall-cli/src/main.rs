//! The `squall` program.

// A line that cannot be written, on a full disk or to a reader that has gone, must not end what runs.
#![deny(clippy::print_stderr)]

/// Writes a line to standard error; where that cannot be written, the line is lost and nothing else.
macro_rules! note {
    ($($words:tt)*) => {
        $crate::output::on_stderr(&format!("{}\n", format_args!($($words)*)))
    };
}

mod bench;
mod demo;
mod error;
mod findings;
mod input;
mod interrupt;
mod list;
mod output;
mod progress;
mod report;
mod repro;
mod run;
mod schedulers;
#[cfg(target_os = "linux")]
mod shell;
mod signal;
mod token;
mod top;
mod trace;
mod transfer;
mod tunnel;
#[cfg(target_os = "linux")]
mod versus;
mod video;
mod wrap;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Multipath QUIC transport for real-time media, and the laboratory that proves it.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Send(transfer::send::SendArgs),
    Recv(transfer::recv::RecvArgs),
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
    Tunnel(Box<tunnel::TunnelArgs>),
    #[cfg(target_os = "linux")]
    Versus(versus::VersusArgs),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    VersusSide(versus::PartArgs),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    VersusRelay(versus::PartArgs),
    Top(top::TopArgs),
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Send(args) => transfer::send::run(&args),
        Command::Recv(args) => transfer::recv::run(&args),
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
        Command::Tunnel(args) => tunnel::run(&args),
        #[cfg(target_os = "linux")]
        Command::Versus(args) => versus::run(&args),
        #[cfg(target_os = "linux")]
        Command::VersusSide(args) => versus::side(&args),
        #[cfg(target_os = "linux")]
        Command::VersusRelay(args) => versus::relay(&args),
        Command::Top(args) => top::run(&args),
        Command::Bench(args) => bench::run(&args),
    };
    outcome.unwrap_or_else(|error| error::report(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// Widest line of an example, so that no terminal has to wrap it.
    const WIDEST: usize = 80;

    /// The help of a command and of all commands below it, each with its name.
    fn helps(command: &mut clap::Command, name: &str, all: &mut Vec<(String, String)>) {
        all.push((name.to_owned(), command.clone().term_width(WIDEST).render_long_help().to_string()));
        let below: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
        for below in below.iter().filter(|name| *name != "help") {
            let command = command.find_subcommand_mut(below).expect("it is listed");
            helps(command, &format!("{name} {below}"), all);
        }
    }

    /// The examples of a help text, line by line without their indent.
    fn examples(help: &str) -> impl Iterator<Item = &str> {
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        lines.take_while(|line| !line.is_empty()).map(str::trim)
    }

    #[test]
    fn examples_in_help_can_be_copied() {
        let mut all = Vec::new();
        helps(&mut Cli::command(), "squall", &mut all);
        let mut count = 0;
        for (name, help) in &all {
            let mut continues = false;
            for line in examples(help) {
                count += 1;
                let begins = ["squall ", "tar ", "SQUALL_"].iter().any(|word| line.starts_with(word));
                assert!(
                    continues || begins,
                    "squall {name} --help breaks an example before {line:?}:\n{help}"
                );
                assert!(line.chars().count() < WIDEST, "squall {name} --help: {line}");
                continues = line.ends_with('\\');
            }
            assert!(!continues, "the last example of squall {name} --help is cut");
        }
        assert!(count > 50, "only {count} lines of examples in {} helps", all.len());
    }
}
