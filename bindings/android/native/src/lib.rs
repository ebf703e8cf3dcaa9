//! Native half of Squall's Android library: the implementation of `dev.squall.core.Native`.
//!
//! Java holds numbers, never pointers. A number identifies a radio (`radio`), a network (`network`)
//! or a session (`session`) until that is closed. Numbers are never reused, so a late call only
//! causes an exception. Every failure, including a panic, becomes an exception with a one-line
//! reason (`error`).
//!
//! Only `exports` and `buffer` use raw JNI.

#![cfg(unix)]

mod buffer;
mod connect;
mod error;
mod event;
mod exports;
mod network;
mod paths;
mod radio;
mod ready;
mod session;
