//! Failures during operation: of connections, processes, and system resources. Most of these tests
//! wait, so they are one program and wait together.

#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod processes;
mod resume;
