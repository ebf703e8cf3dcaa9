//! The queues of blocks: one for blocks that take any path, and one for each hint for a path that blocks have.
//!
//! Each queue has a scheduler of its own, which sees the paths that its blocks may take. So every scheduler obeys hints,
//! and none of them has to know of any.

use std::{collections::HashMap, ops::Range};

use squall_sched::{
    Block, BlockId, BlockMeta, BlockQueue, Micros, ParityFate, PathId, StreamScheduler, Time, WorkKind,
};
use squall_units::short::at_us;

use crate::PathHint;

/// Different hints of blocks that have not ended, at a time.
pub(crate) const MAX_HINTS: usize = 16;

/// Number of a queue: 0 for the one without a hint.
pub(crate) type QueueNumber = usize;

#[derive(Debug, Default)]
pub(crate) struct Queues {
    plain: BlockQueue,
    hinted: Vec<Hinted>,
    /// The queue of each block with a hint that has not ended.
    hints: HashMap<BlockId, QueueNumber>,
    streams: StreamScheduler,
    weights: HashMap<u16, u16>,
}

#[derive(Debug)]
struct Hinted {
    hint: PathHint,
    queue: BlockQueue,
    /// Blocks that have not ended, in the queue or not.
    blocks: usize,
}

impl Queues {
    /// The queue for blocks with a hint; `None` if there are too many hints.
    pub(crate) fn queue_for(&mut self, hint: &PathHint) -> Option<QueueNumber> {
        if let Some(at) = self.hinted.iter().position(|hinted| hinted.hint == *hint) {
            return Some(at + 1);
        }
        let mut queue = BlockQueue::new();
        queue.set_streams(self.streams);
        self.weights.iter().for_each(|(channel, weight)| queue.set_channel_weight(*channel, *weight));
        let hinted = Hinted { hint: hint.clone(), queue, blocks: 0 };
        if self.hinted.len() < MAX_HINTS {
            self.hinted.push(hinted);
            return Some(self.hinted.len());
        }
        let idle = self.hinted.iter().position(|hinted| hinted.blocks == 0)?;
        self.hinted[idle] = hinted;
        Some(idle + 1)
    }

    /// A block is going to be in a queue other than the first.
    pub(crate) fn enter(&mut self, id: BlockId, number: QueueNumber) {
        if number > 0 {
            self.hints.insert(id, number);
            self.hinted[number - 1].blocks += 1;
        }
    }

    /// A block has ended, in its queue or before it was there.
    pub(crate) fn leave(&mut self, id: BlockId) {
        if let Some(number) = self.hints.remove(&id) {
            self.hinted[number - 1].blocks -= 1;
        }
    }

    /// The queue of a block.
    pub(crate) fn queue_of(&self, id: BlockId) -> QueueNumber {
        if self.hints.is_empty() { 0 } else { self.hints.get(&id).copied().unwrap_or(0) }
    }

    /// Queues beside the first.
    pub(crate) fn hints(&self) -> usize {
        self.hinted.len()
    }

    pub(crate) fn hint(&self, number: QueueNumber) -> Option<&PathHint> {
        self.hinted.get(number.checked_sub(1)?).map(|hinted| &hinted.hint)
    }

    pub(crate) fn numbered(&self, number: QueueNumber) -> &BlockQueue {
        match number.checked_sub(1) {
            Some(at) => &self.hinted[at].queue,
            None => &self.plain,
        }
    }

    fn queue_mut(&mut self, number: QueueNumber) -> &mut BlockQueue {
        match number.checked_sub(1) {
            Some(at) => &mut self.hinted[at].queue,
            None => &mut self.plain,
        }
    }

    fn of(&self, id: BlockId) -> &BlockQueue {
        self.numbered(self.queue_of(id))
    }

    fn of_mut(&mut self, id: BlockId) -> &mut BlockQueue {
        self.queue_mut(self.queue_of(id))
    }

    fn all(&self) -> impl Iterator<Item = &BlockQueue> {
        std::iter::once(&self.plain).chain(self.hinted.iter().map(|hinted| &hinted.queue))
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut BlockQueue> {
        std::iter::once(&mut self.plain).chain(self.hinted.iter_mut().map(|hinted| &mut hinted.queue))
    }

    /// The queue to decide about next, other than those in `idle`, which has a bit for each: that with the block that is due
    /// first, the older block if none has a deadline.
    pub(crate) fn next_queue(&self, idle: u32) -> Option<QueueNumber> {
        if self.hinted.is_empty() {
            return (idle == 0 && !self.plain.is_empty()).then_some(0);
        }
        let due = |queue: &BlockQueue| {
            let first = queue.by_deadline().next().map(Block::meta);
            first.map_or((Time::MAX, u64::MAX), |meta| (meta.deadline.unwrap_or(Time::MAX), meta.id.0))
        };
        let busy =
            self.all().enumerate().filter(|(number, queue)| idle & 1 << number == 0 && !queue.is_empty());
        busy.min_by_key(|(_, queue)| due(queue)).map(|(number, _)| number)
    }

    /// The queue that blocks without a hint are in.
    pub(crate) fn plain(&self) -> &BlockQueue {
        &self.plain
    }

    pub(crate) fn get(&self, id: BlockId) -> Option<&Block> {
        self.of(id).get(id)
    }

    /// The oldest block that is in a queue.
    pub(crate) fn oldest(&self) -> Option<BlockId> {
        self.all().filter_map(|queue| queue.iter().next()).map(|block| block.meta().id).min()
    }

    /// Whether any block has bytes to send.
    pub(crate) fn has_work(&self) -> bool {
        self.all().any(|queue| queue.by_deadline().next().is_some())
    }

    pub(crate) fn fresh_bytes(&self) -> u64 {
        self.all().map(BlockQueue::fresh_bytes).sum()
    }

    pub(crate) fn parity_bytes(&self) -> u64 {
        self.all().map(BlockQueue::parity_bytes).sum()
    }

    /// Bounds the bytes of parity over all queues.
    pub(crate) fn set_parity_limit(&mut self, bytes: u64) {
        let sum = self.parity_bytes();
        for queue in self.all_mut() {
            let others = sum - queue.parity_bytes();
            queue.set_parity_limit(bytes.saturating_sub(others));
        }
    }

    pub(crate) fn set_largest_symbol(&mut self, bytes: Option<u32>) {
        self.all_mut().for_each(|queue| queue.set_largest_symbol(bytes));
    }

    pub(crate) fn set_streams(&mut self, scheduler: StreamScheduler) {
        self.streams = scheduler;
        self.all_mut().for_each(|queue| queue.set_streams(scheduler));
    }

    pub(crate) fn set_channel_weight(&mut self, channel: u16, weight: u16) {
        self.weights.insert(channel, weight);
        self.all_mut().for_each(|queue| queue.set_channel_weight(channel, weight));
    }

    pub(crate) fn insert(&mut self, meta: BlockMeta) {
        self.of_mut(meta.id).insert(meta);
    }

    pub(crate) fn open(&mut self, meta: BlockMeta, hint: Option<u32>) {
        self.of_mut(meta.id).open(meta, hint);
    }

    pub(crate) fn grow(&mut self, id: BlockId, bytes: u32) {
        self.of_mut(id).grow(id, bytes);
    }

    pub(crate) fn finish(&mut self, id: BlockId) {
        self.of_mut(id).finish(id);
    }

    pub(crate) fn remove(&mut self, id: BlockId) -> Option<Block> {
        self.of_mut(id).remove(id)
    }

    /// The receiver does not have a block, which those that need it may be in any queue.
    pub(crate) fn miss(&mut self, id: BlockId) {
        self.all_mut().for_each(|queue| queue.miss(id));
    }

    pub(crate) fn mark_sent(&mut self, id: BlockId, range: Range<u32>, path: PathId, now: Micros) {
        self.of_mut(id).mark_sent(id, range, path, at_us(now));
    }

    pub(crate) fn mark_departed(&mut self, id: BlockId, range: Range<u32>, kind: WorkKind, now: Micros) {
        self.of_mut(id).mark_departed(id, range, kind, at_us(now));
    }

    /// News of a block that may have ended, and be awaited in its queue.
    fn news<R>(&mut self, id: BlockId, report: impl Fn(&mut BlockQueue) -> R) -> R {
        let number = self.queue_of(id);
        let is_over = self.numbered(number).get(id).is_none();
        if is_over {
            // Its queue is forgotten by now.
            self.hinted.iter_mut().for_each(|hinted| _ = report(&mut hinted.queue));
        }
        report(self.queue_mut(if is_over { 0 } else { number }))
    }

    pub(crate) fn mark_acked(&mut self, id: BlockId, range: Range<u32>) -> u32 {
        self.news(id, |queue| queue.mark_acked(id, range.clone()))
    }

    pub(crate) fn mark_lost(&mut self, id: BlockId, range: Range<u32>, path: PathId) -> u32 {
        self.news(id, |queue| queue.mark_lost(id, range.clone(), path))
    }

    pub(crate) fn mark_unsent(&mut self, id: BlockId, range: Range<u32>, path: PathId) {
        self.news(id, |queue| queue.mark_unsent(id, range.clone(), path));
    }

    pub(crate) fn mark_parity_sent(&mut self, id: BlockId, symbols: Range<u32>) -> Range<u32> {
        self.of_mut(id).mark_parity_sent(id, symbols)
    }

    pub(crate) fn mark_parity(&mut self, id: BlockId, symbols: Range<u32>, fate: ParityFate) {
        self.of_mut(id).mark_parity(id, symbols, fate);
    }

    pub(crate) fn run_from(&self, first: BlockId) -> impl Iterator<Item = &Block> {
        self.of(first).run_from(first)
    }

    pub(crate) fn mark_in_run(&mut self, id: BlockId, is_in_run: bool) {
        self.of_mut(id).mark_in_run(id, is_in_run);
    }

    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.all_mut().for_each(|queue| queue.forget_path(path));
    }
}
