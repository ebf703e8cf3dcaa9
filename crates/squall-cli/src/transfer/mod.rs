//! `squall send` and `squall recv`: files and streams of bytes between two machines.
//!
//! [`send`] starts a [`sender`], which reads a [`source`], sends it in [`message`]s over successive
//! [`connection`]s, and keeps unacknowledged blocks ([`replay`]). [`recv`] starts a [`host`], which
//! authorises sessions ([`admission`]) and assigns them to transfers ([`incoming`]), which write
//! files ([`output`]). Both count the traffic of [`paths`]. `docs/transfer.md` describes the
//! messages, and the handling of lost connections.

mod admission;
mod connection;
mod failure;
mod host;
mod incoming;
pub(crate) mod message;
mod output;
mod paths;
mod qlog;
pub(crate) mod recv;
mod replay;
pub(crate) mod send;
mod sender;
mod source;

/// Writes a summary as JSON.
fn write_json(file: &std::path::Path, summary: &impl serde::Serialize) -> anyhow::Result<()> {
    squall_terminal::output::write(file, &(serde_json::to_string_pretty(summary)? + "\n"))
}
