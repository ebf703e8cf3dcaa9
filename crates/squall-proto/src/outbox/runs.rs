//! Parity over runs of small blocks, until it has left.

use std::ops::Range;

use squall_sched::{BlockId, ParityFate, Span, Time};

use super::{Ended, Outbox};
use crate::{
    parity,
    wire::{Data, Member, RunParity, Stamp},
};

/// Parity over a run.
#[derive(Debug)]
pub(super) struct Run {
    /// The blocks, and their deadlines.
    members: Vec<(BlockId, Option<Time>)>,
    symbol_size: u32,
    /// The symbols that are sent, concatenated.
    symbols: Vec<u8>,
}

impl Run {
    fn header(&self, at: Time, index: u32) -> RunParity {
        let left = |due: Option<Time>| due.map(|due| (due - at).micros());
        let members = self.members.iter().map(|(id, due)| Member { block: id.0, left: left(*due) });
        RunParity { members: members.collect(), sent: Stamp::at(at), symbol_size: self.symbol_size, index }
    }
}

impl Outbox {
    /// Computes the first `symbols` of parity over the run of small blocks that begins with
    /// `first`, or over the part of it that a datagram of `most` bytes can name. Returns the size
    /// of a symbol.
    pub(crate) fn begin_run(&mut self, now: Time, first: BlockId, symbols: u32, most: usize) -> Option<u32> {
        if symbols == 0 {
            return None;
        }
        let mut run = Run { members: Vec::new(), symbol_size: 2, symbols: Vec::new() };
        let mut data = Vec::new();
        for block in self.queue.of(first).run_from(first) {
            let meta = block.meta();
            let header = self.header(meta.id, now)?;
            let symbol = Member::write(&header, self.bytes(meta.id, &(0..meta.len))?);
            let size_before = run.symbol_size;
            run.symbol_size = run.symbol_size.max(symbol.len().next_multiple_of(2) as u32);
            run.members.push((meta.id, meta.deadline.filter(|_| self.lab.expire)));
            if run.header(now, symbols).encoded_len() > most {
                run.members.pop();
                run.symbol_size = size_before;
                break;
            }
            data.push(symbol);
        }
        let size = run.symbol_size as usize;
        for symbol in &mut data {
            symbol.resize(size, 0);
        }
        run.symbols = parity::encode(&data.concat(), run.symbol_size)?;
        run.symbols.truncate(symbols as usize * size);
        for (id, _) in &run.members {
            self.queue.of_mut(*id).mark_in_run(*id, true);
        }
        self.runs.insert(first, run);
        Some(size as u32)
    }

    /// Returns a symbol of parity over the run that begins with `first`.
    pub(crate) fn run_symbol(&self, first: BlockId, index: u32, at: Time) -> Option<(RunParity, &[u8])> {
        let run = self.runs.get(&first)?;
        let symbol = run.symbols.chunks(run.symbol_size as usize).nth(index as usize)?;
        Some((run.header(at, index), symbol))
    }

    /// Ends a run whose symbols were all written.
    pub(crate) fn end_run(&mut self, first: BlockId) {
        self.runs.remove(&first);
    }

    /// Handles the fate of parity over a run. If none of it left, its blocks may join another one.
    pub(crate) fn on_run(&mut self, first: BlockId, symbols: &Range<u32>, fate: ParityFate) {
        let run = if fate == ParityFate::Acked { None } else { self.runs.remove(&first) };
        let never_left = fate == ParityFate::Unsent && symbols.start == 0;
        for (id, _) in run.filter(|_| never_left).into_iter().flat_map(|run| run.members) {
            self.queue.of_mut(id).mark_in_run(id, false);
        }
    }

    /// Handles the peer's report that it has a block thanks to parity of a run.
    pub(crate) fn on_rebuilt(&mut self, id: BlockId) -> Option<Ended> {
        let block = self.queue.get(id).filter(|block| block.is_in_run() && block.fresh_bytes() == 0)?;
        let all = 0..block.meta().len;
        self.queue.mark_acked(id, all);
        self.payloads.get_mut(&id)?.end_known = true;
        self.end_if_complete(id)
    }

    /// Returns the header for parts of a block, at its start.
    pub(crate) fn header(&self, id: BlockId, at: Time) -> Option<Data> {
        let meta = *self.queue.get(id)?.meta();
        Some(Data {
            block: id.0,
            reliable: meta.reliable,
            partial: meta.partial,
            previous: self.payloads.get(&id)?.previous,
            priority: meta.priority,
            offset: 0,
            total: self.total(id),
            channel: meta.channel,
            left: self.time_left(&meta, at).map(Span::micros),
            sent: Stamp::at(at),
        })
    }
}
