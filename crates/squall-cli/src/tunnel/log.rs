//! The log of a tunnel, on standard error.

use std::io::{self, Write};

use squall_tunnel::config::{LogConfig, LogFormat};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// Starts the log. `RUST_LOG` overrides the configured level: `LEVEL`, or a list of `TARGET=LEVEL`.
pub(super) fn start(log: &LogConfig) -> anyhow::Result<()> {
    let level = LevelFilter::from(log.level);
    let configured = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_targets(["squall", "squall_tunnel", "squall_proto"].map(|target| (target, level)));
    let from_environment = std::env::var("RUST_LOG").ok().and_then(|targets| targets.parse().ok());
    let filter = from_environment.unwrap_or(configured);
    let lines = fmt::layer().with_ansi(false).with_writer(|| Lossy);
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let started = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))
}

/// Standard error. Lines that cannot be written are lost: the tunnel survives a full disk and the end of its reader.
struct Lossy;

impl Write for Lossy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
