//! The blocks that a session has yet to deliver, indexed for schedulers.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use crate::{
    Block, BlockId, BlockMeta, Parity, ParityFate, PathId, StreamScheduler, Time, Work, WorkKind,
    dependencies::Dependencies, streams::Streams, usual::UsualSizes,
};

/// Largest number of blocks in a [run](BlockQueue::run_from).
pub const MAX_RUN: usize = 32;

/// Sort key by the rank that the stream scheduler assigned; equal ranks by age, oldest first.
type Place = (u64, BlockId);

/// Sort key by deadline, earliest first; equal deadlines, and blocks without one, by place.
type Due = (Time, Place);

fn due(meta: &BlockMeta, rank: u64) -> Due {
    (meta.deadline.unwrap_or(Time::MAX), (rank, meta.id))
}

/// Largest number of removed blocks with bytes in flight whose fate is awaited. Beyond it, the
/// oldest count as missing.
const UNDECIDED: usize = 256;

/// All unfinished blocks, by age and, if they have bytes to send, by deadline.
///
/// Finding the next fresh or lost range costs O(log blocks), independent of the number that waits.
/// Reliable and unreliable blocks are indexed separately (the two queues of STORM, §3.3), since
/// most orders treat them differently.
#[derive(Debug, Default)]
pub struct BlockQueue {
    blocks: BTreeMap<BlockId, Block>,
    with_fresh: BTreeSet<Place>,
    with_lost: BTreeSet<BlockId>,
    in_flight: BTreeSet<BlockId>,
    reliable_work: BTreeSet<Due>,
    unreliable_work: BTreeSet<Due>,
    fresh_bytes: u64,
    unacked_bytes: u64,
    expected_bytes: u64,
    streams: Streams,
    usual: UsualSizes,
    dependencies: Dependencies,
    /// Blocks that were removed while all their bytes were in flight or acknowledged: they may have
    /// arrived.
    undecided: BTreeMap<BlockId, Block>,
    /// Largest symbol of added blocks in bytes; `None` if they get no parity.
    largest_symbol: Option<u32>,
    parity_bytes: u64,
    /// Bytes of parity that may be sent; `None` for no limit.
    parity_limit: Option<u64>,
}

impl BlockQueue {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of unfinished blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns `true` if no block is unfinished.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the bytes never sent, over all blocks.
    pub fn fresh_bytes(&self) -> u64 {
        self.fresh_bytes
    }

    /// Returns the bytes that are not acknowledged, over all blocks.
    pub fn unacked_bytes(&self) -> u64 {
        self.unacked_bytes
    }

    /// Returns the bytes that growing blocks are expected to gain.
    pub fn expected_bytes(&self) -> u64 {
        self.expected_bytes
    }

    /// Returns the block with that id, if unfinished.
    pub fn get(&self, id: BlockId) -> Option<&Block> {
        self.blocks.get(&id)
    }

    /// Iterates over all unfinished blocks, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.blocks.values()
    }

    /// Iterates over blocks with bytes never sent: oldest first, or, if channels have weights, each
    /// channel in proportion to its weight.
    pub fn with_fresh(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.with_fresh.iter().filter_map(|(_, id)| self.blocks.get(id))
    }

    /// Iterates over reliable blocks with bytes to repair, oldest first.
    pub fn with_lost(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.with_lost.iter().filter_map(|id| self.blocks.get(id))
    }

    /// Iterates over blocks from `id` on with bytes in flight, oldest first.
    pub fn in_flight_from(&self, id: BlockId) -> impl Iterator<Item = &Block> {
        self.in_flight.range(id..).filter_map(|id| self.blocks.get(id))
    }

    /// Iterates over reliable blocks with bytes to send, fresh or lost: earliest deadline first,
    /// those without one last. At equal deadlines channels share by their weights if they have any,
    /// else the older block is first.
    pub fn reliable_by_deadline(&self) -> impl Iterator<Item = &Block> {
        self.reliable_work.iter().filter_map(|(_, (_, id))| self.blocks.get(id))
    }

    /// Iterates over unreliable blocks with fresh bytes, in the order of
    /// [`Self::reliable_by_deadline`].
    pub fn unreliable_by_deadline(&self) -> impl Iterator<Item = &Block> {
        self.unreliable_work.iter().filter_map(|(_, (_, id))| self.blocks.get(id))
    }

    /// Returns `true` if a block that this one needs, directly or through others, ended
    /// undelivered: it expired or was lost, cancelled or refused. The receiver cannot use this
    /// block then, even if it arrives. `false` for blocks that have ended.
    ///
    /// A block that ended with bytes in flight counts as undelivered once one of them is lost. The
    /// latest few thousand of the blocks that ended are remembered. A block that was handed over at
    /// least 2 s after the first one of its chain that ended undelivered is no orphan: decoders
    /// show pictures again without a key picture by then. O(log blocks).
    pub fn is_orphan(&self, id: BlockId) -> bool {
        self.blocks.contains_key(&id) && self.dependencies.is_orphan(id)
    }

    /// Returns `true` if the flow of this block has begun a new chain since: a later block of its
    /// channel needs others and was no orphan. An orphan that is not superseded is all that its
    /// flow has. O(log blocks).
    pub(crate) fn is_superseded(&self, id: BlockId) -> bool {
        self.dependencies.is_superseded(id)
    }

    /// Iterates over unfinished blocks that need this one directly, oldest first.
    pub fn dependants(&self, id: BlockId) -> impl Iterator<Item = &Block> {
        self.dependencies.dependants(id).filter_map(|id| self.blocks.get(&id))
    }

    /// Iterates over blocks of either kind with bytes to send, in the order of
    /// [`Self::reliable_by_deadline`].
    pub fn by_deadline(&self) -> impl Iterator<Item = &Block> {
        let mut reliable = self.reliable_work.iter().peekable();
        let mut unreliable = self.unreliable_work.iter().peekable();
        std::iter::from_fn(move || {
            let first = match (reliable.peek(), unreliable.peek()) {
                (Some(a), Some(b)) if b < a => unreliable.next(),
                (None, _) => unreliable.next(),
                _ => reliable.next(),
            };
            first.and_then(|(_, (_, id))| self.blocks.get(id))
        })
    }

    /// Returns the oldest lost range of a reliable block.
    pub fn next_repair(&self) -> Option<Work> {
        let block = self.with_lost().next()?;
        Some(Work { block: block.meta().id, range: block.next_lost()?, kind: WorkKind::Repair })
    }

    /// Returns the next range that was never sent: the oldest, or the oldest of the channel that
    /// the stream scheduler selects.
    pub fn next_fresh(&self) -> Option<Work> {
        let (block, most) = match self.streams.next(&self.blocks) {
            Some((id, most)) => (self.get(id)?, most),
            None => (self.with_fresh().next()?, u32::MAX),
        };
        let range = block.next_fresh()?;
        let range = range.start..range.end.min(range.start.saturating_add(most));
        Some(Work { block: block.meta().id, range, kind: WorkKind::Fresh })
    }

    /// Returns parity of a block that was never sent and can be sent now: [`Parity::next`], within
    /// the limit of the peer.
    pub fn next_parity(&self, id: BlockId) -> Option<Work> {
        let parity = self.get(id)?.parity()?;
        let Range { start, end } = parity.next()?;
        let room = self.parity_limit.unwrap_or(u64::MAX).saturating_sub(self.parity_bytes)
            / u64::from(parity.symbol_size());
        let range = start..end.min(start.saturating_add(u32::try_from(room).unwrap_or(u32::MAX)));
        (!range.is_empty()).then_some(Work { block: id, range, kind: WorkKind::Parity })
    }

    /// Returns the run of small blocks that begins with this one: the blocks of its channel that
    /// fit one symbol each, are in flight, and have no parity yet; oldest first, at most
    /// [`MAX_RUN`]. One symbol of [parity over them](WorkKind::RunParity) replaces any one of them.
    /// O(blocks in flight).
    pub fn run_from(&self, first: BlockId) -> impl Iterator<Item = &Block> {
        let channel = self.get(first).map(|block| block.meta().channel);
        let joins = move |block: &&Block| Some(block.meta().channel) == channel && block.may_join_run();
        self.in_flight_from(first).filter(joins).take(MAX_RUN)
    }

    /// Records whether parity over a run that contains this block was sent.
    pub fn mark_in_run(&mut self, id: BlockId, is_in_run: bool) {
        if let Some(block) = self.blocks.get_mut(&id) {
            block.set_in_run(is_in_run);
        }
    }

    /// Returns the bytes of parity sent, over all unfinished blocks.
    pub fn parity_bytes(&self) -> u64 {
        self.parity_bytes
    }

    /// Sets the largest symbol in bytes of blocks that are added from now on; `None` adds them
    /// without parity. Default: `None`.
    pub fn set_largest_symbol(&mut self, bytes: Option<u32>) {
        self.largest_symbol = bytes;
    }

    /// Limits the bytes of parity that may be sent, over all blocks. Default: no limit.
    pub fn set_parity_limit(&mut self, bytes: u64) {
        self.parity_limit = Some(bytes);
    }

    /// Sets the scheduler that picks the next channel when several have data. Blocks that wait
    /// already keep their rank. Default: [`Fifo`](crate::Fifo).
    pub fn set_streams(&mut self, scheduler: Box<dyn StreamScheduler>) {
        self.streams.reset(scheduler);
        for (_, id) in &self.with_fresh {
            if let Some(block) = self.blocks.get(id) {
                self.streams.enter(block.meta().channel, *id);
            }
        }
    }

    /// Returns `true` if the oldest block is next, whatever its channel.
    pub fn is_fifo(&self) -> bool {
        self.streams.is_fifo()
    }

    /// Sets the weight of a channel for the stream scheduler, 1 to 256; 1 if never set.
    pub fn set_channel_weight(&mut self, channel: u16, weight: u16) {
        self.streams.set_weight(channel, weight);
    }

    /// Returns the next range in the order of arrival: repairs, then bytes never sent.
    pub fn next_in_line(&self) -> Option<Work> {
        self.next_repair().or_else(|| self.next_fresh())
    }

    /// Adds a block. Its id must be larger than that of every earlier block.
    pub fn insert(&mut self, meta: BlockMeta) {
        self.usual.record(&meta);
        self.add(Block::new(meta, self.largest_symbol));
    }

    /// Adds a growing block: `meta` describes its present part. Its expected length is `hint`
    /// bytes, or else the usual length on its channel with its priority.
    pub fn open(&mut self, meta: BlockMeta, hint: Option<u32>) {
        let mut block = Block::new(meta, self.largest_symbol);
        block.open(hint.unwrap_or_else(|| self.usual.expected(&meta)));
        self.add(block);
    }

    /// Appends bytes to a growing block. The caller reports it to the scheduler with
    /// [`SchedEvent::Grew`](crate::SchedEvent::Grew).
    pub fn grow(&mut self, id: BlockId, bytes: u32) {
        if let Some(block) = self.blocks.get_mut(&id).filter(|block| block.is_growing() && bytes > 0) {
            let (before, expected) = (Listing::of(block), block.expected_bytes());
            block.grow(bytes);
            self.fresh_bytes += u64::from(bytes);
            self.unacked_bytes += u64::from(bytes);
            self.expected_bytes -= u64::from(expected - block.expected_bytes());
            let (meta, rank, after) = (*block.meta(), block.rank(), Listing::of(block));
            self.relist(&meta, rank, before, after);
        }
    }

    /// Makes the length of a growing block final. The caller reports it to the scheduler with
    /// [`SchedEvent::Grew`](crate::SchedEvent::Grew).
    pub fn finish(&mut self, id: BlockId) {
        if let Some(block) = self.blocks.get_mut(&id).filter(|block| block.is_growing()) {
            self.expected_bytes -= u64::from(block.expected_bytes());
            block.finish();
            self.usual.record(block.meta());
        }
    }

    fn add(&mut self, mut block: Block) {
        let meta = *block.meta();
        block.set_rank(self.streams.rank(&meta, meta.len + block.expected_bytes()));
        debug_assert!(self.blocks.last_key_value().is_none_or(|(id, _)| *id < meta.id), "ids must grow");
        self.fresh_bytes += u64::from(meta.len);
        self.unacked_bytes += u64::from(meta.len);
        self.expected_bytes += u64::from(block.expected_bytes());
        self.relist(&meta, block.rank(), Listing::default(), Listing::of(&block));
        self.dependencies.add(&meta);
        self.blocks.insert(meta.id, block);
    }

    /// Removes a block, finished or not. If bytes of it are fresh or lost, blocks that need it
    /// become [orphans](Self::is_orphan) at once; if bytes are in flight, as soon as one of them is
    /// lost. A partial block is missing only if no byte of it arrives.
    pub fn remove(&mut self, id: BlockId) -> Option<Block> {
        let block = self.blocks.remove(&id)?;
        self.fresh_bytes -= u64::from(block.fresh_bytes());
        self.expected_bytes -= u64::from(block.expected_bytes());
        self.unacked_bytes -= u64::from(block.meta().len - block.acked_bytes());
        self.parity_bytes -= parity_bytes(&block);
        self.relist(block.meta(), block.rank(), Listing::of(&block), Listing::default());
        if block.is_of_use() {
            self.dependencies.deliver(id);
        } else if block.is_missing() || block.is_growing() {
            self.dependencies.miss(id);
        } else {
            self.undecided.insert(id, block.clone());
            if self.undecided.len() > UNDECIDED
                && let Some(oldest) = self.undecided.first_key_value().map(|(id, _)| *id)
            {
                self.miss(oldest);
            }
        }
        Some(block)
    }

    /// Records that the receiver lacks a block that was removed, or that ended before it was added.
    pub fn miss(&mut self, id: BlockId) {
        self.undecided.remove(&id);
        self.dependencies.miss(id);
    }

    /// Applies a report about a block that was removed with bytes in flight.
    fn decide(&mut self, id: BlockId, news: impl FnOnce(&mut Block)) {
        let Some(block) = self.undecided.get_mut(&id) else { return };
        news(block);
        if block.is_of_use() {
            self.undecided.remove(&id);
            self.dependencies.deliver(id);
        } else if block.is_missing() {
            self.miss(id);
        }
    }

    /// Records that a copy of the range leaves, or is committed to leave, on `path`. A path has at
    /// most one copy of a byte in flight: a second one on the same path shares the fate of the
    /// first.
    pub fn mark_sent(&mut self, id: BlockId, range: Range<u32>, path: PathId, now: Time) {
        self.change(id, |block| block.sent(range, path, now));
    }

    /// Updates the sending times of a committed range that left later, held back by the pacer.
    pub fn mark_departed(&mut self, id: BlockId, range: Range<u32>, kind: WorkKind, now: Time) {
        if let Some(block) = self.blocks.get_mut(&id) {
            block.departed(range, kind, now);
        }
    }

    /// Records that the peer has the range; returns how many bytes are newly acknowledged.
    pub fn mark_acked(&mut self, id: BlockId, range: Range<u32>) -> u32 {
        self.decide(id, |block| _ = block.acked(range.clone()));
        self.change(id, |block| block.acked(range)).unwrap_or(0)
    }

    /// Records that the copy on `path` is lost; returns how many bytes have no copy in flight any
    /// more.
    pub fn mark_lost(&mut self, id: BlockId, range: Range<u32>, path: PathId) -> u32 {
        self.decide(id, |block| _ = block.lost(range.clone(), path));
        self.change(id, |block| block.lost(range, path)).unwrap_or(0)
    }

    /// Takes back a range that was committed to `path` but never left. Its earlier state returns:
    /// fresh if no other copy ever left, lost if all that did were lost. The caller reports it to
    /// the scheduler with [`SchedEvent::Unsent`](crate::SchedEvent::Unsent).
    pub fn mark_unsent(&mut self, id: BlockId, range: Range<u32>, path: PathId) {
        self.decide(id, |block| block.unsent(range.clone(), path));
        self.change(id, |block| block.unsent(range, path));
    }

    /// Records that symbols of parity leave, or are committed to leave. Returns those that were
    /// within [`Self::next_parity`].
    pub fn mark_parity_sent(&mut self, id: BlockId, symbols: Range<u32>) -> Range<u32> {
        let next = self.next_parity(id).map_or(0..0, |work| work.range);
        let symbols = symbols.start.max(next.start)..symbols.end.min(next.end);
        if let Some(parity) = self.parity_mut(id).filter(|_| !symbols.is_empty()) {
            let bytes = u64::from(parity.symbol_size()) * u64::from(parity.mark_sent(symbols.clone()));
            self.parity_bytes += bytes;
        }
        symbols
    }

    /// Records the fate of symbols of parity that were sent. The caller reports it to the scheduler
    /// with [`SchedEvent::Parity`](crate::SchedEvent::Parity).
    pub fn mark_parity(&mut self, id: BlockId, symbols: Range<u32>, fate: ParityFate) {
        let Some(parity) = self.parity_mut(id) else { return };
        match fate {
            ParityFate::Acked => parity.mark_acked(symbols),
            ParityFate::Lost => parity.mark_lost(symbols),
            ParityFate::Unsent => {
                let bytes = u64::from(parity.symbol_size()) * u64::from(parity.mark_unsent(symbols));
                self.parity_bytes -= bytes;
            }
        }
    }

    fn parity_mut(&mut self, id: BlockId) -> Option<&mut Parity> {
        self.blocks.get_mut(&id)?.parity_mut()
    }

    /// Forgets a closed path and its copies, because its id may be reused for a path without
    /// history.
    pub fn forget_path(&mut self, path: PathId) {
        self.blocks.values_mut().for_each(|block| block.forget_path(path));
    }

    fn change<R>(&mut self, id: BlockId, f: impl FnOnce(&mut Block) -> R) -> Option<R> {
        let block = self.blocks.get_mut(&id)?;
        let (fresh, acked) = (block.fresh_bytes(), block.acked_bytes());
        let before = Listing::of(block);
        let result = f(block);
        let (meta, rank, after) = (*block.meta(), block.rank(), Listing::of(block));
        self.fresh_bytes = self.fresh_bytes - u64::from(fresh) + u64::from(block.fresh_bytes());
        self.unacked_bytes = self.unacked_bytes + u64::from(acked) - u64::from(block.acked_bytes());
        let sent = i64::from(fresh) - i64::from(block.fresh_bytes());
        if sent > 0 {
            self.streams.charge(&meta, rank, sent);
        }
        self.relist(&meta, rank, before, after);
        if sent < 0 {
            self.streams.charge(&meta, rank, sent);
        }
        Some(result)
    }

    /// Updates the indexes that a block enters or leaves. Most packets change none of them.
    fn relist(&mut self, meta: &BlockMeta, rank: u64, before: Listing, after: Listing) {
        if before == after {
            return;
        }
        let due = due(meta, rank);
        if before.fresh != after.fresh {
            set_member(&mut self.with_fresh, due.1, after.fresh);
            match after.fresh {
                true => self.streams.enter(meta.channel, meta.id),
                false => self.streams.leave(meta.channel, meta.id),
            }
        }
        if before.lost != after.lost {
            set_member(&mut self.with_lost, meta.id, after.lost);
        }
        if before.in_flight != after.in_flight {
            set_member(&mut self.in_flight, meta.id, after.in_flight);
        }
        if before.has_work() != after.has_work() {
            let work = if meta.reliable { &mut self.reliable_work } else { &mut self.unreliable_work };
            set_member(work, due, after.has_work());
        }
    }
}

/// Returns the bytes of parity sent for a block.
fn parity_bytes(block: &Block) -> u64 {
    block.parity().map_or(0, |parity| u64::from(parity.sent()) * u64::from(parity.symbol_size()))
}

/// Membership of a block in the indexes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Listing {
    fresh: bool,
    lost: bool,
    in_flight: bool,
}

impl Listing {
    fn of(block: &Block) -> Self {
        Self {
            fresh: block.fresh_bytes() > 0,
            lost: block.meta().reliable && block.lost_bytes() > 0,
            in_flight: block.in_flight_bytes() > 0,
        }
    }

    fn has_work(self) -> bool {
        self.fresh || self.lost
    }
}

fn set_member<T: Ord>(set: &mut BTreeSet<T>, entry: T, member: bool) {
    if member {
        set.insert(entry);
    } else {
        set.remove(&entry);
    }
}
