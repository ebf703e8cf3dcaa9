//! What fails on the way: connections, processes, and what the system gives out. Most of these tests wait, so they are one
//! program and wait together.

#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod processes;
mod resume;
