//! While a backup is the primary path: the frames that probe the path that was left, and the way back.

use squall_sched::{Block, BlockId, BlockQueue, PathView, SegmentState, Span, Work, WorkKind};

/// The time on a backup.
#[derive(Clone, Debug)]
pub(super) struct Away {
    /// A round trip below this ends it.
    limit: Span,
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
    pub(super) fn new(limit: Span) -> Self {
        Self { limit, received: false, probe: None }
    }

    /// Something arrived on the path that was left.
    pub(super) fn received(&mut self) {
        self.received = true;
    }

    /// Looks at the path that was left.
    pub(super) fn look(&mut self, primary: Option<&PathView>) {
        self.received |= primary.is_none_or(|p| !p.usable);
    }

    /// Whether the path that was left is good again.
    pub(super) fn is_over(&self, primary: Option<&PathView>) -> bool {
        self.received && primary.is_some_and(|p| p.usable && p.latest_rtt < self.limit)
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
