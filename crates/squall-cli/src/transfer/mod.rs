//! `squall send` and `squall recv`: files and streams of bytes between two machines.
//!
//! [`send`] reads a [`source`] and hands over [`message`]s ([`delivery`]) to one session after the other ([`line`]),
//! and keeps what the receiver is not known to have ([`replay`]). [`recv`] lets sessions in that may send
//! ([`admission`]), brings each to its transfer ([`host`], [`incoming`]), and writes what they carry ([`output`]). Both
//! report what each path carried ([`paths`]), and use a session through [`talk`]. `docs/transfer.md` describes the
//! messages, and what happens when a connection is lost.

mod admission;
mod delivery;
mod failure;
mod host;
mod incoming;
mod line;
pub(crate) mod message;
mod output;
mod paths;
pub(crate) mod recv;
mod replay;
pub(crate) mod send;
mod source;
mod talk;

/// Writes a summary for machines.
fn write_json(file: &std::path::Path, summary: &impl serde::Serialize) -> anyhow::Result<()> {
    squall_terminal::output::write(file, &(serde_json::to_string_pretty(summary)? + "\n"))
}
