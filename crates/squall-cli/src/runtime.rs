//! Threads of the program.

use std::{
    sync::{Mutex, PoisonError},
    thread::{self, Builder},
};

use anyhow::Context as _;
use squall_terminal::{lines, note};
use tokio::runtime::Runtime;

/// Starts a runtime with this number of threads. Tokio panics if the system cannot start them, so
/// this is checked first.
///
/// # Errors
/// If there are too few threads or descriptors.
pub(crate) fn start(threads: usize) -> anyhow::Result<Runtime> {
    let gate = Mutex::new(());
    let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| {
        let wait = || drop(gate.lock());
        let all: Result<Vec<_>, _> = (0..threads).map(|_| Builder::new().spawn_scoped(scope, wait)).collect();
        drop(closed);
        all.map(drop)
    })
    .with_context(|| format!("cannot start {threads} threads"))?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(threads).enable_all().build()?)
}

/// Starts a thread that writes to standard error, so that its reader cannot block a transfer.
///
/// # Errors
/// If the system cannot start a thread.
pub(crate) fn free_standard_error() -> anyhow::Result<()> {
    lines::start(|lost| note!("note: {lost} lines lost: standard error was not read"))
        .context("cannot start a thread")
}
