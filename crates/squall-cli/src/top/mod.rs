//! `squall top`: the status of a running tunnel.
//!
//! [`rows`] formats the status as tables, [`screen`] shows them live.

mod rows;
mod screen;

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args;
use squall_observe::Status;

use squall_terminal::{output, wrap};

use crate::{fetch, tenants};

/// Interval of the requests.
const INTERVAL: Duration = Duration::from_millis(500);

/// Shows the status of a running `squall tunnel`: paths, flows, recent events.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  squall top\n  squall top 127.0.0.1:9471 --once\n  squall top --json - | jq .sessions\n\n\
                        The tunnel must serve its status: see `metrics` in docs/tunnel.md. q ends the view."
)]
pub(crate) struct TopArgs {
    /// Address of metrics and status of the tunnel
    #[arg(default_value = "127.0.0.1:9464", value_name = "ADDR:PORT", value_parser = crate::arguments::parse_address)]
    address: SocketAddr,
    /// Print the status once, as text
    #[arg(long)]
    once: bool,
    /// Write the status once as JSON; - for standard output
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
        std::thread::sleep(INTERVAL);
        let now = fetch::status(args.address)?;
        output::print(&text(&now, (&first, asked.elapsed().as_secs_f64())))?;
    } else {
        screen::show(args.address, first)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats the status as text, with rates since an earlier status; `before` is that status and the
/// seconds since then.
fn text(status: &Status, before: (&Status, f64)) -> String {
    let mut text = format!("{}\n\n", rows::title(status));
    let has_tenants = !status.tenants.is_empty();
    let tenants = has_tenants.then(|| tenants::table(&status.tenants));
    for table in [rows::paths(status), rows::flows(status, Some(before))].into_iter().chain(tenants) {
        text.push_str(&table.text());
        text.push('\n');
    }
    for event in rows::events(status) {
        text.push_str(&rows::event(event, status.uptime_s, wrap::width()));
    }
    text
}
