//! State while a backup is the primary path: frames that probe the former primary, and the
//! condition for the return.

use squall_sched::{Block, BlockId, BlockQueue, PathSet, PathView, SegmentState, Span, Time, Work, WorkKind};

/// A period on a backup.
#[derive(Clone, Debug)]
pub(super) struct Away {
    /// Backups that may carry new data.
    pub(super) carriers: PathSet,
    /// First transmission of the oldest frame in flight at the switch; `None` if the path was out
    /// of use.
    oldest: Option<Time>,
    /// The path was out of use, at the switch or since.
    out_of_use: bool,
    /// The former primary has delivered since, or it was out of use and has been readmitted by the
    /// session, which requires proof of delivery.
    received: bool,
    probe: Option<Probe>,
}

/// A new frame that is also sent on the former primary.
#[derive(Clone, Copy, Debug)]
struct Probe {
    block: BlockId,
    /// Bytes below this offset were sent there or have arrived.
    cursor: u32,
}

impl Away {
    /// Starts a period because of the former primary's oldest frame, first sent at `oldest`, or
    /// because the path is out of use.
    pub(super) fn new(oldest: Option<Time>) -> Self {
        Self { carriers: PathSet::EMPTY, oldest, out_of_use: oldest.is_none(), received: false, probe: None }
    }

    /// Called when data was acknowledged on the former primary.
    pub(super) fn received(&mut self) {
        self.received = true;
    }

    /// Updates the state of the former primary.
    pub(super) fn look(&mut self, primary: Option<&PathView>) {
        if primary.is_none_or(|p| !p.usable) {
            (self.out_of_use, self.received) = (true, true);
        }
    }

    /// Returns the state of the former primary from which backups with this X₂ carry new data. If
    /// the primary was out of use, T_thresh applies for backups without X₂.
    pub(super) fn limit(&self, switch_at: Option<Span>, stall: Span) -> Option<Span> {
        switch_at.or_else(|| self.out_of_use.then_some(stall))
    }

    /// `true` if the former primary is in state `limit` or beyond: judged by its round trip, or by
    /// its oldest frame until something arrives.
    pub(super) fn is_beyond(&self, limit: Span, primary: Option<&PathView>, now: Time) -> bool {
        match primary.filter(|p| p.usable) {
            None => true,
            Some(primary) if self.received => primary.latest_rtt >= limit,
            Some(_) => self.reaches(limit).is_none_or(|at| at <= now),
        }
    }

    /// Returns the time at which the former primary reaches the state if nothing arrives on it
    /// until then.
    pub(super) fn reaches(&self, limit: Span) -> Option<Time> {
        self.oldest.filter(|_| !self.received).map(|first_sent| first_sent + limit)
    }

    /// Called when a new frame begins on a backup. The frame becomes a probe if the former primary
    /// has less than two frames of its size in flight.
    pub(super) fn begin(&mut self, block: &Block, primary: Option<&PathView>) {
        let drained = |p: &PathView| p.has_room() && p.in_flight < 2 * u64::from(block.meta().len);
        if self.probe.is_none() && primary.is_some_and(drained) {
            self.probe = Some(Probe { block: block.meta().id, cursor: 0 });
        }
    }

    /// Returns the next part of the probe to copy to the former primary.
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
