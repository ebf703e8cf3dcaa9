//! `squall send` and `squall recv`: files and videos between two machines.
//!
//! [`send`] reads a [`source`] and hands over [`message`]s ([`delivery`]); [`recv`] takes them from a session
//! ([`incoming`]) and writes them ([`output`]). Both tell what each path carried ([`paths`]).
//! [`send`] may go by the radios of its interfaces.

mod delivery;
mod failure;
mod incoming;
pub(crate) mod message;
mod output;
mod paths;
pub(crate) mod recv;
pub(crate) mod send;
mod source;
mod viewing;

/// Writes a summary for machines.
fn write_json(file: &std::path::Path, summary: &impl serde::Serialize) -> anyhow::Result<()> {
    crate::output::write(file, &(serde_json::to_string_pretty(summary)? + "\n"))
}
