//! Redundant: every byte on every path.
//!
//! The baseline of NineTails (§4): the leading path sends new data; a trailing path sends the
//! oldest outstanding data that was not yet sent on it. Data that the peer already has is skipped,
//! so a slow path catches up with the fast one instead of repeating history. Lost reliable data is
//! first, on the lowest-RTT path with window left; unreliable data whose only copy so far was lost
//! stays lost. No options, any number of paths; bytes on the wire grow with the number of paths.

use crate::{
    Assignment, BuildError, Context, Decision, Duplicates, Entry, Options, Profile, SchedEvent, Scheduler,
    Sharing,
};

pub(super) const ENTRY: Entry = Entry {
    name: "redundant",
    summary: "every byte on every path",
    source: "baseline of NineTails",
    options: &[],
    signal: false,
};

pub(super) fn build(_: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    Ok(Box::new(Redundant::default()))
}

/// Every byte on every path.
#[derive(Clone, Debug, Default)]
pub struct Redundant {
    duplicates: Duplicates,
}

impl Scheduler for Redundant {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let Some(fastest) = cx.fastest_with_room() else {
            return Decision::idle();
        };
        if let Some(work) = cx.queue.next_repair() {
            return Decision::Send(Assignment::new(work, fastest.id, "repair on the fastest path"));
        }
        // A path leads or trails by itself, so the order matters little; a fixed one keeps runs
        // reproducible.
        for path in cx.paths.iter().filter(|p| p.has_room()) {
            if let Some(work) = self.duplicates.next(cx.queue, path.id, |_, _| true) {
                return Decision::Send(Assignment::new(work, path.id, "duplicate of outstanding data"));
            }
        }
        match cx.queue.next_fresh() {
            Some(work) => Decision::Send(Assignment::new(work, fastest.id, "new data leads")),
            None => Decision::idle(),
        }
    }

    fn on_event(&mut self, event: &SchedEvent, cx: &Context<'_>) {
        self.duplicates.on_event(event, cx);
    }

    fn profile(&self) -> Profile {
        Profile { sharing: Sharing::Best, ..Profile::default() }
    }
}
