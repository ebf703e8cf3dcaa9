//! Use of paths by their role: backup and repair paths are invisible to the schedulers while others
//! exist, and the session moves repairs, parity and copies to repair paths.

use std::ops::Range;

use squall_sched::{Assignment, Block, BlockId, Decision, PathId, PathSet, PathView, Time, WorkKind};

use super::{Session, decide::Taken, views::Allowed};
use crate::{Role, outbox::SubqueueNumber};

/// Largest number of lost ranges that are moved to repair paths at a time.
const MAX_MOVED: usize = 64;

/// Reason of an assignment to a repair path.
const IN_TIME: &str = "a path for repairs brings it in time";

impl Session {
    /// Returns the role of the paths that carry first transmissions now, by the life of paths:
    /// primary, as long as one of them is in use.
    pub(super) fn role_in_life(&self) -> Role {
        let in_use = self.conn.paths.iter().filter(|path| path.life.is_in_use());
        in_use.map(|path| path.role).min().unwrap_or_default()
    }

    /// Returns the repair path on which this range would arrive first, if that is before its block
    /// expires.
    fn repair_path(
        &self,
        now: Time,
        block: BlockId,
        range: &Range<u32>,
        kind: WorkKind,
        allowed: Allowed,
    ) -> Option<PathId> {
        if allowed.repairs.is_empty() || kind == WorkKind::Fresh {
            return None;
        }
        let block = self.outbox.queue.get(block)?;
        let is_in_time = |view: &&PathView| {
            block.meta().deadline.is_none_or(|deadline| now + view.arrives_in(0) + view.late <= deadline)
        };
        // A second copy on a path would share the fate of the first.
        let there = match kind {
            WorkKind::Copy => {
                let copied = block.segments_from(range.start).iter();
                copied
                    .take_while(|s| s.start < range.end)
                    .fold(PathSet::EMPTY, |set, s| set.union(s.in_flight))
            }
            _ => PathSet::EMPTY,
        };
        let open = self.views.within(allowed.repairs.difference(there)).filter(|view| view.has_room());
        open.filter(is_in_time).min_by_key(|view| (view.arrives_in(0), view.id)).map(|view| view.id)
    }

    /// Commits an assignment to its path; a repair, parity or a copy to a repair path, if one
    /// delivers it in time.
    pub(super) fn commit_by_role(
        &mut self,
        now: Time,
        assignment: &mut Assignment,
        allowed: Allowed,
    ) -> Option<Taken> {
        let Assignment { block, range, kind, .. } = &*assignment;
        if let Some(path) = self.repair_path(now, *block, range, *kind, allowed) {
            (assignment.path, assignment.forecast, assignment.reason) = (path, None, IN_TIME);
        }
        self.commit(now, assignment, allowed)
    }

    /// Repairs ranges for which the paths that the scheduler sees have no room. Returns `true` if
    /// there were any.
    pub(super) fn repair_on_repair_paths(
        &mut self,
        now: Time,
        subqueue: SubqueueNumber,
        allowed: Allowed,
    ) -> bool {
        if allowed.repairs.is_empty() || self.views.within(allowed.all).any(PathView::has_room) {
            return false;
        }
        let mut moved = false;
        for _ in 0..MAX_MOVED {
            let uncovered = |block: &&Block| !block.is_covered();
            let lost =
                self.outbox.queue.queue(subqueue).with_lost().find(uncovered).and_then(Block::next_work);
            let Some(work) = lost else { break };
            let Some(path) = self.repair_path(now, work.block, &work.range, work.kind, allowed) else {
                break;
            };
            let repair = Assignment::new(work, path, IN_TIME);
            let Some(Taken { bytes, .. }) = self.commit(now, &repair, allowed) else { break };
            self.log_decision(now, &Decision::Send(repair), bytes);
            moved = true;
        }
        moved
    }
}
