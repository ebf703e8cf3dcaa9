//! Checks of blocks' outcomes: each block has exactly one.

use std::collections::{BTreeMap, BTreeSet};

use squall_proto::{Event, Missed, Outcome, sched::BlockId};

/// Blocks of one session, from its application's view.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Own blocks without an outcome yet.
    pub open: BTreeSet<BlockId>,
    /// Own blocks that were delivered.
    pub delivered: BTreeSet<BlockId>,
    /// Blocks of the peer that ended here, in any way.
    pub ended: BTreeSet<BlockId>,
    /// Blocks of the peer that were refused here.
    pub refused: BTreeSet<BlockId>,
    /// Bytes received so far of the peer's blocks that arrive in parts.
    parts: BTreeMap<BlockId, u32>,
    /// The session has ended.
    pub closed: bool,
}

impl Outcomes {
    /// Processes an event.
    ///
    /// # Panics
    ///
    /// If the event contradicts earlier ones.
    pub fn on_event(&mut self, event: &Event) {
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

/// `true` if the event is about a block of the peer, and may therefore follow the end of the
/// session.
fn arrives(event: &Event) -> bool {
    matches!(event, Event::Received(_) | Event::Part(_) | Event::Missed { .. })
}
