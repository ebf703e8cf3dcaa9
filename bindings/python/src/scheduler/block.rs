//! Blocks, and ranges of them that could be sent, for schedulers in Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use squall_sched::{Block as Queued, BlockId, Segment, SegmentState, Time, WorkKind};

/// First byte, one past the last byte, state, and the paths on which the bytes are in flight.
type Part = (u32, u32, &'static str, Vec<usize>);

/// An unfinished block at one moment.
#[pyclass(module = "squall.lab", frozen)]
pub(crate) struct Block {
    #[pyo3(get)]
    pub(super) id: u64,
    #[pyo3(get)]
    length: u32,
    #[pyo3(get)]
    deadline: Option<u64>,
    #[pyo3(get)]
    priority: u8,
    #[pyo3(get)]
    reliable: bool,
    #[pyo3(get)]
    partial: bool,
    #[pyo3(get)]
    channel: u16,
    #[pyo3(get)]
    submitted: u64,
    #[pyo3(get)]
    value: u16,
    #[pyo3(get)]
    needs: Vec<u64>,
    #[pyo3(get)]
    is_growing: bool,
    #[pyo3(get)]
    fresh_bytes: u32,
    #[pyo3(get)]
    lost_bytes: u32,
    #[pyo3(get)]
    in_flight_bytes: u32,
    #[pyo3(get)]
    acked_bytes: u32,
    #[pyo3(get)]
    unsent_bytes: u32,
    #[pyo3(get)]
    segments: Vec<Part>,
    #[pyo3(get)]
    next_work: Option<Work>,
    call: u64,
}

/// A range of a block that could be sent.
#[pyclass(module = "squall.lab", frozen, from_py_object)]
#[derive(Clone)]
pub(crate) struct Work {
    /// Number of the call that it belongs to.
    pub(super) call: u64,
    pub(super) work: squall_sched::Work,
}

impl Block {
    pub(super) fn of(call: u64, block: &Queued) -> Self {
        let meta = block.meta();
        Self {
            id: meta.id.0,
            length: meta.len,
            deadline: meta.deadline.map(Time::micros),
            priority: meta.priority,
            reliable: meta.reliable,
            partial: meta.partial,
            channel: meta.channel,
            submitted: meta.submitted.micros(),
            value: meta.value,
            needs: meta.needs.iter().flatten().map(|id| id.0).collect(),
            is_growing: block.is_growing(),
            fresh_bytes: block.fresh_bytes(),
            lost_bytes: block.lost_bytes(),
            in_flight_bytes: block.in_flight_bytes(),
            acked_bytes: block.acked_bytes(),
            unsent_bytes: block.unsent_bytes(),
            segments: block.segments().iter().map(part).collect(),
            next_work: block.next_work().map(|work| Work::new(call, work)),
            call,
        }
    }
}

fn part(segment: &Segment) -> Part {
    let state = match segment.state {
        SegmentState::Fresh => "fresh",
        SegmentState::Sent => "sent",
        SegmentState::Lost => "lost",
        SegmentState::Acked => "acked",
    };
    let paths = segment.in_flight.iter().map(|path| path.0.into()).collect();
    (segment.start, segment.end, state, paths)
}

#[pymethods]
impl Block {
    /// Returns a further copy of bytes in flight.
    fn copy(&self, start: u32, end: u32) -> PyResult<Work> {
        let sent = |part: &Part| part.0 <= start && end <= part.1 && part.2 == "sent";
        if start >= end || !self.segments.iter().any(sent) {
            let range = format!("{start} to {end} of block {}", self.id);
            return Err(PyValueError::new_err(format!(
                "copy: {range} is not within one segment that is sent"
            )));
        }
        let work = squall_sched::Work { block: BlockId(self.id), range: start..end, kind: WorkKind::Copy };
        Ok(Work::new(self.call, work))
    }

    fn __repr__(&self) -> String {
        format!("<squall.lab.Block {}, {} B, {} to send>", self.id, self.length, self.unsent_bytes)
    }
}

impl Work {
    pub(super) fn new(call: u64, work: squall_sched::Work) -> Self {
        Self { call, work }
    }
}

#[pymethods]
impl Work {
    #[getter]
    fn block(&self) -> u64 {
        self.work.block.0
    }

    #[getter]
    fn start(&self) -> u32 {
        self.work.range.start
    }

    #[getter]
    fn end(&self) -> u32 {
        self.work.range.end
    }

    #[getter]
    fn kind(&self) -> &'static str {
        match self.work.kind {
            WorkKind::Fresh => "fresh",
            WorkKind::Repair => "repair",
            WorkKind::Copy => "copy",
            WorkKind::Parity | WorkKind::RunParity => "parity",
        }
    }

    /// Returns its first bytes, at least one.
    fn at_most(&self, length: u32) -> Self {
        let mut less = self.clone();
        let end = less.work.range.start.saturating_add(length.max(1));
        less.work.range.end = less.work.range.end.min(end);
        less
    }

    fn __repr__(&self) -> String {
        format!(
            "<squall.lab.Work {} to {} of block {}, {}>",
            self.start(),
            self.end(),
            self.block(),
            self.kind()
        )
    }
}
