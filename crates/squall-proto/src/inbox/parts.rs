//! Blocks that are handed over in parts, as they grow.

use std::collections::BTreeSet;

use super::{
    Inbox, before,
    event::{InboxEvent, Part},
};
use crate::wire::MAX_CHANNELS;

/// Channels whose blocks are wanted in parts, and blocks with bytes to hand over.
///
/// A block has one entry, however many of its bytes wait, until it ends: waiting bytes use no
/// memory beside the block itself.
#[derive(Debug)]
pub(super) struct Parts {
    channels: [u64; MAX_CHANNELS as usize / 64],
    grown: BTreeSet<u64>,
}

impl Default for Parts {
    fn default() -> Self {
        Self { channels: [0; MAX_CHANNELS as usize / 64], grown: BTreeSet::new() }
    }
}

impl Parts {
    pub(super) fn are_wanted(&self, channel: u16) -> bool {
        self.channels[usize::from(channel) / 64] & 1 << (channel % 64) != 0
    }

    pub(super) fn any(&self) -> bool {
        !self.grown.is_empty()
    }

    pub(super) fn forget(&mut self, id: u64) {
        self.grown.remove(&id);
    }
}

impl Inbox {
    /// Sets whether blocks of a channel are handed over in parts, as their bytes arrive. Default:
    /// whole. A block of which a part was handed over continues in parts.
    pub fn set_in_parts(&mut self, channel: u16, on: bool) {
        let bit = 1 << (channel % 64);
        let bits = &mut self.parts.channels[usize::from(channel) / 64];
        *bits = if on { *bits | bit } else { *bits & !bit };
        self.parts.grown.clear();
        let open: Vec<_> = self.open.keys().copied().collect();
        open.into_iter().for_each(|id| self.note_growth(id));
    }

    /// Records that a block may have more bytes than were handed over.
    pub(super) fn note_growth(&mut self, id: u64) {
        let Some(partial) = self.open.get(&id) else { return };
        let in_parts = partial.handed_over > 0 || self.parts.are_wanted(partial.label.channel);
        if in_parts
            && partial.have.contiguous() > partial.handed_over
            && !self.order.holds(before(id, partial.previous), id)
        {
            self.parts.grown.insert(id);
        }
    }

    /// Handles the turn of an incomplete block, if there is one.
    pub(super) fn on_turn(&mut self, next: Option<u64>) {
        if let Some(id) = next {
            self.note_growth(id);
        }
    }

    pub(super) fn poll_part(&mut self, wanted: impl Fn(u16) -> bool) -> Option<InboxEvent> {
        let is_wanted = |id: &u64| self.open.get(id).is_some_and(|partial| wanted(partial.label.channel));
        let id = self.parts.grown.iter().copied().find(is_wanted)?;
        self.parts.grown.remove(&id);
        let partial = self.open.get_mut(&id)?;
        let (offset, end) = (partial.handed_over, partial.have.contiguous());
        partial.handed_over = end;
        Some(InboxEvent::Part(Box::new(Part {
            label: partial.label,
            reliable: partial.reliable,
            deadline: partial.deadline,
            offset,
            data: partial.buffer[offset as usize..end as usize].to_vec().into(),
            missing: Vec::new(),
            is_last: false,
        })))
    }
}
