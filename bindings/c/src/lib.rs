//! C binding of Squall: the functions of `include/squall.h`.
//!
//! C holds numbers (`handle`) for endpoints (`endpoint`) and for sessions, which `squall-bindings`
//! provides with their events and the runtime. This crate has the parts specific to C: structs that
//! grow (`types`, `convert`), memory of the caller (`memory`), codes and the message of the last
//! failure (`error`). Only `memory` and `exports` access memory of the caller.

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
