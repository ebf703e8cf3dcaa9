//! Any sequence of chunks, cancellations, polls and times: memory stays bounded, and every block
//! that the inbox registered has exactly one outcome, and arrives intact and in order.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use squall_proto::{
    Config, Limits,
    inbox::{Inbox, InboxError, InboxEvent, Label, Part},
    parity,
    sched::{PathId, Span, Time},
    wire::{Cancel, CancelReason, Data, Repair, Stamp},
};

const OPEN_BLOCKS: usize = 6;

/// Returns limits that short inputs reach.
fn limits() -> Limits {
    Config::default().max_block(500).reassembly(1200).open_blocks(OPEN_BLOCKS).limits
}

/// Panics if the inbox violates a property.
pub(crate) fn check(input: &[u8]) {
    let mut run = Run::new();
    let mut input = Input(input);
    while let Some(op) = input.byte() {
        let answer = run.step(op, &mut input);
        run.check_stalls();
        run.check_memory();
        if answer.is_err() {
            // The session would be closed.
            break;
        }
    }
    run.finish();
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn next(&mut self) -> u64 {
        self.byte().unwrap_or(0).into()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Arrived,
    Missed,
}

struct Run {
    inbox: Inbox,
    now: Time,
    /// Predecessor of each registered block, if it is ordered.
    before: HashMap<u64, Option<u64>>,
    /// Blocks that claim to follow this one.
    claims: HashMap<u64, HashSet<u64>>,
    fates: HashMap<u64, Fate>,
    /// Bytes of blocks that were handed over in parts.
    told: HashMap<u64, u32>,
}

impl Run {
    fn new() -> Self {
        let mut inbox = Inbox::new(limits());
        inbox.set_reports_stalls(true);
        Self {
            inbox,
            now: Time::EPOCH,
            before: HashMap::new(),
            claims: HashMap::new(),
            fates: HashMap::new(),
            told: HashMap::new(),
        }
    }

    fn step(&mut self, op: u8, input: &mut Input<'_>) -> Result<(), InboxError> {
        match op & 7 {
            0..=3 => self.data(op, input),
            4 => self.cancel(op, input),
            5 => {
                self.now += Span::from_micros(input.next() * 500);
                self.inbox.on_time(self.now);
                assert!(self.inbox.timeout().is_none_or(|at| at > self.now), "what is due is done");
                Ok(())
            }
            6 => {
                if op >> 5 & 3 == 3 {
                    self.inbox.set_in_parts(u16::from(op >> 3 & 1), op & 0x80 == 0);
                }
                self.poll();
                Ok(())
            }
            _ => {
                while self.poll() {}
                Ok(())
            }
        }
    }

    fn check_stalls(&mut self) {
        self.inbox.watch(self.now);
        while let Some(stalled) = self.inbox.take_stalled() {
            for block in stalled.blocks() {
                assert!(self.before.contains_key(&block.0), "block {block:?} stalled, and is unheard of");
            }
        }
    }

    fn data(&mut self, op: u8, input: &mut Input<'_>) -> Result<(), InboxError> {
        let (block, previous) = place(op, input);
        let flags = input.next();
        let total = 2 * input.next() + 2;
        let offset = 2 * input.next() % total;
        let len = (1 + 2 * input.next()).min(total - offset);
        // With its length, without it, the end alone, or parity.
        let (offset, len) = if op >> 5 & 3 == 2 { (total, 0) } else { (offset, len) };
        let header = Data {
            block,
            reliable: flags & 1 == 0,
            partial: flags & 8 != 0,
            previous,
            priority: (flags >> 1 & 7) as u8,
            offset: offset as u32,
            total: (op >> 5 & 3 != 1).then_some(total as u32),
            channel: (flags >> 4 & 1) as u16,
            left: (flags & 0x20 != 0).then(|| (flags >> 6) * 20_000),
            sent: Stamp::at(self.now),
        };
        if op >> 5 & 3 == 3 {
            return self.parity(&header, total, offset / 2, PathId((flags & 7) as u8));
        }
        let payload: Vec<_> = (offset..offset + len).map(|at| content(block, at)).collect();
        self.inbox.on_data(self.now, PathId((flags & 7) as u8), Span::from_millis(10), &header, &payload)?;
        self.note(block, previous);
        Ok(())
    }

    /// Processes a symbol of the parity of a block.
    fn parity(&mut self, header: &Data, total: u64, index: u64, path: PathId) -> Result<(), InboxError> {
        let block = header.block;
        let size = total.div_ceil(1 + block % 8).next_multiple_of(2);
        let data: Vec<_> = (0..total).map(|at| content(block, at)).collect();
        let symbols = parity::encode(&data, size as u32).expect("has parity");
        let (index, symbol) = (0..)
            .zip(symbols.chunks(size as usize))
            .nth(index as usize % 8)
            .expect("there are eight or more");
        let repair = Repair { block: Data { offset: 0, ..header.clone() }, symbol_size: size as u32, index };
        self.inbox.on_repair(self.now, path, Span::from_millis(10), &repair, symbol)?;
        self.note(block, header.previous);
        Ok(())
    }

    fn cancel(&mut self, op: u8, input: &mut Input<'_>) -> Result<(), InboxError> {
        let (block, previous) = place(op, input);
        let reason = [CancelReason::Cancelled, CancelReason::Expired, CancelReason::Lost];
        let reason = reason[input.next() as usize % 3];
        self.inbox.on_cancel(self.now, &Cancel { block, reason, priority: 3, channel: 0, previous })?;
        self.note(block, previous);
        Ok(())
    }

    fn note(&mut self, block: u64, previous: Option<u64>) {
        let before = previous.filter(|back| *back > 0).map(|back| block - back);
        if let std::collections::hash_map::Entry::Vacant(new) = self.before.entry(block) {
            new.insert(before);
            if let Some(before) = before {
                self.claims.entry(before).or_default().insert(block);
            }
        }
    }

    fn poll(&mut self) -> bool {
        let Some(event) = self.inbox.poll() else { return false };
        match event {
            InboxEvent::Arrived(arrived) => {
                let id = arrived.id.0;
                assert_unharmed(id, 0, &arrived.data, &arrived.missing);
                assert!(self.may_be_told(id), "block {id} is out of order");
                self.fate(id, Fate::Arrived);
            }
            InboxEvent::Part(part) => self.part(&part),
            InboxEvent::Expired(label) | InboxEvent::Cancelled(label, _) | InboxEvent::Refused(label, _) => {
                self.missed(label);
            }
        }
        true
    }

    fn part(&mut self, part: &Part) {
        let id = part.label.id.0;
        let told = self.told.entry(id).or_default();
        assert_eq!(part.offset, *told, "parts of block {id} follow one another");
        assert_unharmed(id, *told, &part.data, &part.missing);
        assert!(part.is_last || part.missing.is_empty(), "more of block {id} may come");
        *told += part.data.len() as u32;
        assert!(*told <= limits().max_block);
        assert!(self.may_be_told(id), "block {id} is out of order");
        assert!(!self.fates.contains_key(&id), "nothing follows the end");
        if part.is_last {
            self.fate(id, Fate::Arrived);
        }
    }

    fn missed(&mut self, label: Label) {
        self.fate(label.id.0, Fate::Missed);
    }

    fn fate(&mut self, id: u64, fate: Fate) {
        assert!(self.before.contains_key(&id), "block {id} is unheard of");
        assert!(self.fates.insert(id, fate).is_none(), "block {id} ended twice");
    }

    /// `true` if all predecessors of an ordered block have arrived, or never will. There is no
    /// guarantee if two blocks claim the same place.
    fn may_be_told(&self, mut id: u64) -> bool {
        while let Some(before) = self.before.get(&id).copied().flatten() {
            let contested = self.claims.get(&before).is_some_and(|claims| claims.len() > 1);
            if contested || self.fates.get(&before) == Some(&Fate::Arrived) {
                return true;
            }
            let unreported = self.inbox.unreported() > 0 && self.before.contains_key(&before);
            if !unreported && !self.fates.contains_key(&before) {
                return false;
            }
            id = before;
        }
        true
    }

    fn check_memory(&self) {
        assert!(self.inbox.held_bytes() <= limits().reassembly);
        assert!(self.inbox.credit() <= limits().reassembly);
    }

    fn finish(mut self) {
        let mut events = 0;
        while self.poll() {
            events += 1;
        }
        assert!(events <= 5 * OPEN_BLOCKS, "{events} events were queued");
        for label in self.inbox.end_all() {
            self.missed(label);
        }
        assert_eq!(self.inbox.held_bytes(), 0);
        assert_eq!(self.inbox.timeout(), None);
        let told = self.fates.len() as u64 + self.inbox.unreported();
        assert_eq!(told, self.before.len() as u64, "every block has a fate");
    }
}

/// Returns the id of a block, mostly small, and the distance to its predecessor.
fn place(op: u8, input: &mut Input<'_>) -> (u64, Option<u64>) {
    let near = input.next();
    let block = if op & 0x80 == 0 { near } else { near << 13 };
    let previous = match op >> 3 & 3 {
        0 | 1 => None,
        2 => Some(1.min(block)),
        _ => Some(input.next().min(block)),
    };
    (block, previous)
}

/// Checks that the data from an offset on equals the sent data, and that missing ranges are
/// disjoint and zero.
fn assert_unharmed(id: u64, start: u32, data: &[u8], missing: &[Range<u32>]) {
    let end = start + data.len() as u32;
    assert!(missing.windows(2).all(|two| two[0].end < two[1].start), "ranges of block {id}: {missing:?}");
    assert!(missing.iter().all(|range| range.start < range.end && range.start <= end), "{missing:?}");
    for (byte, at) in data.iter().zip(start..) {
        let is_missing = missing.iter().any(|range| range.contains(&at));
        let sent = if is_missing { 0 } else { content(id, at.into()) };
        assert_eq!(*byte, sent, "byte {at} of block {id} is not what was sent");
    }
}

/// Returns the byte of a block at an offset.
fn content(block: u64, at: u64) -> u8 {
    (block.wrapping_mul(31).wrapping_add(at) % 251) as u8
}
