//! The C binding of Squall: `include/squall.h` as functions.
//!
//! C holds numbers (`handle`) for endpoints (`endpoint`) and for sessions, which `squall-bindings` has with their events and
//! the runtime. Here is what is special to C: structs that grow (`types`, `convert`), memory of the caller (`memory`), codes and the line
//! of the last failure (`error`). Only `memory` and `exports` use memory of the caller.

#![cfg(unix)]

mod connect;
mod convert;
mod endpoint;
mod error;
pub mod exports;
mod flatten;
mod handle;
mod memory;
mod radio;
pub mod types;
