//! Search for bytes to send a second time: in flight, and never carried by the path that could
//! repeat them.
//!
//! One search serves every kind of redundancy: a whole session on every path, the tail of a block,
//! the packets of an uncertain path, the bytes left on a dead one. The criterion differs; the
//! position where the search continues is kept in the same way.

use std::{collections::BTreeMap, ops::Range};

use crate::{
    Block, BlockId, BlockQueue, Context, MAX_PATHS, PathId, PathSet, SchedEvent, Segment, SegmentState, Work,
    WorkKind,
};

/// The oldest outstanding bytes that each path has not carried yet.
///
/// Each path has a position in each block behind which nothing is left for it, so a long queue is
/// traversed once and not once per packet. The blocks may be sent in any order: at bytes that were
/// never sent the position stays, and the search continues behind them. A path never gets the same
/// byte twice, whatever its position: a segment remembers the paths it was sent on. Pass every
/// event to [`Self::on_event`], or returned bytes are missed.
#[derive(Clone, Debug, Default)]
pub struct Duplicates {
    places: [Places; MAX_PATHS],
}

/// Positions of a path.
#[derive(Clone, Debug, Default)]
struct Places {
    /// Blocks with lower ids are passed, unless they are in `offsets`.
    passed_below: BlockId,
    /// Bytes before this offset in a block are passed: carried by the path, arrived, or not wanted.
    offsets: BTreeMap<BlockId, u32>,
}

/// Treatment of a segment during the search.
enum Found {
    Copy,
    Pass,
    /// The segment may be in flight later: the search continues behind it, and returns to it.
    Leave,
}

impl Duplicates {
    /// Returns the oldest bytes in flight that `path` never carried and that are `wanted`. Unwanted
    /// bytes are passed for good.
    pub fn next(
        &mut self,
        queue: &BlockQueue,
        path: PathId,
        wanted: impl Fn(&Block, &Segment) -> bool,
    ) -> Option<Work> {
        self.places[usize::from(path.0)].search(queue, |block, segment| match segment.state {
            SegmentState::Sent if !segment.sent_on.contains(path) && wanted(block, segment) => Found::Copy,
            SegmentState::Fresh => Found::Leave,
            _ => Found::Pass,
        })
    }

    /// Returns the oldest bytes in flight on none of the `live` paths, of the blocks that are
    /// `wanted`: the reinjection of bytes on dead paths, on `path`. Fresh bytes are passed; start
    /// with a new `Duplicates` each time a path dies.
    pub fn reinjection(
        &mut self,
        queue: &BlockQueue,
        live: PathSet,
        path: PathId,
        mut wanted: impl FnMut(&Block) -> bool,
    ) -> Option<Work> {
        self.places[usize::from(path.0)].search(queue, |block, segment| {
            let held = segment.state == SegmentState::Sent && segment.in_flight.is_disjoint(live);
            if held && wanted(block) { Found::Copy } else { Found::Pass }
        })
    }

    /// Passes all bytes sent so far: `path` repeats only bytes sent from now on.
    pub fn skip(&mut self, queue: &BlockQueue, path: PathId) {
        let places = &mut self.places[usize::from(path.0)];
        for block in queue.in_flight_from(BlockId(0)) {
            let (id, sent) =
                (block.meta().id, block.next_fresh().map_or(block.meta().len, |fresh| fresh.start));
            if let Some(place) = places.place(id) {
                places.offsets.insert(id, sent.max(place));
            }
        }
    }

    /// Handles an event. The search returns to bytes that were taken back before they left, or lost
    /// with every copy, because they will be in flight again. State of a closed path is dropped,
    /// since its id may be reused.
    pub fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        match event {
            SchedEvent::Unsent { block, range, .. } | SchedEvent::Grew { block, range }
                if cx.queue.get(*block).is_some() =>
            {
                self.go_back(*block, range.start);
            }
            SchedEvent::Lost { block, range, .. } => {
                if let Some(offset) = first_lost(cx.queue, *block, range) {
                    self.go_back(*block, offset);
                }
            }
            SchedEvent::Done { block, .. } => {
                self.places.iter_mut().for_each(|places| _ = places.offsets.remove(block));
            }
            SchedEvent::PathChanged(path) if cx.path(*path).is_none() => {
                self.places[usize::from(path.0)] = Places::default();
            }
            _ => {}
        }
    }

    /// Moves all paths back to these bytes, which they may have passed while they seemed to be in
    /// flight.
    fn go_back(&mut self, block: BlockId, offset: u32) {
        for places in &mut self.places {
            let place = places.place(block).map_or(offset, |place| place.min(offset));
            places.offsets.insert(block, place);
        }
    }
}

impl Places {
    /// Returns the offset in a block from which on bytes may be left; `None` if all of it is
    /// passed.
    fn place(&self, block: BlockId) -> Option<u32> {
        let known = self.offsets.get(&block).copied();
        known.or_else(|| (block >= self.passed_below).then_some(0))
    }

    fn search(
        &mut self,
        queue: &BlockQueue,
        mut look: impl FnMut(&Block, &Segment) -> Found,
    ) -> Option<Work> {
        let first = self.offsets.first_key_value().map_or(self.passed_below, |(id, _)| *id);
        // Blocks with bytes never sent will be in flight later, and cannot be passed.
        let mut fresh = queue.with_fresh().map(|block| block.meta().id);
        let fresh = if queue.is_fifo() { fresh.next() } else { fresh.min() }.unwrap_or(BlockId(u64::MAX));
        let mut contiguous = true;
        for block in queue.in_flight_from(first.min(self.passed_below)) {
            let id = block.meta().id;
            let Some(mut offset) = self.place(id) else { continue };
            let (mut found, mut whole) = (None, true);
            for segment in block.segments_from(offset) {
                match look(block, segment) {
                    Found::Copy => {
                        found = Some(Work { block: id, range: segment.range(), kind: WorkKind::Copy });
                        break;
                    }
                    Found::Pass if whole => offset = segment.end,
                    Found::Pass => {}
                    Found::Leave => whole = false,
                }
            }
            let reached = id < self.passed_below || contiguous && id < fresh;
            if found.is_none() && whole && reached {
                self.passed_below = self.passed_below.max(BlockId(id.0 + 1));
                self.offsets.remove(&id);
                continue;
            }
            self.offsets.insert(id, offset);
            if found.is_some() {
                return found;
            }
            contiguous &= id < self.passed_below;
        }
        None
    }
}

/// Returns the first of these bytes that is lost with every copy.
fn first_lost(queue: &BlockQueue, id: BlockId, range: &Range<u32>) -> Option<u32> {
    let segments = queue.get(id)?.segments_from(range.start).iter().take_while(|s| s.start < range.end);
    segments.filter(|s| s.state == SegmentState::Lost).map(|s| s.start.max(range.start)).next()
}

#[cfg(test)]
mod tests {

    use squall_units::short::{at_us, ms};

    use super::*;
    use crate::{BlockMeta, PathView};

    const A: PathId = PathId(0);
    const B: PathId = PathId(1);
    const C: PathId = PathId(2);

    fn queue(lens: &[u32], reliable: bool) -> BlockQueue {
        let mut queue = BlockQueue::new();
        for (id, len) in (0..).map(BlockId).zip(lens) {
            queue.insert(BlockMeta { reliable, ..BlockMeta::new(id, *len) });
        }
        queue
    }

    /// Reports an event while all three paths are open.
    fn report(duplicates: &mut Duplicates, event: &SchedEvent, queue: &BlockQueue) {
        let paths = [A, B, C].map(|id| PathView::example(id.0, ms(10), 10_000));
        duplicates.on_event(event, &Context { now: at_us(0), queue, paths: &paths });
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
        queue.mark_sent(BlockId(0), 0..60, A, at_us(1));
        queue.mark_sent(BlockId(0), 60..100, B, at_us(1));
        queue.mark_sent(BlockId(1), 0..50, A, at_us(1));
        let mut next = |queue: &BlockQueue, path| found(duplicates.next(queue, path, |_, _| true));
        assert_eq!(next(&queue, B), Some((0, 0..60)));
        assert_eq!(next(&queue, A), Some((0, 60..100)));
        queue.mark_sent(BlockId(0), 0..60, B, at_us(2));
        assert_eq!(next(&queue, B), Some((1, 0..50)));
        queue.mark_acked(BlockId(1), 0..50);
        assert_eq!(next(&queue, B), None, "the rest is fresh");
        assert_eq!(next(&queue, C), Some((0, 0..60)));
    }

    #[test]
    fn what_is_not_wanted_is_passed_for_good() {
        let mut queue = queue(&[100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 0..60, A, at_us(1));
        queue.mark_sent(BlockId(0), 60..100, A, at_us(1));
        assert_eq!(found(duplicates.next(&queue, B, |_, s| s.start >= 60)), Some((0, 60..100)));
        assert_eq!(found(duplicates.next(&queue, B, |_, _| true)), Some((0, 60..100)));
    }

    #[test]
    fn a_path_that_joins_can_skip_what_was_sent_before() {
        let mut queue = queue(&[100, 100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 0..100, A, at_us(1));
        queue.mark_sent(BlockId(1), 0..50, A, at_us(1));
        duplicates.skip(&queue, B);
        assert_eq!(duplicates.next(&queue, B, |_, _| true), None);
        queue.mark_sent(BlockId(1), 50..100, A, at_us(2));
        assert_eq!(found(duplicates.next(&queue, B, |_, _| true)), Some((1, 50..100)));
        duplicates.skip(&queue, B);
        assert_eq!(duplicates.next(&queue, B, |_, _| true), None, "nothing fresh: all of it is passed");
    }

    #[test]
    fn what_comes_back_is_found_again() {
        let mut queue = queue(&[100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 0..100, A, at_us(1));
        duplicates.skip(&queue, B);
        queue.mark_lost(BlockId(0), 20..40, A);
        let lost = SchedEvent::Lost { block: BlockId(0), range: 20..40, path: A };
        report(&mut duplicates, &lost, &queue);
        queue.mark_sent(BlockId(0), 20..40, A, at_us(2));
        assert_eq!(found(duplicates.next(&queue, B, |_, _| true)), Some((0, 20..40)));
    }

    #[test]
    fn a_loss_with_a_copy_left_changes_nothing() {
        let mut queue = queue(&[100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 0..100, A, at_us(1));
        queue.mark_sent(BlockId(0), 0..100, B, at_us(1));
        duplicates.skip(&queue, C);
        queue.mark_lost(BlockId(0), 0..100, A);
        report(&mut duplicates, &SchedEvent::Lost { block: BlockId(0), range: 0..100, path: A }, &queue);
        assert_eq!(duplicates.next(&queue, C, |_, _| true), None);
    }

    #[test]
    fn what_is_in_flight_behind_fresh_bytes_is_found_and_they_are_not_passed() {
        let mut queue = queue(&[100, 100, 100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 0..40, A, at_us(1));
        queue.mark_sent(BlockId(2), 0..100, A, at_us(1));
        let next = |duplicates: &mut Duplicates, queue: &BlockQueue| {
            found(duplicates.next(queue, B, |_, segment| segment.sent_on == A.into()))
        };
        for (block, range) in [(0, 0..40), (2, 0..100)] {
            assert_eq!(next(&mut duplicates, &queue), Some((block, range.clone())));
            queue.mark_sent(BlockId(block), range, B, at_us(2));
        }
        assert_eq!(next(&mut duplicates, &queue), None);
        for (block, range) in [(1, 0..70), (0, 40..100), (1, 70..100)] {
            queue.mark_sent(BlockId(block), range.clone(), A, at_us(3));
            assert_eq!(next(&mut duplicates, &queue), Some((block, range.clone())));
            queue.mark_sent(BlockId(block), range, B, at_us(3));
        }
        assert_eq!(next(&mut duplicates, &queue), None);
        assert!(duplicates.places[1].offsets.is_empty(), "all is passed: {duplicates:?}");
    }

    #[test]
    fn a_path_id_that_is_used_again_starts_from_nothing() {
        let mut queue = queue(&[100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 0..100, A, at_us(1));
        queue.mark_sent(BlockId(0), 0..100, B, at_us(1));
        assert_eq!(duplicates.next(&queue, B, |_, _| true), None);
        queue.mark_lost(BlockId(0), 0..100, B);
        queue.forget_path(B);
        let paths = [PathView::example(0, ms(10), 10_000)];
        let cx = Context { now: at_us(0), queue: &queue, paths: &paths };
        duplicates.on_event(&SchedEvent::PathChanged(B), &cx);
        assert_eq!(found(duplicates.next(&queue, B, |_, _| true)), Some((0, 0..100)));
    }

    #[test]
    fn nothing_is_kept_of_blocks_that_have_ended() {
        let mut queue = queue(&[100, 100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(1), 0..50, A, at_us(1));
        assert!(duplicates.next(&queue, B, |_, _| true).is_some());
        queue.remove(BlockId(1));
        report(&mut duplicates, &SchedEvent::Done { block: BlockId(1), delivered: false }, &queue);
        report(&mut duplicates, &SchedEvent::Unsent { block: BlockId(1), range: 0..50, path: A }, &queue);
        assert!(duplicates.places.iter().all(|places| places.offsets.is_empty()), "{duplicates:?}");
    }

    #[test]
    fn a_reinjection_takes_what_the_dead_path_holds_behind_fresh_bytes_too() {
        let mut queue = queue(&[100, 100, 100], true);
        let mut duplicates = Duplicates::default();
        queue.mark_sent(BlockId(0), 20..40, A, at_us(1));
        queue.mark_sent(BlockId(1), 0..100, B, at_us(1));
        queue.mark_sent(BlockId(2), 50..100, A, at_us(1));
        let mut next =
            |queue: &BlockQueue| found(duplicates.reinjection(queue, B.into(), B, |b| b.meta().id.0 != 1));
        assert_eq!(next(&queue), Some((0, 20..40)));
        queue.mark_sent(BlockId(0), 20..40, B, at_us(2));
        assert_eq!(next(&queue), Some((2, 50..100)));
        queue.mark_acked(BlockId(2), 50..100);
        assert_eq!(next(&queue), None);
    }

    #[test]
    fn a_reinjection_leaves_out_blocks_that_are_not_wanted() {
        let mut queue = queue(&[100], false);
        queue.mark_sent(BlockId(0), 0..100, A, at_us(1));
        let mut duplicates = Duplicates::default();
        assert_eq!(duplicates.reinjection(&queue, B.into(), B, |b| b.meta().reliable), None);
    }
}
