//! `squall-lab signal`: recorded radios and their predictions of the links.

mod import;
mod info;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Imports recorded radios, and evaluates their predictions of the links.
#[derive(Args, Clone, Debug)]
pub(crate) struct SignalArgs {
    #[command(subcommand)]
    command: SignalCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum SignalCommand {
    Import(import::ImportArgs),
    Info(info::InfoArgs),
}

/// Runs the command.
pub(crate) fn run(args: &SignalArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        SignalCommand::Import(args) => import::run(args),
        SignalCommand::Info(args) => info::run(args),
    }
}
