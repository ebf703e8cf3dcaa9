//! What the bindings share: sessions for languages that wait for events instead of futures.
//!
//! Callers hold numbers, never pointers to objects of the library. A number refers to an object until that is removed, and to
//! nothing afterwards: numbers are not used twice, so a late call is an error and nothing worse ([`Table`]). Everything that
//! happens to a [`Session`] is an [`Event`] in a bounded queue, whose descriptor is readable while events wait ([`Queue`]). One
//! [`runtime`] drives all sessions.
//!
//! A forked process begins without any ([`PerProcess`], [`OfProcess`]): it has a runtime and numbers of its own, and the objects of its
//! parent are errors there.

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
