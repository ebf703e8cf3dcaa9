//! The tokio runtime of sessions. It ends before the interpreter does: a thread that still returns
//! a result to Python while the interpreter shuts down would end the process with a signal. A
//! forked process has its own runtime.

use std::cell::OnceCell;
use std::pin::Pin;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::{IntoPyObject, wrap_pyfunction};
use pyo3_async_runtimes::TaskLocals;
use pyo3_async_runtimes::generic::{self, ContextExt};
use squall_bindings::PerProcess;
use tokio::runtime::{Handle, Runtime};
use tokio::task;

/// Maximum time that the end of the interpreter waits for results that are being returned.
const END: Duration = Duration::from_secs(1);

/// The runtime until it ends, and its handle.
struct Threads {
    handle: Handle,
    runtime: Mutex<Option<Runtime>>,
}

static THREADS: PerProcess<OnceLock<Threads>> = PerProcess::new();

/// Returns the handle of this process's runtime; the first call starts its threads.
pub(super) fn handle() -> &'static Handle {
    let threads = THREADS.get().get_or_init(|| {
        let runtime = Runtime::new().expect("the system has threads and descriptors left");
        Threads { handle: runtime.handle().clone(), runtime: Mutex::new(Some(runtime)) }
    });
    &threads.handle
}

/// Returns the awaitable of a future.
pub(super) fn awaitable<'py, T>(
    py: Python<'py>,
    future: impl Future<Output = PyResult<T>> + Send + 'static,
) -> PyResult<Bound<'py, PyAny>>
where
    T: for<'a> IntoPyObject<'a> + Send + 'static,
{
    generic::future_into_py::<Tokio, _, T>(py, future)
}

/// Registers the end of the runtime for the exit of the interpreter.
pub(crate) fn end_at_exit(py: Python<'_>) -> PyResult<()> {
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(end, py)?,)).map(drop)
}

/// Ends the runtime, if this process has started one. Results that are being returned need the
/// interpreter until then.
#[pyfunction]
fn end(py: Python<'_>) {
    let Some(threads) = THREADS.get().get() else { return };
    let runtime = threads.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
    py.detach(|| runtime.map(|runtime| runtime.shutdown_timeout(END)));
}

tokio::task_local! {
    static LOCALS: OnceCell<TaskLocals>;
}

/// The runtime for `pyo3_async_runtimes`, whose own one cannot end.
struct Tokio;

/// Error of a task without a result.
struct JoinError(task::JoinError);

impl generic::JoinError for JoinError {
    fn is_panic(&self) -> bool {
        self.0.is_panic()
    }

    fn into_panic(self) -> Box<dyn std::any::Any + Send + 'static> {
        self.0.into_panic()
    }
}

impl generic::Runtime for Tokio {
    type JoinError = JoinError;
    type JoinHandle = Pin<Box<dyn Future<Output = Result<(), JoinError>> + Send>>;

    fn spawn<F: Future<Output = ()> + Send + 'static>(future: F) -> Self::JoinHandle {
        let task = handle().spawn(future);
        Box::pin(async { task.await.map_err(JoinError) })
    }

    fn spawn_blocking<F: FnOnce() + Send + 'static>(call: F) -> Self::JoinHandle {
        let task = handle().spawn_blocking(call);
        Box::pin(async { task.await.map_err(JoinError) })
    }
}

impl ContextExt for Tokio {
    fn scope<F, R>(locals: TaskLocals, future: F) -> Pin<Box<dyn Future<Output = R> + Send>>
    where
        F: Future<Output = R> + Send + 'static,
    {
        Box::pin(LOCALS.scope(OnceCell::from(locals), future))
    }

    fn get_task_locals() -> Option<TaskLocals> {
        LOCALS.try_with(|locals| locals.get().cloned()).unwrap_or_default()
    }
}
