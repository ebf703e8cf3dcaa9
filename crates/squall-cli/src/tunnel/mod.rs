//! `squall tunnel`: existing flows over all networks.
//!
//! [`options`] builds a configuration from options or a file; [`service`] runs it, and handles the signals that stop or
//! reload a service; [`log`] starts the log.

mod log;
mod options;
mod service;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use squall_terminal::{error::usage, note, output};

use self::options::Options;

/// Carries existing flows (UDP, RTP, MPEG-TS) and IP packets between two hosts, over all their networks.
///
/// Datagrams that enter at an `in` end leave at the `out` end of the same name on the other host, byte for byte.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        squall tunnel --listen 0.0.0.0:4433 --out cam=udp://127.0.0.1:6000\n  \
        squall tunnel --to HOST:4433 --pin FINGERPRINT --token TOKEN \\\n      \
        --in cam=udp://127.0.0.1:5000,media=ts,latency=300ms\n  \
        squall tunnel --listen 0.0.0.0:4433 --tun 10.98.0.1/24,fd98::1/64\n  \
        squall tunnel /etc/squall/tunnel.toml\n  \
        squall tunnel check /etc/squall/tunnel.toml\n\n\
        docs/tunnel.md lists the keys of a flow and of a file, docs/tun.md those of a TUN device. SIGHUP reloads the file."
)]
pub(crate) struct TunnelArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Checks a configuration without starting the tunnel
    Check {
        /// Configuration file
        config: std::path::PathBuf,
    },
}

/// Runs the command.
pub(crate) fn run(args: &TunnelArgs) -> anyhow::Result<ExitCode> {
    if let Some(Command::Check { config }) = &args.command {
        let config = options::load(config)?;
        squall_tunnel::Tunnel::check_files(&config).map_err(usage)?;
        output::print(&options::describe(&config))?;
        for warning in config.warning().into_iter().chain(config.missing()) {
            note!("warning: {warning}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let plan = args.options.plan()?;
    log::start(&plan.config.log)?;
    // In addition to the workers of the endpoint, the flows need a thread.
    let threads = plan.config.workers + 1;
    let runtime = crate::runtime::start(threads)?;
    let outcome = runtime.block_on(service::run(plan));
    // A thread may still read a FIFO.
    runtime.shutdown_background();
    outcome?;
    Ok(ExitCode::SUCCESS)
}
