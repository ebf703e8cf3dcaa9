//! Cost of one decision of minRTT.

use std::{hint::black_box, time::Instant};

use squall::sched::{
    BlockId, BlockMeta, BlockQueue, Context, Decision, PathId, PathView, Scheduler, Span, Time,
    schedulers::minrtt::MinRtt,
};

use super::figure::{Figure, Target, median};

const BLOCKS: u64 = 100;
const PATHS: u8 = 4;
const CHUNK: u32 = 1200;
/// Packets in a block: a video frame of 8.6 Mbps at 30 a second.
const PACKETS: u32 = 30;
/// Decisions timed together, as the clock is too coarse for one.
const BATCH: u32 = 100;
const BATCHES: usize = 2_001;

pub(super) fn measure() -> Figure {
    let queue = queue();
    let paths: Vec<PathView> = (0..PATHS)
        .map(|i| PathView::example(i, Span::from_millis(10 + 7 * u64::from((i + 2) % PATHS)), 1 << 40))
        .collect();
    let cx = Context { now: Time::EPOCH + Span::from_millis(1), queue: &queue, paths: &paths };
    let mut scheduler = MinRtt;
    assert!(matches!(scheduler.next(&cx), Decision::Send(_)), "there is something to decide");
    let times: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..BATCH {
                black_box(scheduler.next(black_box(&cx)));
            }
            start.elapsed().as_nanos() as f64 / f64::from(BATCH)
        })
        .collect();
    let figure = Figure::single("decision of minrtt, 100 blocks, 4 paths", "ns", median(&times));
    figure.target(Target::AtMost(1_000.0))
}

/// A queue in which all packets of the older half of the blocks were sent and one in four has
/// arrived; the other half is new.
fn queue() -> BlockQueue {
    let mut queue = BlockQueue::new();
    for id in 0..BLOCKS {
        queue.insert(BlockMeta {
            deadline: Some(Time::EPOCH + Span::from_millis(150)),
            ..BlockMeta::new(BlockId(id), PACKETS * CHUNK)
        });
    }
    for id in (0..BLOCKS / 2).map(BlockId) {
        for packet in 0..PACKETS {
            let range = packet * CHUNK..(packet + 1) * CHUNK;
            queue.mark_sent(id, range.clone(), PathId((packet % u32::from(PATHS)) as u8), Time::EPOCH);
            if packet % 4 == 0 {
                queue.mark_acked(id, range);
            }
        }
    }
    queue
}
