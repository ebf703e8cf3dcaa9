//! Blocks on their way in: reassembly in bounded memory, ordering, expiry.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use bytes::Bytes;
use squall_sched::{BlockId, MAX_PATHS, Micros, PathId};

use crate::{
    Limits,
    outbox::ID_SPAN,
    wire::{Cancel, CancelReason, Data, RefuseReason},
};

/// A block that arrived whole, in session time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The sender's id for it.
    pub id: BlockId,
    /// Its bytes.
    pub data: Bytes,
    /// Its channel.
    pub channel: u16,
    /// Its priority.
    pub priority: u8,
    /// Whether it is reliable.
    pub reliable: bool,
    /// When its first byte arrived.
    pub first_at: Micros,
    /// When it was whole.
    pub whole_at: Micros,
    /// Bytes that came over each path.
    pub over: [u32; MAX_PATHS],
}

/// What the inbox tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxEvent {
    /// A block is whole, and its turn has come.
    Arrived(Arrived),
    /// The deadline of an incomplete block passed.
    Expired(Label),
    /// The sender gave an incomplete block up.
    GivenUp(Label, CancelReason),
    /// A block that this side will not take; the sender is to be told.
    Refused(Label, RefuseReason),
}

/// What is known of a block without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The sender's id for it.
    pub id: BlockId,
    /// Its channel.
    pub channel: u16,
    /// Its priority.
    pub priority: u8,
}

/// What a peer may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    /// A block so far ahead of the oldest open one that no honest sender would have begun it.
    #[error("block {id} is more than {ID_SPAN} ahead of block {oldest}, which is still open")]
    TooFarAhead {
        /// Its id.
        id: u64,
        /// The oldest block not finished.
        oldest: u64,
    },
    /// More blocks refused than an honest sender would try.
    #[error("flood of blocks beyond the limits")]
    Flood,
    /// Chunks of one block that do not agree about it.
    #[error("chunks of block {0} contradict one another")]
    Contradiction(u64),
}

#[derive(Debug)]
struct Partial {
    label: Label,
    reliable: bool,
    previous: Option<u64>,
    deadline: Option<Micros>,
    first_at: Micros,
    buffer: Vec<u8>,
    have: Spans,
    over: [u32; MAX_PATHS],
}

/// Blocks on their way in.
#[derive(Debug)]
pub struct Inbox {
    limits: Limits,
    open: HashMap<u64, Partial>,
    deadlines: BTreeSet<(Micros, u64)>,
    finished: Finished,
    channels: HashMap<u16, Ordered>,
    /// Bytes taken by partial blocks, by whole ones that wait for their turn, and by those that the
    /// application has not taken yet.
    held: u64,
    /// Of those, bytes that wait for the application or for their turn.
    ready: u64,
    ready_blocks: usize,
    events: VecDeque<InboxEvent>,
    duplicates: u64,
    expired: u64,
}

/// An ordered channel: whole blocks that wait for the one before them, by the id they wait for.
#[derive(Debug, Default)]
struct Ordered {
    waiting: HashMap<u64, Waiting>,
    /// Ids of what waits.
    pending: HashSet<u64>,
}

#[derive(Debug)]
enum Waiting {
    Whole(Arrived),
    /// A block that will never come, but knew its place.
    Hole(u64),
}

impl Inbox {
    /// An empty inbox.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: HashMap::new(),
            deadlines: BTreeSet::new(),
            finished: Finished::default(),
            channels: HashMap::new(),
            held: 0,
            ready: 0,
            ready_blocks: 0,
            events: VecDeque::new(),
            duplicates: 0,
            expired: 0,
        }
    }

    /// Takes in a chunk. `transit` is an estimate of its one-way delay: the deadline is told as the
    /// time left when the chunk was sent.
    ///
    /// # Errors
    /// If the peer breaks the protocol; the session must be closed.
    pub fn on_data(
        &mut self,
        now: Micros,
        path: PathId,
        transit: Micros,
        header: &Data,
        payload: &[u8],
    ) -> Result<(), InboxError> {
        let id = header.block;
        if self.finished.contains(id) {
            self.duplicates += payload.len() as u64;
            return Ok(());
        }
        if id >= self.finished.floor() + ID_SPAN {
            return Err(InboxError::TooFarAhead { id, oldest: self.finished.floor() });
        }
        let label = Label { id: BlockId(id), channel: header.channel, priority: header.priority };
        if !self.open.contains_key(&id) {
            if let Some(reason) = self.why_not(header) {
                return self.refuse(label, header.previous, reason);
            }
            self.begin(now, transit, header, label);
        }
        self.fill(now, path, header, payload)
    }

    fn why_not(&self, header: &Data) -> Option<RefuseReason> {
        if header.total > self.limits.block {
            Some(RefuseReason::TooLarge)
        } else if self.open.len() + self.events.len() + self.ready_blocks >= self.limits.open_blocks {
            Some(RefuseReason::TooManyBlocks)
        } else if self.held + u64::from(header.total) > self.limits.reassembly {
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
        self.finish(label.id.0);
        self.skip(label, previous);
        self.events.push_back(InboxEvent::Refused(label, reason));
        Ok(())
    }

    fn begin(&mut self, now: Micros, transit: Micros, header: &Data, label: Label) {
        let deadline = header.left.map(|left| now + left.saturating_sub(transit));
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, header.block));
        }
        self.held += u64::from(header.total);
        self.open.insert(
            header.block,
            Partial {
                label,
                reliable: header.reliable,
                previous: header.previous,
                deadline,
                first_at: now,
                buffer: vec![0; header.total as usize],
                have: Spans::default(),
                over: [0; MAX_PATHS],
            },
        );
    }

    fn fill(&mut self, now: Micros, path: PathId, header: &Data, payload: &[u8]) -> Result<(), InboxError> {
        let id = header.block;
        let Some(partial) = self.open.get_mut(&id) else { return Ok(()) };
        let agrees = partial.buffer.len() == header.total as usize
            && partial.label.channel == header.channel
            && partial.previous == header.previous;
        if !agrees {
            return Err(InboxError::Contradiction(id));
        }
        let (start, end) = (header.offset as usize, header.offset as usize + payload.len());
        partial.buffer[start..end].copy_from_slice(payload);
        partial.over[usize::from(path.0)] += payload.len() as u32;
        let news = partial.have.insert(start as u32, end as u32);
        self.duplicates += payload.len() as u64 - u64::from(news);
        if partial.have.covers(header.total) {
            return self.complete(now, id);
        }
        if partial.have.len() > spans_allowed(header.total) {
            // An honest sender cuts blocks into chunks of about a packet each.
            self.give_up(id, |label| InboxEvent::Refused(label, RefuseReason::NoMemory));
        }
        Ok(())
    }

    fn complete(&mut self, now: Micros, id: u64) -> Result<(), InboxError> {
        let Some(partial) = self.close(id) else { return Ok(()) };
        let len = partial.buffer.len() as u64;
        self.held += len;
        self.ready += len;
        self.ready_blocks += 1;
        let arrived = Arrived {
            id: partial.label.id,
            data: partial.buffer.into(),
            channel: partial.label.channel,
            priority: partial.label.priority,
            reliable: partial.reliable,
            first_at: partial.first_at,
            whole_at: now,
            over: partial.over,
        };
        match partial.previous {
            Some(back) if back > 0 => return self.in_turn(arrived, id - back),
            Some(_) => self.deliver(arrived),
            None => self.events.push_back(InboxEvent::Arrived(arrived)),
        }
        Ok(())
    }

    /// Delivers an ordered block, now or after `previous`.
    fn in_turn(&mut self, arrived: Arrived, previous: u64) -> Result<(), InboxError> {
        let channel = self.channels.entry(arrived.channel).or_default();
        if self.finished.contains(previous) && !channel.pending.contains(&previous) {
            self.deliver(arrived);
        } else if channel.waiting.contains_key(&previous) {
            // Two blocks cannot both follow the same one.
            return Err(InboxError::Contradiction(arrived.id.0));
        } else {
            channel.pending.insert(arrived.id.0);
            channel.waiting.insert(previous, Waiting::Whole(arrived));
        }
        Ok(())
    }

    fn deliver(&mut self, arrived: Arrived) {
        let (channel, id) = (arrived.channel, arrived.id.0);
        self.events.push_back(InboxEvent::Arrived(arrived));
        self.release_after(channel, id);
    }

    /// The block `id` of an ordered channel is out of the way: those that waited for it follow.
    fn release_after(&mut self, channel: u16, mut id: u64) {
        let Some(channel) = self.channels.get_mut(&channel) else { return };
        while let Some(waiting) = channel.waiting.remove(&id) {
            id = match &waiting {
                Waiting::Whole(arrived) => arrived.id.0,
                Waiting::Hole(hole) => *hole,
            };
            channel.pending.remove(&id);
            if let Waiting::Whole(arrived) = waiting {
                self.events.push_back(InboxEvent::Arrived(arrived));
            }
        }
    }

    /// A block that will not come must not hold up those behind it.
    fn skip(&mut self, label: Label, previous: Option<u64>) {
        let Some(back) = previous else { return };
        let id = label.id.0;
        let channel = self.channels.entry(label.channel).or_default();
        let before = id - back;
        let waits = back > 0 && (!self.finished.contains(before) || channel.pending.contains(&before));
        // A hole that cannot be kept is forgotten: what follows it may come too early, which only a
        // peer that breaks the rules can bring about.
        let room = channel.waiting.len() < self.limits.open_blocks && !channel.waiting.contains_key(&before);
        if waits && room {
            channel.pending.insert(id);
            channel.waiting.insert(before, Waiting::Hole(id));
        } else {
            self.release_after(label.channel, id);
        }
    }

    /// The sender gave a block up.
    ///
    /// # Errors
    /// If the peer breaks the protocol.
    pub fn on_cancel(&mut self, cancel: &Cancel) -> Result<(), InboxError> {
        let id = cancel.block;
        if self.finished.contains(id) {
            return Ok(());
        }
        if id >= self.finished.floor() + ID_SPAN {
            return Err(InboxError::TooFarAhead { id, oldest: self.finished.floor() });
        }
        if self.open.contains_key(&id) {
            self.give_up(id, |label| InboxEvent::GivenUp(label, cancel.reason));
        } else {
            let label = Label { id: BlockId(id), channel: cancel.channel, priority: cancel.priority };
            self.finish(id);
            self.skip(label, cancel.previous);
            // Nothing of it was ever here; an application too slow to listen need not hear of it.
            if self.events.len() < self.limits.open_blocks {
                self.events.push_back(InboxEvent::GivenUp(label, cancel.reason));
            }
        }
        Ok(())
    }

    /// Drops what has expired.
    pub fn on_time(&mut self, now: Micros) {
        while let Some(&(at, id)) = self.deadlines.first() {
            if at > now {
                break;
            }
            self.expired += 1;
            self.give_up(id, InboxEvent::Expired);
        }
    }

    /// When [`Self::on_time`] has something to do next.
    pub fn timeout(&self) -> Option<Micros> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    fn give_up(&mut self, id: u64, event: impl FnOnce(Label) -> InboxEvent) {
        let Some(partial) = self.close(id) else { return };
        self.skip(partial.label, partial.previous);
        self.events.push_back(event(partial.label));
    }

    fn close(&mut self, id: u64) -> Option<Partial> {
        let partial = self.open.remove(&id)?;
        if let Some(deadline) = partial.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        self.held -= partial.buffer.len() as u64;
        self.finish(id);
        Some(partial)
    }

    fn finish(&mut self, id: u64) {
        self.finished.insert(id);
    }

    /// The next thing to tell.
    pub fn poll(&mut self) -> Option<InboxEvent> {
        let event = self.events.pop_front()?;
        if let InboxEvent::Arrived(arrived) = &event {
            let len = arrived.data.len() as u64;
            self.held -= len;
            self.ready -= len;
            self.ready_blocks -= 1;
        }
        Some(event)
    }

    /// Whether there is something to tell.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Labels of all incomplete blocks, which end with the session.
    pub fn end_all(&mut self) -> Vec<Label> {
        let mut labels: Vec<_> = self.open.values().map(|p| p.label).collect();
        labels.sort_by_key(|l| l.id);
        self.open.clear();
        self.deadlines.clear();
        self.held = self.ready;
        labels
    }

    /// Bytes of blocks that may be under way at a time.
    pub fn credit(&self) -> u64 {
        self.limits.reassembly.saturating_sub(self.ready)
    }

    /// Bytes of memory that blocks take now.
    pub fn held_bytes(&self) -> u64 {
        self.held
    }

    /// Bytes that arrived although they were there already.
    pub fn duplicate_bytes(&self) -> u64 {
        self.duplicates
    }

    /// Blocks whose deadline passed while incomplete.
    pub fn expired_blocks(&self) -> u64 {
        self.expired
    }
}

/// Separate spans of a block that are kept before it counts as an attack on memory.
fn spans_allowed(total: u32) -> usize {
    64 + total as usize / 256
}

/// Byte ranges that are there, merged.
#[derive(Debug, Default)]
struct Spans(Vec<(u32, u32)>);

impl Spans {
    /// Adds a range; returns how many of its bytes are news.
    fn insert(&mut self, start: u32, end: u32) -> u32 {
        let first = self.0.partition_point(|s| s.1 < start);
        let last = self.0.partition_point(|s| s.0 <= end);
        let touched = &self.0[first..last];
        let overlap: u32 = touched.iter().map(|s| s.1.min(end).saturating_sub(s.0.max(start))).sum();
        let merged = touched.iter().fold((start, end), |m, s| (m.0.min(s.0), m.1.max(s.1)));
        self.0.splice(first..last, [merged]);
        end - start - overlap
    }

    fn covers(&self, total: u32) -> bool {
        self.0.first() == Some(&(0, total))
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Ids of finished blocks: all below a floor, and a bitmap above it.
#[derive(Debug, Default)]
struct Finished {
    /// In words of 64 ids.
    base: u64,
    words: VecDeque<u64>,
}

impl Finished {
    /// The lowest id not finished, to the word.
    fn floor(&self) -> u64 {
        self.base * 64
    }

    fn contains(&self, id: u64) -> bool {
        match (id / 64).checked_sub(self.base) {
            None => true,
            Some(word) => self.words.get(word as usize).is_some_and(|w| w >> (id % 64) & 1 == 1),
        }
    }

    /// `id` must be less than [`ID_SPAN`] above the floor.
    fn insert(&mut self, id: u64) {
        let Some(word) = (id / 64).checked_sub(self.base) else { return };
        let word = word as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (id % 64);
        while self.words.front() == Some(&u64::MAX) {
            self.words.pop_front();
            self.base += 1;
        }
    }
}
