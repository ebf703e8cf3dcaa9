//! The `squall` program.

mod demo;
mod error;
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
    Send(transfer::send::SendArgs),
    Recv(transfer::recv::RecvArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Send(args) => transfer::send::run(&args),
        Command::Recv(args) => transfer::recv::run(&args),
    };
    outcome.unwrap_or_else(|error| error::report(&error))
}
