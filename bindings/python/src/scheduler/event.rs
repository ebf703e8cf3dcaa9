//! Events for schedulers in Python.

use std::ops::Range;

use pyo3::prelude::*;
use squall_sched::{BlockId, PathId, SchedEvent};

/// An event since the last decision; fields that its kind does not have are `None`.
#[pyclass(module = "squall.lab", frozen, get_all)]
#[derive(Default)]
pub(crate) struct Event {
    kind: &'static str,
    block: Option<u64>,
    path: Option<u8>,
    start: Option<u32>,
    end: Option<u32>,
    delivered: Option<bool>,
}

impl Event {
    /// Returns `None` for events that schedulers in Python do not get.
    pub(super) fn of(event: &SchedEvent) -> Option<Self> {
        let of_block = |kind, block: &BlockId| Self { kind, block: Some(block.0), ..Self::default() };
        let of_bytes = |kind, block: &BlockId, range: &Range<u32>, path: Option<&PathId>| Self {
            start: Some(range.start),
            end: Some(range.end),
            path: path.map(|path| path.0),
            ..of_block(kind, block)
        };
        Some(match event {
            SchedEvent::Queued(block) => of_block("queued", block),
            SchedEvent::Grew { block, range } => of_bytes("grew", block, range, None),
            SchedEvent::Done { block, delivered } => {
                Self { delivered: Some(*delivered), ..of_block("done", block) }
            }
            SchedEvent::Acked { block, range, path } => of_bytes("acked", block, range, Some(path)),
            SchedEvent::Lost { block, range, path } => of_bytes("lost", block, range, Some(path)),
            SchedEvent::Unsent { block, range, path } => of_bytes("unsent", block, range, Some(path)),
            SchedEvent::Stalled(block) => of_block("stalled", block),
            SchedEvent::PathChanged(path) => Self { kind: "path", path: Some(path.0), ..Self::default() },
            SchedEvent::Parity { .. } => return None,
        })
    }
}

#[pymethods]
impl Event {
    fn __repr__(&self) -> String {
        format!("<squall.lab.Event {}, block {:?}, path {:?}>", self.kind, self.block, self.path)
    }
}
