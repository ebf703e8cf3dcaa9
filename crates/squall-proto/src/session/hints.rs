//! Hints of blocks for a path: each queue of blocks with a hint has a scheduler of its own, which sees the paths that the hint
//! allows now (`outbox/queues.rs`).

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use squall_sched::{
    Block, BlockId, Context, Decision, Micros, PathSet, PathView, SchedEvent, Scheduler, Sharing,
    schedulers::minrtt::MinRtt,
};
use squall_units::short::at_us;

use super::Session;
use crate::{
    Config, Interface, PathHint,
    block::HintKind,
    outbox::{Ending, QueueNumber},
};

/// How long a block waits for the only path that it may take, while that is not usable. As long as an outage of a radio or
/// a handover takes.
const PATIENCE: Micros = 3_000_000;

/// What belongs to the queue of a hint.
pub(super) struct HintState {
    scheduler: Box<dyn Scheduler>,
    /// Since when none of the paths is usable that its blocks may take.
    blocked_since: Option<Micros>,
}

/// The queues with hints, and the names of paths.
#[derive(Default)]
pub(super) struct Hints {
    states: Vec<HintState>,
    /// The names of local interfaces.
    labels: BTreeMap<Interface, Vec<Arc<str>>>,
}

/// The scheduler of a queue with a hint: one of the kind of the session. One that sends everything on a path of its own
/// choice would ignore the hint.
fn scheduler(config: &Config) -> Box<dyn Scheduler> {
    let scheduler = (config.scheduler)();
    if matches!(scheduler.profile().sharing, Sharing::Only(_)) { Box::new(MinRtt) } else { scheduler }
}

pub(super) fn usable(views: &[PathView]) -> PathSet {
    views.iter().filter(|view| view.usable).map(|view| view.id).collect()
}

impl Session {
    /// Sets the names by which [hints](PathHint) of blocks mean the paths of a local interface, those of now and later.
    pub fn set_labels(&mut self, local: Interface, labels: impl IntoIterator<Item = impl Into<Arc<str>>>) {
        self.hints.labels.insert(local, labels.into_iter().map(Into::into).collect());
        if self.outbox.queue.hints() > 0 {
            self.duties.schedule();
        }
    }

    /// The paths that a hint names.
    fn named(&self, hint: &PathHint) -> PathSet {
        let is_meant = |local: Interface| {
            let labels = self.hints.labels.get(&local);
            labels.is_some_and(|labels| labels.iter().any(|label| **label == *hint.path))
        };
        let by_id = hint.path.strip_prefix('#').and_then(|id| id.parse::<u8>().ok());
        let named = self.conn.paths.iter().filter(|path| match by_id {
            Some(id) => path.id.0 == id,
            None => is_meant(path.quic.net.local),
        });
        named.map(|path| path.id).collect()
    }

    /// The paths that the blocks of a queue may take now.
    ///
    /// A hint goes before roles: a block that prefers a backup path takes it. Blocks that prefer a path, or avoid one, take
    /// the others when that cannot bring the first of them before its deadline.
    fn allowed(&self, now: Micros, number: QueueNumber) -> PathSet {
        let by_role = usable(&self.views);
        let Some(hint) = self.outbox.queue.hint(number) else { return by_role };
        let named = self.named(hint);
        if hint.kind == HintKind::Only {
            return named.intersection(self.usable);
        }
        let wanted = if hint.kind == HintKind::Prefer { named } else { self.usable.difference(named) };
        // Of several, those whose role allows it.
        let by_role_and_hint = wanted.intersection(by_role);
        let wanted =
            if by_role_and_hint.is_empty() { wanted.intersection(self.usable) } else { by_role_and_hint };
        let first = self.outbox.queue.numbered(number).by_deadline().next();
        let is_in_time = |view: &PathView| {
            let Some(block) = first else { return true };
            let arrival = at_us(now) + view.arrives_in(block.unsent_bytes().into());
            block.meta().deadline.is_none_or(|deadline| arrival <= deadline)
        };
        let suits = self.views.iter().any(|view| wanted.contains(view.id) && is_in_time(view));
        if suits { wanted } else { by_role.union(wanted) }
    }

    /// Runs `what` with the paths as the scheduler of a queue may see them.
    pub(super) fn in_queue<R>(
        &mut self,
        now: Micros,
        number: QueueNumber,
        what: impl FnOnce(&mut Self) -> R,
    ) -> R {
        if number == 0 {
            return what(self);
        }
        let allowed = self.allowed(now, number);
        let before = usable(&self.views);
        let repairing = self.repairing;
        let is_only = self.outbox.queue.hint(number).is_some_and(|hint| hint.kind == HintKind::Only);
        let set = |session: &mut Self, usable: PathSet| {
            session.views.iter_mut().for_each(|view| view.usable = usable.contains(view.id));
        };
        set(self, allowed);
        self.repairing = if is_only { PathSet::EMPTY } else { repairing.difference(allowed) };
        let result = what(self);
        set(self, before);
        self.repairing = repairing;
        result
    }

    /// Asks the scheduler of a queue.
    pub(super) fn ask(&mut self, now: Micros, number: QueueNumber) -> Decision {
        let scheduler = match number.checked_sub(1) {
            Some(at) => &mut self.hints.states[at].scheduler,
            None => &mut self.scheduler,
        };
        scheduler.next(&Context {
            now: at_us(now),
            queue: self.outbox.queue.numbered(number),
            paths: &self.views,
        })
    }

    /// Notifies the schedulers of queues with hints what happened to their blocks, and to paths; returns what is for the first.
    pub(super) fn notify_hints(&mut self, now: Micros, events: Vec<SchedEvent>) -> Vec<SchedEvent> {
        if self.outbox.queue.hints() == 0 {
            return events;
        }
        let mut plain = Vec::new();
        for event in events {
            let number = event.block().map_or(0, |id| self.outbox.queue.queue_of(id));
            // A block that has ended is of no queue any more, and those that do not know it ignore it.
            let is_for_all = matches!(event, SchedEvent::Done { .. } | SchedEvent::PathChanged(_));
            let hints = if is_for_all { 1..self.outbox.queue.hints() + 1 } else { number..number + 1 };
            for number in hints.filter(|number| *number > 0) {
                self.in_queue(now, number, |session| {
                    let queue = session.outbox.queue.numbered(number);
                    let cx = Context { now: at_us(now), queue, paths: &session.views };
                    session.hints.states[number - 1].scheduler.on_event(&event, &cx);
                });
            }
            if is_for_all || number == 0 {
                plain.push(event);
            }
        }
        plain
    }

    /// Notes which queues wait for the only path that their blocks may take, and ends the blocks that have waited for too
    /// long. A block that waits takes memory of the peer's, and holds up the ordered ones behind it.
    pub(super) fn watch_hints(&mut self, now: Micros) {
        while self.hints.states.len() < self.outbox.queue.hints() {
            let state = HintState { scheduler: scheduler(&self.config), blocked_since: None };
            self.hints.states.push(state);
        }
        for number in 1..=self.outbox.queue.hints() {
            let Some(hint) = self.outbox.queue.hint(number).filter(|hint| hint.kind == HintKind::Only) else {
                continue;
            };
            let is_usable = !self.named(hint).is_disjoint(self.usable);
            let Some(state) = self.hints.states.get_mut(number - 1) else { continue };
            state.blocked_since = if is_usable { None } else { state.blocked_since.or(Some(now)) };
            let Some(since) = state.blocked_since else { continue };
            let is_over = |block: &&Block| block.meta().submitted.micros().max(since) + PATIENCE <= now;
            let queue = self.outbox.queue.numbered(number);
            let over: Vec<BlockId> = queue.iter().filter(is_over).map(|block| block.meta().id).collect();
            for id in over {
                self.end_block(now, id, Ending::Cancelled("the only path that it may take is not usable"));
            }
        }
    }

    /// When a block has waited for too long for its only path.
    pub(super) fn hints_due(&self) -> Option<Micros> {
        let hints = self.hints.states.iter().enumerate();
        let due = hints.filter_map(|(at, state)| {
            let since = state.blocked_since?;
            let oldest = self.outbox.queue.numbered(at + 1).iter().next()?;
            Some(oldest.meta().submitted.micros().max(since) + PATIENCE)
        });
        due.min()
    }

    /// Whether `now` is late enough for [`Self::watch_hints`] to end a block.
    pub(super) fn are_hints_due(&self, now: Instant) -> bool {
        self.hints_due().is_some_and(|due| due <= self.micros(now))
    }
}
