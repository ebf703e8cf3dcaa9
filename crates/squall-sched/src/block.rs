//! A block in transit: its options, and the state of each of its bytes.

use std::{collections::BTreeSet, fmt, ops::Range};

use crate::{MAX_PATHS, Parity, PathId, PathSet, Segment, SegmentState, Time, Work, WorkKind};

/// Largest block in bytes (16 MiB): offsets and lengths of ranges fit `u32` with room to spare.
pub const MAX_BLOCK: u32 = 16 << 20;

/// Number of priorities; the most important is 0, as with the urgency of RFC 9218.
pub const PRIORITIES: u8 = 8;

/// A block of the session. Ids grow in the order in which the blocks were handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u64);

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The options that the application set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMeta {
    /// Which block.
    pub id: BlockId,
    /// Size in bytes, at most [`MAX_BLOCK`]; of a block that grows, what there is of it now. A block of size 0
    /// that does not grow has nothing to send and is complete from the start.
    pub len: u32,
    /// When it stops being of use; `None` for never.
    pub deadline: Option<Time>,
    /// 0 (most important) to [`PRIORITIES`]` − 1`.
    pub priority: u8,
    /// Whether lost bytes are sent again.
    pub reliable: bool,
    /// Whether the receiver has a use for what arrives of it, if it does not arrive whole.
    pub partial: bool,
    /// The channel it belongs to.
    pub channel: u16,
    /// When it was handed over.
    pub submitted: Time,
    /// What is lost to the receiver if only this block is missing, relative to other blocks; by default
    /// [`Self::usual_value`] of its priority.
    pub value: u16,
    /// Blocks that it is useless without. They are older than it.
    pub needs: [Option<BlockId>; 2],
}

impl BlockMeta {
    /// A reliable block on channel 0, handed over at 0, of priority 0, without a deadline, that needs no other.
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

    /// The value of a block whose application set none: 1 for the last priority, and four times as much for each that
    /// is more important, up to 16,384.
    pub const fn usual_value(priority: u8) -> u16 {
        1 << (2 * (PRIORITIES - 1).saturating_sub(priority))
    }
}

/// An unfinished block.
#[derive(Clone, Debug)]
pub struct Block {
    meta: BlockMeta,
    /// Among blocks that are equal to the packet scheduler, as the stream scheduler ranks it.
    rank: u64,
    /// What it is expected to become, while its length is not final.
    growing: Option<u32>,
    /// Sorted, without gaps or empty entries, covering `0..len`.
    segments: Vec<Segment>,
    fresh: u32,
    lost: u32,
    acked: u32,
    /// No fresh byte lies below; searches start here.
    fresh_from: u32,
    /// Where the lost segments start. Losses lie scattered among thousands of segments of a large block,
    /// fresh bytes together; hence a set here and a mark above.
    lost_at: BTreeSet<u32>,
    first_sent: Option<Time>,
    last_fresh_sent: Option<Time>,
    /// Largest size of its symbols in bytes, if it is to have parity.
    largest_symbol: Option<u32>,
    /// Once its length is final.
    parity: Option<Parity>,
    in_run: bool,
}

impl Block {
    /// A block whose length is final, with parity if a largest size of its symbols is given.
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

    /// The options that the application set.
    pub fn meta(&self) -> &BlockMeta {
        &self.meta
    }

    /// Whether more bytes of it may come: its length is not final.
    pub fn is_growing(&self) -> bool {
        self.growing.is_some()
    }

    /// Bytes that are expected to come yet, of a block that grows: the length that the application announced, or
    /// else the usual size of a block on its channel with its priority, less what there is. 0 beyond that.
    pub fn expected_bytes(&self) -> u32 {
        self.growing.map_or(0, |total| total.saturating_sub(self.meta.len))
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

    /// Bytes to send: never sent, or, if the block is reliable, lost.
    pub fn unsent_bytes(&self) -> u32 {
        if self.meta.reliable { self.fresh + self.lost } else { self.fresh }
    }

    /// The range to send next: what was lost goes before what was never sent.
    pub fn next_work(&self) -> Option<Work> {
        let repair = self.next_lost().map(|range| (range, WorkKind::Repair));
        let (range, kind) = repair.or_else(|| Some((self.next_fresh()?, WorkKind::Fresh)))?;
        Some(Work { block: self.meta.id, range, kind })
    }

    /// Bytes the peer has.
    pub fn acked_bytes(&self) -> u32 {
        self.acked
    }

    /// Bytes in flight, each counted once however many copies are under way.
    pub fn in_flight_bytes(&self) -> u32 {
        self.meta.len - self.fresh - self.lost - self.acked
    }

    /// Bytes that were sent on each path, by its id; on several, those that were sent twice.
    pub fn sent_bytes(&self) -> [u32; MAX_PATHS] {
        let mut sent = [0; MAX_PATHS];
        for segment in &self.segments {
            for path in segment.sent_on.iter() {
                sent[usize::from(path.0)] += segment.len();
            }
        }
        sent
    }

    /// When a byte of it was first sent or given to a path; `None` while all of it is fresh.
    pub fn first_sent(&self) -> Option<Time> {
        self.first_sent
    }

    /// When its last byte was sent for the first time; `None` while fresh bytes remain or may come.
    pub fn fully_sent(&self) -> Option<Time> {
        if self.fresh == 0 && !self.is_growing() { self.last_fresh_sent } else { None }
    }

    /// Whether the peer has all of it, or enough of its symbols to rebuild it.
    pub fn is_complete(&self) -> bool {
        let is_rebuilt = || self.parity().is_some_and(|p| p.acked() > 0) && self.missing_symbols() == Some(0);
        !self.is_growing() && (self.acked == self.meta.len || is_rebuilt())
    }

    /// Whether the peer has what is of use to it: all, or, of a partial block, any byte.
    pub(crate) fn is_of_use(&self) -> bool {
        self.is_complete() || (self.meta.partial && self.acked > 0)
    }

    /// Whether nothing that is in flight makes it [of use](Self::is_of_use).
    pub(crate) fn is_missing(&self) -> bool {
        let needed = if self.meta.partial { 1 } else { self.meta.len };
        self.acked + self.in_flight_bytes() < needed
    }

    /// Whether nothing is left to do for it: no byte can come, and each has arrived or is lost for good. What parity in
    /// flight can replace is not lost for good.
    pub fn is_spent(&self) -> bool {
        let settled = self.fresh == 0 && self.in_flight_bytes() == 0;
        let awaits_parity = || self.lost > 0 && self.in_flight_parity() > 0 && self.is_covered();
        settled && !self.is_growing() && (!self.meta.reliable || self.lost == 0) && !awaits_parity()
    }

    /// Its parity; `None` while its length is not final, if it is too long, if the peer takes no parity, or if the scheduler
    /// [wants none](crate::Profile::wants_parity).
    pub fn parity(&self) -> Option<&Parity> {
        self.parity.as_ref()
    }

    /// Whether parity over a [run](crate::BlockQueue::run_from) that has it was sent. The peer may then have it although it was lost.
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

    /// Whether it is one symbol, all of it is in flight, and it has no parity.
    pub(crate) fn may_join_run(&self) -> bool {
        let is_small = |parity: &Parity| parity.data_symbols() == 1 && parity.sent() == 0;
        !self.in_run && self.in_flight_bytes() == self.meta.len && self.parity().is_some_and(is_small)
    }

    /// Symbols that the peer lacks to rebuild the block: data symbols that are not wholly acknowledged, less acknowledged
    /// parity. `None` without [`Self::parity`]. Takes time in proportion to the segments.
    pub fn missing_symbols(&self) -> Option<u32> {
        let parity = self.parity()?;
        Some(self.symbols_with(|state| state != SegmentState::Acked)?.saturating_sub(parity.acked()))
    }

    /// Data symbols of which bytes are lost; `None` without [`Self::parity`].
    pub fn lost_symbols(&self) -> Option<u32> {
        self.symbols_with(|state| state == SegmentState::Lost)
    }

    /// Whether parity that was acknowledged or is in flight can replace everything that is lost now.
    pub fn is_covered(&self) -> bool {
        let covering = self.parity().map_or(0, |parity| parity.acked() + parity.in_flight());
        self.lost == 0 || self.lost_symbols().is_some_and(|lost| lost <= covering)
    }

    fn in_flight_parity(&self) -> u32 {
        self.parity().map_or(0, Parity::in_flight)
    }

    /// Where the symbol of the byte at `offset` ends, if the block has symbols: chunks do not reach beyond.
    pub fn symbol_end(&self, offset: u32) -> Option<u32> {
        let while_growing = self.largest_symbol.filter(|_| self.is_growing()).map(|size| size & !1);
        let size = self.parity().map(Parity::symbol_size).or(while_growing).filter(|size| *size > 0)?;
        Some((offset / size + 1) * size)
    }

    /// Data symbols of which some byte stands as `is` says.
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

    /// First range never sent.
    pub fn next_fresh(&self) -> Option<Range<u32>> {
        let later = self.segments_from(self.fresh_from);
        later.iter().find(|s| s.state == SegmentState::Fresh).map(Segment::range)
    }

    /// First range to repair; always `None` for unreliable blocks.
    pub fn next_lost(&self) -> Option<Range<u32>> {
        let start = *self.lost_at.first().filter(|_| self.meta.reliable)?;
        self.segments_from(start).first().map(Segment::range)
    }

    /// The first segment that ends after `offset`, and all that follow.
    pub fn segments_from(&self, offset: u32) -> &[Segment] {
        &self.segments[self.index_of(offset)..]
    }

    fn index_of(&self, offset: u32) -> usize {
        self.segments.partition_point(|s| s.end <= offset)
    }

    /// More bytes of it may come, up to what it is expected to become.
    pub(crate) fn open(&mut self, expected: u32) {
        self.growing = Some(expected);
        self.parity = None;
    }

    /// Its length is final.
    pub(crate) fn finish(&mut self) {
        self.growing = None;
        // What left before was cut into symbols of the largest size.
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
            // What was taken back or has arrived in the meantime keeps its time.
            if s.state == SegmentState::Sent {
                s.sent_at = Some(now);
            }
        });
    }

    /// Returns how many bytes are newly acknowledged.
    pub(crate) fn acked(&mut self, range: Range<u32>) -> u32 {
        let before = self.acked;
        self.update(range, |s| {
            s.state = SegmentState::Acked;
            s.in_flight = PathSet::EMPTY;
        });
        self.acked - before
    }

    /// Returns how many bytes have no copy left in flight now.
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

    /// The path is gone, and its id may be given to another.
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
                // Decided by what truly left, not by what the last copy was called: the copy of a
                // first transmission that was itself taken back leaves the bytes fresh.
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
