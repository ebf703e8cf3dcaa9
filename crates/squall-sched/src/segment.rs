//! Where the bytes of a block stand, range by range.

use std::ops::Range;

use crate::{PathSet, Time};

/// Where a range of bytes stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Never sent.
    Fresh,
    /// Sent, fate open.
    Sent,
    /// Every copy was lost. Reliable: to be repaired. Unreliable: gone.
    Lost,
    /// The peer has it.
    Acked,
}

/// A range of a block whose bytes stand alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// Where it stands.
    pub state: SegmentState,
    /// Paths it is in flight on.
    pub in_flight: PathSet,
    /// Paths it was ever sent on, of those that are open: in flight, lost or acknowledged there.
    pub sent_on: PathSet,
    /// Paths that lost a copy, so that taking back a later one does not wipe out the earlier.
    pub lost_on: PathSet,
    /// Whether a copy was lost, on a path that may be gone by now.
    pub was_lost: bool,
    /// When it was last sent or given to a path; `None` while fresh.
    pub sent_at: Option<Time>,
}

impl Segment {
    /// Bytes that were never sent.
    pub(crate) fn fresh(range: Range<u32>) -> Self {
        Self {
            start: range.start,
            end: range.end,
            state: SegmentState::Fresh,
            in_flight: PathSet::EMPTY,
            sent_on: PathSet::EMPTY,
            lost_on: PathSet::EMPTY,
            was_lost: false,
            sent_at: None,
        }
    }

    /// The range of bytes.
    pub fn range(&self) -> Range<u32> {
        self.start..self.end
    }

    pub(crate) fn len(&self) -> u32 {
        self.end - self.start
    }
}
