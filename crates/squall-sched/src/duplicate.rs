//! Finding bytes to send a second time: in flight, and never yet carried by the path that could repeat them.
//!
//! One search for every kind of redundancy: a whole session on every path, the tail of a block, the packets
//! of an uncertain path, the bytes left on a dead one. What is searched for differs; where the search goes
//! on is the same.

use std::ops::Range;

use crate::{
    Block, BlockId, BlockQueue, MAX_PATHS, PathId, SchedEvent, Segment, SegmentState, Work, WorkKind,
};

/// For each path, the oldest outstanding bytes that it has not carried yet.
///
/// Each path has a cursor behind which nothing is left for it, so a long queue is walked once and not
/// once a packet. A path never gets the same byte twice, whatever the cursor: a segment remembers which
/// paths it was sent on. Tell it every event, or bytes that come back are missed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Duplicates {
    cursors: [Cursor; MAX_PATHS],
}

/// Everything before was carried by the path, has arrived, or was not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor {
    block: BlockId,
    offset: u32,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { block: BlockId(0), offset: 0 }
    }
}

/// What to do with a segment on the way.
enum Found {
    Copy,
    Pass,
    Stop,
}

impl Duplicates {
    /// The oldest bytes in flight that `path` never carried and that are `wanted`. What is not wanted is
    /// passed for good.
    ///
    /// For schedulers that send fresh bytes first come, first served: the search ends at the first fresh
    /// byte, since nothing behind it can be in flight.
    pub fn next(
        &mut self,
        queue: &BlockQueue,
        path: PathId,
        wanted: impl Fn(&Block, &Segment) -> bool,
    ) -> Option<Work> {
        self.search(queue, path, |block, segment| match segment.state {
            SegmentState::Sent if segment.sent_on & path.bit() == 0 && wanted(block, segment) => Found::Copy,
            SegmentState::Fresh => Found::Stop,
            _ => Found::Pass,
        })
    }

    /// The oldest bytes in flight on none of the `live` paths (one [bit](PathId::bit) each), of the blocks
    /// that are `wanted`: the reinjection of what dead paths hold, on `path`. Fresh bytes are passed, so any
    /// order of sending will do; start with a new `Duplicates` each time a path dies.
    pub fn reinjection(
        &mut self,
        queue: &BlockQueue,
        live: u8,
        path: PathId,
        wanted: impl Fn(&Block) -> bool,
    ) -> Option<Work> {
        self.search(queue, path, |block, segment| {
            let held = segment.state == SegmentState::Sent && segment.in_flight & live == 0;
            if held && wanted(block) { Found::Copy } else { Found::Pass }
        })
    }

    /// Passes everything sent so far: `path` repeats only what is sent from now on.
    pub fn skip(&mut self, queue: &BlockQueue, path: PathId) {
        let front = queue.next_fresh().map(|work| Cursor { block: work.block, offset: work.range.start });
        let behind =
            || queue.iter().next_back().map(|b| Cursor { block: BlockId(b.meta().id.0 + 1), offset: 0 });
        let cursor = &mut self.cursors[usize::from(path.0)];
        *cursor = front.or_else(behind).unwrap_or_default().max(*cursor);
    }

    /// Goes back to bytes that came back: taken back before they left, or lost with every copy, so that
    /// they will be in flight again.
    pub fn on_event(&mut self, event: &SchedEvent, queue: &BlockQueue) {
        let back = match event {
            SchedEvent::Unsent { block, range, .. } => (*block, range),
            SchedEvent::Lost { block, range, .. } if none_in_flight(queue, *block, range) => (*block, range),
            _ => return,
        };
        let back = Cursor { block: back.0, offset: back.1.start };
        // Every path may have passed these bytes while they seemed to be in flight.
        self.cursors.iter_mut().for_each(|cursor| *cursor = back.min(*cursor));
    }

    fn search(
        &mut self,
        queue: &BlockQueue,
        path: PathId,
        look: impl Fn(&Block, &Segment) -> Found,
    ) -> Option<Work> {
        let cursor = &mut self.cursors[usize::from(path.0)];
        for block in queue.iter_from(cursor.block) {
            let id = block.meta().id;
            if id != cursor.block {
                *cursor = Cursor { block: id, offset: 0 };
            }
            for segment in block.segments_from(cursor.offset) {
                match look(block, segment) {
                    Found::Copy => {
                        return Some(Work { block: id, range: segment.range(), kind: WorkKind::Copy });
                    }
                    Found::Pass => cursor.offset = segment.end,
                    Found::Stop => return None,
                }
            }
        }
        None
    }
}

/// Whether the first of these bytes waits to be sent again.
fn none_in_flight(queue: &BlockQueue, id: BlockId, range: &Range<u32>) -> bool {
    let segment = queue.get(id).and_then(|block| block.segments_from(range.start).first());
    segment.is_some_and(|segment| segment.state == SegmentState::Lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockMeta;

    const A: PathId = PathId(0);
    const B: PathId = PathId(1);
    const C: PathId = PathId(2);

    fn queue(lens: &[u32], reliable: bool) -> BlockQueue {
        let mut queue = BlockQueue::new();
        for (id, len) in (0..).map(BlockId).zip(lens) {
            let len = *len;
            queue.insert(BlockMeta {
                id,
                len,
                deadline: None,
                priority: 0,
                reliable,
                channel: 0,
                submitted: 0,
            });
        }
        queue
    }

    fn found(work: Option<Work>) -> Option<(u64, Range<u32>)> {
        work.map(|work| {
            assert_eq!(work.kind, WorkKind::Copy);
            (work.block.0, work.range)
        })
    }

    #[test]
    fn the_oldest_comes_first_and_each_path_has_its_own_place() {
        let mut queue = queue(&[100, 100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 0..60, A, 1);
        queue.mark_sent(BlockId(0), 60..100, B, 1);
        queue.mark_sent(BlockId(1), 0..50, A, 1);
        let mut next = |queue: &BlockQueue, path| found(duplicates.next(queue, path, |_, _| true));
        assert_eq!(next(&queue, B), Some((0, 0..60)));
        assert_eq!(next(&queue, A), Some((0, 60..100)));
        queue.mark_sent(BlockId(0), 0..60, B, 2);
        assert_eq!(next(&queue, B), Some((1, 0..50)));
        queue.mark_acked(BlockId(1), 0..50);
        assert_eq!(next(&queue, B), None, "the rest is fresh");
        assert_eq!(next(&queue, C), Some((0, 0..60)));
    }

    #[test]
    fn what_is_not_wanted_is_passed_for_good() {
        let mut queue = queue(&[100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 0..60, A, 1);
        queue.mark_sent(BlockId(0), 60..100, A, 1);
        assert_eq!(found(duplicates.next(&queue, B, |_, s| s.start >= 60)), Some((0, 60..100)));
        assert_eq!(found(duplicates.next(&queue, B, |_, _| true)), Some((0, 60..100)));
    }

    #[test]
    fn a_path_that_joins_can_skip_what_was_sent_before() {
        let mut queue = queue(&[100, 100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 0..100, A, 1);
        queue.mark_sent(BlockId(1), 0..50, A, 1);
        duplicates.skip(&queue, B);
        assert_eq!(duplicates.next(&queue, B, |_, _| true), None);
        queue.mark_sent(BlockId(1), 50..100, A, 2);
        assert_eq!(found(duplicates.next(&queue, B, |_, _| true)), Some((1, 50..100)));
        duplicates.skip(&queue, B);
        assert_eq!(duplicates.next(&queue, B, |_, _| true), None, "nothing fresh: all of it is passed");
    }

    #[test]
    fn what_comes_back_is_found_again() {
        let mut queue = queue(&[100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 0..100, A, 1);
        duplicates.skip(&queue, B);
        queue.mark_lost(BlockId(0), 20..40, A);
        let lost = SchedEvent::Lost { block: BlockId(0), range: 20..40, path: A };
        duplicates.on_event(&lost, &queue);
        queue.mark_sent(BlockId(0), 20..40, A, 2);
        assert_eq!(found(duplicates.next(&queue, B, |_, _| true)), Some((0, 20..40)));
    }

    #[test]
    fn a_loss_with_a_copy_left_changes_nothing() {
        let mut queue = queue(&[100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 0..100, A, 1);
        queue.mark_sent(BlockId(0), 0..100, B, 1);
        duplicates.skip(&queue, C);
        queue.mark_lost(BlockId(0), 0..100, A);
        duplicates.on_event(&SchedEvent::Lost { block: BlockId(0), range: 0..100, path: A }, &queue);
        assert_eq!(duplicates.next(&queue, C, |_, _| true), None);
    }

    #[test]
    fn a_reinjection_takes_what_the_dead_path_holds_behind_fresh_bytes_too() {
        let mut queue = queue(&[100, 100, 100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 20..40, A, 1);
        queue.mark_sent(BlockId(1), 0..100, B, 1);
        queue.mark_sent(BlockId(2), 50..100, A, 1);
        let mut next =
            |queue: &BlockQueue| found(duplicates.reinjection(queue, !A.bit(), B, |b| b.meta().id.0 != 1));
        assert_eq!(next(&queue), Some((0, 20..40)));
        queue.mark_sent(BlockId(0), 20..40, B, 2);
        assert_eq!(next(&queue), Some((2, 50..100)));
        queue.mark_acked(BlockId(2), 50..100);
        assert_eq!(next(&queue), None);
    }

    #[test]
    fn a_reinjection_leaves_out_blocks_that_are_not_wanted() {
        let mut queue = queue(&[100], false);
        queue.mark_sent(BlockId(0), 0..100, A, 1);
        let mut duplicates = Duplicates::default();
        assert_eq!(duplicates.reinjection(&queue, !A.bit(), B, |b| b.meta().reliable), None);
    }
}
