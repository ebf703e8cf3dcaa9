//! Kinds of subjects, and parts of runs.

use std::fmt;

use squall_units::format;

use crate::flow::{Direction, word};

/// Kind of a [`Subject`](super::Subject).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole run.
    Run,
    /// A path.
    Path,
    /// A flow.
    Flow,
    /// A class of a flow.
    Class,
    /// Data of a flow on a path.
    FlowOnPath,
    /// Data of a class of a flow on a path.
    ClassOnPath,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Run => "run",
            Kind::Path => "path",
            Kind::Flow => "flow",
            Kind::Class => "class",
            Kind::FlowOnPath => "flow on a path",
            Kind::ClassOnPath => "class on a path",
        })
    }
}

/// Part and direction of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct View {
    /// Direction, for the goodput of a path. Default: the main direction of the run.
    pub direction: Option<Direction>,
    /// Time window in microseconds; `None`: the whole run.
    pub window_us: Option<(u64, u64)>,
}

impl View {
    /// Describes the view, with a leading space; empty for the whole run.
    pub fn describe(&self) -> String {
        let direction = self.direction.map(|direction| format!(" {}", word(direction))).unwrap_or_default();
        let window = self
            .window_us
            .map(|(from, to)| format!(" from {} to {}", format::time(from), format::time(to)))
            .unwrap_or_default();
        format!("{direction}{window}")
    }
}
