//! Unreliable blocks in order of arrival, outside the plan.

use std::collections::BTreeSet;

use squall_sched::{Block, BlockId, BlockQueue, SchedEvent, Work, WorkKind};

/// Unreliable blocks with fresh bytes. May contain blocks without any, which are removed when their
/// turn comes.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    /// `None` until the first decision: blocks may have been queued before.
    waiting: Option<BTreeSet<BlockId>>,
}

impl Arrivals {
    /// Returns the next bytes of the oldest block.
    pub(super) fn next(&mut self, queue: &BlockQueue) -> Option<Work> {
        let waiting = self
            .waiting
            .get_or_insert_with(|| queue.with_fresh().filter(|b| waits(b)).map(|b| b.meta().id).collect());
        while let Some(&block) = waiting.first() {
            if let Some(range) = queue.get(block).and_then(Block::next_fresh) {
                return Some(Work { block, range, kind: WorkKind::Fresh });
            }
            waiting.pop_first();
        }
        None
    }

    pub(super) fn on_event(&mut self, event: &SchedEvent, queue: &BlockQueue) {
        let (SchedEvent::Queued(block) | SchedEvent::Grew { block, .. } | SchedEvent::Unsent { block, .. }) =
            event
        else {
            return;
        };
        if let Some(waiting) = &mut self.waiting
            && queue.get(*block).is_some_and(waits)
        {
            waiting.insert(*block);
        }
    }
}

fn waits(block: &Block) -> bool {
    !block.meta().reliable && block.fresh_bytes() > 0
}
