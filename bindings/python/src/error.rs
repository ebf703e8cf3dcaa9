//! Exceptions with one line each, which is that of the command.

use pyo3::{PyErr, create_exception, exceptions::PyException};

create_exception!(squall, Error, PyException, "What Squall reports, in one line.");
create_exception!(
    squall.lab,
    ScenarioError,
    Error,
    "A scenario, scheduler or seed that can't be used: exit code 2 of the command."
);
create_exception!(squall.lab, RunError, Error, "A run that failed: exit code 1 of the command.");

create_exception!(
    squall,
    SessionError,
    Error,
    "A session that can't be had, is over, or belongs to the process that this one was forked from."
);

/// Converts an error, for `map_err`.
pub(crate) fn scenario(error: impl std::fmt::Display) -> PyErr {
    ScenarioError::new_err(error.to_string())
}
