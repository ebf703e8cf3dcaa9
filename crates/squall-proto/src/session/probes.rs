//! Probes of both sides: those that wait to leave, and those that wait for an answer.

use std::collections::VecDeque;

use squall_sched::{PathId, Time};

use crate::wire::{Item, Stamp};

/// Probes of this side and of the peer.
#[derive(Debug, Default)]
pub(super) struct Probes {
    latest: u64,
    /// Our unanswered probes, oldest first.
    unanswered: VecDeque<Sent>,
    /// Our probes, and answers to the peer's, that wait to leave.
    waiting: VecDeque<Waiting>,
}

/// A probe of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    id: u64,
    /// The intended path.
    pub(super) path: PathId,
    pub(super) at: Time,
    pub(super) size: u16,
}

/// A probe of ours, or the answer to one of the peer's, that waits to leave.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) path: PathId,
    pub(super) item: Item<'static>,
    /// Padded size of its packet: that of a full one, or less; 0 for no padding.
    pub(super) size: u16,
}

/// Largest number of unanswered probes that are remembered.
const MAX_UNANSWERED: usize = 64;

/// Largest number of probes and answers that wait to leave: a peer that probes faster gets no more
/// answers.
const MAX_WAITING: usize = 16;

impl Probes {
    pub(super) fn send(&mut self, at: Time, path: PathId, size: u16) {
        if self.waiting.len() < MAX_WAITING {
            self.latest += 1;
            if self.unanswered.len() == MAX_UNANSWERED {
                self.unanswered.pop_front();
            }
            self.unanswered.push_back(Sent { id: self.latest, path, at, size });
            let item = Item::Probe(self.latest, Stamp::at(at));
            self.waiting.push_back(Waiting { path, item, size });
        }
    }

    /// Answers a probe of the peer, on the path that carried it.
    pub(super) fn answer(&mut self, path: PathId, id: u64, stamp: Stamp) {
        if self.waiting.len() < MAX_WAITING {
            let item = Item::ProbeReply(id, stamp);
            self.waiting.push_back(Waiting { path, item, size: 0 });
        }
    }

    pub(super) fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn next(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// Takes the next waiting packet, if it is an answer on this path too.
    pub(super) fn next_answer(&mut self, path: PathId) -> Option<Item<'static>> {
        let is_answer =
            |probe: &mut Waiting| probe.path == path && matches!(probe.item, Item::ProbeReply(..));
        let next = self.waiting.front_mut().is_some_and(is_answer);
        next.then(|| self.waiting.pop_front()).flatten().map(|probe| probe.item)
    }

    /// Drops packets that wait to leave on a path.
    pub(super) fn drop_waiting(&mut self, path: PathId) {
        self.waiting.retain(|probe| probe.path != path);
    }

    /// Forgets a closed path.
    pub(super) fn forget(&mut self, path: PathId) {
        self.drop_waiting(path);
        self.unanswered.retain(|sent| sent.path != path);
    }

    /// Handles the departure of a probe. On another path than the intended one it proves nothing.
    pub(super) fn on_departure(&mut self, id: u64, path: PathId) {
        self.unanswered.retain(|sent| sent.id != id || sent.path == path);
    }

    /// Takes the unanswered probe of this number.
    pub(super) fn take(&mut self, id: u64) -> Option<Sent> {
        let at = self.unanswered.iter().position(|sent| sent.id == id)?;
        self.unanswered.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use squall_units::short::at_us;

    use super::*;

    #[test]
    fn each_probe_is_answered_once_and_few_are_remembered() {
        let mut probes = Probes::default();
        for i in 0..100 {
            probes.send(at_us(i), PathId(3), 0);
            assert!(probes.next().is_some());
        }
        assert!(probes.take(100).is_some_and(|sent| (sent.path, sent.at) == (PathId(3), at_us(99))));
        assert!(probes.take(100).is_none(), "answered twice");
        assert!(probes.take(12_345).is_none(), "never sent");
        assert!(probes.take(1).is_none(), "too long ago");
        assert_eq!(probes.unanswered.len(), MAX_UNANSWERED - 1);
        probes.on_departure(99, PathId(1));
        assert!(probes.take(99).is_none(), "left on another path");
        (0..100).for_each(|id| probes.answer(PathId(3), id, Stamp::at(at_us(0))));
        assert_eq!(probes.waiting.len(), MAX_WAITING);
        probes.forget(PathId(3));
        assert!(!probes.any_waiting() && probes.unanswered.is_empty());
    }
}
