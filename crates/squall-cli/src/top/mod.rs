//! `squall top`: what a running tunnel is doing.
//!
//! [`fetch`] asks the tunnel for its status, [`rows`] makes tables of it, [`screen`] draws them as they change.

mod fetch;
mod rows;
mod screen;

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use clap::Args;
use squall_tunnel::Status;

use crate::output;

/// How often the tunnel is asked.
const EVERY: Duration = Duration::from_millis(500);

/// Shows what a running `squall tunnel` is doing: paths, flows, what happened lately.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  squall top\n  squall top 127.0.0.1:9471 --once\n\n\
                        The tunnel serves its status where `metrics` says. q ends the view.")]
pub(crate) struct TopArgs {
    /// Where the tunnel serves metrics and status
    #[arg(default_value = "127.0.0.1:9464")]
    address: SocketAddr,
    /// Print it once, as text
    #[arg(long)]
    once: bool,
}

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let first = fetch::status(args.address)?;
    if args.once {
        output::print(&text(&first))?;
        return Ok(ExitCode::SUCCESS);
    }
    screen::show(args.address, first)?;
    Ok(ExitCode::SUCCESS)
}

/// All of it as text.
fn text(status: &Status) -> String {
    let mut text = format!("{}\n\n", rows::title(status));
    for table in [rows::paths(status), rows::flows(status, None)] {
        text.push_str(&table.text());
        text.push('\n');
    }
    for event in &status.events {
        text.push_str(&format!("{}\n", rows::event(event)));
    }
    text
}
