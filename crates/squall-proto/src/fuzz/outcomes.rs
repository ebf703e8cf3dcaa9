//! How blocks end: each at most once, and each at all.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Event, Missed, Outcome, sched::BlockId};

/// What one application sent and received.
#[derive(Default)]
pub(super) struct Outcomes {
    /// Blocks of its own that have not ended.
    pub(super) open: BTreeSet<BlockId>,
    /// Those that the peer has whole, as their acknowledgements say.
    pub(super) delivered: BTreeSet<BlockId>,
    /// The peer's blocks that ended here, however that was.
    pub(super) ended: BTreeSet<BlockId>,
    /// The peer's blocks that were refused here.
    pub(super) refused: BTreeSet<BlockId>,
    /// Bytes of the peer's blocks that were handed over so far.
    parts: BTreeMap<BlockId, u32>,
    /// The session is over.
    pub(super) closed: bool,
}

impl Outcomes {
    /// Takes in an event.
    pub(super) fn on_event(&mut self, event: &Event) {
        assert!(!self.closed || arrives(event), "an event follows the last: {event:?}");
        match event {
            Event::Ended { id, outcome } => {
                assert!(self.open.remove(id), "block {id:?} ends twice, or was never sent: {outcome:?}");
                if matches!(outcome, Outcome::Delivered { .. }) {
                    self.delivered.insert(*id);
                }
            }
            Event::Received(block) => {
                assert!(!self.parts.contains_key(&block.id), "a block comes in parts, then whole");
                self.end(block.id);
            }
            Event::Part(part) => {
                let at = self.parts.entry(part.id).or_default();
                assert_eq!(*at, part.offset, "parts of a block leave a gap");
                *at += part.data.len() as u32;
                assert!(!self.ended.contains(&part.id), "a part of a block that has ended");
                if part.is_last {
                    self.end(part.id);
                }
            }
            Event::Missed { id, why, .. } => {
                if matches!(why, Missed::Refused(_)) {
                    self.refused.insert(*id);
                }
                self.end(*id);
            }
            Event::Closed(_) => {
                self.closed = true;
                assert!(self.open.is_empty(), "blocks outlive their session: {:?}", self.open);
            }
            _ => {}
        }
    }

    fn end(&mut self, id: BlockId) {
        assert!(self.ended.insert(id), "block {id:?} of the peer ends twice");
    }
}

/// Whether it is about a block of the peer, which may be taken after the end.
fn arrives(event: &Event) -> bool {
    matches!(event, Event::Received(_) | Event::Part(_) | Event::Missed { .. })
}
