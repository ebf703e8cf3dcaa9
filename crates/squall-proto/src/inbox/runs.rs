//! Small blocks that parity over a run replaces.
//!
//! A receiver keeps the small blocks that arrived lately, also those that it has handed over: with them and the parity it
//! computes the ones that were lost. It begins to when the first parity of a run comes.

use std::collections::{BTreeMap, VecDeque};

use squall_sched::BlockId;

use super::{event::InboxError, symbols::Held};
use crate::{
    parity,
    wire::{Data, Member, RunParity},
};

#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Whether parity of a run has come.
    pub(super) are_used: bool,
    /// Data symbols of the latest small blocks, by their ids.
    recent: BTreeMap<u64, Vec<u8>>,
    recent_bytes: u64,
    /// Parity that waits for more symbols, the oldest first.
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    /// Blocks that were rebuilt, of which the sender is to be informed.
    pub(super) rebuilt: VecDeque<BlockId>,
}

/// Parity of a run that waits.
#[derive(Debug)]
struct Waiting {
    run: RunParity,
    held: Held,
}

/// A block that was rebuilt: its header and bytes.
pub(super) type Rebuilt = (Data, Vec<u8>);

impl Runs {
    /// Whether parity waits.
    pub(super) fn wait(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Bytes of blocks, and of parity.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> [u64; 2] {
        [self.recent_bytes, self.waiting_bytes]
    }

    /// Keeps the data symbol of a block, and as many others as there is room for.
    pub(super) fn keep(&mut self, id: u64, symbol: Vec<u8>, room: u64) {
        self.recent_bytes += symbol.len() as u64;
        let before = self.recent.insert(id, symbol);
        self.recent_bytes -= before.map_or(0, |symbol| symbol.len() as u64);
        while self.recent_bytes > room
            && let Some((_, symbol)) = self.recent.pop_first()
        {
            self.recent_bytes -= symbol.len() as u64;
        }
    }

    /// Takes in a symbol of parity.
    pub(super) fn hold(&mut self, run: &RunParity, payload: &[u8], room: u64) {
        let is_same = |waiting: &&mut Waiting| waiting.run.is_of(run);
        let held = match self.waiting.iter_mut().find(is_same) {
            Some(waiting) => &mut waiting.held,
            None => {
                let held = Held::new(run.symbol_size);
                self.waiting.push_back(Waiting { run: run.clone(), held });
                let Some(waiting) = self.waiting.back_mut() else { return };
                &mut waiting.held
            }
        };
        let number = run.index as u16;
        if !held.numbers.contains(&number) {
            held.push(number, payload);
            self.waiting_bytes += payload.len() as u64;
        }
        while self.waiting_bytes > room
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.waiting_bytes -= oldest.held.bytes.len() as u64;
        }
    }

    /// What the first run that can be solved has of blocks that have not ended. Runs that nothing can come of are dropped.
    pub(super) fn next(
        &mut self,
        has_ended: impl Fn(u64) -> bool,
    ) -> Result<Option<Vec<Rebuilt>>, InboxError> {
        let mut at = 0;
        while let Some(Waiting { run, held }) = self.waiting.get(at) {
            let lacks = |member: &&Member| !self.recent.contains_key(&member.block);
            let missing = run.members.iter().filter(lacks);
            let is_pointless = missing.clone().all(|member| has_ended(member.block));
            if !is_pointless && missing.count() > held.numbers.len() {
                at += 1;
                continue;
            }
            let Some(waiting) = self.waiting.remove(at) else { break };
            self.waiting_bytes -= waiting.held.bytes.len() as u64;
            if !is_pointless {
                return self.solve(&waiting, has_ended).map(Some);
            }
        }
        Ok(None)
    }

    fn solve(
        &self,
        Waiting { run, held }: &Waiting,
        has_ended: impl Fn(u64) -> bool,
    ) -> Result<Vec<Rebuilt>, InboxError> {
        let size = held.symbol_size as usize;
        let mut data = vec![0; run.members.len() * size];
        let known = |index: u32| self.recent.get(&run.members[index as usize].block);
        for (index, place) in (0..).zip(data.chunks_mut(size)) {
            let Some(symbol) = known(index) else { continue };
            let bad = InboxError::Contradiction(run.members[index as usize].block);
            place.get_mut(..symbol.len()).ok_or(bad)?.copy_from_slice(symbol);
        }
        parity::rebuild(&mut data, held.symbol_size, |index| known(index).is_some(), held.symbols());
        let symbols = (0..).zip(data.chunks(size)).zip(&run.members);
        let missing =
            symbols.filter(|((index, _), member)| known(*index).is_none() && !has_ended(member.block));
        missing
            .map(|((_, symbol), member)| {
                let block = Member::read(symbol).filter(|(block, _)| block.block == member.block);
                let (block, payload) = block.ok_or(InboxError::Contradiction(member.block))?;
                Ok((Data { left: member.left, sent: run.sent, ..block }, payload.to_vec()))
            })
            .collect()
    }
}

impl RunParity {
    /// Whether it is of the same run.
    fn is_of(&self, other: &Self) -> bool {
        let blocks = self.members.iter().map(|member| member.block);
        self.symbol_size == other.symbol_size && blocks.eq(other.members.iter().map(|member| member.block))
    }
}
