//! Hints of blocks for a path: the paths that a subqueue of blocks may take.

use std::sync::Arc;

use squall_sched::{PathSet, PathView, Time};

use super::{Session, views::Allowed};
use crate::{
    Interface, PathHint,
    block::HintKind,
    outbox::{Ending, SubqueueNumber},
};

impl Session {
    /// Sets the names by which [hints](PathHint) of blocks select the paths of a local interface,
    /// present and future.
    pub fn set_labels(&mut self, local: Interface, labels: impl IntoIterator<Item = impl Into<Arc<str>>>) {
        self.labels.set(local, labels.into_iter().map(Into::into).collect());
        if self.outbox.queue.numbers().len() > 1 {
            self.schedule();
        }
    }

    /// Returns the paths that a hint names.
    fn named(&self, hint: &PathHint) -> PathSet {
        let by_id = hint.path.strip_prefix('#').and_then(|id| id.parse::<u8>().ok());
        let named = self.conn.paths.iter().filter(|path| match by_id {
            Some(id) => path.id.0 == id,
            None => self.labels.is_of(path.quic.net.local, &hint.path),
        });
        named.map(|path| path.id).collect()
    }

    /// Returns the paths that the blocks of a subqueue may take now.
    ///
    /// A hint overrides roles: a block that prefers a backup path takes it. Blocks that prefer or
    /// avoid a path take the others if the selected ones cannot deliver the first block before its
    /// deadline.
    pub(super) fn allowed(&self, now: Time, subqueue: SubqueueNumber) -> Allowed {
        let by_role = self.views.by_role();
        let Some(hint) = self.outbox.queue.hint(subqueue) else { return by_role };
        let (named, usable) = (self.named(hint), self.views.usable());
        let wanted = match hint.kind {
            HintKind::Only => return Allowed { all: named.intersection(usable), repairs: PathSet::EMPTY },
            HintKind::Prefer => named.intersection(usable),
            HintKind::Avoid => usable.difference(named),
        };
        // Prefer the selected paths whose role allows it.
        let by_role_too = wanted.intersection(by_role.all);
        let wanted = if by_role_too.is_empty() { wanted } else { by_role_too };
        let first = self.outbox.queue.queue(subqueue).by_deadline().next();
        let is_in_time = |view: &PathView| {
            let Some(block) = first else { return true };
            let arrival = now + view.arrives_in(block.unsent_bytes().into());
            block.meta().deadline.is_none_or(|deadline| arrival <= deadline)
        };
        let suits = self.views.within(wanted).any(is_in_time);
        let all = if suits { wanted } else { by_role.all.union(wanted) };
        Allowed { all, repairs: by_role.repairs.difference(all) }
    }

    /// Ends blocks that have waited too long for the only path that they may take.
    pub(super) fn watch_hints(&mut self, now: Time) {
        for subqueue in self.outbox.queue.numbers().skip(1) {
            let Some(hint) = self.outbox.queue.hint(subqueue) else { continue };
            let is_usable = !self.named(hint).is_disjoint(self.views.usable());
            for id in self.outbox.queue.watch(subqueue, now, is_usable) {
                self.end_block(now, id, Ending::Cancelled("the only path that it may take is not usable"));
            }
        }
    }
}
