//! `squall signal`: the radios of this machine.

mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Shows the readings of radios and the effect of the watermarks
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
