//! `squall signal`: the radios of this machine.

mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Shows what radios say and what the watermarks make of it.
#[derive(Args, Clone, Debug)]
pub(crate) struct SignalArgs {
    #[command(subcommand)]
    command: SignalCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum SignalCommand {
    Watch(watch::WatchArgs),
}

/// Runs the command.
pub(crate) fn run(args: &SignalArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        SignalCommand::Watch(args) => watch::run(args),
    }
}
