//! The state of the bytes of a block, range by range.

use std::ops::Range;

use crate::{PathSet, Time};

/// The state of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Never sent.
    Fresh,
    /// Sent, neither acknowledged nor lost.
    Sent,
    /// Every copy was lost. Reliable bytes are to be repaired, unreliable ones are gone.
    Lost,
    /// Acknowledged by the peer.
    Acked,
}

/// A range of a block whose bytes share one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// State of the bytes.
    pub state: SegmentState,
    /// Paths on which the range is in flight.
    pub in_flight: PathSet,
    /// Open paths on which it was ever sent: in flight, lost or acknowledged there.
    pub sent_on: PathSet,
    /// Paths that lost a copy, so that taking back a later copy does not erase the earlier one.
    pub lost_on: PathSet,
    /// A copy was lost, possibly on a path that is closed by now.
    pub was_lost: bool,
    /// Time at which it was last sent or assigned to a path; `None` while fresh.
    pub sent_at: Option<Time>,
}

impl Segment {
    /// Creates a range of bytes that were never sent.
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

    /// Returns the range of bytes.
    pub fn range(&self) -> Range<u32> {
        self.start..self.end
    }

    pub(crate) fn len(&self) -> u32 {
        self.end - self.start
    }
}
