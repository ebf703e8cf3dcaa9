//! Frames that began on the primary path: their age, whether the backup repeats them, and their
//! outcome.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::model::Outcome;
use squall_sched::{Block, BlockId, BlockQueue, PathId, PathSet, SegmentState, Time, Work, WorkKind};

/// Maximum number of frames that the backup delivered and whose outcome on the primary is still
/// open. More than are in flight within a stall threshold; beyond it the oldest are not evaluated.
const MAX_OPEN: usize = 1024;

/// Maximum number of frames whose stall may still be reported: 4 s at 60 frames a second. A report
/// is sent with the acknowledgement of its frame, and again if that packet is lost.
const MAX_ENDED: usize = 256;

/// Frames from their first byte on the primary path until their outcome is final.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    /// Unfinished frames.
    tracked: BTreeMap<BlockId, Frame>,
    /// The tracked frames that are samples of the primary path: those begun since the last switch
    /// to it.
    by_age: BTreeSet<(Time, BlockId)>,
    /// The tracked frames not yet handed to the backups, by group.
    waiting: Vec<BTreeSet<(Time, BlockId)>>,
    /// Frames handed to a backup with bytes that it may have to carry.
    rescue: BTreeSet<BlockId>,
    /// Frames handed over that the backup can no longer deliver in time.
    doomed: BTreeSet<BlockId>,
    /// Delivered frames whose outcome on the primary path is still open.
    open: BTreeMap<BlockId, Frame>,
    /// Frames that ended without a known stall.
    ended: BTreeMap<BlockId, Outcome>,
}

#[derive(Clone, Debug)]
struct Frame {
    first_sent: Time,
    len: u32,
    /// Bytes acknowledged on the primary path.
    acked: u32,
    /// Backups that it was handed to.
    given: PathSet,
    /// The peer has reported that it stalled.
    stalled: bool,
    /// The backup has nothing to send below this offset, unless a loss is reported.
    cursor: u32,
    /// Time since which it is the oldest, and the end of that period if it has ended.
    oldest: Option<(Time, Option<Time>)>,
}

impl Frames {
    /// Creates an empty set for this number of groups of backups.
    pub(super) fn new(groups: usize) -> Self {
        Self {
            tracked: BTreeMap::new(),
            by_age: BTreeSet::new(),
            waiting: vec![BTreeSet::new(); groups],
            rescue: BTreeSet::new(),
            doomed: BTreeSet::new(),
            open: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    /// Called when the first byte of a frame is sent on the primary path.
    pub(super) fn begin(&mut self, id: BlockId, len: u32, now: Time) {
        self.take(id);
        let (acked, given, stalled, cursor, oldest) = (0, PathSet::EMPTY, false, 0, None);
        let frame = Frame { first_sent: now, len, acked, given, stalled, cursor, oldest };
        self.tracked.insert(id, frame);
        self.by_age.insert((now, id));
        self.waiting.iter_mut().for_each(|waiting| _ = waiting.insert((now, id)));
        self.watch(now);
    }

    /// Updates the length of a growing frame; a backup that it was handed to checks it again.
    pub(super) fn grow(&mut self, id: BlockId, len: u32) {
        if let Some(frame) = self.tracked.get_mut(&id) {
            frame.len = len;
            if !frame.given.is_empty() {
                self.rescue.insert(id);
            }
        }
    }

    /// Called when it turns out that no byte of the frame has left.
    pub(super) fn never_left(&mut self, id: BlockId, now: Time) {
        self.take(id);
        self.watch(now);
    }

    /// Returns the time of the first transmission of the oldest frame in flight on the primary
    /// path.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.by_age.first().map(|(at, _)| *at)
    }

    /// Returns the time of the first transmission of the oldest frame not yet handed to a group.
    pub(super) fn oldest_waiting(&self, group: usize) -> Option<Time> {
        self.waiting[group].first().map(|(at, _)| *at)
    }

    /// Hands every frame first sent at `until` or before to a group with these backups.
    pub(super) fn hand_over(&mut self, group: usize, backups: PathSet, until: Time) {
        let waiting = &mut self.waiting[group];
        while let Some((at, id)) = waiting.first().copied().filter(|(at, _)| *at <= until) {
            waiting.remove(&(at, id));
            // These backups may deliver it in time.
            self.doomed.remove(&id);
            self.rescue.insert(id);
            if let Some(frame) = self.tracked.get_mut(&id) {
                frame.given = frame.given.union(backups);
            }
        }
    }

    /// The primary path is left: frames are no longer samples of it.
    pub(super) fn abandon(&mut self, now: Time) {
        if let Some((_, id)) = self.by_age.first()
            && let Some(frame) = self.tracked.get_mut(id)
            && let Some((_, until)) = &mut frame.oldest
        {
            until.get_or_insert(now);
        }
        self.by_age.clear();
    }

    /// Makes the backups check a frame again from `offset` on, if it was handed to any.
    pub(super) fn look_again(&mut self, id: BlockId, offset: u32) {
        if let Some(frame) = self.tracked.get_mut(&id).filter(|frame| !frame.given.is_empty()) {
            frame.cursor = frame.cursor.min(offset);
            if !self.doomed.contains(&id) {
                self.rescue.insert(id);
            }
        }
    }

    /// Returns the next work for backups, and the backup: of the oldest frame handed to them that
    /// can still arrive `in_time`, all bytes that the peer lacks and no backup carries. `pick`
    /// selects among the backups that the frame was handed to; younger frames were handed to no
    /// more than these. `in_time` gets those backups, the time of the frame's first transmission
    /// and its missing bytes; it never becomes true again later, so its result is final for these
    /// backups.
    pub(super) fn rescue(
        &mut self,
        queue: &BlockQueue,
        backups: PathSet,
        pick: impl Fn(PathSet) -> Option<PathId>,
        in_time: impl Fn(PathSet, Time, u32) -> bool,
    ) -> Option<(Work, PathId)> {
        while let Some(id) = self.rescue.first().copied() {
            if let (Some(frame), Some(block)) = (self.tracked.get_mut(&id), queue.get(id)) {
                let path = pick(frame.given)?;
                if let Some(work) = frame.missing(block, backups) {
                    if in_time(frame.given, frame.first_sent, frame.left(block)) {
                        return Some((work, path));
                    }
                    self.doomed.insert(id);
                }
            }
            self.rescue.remove(&id);
        }
        None
    }

    /// As [`Self::rescue`], for frames that will be late.
    pub(super) fn rescue_doomed(
        &mut self,
        queue: &BlockQueue,
        backups: PathSet,
        pick: impl Fn(PathSet) -> Option<PathId>,
    ) -> Option<(Work, PathId)> {
        while let Some(id) = self.doomed.first().copied() {
            if let (Some(frame), Some(block)) = (self.tracked.get_mut(&id), queue.get(id)) {
                let path = pick(frame.given)?;
                if let Some(work) = frame.missing(block, backups) {
                    return Some((work, path));
                }
            }
            self.doomed.remove(&id);
        }
        None
    }

    /// Called when bytes arrived on the primary path. Returns the outcome of a frame that the
    /// backup had delivered before.
    pub(super) fn acked(&mut self, id: BlockId, range: &Range<u32>, now: Time) -> Option<Outcome> {
        let bytes = range.end.saturating_sub(range.start);
        if let Some(frame) = self.tracked.get_mut(&id) {
            frame.acked = frame.acked.saturating_add(bytes);
            return None;
        }
        let frame = self.open.get_mut(&id)?;
        frame.acked = frame.acked.saturating_add(bytes);
        if frame.acked < frame.len {
            return None;
        }
        let frame = self.open.remove(&id)?;
        Some(Outcome { supposed: true, ..frame.outcome(now, true) })
    }

    /// Called when the peer reports that a frame stalled. Returns its outcome if it was counted as
    /// no stall so far.
    pub(super) fn stalled(&mut self, id: BlockId) -> Option<Outcome> {
        for frames in [&mut self.tracked, &mut self.open] {
            if let Some(frame) = frames.get_mut(&id) {
                frame.stalled = true;
            }
        }
        self.ended.remove(&id)
    }

    /// Records a frame that ended without a known stall.
    pub(super) fn remember(&mut self, id: BlockId, outcome: Outcome) {
        self.ended.insert(id, outcome);
        if self.ended.len() > MAX_ENDED {
            self.ended.pop_first();
        }
    }

    /// Called when a frame has ended, on whichever path. Returns `None` if it did not begin on the
    /// primary.
    pub(super) fn end(&mut self, id: BlockId, delivered: bool, now: Time) -> Option<Outcome> {
        let frame = self.take(id)?;
        self.watch(now);
        Some(frame.outcome(now, delivered))
    }

    /// As [`Self::end`], but evaluates the primary path alone: for a frame that the backup
    /// delivered first, the outcome follows later, from [`Self::acked`] or [`Self::overdue`].
    pub(super) fn end_on_primary(&mut self, id: BlockId, delivered: bool, now: Time) -> Option<Outcome> {
        let mut frame = self.take(id)?;
        self.watch(now);
        if !delivered || frame.given.is_empty() || frame.acked >= frame.len {
            return Some(frame.outcome(now, delivered));
        }
        if let Some((_, until)) = &mut frame.oldest {
            until.get_or_insert(now);
        }
        self.open.insert(id, frame);
        while self.open.len() > MAX_OPEN {
            self.open.pop_first();
        }
        None
    }

    /// Returns the outcome of a frame first sent before `before` that the primary path has still
    /// not delivered.
    pub(super) fn overdue(&mut self, before: Time, now: Time) -> Option<Outcome> {
        // Ids increase with the time of sending, except for frames that were taken back; their
        // outcome is only delayed.
        let oldest = self.open.first_entry().filter(|entry| entry.get().first_sent < before)?;
        Some(oldest.remove().outcome(now, false))
    }

    fn take(&mut self, id: BlockId) -> Option<Frame> {
        let frame = self.tracked.remove(&id)?;
        self.by_age.remove(&(frame.first_sent, id));
        self.waiting.iter_mut().for_each(|waiting| _ = waiting.remove(&(frame.first_sent, id)));
        self.rescue.remove(&id);
        self.doomed.remove(&id);
        Some(frame)
    }

    /// Records since when the oldest frame has been the oldest.
    fn watch(&mut self, now: Time) {
        if let Some((_, id)) = self.by_age.first()
            && let Some(frame) = self.tracked.get_mut(id)
        {
            frame.oldest.get_or_insert((now, None));
        }
    }
}

impl Frame {
    fn missing(&mut self, block: &Block, backups: PathSet) -> Option<Work> {
        let work = |range, kind| Some(Work { block: block.meta().id, range, kind });
        if let Some(range) = block.next_lost() {
            return work(range, WorkKind::Repair);
        }
        for segment in block.segments_from(self.cursor) {
            match segment.state {
                SegmentState::Fresh => return work(segment.range(), WorkKind::Fresh),
                // A copy lost by a backup does not matter while the original is in flight.
                SegmentState::Sent if segment.in_flight.is_disjoint(backups) => {
                    return work(segment.range(), WorkKind::Copy);
                }
                _ => self.cursor = segment.end,
            }
        }
        None
    }

    /// Returns the bytes that a backup still has to carry, or slightly more: none before the
    /// cursor.
    fn left(&self, block: &Block) -> u32 {
        let unacked = block.meta().len - block.acked_bytes();
        unacked.min(block.lost_bytes() + block.meta().len.saturating_sub(self.cursor))
    }

    fn outcome(&self, now: Time, delivered: bool) -> Outcome {
        let oldest = self.oldest.map(|(since, until)| (since, until.unwrap_or(now)));
        let (first_sent, bytes, reported) = (self.first_sent, self.len, self.stalled);
        Outcome { first_sent, ended: now, bytes, delivered, oldest, reported, supposed: false }
    }
}

#[cfg(test)]
mod tests {

    use squall_units::short::{at_ms, at_us};

    use super::*;

    const A: BlockId = BlockId(1);
    const B: BlockId = BlockId(2);
    const C: BlockId = BlockId(3);

    /// Only the first backup.
    const ONE: PathSet = paths(&[1]);
    /// Both backups.
    const BOTH: PathSet = paths(&[1, 2]);

    const fn paths(ids: &[u8]) -> PathSet {
        let (mut set, mut at) = (PathSet::EMPTY, 0);
        while at < ids.len() {
            set.insert(PathId(ids[at]));
            at += 1;
        }
        set
    }

    /// Returns three frames, and one group for each backup.
    fn three() -> Frames {
        let mut frames = Frames::new(2);
        for (id, at) in [(A, 0), (B, 10), (C, 20)] {
            frames.begin(id, 1000, at_us(at));
        }
        frames
    }

    #[test]
    fn a_frame_is_the_oldest_from_the_end_of_the_one_before() {
        let mut frames = three();
        let ended = |first_sent, ended, oldest| {
            let (reported, supposed) = (false, false);
            Some(Outcome { first_sent, ended, bytes: 1000, delivered: true, oldest, reported, supposed })
        };
        assert_eq!(frames.end(B, true, at_us(30)), ended(at_us(10), at_us(30), None), "overtook the oldest");
        assert_eq!(
            frames.end(A, true, at_us(40)),
            ended(at_ms(0), at_us(40), Some((Time::EPOCH, at_us(40))))
        );
        assert_eq!(frames.oldest(), Some(at_us(20)));
        assert_eq!(frames.end(C, true, at_us(70)), ended(at_us(20), at_us(70), Some((at_us(40), at_us(70)))));
        assert_eq!((frames.end(C, true, at_us(80)), frames.oldest()), (None, None));
    }

    #[test]
    fn what_never_left_does_not_age() {
        let mut frames = three();
        frames.never_left(A, at_us(25));
        assert_eq!((frames.oldest(), frames.oldest_waiting(1)), (Some(at_us(10)), Some(at_us(10))));
        frames.begin(A, 1000, at_us(50));
        frames.end(B, true, at_us(60));
        frames.end(C, true, at_us(60));
        assert_eq!(frames.oldest(), Some(at_us(50)));
        let outcome = frames.end(A, true, at_us(65)).expect("began");
        assert_eq!((outcome.first_sent, outcome.oldest), (at_us(50), Some((at_us(60), at_us(65)))));
    }

    #[test]
    fn leaving_the_primary_path_hands_everything_over_and_ends_the_watch() {
        let mut frames = three();
        frames.hand_over(0, ONE, at_us(10));
        frames.hand_over(1, paths(&[2]), at_us(5));
        assert_eq!([A, B, C].map(|id| frames.tracked[&id].given), [BOTH, ONE, PathSet::EMPTY]);
        assert_eq!([0, 1].map(|group| frames.oldest_waiting(group)), [Some(at_us(20)), Some(at_us(10))]);
        frames.abandon(at_us(30));
        frames.hand_over(0, ONE, Time::MAX);
        assert_eq!(frames.tracked[&C].given, ONE);
        assert_eq!((frames.oldest(), frames.oldest_waiting(0)), (None, None));
        assert_eq!(frames.end(A, true, at_us(90)).and_then(|o| o.oldest), Some((at_ms(0), at_us(30))));
        assert_eq!(frames.end(B, true, at_us(95)).map(|o| (o.ended, o.oldest)), Some((at_us(95), None)));
    }

    #[test]
    fn the_primary_path_is_judged_by_its_own_deliveries() {
        let mut frames = three();
        frames.hand_over(0, ONE, at_us(20));
        frames.acked(A, &(0..600), at_us(25));
        assert_eq!(frames.end_on_primary(A, true, at_us(30)), None, "the backup was first");
        let all = frames.acked(A, &(600..1000), at_us(75)).expect("now the primary has delivered it too");
        assert_eq!(
            (all.first_sent, all.ended, all.delivered, all.oldest),
            (at_ms(0), at_us(75), true, Some((at_ms(0), at_us(30))))
        );
        frames.acked(B, &(0..1000), at_us(80));
        assert!(
            frames.end_on_primary(B, true, at_us(80)).is_some_and(|o| o.delivered),
            "the primary was first"
        );
        assert_eq!(frames.end_on_primary(C, true, at_us(90)), None);
        assert_eq!(frames.overdue(at_us(20), at_us(300)), None);
        assert!(
            frames.overdue(at_us(21), at_us(300)).is_some_and(|o| !o.delivered && o.first_sent == at_us(20))
        );
        assert_eq!(
            (frames.acked(C, &(0..1000), at_us(400)), frames.overdue(at_ms(1), at_us(400))),
            (None, None)
        );
    }

    #[test]
    fn a_report_may_come_before_the_end_or_after_it() {
        let mut frames = three();
        assert_eq!(frames.stalled(A), None, "it has not ended");
        assert!(frames.end(A, true, at_us(30)).is_some_and(|outcome| outcome.reported));
        let outcome =
            frames.end(B, true, at_us(40)).filter(|outcome| !outcome.reported).expect("is not reported");
        frames.remember(B, outcome);
        assert_eq!(frames.stalled(B), Some(outcome));
        assert_eq!((frames.stalled(B), frames.stalled(BlockId(7))), (None, None), "each counts once");
        frames.hand_over(0, ONE, at_us(20));
        assert_eq!(frames.end_on_primary(C, true, at_us(50)), None);
        assert_eq!(frames.stalled(C), None, "the primary's verdict is open");
        let verdict = frames.acked(C, &(0..1000), at_us(60)).expect("the primary has delivered it too");
        assert!(verdict.reported && verdict.supposed);
        for id in (100..100 + 2 * MAX_ENDED as u64).map(BlockId) {
            frames.remember(id, outcome);
        }
        assert_eq!(frames.ended.len(), MAX_ENDED);
    }

    #[test]
    fn what_waits_for_a_verdict_is_bounded() {
        let mut frames = Frames::new(1);
        for id in (0..2 * MAX_OPEN as u64).map(BlockId) {
            frames.begin(id, 1, Time::EPOCH);
            frames.hand_over(0, ONE, Time::EPOCH);
            frames.end_on_primary(id, true, at_us(1));
        }
        assert_eq!(frames.open.len(), MAX_OPEN);
        assert!(frames.tracked.is_empty() && frames.by_age.is_empty() && frames.rescue.is_empty());
    }
}
