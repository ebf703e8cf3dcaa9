//! SP: everything on one named path, as in a session without multipath.
//!
//! The baseline of all four papers (AUGUR, NSDI 2024, §6, calls it SP). Blocks leave in the order
//! of the hand-over, lost reliable data first. Option `path` (a path id, default 0). If that path
//! is closed or silent nothing is sent, as with a single path.

use crate::{
    Assignment, BuildError, Context, Decision, Entry, MAX_PATHS, OptionSpec, Options, PathId, PathView,
    Profile, Scheduler, Sharing,
};

pub(super) const ENTRY: Entry = Entry {
    name: "sp",
    summary: "everything on one path",
    source: "baseline of all four papers",
    options: &[OptionSpec { name: "path", default: "0", help: "path id, 0 to 7" }],
    signal: false,
};

pub(super) fn build(options: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    let path = options.take_in("path", 0, 0..=MAX_PATHS as u8 - 1)?;
    Ok(Box::new(SinglePath { path: PathId(path) }))
}

#[derive(Clone, Copy, Debug)]
struct SinglePath {
    path: PathId,
}

impl Scheduler for SinglePath {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        if !cx.path(self.path).is_some_and(PathView::has_room) {
            return Decision::idle();
        }
        match cx.queue.next_in_line() {
            Some(work) => Decision::Send(Assignment::new(work, self.path, "the only path")),
            None => Decision::idle(),
        }
    }

    fn profile(&self) -> Profile {
        Profile { may_hedge: false, sharing: Sharing::Only(self.path), ..Profile::default() }
    }
}
