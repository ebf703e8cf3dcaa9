//! The `squall` program.

mod demo;
mod interrupt;
mod progress;
mod transfer;

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
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("squall: {error:#}");
        ExitCode::FAILURE
    })
}
