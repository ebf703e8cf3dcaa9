//! Blocks to be sent: payloads, deadlines, admission, and each block's one outcome.

mod runs;
mod subqueues;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Range,
};

use bytes::Bytes;
use squall_sched::{BlockId, BlockMeta, MAX_PATHS, ParityFate, PathId, SchedEvent, SegmentState, Span, Time};

pub(crate) use self::subqueues::SubqueueNumber;
use self::{runs::Run, subqueues::Subqueues};
use crate::{
    Block, BlockOptions, Config, Depends, Limits, OpenError, SchedulerFactory, SendError, WriteError,
    config::LabConfig,
    parity,
    stalls::Stalls,
    varint,
    wire::{CancelReason, RefuseReason},
};

/// Largest distance from the oldest unfinished block to the newest: the span of the peer's record
/// of finished blocks.
pub(crate) const ID_SPAN: u64 = 1 << 20;

/// Bytes of blocks that may be in flight before the peer has announced its limit.
const FIRST_CREDIT: u64 = 64 << 10;

/// The fate of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Delivered,
    Expired,
    Lost,
    Cancelled(&'static str),
    Refused(RefuseReason),
    SessionClosed,
}

/// A block that ended, with its measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) meta: BlockMeta,
    pub(crate) ending: Ending,
    pub(crate) acked: u32,
    /// See [`Data::previous`](crate::wire::Data::previous).
    pub(crate) previous: Option<u64>,
    pub(crate) fully_sent: Option<Time>,
    pub(crate) over: [u32; MAX_PATHS],
}

#[derive(Debug)]
struct Payload {
    data: Content,
    /// See [`Data::previous`](crate::wire::Data::previous).
    previous: Option<u64>,
    over: [u32; MAX_PATHS],
    /// The peer has its length, or will receive it with any of its bytes.
    end_known: bool,
    /// The end is announced by a separate item.
    end_announced: bool,
    /// All symbols of its parity, once one is to be sent.
    parity: Vec<u8>,
}

#[derive(Debug)]
enum Content {
    /// The complete block.
    Whole(Bytes),
    /// The part written so far, with the expected total length, and `finished` if it is complete.
    Written { data: Vec<u8>, expected_len: Option<u32>, finished: bool },
}

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(data) => data,
            Self::Written { data, .. } => data,
        }
    }

    fn is_final(&self) -> bool {
        matches!(self, Self::Whole(_) | Self::Written { finished: true, .. })
    }
}

/// Blocks to be sent.
pub(crate) struct Outbox {
    limits: Limits,
    lab: LabConfig,
    /// Blocks in the view of schedulers: those that the peer has room for.
    pub(crate) queue: Subqueues,
    /// Blocks that wait for room at the peer, in order.
    waiting: VecDeque<BlockMeta>,
    payloads: BTreeMap<BlockId, Payload>,
    /// Parity over runs of small blocks, by the first of each.
    runs: BTreeMap<BlockId, Run>,
    /// Blocks with bytes, or an end, that the queue does not have yet.
    written: BTreeSet<BlockId>,
    /// The peer accepts blocks without a length at the start.
    peer_takes_growing: bool,
    /// The peer hands over the received part of a partial block.
    peer_takes_partial: bool,
    deadlines: BTreeSet<(Time, BlockId)>,
    next_id: u64,
    queued_bytes: u64,
    /// Bytes of admitted, unfinished blocks.
    admitted: u64,
    /// Bytes of parity that is kept, sent or not.
    parity_kept: u64,
    /// Bytes of blocks that the peer accepts now.
    credit: u64,
    /// Bytes of blocks that the peer accepts when it holds none.
    capacity: u64,
    last_ordered: HashMap<u16, u64>,
    /// The block that the next [`Depends::Reference`] needs, by channel.
    last_reference: HashMap<u16, BlockId>,
    /// `send` was refused for lack of room since room was last announced.
    refused: bool,
    /// Blocks that this side handed over late, which the peer takes for stalls; `None` unless the
    /// scheduler requests reports of stalls.
    pauses: Option<Stalls>,
    /// Blocks leave in symbols of parity, since paths lose packets.
    pub(crate) cuts_symbols: bool,
}

impl Outbox {
    pub(crate) fn new(config: &Config) -> Self {
        let queue = Subqueues::new(config);
        let pauses = queue.profile().wants_stalls.then(Stalls::default);
        Self {
            limits: config.limits,
            lab: config.switches(),
            queue,
            waiting: VecDeque::new(),
            payloads: BTreeMap::new(),
            runs: BTreeMap::new(),
            written: BTreeSet::new(),
            peer_takes_growing: false,
            peer_takes_partial: false,
            deadlines: BTreeSet::new(),
            next_id: 0,
            queued_bytes: 0,
            admitted: 0,
            parity_kept: 0,
            // Until the peer's hello: small enough for every receiver.
            credit: FIRST_CREDIT,
            capacity: FIRST_CREDIT,
            last_ordered: HashMap::new(),
            last_reference: HashMap::new(),
            refused: false,
            pauses,
            cuts_symbols: false,
        }
    }

    /// Replaces the scheduler, before there are blocks.
    pub(crate) fn set_scheduler(&mut self, scheduler: SchedulerFactory) {
        self.queue.set_scheduler(scheduler);
        self.pauses = self.queue.profile().wants_stalls.then(Stalls::default);
    }

    /// Returns `true` if this side handed the block over late.
    pub(crate) fn was_pause(&self, id: BlockId) -> bool {
        self.pauses.as_ref().is_some_and(|pauses| pauses.contains(id))
    }

    /// Sets the id of the next block.
    #[cfg(test)]
    pub(crate) fn start_at(&mut self, id: u64) {
        self.next_id = id;
    }

    /// Accepts a block for sending.
    pub(crate) fn send(&mut self, now: Time, block: Block) -> Result<BlockId, SendError> {
        if block.data.is_empty() {
            return Err(SendError::Empty);
        }
        if block.data.len() > self.limits.max_block as usize {
            return Err(SendError::TooLarge { len: block.data.len(), limit: self.limits.max_block });
        }
        if !self.has_room(block.data.len() as u64) {
            self.refused = true;
            return Err(SendError::Full(Box::new(block)));
        }
        Ok(self.accept(now, &block.options, Content::Whole(block.data)))
    }

    /// Opens a growing block.
    pub(crate) fn open(&mut self, now: Time, options: &BlockOptions) -> Result<BlockId, OpenError> {
        if !self.has_room(0) {
            self.refused = true;
            return Err(OpenError::Full);
        }
        let expected_len = options.expected_len;
        let content = Content::Written { data: Vec::new(), expected_len, finished: false };
        Ok(self.accept(now, options, content))
    }

    /// Appends bytes to a growing block.
    pub(crate) fn append(&mut self, id: BlockId, more: Bytes) -> Result<(), WriteError> {
        let has_bytes_free = self.has_bytes_free(more.len() as u64);
        // A block that fills the queue alone would wait for room that it occupies itself.
        let limit = self.limits.max_block.min(u32::try_from(self.limits.queued_bytes).unwrap_or(u32::MAX));
        let Some(Content::Written { data, finished: false, .. }) =
            self.payloads.get_mut(&id).map(|payload| &mut payload.data)
        else {
            return Err(WriteError::Ended);
        };
        let len = data.len() + more.len();
        if len > limit as usize {
            return Err(WriteError::TooLarge { len, limit });
        }
        if !has_bytes_free {
            self.refused = true;
            return Err(WriteError::Full(more));
        }
        data.extend_from_slice(&more);
        self.queued_bytes += more.len() as u64;
        self.written.insert(id);
        Ok(())
    }

    /// Finishes a growing block, which has all its bytes.
    pub(crate) fn finish(&mut self, id: BlockId) -> Result<(), WriteError> {
        match self.payloads.get_mut(&id).map(|payload| &mut payload.data) {
            Some(Content::Written { data, finished: false, .. }) if data.is_empty() => Err(WriteError::Empty),
            Some(Content::Written { finished: finished @ false, .. }) => {
                *finished = true;
                self.written.insert(id);
                Ok(())
            }
            _ => Err(WriteError::Ended),
        }
    }

    /// Returns `true` if [`Self::append`] accepts this many bytes now.
    pub(crate) fn has_bytes_free(&self, bytes: u64) -> bool {
        self.queued_bytes + bytes <= self.limits.queued_bytes
    }

    /// Returns `true` if [`Self::send`] accepts a block of this size now.
    pub(crate) fn has_room(&self, len: u64) -> bool {
        let oldest = self.payloads.first_key_value().map_or(self.next_id, |(id, _)| id.0);
        self.has_bytes_free(len)
            && self.payloads.len() < self.limits.open_blocks
            && self.next_id - oldest < ID_SPAN
            && self.next_id <= varint::MAX
    }

    fn accept(&mut self, now: Time, options: &BlockOptions, data: Content) -> BlockId {
        let id = BlockId(self.next_id);
        self.next_id += 1;
        self.queue.enter(id, options.hint.as_ref());
        let len = data.bytes().len() as u32;
        // A deadline beyond the end of the clock is none.
        let deadline = options.deadline.map(|left| now + left.into()).filter(|at| *at < Time::MAX);
        let previous = options.ordered.then(|| {
            let last = self.last_ordered.insert(options.channel.get(), id.0);
            last.map_or(0, |last| id.0 - last)
        });
        if let Some(deadline) = deadline.filter(|_| self.lab.expire) {
            self.deadlines.insert((deadline, id));
        }
        let needs = self.needs(id, options);
        let end_known = data.is_final();
        let payload = Payload {
            data,
            previous,
            over: [0; MAX_PATHS],
            end_known,
            end_announced: false,
            parity: Vec::new(),
        };
        self.payloads.insert(id, payload);
        self.queued_bytes += u64::from(len);
        self.waiting.push_back(BlockMeta {
            id,
            len,
            deadline,
            priority: options.priority.get(),
            reliable: options.reliable || self.lab.all_reliable,
            partial: options.partial,
            channel: options.channel.get(),
            submitted: now,
            value: options.value.unwrap_or(BlockMeta::usual_value(options.priority.get())),
            needs,
        });
        if let Some(pauses) = &mut self.pauses {
            pauses.on_block(now, options.channel.get(), id);
        }
        id
    }

    /// Returns the blocks that this one needs. Later blocks of its channel may need it.
    fn needs(&mut self, id: BlockId, options: &BlockOptions) -> [Option<BlockId>; 2] {
        let channel = options.channel.get();
        match options.depends {
            Depends::Nothing => [None; 2],
            Depends::Key => {
                self.last_reference.insert(channel, id);
                [None; 2]
            }
            Depends::Reference => [self.last_reference.insert(channel, id), None],
            Depends::Disposable => [self.last_reference.get(&channel).copied(), None],
            Depends::On(needs) => needs.map(|need| need.filter(|need| *need < id)),
        }
    }

    /// Moves written bytes and waiting blocks into the queue, within the peer's credit.
    pub(crate) fn admit(&mut self) {
        self.admit_blocks();
        let kept = self.parity_kept < self.limits.queued_bytes;
        self.queue.set_parity_limit(if kept { self.credit.saturating_sub(self.admitted) } else { 0 });
    }

    /// Returns the used bytes of the peer's credit: parity counts like bytes of blocks.
    fn under_way(&self) -> u64 {
        self.admitted + self.queue.parity_bytes()
    }

    fn admit_blocks(&mut self) {
        let written: Vec<_> = self.written.iter().copied().collect();
        // Without credit, too: a finished block needs none.
        for id in written {
            self.grow(id);
        }
        while let Some(meta) = self.waiting.front() {
            let len = u64::from(meta.len);
            // Blocks that the peer can never accept are sent all the same, for it to refuse them by
            // name.
            let hopeless = self.admitted == 0 && len > self.capacity;
            if self.under_way() + len > self.credit && !hopeless {
                break;
            }
            self.admitted += len;
            let meta = BlockMeta { partial: meta.partial && self.peer_takes_partial, ..*meta };
            self.waiting.pop_front();
            match self.payloads.get(&meta.id).map(|payload| &payload.data) {
                // Bytes that were written by now count when the block is shown.
                Some(Content::Written { expected_len, .. }) => {
                    self.queue.of_mut(meta.id).open(meta, *expected_len);
                }
                _ => self.queue.of_mut(meta.id).insert(meta),
            }
            self.queue.note(SchedEvent::Queued(meta.id));
            self.grow(meta.id);
        }
    }

    /// Moves the bytes written to a block into the queue, within the peer's credit. The oldest
    /// block may grow whatever the credit, so that blocks that use up the credit together do not
    /// block each other for good.
    fn grow(&mut self, id: BlockId) {
        let Some(data) = self.payloads.get(&id).map(|payload| &payload.data) else { return };
        let Some(block) = self.queue.get(id).filter(|block| block.is_growing()) else { return };
        if !self.peer_takes_growing && !data.is_final() {
            return;
        }
        let len = block.meta().len;
        let rest = u64::from(data.bytes().len() as u32 - len);
        let is_oldest = self.queue.oldest() == Some(id);
        let room = if is_oldest { rest } else { self.credit.saturating_sub(self.under_way()) };
        let bytes = rest.min(room);
        let finished = data.is_final();
        if bytes > 0 {
            self.admitted += bytes;
            self.queue.of_mut(id).grow(id, bytes as u32);
            self.queue.note(SchedEvent::Grew { block: id, range: len..len + bytes as u32 });
        }
        if bytes < rest {
            return;
        }
        self.written.remove(&id);
        if finished {
            let end = len + bytes as u32;
            self.queue.of_mut(id).finish(id);
            self.queue.note(SchedEvent::Grew { block: id, range: end..end });
        }
    }

    pub(crate) fn set_peer_takes(&mut self, growing: bool, partial: bool) {
        self.peer_takes_growing = growing;
        self.peer_takes_partial = partial;
    }

    pub(crate) fn set_credit(&mut self, bytes: u64) {
        self.credit = bytes;
    }

    pub(crate) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    pub(crate) fn set_block_limit(&mut self, limit: u32) {
        self.limits.max_block = self.limits.max_block.min(limit);
    }

    pub(crate) fn block_limit(&self) -> u32 {
        self.limits.max_block
    }

    /// Returns the bytes handed over that are not acknowledged.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Returns the bytes handed over that no path has taken yet.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        let waiting = self.waiting.iter().map(|meta| u64::from(meta.len));
        self.queue.fresh_bytes() + waiting.sum::<u64>()
    }

    pub(crate) fn open_blocks(&self) -> usize {
        self.payloads.len()
    }

    /// Returns `true` if `send` was refused before and there is room now.
    pub(crate) fn is_writable(&self) -> bool {
        self.refused && self.is_half_empty()
    }

    /// Returns `true` if half of the queue is free.
    pub(crate) fn is_half_empty(&self) -> bool {
        self.queued_bytes <= self.limits.queued_bytes / 2 && self.has_room(1)
    }

    /// Like [`Self::is_writable`], but `true` only once per refusal.
    pub(crate) fn take_writable(&mut self) -> bool {
        let writable = self.is_writable();
        self.refused &= !writable;
        writable
    }

    /// Returns the bytes of a chunk.
    pub(crate) fn bytes(&self, id: BlockId, range: &Range<u32>) -> Option<&[u8]> {
        self.payloads.get(&id)?.data.bytes().get(range.start as usize..range.end as usize)
    }

    /// Returns a symbol of the parity of a block. All symbols are computed at the first request and
    /// kept until the block ends.
    pub(crate) fn parity(&mut self, id: BlockId, index: u32) -> Option<&[u8]> {
        let size = self.queue.get(id)?.parity()?.symbol_size();
        let payload = self.payloads.get_mut(&id).filter(|payload| payload.data.is_final())?;
        if payload.parity.is_empty() {
            payload.parity = parity::encode(payload.data.bytes(), size)?;
            self.parity_kept += payload.parity.len() as u64;
        }
        payload.parity.chunks(size as usize).nth(index as usize)
    }

    /// Returns `true` if a block is reliable, and the peer may lack bytes of this range.
    pub(crate) fn needs_again(&self, id: BlockId, range: &Range<u32>) -> bool {
        let Some(block) = self.queue.get(id).filter(|block| block.meta().reliable) else { return false };
        let mut segments = block.segments_from(range.start).iter().take_while(|s| s.start < range.end);
        segments.any(|segment| segment.state != SegmentState::Acked)
    }

    /// Returns the length of a block, once it is final.
    pub(crate) fn total(&self, id: BlockId) -> Option<u32> {
        let data = &self.payloads.get(&id)?.data;
        data.is_final().then(|| data.bytes().len() as u32)
    }

    /// Returns `true` if every byte of a block was assigned to a path.
    pub(crate) fn is_sent(&self, id: BlockId) -> bool {
        let written = self.payloads.get(&id).map_or(0, |payload| payload.data.bytes().len());
        self.queue.get(id).is_some_and(|b| b.fresh_bytes() == 0 && b.meta().len as usize == written)
    }

    /// Returns `true` if the peer has the length of a block that has not ended.
    pub(crate) fn is_end_known(&self, id: BlockId) -> bool {
        self.payloads.get(&id).is_some_and(|payload| payload.end_known)
    }

    /// Returns `true` if the peer has all bytes of a block but not its length.
    pub(crate) fn lacks_end(&self, id: BlockId) -> bool {
        let complete = self.queue.get(id).is_some_and(squall_sched::Block::is_complete);
        complete && !self.is_end_known(id)
    }

    /// Returns `true` once if the end of a block is to be announced.
    pub(crate) fn take_end(&mut self, id: BlockId) -> bool {
        let payload = self.payloads.get_mut(&id).filter(|payload| !payload.end_known);
        payload.is_some_and(|payload| !std::mem::replace(&mut payload.end_announced, true))
    }

    /// Records that the peer has received the length of a block.
    pub(crate) fn on_end_known(&mut self, id: BlockId) -> Option<Ended> {
        self.payloads.get_mut(&id)?.end_known = true;
        let complete = self.queue.get(id)?.is_complete();
        if complete { self.end(id, Ending::Delivered) } else { None }
    }

    /// Returns the time left at `at` until a block expires, for the peer; `None` if it does not.
    pub(crate) fn time_left(&self, meta: &BlockMeta, at: Time) -> Option<Span> {
        meta.deadline.filter(|_| self.lab.expire).map(|deadline| deadline - at)
    }

    /// Returns when the next block expires.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Returns a block whose deadline has passed.
    pub(crate) fn overdue(&self, now: Time) -> Option<BlockId> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }

    pub(crate) fn on_acked(
        &mut self,
        id: BlockId,
        range: Range<u32>,
        path: PathId,
        has_end: bool,
    ) -> Option<Ended> {
        let news = self.queue.mark_acked(id, range);
        if let Some(payload) = self.payloads.get_mut(&id) {
            payload.over[usize::from(path.0)] += news;
            payload.end_known |= has_end;
        }
        self.end_if_complete(id).or_else(|| self.end_if_pointless(id))
    }

    /// Handles the fate of parity. Its arrival includes that of the block's length.
    pub(crate) fn on_parity(&mut self, id: BlockId, symbols: Range<u32>, fate: ParityFate) -> Option<Ended> {
        self.queue.of_mut(id).mark_parity(id, symbols, fate);
        match fate {
            ParityFate::Acked => {
                self.payloads.get_mut(&id)?.end_known = true;
                self.end_if_complete(id)
            }
            ParityFate::Lost | ParityFate::Unsent => self.end_if_pointless(id),
        }
    }

    fn end_if_complete(&mut self, id: BlockId) -> Option<Ended> {
        let complete = self.queue.get(id)?.is_complete() && self.is_end_known(id);
        if complete { self.end(id, Ending::Delivered) } else { None }
    }

    pub(crate) fn on_lost(&mut self, id: BlockId, range: Range<u32>, path: PathId) -> Option<Ended> {
        self.queue.mark_lost(id, range, path);
        self.end_if_pointless(id)
    }

    pub(crate) fn on_unsent(&mut self, id: BlockId, range: Range<u32>, path: PathId) -> Option<Ended> {
        self.queue.mark_unsent(id, range, path);
        self.end_if_pointless(id)
    }

    /// Ends a block with nothing left to do, and an unreliable one that has lost bytes before all
    /// of it was sent: unless it is partial only the whole block counts, so the rest would be sent
    /// for nothing. A completely sent block waits for its fate, because a packet that was declared
    /// lost may have arrived.
    fn end_if_pointless(&mut self, id: BlockId) -> Option<Ended> {
        let block = self.queue.get(id)?;
        let more = block.fresh_bytes() > 0 || block.is_growing();
        let damaged = !block.meta().reliable && !block.meta().partial && !block.is_covered() && more;
        // Wait for bytes that parity of a run may have replaced, if the block has a time at which
        // it ends anyway.
        let ends = block.meta().deadline.is_some() && self.lab.expire;
        let may_be_rebuilt = block.is_in_run() && ends;
        let pointless = !block.is_complete() && (damaged || block.is_spent()) && !may_be_rebuilt;
        if pointless { self.end(id, Ending::Lost) } else { None }
    }

    /// Ends a block; `None` if it had ended before.
    pub(crate) fn end(&mut self, id: BlockId, ending: Ending) -> Option<Ended> {
        let payload = self.payloads.remove(&id)?;
        self.queued_bytes -= payload.data.bytes().len() as u64;
        self.parity_kept -= payload.parity.len() as u64;
        self.written.remove(&id);
        let (meta, acked, fully_sent, in_flight) = match self.queue.of_mut(id).remove(id) {
            Some(block) => {
                self.admitted -= u64::from(block.meta().len);
                (*block.meta(), block.acked_bytes(), block.fully_sent(), block.in_flight_bytes() > 0)
            }
            None => {
                let at = self.waiting.iter().position(|m| m.id == id)?;
                (self.waiting.remove(at)?, 0, None, false)
            }
        };
        // Bytes in flight may arrive in time, unless the peer refuses the block.
        let may_arrive = in_flight && !matches!(ending, Ending::Refused(_));
        let is_there = ending == Ending::Delivered || (meta.partial && acked > 0);
        if !is_there && !may_arrive {
            self.queue.miss(id);
        }
        self.queue.leave(id);
        if let Some(deadline) = meta.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(Ended { meta, ending, acked, previous: payload.previous, fully_sent, over: payload.over })
    }

    /// Ends all blocks with the session.
    pub(crate) fn end_all(&mut self) -> Vec<Ended> {
        let ids: Vec<_> = self.payloads.keys().copied().collect();
        ids.into_iter().filter_map(|id| self.end(id, Ending::SessionClosed)).collect()
    }
}

impl Ending {
    /// Returns the reason in the CANCEL for the peer; `None` if it needs none.
    pub(crate) fn cancel_reason(self) -> Option<CancelReason> {
        match self {
            Self::Expired => Some(CancelReason::Expired),
            Self::Lost => Some(CancelReason::Lost),
            Self::Cancelled(_) => Some(CancelReason::Cancelled),
            Self::Delivered | Self::Refused(_) | Self::SessionClosed => None,
        }
    }
}

#[cfg(test)]
mod tests;
