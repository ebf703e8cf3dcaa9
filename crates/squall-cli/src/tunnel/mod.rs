//! `squall tunnel`: flows that exist, over all networks.
//!
//! [`options`] makes a configuration of flags or a file; [`service`] runs it, and heeds the signals by which services
//! are told to end or to read their files again; [`log`] tells what happens.

mod log;
mod options;
mod service;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use squall_terminal::{error::usage, output};

use self::options::Options;

/// Carries flows that exist (UDP, RTP, MPEG-TS) between two hosts, over all their networks.
///
/// What comes in at an `in` end leaves at the `out` end of the same name on the other host, byte for byte.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        squall tunnel --listen 0.0.0.0:4433 --out cam=udp://127.0.0.1:6000\n  \
        squall tunnel --to HOST:4433 --pin FINGERPRINT --token TOKEN \\\n      \
        --in cam=udp://127.0.0.1:5000,media=ts,latency=300ms\n  \
        squall tunnel /etc/squall/tunnel.toml\n  \
        squall tunnel check /etc/squall/tunnel.toml\n\n\
        The keys of a flow and of a file are in docs/tunnel.md. SIGHUP reloads the file."
)]
pub(crate) struct TunnelArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Looks whether a configuration could be used
    Check {
        /// The file
        config: std::path::PathBuf,
    },
}

/// Runs the command.
pub(crate) fn run(args: &TunnelArgs) -> anyhow::Result<ExitCode> {
    if let Some(Command::Check { config }) = &args.command {
        let config = options::load(config)?;
        squall_tunnel::Tunnel::check_files(&config).map_err(usage)?;
        output::print(&options::describe(&config))?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = args.options.plan()?;
    log::start(&plan.config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(service::run(plan));
    // A thread may still wait for the writer of a FIFO.
    runtime.shutdown_background();
    outcome?;
    Ok(ExitCode::SUCCESS)
}
