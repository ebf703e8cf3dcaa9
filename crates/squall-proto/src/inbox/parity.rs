//! Parity of incomplete blocks, and over runs of small ones.

use squall_sched::{BlockId, PathId, Span, Time};

use super::{Inbox, InboxError, Partial, symbols::Held};
use crate::{
    parity,
    wire::{Data, MAX_SYMBOL, Member, Repair, RunParity},
};

/// Largest number of bytes of small blocks that are kept for runs, and of parity that waits; less
/// if an eighth of the reassembly memory is.
const MOST_FOR_RUNS: u64 = 256 << 10;

impl Inbox {
    /// Processes a symbol of parity, like a chunk in [`Self::on_data`].
    ///
    /// # Errors
    /// If the peer violates the protocol; the session must be closed.
    pub fn on_repair(
        &mut self,
        now: Time,
        path: PathId,
        transit: Span,
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
        if let Some(reason) = self.why_not_longer(partial.len, total, size) {
            self.refuse_begun(id, reason);
            return Ok(());
        }
        let Some(partial) = self.open.get_mut(&id) else { return Ok(()) };
        self.held += u64::from(size);
        partial.parity.get_or_insert_with(|| Box::new(Held::new(size))).push(number, payload);
        let over = &mut partial.over[usize::from(path.0)];
        *over = over.saturating_add(size);
        // It includes the end of the block.
        self.fill(now, path, &Data { offset: total, ..header.clone() }, &[])
    }

    /// Called for each packet, before its items: one more run of small blocks may be rebuilt.
    pub fn on_packet(&mut self) {
        self.runs.on_packet();
    }

    /// Processes a symbol of parity over a run of small blocks, like a chunk in [`Self::on_data`].
    ///
    /// # Errors
    /// If the peer violates the protocol; the session must be closed.
    pub fn on_run_parity(
        &mut self,
        now: Time,
        path: PathId,
        transit: Span,
        run: &RunParity,
        payload: &[u8],
    ) -> Result<(), InboxError> {
        if let Some(last) = run.members.last() {
            self.check_window(last.block)?;
        }
        self.runs.are_used = true;
        if run.members.iter().all(|member| self.finished.contains(member.block)) {
            self.duplicates += payload.len() as u64;
            return Ok(());
        }
        self.runs.hold(run, payload, self.room_for_runs());
        self.rebuild_from_runs(now, path, transit)
    }

    /// Rebuilds all possible blocks. A rebuilt block may complete another run.
    pub(super) fn rebuild_from_runs(
        &mut self,
        now: Time,
        path: PathId,
        transit: Span,
    ) -> Result<(), InboxError> {
        while let Some(rebuilt) = self.runs.next(|id| self.finished.contains(id))? {
            for (header, payload) in rebuilt {
                let refused = self.refusals.len();
                self.take_chunk(now, path, transit, &header, &payload)?;
                let is_taken = self.refusals.len() == refused;
                self.rebuilt += u64::from(is_taken);
                if is_taken && self.runs.rebuilt.len() < 2 * self.limits.open_blocks {
                    self.runs.rebuilt.push_back(BlockId(header.block));
                }
            }
        }
        Ok(())
    }

    /// Keeps a block that arrived, if it is small and there are runs.
    pub(super) fn keep_for_runs(&mut self, header: &Data, payload: &[u8]) {
        if self.runs.are_used && payload.len() <= MAX_SYMBOL as usize {
            let room = self.room_for_runs();
            self.runs.keep(header.block, Member::write(header, payload), room);
        }
    }

    pub(super) fn room_for_runs(&self) -> u64 {
        MOST_FOR_RUNS.min(self.limits.reassembly / 8)
    }

    /// Takes a block that was rebuilt by the parity of a run since the last call, to be reported to
    /// the sender, which assumes that it is lost.
    pub fn take_rebuilt(&mut self) -> Option<BlockId> {
        self.runs.rebuilt.pop_front()
    }
}

impl Partial {
    pub(super) fn parity_bytes(&self) -> u64 {
        self.parity.as_ref().map_or(0, |held| held.bytes.len() as u64)
    }

    /// Rebuilds the block from its received symbols; returns `true` on success.
    pub(super) fn rebuild(&mut self) -> bool {
        let (Some(held), Some(total)) = (&self.parity, self.total) else { return false };
        let size = held.symbol_size;
        let symbols = total.div_ceil(size) as usize;
        if self.have.symbols(size, total) as usize + held.numbers.len() < symbols {
            return false;
        }
        self.buffer.resize(total as usize, 0);
        let is_there = |index: u32| self.have.has(index * size, total.min((index + 1) * size));
        parity::rebuild(&mut self.buffer, size, is_there, held.symbols())
    }
}
