//! Received blocks: reassembly in bounded memory, ordering, expiry.
//!
//! The memory that a peer can occupy is bounded by [`Limits`], whatever it sends:
//!
//! - bytes of blocks, begun or whole and not yet taken: [`Limits::reassembly`], charged with a
//!   block's full length before its buffer is allocated, or with its bytes as it grows;
//! - the buffers of growing blocks: a quarter more, so that their bytes are seldom moved;
//! - the ranges of received bytes, or of missing bytes of a block that is handed over in part: a
//!   sixty-fourth of that, as one span in 1,024 bytes is kept;
//! - parity of incomplete blocks is charged like their bytes; its buffers use a quarter more, and a
//!   sixteenth for its numbers;
//! - temporarily, to rebuild a block: 5 MiB;
//! - small blocks that are kept for the parity of runs, and that parity of at most 64 runs, each
//!   with its overhead: an eighth of [`Limits::reassembly`] each, at most 256 KiB;
//! - records of blocks, places in ordered channels, events: 1 KiB for each of
//!   [`Limits::open_blocks`];
//! - if stalls are to be reported, the cadence of each channel with an arrived block: 192 KiB;
//! - the record of ended blocks: 512 KiB, as ids reach at most 2²⁰ past the oldest one not ended.
//!
//! `tests/flood.rs` measures it.

mod event;
mod finished;
mod order;
mod parity;
mod parts;
mod runs;
mod spans;
mod symbols;
#[cfg(test)]
mod tests;

pub use event::{Arrived, InboxError, InboxEvent, Label, Part};

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    ops::Range,
};

use squall_sched::{BlockId, MAX_BLOCK, MAX_PATHS, PathId, Span, Time};

use self::{
    finished::Finished,
    order::Order,
    parts::Parts,
    runs::Runs,
    spans::{Spans, spans_allowed},
    symbols::Held,
};
use crate::{
    Limits,
    outbox::ID_SPAN,
    stalls::Stalls,
    wire::{Cancel, Data, RefuseReason, Stalled, Stamp},
};

#[derive(Debug)]
struct Partial {
    label: Label,
    reliable: bool,
    /// Its received part is handed over when it ends incomplete.
    is_partial: bool,
    previous: Option<u64>,
    deadline: Option<Time>,
    first_at: Time,
    /// Length, once it is final.
    total: Option<u32>,
    /// Bytes that were handed over, as parts.
    handed_over: u32,
    /// Length so far, which is charged.
    len: u32,
    /// Its bytes, up to the last one that has arrived or further.
    buffer: Vec<u8>,
    have: Spans,
    /// Its parity, if any has arrived.
    parity: Option<Box<Held>>,
    over: [u32; MAX_PATHS],
}

/// Blocks that are being received.
#[derive(Debug)]
pub struct Inbox {
    limits: Limits,
    open: HashMap<u64, Box<Partial>>,
    deadlines: BTreeSet<(Time, u64)>,
    finished: Finished,
    order: Order,
    parts: Parts,
    runs: Runs,
    /// Bytes of partial blocks, of whole ones that wait for their turn, and of those that the
    /// application has not taken yet.
    held: u64,
    /// The part of `held` that waits for the application or for its turn.
    ready: u64,
    /// The latest credit announced to the peer; at first all that it may ever have.
    announced_credit: u64,
    events: VecDeque<InboxEvent>,
    /// Refusals for the sender.
    refusals: VecDeque<(BlockId, RefuseReason)>,
    duplicates: u64,
    rebuilt: u64,
    expired: u64,
    unreported: u64,
    /// Set if the sender requests reports of stalls.
    stalls: Option<Stalls>,
    /// Number of events at the front that were searched for stalls.
    watched: usize,
}

impl Inbox {
    /// Creates an empty inbox.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: HashMap::new(),
            deadlines: BTreeSet::new(),
            finished: Finished::default(),
            order: Order::default(),
            parts: Parts::default(),
            runs: Runs::default(),
            held: 0,
            ready: 0,
            announced_credit: limits.reassembly,
            events: VecDeque::new(),
            refusals: VecDeque::new(),
            duplicates: 0,
            rebuilt: 0,
            expired: 0,
            unreported: 0,
            stalls: None,
            watched: 0,
        }
    }

    /// Sets all blocks below this id as ended.
    #[cfg(test)]
    pub(crate) fn start_at(&mut self, id: u64) {
        self.finished.start_at(id);
    }

    /// Sets the limits from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Processes a chunk, as [`Items`](crate::wire::Items) decodes it. `transit` is an estimate of
    /// its one-way delay: the deadline is given as the time left when the chunk was sent.
    ///
    /// # Errors
    /// If the peer violates the protocol; the session must be closed.
    pub fn on_data(
        &mut self,
        now: Time,
        path: PathId,
        transit: Span,
        header: &Data,
        payload: &[u8],
    ) -> Result<(), InboxError> {
        self.take_chunk(now, path, transit, header, payload)?;
        if self.runs.wait() { self.rebuild_from_runs(now, path, transit) } else { Ok(()) }
    }

    fn take_chunk(
        &mut self,
        now: Time,
        path: PathId,
        transit: Span,
        header: &Data,
        payload: &[u8],
    ) -> Result<(), InboxError> {
        let id = header.block;
        if self.finished.contains(id) {
            self.duplicates += payload.len() as u64;
            return Ok(());
        }
        if self.open_for(now, transit, header, need(header, payload))? {
            self.fill(now, path, header, payload)?;
        }
        Ok(())
    }

    /// Begins a block whose length so far is `bytes`, unless it was begun before. Returns `true` if
    /// it is open.
    fn open_for(&mut self, now: Time, transit: Span, header: &Data, bytes: u32) -> Result<bool, InboxError> {
        let id = header.block;
        self.check_window(id)?;
        if !self.open.contains_key(&id) {
            let label = Label { id: BlockId(id), channel: header.channel, priority: header.priority };
            if let Some(reason) = self.why_not(bytes) {
                self.refuse(label, header.previous, reason)?;
                return Ok(false);
            }
            self.begin(now, transit, header, label)?;
        }
        Ok(true)
    }

    fn check_window(&self, id: u64) -> Result<(), InboxError> {
        let oldest = self.finished.floor();
        if id >= oldest + ID_SPAN { Err(InboxError::TooFarAhead { id, oldest }) } else { Ok(()) }
    }

    /// Returns the reason for not beginning a block of this length so far.
    fn why_not(&self, bytes: u32) -> Option<RefuseReason> {
        if self.open.len() + self.events.len() + self.order.whole() >= self.limits.open_blocks {
            return Some(RefuseReason::TooManyBlocks);
        }
        self.why_not_longer(0, bytes, 0)
    }

    /// Returns the reason for not extending a block, by bytes and by bytes of parity.
    fn why_not_longer(&self, from: u32, to: u32, parity: u32) -> Option<RefuseReason> {
        let more = u64::from(to.saturating_sub(from)) + u64::from(parity);
        if to > self.limits.max_block {
            Some(RefuseReason::TooLarge)
        } else if self.held + more > self.limits.reassembly {
            Some(RefuseReason::NoMemory)
        } else {
            None
        }
    }

    fn refuse(
        &mut self,
        label: Label,
        previous: Option<u64>,
        reason: RefuseReason,
    ) -> Result<(), InboxError> {
        if self.events.len() >= 2 * self.limits.open_blocks {
            return Err(InboxError::Flood);
        }
        self.note_refusal(label.id, reason);
        self.skip_unseen(label.id.0, previous, Some(InboxEvent::Refused(label, reason)))
    }

    /// Queues a refusal. The limit is the number that the application may leave unread; a session
    /// takes each at once.
    fn note_refusal(&mut self, id: BlockId, reason: RefuseReason) {
        if self.refusals.len() < 2 * self.limits.open_blocks {
            self.refusals.push_back((id, reason));
        }
    }

    fn begin(&mut self, now: Time, transit: Span, header: &Data, label: Label) -> Result<(), InboxError> {
        let id = header.block;
        if let Some(before) = self.waits_for(id, header.previous) {
            self.order.open(before, id).map_err(|_| InboxError::Contradiction(id))?;
        }
        let deadline = header.left.map(|left| now + (Span::from_micros(left) - transit));
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id));
        }
        let partial = Partial {
            label,
            reliable: header.reliable,
            is_partial: header.partial,
            previous: header.previous,
            deadline,
            first_at: now,
            total: None,
            handed_over: 0,
            len: 0,
            buffer: Vec::new(),
            have: Spans::default(),
            parity: None,
            over: [0; MAX_PATHS],
        };
        self.open.insert(id, Box::new(partial));
        Ok(())
    }

    /// Returns the block before `id`, unless that one is settled.
    fn waits_for(&self, id: u64, previous: Option<u64>) -> Option<u64> {
        before(id, previous).filter(|b| !self.finished.contains(*b) || self.order.is_waiting(*b))
    }

    fn fill(&mut self, now: Time, path: PathId, header: &Data, payload: &[u8]) -> Result<(), InboxError> {
        let id = header.block;
        let (to, why_not) = match self.open.get(&id) {
            None => return Ok(()),
            Some(partial) if !partial.agrees(header, payload) => return Err(InboxError::Contradiction(id)),
            Some(partial) => {
                let (from, to) = (partial.len, need(header, payload));
                (to.max(from), self.why_not_longer(from, to, 0))
            }
        };
        if let Some(reason) = why_not {
            self.refuse_begun(id, reason);
            return Ok(());
        }
        let Some(partial) = self.open.get_mut(&id) else { return Ok(()) };
        self.held += partial.stretch(to, header.total);
        let (start, end) = (header.offset as usize, header.offset as usize + payload.len());
        partial.write(start, payload);
        let over = &mut partial.over[usize::from(path.0)];
        *over = over.saturating_add(payload.len() as u32);
        if !payload.is_empty() {
            let news = partial.have.insert(start as u32, end as u32);
            self.duplicates += payload.len() as u64 - u64::from(news);
        }
        let is_dust = partial.have.len() > spans_allowed(to);
        if partial.total.is_some_and(|total| partial.have.covers(total)) {
            self.complete(now, id);
        } else if partial.rebuild() {
            self.rebuilt += 1;
            self.complete(now, id);
        } else if is_dust {
            self.refuse_begun(id, RefuseReason::NoMemory);
        } else {
            self.note_growth(id);
        }
        Ok(())
    }

    fn refuse_begun(&mut self, id: u64, reason: RefuseReason) {
        self.note_refusal(BlockId(id), reason);
        self.abandon(id, |label| InboxEvent::Refused(label, reason));
    }

    fn complete(&mut self, now: Time, id: u64) {
        let Some(partial) = self.close(id) else { return };
        self.keep_for_runs(&partial.header(), &partial.buffer);
        self.hand_over(now, id, *partial, Vec::new());
    }

    /// Ends a block incomplete. Its received part is handed over if it is partial, else it is
    /// missed.
    fn end_incomplete(&mut self, now: Time, id: u64, event: impl FnOnce(Label) -> InboxEvent) {
        let has_use = |partial: &Partial| partial.is_partial && partial.have.len() > 0;
        if !self.open.get(&id).is_some_and(|partial| has_use(partial)) {
            self.abandon(id, event);
            return;
        }
        let Some(mut partial) = self.close(id) else { return };
        let missing = partial.have.gaps(partial.total.unwrap_or(MAX_BLOCK));
        partial.buffer.resize(partial.len as usize, 0);
        self.hand_over(now, id, *partial, missing);
    }

    fn hand_over(&mut self, now: Time, id: u64, partial: Partial, missing: Vec<Range<u32>>) {
        let len = partial.buffer.len() as u64;
        self.held += len;
        self.ready += len;
        let arrived = Arrived {
            id: partial.label.id,
            data: partial.buffer.into(),
            missing,
            channel: partial.label.channel,
            priority: partial.label.priority,
            reliable: partial.reliable,
            first_at: partial.first_at,
            whole_at: now,
            deadline: partial.deadline,
            over: partial.over,
            handed_over: partial.handed_over,
        };
        let next = self.order.arrive(before(id, partial.previous), Box::new(arrived), &mut self.events);
        self.on_turn(next);
    }

    /// Handles the sender's cancellation of a block. The received part of a partial one is handed
    /// over.
    ///
    /// # Errors
    /// If the peer violates the protocol; the session must be closed.
    pub fn on_cancel(&mut self, now: Time, cancel: &Cancel) -> Result<(), InboxError> {
        let id = cancel.block;
        if self.finished.contains(id) {
            return Ok(());
        }
        self.check_window(id)?;
        if self.open.contains_key(&id) {
            self.end_incomplete(now, id, |label| InboxEvent::Cancelled(label, cancel.reason));
            return Ok(());
        }
        let label = Label { id: BlockId(id), channel: cancel.channel, priority: cancel.priority };
        let room = self.events.len() < self.limits.open_blocks;
        self.skip_unseen(id, cancel.previous, room.then_some(InboxEvent::Cancelled(label, cancel.reason)))?;
        self.unreported += u64::from(!room);
        Ok(())
    }

    /// Skips a block without any received bytes that will not arrive; it must not delay those
    /// behind it.
    fn skip_unseen(
        &mut self,
        id: u64,
        previous: Option<u64>,
        event: Option<InboxEvent>,
    ) -> Result<(), InboxError> {
        let waits_for = self.waits_for(id, previous);
        if let Some(before) = waits_for {
            if self.order.len() >= 2 * self.limits.open_blocks {
                return Err(InboxError::Flood);
            }
            self.order.open(before, id).map_err(|_| InboxError::Contradiction(id))?;
        }
        self.finished.insert(id);
        self.events.extend(event);
        let next = self.order.skip(waits_for, id, &mut self.events);
        self.on_turn(next);
        Ok(())
    }

    /// Ends blocks that have expired.
    pub fn on_time(&mut self, now: Time) {
        while let Some(&(at, id)) = self.deadlines.first() {
            if at > now {
                break;
            }
            self.expired += 1;
            self.end_incomplete(now, id, InboxEvent::Expired);
        }
    }

    /// Returns when [`Self::on_time`] has work next.
    pub fn timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    fn abandon(&mut self, id: u64, event: impl FnOnce(Label) -> InboxEvent) {
        let Some(partial) = self.close(id) else { return };
        self.events.push_back(event(partial.label));
        let next = self.order.skip(before(id, partial.previous), id, &mut self.events);
        self.on_turn(next);
    }

    fn close(&mut self, id: u64) -> Option<Box<Partial>> {
        let partial = self.open.remove(&id)?;
        if let Some(deadline) = partial.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        self.parts.forget(id);
        self.held -= u64::from(partial.len) + partial.parity_bytes();
        self.finished.insert(id);
        Some(partial)
    }

    /// Returns the next event.
    pub fn poll(&mut self) -> Option<InboxEvent> {
        self.poll_on(|_| true)
    }

    /// Returns the next event on wanted channels.
    pub fn poll_on(&mut self, wanted: impl Fn(u16) -> bool) -> Option<InboxEvent> {
        // A block that is whole leaves no part behind, and none is reported before its turn: ends
        // precede parts.
        let Some(index) = self.events.iter().position(|event| wanted(event.channel())) else {
            return self.poll_part(wanted);
        };
        let event = self.events.remove(index)?;
        self.watched -= usize::from(index < self.watched);
        let InboxEvent::Arrived(arrived) = event else { return Some(event) };
        let len = arrived.data.len() as u64;
        self.held -= len;
        self.ready -= len;
        let in_parts = arrived.handed_over > 0 || self.parts.are_wanted(arrived.channel);
        let whole = |arrived| InboxEvent::Arrived(arrived);
        Some(if in_parts { InboxEvent::Part(Box::new(arrived.into_last_part())) } else { whole(arrived) })
    }

    /// Takes a block refused since the last call, to be reported to the sender at once: the
    /// application may be slow to fetch the event.
    pub fn take_refusal(&mut self) -> Option<(BlockId, RefuseReason)> {
        self.refusals.pop_front()
    }

    /// Sets whether stalled blocks are reported, with [`Self::watch`] and [`Self::take_stalled`].
    /// Default: `false`.
    pub fn set_reports_stalls(&mut self, on: bool) {
        if on != self.stalls.is_some() {
            self.stalls = on.then(Stalls::default);
            self.watched = self.events.len();
        }
    }

    /// Checks whether blocks that arrived since the last call stalled. To be called after each
    /// possible arrival.
    pub fn watch(&mut self, now: Time) {
        let Some(stalls) = &mut self.stalls else { return };
        for event in self.events.range(self.watched..) {
            if let InboxEvent::Arrived(arrived) = event {
                stalls.on_block(now, arrived.channel, arrived.id);
            }
        }
        self.watched = self.events.len();
    }

    /// Takes a report of stalled blocks for the sender.
    pub fn take_stalled(&mut self) -> Option<Stalled> {
        self.stalls.as_mut()?.take()
    }

    /// Returns a lost report of stalls, to be taken again.
    pub fn repeat_stalled(&mut self, report: Stalled) {
        if let Some(stalls) = &mut self.stalls {
            stalls.repeat(report);
        }
    }

    /// Returns `true` if an event waits.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty() || self.parts.any()
    }

    /// Ends all blocks that were begun and not reported, and returns their labels: incomplete ones,
    /// and whole ones that wait for another. Events that wait for [`Self::poll`] stay.
    pub fn end_all(&mut self) -> Vec<Label> {
        let ids: Vec<_> = self.open.keys().copied().collect();
        let mut labels: Vec<_> = ids.into_iter().filter_map(|id| Some(self.close(id)?.label)).collect();
        for arrived in self.order.end_all() {
            let len = arrived.data.len() as u64;
            self.held -= len;
            self.ready -= len;
            let Arrived { id, channel, priority, .. } = arrived;
            labels.push(Label { id, channel, priority });
        }
        labels.sort_by_key(|l| l.id);
        labels
    }

    /// Returns the bytes of blocks that may be in flight at a time.
    pub fn credit(&self) -> u64 {
        self.limits.reassembly.saturating_sub(self.ready)
    }

    /// Returns the credit, and records it as announced to the peer.
    pub(crate) fn announce_credit(&mut self) -> u64 {
        self.announced_credit = self.credit();
        self.announced_credit
    }

    /// Returns `true` if the credit should be announced to the peer: it is a quarter more than the
    /// last announcement, or enough for the largest block, which with less would wait for good.
    pub(crate) fn has_more_credit(&self) -> bool {
        let is_more = self.credit() >= self.announced_credit.saturating_add(self.limits.reassembly / 4);
        // In the units of the announcement.
        let largest = (self.limits.reassembly >> 10).min(u64::from(self.limits.max_block).div_ceil(1 << 10));
        let fits_again = self.announced_credit >> 10 < largest && largest <= self.credit() >> 10;
        is_more || fits_again
    }

    /// Returns the bytes of memory that blocks use now; never more than [`Limits::reassembly`].
    pub fn held_bytes(&self) -> u64 {
        self.held
    }

    /// Returns the bytes that arrived in vain: duplicates, and bytes of ended blocks.
    pub fn duplicate_bytes(&self) -> u64 {
        self.duplicates
    }

    /// Returns the number of blocks that were completed with parity, their own or that of a run.
    pub fn rebuilt_blocks(&self) -> u64 {
        self.rebuilt
    }

    /// Returns the number of blocks whose deadline passed while incomplete.
    pub fn expired_blocks(&self) -> u64 {
        self.expired
    }

    /// Returns the number of blocks that the sender cancelled before any of their bytes arrived,
    /// and that were not reported because [`Limits::open_blocks`] other events waited for the
    /// application.
    pub fn unreported(&self) -> u64 {
        self.unreported
    }
}

impl Partial {
    /// Returns its attributes as a header, without times.
    fn header(&self) -> Data {
        Data {
            block: self.label.id.0,
            reliable: self.reliable,
            partial: self.is_partial,
            previous: self.previous,
            priority: self.label.priority,
            offset: 0,
            total: self.total,
            channel: self.label.channel,
            left: None,
            sent: Stamp::at(Time::EPOCH),
        }
    }

    /// Returns `true` if a chunk agrees with earlier ones about the block.
    fn agrees(&self, header: &Data, payload: &[u8]) -> bool {
        let fits = match (self.total, header.total) {
            (Some(before), Some(now)) => before == now,
            (Some(before), None) => need(header, payload) <= before,
            (None, Some(now)) => self.len <= now,
            (None, None) => true,
        };
        fits && self.label.channel == header.channel && self.previous == header.previous
    }

    /// Makes room for `len` bytes; returns the number of additional bytes.
    fn stretch(&mut self, len: u32, total: Option<u32>) -> u64 {
        self.total = self.total.or(total);
        let more = len - std::mem::replace(&mut self.len, len);
        let len = len as usize;
        if len > self.buffer.capacity() {
            let is_final = self.total.is_some() || self.buffer.is_empty();
            let room = if is_final { len } else { len.max(self.buffer.len() + self.buffer.len() / 4) };
            self.buffer.reserve_exact(room - self.buffer.len());
        }
        u64::from(more)
    }

    /// Writes bytes. Most arrive in order, and need no zeroed memory.
    fn write(&mut self, start: usize, payload: &[u8]) {
        let gap = start.saturating_sub(self.buffer.len());
        if gap > MAX_ZEROED {
            // Zeroed memory from the system is not backed by pages until it is written.
            let mut buffer = vec![0; self.len as usize];
            buffer[..self.buffer.len()].copy_from_slice(&self.buffer);
            self.buffer = buffer;
        } else if gap > 0 && !payload.is_empty() {
            self.buffer.resize(start, 0);
        }
        let known = self.buffer.len().saturating_sub(start).min(payload.len());
        if known > 0 {
            self.buffer[start..start + known].copy_from_slice(&payload[..known]);
        }
        self.buffer.extend_from_slice(&payload[known..]);
    }
}

/// Largest number of bytes that are zeroed for a chunk that arrived early.
const MAX_ZEROED: usize = 64 << 10;

/// Returns the bytes of the block that a chunk implies: all, or up to its end.
fn need(header: &Data, payload: &[u8]) -> u32 {
    header.total.unwrap_or(header.offset + payload.len() as u32)
}

/// Returns the block before `id` on its ordered channel.
fn before(id: u64, previous: Option<u64>) -> Option<u64> {
    previous.filter(|back| *back > 0).and_then(|back| id.checked_sub(back))
}
