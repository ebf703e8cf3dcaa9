//! Blocks on their way out: payloads, deadlines, admission, and each block's one fate.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Range,
};

use bytes::Bytes;
use squall_sched::{BlockId, BlockMeta, BlockQueue, MAX_PATHS, Micros, PathId};

use crate::{
    Block, Limits, SendError,
    wire::{CancelReason, RefuseReason},
};

/// Blocks from the oldest unfinished one to the newest at most: what the peer's record of finished
/// blocks spans.
pub(crate) const ID_SPAN: u64 = 1 << 20;

/// Bytes of blocks that may be under way before the peer has said how many it takes.
const FIRST_CREDIT: u64 = 64 << 10;

/// How a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Delivered,
    Expired,
    Lost,
    Cancelled(&'static str),
    Refused(RefuseReason),
    SessionClosed,
}

/// A block that ended, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) meta: BlockMeta,
    pub(crate) ending: Ending,
    pub(crate) acked: u32,
    /// See [`Data::previous`](crate::wire::Data::previous).
    pub(crate) previous: Option<u64>,
    pub(crate) fully_sent: Option<Micros>,
    pub(crate) over: [u32; MAX_PATHS],
}

#[derive(Debug)]
struct Payload {
    data: Bytes,
    /// See [`Data::previous`](crate::wire::Data::previous).
    previous: Option<u64>,
    over: [u32; MAX_PATHS],
}

/// Blocks on their way out.
#[derive(Debug)]
pub(crate) struct Outbox {
    limits: Limits,
    /// See [`Config::all_reliable`](crate::Config::all_reliable).
    all_reliable: bool,
    /// What schedulers see: the blocks the peer has room for.
    pub(crate) queue: BlockQueue,
    /// Blocks that wait for the peer to have room, in order.
    waiting: VecDeque<BlockMeta>,
    payloads: BTreeMap<BlockId, Payload>,
    deadlines: BTreeSet<(Micros, BlockId)>,
    next_id: u64,
    queued_bytes: u64,
    /// Bytes of admitted, unfinished blocks.
    admitted: u64,
    /// Bytes of blocks the peer takes now.
    credit: u64,
    /// Bytes of blocks the peer takes when it holds none.
    capacity: u64,
    last_ordered: HashMap<u16, u64>,
    /// `send` was refused for lack of room since room was last announced.
    refused: bool,
}

impl Outbox {
    pub(crate) fn new(limits: Limits, all_reliable: bool) -> Self {
        Self {
            limits,
            all_reliable,
            queue: BlockQueue::new(),
            waiting: VecDeque::new(),
            payloads: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_id: 0,
            queued_bytes: 0,
            admitted: 0,
            // Until the peer's hello: little enough for every receiver.
            credit: FIRST_CREDIT,
            capacity: FIRST_CREDIT,
            last_ordered: HashMap::new(),
            refused: false,
        }
    }

    /// Takes a block for sending.
    pub(crate) fn send(&mut self, now: Micros, block: Block) -> Result<BlockId, SendError> {
        if block.data.is_empty() {
            return Err(SendError::Empty);
        }
        if block.data.len() > self.limits.block as usize {
            return Err(SendError::TooLarge { len: block.data.len(), limit: self.limits.block });
        }
        if !self.has_room(block.data.len() as u64) {
            self.refused = true;
            return Err(SendError::Full(block));
        }
        Ok(self.accept(now, block))
    }

    /// Whether [`Self::send`] takes a block of this size now.
    pub(crate) fn has_room(&self, len: u64) -> bool {
        let oldest = self.payloads.first_key_value().map_or(self.next_id, |(id, _)| id.0);
        self.queued_bytes + len <= self.limits.queued_bytes
            && self.payloads.len() < self.limits.open_blocks
            && self.next_id - oldest < ID_SPAN
    }

    fn accept(&mut self, now: Micros, block: Block) -> BlockId {
        let id = BlockId(self.next_id);
        self.next_id += 1;
        let len = block.data.len() as u32;
        let deadline = block.deadline.map(|d| now + d.as_micros() as u64);
        let previous = block.ordered.then(|| {
            let last = self.last_ordered.insert(block.channel.get(), id.0);
            last.map_or(0, |last| id.0 - last)
        });
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id));
        }
        self.payloads.insert(id, Payload { data: block.data, previous, over: [0; MAX_PATHS] });
        self.queued_bytes += u64::from(len);
        self.waiting.push_back(BlockMeta {
            id,
            len,
            deadline,
            priority: block.priority.get(),
            reliable: block.reliable || self.all_reliable,
            channel: block.channel.get(),
            submitted: now,
        });
        id
    }

    /// Lets waiting blocks into the queue as far as the peer has room for them; returns their ids.
    pub(crate) fn admit(&mut self) -> Vec<BlockId> {
        let mut admitted = Vec::new();
        while let Some(meta) = self.waiting.front() {
            let len = u64::from(meta.len);
            // What the peer can never take goes all the same, to be refused by name.
            let hopeless = self.admitted == 0 && len > self.capacity;
            if self.admitted + len > self.credit && !hopeless {
                break;
            }
            self.admitted += len;
            self.queue.insert(*meta);
            admitted.push(meta.id);
            self.waiting.pop_front();
        }
        admitted
    }

    pub(crate) fn set_credit(&mut self, bytes: u64) {
        self.credit = bytes;
    }

    pub(crate) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    pub(crate) fn set_block_limit(&mut self, limit: u32) {
        self.limits.block = self.limits.block.min(limit);
    }

    pub(crate) fn block_limit(&self) -> u32 {
        self.limits.block
    }

    /// Bytes handed over that are not known to have arrived.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    pub(crate) fn open_blocks(&self) -> usize {
        self.payloads.len()
    }

    /// Whether `send` was refused before and would have a chance now.
    pub(crate) fn is_writable(&self) -> bool {
        self.refused && self.is_half_empty()
    }

    /// Whether half of the queue is free.
    pub(crate) fn is_half_empty(&self) -> bool {
        self.queued_bytes <= self.limits.queued_bytes / 2 && self.has_room(1)
    }

    /// The same as [`Self::is_writable`], but true once per refusal only.
    pub(crate) fn take_writable(&mut self) -> bool {
        let writable = self.is_writable();
        self.refused &= !writable;
        writable
    }

    /// The bytes of a chunk.
    pub(crate) fn bytes(&self, id: BlockId, range: &Range<u32>) -> Option<&[u8]> {
        self.payloads.get(&id)?.data.get(range.start as usize..range.end as usize)
    }

    /// See [`Data::previous`](crate::wire::Data::previous).
    pub(crate) fn previous(&self, id: BlockId) -> Option<u64> {
        self.payloads.get(&id)?.previous
    }

    /// When the next block expires.
    pub(crate) fn next_deadline(&self) -> Option<Micros> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// A block whose deadline has passed.
    pub(crate) fn overdue(&self, now: Micros) -> Option<BlockId> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }

    pub(crate) fn on_acked(&mut self, id: BlockId, range: Range<u32>, path: PathId) -> Option<Ended> {
        let news = self.queue.mark_acked(id, range);
        if let Some(payload) = self.payloads.get_mut(&id) {
            payload.over[usize::from(path.0)] += news;
        }
        if self.queue.get(id)?.is_complete() {
            return self.end(id, Ending::Delivered);
        }
        self.end_if_pointless(id)
    }

    pub(crate) fn on_lost(&mut self, id: BlockId, range: Range<u32>, path: PathId) -> Option<Ended> {
        self.queue.mark_lost(id, range, path);
        self.end_if_pointless(id)
    }

    pub(crate) fn on_unsent(&mut self, id: BlockId, range: Range<u32>, path: PathId) {
        self.queue.mark_unsent(id, range, path);
    }

    /// Ends a block of which nothing is left to do, and an unreliable one that has lost bytes before all of it
    /// was sent: only whole blocks count, so the rest would be sent for nothing. What is sent to its end waits
    /// for its fate, for a packet that was thought lost may have arrived.
    fn end_if_pointless(&mut self, id: BlockId) -> Option<Ended> {
        let block = self.queue.get(id)?;
        let damaged = !block.meta().reliable && block.lost_bytes() > 0 && block.fresh_bytes() > 0;
        if damaged || block.is_spent() { self.end(id, Ending::Lost) } else { None }
    }

    /// Ends a block; `None` if it had ended before.
    pub(crate) fn end(&mut self, id: BlockId, ending: Ending) -> Option<Ended> {
        let payload = self.payloads.remove(&id)?;
        self.queued_bytes -= payload.data.len() as u64;
        let (meta, acked, fully_sent) = match self.queue.remove(id) {
            Some(block) => {
                self.admitted -= u64::from(block.meta().len);
                (*block.meta(), block.acked_bytes(), block.fully_sent())
            }
            None => {
                let at = self.waiting.iter().position(|m| m.id == id)?;
                (self.waiting.remove(at)?, 0, None)
            }
        };
        if let Some(deadline) = meta.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(Ended { meta, ending, acked, previous: payload.previous, fully_sent, over: payload.over })
    }

    /// Ends every block with the session.
    pub(crate) fn end_all(&mut self) -> Vec<Ended> {
        let ids: Vec<_> = self.payloads.keys().copied().collect();
        ids.into_iter().filter_map(|id| self.end(id, Ending::SessionClosed)).collect()
    }
}

impl Ending {
    /// What the peer is told, if anything.
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
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Channel;

    const PATH: PathId = PathId(1);

    fn outbox() -> Outbox {
        let limits = Limits { queued_bytes: 10_000, open_blocks: 4, block: 5_000, ..Limits::default() };
        let mut outbox = Outbox::new(limits, false);
        outbox.set_credit(6_000);
        outbox.set_capacity(6_000);
        outbox
    }

    fn block(len: usize) -> Block {
        Block::new(vec![7; len])
    }

    #[test]
    fn what_cannot_be_sent_is_told_and_handed_back() {
        let mut outbox = outbox();
        assert_eq!(outbox.send(0, block(0)), Err(SendError::Empty));
        assert_eq!(outbox.send(0, block(5_001)), Err(SendError::TooLarge { len: 5_001, limit: 5_000 }));
        outbox.send(0, block(5_000)).unwrap();
        outbox.send(0, block(4_000)).unwrap();
        assert_eq!(outbox.send(0, block(1_001)), Err(SendError::Full(block(1_001))));
        assert!(!outbox.is_writable());
        outbox.end(BlockId(0), Ending::Cancelled("test")).unwrap();
        assert!(outbox.take_writable());
        assert!(!outbox.take_writable(), "once");
        for _ in 0..3 {
            outbox.send(0, block(1)).unwrap();
        }
        assert!(matches!(outbox.send(0, block(1)), Err(SendError::Full(_))), "four blocks are open");
    }

    #[test]
    fn blocks_beyond_the_peers_credit_wait() {
        let mut outbox = outbox();
        for len in [4_000, 3_000, 1_000] {
            outbox.send(0, block(len)).unwrap();
        }
        assert_eq!(outbox.admit(), [BlockId(0)]);
        outbox.queue.mark_sent(BlockId(0), 0..4_000, PATH, 1);
        let ended = outbox.on_acked(BlockId(0), 0..4_000, PATH).unwrap();
        assert_eq!((ended.ending, ended.over[1]), (Ending::Delivered, 4_000));
        assert_eq!(outbox.admit(), [BlockId(1), BlockId(2)]);
        outbox.set_credit(0);
        outbox.end_all();
        outbox.send(0, block(2_000)).unwrap();
        assert!(outbox.admit().is_empty(), "the peer's application is slow");
        outbox.set_capacity(1_000);
        assert_eq!(outbox.admit(), [BlockId(3)], "the peer can never take it, and is to say so");
    }

    #[test]
    fn an_unreliable_block_ends_when_its_last_byte_has_its_fate() {
        let mut outbox = outbox();
        outbox.send(0, block(2_000).unreliable()).unwrap();
        outbox.admit();
        outbox.queue.mark_sent(BlockId(0), 0..2_000, PATH, 1);
        assert_eq!(outbox.on_lost(BlockId(0), 0..1_000, PATH), None);
        let ended = outbox.on_acked(BlockId(0), 1_000..2_000, PATH).unwrap();
        assert_eq!((ended.ending, ended.acked), (Ending::Lost, 1_000));
        assert_eq!(outbox.on_acked(BlockId(0), 0..1_000, PATH), None, "one fate");
        assert_eq!((outbox.queued_bytes(), outbox.open_blocks()), (0, 0));
    }

    #[test]
    fn an_unreliable_block_that_lost_bytes_is_not_sent_to_its_end() {
        let mut outbox = outbox();
        outbox.send(0, block(3_000).unreliable()).unwrap();
        outbox.send(0, block(2_000)).unwrap();
        outbox.admit();
        for id in [0, 1].map(BlockId) {
            outbox.queue.mark_sent(id, 0..1_000, PATH, 1);
            outbox.queue.mark_sent(id, 0..1_000, PathId(0), 1);
            assert_eq!(outbox.on_lost(id, 0..1_000, PATH), None, "a copy is on its way");
        }
        let ended = outbox.on_lost(BlockId(0), 500..1_000, PathId(0)).unwrap();
        assert_eq!((ended.ending, ended.acked), (Ending::Lost, 0));
        assert_eq!(outbox.on_lost(BlockId(1), 0..1_000, PathId(0)), None, "a reliable one is repaired");
        assert_eq!(outbox.open_blocks(), 1);
    }

    #[test]
    fn everything_may_be_reliable_by_order() {
        let mut outbox = Outbox::new(Limits { queued_bytes: 100, ..Limits::default() }, true);
        outbox.send(0, block(60).unreliable()).unwrap();
        let back = outbox.send(0, block(60).unreliable());
        assert_eq!(back, Err(SendError::Full(block(60).unreliable())), "handed back as it came");
        outbox.admit();
        assert!(outbox.queue.get(BlockId(0)).unwrap().meta().reliable);
        outbox.queue.mark_sent(BlockId(0), 0..60, PATH, 1);
        assert_eq!(outbox.on_lost(BlockId(0), 0..60, PATH), None, "to be sent again");
    }

    #[test]
    fn deadlines_come_in_order_and_end_with_the_block() {
        let mut outbox = outbox();
        outbox.send(0, block(10).deadline(Duration::from_millis(20))).unwrap();
        outbox.send(0, block(10).deadline(Duration::from_millis(10))).unwrap();
        assert_eq!(outbox.next_deadline(), Some(10_000));
        assert_eq!(outbox.overdue(9_999), None);
        assert_eq!(outbox.overdue(10_000), Some(BlockId(1)));
        outbox.end(BlockId(1), Ending::Expired).unwrap();
        assert_eq!(outbox.next_deadline(), Some(20_000));
        assert_eq!(outbox.end(BlockId(1), Ending::Expired), None, "one fate");
    }

    #[test]
    fn ordered_blocks_name_the_one_before_on_their_channel() {
        let mut outbox = outbox();
        outbox.send(0, block(1).channel(Channel::new(3)).ordered()).unwrap();
        outbox.send(0, block(1).channel(Channel::new(3))).unwrap();
        outbox.send(0, block(1).channel(Channel::new(4)).ordered()).unwrap();
        outbox.send(0, block(1).channel(Channel::new(3)).ordered()).unwrap();
        let previous: Vec<_> = (0..4).map(|i| outbox.previous(BlockId(i))).collect();
        assert_eq!(previous, [Some(0), None, Some(0), Some(3)]);
    }
}
