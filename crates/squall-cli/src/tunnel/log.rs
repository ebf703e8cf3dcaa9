//! The log of a tunnel, on standard error.

use std::io::{self, Write};

use squall_tunnel::config::{LogConfig, LogFormat};
use tracing_subscriber::{EnvFilter, fmt};

/// Logs from now on. `RUST_LOG` has the last word on how much.
pub(super) fn start(log: &LogConfig) -> anyhow::Result<()> {
    let level = log.level.name();
    // Who sends datagrams that are no transport stream is not to fill the log.
    let usual =
        format!("warn,squall={level},squall_tunnel={level},squall_proto={level},mpeg2ts_reader=error");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    let lines = fmt().with_env_filter(filter).with_writer(|| Lossy);
    let started = match log.format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("the log cannot be started: {error}"))
}

/// Standard error. What cannot be written there is lost: the tunnel outlives a full disk, and a reader of its log.
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
