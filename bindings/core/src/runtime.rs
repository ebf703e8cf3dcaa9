//! The runtime of all endpoints and sessions.

use std::sync::{Mutex, OnceLock, PoisonError};

use tokio::runtime::{Builder, Runtime};

use crate::{Code, Failure, PerProcess};

/// Maximum number of worker threads.
const MOST: u32 = 64;

static STATE: PerProcess<State> = PerProcess::new();

struct State {
    runtime: OnceLock<Runtime>,
    /// Worker threads of the runtime. Locked while the runtime starts.
    threads: Mutex<u32>,
}

impl Default for State {
    fn default() -> Self {
        Self { runtime: OnceLock::new(), threads: Mutex::new(1) }
    }
}

/// Sets the number of worker threads, 1 to 64, before the runtime has started. Default: 1.
///
/// # Errors
/// [`Code::ErrorArgument`] for another number, or if the runtime has started.
pub fn set_threads(threads: u32) -> Result<(), Failure> {
    if !(1..=MOST).contains(&threads) {
        return Err(Failure::argument(format!("there can be 1 to {MOST} threads, not {threads}")));
    }
    let state = STATE.get();
    let mut current = state.threads.lock().unwrap_or_else(PoisonError::into_inner);
    if state.runtime.get().is_some() {
        return Err(Failure::argument("the threads have started: set their number before the first session"));
    }
    *current = threads;
    Ok(())
}

/// Returns the runtime of all sessions of this process; the first call starts its threads.
///
/// # Errors
/// [`Code::ErrorSystem`] if the system has no threads or descriptors left.
pub fn runtime() -> Result<&'static Runtime, Failure> {
    let State { runtime, threads } = STATE.get();
    if let Some(runtime) = runtime.get() {
        return Ok(runtime);
    }
    let threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
    if runtime.get().is_none() {
        let mut builder = Builder::new_multi_thread();
        let started = builder.worker_threads(*threads as usize).thread_name("squall").enable_all().build();
        // The lock is held: it is not set yet.
        let _ = runtime.set(started.map_err(Failure::of(Code::ErrorSystem))?);
    }
    runtime.get().ok_or_else(|| Failure::new(Code::ErrorInternal, "the threads did not start"))
}
