//! Log of a tunnel, on standard error.

use std::io::{self, Write};

use anyhow::Context as _;
use squall_terminal::lines;
use squall_tunnel::config::{LogConfig, LogFormat};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// Starts the log. `RUST_LOG` overrides the configured level: `LEVEL`, or a list of `TARGET=LEVEL`.
pub(super) fn start(log: &LogConfig) -> anyhow::Result<()> {
    // Logged as an error, so that it appears at every level.
    let report = |lost| tracing::error!("{lost} lines lost: standard error was not read");
    lines::start(report).context("cannot start the log")?;
    let level = LevelFilter::from(log.level);
    let configured = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_targets(["squall", "squall_tunnel", "squall_proto"].map(|target| (target, level)));
    let from_environment = std::env::var("RUST_LOG").ok().and_then(|targets| targets.parse().ok());
    let filter = from_environment.unwrap_or(configured);
    let lines = fmt::layer().with_ansi(false).with_writer(|| Queued);
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let started = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))
}

/// Standard error through the queue, without waiting for its reader.
struct Queued;

impl Write for Queued {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lines::queue(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
