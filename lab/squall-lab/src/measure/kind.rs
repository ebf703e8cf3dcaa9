//! Kinds of subjects, and parts of runs.

use std::fmt;

use squall_units::format;

use crate::flow::{Direction, word};

/// The kind of a [`Subject`](super::Subject).
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
    /// What a flow sent on a path.
    FlowOnPath,
    /// What a class of a flow sent on a path.
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

/// Which part of a run, and which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct View {
    /// Direction, for the goodput of a path; without it, the one that the run is about.
    pub direction: Option<Direction>,
    /// The part of the run, in microseconds; `None`: all of it.
    pub window_us: Option<(u64, u64)>,
}

impl View {
    /// Describes it, with a space before it; nothing for the whole run.
    pub fn describe(&self) -> String {
        let direction = self.direction.map(|direction| format!(" {}", word(direction))).unwrap_or_default();
        let window = self
            .window_us
            .map(|(from, to)| format!(" from {} to {}", format::time(from), format::time(to)))
            .unwrap_or_default();
        format!("{direction}{window}")
    }
}
