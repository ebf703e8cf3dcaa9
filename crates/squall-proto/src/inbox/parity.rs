//! Parity of incomplete blocks.

use squall_sched::{Micros, PathId};

use super::{Inbox, InboxError, Partial, symbols::Held};
use crate::{
    parity,
    wire::{Data, Repair},
};

impl Inbox {
    /// Takes in a symbol of parity, as [`Self::on_data`] a chunk.
    ///
    /// # Errors
    /// If the peer breaks the protocol; the session must be closed.
    pub fn on_repair(
        &mut self,
        now: Micros,
        path: PathId,
        transit: Micros,
        repair: &Repair,
        payload: &[u8],
    ) -> Result<(), InboxError> {
        let Repair { block: header, symbol_size, index } = repair;
        let (id, size, number) = (header.block, *symbol_size, *index as u16);
        if self.finished.contains(id) {
            self.duplicates += u64::from(size);
            return Ok(());
        }
        let total = header.total.unwrap_or(0);
        if !self.open_for(now, transit, header, total)? {
            return Ok(());
        }
        let Some(partial) = self.open.get(&id) else { return Ok(()) };
        let held = partial.parity.as_deref();
        if !partial.agrees(header, &[]) || held.is_some_and(|held| held.symbol_size != size) {
            return Err(InboxError::Contradiction(id));
        }
        if held.is_some_and(|held| held.numbers.contains(&number)) {
            self.duplicates += u64::from(size);
            return Ok(());
        }
        if let Some(reason) = self.why_not_longer(partial.buffer.len() as u32, total, size) {
            self.refuse_begun(id, reason);
            return Ok(());
        }
        let Some(partial) = self.open.get_mut(&id) else { return Ok(()) };
        self.held += u64::from(size);
        partial.parity.get_or_insert_with(|| Box::new(Held::new(size))).push(number, payload);
        let over = &mut partial.over[usize::from(path.0)];
        *over = over.saturating_add(size);
        // The end of the block comes with it.
        self.fill(now, path, &Data { offset: total, ..header.clone() }, &[])
    }
}

impl Partial {
    pub(super) fn parity_bytes(&self) -> u64 {
        self.parity.as_ref().map_or(0, |held| held.bytes.len() as u64)
    }

    /// Rebuilds the block from what is there; returns whether that was enough.
    pub(super) fn rebuild(&mut self) -> bool {
        let (Some(held), Some(total)) = (&self.parity, self.total) else { return false };
        let size = held.symbol_size;
        let symbols = total.div_ceil(size) as usize;
        if self.have.symbols(size, total) as usize + held.numbers.len() < symbols {
            return false;
        }
        let is_there = |index: u32| self.have.has(index * size, total.min((index + 1) * size));
        parity::rebuild(&mut self.buffer, size, is_there, held.symbols())
    }
}
