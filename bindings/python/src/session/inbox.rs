//! Arrivals for coroutines; cancelling a coroutine does not lose any.

use std::sync::Arc;

use pyo3::prelude::*;
use tokio::sync::Mutex;

/// Holds an arrival until a coroutine takes it in the thread of its event loop. Contains at most
/// one; the next is fetched only when it was taken. `squall._session` has the coroutine.
pub(super) struct Inbox<T>(Arc<Mutex<Option<T>>>);

impl<T> Inbox<T> {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    pub(super) fn share(&self) -> Self {
        Self(self.0.clone())
    }

    /// Takes the arrival, if there is one.
    pub(super) fn take(&self) -> Option<T> {
        // While the lock is held, its holder waits for the next arrival.
        self.0.try_lock().ok()?.take()
    }

    /// Waits for an arrival. Returns `false` if there will be none. If it is dropped, `next` has
    /// either not finished, or its result is in the inbox.
    pub(super) async fn fill(self, next: impl Future<Output = Option<T>>) -> bool {
        let mut arrival = self.0.lock().await;
        if arrival.is_none() {
            *arrival = next.await;
        }
        arrival.is_some()
    }
}

/// Calls a function of `squall._session`.
pub(super) fn call<'py>(source: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    source.py().import("squall._session")?.getattr(name)?.call1((source,))
}
