//! The native half of Squall's Android library: what `dev.squall.core.Native` calls.
//!
//! Java holds numbers, never pointers. A number stands for a radio (`radio`), a network (`network`) or a
//! session (`session`), and for nothing once that is closed: numbers are not used twice, so a call that
//! comes too late is an exception and nothing worse. Whatever fails here becomes an exception with one line
//! that says why (`error`); a panic does as well.
//!
//! Only `exports` and `buffer` know of raw JNI.

#![cfg(unix)]

mod buffer;
mod connect;
mod error;
mod event;
mod exports;
mod network;
mod paths;
mod radio;
mod session;
