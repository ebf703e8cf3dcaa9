//! Items that are no data and wait to leave, each until noq accepts it.

use std::collections::VecDeque;

use squall_sched::{BlockId, PathId};

use crate::{path::Control, wire::RefuseReason};

/// Number of waiting control items above which rebuilt blocks are not reported.
const MAX_WAITING_ANSWERS: usize = 256;

#[derive(Debug, Default)]
pub(super) struct SendQueues {
    /// Items for the best path, repeated until they arrive.
    control: VecDeque<Control>,
    /// Alerts, each for a path.
    alerts: VecDeque<(PathId, Control)>,
    /// Path of the datagrams inside noq.
    pub(super) batch_path: Option<PathId>,
}

impl SendQueues {
    /// Queues an item. Those whose content is computed when they leave are not queued twice.
    pub(super) fn push(&mut self, control: Control) {
        let is_computed = matches!(control, Control::Credit | Control::PathInfo(_));
        if !is_computed || !self.control.contains(&control) {
            self.control.push_back(control);
        }
    }

    /// Reports a rebuilt block, unless many items wait: without the report, the sender only assumes
    /// that it is lost.
    pub(super) fn push_rebuilt(&mut self, block: BlockId) {
        if self.control.len() < MAX_WAITING_ANSWERS {
            self.control.push_back(Control::Rebuilt(block));
        }
    }

    /// Returns an item to the queue that noq did not accept.
    pub(super) fn put_back(&mut self, control: Control) {
        self.control.push_front(control);
    }

    pub(super) fn front(&self) -> Option<Control> {
        self.control.front().copied()
    }

    pub(super) fn pop(&mut self) -> Option<Control> {
        self.control.pop_front()
    }

    /// Takes the next item, if it announces the end of a block.
    pub(super) fn take_end(&mut self) -> Option<BlockId> {
        let Some(&Control::End(id)) = self.control.front() else { return None };
        self.control.pop_front();
        Some(id)
    }

    /// Takes the first refusal, wherever it is.
    pub(super) fn take_refusal(&mut self) -> Option<(BlockId, RefuseReason)> {
        let at = self.control.iter().position(|control| matches!(control, Control::Refused(..)))?;
        match self.control.remove(at) {
            Some(Control::Refused(block, reason)) => Some((block, reason)),
            _ => None,
        }
    }

    /// Queues an alert on these paths, in place of earlier ones of the same path.
    pub(super) fn alert(&mut self, alert: Control, over: impl Iterator<Item = PathId>) {
        let of =
            |control: &Control| if let Control::Alert { path, .. } = control { Some(*path) } else { None };
        self.alerts.retain(|(_, waiting)| of(waiting) != of(&alert));
        self.alerts.extend(over.map(|path| (path, alert)));
    }

    pub(super) fn pop_alert(&mut self) -> Option<(PathId, Control)> {
        self.alerts.pop_front()
    }

    /// Forgets a closed path.
    pub(super) fn forget(&mut self, path: PathId) {
        self.alerts.retain(|(over, _)| *over != path);
    }

    /// Empties the queues at the end of the session.
    pub(super) fn clear(&mut self) {
        self.control.clear();
        self.alerts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Control = Control::End(BlockId(1));
    const REFUSED: Control = Control::Refused(BlockId(2), RefuseReason::TooLarge);

    #[test]
    fn computed_items_wait_once_and_refusals_are_taken_out_of_turn() {
        let mut queues = SendQueues::default();
        [Control::Credit, END, Control::Credit, REFUSED, END].into_iter().for_each(|item| queues.push(item));
        assert_eq!(queues.take_end(), None, "credit comes first");
        assert_eq!(queues.take_refusal(), Some((BlockId(2), RefuseReason::TooLarge)));
        assert_eq!((queues.take_refusal(), queues.pop()), (None, Some(Control::Credit)));
        assert_eq!(queues.take_end(), Some(BlockId(1)));
        queues.put_back(REFUSED);
        assert_eq!((queues.front(), queues.pop()), (Some(REFUSED), Some(REFUSED)));
        assert_eq!(queues.pop(), Some(END));
        assert_eq!(queues.pop(), None);
    }

    #[test]
    fn reports_of_rebuilt_blocks_are_bounded() {
        let mut queues = SendQueues::default();
        (0..1_000).for_each(|id| queues.push_rebuilt(BlockId(id)));
        assert_eq!(queues.control.len(), MAX_WAITING_ANSWERS);
        queues.push(REFUSED);
        assert!(queues.take_refusal().is_some(), "refusals are not");
    }

    #[test]
    fn an_alert_replaces_those_of_the_same_path_and_ends_with_the_path_it_takes() {
        let mut queues = SendQueues::default();
        let alert = |path, sequence| Control::Alert { path, sequence };
        queues.alert(alert(7, 1), [PathId(0), PathId(1)].into_iter());
        queues.alert(alert(8, 1), [PathId(0)].into_iter());
        queues.alert(alert(7, 2), [PathId(1)].into_iter());
        assert_eq!(queues.alerts, [(PathId(0), alert(8, 1)), (PathId(1), alert(7, 2))]);
        queues.forget(PathId(0));
        assert_eq!(queues.pop_alert(), Some((PathId(1), alert(7, 2))));
        assert_eq!(queues.pop_alert(), None);
    }
}
