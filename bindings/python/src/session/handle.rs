//! An open session, and the blocks that it sends and receives.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use squall::{Block, BlockHandle, BlockOptions, Channel, Outcome, PathHint, Priority};
use squall_bindings::OfProcess;

use super::inbox::{self, Inbox};
use super::runtime::awaitable;
use super::{argument, failed, forked, seconds};

/// A session.
#[pyclass(module = "squall", frozen)]
pub(crate) struct Session(OfProcess<Open>);

struct Open {
    session: squall::Session,
    inbox: Inbox<squall::Received>,
}

/// A block that was submitted.
#[pyclass(module = "squall", frozen)]
pub(crate) struct Sent {
    #[pyo3(get)]
    id: u64,
    handle: OfProcess<Mutex<Option<BlockHandle>>>,
}

/// A block that arrived.
#[pyclass(module = "squall", frozen)]
pub(crate) struct Received(squall::Received);

impl From<squall::Session> for Session {
    fn from(session: squall::Session) -> Self {
        Self(OfProcess::new(Open { session, inbox: Inbox::new() }))
    }
}

impl Session {
    fn open(&self) -> PyResult<&Open> {
        self.0.get("session").map_err(forked)
    }
}

#[pymethods]
impl Session {
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    #[pyo3(signature = (data, *, deadline = None, priority = 3, reliable = true, partial = false, ordered = false, channel = 0,
        value = None, prefer = None, avoid = None, only = None))]
    fn send<'py>(
        &self,
        py: Python<'py>,
        data: Cow<'_, [u8]>,
        deadline: Option<f64>,
        priority: u8,
        reliable: bool,
        partial: bool,
        ordered: bool,
        channel: u16,
        value: Option<u16>,
        prefer: Option<String>,
        avoid: Option<String>,
        only: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let hint = match (prefer, avoid, only) {
            (None, None, None) => None,
            (Some(path), None, None) => Some(PathHint::prefer(path)),
            (None, Some(path), None) => Some(PathHint::avoid(path)),
            (None, None, Some(path)) => Some(PathHint::only(path)),
            _ => return Err(argument("give one of prefer, avoid and only")),
        };
        let options = BlockOptions::new()
            .deadline(deadline.map(|deadline| seconds("deadline", deadline)).transpose()?)
            .priority(Priority::try_from(priority).map_err(argument)?)
            .reliable(reliable)
            .partial(partial)
            .channel(Channel::try_from(channel).map_err(argument)?)
            .ordered(ordered)
            .value(value)
            .hint(hint);
        let block = Block::with(data.into_owned(), options);
        let session = self.open()?.session.clone();
        awaitable(py, async move {
            let handle = session.send(block).await.map_err(failed)?;
            Ok(Sent { id: handle.id().0, handle: OfProcess::new(Mutex::new(Some(handle))) })
        })
    }

    /// Returns the next block; none when the session has ended.
    fn recv<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        inbox::call(this, "take")
    }

    fn __aiter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __anext__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        inbox::call(this, "take_next")
    }

    fn _take(&self) -> PyResult<Option<Received>> {
        Ok(self.open()?.inbox.take().map(Received))
    }

    fn _fill<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Open { session, inbox } = self.open()?;
        let (session, inbox) = (session.clone(), inbox.share());
        awaitable(py, async move { Ok(inbox.fill(async { session.recv().await.ok().flatten() }).await) })
    }

    #[pyo3(signature = (timeout = 5.0))]
    fn finish<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Bound<'py, PyAny>> {
        let (session, timeout) = (self.open()?.session.clone(), seconds("timeout", timeout)?);
        awaitable(py, async move { session.finish(timeout).await.map_err(failed) })
    }

    #[pyo3(signature = (code = 0, reason = ""))]
    fn close(&self, code: u32, reason: &str) -> PyResult<()> {
        self.open()?.session.close(code, reason);
        Ok(())
    }

    fn closed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let session = self.open()?.session.clone();
        awaitable(py, async move { Ok(session.closed().await.to_string()) })
    }

    #[getter]
    fn remote(&self) -> PyResult<Option<String>> {
        Ok(Some(self.open()?.session.remote_address().to_string()))
    }

    #[getter]
    fn max_block_len(&self) -> PyResult<usize> {
        Ok(self.open()?.session.max_block_len())
    }

    /// Returns local address, remote address, state and smoothed round-trip time in seconds of each
    /// path.
    fn paths(&self) -> PyResult<Vec<(String, String, String, f64)>> {
        let paths = self.open()?.session.paths();
        let row = |path: &squall::PathInfo| {
            let (state, srtt) = (path.stats.state.to_string(), path.stats.srtt.as_secs_f64());
            (path.local.to_string(), path.remote.to_string(), state, srtt)
        };
        Ok(paths.iter().map(row).collect())
    }

    /// Capacity for blocks over the next second, reached with probability 0.9, in bits per second.
    #[getter]
    fn safe_rate(&self) -> PyResult<u64> {
        Ok(self.open()?.session.capacity().safe)
    }
}

#[pymethods]
impl Sent {
    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let handle = self.handle.get("block").map_err(forked)?;
        let handle = handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let handle = handle.ok_or_else(|| PyRuntimeError::new_err("the outcome was asked for before"))?;
        awaitable(py, async move { Ok(word(&handle.await)) })
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Delivered { .. } => "delivered",
        Outcome::Expired { .. } => "expired",
        Outcome::Lost { .. } => "lost",
        Outcome::Cancelled { .. } => "cancelled",
        Outcome::Refused(_) => "refused",
        _ => "closed",
    }
}

#[pymethods]
impl Received {
    #[getter]
    fn id(&self) -> u64 {
        self.0.id.0
    }

    /// Returns the bytes; each access copies them.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.data)
    }

    /// Returns the first byte of each missing range, and one past its last.
    #[getter]
    fn missing(&self) -> Vec<(u32, u32)> {
        self.0.missing.iter().map(|range| (range.start, range.end)).collect()
    }

    #[getter]
    fn channel(&self) -> u16 {
        self.0.channel.get()
    }

    #[getter]
    fn priority(&self) -> u8 {
        self.0.priority.get()
    }

    #[getter]
    fn reliable(&self) -> bool {
        self.0.reliable
    }
}
