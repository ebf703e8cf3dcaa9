//! Decisions of schedulers in Python.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use squall_sched::{Assignment, BlockId, Context, Decision, PathId, Time};

use super::{Block, Path, Work};

/// Reason in the event log.
const REASON: &str = "a scheduler in Python";

/// A path or its id.
#[derive(FromPyObject)]
pub(crate) enum PathOrId<'py> {
    #[pyo3(transparent)]
    Path(PyRef<'py, Path>),
    #[pyo3(transparent)]
    Id(u8),
}

/// A block or its id.
#[derive(FromPyObject)]
pub(crate) enum BlockOrId<'py> {
    #[pyo3(transparent)]
    Block(PyRef<'py, Block>),
    #[pyo3(transparent)]
    Id(u64),
}

impl PathOrId<'_> {
    fn id(self) -> u8 {
        match self {
            Self::Path(path) => path.id,
            Self::Id(id) => id,
        }
    }
}

/// Send a range of a block.
#[pyclass(module = "squall.lab", name = "Send", frozen)]
pub(crate) struct SendWork {
    work: Work,
    path: u8,
}

/// Cancel a block.
#[pyclass(module = "squall.lab", frozen)]
pub(crate) struct Cancel(u64);

/// Measure the round trip of a path.
#[pyclass(module = "squall.lab", frozen)]
pub(crate) struct Probe(u8);

/// Nothing to send now.
#[pyclass(module = "squall.lab", frozen)]
pub(crate) struct Idle(Option<u64>);

#[pymethods]
impl SendWork {
    #[new]
    fn new(work: Work, path: PathOrId<'_>) -> Self {
        Self { work, path: path.id() }
    }
}

#[pymethods]
impl Cancel {
    #[new]
    fn new(block: BlockOrId<'_>) -> Self {
        Self(match block {
            BlockOrId::Block(block) => block.id,
            BlockOrId::Id(id) => id,
        })
    }
}

#[pymethods]
impl Probe {
    #[new]
    fn new(path: PathOrId<'_>) -> Self {
        Self(path.id())
    }
}

#[pymethods]
impl Idle {
    #[new]
    #[pyo3(signature = (wake = None))]
    fn new(wake: Option<u64>) -> Self {
        Self(wake)
    }
}

/// Converts the answer of a scheduler to a decision, and checks it against the state of the
/// session.
pub(super) fn read(answer: &Bound<'_, PyAny>, cx: &Context<'_>, call: u64) -> PyResult<Decision> {
    if answer.is_none() {
        return Ok(Decision::idle());
    }
    if let Ok(send) = answer.cast::<SendWork>() {
        return assignment(send.get(), cx, call).map(Decision::Send);
    }
    if let Ok(cancel) = answer.cast::<Cancel>() {
        let block = BlockId(cancel.get().0);
        let known = cx.queue.get(block).map(|_| Decision::Cancel { block, reason: REASON });
        return known.ok_or_else(|| PyValueError::new_err(format!("Cancel: there is no block {block}")));
    }
    if let Ok(probe) = answer.cast::<Probe>() {
        let path = PathId(probe.get().0);
        let known = cx.path(path).map(|_| Decision::Probe(path));
        return known.ok_or_else(|| PyValueError::new_err(format!("Probe: there is no path {path}")));
    }
    if let Ok(idle) = answer.cast::<Idle>() {
        return Ok(Decision::Idle { wake: idle.get().0.map(Time::from_micros) });
    }
    let kind = answer.get_type().name()?;
    Err(PyTypeError::new_err(format!("next() returned a {kind}, not Send, Cancel, Probe, Idle or None")))
}

fn assignment(send: &SendWork, cx: &Context<'_>, call: u64) -> PyResult<Assignment> {
    let wrong = |words: String| Err(PyValueError::new_err(format!("Send: {words}")));
    if send.work.call != call {
        return wrong("the work is of an earlier call".into());
    }
    match cx.path(PathId(send.path)) {
        None => wrong(format!("there is no path {}", send.path)),
        Some(path) if !path.has_room() => wrong(format!("path {} has no room", send.path)),
        Some(path) => Ok(Assignment::new(send.work.work.clone(), path.id, REASON)),
    }
}
