//! `squall top`: what a running tunnel is doing.
//!
//! [`fetch`] asks the tunnel for its status, [`rows`] makes tables of it, [`screen`] draws them as they change.

mod fetch;
mod rows;
mod screen;

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args;
use squall_tunnel::Status;

use squall_terminal::{output, wrap};

/// How often the tunnel is asked.
const EVERY: Duration = Duration::from_millis(500);

/// Shows what a running `squall tunnel` is doing: paths, flows, what happened lately.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  squall top\n  squall top 127.0.0.1:9471 --once\n  squall top --json - | jq .sessions\n\n\
                        The tunnel serves its status where `metrics` says. q ends the view."
)]
pub(crate) struct TopArgs {
    /// Where the tunnel serves metrics and status
    #[arg(default_value = "127.0.0.1:9464")]
    address: SocketAddr,
    /// Print it once, as text
    #[arg(long)]
    once: bool,
    /// Write it once as JSON, as the tunnel's /status has it; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "once")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let first = fetch::status(args.address)?;
    if let Some(file) = &args.json {
        output::write(file, &format!("{}\n", serde_json::to_string_pretty(&first)?))?;
    } else if args.once {
        let asked = Instant::now();
        std::thread::sleep(EVERY);
        let now = fetch::status(args.address)?;
        output::print(&text(&now, (&first, asked.elapsed().as_secs_f64())))?;
    } else {
        screen::show(args.address, first)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All of it as text, with rates since the status of so many seconds before.
fn text(status: &Status, before: (&Status, f64)) -> String {
    let mut text = format!("{}\n\n", rows::title(status));
    for table in [rows::paths(status), rows::flows(status, Some(before))] {
        text.push_str(&table.text());
        text.push('\n');
    }
    for event in &status.events {
        text.push_str(&rows::event(event, status.uptime_s, wrap::width()));
    }
    text
}
