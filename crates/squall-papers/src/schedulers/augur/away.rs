//! While a backup is the primary path: the frames that probe the path that was left, and the way back.

use squall_sched::{Block, BlockId, BlockQueue, PathSet, PathView, SegmentState, Span, Time, Work, WorkKind};

/// The time on a backup.
#[derive(Clone, Debug)]
pub(super) struct Away {
    /// Backups that may carry what is new.
    pub(super) carriers: PathSet,
    /// When the oldest frame in flight at the switch was first sent; `None` if the path was out of use.
    oldest: Option<Time>,
    /// Whether it was out of use, at the switch or since.
    out_of_use: bool,
    /// Whether the path that was left has delivered since, or was out of use and is readmitted by the
    /// session, which requires proof of delivery.
    received: bool,
    probe: Option<Probe>,
}

/// A new frame that goes on the path that was left as well.
#[derive(Clone, Copy, Debug)]
struct Probe {
    block: BlockId,
    /// Bytes below went there or have arrived.
    cursor: u32,
}

impl Away {
    /// The path is left because of its oldest frame, first sent then, or because it is out of use.
    pub(super) fn new(oldest: Option<Time>) -> Self {
        Self { carriers: PathSet::EMPTY, oldest, out_of_use: oldest.is_none(), received: false, probe: None }
    }

    /// Something arrived on the path that was left.
    pub(super) fn received(&mut self) {
        self.received = true;
    }

    /// Looks at the path that was left.
    pub(super) fn look(&mut self, primary: Option<&PathView>) {
        if primary.is_none_or(|p| !p.usable) {
            (self.out_of_use, self.received) = (true, true);
        }
    }

    /// The state of the path that was left from which backups with this X₂ carry what is new. One that was out of use
    /// must be in time again for those without.
    pub(super) fn limit(&self, switch_at: Option<Span>, stall: Span) -> Option<Span> {
        switch_at.or_else(|| self.out_of_use.then_some(stall))
    }

    /// Whether the path that was left is in state `limit` or beyond: by its round trip, or until something arrives by
    /// its oldest frame.
    pub(super) fn is_beyond(&self, limit: Span, primary: Option<&PathView>, now: Time) -> bool {
        match primary.filter(|p| p.usable) {
            None => true,
            Some(primary) if self.received => primary.latest_rtt >= limit,
            Some(_) => self.reaches(limit).is_none_or(|at| at <= now),
        }
    }

    /// When the path that was left reaches the state if nothing arrives on it until then.
    pub(super) fn reaches(&self, limit: Span) -> Option<Time> {
        self.oldest.filter(|_| !self.received).map(|first_sent| first_sent + limit)
    }

    /// A new frame begins on a backup: it becomes a probe if the path that was left carries less than two
    /// frames of its size.
    pub(super) fn begin(&mut self, block: &Block, primary: Option<&PathView>) {
        let drained = |p: &PathView| p.has_room() && p.in_flight < 2 * u64::from(block.meta().len);
        if self.probe.is_none() && primary.is_some_and(drained) {
            self.probe = Some(Probe { block: block.meta().id, cursor: 0 });
        }
    }

    /// What of the probe is to be copied to the path that was left.
    pub(super) fn copy(&mut self, queue: &BlockQueue, primary: &PathView) -> Option<Work> {
        let probe = self.probe.as_mut()?;
        let block = queue.get(probe.block);
        for segment in block.map_or(&[][..], |block| block.segments_from(probe.cursor)) {
            match segment.state {
                SegmentState::Fresh => return None,
                SegmentState::Sent if !segment.sent_on.contains(primary.id) => {
                    return Some(Work { block: probe.block, range: segment.range(), kind: WorkKind::Copy });
                }
                _ => probe.cursor = segment.end,
            }
        }
        self.probe = None;
        None
    }
}
