//! The runtime of all endpoints and sessions.

use std::sync::{Mutex, OnceLock, PoisonError};

use tokio::runtime::{Builder, Runtime};

use crate::{Code, Failure};

/// Worker threads at most.
const MOST: u32 = 64;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Worker threads of the runtime. Locked while the runtime starts.
static THREADS: Mutex<u32> = Mutex::new(1);

/// Sets the number of worker threads, 1 to 64, before the runtime has started. Default: 1.
///
/// # Errors
/// [`Code::ErrorArgument`] for another number, or if the runtime has started.
pub fn set_threads(threads: u32) -> Result<(), Failure> {
    if !(1..=MOST).contains(&threads) {
        return Err(Failure::argument(format!("there can be 1 to {MOST} threads, not {threads}")));
    }
    let mut current = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    if RUNTIME.get().is_some() {
        return Err(Failure::argument("the threads have started: set their number before the first session"));
    }
    *current = threads;
    Ok(())
}

/// The runtime of all sessions; the first call starts its threads.
///
/// # Errors
/// [`Code::ErrorSystem`] if the system has no threads or descriptors left.
pub fn runtime() -> Result<&'static Runtime, Failure> {
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    if RUNTIME.get().is_none() {
        let mut builder = Builder::new_multi_thread();
        let started = builder.worker_threads(*threads as usize).thread_name("squall").enable_all().build();
        let runtime = started.map_err(Failure::of(Code::ErrorSystem))?;
        // The lock is held: there is no other.
        let _ = RUNTIME.set(runtime);
    }
    RUNTIME.get().ok_or_else(|| Failure::new(Code::ErrorInternal, "the threads did not start"))
}
