//! RR: packets in turn over all paths with window left.
//!
//! The baseline of DAMS (INFOCOM 2022, §V) and NineTails (§4). Blocks leave in the order of the
//! hand-over, lost reliable data first. One packet a turn; a path without window is skipped. No
//! options, any number of paths.

use crate::{Assignment, BuildError, Context, Decision, Entry, Options, PathId, Scheduler};

pub(super) const ENTRY: Entry = Entry {
    name: "rr",
    summary: "packets in turn over all paths with window left",
    source: "baseline of DAMS and NineTails",
    options: &[],
    signal: false,
};

pub(super) fn build(_: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    Ok(Box::new(RoundRobin::default()))
}

#[derive(Clone, Copy, Debug, Default)]
struct RoundRobin {
    last: Option<PathId>,
}

impl Scheduler for RoundRobin {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let with_room = || cx.paths.iter().filter(|p| p.has_room());
        let after_last = with_room().find(|p| Some(p.id) > self.last);
        let Some(path) = after_last.or_else(|| with_room().next()) else {
            return Decision::idle();
        };
        let Some(work) = cx.queue.next_in_line() else {
            return Decision::idle();
        };
        self.last = Some(path.id);
        Decision::Send(Assignment::new(work, path.id, "next in turn").at_most(path.chunk))
    }
}
