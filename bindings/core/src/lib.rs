//! Common part of the bindings: sessions for languages that wait for events instead of futures.
//!
//! Callers hold numbers, never pointers to objects of the library. A number refers to an object
//! until that is removed, and is never reused, so a late call only returns an error ([`Table`]).
//! All that happens in a [`Session`] is reported as an [`Event`] in a bounded queue, whose
//! descriptor is readable while events wait ([`Queue`]). One [`runtime`] drives all sessions.
//!
//! A forked process starts without any of these ([`PerProcess`], [`OfProcess`]): it has its own
//! runtime and numbers, and the use of its parent's objects is an error.

#![cfg(unix)]

mod code;
mod event;
mod events;
mod failure;
mod listen;
mod process;
mod queue;
mod runtime;
mod session;
mod table;

pub use code::{Cause, Code, EventKind};
pub use event::Event;
pub use failure::{Failure, defect};
pub use listen::listen;
pub use process::{OfProcess, PerProcess};
pub use queue::{Ended, Queue};
pub use runtime::{runtime, set_threads};
pub use session::Session;
pub use table::{Table, is_of_parent};
