//! Redundant: every byte on every path.
//!
//! The baseline of NineTails (§4): the leading path sends new data; a trailing path sends the oldest
//! outstanding data that was not yet sent on it. What the peer already has is skipped, so a slow path
//! catches up with the fast one instead of repeating history. Lost reliable data goes first, on the
//! lowest-RTT path with window left; unreliable data whose only copy so far was lost stays lost. Takes no
//! options, and any number of paths; bytes on the wire grow with the number of paths.

use crate::{
    Assignment, BlockId, BuildError, Context, Decision, Entry, MAX_PATHS, Options, PathView, SchedEvent,
    Scheduler, SegmentState, Work, WorkKind,
};

pub(super) const ENTRY: Entry = Entry {
    name: "redundant",
    summary: "every byte on every path",
    source: "baseline of NineTails",
    options: &[],
};

pub(super) fn build(_: &mut Options) -> Result<Box<dyn Scheduler>, BuildError> {
    Ok(Box::new(Redundant::default()))
}

/// Every byte on every path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redundant {
    /// For each path, where its search for outstanding data goes on: everything before was sent on it
    /// or has arrived.
    cursors: [Cursor; MAX_PATHS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor {
    block: BlockId,
    offset: u32,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { block: BlockId(0), offset: 0 }
    }
}

impl Scheduler for Redundant {
    fn next(&mut self, cx: &Context<'_>) -> Decision {
        let Some(fastest) = cx.fastest_with_room() else {
            return Decision::idle();
        };
        if let Some(work) = cx.queue.next_repair() {
            return Decision::Send(Assignment::new(work, fastest.id, "repair on the fastest path"));
        }
        // Leading or trailing is found path by path, so the order matters little; a fixed one keeps
        // runs reproducible.
        for path in cx.paths.iter().filter(|p| p.has_room()) {
            if let Some(work) = self.outstanding(cx, path) {
                return Decision::Send(Assignment::new(work, path.id, "duplicate of outstanding data"));
            }
        }
        match cx.queue.next_fresh() {
            Some(work) => Decision::Send(Assignment::new(work, fastest.id, "new data leads")),
            None => Decision::idle(),
        }
    }

    fn on_event(&mut self, event: &SchedEvent, _: &Context<'_>) {
        if let SchedEvent::Unsent { block, range, .. } = event {
            // Every path may have passed these bytes while they seemed to be in flight.
            let back = Cursor { block: *block, offset: range.start };
            self.cursors.iter_mut().for_each(|cursor| *cursor = back.min(*cursor));
        }
    }
}

impl Redundant {
    /// The oldest data in flight that was never sent on `path`.
    fn outstanding(&mut self, cx: &Context<'_>, path: &PathView) -> Option<Work> {
        let cursor = &mut self.cursors[usize::from(path.id.0)];
        for block in cx.queue.iter_from(cursor.block) {
            let id = block.meta().id;
            if id != cursor.block {
                *cursor = Cursor { block: id, offset: 0 };
            }
            for segment in block.segments_from(cursor.offset) {
                match segment.state {
                    SegmentState::Sent if segment.sent_on & path.id.bit() == 0 => {
                        return Some(Work { block: id, range: segment.range(), kind: WorkKind::Copy });
                    }
                    SegmentState::Fresh => return None,
                    _ => cursor.offset = segment.end,
                }
            }
        }
        None
    }
}
