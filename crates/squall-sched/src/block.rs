//! A block on its way: what the application asked for, and where each of its bytes stands.

use std::{fmt, ops::Range};

use crate::{Micros, PathId, WorkKind};

/// Largest block in bytes (16 MiB): offsets and lengths of ranges fit `u32` with room to spare.
pub const MAX_BLOCK: u32 = 16 << 20;

/// Number of priorities; the most important is 0, as with the urgency of RFC 9218.
pub const PRIORITIES: u8 = 8;

/// A block of the session. Ids grow in the order in which the blocks were handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u64);

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the application asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMeta {
    /// Which block.
    pub id: BlockId,
    /// Size in bytes, at most [`MAX_BLOCK`].
    pub len: u32,
    /// When it stops being of use; `None` for never.
    pub deadline: Option<Micros>,
    /// 0 (most important) to [`PRIORITIES`]` − 1`.
    pub priority: u8,
    /// Whether lost bytes are sent again.
    pub reliable: bool,
    /// The channel it belongs to.
    pub channel: u16,
    /// When it was handed over.
    pub submitted: Micros,
}

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
    /// Paths it is in flight on, one [bit](PathId::bit) each.
    pub in_flight: u8,
    /// Paths it was ever sent on.
    pub sent_on: u8,
    /// When it was last sent; 0 before.
    pub sent_at: Micros,
}

impl Segment {
    /// The range of bytes.
    pub fn range(&self) -> Range<u32> {
        self.start..self.end
    }

    fn len(&self) -> u32 {
        self.end - self.start
    }
}

/// An unfinished block.
#[derive(Clone, Debug)]
pub struct Block {
    meta: BlockMeta,
    /// Sorted, without gaps or empty entries, covering `0..len`.
    segments: Vec<Segment>,
    fresh: u32,
    lost: u32,
    acked: u32,
    /// No fresh byte lies below; searches start here.
    fresh_from: u32,
    /// No lost byte lies below.
    lost_from: u32,
    first_sent: Option<Micros>,
    last_fresh_sent: Option<Micros>,
}

impl Block {
    pub(crate) fn new(meta: BlockMeta) -> Self {
        let whole = Segment {
            start: 0,
            end: meta.len,
            state: SegmentState::Fresh,
            in_flight: 0,
            sent_on: 0,
            sent_at: 0,
        };
        Self {
            meta,
            segments: vec![whole],
            fresh: meta.len,
            lost: 0,
            acked: 0,
            fresh_from: 0,
            lost_from: meta.len,
            first_sent: None,
            last_fresh_sent: None,
        }
    }

    /// What the application asked for.
    pub fn meta(&self) -> &BlockMeta {
        &self.meta
    }

    /// All ranges, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Bytes never sent.
    pub fn fresh_bytes(&self) -> u32 {
        self.fresh
    }

    /// Bytes lost and not sent again.
    pub fn lost_bytes(&self) -> u32 {
        self.lost
    }

    /// Bytes the peer has.
    pub fn acked_bytes(&self) -> u32 {
        self.acked
    }

    /// Bytes in flight, each counted once however many copies are under way.
    pub fn in_flight_bytes(&self) -> u32 {
        self.meta.len - self.fresh - self.lost - self.acked
    }

    /// When its first byte was sent.
    pub fn first_sent(&self) -> Option<Micros> {
        self.first_sent
    }

    /// When its last byte was sent for the first time; `None` while fresh bytes remain.
    pub fn fully_sent(&self) -> Option<Micros> {
        if self.fresh == 0 { self.last_fresh_sent } else { None }
    }

    /// Whether the peer has all of it.
    pub fn is_complete(&self) -> bool {
        self.acked == self.meta.len
    }

    /// Whether nothing is left to do for it: each byte has arrived, or is lost for good.
    pub fn is_spent(&self) -> bool {
        self.fresh == 0 && self.in_flight_bytes() == 0 && (!self.meta.reliable || self.lost == 0)
    }

    /// First range never sent.
    pub fn next_fresh(&self) -> Option<Range<u32>> {
        self.find(self.fresh_from, SegmentState::Fresh)
    }

    /// First range to repair; always `None` for unreliable blocks.
    pub fn next_lost(&self) -> Option<Range<u32>> {
        if self.meta.reliable { self.find(self.lost_from, SegmentState::Lost) } else { None }
    }

    /// The first segment that ends after `offset`, and all that follow.
    pub fn segments_from(&self, offset: u32) -> &[Segment] {
        &self.segments[self.index_of(offset)..]
    }

    fn find(&self, from: u32, state: SegmentState) -> Option<Range<u32>> {
        self.segments_from(from).iter().find(|s| s.state == state).map(Segment::range)
    }

    fn index_of(&self, offset: u32) -> usize {
        self.segments.partition_point(|s| s.end <= offset)
    }

    /// Applies `change` to the bytes of `range`, which is clipped to the block.
    fn update(&mut self, range: Range<u32>, mut change: impl FnMut(&mut Segment)) {
        let range = range.start..range.end.min(self.meta.len);
        if range.is_empty() {
            return;
        }
        self.split_at(range.start);
        self.split_at(range.end);
        let first = self.index_of(range.start);
        for i in first..self.segments.len() {
            if self.segments[i].start >= range.end {
                break;
            }
            let before = self.segments[i].state;
            change(&mut self.segments[i]);
            let after = self.segments[i];
            self.account(before, &after);
        }
    }

    fn split_at(&mut self, offset: u32) {
        let i = self.index_of(offset);
        let Some(&segment) = self.segments.get(i) else { return };
        if segment.start < offset {
            self.segments[i].end = offset;
            self.segments.insert(i + 1, Segment { start: offset, ..segment });
        }
    }

    fn account(&mut self, before: SegmentState, after: &Segment) {
        if before == after.state {
            return;
        }
        let len = after.len();
        match before {
            SegmentState::Fresh => {
                self.fresh -= len;
                if after.start <= self.fresh_from {
                    self.fresh_from = after.end;
                }
            }
            SegmentState::Lost => {
                self.lost -= len;
                if after.start <= self.lost_from {
                    self.lost_from = after.end;
                }
            }
            SegmentState::Sent => {}
            SegmentState::Acked => self.acked -= len,
        }
        match after.state {
            SegmentState::Fresh => {
                self.fresh += len;
                self.fresh_from = self.fresh_from.min(after.start);
            }
            SegmentState::Lost => {
                self.lost += len;
                self.lost_from = self.lost_from.min(after.start);
            }
            SegmentState::Sent => {}
            SegmentState::Acked => self.acked += len,
        }
    }

    pub(crate) fn sent(&mut self, range: Range<u32>, path: PathId, now: Micros) {
        let had_fresh = self.fresh;
        self.update(range, |s| {
            if s.state != SegmentState::Acked {
                s.state = SegmentState::Sent;
                s.in_flight |= path.bit();
                s.sent_on |= path.bit();
                s.sent_at = now;
            }
        });
        self.first_sent.get_or_insert(now);
        if self.fresh < had_fresh {
            self.last_fresh_sent = Some(now);
        }
    }

    /// Returns how many bytes the peer is now known to have that it was not known to have before.
    pub(crate) fn acked(&mut self, range: Range<u32>) -> u32 {
        let before = self.acked;
        self.update(range, |s| {
            s.state = SegmentState::Acked;
            s.in_flight = 0;
        });
        self.acked - before
    }

    /// Returns how many bytes have no copy left in flight now.
    pub(crate) fn lost(&mut self, range: Range<u32>, path: PathId) -> u32 {
        let before = self.lost;
        self.update(range, |s| {
            s.in_flight &= !path.bit();
            if s.state == SegmentState::Sent && s.in_flight == 0 {
                s.state = SegmentState::Lost;
            }
        });
        self.lost - before
    }

    /// Takes back bytes that were assigned to a path but never left.
    pub(crate) fn unsent(&mut self, range: Range<u32>, path: PathId, kind: WorkKind) {
        let without_copy = if kind == WorkKind::Fresh { SegmentState::Fresh } else { SegmentState::Lost };
        self.update(range, |s| {
            s.in_flight &= !path.bit();
            if kind != WorkKind::Repair {
                s.sent_on &= !path.bit();
            }
            if s.state == SegmentState::Sent && s.in_flight == 0 {
                s.state = without_copy;
            }
        });
    }
}
