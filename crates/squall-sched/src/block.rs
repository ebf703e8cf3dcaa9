//! A block in transit: its options, and the state of each of its bytes.

use std::{collections::BTreeSet, fmt, ops::Range};

use crate::{MAX_PATHS, Parity, PathId, PathSet, Segment, SegmentState, Time, Work, WorkKind};

/// Largest block in bytes (16 MiB): offsets and lengths of ranges fit `u32` with room to spare.
pub const MAX_BLOCK: u32 = 16 << 20;

/// Number of priorities; the most important is 0, like the urgency of RFC 9218.
pub const PRIORITIES: u8 = 8;

/// Id of a block in the session. Ids grow in the order in which the blocks were handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u64);

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The options of a block, set by the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMeta {
    /// Id of the block.
    pub id: BlockId,
    /// Size in bytes, at most [`MAX_BLOCK`]; for a growing block, its present size. A block of size
    /// 0 that does not grow has nothing to send and is complete from the start.
    pub len: u32,
    /// Time at which the block becomes useless; `None` for never.
    pub deadline: Option<Time>,
    /// Priority, 0 (most important) to [`PRIORITIES`]` − 1`.
    pub priority: u8,
    /// Lost bytes are sent again.
    pub reliable: bool,
    /// The receiver can use parts of the block if it does not arrive whole.
    pub partial: bool,
    /// Channel of the block.
    pub channel: u16,
    /// Time of the hand-over.
    pub submitted: Time,
    /// Loss to the receiver if only this block is missing, relative to other blocks. Default:
    /// [`Self::usual_value`] of its priority.
    pub value: u16,
    /// Blocks without which this one is useless. They are older.
    pub needs: [Option<BlockId>; 2],
}

impl BlockMeta {
    /// Creates a reliable block on channel 0, handed over at 0, of priority 0, without a deadline
    /// or dependencies.
    pub const fn new(id: BlockId, len: u32) -> Self {
        let value = Self::usual_value(0);
        Self {
            id,
            len,
            deadline: None,
            priority: 0,
            reliable: true,
            partial: false,
            channel: 0,
            submitted: Time::EPOCH,
            value,
            needs: [None; 2],
        }
    }

    /// Returns the value of a block whose application set none: 1 for the last priority, and four
    /// times as much per step towards the first, up to 16,384.
    pub const fn usual_value(priority: u8) -> u16 {
        1 << (2 * (PRIORITIES - 1).saturating_sub(priority))
    }
}

/// An unfinished block.
#[derive(Clone, Debug)]
pub struct Block {
    meta: BlockMeta,
    /// Rank from the stream scheduler, among blocks that are equal to the packet scheduler.
    rank: u64,
    /// Expected total length, while the length is not final.
    growing: Option<u32>,
    /// Sorted, without gaps or empty entries, covering `0..len`.
    segments: Vec<Segment>,
    fresh: u32,
    lost: u32,
    acked: u32,
    /// Lower bound of the fresh bytes; searches start here.
    fresh_from: u32,
    /// Starts of the lost segments. Losses are scattered among thousands of segments of a large
    /// block, while fresh bytes are contiguous; hence a set here and a single offset above.
    lost_at: BTreeSet<u32>,
    first_sent: Option<Time>,
    last_fresh_sent: Option<Time>,
    /// Largest size of its symbols in bytes; `None` without parity.
    largest_symbol: Option<u32>,
    /// Set once the length is final.
    parity: Option<Parity>,
    in_run: bool,
}

impl Block {
    /// Creates a block of final length, with parity if a largest symbol size is given.
    pub(crate) fn new(meta: BlockMeta, largest_symbol: Option<u32>) -> Self {
        Self {
            meta,
            rank: 0,
            growing: None,
            largest_symbol,
            parity: largest_symbol.and_then(|most| Parity::of(meta.len, most, true)),
            in_run: false,
            segments: if meta.len == 0 { Vec::new() } else { vec![Segment::fresh(0..meta.len)] },
            fresh: meta.len,
            lost: 0,
            acked: 0,
            fresh_from: 0,
            lost_at: BTreeSet::new(),
            first_sent: None,
            last_fresh_sent: None,
        }
    }

    /// Returns the options that the application set.
    pub fn meta(&self) -> &BlockMeta {
        &self.meta
    }

    /// Returns `true` while the length is not final.
    pub fn is_growing(&self) -> bool {
        self.growing.is_some()
    }

    /// Returns the bytes that a growing block is expected to gain: the announced length, or else
    /// the usual size of a block on its channel with its priority, less the present size; 0 beyond
    /// that.
    pub fn expected_bytes(&self) -> u32 {
        self.growing.map_or(0, |total| total.saturating_sub(self.meta.len))
    }

    /// Returns all ranges, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the bytes never sent.
    pub fn fresh_bytes(&self) -> u32 {
        self.fresh
    }

    /// Returns the bytes lost and not sent again.
    pub fn lost_bytes(&self) -> u32 {
        self.lost
    }

    /// Returns the bytes to send: those never sent, and, if the block is reliable, those lost.
    pub fn unsent_bytes(&self) -> u32 {
        if self.meta.reliable { self.fresh + self.lost } else { self.fresh }
    }

    /// Returns the next range to send: lost bytes before fresh ones.
    pub fn next_work(&self) -> Option<Work> {
        let repair = self.next_lost().map(|range| (range, WorkKind::Repair));
        let (range, kind) = repair.or_else(|| Some((self.next_fresh()?, WorkKind::Fresh)))?;
        Some(Work { block: self.meta.id, range, kind })
    }

    /// Returns the bytes that the peer has acknowledged.
    pub fn acked_bytes(&self) -> u32 {
        self.acked
    }

    /// Returns the bytes in flight, each counted once however many copies are under way.
    pub fn in_flight_bytes(&self) -> u32 {
        self.meta.len - self.fresh - self.lost - self.acked
    }

    /// Returns the bytes sent on each path, indexed by path id. Bytes with copies count on each of
    /// their paths.
    pub fn sent_bytes(&self) -> [u32; MAX_PATHS] {
        let mut sent = [0; MAX_PATHS];
        for segment in &self.segments {
            for path in segment.sent_on.iter() {
                sent[usize::from(path.0)] += segment.len();
            }
        }
        sent
    }

    /// Returns when a byte of the block was first sent or assigned to a path; `None` while all of
    /// it is fresh.
    pub fn first_sent(&self) -> Option<Time> {
        self.first_sent
    }

    /// Returns when its last byte was sent for the first time; `None` while fresh bytes remain or
    /// more may be appended.
    pub fn fully_sent(&self) -> Option<Time> {
        if self.fresh == 0 && !self.is_growing() { self.last_fresh_sent } else { None }
    }

    /// Returns `true` if the peer has all bytes, or enough symbols to rebuild the block.
    pub fn is_complete(&self) -> bool {
        let is_rebuilt = || self.parity().is_some_and(|p| p.acked() > 0) && self.missing_symbols() == Some(0);
        !self.is_growing() && (self.acked == self.meta.len || is_rebuilt())
    }

    /// Returns `true` if the receiver can use its present part: the whole block, or, for a partial
    /// block, any byte.
    pub(crate) fn is_of_use(&self) -> bool {
        self.is_complete() || (self.meta.partial && self.acked > 0)
    }

    /// Returns `true` if nothing in flight can make the block [usable](Self::is_of_use).
    pub(crate) fn is_missing(&self) -> bool {
        let needed = if self.meta.partial { 1 } else { self.meta.len };
        self.acked + self.in_flight_bytes() < needed
    }

    /// Returns `true` if nothing is left to do: no byte can be appended, and each has arrived or is
    /// lost for good. Bytes that parity in flight can replace are not lost for good.
    pub fn is_spent(&self) -> bool {
        let settled = self.fresh == 0 && self.in_flight_bytes() == 0;
        let awaits_parity = || self.lost > 0 && self.in_flight_parity() > 0 && self.is_covered();
        settled && !self.is_growing() && (!self.meta.reliable || self.lost == 0) && !awaits_parity()
    }

    /// Returns the parity; `None` while the length is not final, if the block is too long, if the
    /// peer accepts no parity, or if the scheduler [does not request
    /// it](crate::Profile::wants_parity).
    pub fn parity(&self) -> Option<&Parity> {
        self.parity.as_ref()
    }

    /// Returns `true` if parity over a [run](crate::BlockQueue::run_from) with this block was sent.
    /// The peer may then have the block although it was lost.
    pub fn is_in_run(&self) -> bool {
        self.in_run
    }

    pub(crate) fn rank(&self) -> u64 {
        self.rank
    }

    pub(crate) fn set_rank(&mut self, rank: u64) {
        self.rank = rank;
    }

    pub(crate) fn set_in_run(&mut self, in_run: bool) {
        self.in_run = in_run;
    }

    /// Returns `true` if the block is one symbol, all of it is in flight, and it has no parity.
    pub(crate) fn may_join_run(&self) -> bool {
        let is_small = |parity: &Parity| parity.data_symbols() == 1 && parity.sent() == 0;
        !self.in_run && self.in_flight_bytes() == self.meta.len && self.parity().is_some_and(is_small)
    }

    /// Returns the number of symbols that the peer lacks to rebuild the block: data symbols that
    /// are not wholly acknowledged, less acknowledged parity. `None` without [`Self::parity`].
    /// O(segments).
    pub fn missing_symbols(&self) -> Option<u32> {
        let parity = self.parity()?;
        Some(self.symbols_with(|state| state != SegmentState::Acked)?.saturating_sub(parity.acked()))
    }

    /// Returns the number of data symbols with lost bytes; `None` without [`Self::parity`].
    pub fn lost_symbols(&self) -> Option<u32> {
        self.symbols_with(|state| state == SegmentState::Lost)
    }

    /// Returns `true` if parity that was acknowledged or is in flight can replace all bytes that
    /// are lost now.
    pub fn is_covered(&self) -> bool {
        let covering = self.parity().map_or(0, |parity| parity.acked() + parity.in_flight());
        self.lost == 0 || self.lost_symbols().is_some_and(|lost| lost <= covering)
    }

    fn in_flight_parity(&self) -> u32 {
        self.parity().map_or(0, Parity::in_flight)
    }

    /// Returns the end of the symbol that contains the byte at `offset`, if the block has symbols.
    /// Chunks end there at the latest.
    pub fn symbol_end(&self, offset: u32) -> Option<u32> {
        let while_growing = self.largest_symbol.filter(|_| self.is_growing()).map(|size| size & !1);
        let size = self.parity().map(Parity::symbol_size).or(while_growing).filter(|size| *size > 0)?;
        Some((offset / size + 1) * size)
    }

    /// Counts the data symbols that contain a byte in a state that `is` accepts.
    fn symbols_with(&self, is: impl Fn(SegmentState) -> bool) -> Option<u32> {
        let size = self.parity()?.symbol_size();
        let (mut count, mut next) = (0, 0);
        for segment in self.segments.iter().filter(|segment| is(segment.state)) {
            let (first, end) = ((segment.start / size).max(next), segment.end.div_ceil(size));
            count += end.saturating_sub(first);
            next = next.max(end);
        }
        Some(count)
    }

    pub(crate) fn parity_mut(&mut self) -> Option<&mut Parity> {
        self.parity.as_mut()
    }

    /// Returns the first range never sent.
    pub fn next_fresh(&self) -> Option<Range<u32>> {
        let later = self.segments_from(self.fresh_from);
        later.iter().find(|s| s.state == SegmentState::Fresh).map(Segment::range)
    }

    /// Returns the first range to repair; always `None` for unreliable blocks.
    pub fn next_lost(&self) -> Option<Range<u32>> {
        let start = *self.lost_at.first().filter(|_| self.meta.reliable)?;
        self.segments_from(start).first().map(Segment::range)
    }

    /// Returns the first segment that ends after `offset`, and all that follow.
    pub fn segments_from(&self, offset: u32) -> &[Segment] {
        &self.segments[self.index_of(offset)..]
    }

    fn index_of(&self, offset: u32) -> usize {
        self.segments.partition_point(|s| s.end <= offset)
    }

    /// Makes the block growing, up to an `expected` length.
    pub(crate) fn open(&mut self, expected: u32) {
        self.growing = Some(expected);
        self.parity = None;
    }

    /// Makes the length final.
    pub(crate) fn finish(&mut self) {
        self.growing = None;
        // Bytes that left before were cut into symbols of the largest size.
        self.parity = self.largest_symbol.and_then(|most| Parity::of(self.meta.len, most, false));
    }

    /// Appends this many bytes.
    pub(crate) fn grow(&mut self, bytes: u32) {
        let start = self.meta.len;
        self.meta.len += bytes;
        self.fresh += bytes;
        match self.segments.last_mut().filter(|last| last.state == SegmentState::Fresh) {
            Some(last) => last.end += bytes,
            None => self.segments.push(Segment::fresh(start..start + bytes)),
        }
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
            if segment.state == SegmentState::Lost {
                self.lost_at.insert(offset);
            }
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
                self.lost_at.remove(&after.start);
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
                self.lost_at.insert(after.start);
            }
            SegmentState::Sent => {}
            SegmentState::Acked => self.acked += len,
        }
    }

    pub(crate) fn sent(&mut self, range: Range<u32>, path: PathId, now: Time) {
        let had_fresh = self.fresh;
        self.update(range, |s| {
            if s.state != SegmentState::Acked {
                s.state = SegmentState::Sent;
                s.in_flight.insert(path);
                s.sent_on.insert(path);
                s.sent_at = Some(now);
            }
        });
        if self.fresh < had_fresh {
            self.first_sent.get_or_insert(now);
            self.last_fresh_sent = Some(now);
        }
    }

    pub(crate) fn departed(&mut self, range: Range<u32>, kind: WorkKind, now: Time) {
        if kind == WorkKind::Fresh {
            self.last_fresh_sent = Some(now);
        }
        self.update(range, |s| {
            // Bytes that were taken back or have arrived in the meantime keep their time.
            if s.state == SegmentState::Sent {
                s.sent_at = Some(now);
            }
        });
    }

    /// Returns the number of newly acknowledged bytes.
    pub(crate) fn acked(&mut self, range: Range<u32>) -> u32 {
        let before = self.acked;
        self.update(range, |s| {
            s.state = SegmentState::Acked;
            s.in_flight = PathSet::EMPTY;
        });
        self.acked - before
    }

    /// Returns the number of bytes that have no copy left in flight now.
    pub(crate) fn lost(&mut self, range: Range<u32>, path: PathId) -> u32 {
        let before = self.lost;
        self.update(range, |s| {
            if s.in_flight.remove(path) {
                s.lost_on.insert(path);
                s.was_lost = true;
            }
            if s.state == SegmentState::Sent && s.in_flight.is_empty() {
                s.state = SegmentState::Lost;
            }
        });
        self.lost - before
    }

    /// Forgets a closed path, whose id may be reused.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        for segment in &mut self.segments {
            if !segment.in_flight.contains(path) {
                segment.sent_on.remove(path);
            }
            segment.lost_on.remove(path);
        }
    }

    /// Takes back bytes that were assigned to a path but never left.
    pub(crate) fn unsent(&mut self, range: Range<u32>, path: PathId) {
        self.update(range, |s| {
            if s.in_flight.remove(path) && !s.lost_on.contains(path) {
                s.sent_on.remove(path);
            }
            if s.state == SegmentState::Sent && s.in_flight.is_empty() {
                // The decision depends on the copies that left, not on the kind of the last one: if
                // the copy of a first transmission that was itself taken back is returned, the
                // bytes are fresh.
                if s.sent_on.is_empty() && !s.was_lost {
                    s.state = SegmentState::Fresh;
                    s.sent_at = None;
                } else {
                    s.state = SegmentState::Lost;
                }
            }
        });
        if self.fresh == self.meta.len {
            self.first_sent = None;
        }
    }
}

#[cfg(test)]
mod tests;
