//! Cost of a decision.
//!
//! Three groups, each in the time of one packet:
//!
//! - `next/<scheduler>`: one call of [`Scheduler::next`] and nothing else. The queue does not
//!   change between the calls, so the data that the scheduler reads is in the processor's cache,
//!   and a stateful scheduler repeats the same step. The decision is checked to be work to send,
//!   never "nothing", except in the case where the fastest path is full.
//! - `apply`: the queue's bookkeeping for each packet: sent, lost, sent again and acknowledged. It
//!   is independent of the scheduler. Timed in runs of one block's packets.
//! - `packet/<scheduler>`: all steps for a packet in a session with a constant number of queued
//!   blocks: `next`, recording the packet as sent, recording an earlier one as acknowledged, and
//!   its share of replacing complete blocks by new ones. This group walks through the queue as a
//!   session would.
//!
//! Not included in any group: packets, encryption, sockets, and building the path views.

use std::{
    collections::VecDeque,
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use squall_sched::{
    Assignment, BlockId, BlockMeta, BlockQueue, Context, Decision, MAX_BLOCK, PathId, PathView, SchedEvent,
    Scheduler,
};
use squall_units::short::{at_ms, at_us, ms, us};

const CHUNK: u32 = 1200;
/// Packets in a block: 36 kB, a video frame of 8.6 Mbps at 30 a second.
const PACKETS: u32 = 30;
const BLOCK: u32 = PACKETS * CHUNK;
/// Packets in flight before the oldest is acknowledged.
const IN_FLIGHT: usize = 128;

/// (blocks, paths): each varied alone around the reference of 100 blocks and 4 paths.
const SIZES: [(u64, u8); 9] =
    [(1, 4), (10, 4), (100, 1), (100, 2), (100, 4), (100, 8), (1000, 4), (10_000, 4), (10_000, 8)];

fn meta(id: u64, len: u32) -> BlockMeta {
    BlockMeta { deadline: Some(at_ms(150)), ..BlockMeta::new(BlockId(id), len) }
}

fn insert(queue: &mut BlockQueue, id: u64) {
    queue.insert(meta(id, BLOCK));
}

fn fresh_queue(blocks: u64) -> BlockQueue {
    let mut queue = BlockQueue::new();
    (0..blocks).for_each(|id| insert(&mut queue, id));
    queue
}

/// Windows that never fill; the lowest RTT is in the middle.
fn views(paths: u8) -> Vec<PathView> {
    (0..paths)
        .map(|i| PathView::example(i, us(10_000 + 7_000 * u64::from((i + 2) % paths)), 1 << 40))
        .collect()
}

/// Four paths: the fastest is full, the others have a hundred times its RTT.
fn fastest_full() -> Vec<PathView> {
    let window = 10 * u64::from(CHUNK);
    let path = |id| PathView::example(id, if id == 0 { ms(10) } else { ms(1_000) }, window);
    let mut views: Vec<_> = (0..4).map(path).collect();
    views[0].in_flight = window;
    views
}

/// Paths with loss, so that parity is considered, and a silent one, so that copies are.
fn troubled(paths: u8) -> Vec<PathView> {
    let mut views = views(paths);
    views.iter_mut().for_each(|view| view.loss = 0.01);
    views[0].overdue = ms(100);
    views
}

/// A queue in use: all packets of the older half of the blocks have been sent and one in four has
/// arrived; the newer half is fresh.
fn queue_in_use(blocks: u64, paths: u8) -> BlockQueue {
    in_use(fresh_queue(blocks), blocks, paths)
}

fn in_use(mut queue: BlockQueue, blocks: u64, paths: u8) -> BlockQueue {
    for id in (0..blocks / 2).map(BlockId) {
        for packet in 0..PACKETS {
            let range = packet * CHUNK..(packet + 1) * CHUNK;
            queue.mark_sent(id, range.clone(), PathId(packet as u8 % paths), at_ms(0));
            if packet % 4 == 0 {
                queue.mark_acked(id, range);
            }
        }
    }
    queue
}

/// The longest search for a lost range: one block of the largest size, sent in packets, of which
/// the first was lost and repaired and the last is lost.
fn largest_block() -> BlockQueue {
    let mut queue = BlockQueue::new();
    let (id, len) = (BlockId(0), MAX_BLOCK);
    queue.insert(meta(id.0, len));
    let packets = || (0..len).step_by(CHUNK as usize).map(|start| start..len.min(start + CHUNK));
    packets().for_each(|range| queue.mark_sent(id, range, PathId(0), at_ms(0)));
    for range in [packets().next(), packets().next_back()].into_iter().flatten() {
        queue.mark_lost(id, range, PathId(0));
    }
    queue.mark_sent(id, 0..CHUNK, PathId(0), at_us(5));
    queue
}

fn names() -> Vec<&'static str> {
    squall_papers::registry().entries().map(|entry| entry.name).collect()
}

fn next(c: &mut Criterion) {
    for name in names() {
        let mut group = c.benchmark_group(format!("next/{name}"));
        let mut bench = |label: String, queue: &BlockQueue, views: &[PathView], always_sends: bool| {
            let mut scheduler = squall_papers::registry().build(name).expect("is registered");
            let cx = Context { now: at_ms(1), queue, paths: views };
            let idle = matches!(scheduler.next(&cx), Decision::Idle { .. });
            assert!(!(idle && always_sends), "{name} has nothing to decide");
            group.bench_function(BenchmarkId::from_parameter(label), |b| {
                b.iter(|| scheduler.next(black_box(&cx)));
            });
        };
        for (blocks, paths) in SIZES {
            bench(format!("{blocks}x{paths}"), &queue_in_use(blocks, paths), &views(paths), true);
        }
        let mut queue = queue_in_use(100, 4);
        queue.mark_lost(BlockId(20), 5 * CHUNK..6 * CHUNK, PathId(5 % 4));
        bench("100x4, one lost".into(), &queue, &views(4), true);
        let mut queue = BlockQueue::new();
        queue.set_largest_symbol(Some(CHUNK));
        (0..100).for_each(|id| insert(&mut queue, id));
        bench("100x4, lossy and silent".into(), &in_use(queue, 100, 4), &troubled(4), false);
        bench("largest block".into(), &largest_block(), &views(4), true);
        // Some schedulers wait for the fastest path here, which is a decision too.
        bench("100x4, fastest full".into(), &queue_in_use(100, 4), &fastest_full(), false);
    }
}

/// Times `op` on each packet of the oldest block; every block is used once.
fn each_packet(
    queue: &mut BlockQueue,
    count: u64,
    prepare: impl Fn(&mut BlockQueue, BlockId),
    op: impl Fn(&mut BlockQueue, BlockId, std::ops::Range<u32>),
) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..count.div_ceil(u64::from(PACKETS)) {
        let first = queue.iter().next().expect("never empty").meta().id;
        let last = queue.iter().next_back().expect("never empty").meta().id;
        prepare(queue, first);
        let start = Instant::now();
        for packet in 0..PACKETS {
            op(queue, first, packet * CHUNK..(packet + 1) * CHUNK);
        }
        total += start.elapsed();
        insert(queue, last.0 + 1);
        queue.remove(first);
    }
    // Whole blocks were timed; criterion requested `count` packets.
    total.mul_f64(count as f64 / (count.div_ceil(u64::from(PACKETS)) * u64::from(PACKETS)) as f64)
}

fn apply(c: &mut Criterion) {
    fn nothing(_: &mut BlockQueue, _: BlockId) {}
    fn sent(queue: &mut BlockQueue, id: BlockId) {
        for packet in 0..PACKETS {
            queue.mark_sent(id, packet * CHUNK..(packet + 1) * CHUNK, PathId(0), at_ms(0));
        }
    }
    let mut group = c.benchmark_group("apply");
    for blocks in [1, 100, 10_000] {
        let mut queue = fresh_queue(blocks);
        let mut bench = |what: &str, prepare: fn(&mut _, _), op: fn(&mut BlockQueue, BlockId, _)| {
            group.bench_function(BenchmarkId::new(what, blocks), |b| {
                b.iter_custom(|count| each_packet(&mut queue, count, prepare, op));
            });
        };
        bench("sent", nothing, |queue, id, range| queue.mark_sent(id, range, PathId(1), at_us(5)));
        bench("acked", sent, |queue, id, range| _ = queue.mark_acked(id, range));
        bench("lost, sent again", sent, |queue, id, range| {
            queue.mark_lost(id, range.clone(), PathId(0));
            queue.mark_sent(id, range, PathId(1), at_us(5));
        });
    }
}

/// A session with a constant number of queued blocks.
struct Session {
    queue: BlockQueue,
    views: Vec<PathView>,
    flying: VecDeque<Assignment>,
    now: u64,
    next_id: u64,
}

impl Session {
    fn new(blocks: u64, paths: u8) -> Self {
        let flying = VecDeque::with_capacity(IN_FLIGHT + 1);
        Self { queue: fresh_queue(blocks), views: views(paths), flying, now: 0, next_id: blocks }
    }

    fn packet(&mut self, scheduler: &mut dyn Scheduler) {
        self.now += 100;
        match scheduler.next(&Context { now: at_us(self.now), queue: &self.queue, paths: &self.views }) {
            Decision::Send(assignment) => {
                let packet = assignment.at_most(CHUNK);
                self.queue.mark_sent(packet.block, packet.range.clone(), packet.path, at_us(self.now));
                self.flying.push_back(packet);
            }
            Decision::Cancel { block, .. } => self.replace(block, scheduler),
            // Everything is in flight and there is nothing to copy: the next event is an arrival.
            Decision::Probe(_) | Decision::Idle { .. } => self.arrival(scheduler),
        }
        if self.flying.len() > IN_FLIGHT {
            self.arrival(scheduler);
        }
    }

    fn arrival(&mut self, scheduler: &mut dyn Scheduler) {
        let Some(Assignment { block, range, path, .. }) = self.flying.pop_front() else { return };
        self.queue.mark_acked(block, range.clone());
        let event = SchedEvent::Acked { block, range, path };
        scheduler.on_event(&event, &Context { now: at_us(self.now), queue: &self.queue, paths: &self.views });
        if self.queue.get(block).is_some_and(squall_sched::Block::is_complete) {
            self.replace(block, scheduler);
        }
    }

    fn replace(&mut self, block: BlockId, scheduler: &mut dyn Scheduler) {
        self.queue.remove(block);
        let new = BlockId(self.next_id);
        self.next_id += 1;
        insert(&mut self.queue, new.0);
        for event in [SchedEvent::Done { block, delivered: true }, SchedEvent::Queued(new)] {
            scheduler
                .on_event(&event, &Context { now: at_us(self.now), queue: &self.queue, paths: &self.views });
        }
    }
}

fn packet(c: &mut Criterion) {
    for name in names() {
        let mut group = c.benchmark_group(format!("packet/{name}"));
        for (blocks, paths) in [(10, 4), (100, 1), (100, 4), (100, 8), (1000, 4), (10_000, 4)] {
            // A scheduler belongs to one session: some keep state of its blocks.
            let mut scheduler = squall_papers::registry().build(name).expect("is registered");
            let mut session = Session::new(blocks, paths);
            group.bench_function(BenchmarkId::from_parameter(format!("{blocks}x{paths}")), |b| {
                b.iter(|| session.packet(scheduler.as_mut()));
            });
        }
    }
}

fn short() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(50)
}

criterion_group! { name = benches; config = short(); targets = next, apply, packet }
criterion_main!(benches);
