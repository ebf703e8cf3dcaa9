//! `squall signal`: what radios say, live and recorded.

mod fit;
mod gain;
mod import;
mod info;
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
    Fit(fit::FitArgs),
    Gain(gain::GainArgs),
    Import(import::ImportArgs),
    Info(info::InfoArgs),
    Watch(watch::WatchArgs),
}

/// Runs the command.
pub(crate) fn run(args: &SignalArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        SignalCommand::Fit(args) => fit::run(args),
        SignalCommand::Gain(args) => gain::run(args),
        SignalCommand::Import(args) => import::run(args),
        SignalCommand::Info(args) => info::run(args),
        SignalCommand::Watch(args) => watch::run(args),
    }
}
