//! What paths are used for: the session takes backup and repair paths from the schedulers while there are others, and moves
//! repairs, parity and copies to repair paths.

use std::ops::Range;

use squall_sched::{Assignment, Block, Decision, Micros, PathSet, PathView, WorkKind};
use squall_units::short::at_us;

use super::{Session, decide::Taken, hints::usable};
use crate::{Role, outbox::QueueNumber};

/// Lost ranges that are moved to repair paths at a time.
const MAX_MOVED: usize = 64;

impl Session {
    /// The role of the paths that carry first transmissions now, by what schedulers see: primary, as long as one of them is
    /// open.
    fn role_in_use(&self) -> Role {
        let open = self.views.iter().filter(|view| view.is_open());
        open.map(|view| self.conn.paths[view.id].role).min().unwrap_or_default()
    }

    /// The same by the life of paths, for forecasts.
    pub(super) fn role_in_life(&self) -> Role {
        let in_use = self.conn.paths.iter().filter(|path| path.life.is_in_use());
        in_use.map(|path| path.role).min().unwrap_or_default()
    }

    /// Takes from the scheduler the paths that their role keeps from carrying what it decides now.
    pub(super) fn apply_roles(&mut self) {
        self.usable = usable(&self.views);
        self.repairing = PathSet::EMPTY;
        if self.conn.paths.iter().all(|path| path.role == Role::Primary) {
            return;
        }
        let in_use = self.role_in_use();
        for view in &mut self.views {
            let role = self.conn.paths[view.id].role;
            if role > in_use && view.usable {
                view.usable = false;
                if role == Role::Repair {
                    self.repairing.insert(view.id);
                }
            }
        }
    }

    /// Runs `what` while the scheduler's view has the repair paths as usable ones.
    fn with_repair_paths<R>(&mut self, what: impl FnOnce(&mut Self) -> R) -> R {
        let set = |session: &mut Self, usable: bool| {
            let repairing = session.repairing;
            let hidden = session.views.iter_mut().filter(|view| repairing.contains(view.id));
            hidden.for_each(|view| view.usable = usable);
        };
        set(self, true);
        let result = what(self);
        set(self, false);
        result
    }

    /// The repair path on which this would arrive first, if that is before its block expires.
    fn repair_path(&self, now: Micros, assignment: &Assignment) -> Option<&PathView> {
        let block = self.outbox.queue.get(assignment.block)?;
        let is_in_time = |view: &&PathView| {
            block
                .meta()
                .deadline
                .is_none_or(|deadline| at_us(now) + view.arrives_in(0) + view.late <= deadline)
        };
        // A second copy on a path would share the fate of the first.
        let there = match assignment.kind {
            WorkKind::Copy => {
                let copied = block.segments_from(assignment.range.start).iter();
                copied
                    .take_while(|s| s.start < assignment.range.end)
                    .fold(PathSet::EMPTY, |set, s| set.union(s.in_flight))
            }
            _ => PathSet::EMPTY,
        };
        let suitable = self.repairing.difference(there);
        let open = self.views.iter().filter(|view| suitable.contains(view.id) && view.has_room());
        open.filter(is_in_time).min_by_key(|view| (view.arrives_in(0), view.id))
    }

    /// Gives an assignment to its path; a repair, parity or a copy to a repair path, if one brings it in time.
    pub(super) fn commit_by_role(&mut self, now: Micros, assignment: &mut Assignment) -> Option<Taken> {
        if self.repairing.is_empty() || assignment.kind == WorkKind::Fresh {
            return self.commit(now, assignment);
        }
        self.with_repair_paths(|session| {
            if let Some(view) = session.repair_path(now, assignment) {
                assignment.path = view.id;
                assignment.forecast = None;
                assignment.reason = "a path for repairs brings it in time";
            }
            session.commit(now, assignment)
        })
    }

    /// As [`Self::hedge`], with repair paths to copy to.
    pub(super) fn hedge_by_role(&mut self, now: Micros, assignment: &Assignment, range: Range<u32>) {
        if self.repairing.is_empty() {
            return self.hedge(now, assignment, range);
        }
        self.with_repair_paths(|session| session.hedge(now, assignment, range));
    }

    /// Repairs what the scheduler could not, for lack of room on the paths that it sees. Returns whether there was any.
    pub(super) fn repair_on_repair_paths(&mut self, now: Micros, number: QueueNumber) -> bool {
        if self.repairing.is_empty() || self.views.iter().any(PathView::has_room) {
            return false;
        }
        let mut moved = false;
        for _ in 0..MAX_MOVED {
            let uncovered = |block: &&Block| !block.is_covered();
            let lost =
                self.outbox.queue.numbered(number).with_lost().find(uncovered).and_then(Block::next_work);
            let Some(work) = lost else { break };
            // None of the paths that the scheduler sees has room.
            let Some(nowhere) =
                self.views.iter().find(|view| !self.repairing.contains(view.id)).map(|view| view.id)
            else {
                break;
            };
            let mut repair = Assignment::new(work, nowhere, "");
            let Some(Taken { bytes, .. }) = self.commit_by_role(now, &mut repair) else { break };
            self.log_decision(now, &Decision::Send(repair), bytes);
            moved = true;
        }
        moved
    }
}
