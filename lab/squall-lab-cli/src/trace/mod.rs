//! `squall-lab trace`: statistics, pictures and conversion of recorded links.

mod convert;
mod figures;
mod info;
mod plot;
mod reading;

use std::process::ExitCode;

use clap::{Args, Subcommand};

pub(crate) use self::{
    figures::{number, seconds},
    reading::formats,
};

/// Shows recorded links, and converts them for paths of scenarios.
#[derive(Args, Clone, Debug)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum TraceCommand {
    Info(info::InfoArgs),
    Convert(convert::ConvertArgs),
    Plot(plot::PlotArgs),
}

/// Runs the command.
pub(crate) fn run(args: &TraceArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        TraceCommand::Info(args) => info::run(args),
        TraceCommand::Convert(args) => convert::run(args),
        TraceCommand::Plot(args) => plot::run(args),
    }
}
