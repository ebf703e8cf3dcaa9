//! Events that wait for the application, except arrived blocks, which wait in the inbox.

use std::collections::VecDeque;

use squall_sched::BlockId;

use crate::{Event, Outcome};

/// Limit of path events that wait: paths may change for any time while the application takes none.
const MAX_PATH_EVENTS: usize = 256;

/// A queue that an application may leave unread: outcomes and path events drop their oldest.
#[derive(Debug)]
pub(super) struct Notices {
    queue: VecDeque<Event>,
    /// Outcomes of blocks become events.
    pub(super) reports_outcomes: bool,
    outcomes: Bounded,
    paths: Bounded,
}

/// A kind of event, of which at most `most` wait.
#[derive(Debug)]
struct Bounded {
    most: usize,
    waiting: usize,
    dropped: u64,
    is_one: fn(&Event) -> bool,
}

impl Notices {
    /// Creates the queue. `outcomes` limits the outcomes that wait: all open blocks may end at the
    /// same time.
    pub(super) fn new(outcomes: usize) -> Self {
        let bounded = |most, is_one| Bounded { most, waiting: 0, dropped: 0, is_one };
        Self {
            queue: VecDeque::new(),
            reports_outcomes: false,
            outcomes: bounded(outcomes.max(1), |event| matches!(event, Event::Ended { .. })),
            paths: bounded(MAX_PATH_EVENTS, |event| matches!(event, Event::Path(..))),
        }
    }

    pub(super) fn push_outcome(&mut self, id: BlockId, outcome: Outcome) {
        if self.reports_outcomes {
            self.push(Event::Ended { id, outcome });
        }
    }

    pub(super) fn push(&mut self, event: Event) {
        for kind in [&mut self.outcomes, &mut self.paths] {
            if (kind.is_one)(&event) {
                kind.make_room(&mut self.queue);
                kind.waiting += 1;
            }
        }
        self.queue.push_back(event);
    }

    /// Puts an event before all others.
    pub(super) fn push_first(&mut self, event: Event) {
        self.queue.push_front(event);
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let event = self.queue.pop_front()?;
        for kind in [&mut self.outcomes, &mut self.paths] {
            kind.waiting -= usize::from((kind.is_one)(&event));
        }
        Some(event)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn clear(&mut self) {
        while self.pop().is_some() {}
    }

    /// Returns the numbers of dropped outcomes and path events.
    pub(super) fn dropped(&self) -> (u64, u64) {
        (self.outcomes.dropped, self.paths.dropped)
    }
}

impl Bounded {
    fn make_room(&mut self, queue: &mut VecDeque<Event>) {
        if self.waiting >= self.most
            && let Some(oldest) = queue.iter().position(self.is_one)
        {
            queue.remove(oldest);
            self.waiting -= 1;
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use squall_sched::PathId;

    use super::*;
    use crate::PathChange;

    fn outcome(id: u64) -> Event {
        Event::Ended { id: BlockId(id), outcome: Outcome::SessionClosed }
    }

    #[test]
    fn the_oldest_of_a_kind_makes_way_and_is_counted() {
        let mut notices = Notices::new(2);
        notices.push_outcome(BlockId(9), Outcome::SessionClosed);
        assert!(notices.is_empty(), "outcomes were not asked for");
        notices.push(Event::Path(PathId(0), PathChange::Down));
        (0..4).for_each(|id| notices.push(outcome(id)));
        notices.push_first(Event::Connected);
        assert_eq!(notices.dropped(), (2, 0));
        let left: Vec<Event> = std::iter::from_fn(|| notices.pop()).collect();
        assert_eq!(
            left,
            [Event::Connected, Event::Path(PathId(0), PathChange::Down), outcome(2), outcome(3)]
        );
        (0..3).for_each(|_| notices.push(Event::Path(PathId(0), PathChange::Down)));
        (0..MAX_PATH_EVENTS).for_each(|_| notices.push(Event::Path(PathId(1), PathChange::Down)));
        assert_eq!(notices.dropped(), (2, 3));
        notices.clear();
        assert!(notices.is_empty());
        (0..2).for_each(|id| notices.push(outcome(id)));
        assert_eq!(notices.dropped(), (2, 3), "what was taken leaves room");
    }
}
