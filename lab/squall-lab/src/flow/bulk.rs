//! As many reliable blocks as the session takes.

use super::{Class, Kind};

/// Reliable blocks without a deadline, always more of them than the paths can carry.
#[derive(Debug, Clone, PartialEq)]
pub struct Bulk {
    /// Size in bytes.
    pub size: u64,
    /// Bytes to keep queued in the session.
    pub backlog: u64,
    /// Priority, 0 first.
    pub priority: u8,
}

impl Kind for Bulk {
    fn name(&self) -> &'static str {
        "bulk"
    }

    fn classes(&self) -> Vec<Class> {
        vec![Class::new("block", true, self.priority)]
    }

    fn deadline_us(&self) -> Option<u64> {
        None
    }

    fn backlog(&self) -> Option<u64> {
        Some(self.backlog)
    }
}
