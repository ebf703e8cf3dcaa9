//! `squall send` and `squall recv`: files and videos between two machines.
//!
//! [`send`] reads a [`source`] and hands over [`message`]s; [`recv`] takes them from a session ([`incoming`])
//! and writes them ([`output`]). Both tell what each path carried ([`paths`]).

mod failure;
mod incoming;
pub(crate) mod message;
mod output;
mod paths;
pub(crate) mod recv;
pub(crate) mod send;
mod source;
mod viewing;
