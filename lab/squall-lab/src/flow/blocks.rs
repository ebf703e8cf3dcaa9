//! Blocks of one size at a steady pace.

use super::{Class, Kind};

/// Blocks of one size at a steady pace: game messages, audio chunks, tiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocks {
    /// Size in bytes.
    pub size: u64,
    /// Time between two blocks, in microseconds.
    pub interval_us: u64,
    /// Deadline in microseconds after a block is offered.
    pub deadline_us: Option<u64>,
    /// Priority, 0 first.
    pub priority: u8,
    /// Whether lost data is repaired until it arrives.
    pub reliable: bool,
}

impl Kind for Blocks {
    fn name(&self) -> &'static str {
        "blocks"
    }

    fn classes(&self) -> Vec<Class> {
        vec![Class::new("block", self.reliable, self.priority)]
    }

    fn deadline_us(&self) -> Option<u64> {
        self.deadline_us
    }
}
