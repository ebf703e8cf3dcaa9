//! State of a session, lent for one call.

use std::cell::Cell;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use squall_sched::{BlockId, BlockQueue, Context as View, PathView, Time};

use super::{Block, Path, Work};

scoped_tls::scoped_thread_local!(static QUEUE: BlockQueue);

thread_local! {
    /// Number of calls in this thread so far. A context belongs to one of them.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Input of a scheduler's decision.
#[pyclass(module = "squall.lab", frozen)]
pub(crate) struct Context {
    call: u64,
    #[pyo3(get)]
    now: u64,
    paths: Vec<PathView>,
}

/// Lends a context during `call`, which also gets its number.
pub(super) fn lend<R>(
    py: Python<'_>,
    cx: &View<'_>,
    call: impl FnOnce(Bound<'_, Context>, u64) -> PyResult<R>,
) -> PyResult<R> {
    let number = CALLS.get() + 1;
    CALLS.set(number);
    let context = Bound::new(py, Context { call: number, now: cx.now.micros(), paths: cx.paths.to_vec() })?;
    QUEUE.set(cx.queue, || call(context, number))
}

impl Context {
    fn queue<R>(&self, read: impl FnOnce(&BlockQueue) -> R) -> PyResult<R> {
        if QUEUE.is_set() && CALLS.get() == self.call {
            return Ok(QUEUE.with(read));
        }
        Err(PyRuntimeError::new_err("a context is valid until the call ends that it was passed to"))
    }

    fn work(&self, work: Option<squall_sched::Work>) -> Option<Work> {
        work.map(|work| Work::new(self.call, work))
    }
}

#[pymethods]
impl Context {
    #[getter]
    fn paths(&self) -> Vec<Path> {
        self.paths.iter().map(Path::of).collect()
    }

    fn path(&self, id: u8) -> Option<Path> {
        self.paths.iter().find(|path| path.id.0 == id).map(Path::of)
    }

    fn fastest_with_room(&self) -> Option<Path> {
        let queue = BlockQueue::new();
        View { now: Time::from_micros(self.now), queue: &queue, paths: &self.paths }
            .fastest_with_room()
            .map(Path::of)
    }

    fn next_in_line(&self) -> PyResult<Option<Work>> {
        Ok(self.work(self.queue(BlockQueue::next_in_line)?))
    }

    fn next_repair(&self) -> PyResult<Option<Work>> {
        Ok(self.work(self.queue(BlockQueue::next_repair)?))
    }

    fn next_fresh(&self) -> PyResult<Option<Work>> {
        Ok(self.work(self.queue(BlockQueue::next_fresh)?))
    }

    /// Returns unfinished blocks, oldest first.
    fn blocks(&self) -> PyResult<Vec<Block>> {
        self.queue(|queue| queue.iter().map(|block| Block::of(self.call, block)).collect())
    }

    /// Returns blocks with bytes to send, earliest deadline first.
    #[pyo3(signature = (most = None))]
    fn by_deadline(&self, most: Option<usize>) -> PyResult<Vec<Block>> {
        let most = most.unwrap_or(usize::MAX);
        self.queue(|queue| queue.by_deadline().take(most).map(|block| Block::of(self.call, block)).collect())
    }

    fn block(&self, id: u64) -> PyResult<Option<Block>> {
        self.queue(|queue| queue.get(BlockId(id)).map(|block| Block::of(self.call, block)))
    }
}
