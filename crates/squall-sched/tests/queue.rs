//! The block queue against a naive model that keeps every byte by itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use proptest::{collection::vec, prelude::*};
use squall_sched::{
    Block, BlockId, BlockMeta, BlockQueue, ParityFate, PathId, PathSet, SegmentState, Time, WorkKind,
};
use squall_units::short::at_us;

const PATHS: u8 = 4;
const BLOCKS: u64 = 4;
const LONGEST: u32 = 90;
/// Announced length of blocks that grow.
const HINT: u32 = 120;
/// Largest symbol in bytes.
const SYMBOL: u32 = 14;

#[derive(Clone, Debug)]
enum Op {
    Sent,
    Departed,
    Acked,
    Lost,
    Unsent,
    /// Appends the length of the range.
    Grow,
    Finish,
    Remove,
}

#[derive(Clone, Debug)]
struct Step {
    op: Op,
    block: BlockId,
    range: Range<u32>,
    path: PathId,
}

/// State of one byte, kept in the obvious way.
#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    acked: bool,
    in_flight: PathSet,
    sent_on: PathSet,
    lost_on: PathSet,
    sent_at: Option<Time>,
}

impl Byte {
    fn state(self) -> SegmentState {
        if self.acked {
            SegmentState::Acked
        } else if !self.in_flight.is_empty() {
            SegmentState::Sent
        } else if !self.sent_on.is_empty() {
            SegmentState::Lost
        } else {
            SegmentState::Fresh
        }
    }

    fn apply(&mut self, op: &Op, path: PathId, now: Time) {
        let flying = self.in_flight.contains(path);
        match op {
            Op::Sent if !self.acked => {
                self.in_flight.insert(path);
                self.sent_on.insert(path);
                self.sent_at = Some(now);
            }
            Op::Departed if self.state() == SegmentState::Sent => self.sent_at = Some(now),
            Op::Acked => {
                self.acked = true;
                self.in_flight = PathSet::EMPTY;
            }
            Op::Lost if flying => {
                self.in_flight.remove(path);
                self.lost_on.insert(path);
            }
            Op::Unsent if flying => {
                self.in_flight.remove(path);
                if !self.lost_on.contains(path) {
                    self.sent_on.remove(path);
                }
                if self.sent_on.is_empty() {
                    self.sent_at = None;
                }
            }
            _ => {}
        }
    }
}

#[derive(Debug)]
struct Model {
    blocks: BTreeMap<BlockId, (bool, Vec<Byte>)>,
    growing: BTreeSet<BlockId>,
}

impl Model {
    /// Returns the number of bytes that entered the state that the operation reports on.
    fn apply(&mut self, step: &Step, now: Time) -> u32 {
        if matches!(step.op, Op::Remove) {
            self.blocks.remove(&step.block);
            self.growing.remove(&step.block);
            return 0;
        }
        if matches!(step.op, Op::Finish) {
            self.growing.remove(&step.block);
        }
        let Some((_, bytes)) = self.blocks.get_mut(&step.block) else { return 0 };
        if matches!(step.op, Op::Grow) && self.growing.contains(&step.block) {
            bytes.resize(bytes.len() + step.range.len(), Byte::default());
        }
        let mut entered = 0;
        for i in step.range.clone() {
            let Some(byte) = bytes.get_mut(i as usize) else { break };
            let before = byte.state();
            byte.apply(&step.op, step.path, now);
            assert!(before != SegmentState::Acked || byte.state() == SegmentState::Acked);
            let reported = match step.op {
                Op::Acked => SegmentState::Acked,
                _ => SegmentState::Lost,
            };
            entered += u32::from(before != reported && byte.state() == reported);
        }
        entered
    }

    fn total(&self, count: impl Fn(Byte) -> bool) -> u64 {
        self.blocks.values().map(|(_, bytes)| bytes.iter().filter(|b| count(**b)).count() as u64).sum()
    }

    /// Returns the first byte in `state`, among the blocks that `block` accepts.
    fn first(&self, state: SegmentState, reliable_only: bool) -> Option<(BlockId, u32)> {
        self.blocks.iter().filter(|(_, (reliable, _))| *reliable || !reliable_only).find_map(
            |(id, (_, bytes))| {
                bytes.iter().position(|b| b.state() == state).map(|i| (*id, u32::try_from(i).unwrap()))
            },
        )
    }

    fn with(&self, state: SegmentState, reliable_only: bool) -> Vec<BlockId> {
        let has = |bytes: &[Byte]| bytes.iter().any(|b| b.state() == state);
        let blocks = self.blocks.iter().filter(|(_, (reliable, _))| *reliable || !reliable_only);
        blocks.filter(|(_, (_, bytes))| has(bytes)).map(|(id, _)| *id).collect()
    }
}

fn apply(queue: &mut BlockQueue, step: &Step, now: Time) -> u32 {
    let Step { op, block, range, path } = step.clone();
    match op {
        Op::Sent => queue.mark_sent(block, range, path, now),
        Op::Departed => queue.mark_departed(block, range, WorkKind::Fresh, now),
        Op::Acked => return queue.mark_acked(block, range),
        Op::Lost => return queue.mark_lost(block, range, path),
        Op::Unsent => queue.mark_unsent(block, range, path),
        Op::Grow => queue.grow(block, range.end - range.start),
        Op::Finish => queue.finish(block),
        Op::Remove => drop(queue.remove(block)),
    }
    0
}

/// Deadlines repeat, run against the order of the ids, and one in four blocks has none.
fn deadline(id: u64) -> Option<Time> {
    (id % 4 != 2).then_some(at_us(10 - id / 2))
}

fn meta(id: u64, len: u32, reliable: bool) -> BlockMeta {
    BlockMeta { deadline: deadline(id), reliable, ..BlockMeta::new(BlockId(id), len) }
}

fn check_block(block: &Block, bytes: &[Byte], growing: bool) {
    let mut end = 0;
    for segment in block.segments() {
        assert_eq!(segment.start, end, "sorted and without gaps");
        assert!(segment.start < segment.end, "no empty segment");
        end = segment.end;
        for byte in &bytes[segment.start as usize..segment.end as usize] {
            let is = (segment.state, segment.in_flight, segment.sent_on, segment.lost_on, segment.sent_at);
            assert_eq!(is, (byte.state(), byte.in_flight, byte.sent_on, byte.lost_on, byte.sent_at));
        }
    }
    assert_eq!(end, block.meta().len, "covers the whole block");

    let count = |state| u32::try_from(bytes.iter().filter(|b| b.state() == state).count()).unwrap();
    assert_eq!(block.fresh_bytes(), count(SegmentState::Fresh));
    assert_eq!(block.lost_bytes(), count(SegmentState::Lost));
    assert_eq!(block.acked_bytes(), count(SegmentState::Acked));
    assert_eq!(block.in_flight_bytes(), count(SegmentState::Sent));
    assert_eq!(block.is_growing(), growing);
    assert_eq!(block.is_complete(), !growing && bytes.iter().all(|b| b.acked));
    let left = HINT.saturating_sub(bytes.len() as u32);
    assert_eq!(block.expected_bytes(), if growing { left } else { 0 });
    let to_repair = if block.meta().reliable { block.lost_bytes() } else { 0 };
    assert_eq!(block.unsent_bytes(), block.fresh_bytes() + to_repair);
    assert_eq!(block.next_work().is_some(), block.unsent_bytes() > 0);
    assert_eq!(
        block.next_work().map(|w| w.kind == WorkKind::Repair),
        block.next_lost().map(|_| true).or(block.next_fresh().map(|_| false))
    );
    let open = |b: &Byte| match b.state() {
        SegmentState::Acked => false,
        SegmentState::Lost => block.meta().reliable,
        SegmentState::Fresh | SegmentState::Sent => true,
    };
    assert_eq!(block.is_spent(), !growing && !bytes.iter().any(open));
    if !block.meta().reliable {
        assert_eq!(block.next_lost(), None);
    }
    assert_eq!(block.parity().is_some(), !growing && !bytes.is_empty());
    if let Some(parity) = block.parity() {
        let symbols = || bytes.chunks(parity.symbol_size() as usize);
        let with = |state: fn(&Byte) -> bool| Some(symbols().filter(|s| s.iter().any(state)).count() as u32);
        assert!(parity.symbol_size() <= SYMBOL && parity.data_symbols() as usize == symbols().count());
        assert_eq!(block.missing_symbols(), with(|byte| !byte.acked));
        assert_eq!(block.lost_symbols(), with(|byte| byte.state() == SegmentState::Lost));
    }
    for (i, byte) in (0..).zip(bytes) {
        let here = &block.segments_from(i)[0];
        assert!(here.range().contains(&i) && here.state == byte.state());
    }
    assert!(block.segments_from(block.meta().len).is_empty());
}

fn check(queue: &BlockQueue, model: &Model) {
    assert_eq!(queue.len(), model.blocks.len());
    assert_eq!(queue.is_empty(), model.blocks.is_empty());
    for (id, (_, bytes)) in &model.blocks {
        check_block(queue.get(*id).expect("block is there"), bytes, model.growing.contains(id));
    }
    let expected = queue.iter().map(|b| u64::from(b.expected_bytes())).sum::<u64>();
    assert_eq!(queue.expected_bytes(), expected);
    let ids = |blocks: Vec<&Block>| blocks.iter().map(|b| b.meta().id).collect::<Vec<_>>();
    assert_eq!(ids(queue.iter().collect()), model.blocks.keys().copied().collect::<Vec<_>>());
    assert_eq!(ids(queue.with_fresh().collect()), model.with(SegmentState::Fresh, false));
    assert_eq!(ids(queue.with_lost().collect()), model.with(SegmentState::Lost, true));
    let by_deadline = |reliable: Option<bool>| {
        let has_work = |wanted: bool, bytes: &[Byte]| {
            let lost = |b: &Byte| wanted && b.state() == SegmentState::Lost;
            bytes.iter().any(|b| b.state() == SegmentState::Fresh || lost(b))
        };
        let blocks = model.blocks.iter().filter(|(_, (r, _))| reliable.is_none_or(|wanted| wanted == *r));
        let working = blocks.filter(|(_, (r, bytes))| has_work(*r, bytes)).map(|(id, _)| *id);
        let mut due: Vec<_> = working.map(|id| (deadline(id.0).unwrap_or(Time::MAX), id)).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
    };
    assert_eq!(ids(queue.by_deadline().collect()), by_deadline(None));
    assert_eq!(ids(queue.reliable_by_deadline().collect()), by_deadline(Some(true)));
    assert_eq!(ids(queue.unreliable_by_deadline().collect()), by_deadline(Some(false)));
    assert_eq!(queue.fresh_bytes(), model.total(|b| b.state() == SegmentState::Fresh));
    assert_eq!(queue.unacked_bytes(), model.total(|b| !b.acked));

    let repair = queue.next_repair();
    assert_eq!(repair.as_ref().map(|w| (w.block, w.range.start)), model.first(SegmentState::Lost, true));
    let fresh = queue.next_fresh();
    assert_eq!(fresh.as_ref().map(|w| (w.block, w.range.start)), model.first(SegmentState::Fresh, false));
    for work in [&repair, &fresh].into_iter().flatten() {
        let state = if work.kind == WorkKind::Fresh { SegmentState::Fresh } else { SegmentState::Lost };
        let bytes = &model.blocks[&work.block].1[work.range.start as usize..work.range.end as usize];
        assert!(!bytes.is_empty() && bytes.iter().all(|b| b.state() == state));
    }
    assert_eq!(queue.next_in_line(), repair.or(fresh));
}

fn step() -> impl Strategy<Value = Step> {
    let op = prop_oneof![
        8 => Just(Op::Sent),
        2 => Just(Op::Departed),
        3 => Just(Op::Acked),
        5 => Just(Op::Lost),
        4 => Just(Op::Unsent),
        2 => Just(Op::Grow),
        1 => Just(Op::Finish),
        1 => Just(Op::Remove),
    ];
    // Ranges may reach past the end of the block, be empty, or name a block that is not there.
    (op, 0..=BLOCKS, 0..LONGEST, 0..60u32, 0..PATHS).prop_map(|(op, block, start, len, path)| Step {
        op,
        block: BlockId(block),
        range: start..start + len,
        path: PathId(path),
    })
}

#[test]
fn parity_is_sent_within_the_room_of_the_peer() {
    let mut queue = BlockQueue::new();
    queue.insert(meta(0, 100, true));
    queue.set_largest_symbol(Some(10));
    (1..3).for_each(|id| queue.insert(meta(id, 100, true)));
    let next = |queue: &BlockQueue, id| queue.next_parity(BlockId(id)).map(|work| work.range);
    assert_eq!([0, 1, 2, 3].map(|id| next(&queue, id)), [None, Some(0..8), Some(0..8), None]);
    queue.set_parity_limit(59);
    assert_eq!(next(&queue, 1), Some(0..5));
    assert_eq!(queue.mark_parity_sent(BlockId(1), 0..3), 0..3);
    assert_eq!(queue.mark_parity_sent(BlockId(2), 0..8), 0..2, "no more");
    assert_eq!((queue.parity_bytes(), next(&queue, 1)), (50, None));
    queue.mark_parity(BlockId(1), 0..1, ParityFate::Lost);
    assert_eq!(queue.parity_bytes(), 50, "it may have arrived all the same");
    queue.mark_parity(BlockId(1), 1..3, ParityFate::Unsent);
    assert_eq!((queue.parity_bytes(), next(&queue, 1)), (30, Some(1..3)));
    queue.mark_parity(BlockId(2), 0..2, ParityFate::Acked);
    queue.remove(BlockId(2));
    assert_eq!(queue.parity_bytes(), 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn queue_agrees_with_a_model_of_single_bytes(
        blocks in vec((0..LONGEST, any::<bool>(), any::<bool>()), 1..=BLOCKS as usize),
        steps in vec(step(), 1..60),
    ) {
        let mut queue = BlockQueue::new();
        queue.set_largest_symbol(Some(SYMBOL));
        let mut model = Model { blocks: BTreeMap::new(), growing: BTreeSet::new() };
        for (id, (len, reliable, grows)) in (0..).zip(blocks) {
            if grows {
                queue.open(meta(id, len, reliable), Some(HINT));
                model.growing.insert(BlockId(id));
            } else {
                queue.insert(meta(id, len, reliable));
            }
            model.blocks.insert(BlockId(id), (reliable, vec![Byte::default(); len as usize]));
        }
        check(&queue, &model);
        for (now, step) in (1..).zip(&steps) {
            let reported = apply(&mut queue, step, at_us(now));
            let expected = model.apply(step, at_us(now));
            if matches!(step.op, Op::Acked | Op::Lost) {
                prop_assert_eq!(reported, expected, "{:?}", step);
            }
            check(&queue, &model);
        }
    }

    /// Each byte is sent, and each transmission ends with delivery or loss, in any order: a
    /// reliable block always ends complete, an unreliable one always ends spent.
    #[test]
    fn repairing_what_is_lost_ends(
        len in 1..LONGEST,
        reliable: bool,
        fates in vec((any::<bool>(), 1..20u32, 0..PATHS), 200),
    ) {
        let mut queue = BlockQueue::new();
        queue.insert(meta(0, len, reliable));
        let mut fates = fates.into_iter();
        while let Some(work) = queue.next_in_line() {
            // Once the drawn fates are used up, everything arrives.
            let (arrives, chunk, path) = fates.next().unwrap_or((true, LONGEST, 0));
            let range = work.range.start..work.range.end.min(work.range.start + chunk);
            queue.mark_sent(BlockId(0), range.clone(), PathId(path), at_us(1));
            let news = if arrives {
                queue.mark_acked(BlockId(0), range.clone())
            } else {
                queue.mark_lost(BlockId(0), range.clone(), PathId(path))
            };
            prop_assert_eq!(news, range.end - range.start);
        }
        let block = queue.get(BlockId(0)).expect("never removed");
        prop_assert!(block.is_spent());
        prop_assert!(!reliable || block.is_complete());
    }
}

/// Blocks of 100 bytes, each of which needs the one before.
fn chain(length: u64) -> BlockQueue {
    let mut queue = BlockQueue::new();
    for id in 0..length {
        let needs = [None, id.checked_sub(1).map(BlockId)];
        queue.insert(BlockMeta { needs, ..BlockMeta::new(BlockId(id), 100) });
    }
    queue
}

fn orphans(queue: &BlockQueue) -> Vec<u64> {
    queue.iter().map(|block| block.meta().id).filter(|id| queue.is_orphan(*id)).map(|id| id.0).collect()
}

#[test]
fn blocks_are_orphans_once_one_that_they_need_is_missing() {
    let (first, path, other) = (BlockId(0), PathId(0), PathId(1));
    let mut queue = chain(3);
    assert_eq!(queue.dependants(first).map(|block| block.meta().id.0).collect::<Vec<_>>(), [1]);
    queue.mark_sent(first, 0..60, path, at_us(1));
    queue.remove(first);
    assert_eq!(orphans(&queue), [1, 2], "a part of it never left");
    assert!(!queue.is_orphan(BlockId(9)));

    // All of it is in flight, a part twice.
    let mut queue = chain(3);
    queue.mark_sent(first, 0..100, path, at_us(1));
    queue.mark_sent(first, 0..50, other, at_us(1));
    queue.remove(first);
    queue.mark_lost(first, 0..50, path);
    assert_eq!(orphans(&queue), [], "the other copy may arrive");
    queue.mark_acked(first, 50..100);
    assert_eq!(orphans(&queue), []);
    queue.mark_unsent(first, 0..50, other);
    assert_eq!(orphans(&queue), [1, 2]);

    let mut queue = chain(3);
    queue.mark_sent(first, 0..100, path, at_us(1));
    queue.remove(first);
    queue.mark_acked(first, 0..100);
    queue.mark_lost(first, 0..100, path);
    assert_eq!(orphans(&queue), [], "it arrived");
    queue.miss(BlockId(1));
    assert_eq!(orphans(&queue), [2]);

    // A delivered one counts as such.
    let mut queue = chain(2);
    queue.mark_acked(first, 0..100);
    queue.remove(first);
    assert_eq!(orphans(&queue), []);
}

#[test]
fn only_the_latest_blocks_are_waited_for_that_were_taken_out_in_flight() {
    let mut queue = BlockQueue::new();
    let count = 300;
    (0..count).for_each(|id| queue.insert(BlockMeta::new(BlockId(id), 100)));
    for id in 0..count {
        let needs = [Some(BlockId(id)), None];
        queue.insert(BlockMeta { needs, ..BlockMeta::new(BlockId(count + id), 100) });
    }
    for id in (0..count).map(BlockId) {
        queue.mark_sent(id, 0..100, PathId(0), at_us(1));
        queue.remove(id);
    }
    let missing = orphans(&queue);
    assert_eq!(missing, (count..count + missing.len() as u64).collect::<Vec<_>>(), "the oldest");
    assert!((1..100).contains(&missing.len()));
}
