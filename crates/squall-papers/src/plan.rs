//! Plans: assignment of the parts of blocks to paths, in advance.
//!
//! Common part of DEMS, DAMS and STORM, which order the blocks by their own rules and divide each
//! of them over the paths. A plan holds that order and, for each path, a backlog of parts that wait
//! for its window. It is built lazily: a block is divided only when a path with room has an empty
//! backlog, so the cost of a decision does not grow with the number of waiting blocks. It is
//! discarded and rebuilt when a block arrives, bytes become unsent again, a path changes by more
//! than a tenth, or it is older than [`MAX_AGE`] (DAMS, §IV: "scheduling is triggered" by new
//! blocks and network changes, not by packets). Bytes already sent stay sent, so rebuilding only
//! divides the rest by current estimates.
//!
//! The papers take a path's bandwidth, window over round-trip time, as its sending rate. Right
//! after an outage this is wrong, because the round trip was measured by acknowledgements over
//! another path, and a block would wait for a full path while others are free. A path that has had
//! no room for some time is therefore assumed to have none for as long again.

use std::collections::VecDeque;

use squall_sched::{
    Assignment, Block, BlockId, Context, MAX_PATHS, PathView, SchedEvent, Span, Time,
    allocation::{Pipe, Shares, fill},
    capacity,
};

/// Maximum number of blocks in an order: the front of the queue (DAMS, §III-C, bounds the work of a
/// schedule in the same way). The others follow once these have been sent.
pub(crate) const FRONT: usize = 64;

/// Relative change of a path's bandwidth or one-way delay that invalidates a plan.
const CHANGE: f64 = 0.1;

/// Maximum age of a plan. It collects changes below a tenth, and bounds the time for which a path
/// that drains faster than expected has nothing to send.
pub(crate) const MAX_AGE: Span = Span::from_millis(10);

/// A part of a block for a path: a number of its unsent bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    block: BlockId,
    bytes: u32,
}

/// Parts assigned to a path, in order.
#[derive(Clone, Debug, Default)]
struct Backlog {
    parts: VecDeque<Part>,
    bytes: u64,
}

impl Backlog {
    fn take(&mut self, bytes: u32) {
        let Some(part) = self.parts.front_mut() else { return };
        let bytes = bytes.min(part.bytes);
        part.bytes -= bytes;
        self.bytes -= u64::from(bytes);
        if part.bytes == 0 {
            self.parts.pop_front();
        }
    }
}

/// Properties of a path when the plan was built.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Basis {
    open: bool,
    bandwidth: u64,
    owd: Span,
    factor: f64,
}

impl Basis {
    fn of(path: &PathView) -> Self {
        Self { open: path.is_open(), bandwidth: path.bandwidth, owd: path.owd, factor: path.factor }
    }

    fn differs_from(&self, other: &Self) -> bool {
        let moved = |a: u64, b: u64| (a as f64 - b as f64).abs() > CHANGE * b as f64;
        self.open != other.open
            || self.factor.to_bits() != other.factor.to_bits()
            || moved(self.bandwidth, other.bandwidth)
            || moved(self.owd.micros(), other.owd.micros())
    }
}

/// The last assignment, whose packet has not been seen yet.
#[derive(Clone, Copy, Debug)]
struct Answer {
    path: usize,
    block: BlockId,
    unsent: u32,
}

/// A path that carries nothing.
const CLOSED: Pipe = Pipe { start: Span::ZERO, rate: 0, limit: 0 };

/// The paths as pipes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipes {
    all: [Pipe; MAX_PATHS],
    count: usize,
}

impl std::ops::Deref for Pipes {
    type Target = [Pipe];

    fn deref(&self) -> &[Pipe] {
        &self.all[..self.count]
    }
}

impl std::ops::DerefMut for Pipes {
    fn deref_mut(&mut self) -> &mut [Pipe] {
        &mut self.all[..self.count]
    }
}

impl Pipes {
    /// Closes the pipes of some of the paths.
    pub(crate) fn close(&mut self, paths: &[PathView], is_closed: impl Fn(&PathView) -> bool) {
        self.iter_mut().zip(paths).filter(|(_, path)| is_closed(path)).for_each(|(pipe, _)| *pipe = CLOSED);
    }
}

/// The order of the blocks at the front, and a backlog for each path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    order: VecDeque<BlockId>,
    backlogs: [Backlog; MAX_PATHS],
    basis: [Basis; MAX_PATHS],
    made: Time,
    valid: bool,
    answer: Option<Answer>,
    /// Time since which each path has been without room.
    full_since: [Option<Time>; MAX_PATHS],
}

impl Plan {
    /// Records events that make the plan obsolete.
    pub(crate) fn on_event(&mut self, event: &SchedEvent) {
        match event {
            SchedEvent::Acked { .. }
            | SchedEvent::Done { delivered: true, .. }
            | SchedEvent::Parity { .. }
            | SchedEvent::Stalled(_) => {}
            SchedEvent::Queued(_)
            | SchedEvent::Grew { .. }
            | SchedEvent::Done { .. }
            | SchedEvent::Lost { .. }
            | SchedEvent::Unsent { .. }
            | SchedEvent::PathChanged(_) => self.valid = false,
        }
    }

    /// `true` if the order must be rebuilt, by [`Self::begin`].
    pub(crate) fn is_obsolete(&self, cx: &Context<'_>) -> bool {
        let changed = |path: &PathView| Basis::of(path).differs_from(&self.basis[index(path)]);
        !self.valid || cx.now >= self.made + MAX_AGE || cx.paths.iter().any(changed)
    }

    /// Restarts with blocks in this order.
    pub(crate) fn begin(&mut self, cx: &Context<'_>, order: impl Iterator<Item = BlockId>) {
        self.order.clear();
        self.order.extend(order);
        for backlog in &mut self.backlogs {
            backlog.parts.clear();
            backlog.bytes = 0;
        }
        self.basis = [Basis::default(); MAX_PATHS];
        for path in cx.paths {
            self.basis[index(path)] = Basis::of(path);
        }
        self.made = cx.now;
        self.valid = true;
        self.answer = None;
    }

    /// `true` if all of the plan has been sent.
    pub(crate) fn is_used_up(&self) -> bool {
        self.order.is_empty() && self.backlogs.iter().all(|backlog| backlog.bytes == 0)
    }

    /// Returns the time for which a path is busy with its assigned bytes: its backlog, and the
    /// bytes that wait for its pacer.
    pub(crate) fn busy(&self, path: &PathView) -> Span {
        capacity::time_for(path, self.backlogs[index(path)].bytes + path.waiting)
    }

    /// Returns the bytes that a path's budget allows beyond its backlog.
    pub(crate) fn affordable(&self, path: &PathView) -> u64 {
        path.affordable().saturating_sub(self.backlogs[index(path)].bytes)
    }

    /// Returns the paths as pipes, in their order: an unusable path has no rate, and the rest of
    /// its budget is a path's limit. A path without room starts after as long again as it has been
    /// without. `delay` is the delay of a path after sending: zero for an equal sending end, its
    /// one-way delay for an equal arrival.
    pub(crate) fn pipes(&self, cx: &Context<'_>, delay: impl Fn(&PathView) -> Span) -> Pipes {
        let full = |path: &PathView| self.full_since[index(path)].map_or(Span::ZERO, |since| cx.now - since);
        let mut pipes = Pipes { all: [CLOSED; MAX_PATHS], count: cx.paths.len().min(MAX_PATHS) };
        for (pipe, path) in pipes.all.iter_mut().zip(cx.paths).filter(|(_, path)| path.usable) {
            let (rate, limit) = (capacity::goodput(path), self.affordable(path));
            *pipe = Pipe { start: full(path) + self.busy(path) + delay(path), rate, limit };
        }
        pipes
    }

    /// Returns the next assignment to a path with room. As long as such paths have empty backlogs,
    /// `place` divides one block of the order after the other.
    pub(crate) fn next(
        &mut self,
        cx: &Context<'_>,
        reason: fn(&Block) -> &'static str,
        mut place: impl FnMut(&mut Self, &Block),
    ) -> Option<Assignment> {
        self.settle(cx);
        for path in cx.paths {
            let full = &mut self.full_since[index(path)];
            *full = (!path.has_room()).then(|| full.unwrap_or(cx.now));
        }
        if !cx.paths.iter().any(PathView::has_room) {
            return None;
        }
        loop {
            let mut with_room = cx.paths.iter().filter(|p| p.has_room());
            if let Some(assignment) = with_room.find_map(|path| self.next_for(cx, path, reason)) {
                return Some(assignment);
            }
            let block = self.next_block(cx)?;
            place(self, block);
        }
    }

    /// Returns the next block of the order with unsent bytes.
    fn next_block<'a>(&mut self, cx: &Context<'a>) -> Option<&'a Block> {
        while let Some(id) = self.order.pop_front() {
            if let Some(block) = cx.queue.get(id).filter(|b| b.unsent_bytes() > 0) {
                return Some(block);
            }
        }
        None
    }

    /// Divides the unsent bytes of a block. A growing block has only few at a time, and the first
    /// path would get all of them: therefore each path gets the part that it lacks of its share of
    /// the whole block at its expected length.
    pub(crate) fn divide(block: &Block, paths: &[PathView], pipes: &[Pipe]) -> Shares {
        let unsent = block.unsent_bytes();
        if !block.is_growing() {
            return fill(unsent, pipes);
        }
        let total = block.meta().len + block.expected_bytes();
        let whole = fill(total, pipes);
        let sent = block.sent_bytes();
        let so_far = u64::from(block.meta().len.max(1));
        let lacks = |at: usize| {
            let share = u64::from(whole.bytes[at]) * so_far / u64::from(total.max(1));
            share.saturating_sub(u64::from(sent[index(&paths[at])]))
        };
        let count = pipes.len().min(paths.len());
        let sum: u64 = (0..count).map(lacks).sum();
        if whole.left > 0 || sum == 0 {
            return fill(unsent, pipes);
        }
        let mut shares = Shares { finish: whole.finish, ..Shares::none(unsent) };
        for at in 0..count {
            // Rounded up, so that no bytes are left over.
            let bytes = (u64::from(unsent) * lacks(at)).div_ceil(sum) as u32;
            shares.bytes[at] = bytes.min(shares.left);
            shares.left -= shares.bytes[at];
        }
        shares
    }

    /// Appends shares of a block to the backlogs of `paths`, in whole packets up to the end of the
    /// block.
    pub(crate) fn place(&mut self, block: BlockId, paths: &[PathView], shares: &Shares) {
        let (mut cut, mut sum) = (0, 0);
        let last = paths.iter().zip(shares.bytes).rposition(|(_, bytes)| bytes > 0);
        for (i, (path, bytes)) in paths.iter().zip(shares.bytes).enumerate() {
            sum += bytes;
            let chunk = path.chunk.max(1);
            // Cut at the whole number of packets nearest to the sum of the shares so far.
            let end = if Some(i) == last { sum } else { (sum + chunk / 2) / chunk * chunk };
            let end = end.min(shares.bytes.iter().sum());
            if end > cut {
                self.give(block, path, end - cut);
                cut = end;
            }
        }
    }

    /// Appends a part of a block to the backlog of a path.
    pub(crate) fn give(&mut self, block: BlockId, path: &PathView, bytes: u32) {
        let backlog = &mut self.backlogs[index(path)];
        backlog.bytes += u64::from(bytes);
        backlog.parts.push_back(Part { block, bytes });
    }

    /// Returns the next part for a path with room, if it has one.
    fn next_for(
        &mut self,
        cx: &Context<'_>,
        path: &PathView,
        reason: fn(&Block) -> &'static str,
    ) -> Option<Assignment> {
        let backlog = &mut self.backlogs[index(path)];
        while let Some(part) = backlog.parts.front().copied() {
            let block = cx.queue.get(part.block);
            let Some((block, work)) = block.and_then(|block| Some((block, block.next_work()?))) else {
                backlog.take(part.bytes);
                continue;
            };
            self.answer = Some(Answer { path: index(path), block: part.block, unsent: block.unsent_bytes() });
            return Some(Assignment::new(work, path.id, reason(block)).at_most(part.bytes));
        }
        None
    }

    /// Removes the sent bytes of the last assignment from its backlog.
    fn settle(&mut self, cx: &Context<'_>) {
        if let Some(answer) = self.answer.take() {
            let unsent = cx.queue.get(answer.block).map_or(0, Block::unsent_bytes);
            self.backlogs[answer.path].take(answer.unsent.saturating_sub(unsent));
        }
    }

    /// Returns the time of the next decision if a path with room has an empty backlog while others
    /// have parts: the plan may have been wrong about them.
    pub(crate) fn review_at(&self, cx: &Context<'_>) -> Option<Time> {
        let waiting = self.backlogs.iter().any(|backlog| backlog.bytes > 0);
        (waiting && cx.paths.iter().any(PathView::has_room)).then_some(self.made + MAX_AGE)
    }
}

fn index(path: &PathView) -> usize {
    usize::from(path.id.0)
}
