//! The C binding of Squall: `include/squall.h` as functions.
//!
//! C holds numbers, never pointers to objects of the library. A number refers to an endpoint (`endpoint`) or a session
//! (`session`) until that is freed, and to nothing afterwards: numbers are not used twice, so a late call is an error and
//! nothing worse (`handle`). Everything that happens to a session is an event in a bounded queue (`events`) whose descriptor
//! is readable while events wait (`queue`). One runtime drives all sessions (`runtime`).
//!
//! Only `memory` and `exports` use memory of the caller.

#![cfg(unix)]

mod connect;
mod endpoint;
mod error;
mod events;
pub mod exports;
mod flatten;
mod handle;
mod memory;
mod queue;
mod runtime;
mod session;
pub mod types;
