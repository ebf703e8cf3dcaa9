//! Subqueues of blocks: one for blocks that take any path, and one for each path hint of blocks.
//!
//! Each subqueue has a queue and a scheduler of its own, which sees the paths that its blocks may
//! take. Thus every scheduler obeys hints without handling them: a scheduler plans all blocks of
//! its queue over all paths that it sees.

use std::{collections::HashMap, ops::Range};

use squall_sched::{
    Block, BlockId, BlockQueue, Context, Decision, PathId, PathView, Profile, SchedEvent, Scheduler, Sharing,
    Span, Time, schedulers::minrtt::MinRtt,
};

use crate::{Config, PathHint, SchedulerFactory, StreamsFactory, block::HintKind};

/// Number of subqueues kept, also without blocks: their schedulers have state.
const KEPT: usize = 17;

/// Time for which a block waits for the only path that it may take, while that is not usable. As
/// long as an outage of a radio or a handover.
const PATIENCE: Span = Span::from_secs(3);

/// Number of a subqueue: 0 for the one without a hint.
pub(crate) type SubqueueNumber = usize;

pub(crate) struct Subqueues {
    /// The first one has no hint.
    subqueues: Vec<Subqueue>,
    /// Subqueue of each block with a hint that has not ended.
    hinted: HashMap<BlockId, SubqueueNumber>,
    /// Events that the schedulers have not seen.
    events: Vec<SchedEvent>,
    scheduler: SchedulerFactory,
    streams: StreamsFactory,
    weights: HashMap<u16, u16>,
}

struct Subqueue {
    hint: Option<PathHint>,
    queue: BlockQueue,
    scheduler: Box<dyn Scheduler>,
    /// Its scheduler has nothing to do for now.
    rests: bool,
    /// Number of blocks with its hint that have not ended, in the queue or not.
    blocks: usize,
    /// Time since which none of the paths is usable that its blocks may take.
    blocked_since: Option<Time>,
}

impl Subqueue {
    fn new(hint: Option<PathHint>, scheduler: Box<dyn Scheduler>) -> Self {
        let queue = BlockQueue::new();
        Self { hint, queue, scheduler, rests: false, blocks: 0, blocked_since: None }
    }

    /// Returns when a block has waited too long for its only path.
    fn patient_until(&self, block: &Block) -> Option<Time> {
        Some(block.meta().submitted.max(self.blocked_since?) + PATIENCE)
    }
}

impl Subqueues {
    pub(crate) fn new(config: &Config) -> Self {
        let mut first = Subqueue::new(None, (config.scheduler)());
        first.queue.set_streams((config.streams)());
        Self {
            subqueues: vec![first],
            hinted: HashMap::new(),
            events: Vec::new(),
            scheduler: config.scheduler.clone(),
            streams: config.streams.clone(),
            weights: HashMap::new(),
        }
    }

    /// Replaces the scheduler, before there are blocks.
    pub(crate) fn set_scheduler(&mut self, scheduler: SchedulerFactory) {
        for subqueue in &mut self.subqueues {
            subqueue.scheduler = scheduler();
        }
        self.scheduler = scheduler;
    }

    /// Registers a block with the subqueue of its hint.
    pub(crate) fn enter(&mut self, id: BlockId, hint: Option<&PathHint>) {
        let Some(hint) = hint else { return };
        let known = self.subqueues.iter().position(|subqueue| subqueue.hint.as_ref() == Some(hint));
        let number = known.unwrap_or_else(|| self.add_subqueue(hint));
        self.subqueues[number].blocks += 1;
        self.hinted.insert(id, number);
    }

    fn add_subqueue(&mut self, hint: &PathHint) -> SubqueueNumber {
        let mut scheduler = (self.scheduler)();
        if matches!(scheduler.profile().sharing, Sharing::Only(_)) {
            // That scheduler sends everything on a path of its own choice, and would ignore the
            // hint.
            scheduler = Box::new(MinRtt);
        }
        let mut subqueue = Subqueue::new(Some(hint.clone()), scheduler);
        subqueue.queue.set_streams((self.streams)());
        self.weights
            .iter()
            .for_each(|(channel, weight)| subqueue.queue.set_channel_weight(*channel, *weight));
        let unused = self.subqueues.iter().skip(1).position(|subqueue| subqueue.blocks == 0).map(|at| at + 1);
        match unused.filter(|_| self.subqueues.len() >= KEPT) {
            Some(number) => {
                self.subqueues[number] = subqueue;
                number
            }
            None => {
                self.subqueues.push(subqueue);
                self.subqueues.len() - 1
            }
        }
    }

    /// Removes a block that has ended, in its queue or before it was there.
    pub(crate) fn leave(&mut self, id: BlockId) {
        if let Some(number) = self.hinted.remove(&id) {
            self.subqueues[number].blocks -= 1;
        }
    }

    /// Returns the subqueue of a block; the first one for a block that has ended.
    fn subqueue_of(&self, id: BlockId) -> SubqueueNumber {
        if self.hinted.is_empty() { 0 } else { self.hinted.get(&id).copied().unwrap_or(0) }
    }

    pub(crate) fn numbers(&self) -> Range<SubqueueNumber> {
        0..self.subqueues.len()
    }

    pub(crate) fn hint(&self, number: SubqueueNumber) -> Option<&PathHint> {
        self.subqueues[number].hint.as_ref()
    }

    pub(crate) fn queue(&self, number: SubqueueNumber) -> &BlockQueue {
        &self.subqueues[number].queue
    }

    /// Returns the queue of blocks without a hint.
    pub(crate) fn plain(&self) -> &BlockQueue {
        self.queue(0)
    }

    /// Returns the queue of a block.
    pub(crate) fn of(&self, id: BlockId) -> &BlockQueue {
        self.queue(self.subqueue_of(id))
    }

    pub(crate) fn of_mut(&mut self, id: BlockId) -> &mut BlockQueue {
        let number = self.subqueue_of(id);
        &mut self.subqueues[number].queue
    }

    fn all(&self) -> impl Iterator<Item = &BlockQueue> {
        self.subqueues.iter().map(|subqueue| &subqueue.queue)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut BlockQueue> {
        self.subqueues.iter_mut().map(|subqueue| &mut subqueue.queue)
    }

    /// Returns the profile of the scheduler of blocks without a hint.
    pub(crate) fn profile(&self) -> Profile {
        self.subqueues[0].scheduler.profile()
    }

    /// Adds an event for the schedulers.
    pub(crate) fn note(&mut self, event: SchedEvent) {
        self.events.push(event);
    }

    /// Returns the number of events that the schedulers have not seen.
    pub(crate) fn events(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn take_events(&mut self) -> Vec<SchedEvent> {
        std::mem::take(&mut self.events)
    }

    /// Notifies the scheduler of a subqueue of the events that concern it.
    pub(crate) fn notify(
        &mut self,
        number: SubqueueNumber,
        now: Time,
        events: &[SchedEvent],
        paths: &[PathView],
    ) {
        for event in events {
            // A block that has ended is in no subqueue any more, and schedulers ignore unknown
            // blocks.
            let is_for_all = matches!(event, SchedEvent::Done { .. } | SchedEvent::PathChanged(_));
            if is_for_all || event.block().map_or(0, |id| self.subqueue_of(id)) == number {
                let Subqueue { queue, scheduler, .. } = &mut self.subqueues[number];
                scheduler.on_event(event, &Context { now, queue, paths });
            }
        }
    }

    /// Asks the scheduler of a subqueue.
    pub(crate) fn ask(&mut self, number: SubqueueNumber, now: Time, paths: &[PathView]) -> Decision {
        let Subqueue { queue, scheduler, .. } = &mut self.subqueues[number];
        scheduler.next(&Context { now, queue, paths })
    }

    /// Lets the scheduler of a subqueue rest until [`Self::wake_all`].
    pub(crate) fn rest(&mut self, number: SubqueueNumber) {
        self.subqueues[number].rests = true;
    }

    pub(crate) fn wake_all(&mut self) {
        self.subqueues.iter_mut().for_each(|subqueue| subqueue.rests = false);
    }

    /// Returns the next subqueue that does not rest: that of the block with the earliest deadline,
    /// or of the older block if none has a deadline.
    pub(crate) fn next(&self) -> Option<SubqueueNumber> {
        let is_busy = |subqueue: &Subqueue| !subqueue.rests && !subqueue.queue.is_empty();
        if let [plain] = &self.subqueues[..] {
            return is_busy(plain).then_some(0);
        }
        let due = |queue: &BlockQueue| {
            let first = queue.by_deadline().next().map(Block::meta);
            first.map_or((Time::MAX, u64::MAX), |meta| (meta.deadline.unwrap_or(Time::MAX), meta.id.0))
        };
        let busy = self.subqueues.iter().enumerate().filter(|(_, subqueue)| is_busy(subqueue));
        busy.min_by_key(|(_, subqueue)| due(&subqueue.queue)).map(|(number, _)| number)
    }

    /// Records whether a path is usable that blocks with the hint of this subqueue may take, if
    /// they may take only one. Returns the blocks that have waited too long: a waiting block uses
    /// memory of the peer, and delays the ordered ones behind it.
    pub(crate) fn watch(&mut self, number: SubqueueNumber, now: Time, is_usable: bool) -> Vec<BlockId> {
        let subqueue = &mut self.subqueues[number];
        if subqueue.hint.as_ref().is_none_or(|hint| hint.kind != HintKind::Only) {
            return Vec::new();
        }
        subqueue.blocked_since = if is_usable { None } else { subqueue.blocked_since.or(Some(now)) };
        let is_over = |block: &&Block| subqueue.patient_until(block).is_some_and(|until| until <= now);
        subqueue.queue.iter().filter(is_over).map(|block| block.meta().id).collect()
    }

    /// Returns when a block has waited too long for its only path.
    pub(crate) fn impatient_at(&self) -> Option<Time> {
        let blocked = self.subqueues[1..].iter().filter(|subqueue| subqueue.blocked_since.is_some());
        blocked.filter_map(|subqueue| subqueue.patient_until(subqueue.queue.iter().next()?)).min()
    }

    pub(crate) fn get(&self, id: BlockId) -> Option<&Block> {
        self.of(id).get(id)
    }

    /// Returns the oldest block in a queue.
    pub(crate) fn oldest(&self) -> Option<BlockId> {
        self.all().filter_map(|queue| queue.iter().next()).map(|block| block.meta().id).min()
    }

    /// Returns `true` if any block has bytes to send.
    pub(crate) fn has_work(&self) -> bool {
        self.all().any(|queue| queue.by_deadline().next().is_some())
    }

    pub(crate) fn fresh_bytes(&self) -> u64 {
        self.all().map(BlockQueue::fresh_bytes).sum()
    }

    pub(crate) fn parity_bytes(&self) -> u64 {
        self.all().map(BlockQueue::parity_bytes).sum()
    }

    /// Limits the bytes of parity over all queues.
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

    pub(crate) fn set_channel_weight(&mut self, channel: u16, weight: u16) {
        self.weights.insert(channel, weight);
        self.all_mut().for_each(|queue| queue.set_channel_weight(channel, weight));
    }

    /// Records that the receiver lacks a block. Blocks that need it may be in any queue.
    pub(crate) fn miss(&mut self, id: BlockId) {
        self.all_mut().for_each(|queue| queue.miss(id));
    }

    pub(crate) fn mark_sent(&mut self, id: BlockId, range: Range<u32>, path: PathId, now: Time) {
        self.of_mut(id).mark_sent(id, range, path, now);
    }

    /// Reports on a block that may have ended, and whose fate its queue may await.
    fn news<R>(&mut self, id: BlockId, report: impl Fn(&mut BlockQueue) -> R) -> R {
        if self.of(id).get(id).is_some() {
            return report(self.of_mut(id));
        }
        // Its subqueue is forgotten by now.
        self.all_mut().skip(1).for_each(|queue| _ = report(queue));
        report(&mut self.subqueues[0].queue)
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

    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.all_mut().for_each(|queue| queue.forget_path(path));
    }
}

#[cfg(test)]
mod tests {
    use squall_sched::BlockMeta;
    use squall_units::short::at_us;

    use super::*;

    fn insert(subqueues: &mut Subqueues, id: u64, hint: Option<&str>, deadline: Option<Time>) {
        subqueues.enter(BlockId(id), hint.map(PathHint::only).as_ref());
        let meta = BlockMeta { deadline, ..BlockMeta::new(BlockId(id), 1_000) };
        subqueues.of_mut(BlockId(id)).insert(meta);
    }

    #[test]
    fn the_subqueue_with_the_block_that_is_due_first_is_next_unless_it_rests() {
        let mut subqueues = Subqueues::new(&Config::default());
        assert_eq!(subqueues.next(), None);
        insert(&mut subqueues, 0, None, None);
        insert(&mut subqueues, 1, Some("a"), Some(at_us(20)));
        insert(&mut subqueues, 2, Some("b"), Some(at_us(10)));
        assert_eq!((subqueues.numbers(), subqueues.next()), (0..3, Some(2)));
        subqueues.rest(2);
        assert_eq!(subqueues.next(), Some(1));
        subqueues.rest(1);
        assert_eq!(subqueues.next(), Some(0));
        subqueues.rest(0);
        assert_eq!(subqueues.next(), None);
        subqueues.wake_all();
        assert_eq!(subqueues.next(), Some(2));
    }

    #[test]
    fn subqueues_without_blocks_make_room_for_other_hints() {
        let mut subqueues = Subqueues::new(&Config::default());
        for id in 0..100 {
            insert(&mut subqueues, id, Some(&id.to_string()), None);
            if id >= 30 {
                subqueues.of_mut(BlockId(id)).remove(BlockId(id));
                subqueues.leave(BlockId(id));
            }
        }
        assert_eq!(subqueues.numbers().len(), 32, "one for no hint, 30 in use, and one after the other");
        assert!(subqueues.get(BlockId(29)).is_some() && subqueues.get(BlockId(30)).is_none());
    }

    #[test]
    fn a_block_waits_for_three_seconds_for_its_only_path() {
        let mut subqueues = Subqueues::new(&Config::default());
        insert(&mut subqueues, 0, Some("a"), None);
        assert_eq!((subqueues.watch(1, at_us(5), true), subqueues.impatient_at()), (vec![], None));
        assert_eq!(
            (subqueues.watch(1, at_us(7), false), subqueues.impatient_at()),
            (vec![], Some(at_us(7) + PATIENCE))
        );
        assert_eq!(subqueues.watch(1, at_us(6) + PATIENCE, false), []);
        assert_eq!(subqueues.watch(1, at_us(7) + PATIENCE, false), [BlockId(0)]);
        assert_eq!((subqueues.watch(1, at_us(8) + PATIENCE, true), subqueues.impatient_at()), (vec![], None));
    }
}
