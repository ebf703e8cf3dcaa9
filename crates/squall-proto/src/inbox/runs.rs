//! Small blocks that parity over a run replaces.
//!
//! A receiver keeps the small blocks that arrived recently, also those that it has handed over:
//! from them and the parity it computes lost ones. It starts with the first parity of a run.

use std::collections::{BTreeMap, VecDeque};

use squall_sched::BlockId;

use super::{event::InboxError, symbols::Held};
use crate::{
    parity,
    wire::{Data, Member, RunParity},
};

/// Largest number of runs that wait for more symbols: an honest sender has a few of them in flight.
const MOST_WAITING: usize = 64;

/// Memory overhead in bytes of a small block, beside its symbol.
const PER_SYMBOL: u64 = 64;

/// Memory overhead in bytes of a waiting run, beside its symbols.
const PER_RUN: u64 = 256;
/// Memory in bytes of each member of a waiting run.
const PER_MEMBER: u64 = size_of::<Member>() as u64;

/// Runs that are solved at once, and after that one for each packet: solving one takes as long as
/// about a hundred other items.
const MOST_SOLVED: u32 = 32;

#[derive(Debug)]
pub(super) struct Runs {
    /// Parity of a run has arrived.
    pub(super) are_used: bool,
    /// Data symbols of the latest small blocks, by their ids.
    recent: BTreeMap<u64, Vec<u8>>,
    recent_bytes: u64,
    /// Parity that waits for more symbols, the oldest first.
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    /// Number of runs that may be solved now.
    solvable: u32,
    /// Rebuilt blocks, to be reported to the sender.
    pub(super) rebuilt: VecDeque<BlockId>,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            are_used: false,
            recent: BTreeMap::new(),
            recent_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            solvable: MOST_SOLVED,
            rebuilt: VecDeque::new(),
        }
    }
}

/// A waiting run with its parity.
#[derive(Debug)]
struct Waiting {
    run: RunParity,
    held: Held,
    /// Number of members whose symbols are not kept.
    missing: usize,
}

impl Waiting {
    fn is_ready(&self) -> bool {
        self.missing <= self.held.numbers.len()
    }

    /// Returns the bytes of memory that it uses.
    fn bytes(&self) -> u64 {
        self.held.bytes.len() as u64 + PER_RUN + PER_MEMBER * self.run.members.len() as u64
    }
}

/// A rebuilt block: its header and bytes.
pub(super) type Rebuilt = (Data, Vec<u8>);

impl Runs {
    /// Returns `true` if parity waits.
    pub(super) fn wait(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the bytes of memory of blocks, and of parity.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> [u64; 2] {
        [self.recent_bytes, self.waiting_bytes]
    }

    /// Called for each packet, which pays for one more run to be solved.
    pub(super) fn on_packet(&mut self) {
        self.solvable = MOST_SOLVED.min(self.solvable + 1);
    }

    /// Keeps the data symbol of a block, and as many others as there is room for.
    pub(super) fn keep(&mut self, id: u64, symbol: Vec<u8>, room: u64) {
        self.recent_bytes += symbol.len() as u64 + PER_SYMBOL;
        match self.recent.insert(id, symbol) {
            Some(before) => self.recent_bytes -= before.len() as u64 + PER_SYMBOL,
            None => self.runs_with(id).for_each(|waiting| waiting.missing -= 1),
        }
        while self.recent_bytes > room
            && let Some((id, symbol)) = self.recent.pop_first()
        {
            self.recent_bytes -= symbol.len() as u64 + PER_SYMBOL;
            self.runs_with(id).for_each(|waiting| waiting.missing += 1);
        }
    }

    /// Iterates over the waiting runs with this block.
    fn runs_with(&mut self, id: u64) -> impl Iterator<Item = &mut Waiting> {
        self.waiting.iter_mut().filter(move |waiting| {
            waiting.run.members.binary_search_by_key(&id, |member| member.block).is_ok()
        })
    }

    /// Adds a symbol of parity.
    pub(super) fn hold(&mut self, run: &RunParity, payload: &[u8], room: u64) {
        let waiting = match self.waiting.iter().position(|waiting| waiting.run.is_of(run)) {
            Some(at) => &mut self.waiting[at],
            None => {
                let missing =
                    run.members.iter().filter(|member| !self.recent.contains_key(&member.block)).count();
                let waiting = Waiting { run: run.clone(), held: Held::new(run.symbol_size), missing };
                self.waiting_bytes += waiting.bytes();
                self.waiting.push_back(waiting);
                let Some(waiting) = self.waiting.back_mut() else { return };
                waiting
            }
        };
        let number = run.index as u16;
        if !waiting.held.numbers.contains(&number) {
            waiting.held.push(number, payload);
            self.waiting_bytes += payload.len() as u64;
        }
        while self.waiting_bytes > room || self.waiting.len() > MOST_WAITING {
            if self.take(0).is_none() {
                break;
            }
        }
    }

    fn take(&mut self, at: usize) -> Option<Waiting> {
        let waiting = self.waiting.remove(at)?;
        self.waiting_bytes -= waiting.bytes();
        Some(waiting)
    }

    /// Solves the first run that can be solved now, and returns its blocks that have not ended.
    /// Hopeless runs are dropped.
    pub(super) fn next(
        &mut self,
        has_ended: impl Fn(u64) -> bool,
    ) -> Result<Option<Vec<Rebuilt>>, InboxError> {
        while let Some(at) = self.waiting.iter().position(Waiting::is_ready) {
            let lacks =
                |member: &Member| !self.recent.contains_key(&member.block) && !has_ended(member.block);
            let is_pointless = !self.waiting[at].run.members.iter().any(lacks);
            if !is_pointless && self.solvable == 0 {
                break;
            }
            let Some(waiting) = self.take(at) else { break };
            if !is_pointless {
                // Parity of a single block is a copy.
                self.solvable -= u32::from(waiting.run.members.len() > 1);
                return self.solve(&waiting, has_ended).map(Some);
            }
        }
        Ok(None)
    }

    fn solve(
        &self,
        Waiting { run, held, .. }: &Waiting,
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
    /// Returns `true` if it is of the same run.
    fn is_of(&self, other: &Self) -> bool {
        let blocks = self.members.iter().map(|member| member.block);
        self.symbol_size == other.symbol_size
            && self.members.len() == other.members.len()
            && blocks.eq(other.members.iter().map(|member| member.block))
    }
}
