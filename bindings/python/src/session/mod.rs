//! Sessions on real networks, for asyncio. A Python coroutine waits for a task of one tokio
//! runtime; cancelling it drops the task's future. Sessions and blocks that arrive at that moment
//! wait in an `inbox`.

mod endpoint;
mod handle;
mod inbox;
mod runtime;

use std::time::Duration;

use pyo3::PyErr;
use pyo3::exceptions::PyValueError;

use crate::error::SessionError;
pub(crate) use endpoint::{Listener, connect, listen};
pub(crate) use handle::{Received, Sent, Session};
pub(crate) use runtime::end_at_exit;

/// Exception for an invalid argument.
fn argument<E: std::fmt::Display>(error: E) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Exception for an error of a session or endpoint.
fn failed<E: std::fmt::Display>(error: E) -> PyErr {
    SessionError::new_err(error.to_string())
}

/// Exception for the use of an object of the parent process after fork().
fn forked(failure: squall_bindings::Failure) -> PyErr {
    SessionError::new_err(failure.line)
}

/// Converts seconds to a duration.
fn seconds(name: &str, seconds: f64) -> Result<Duration, PyErr> {
    Duration::try_from_secs_f64(seconds).map_err(|error| argument(format!("{name}: {error}")))
}
