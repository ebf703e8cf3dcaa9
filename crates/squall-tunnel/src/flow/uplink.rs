//! The way of a flow's parcels into a session, and their waiting room while there is none.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
};

use bytes::Bytes;
use squall::{
    Block, BlockFate, BlockHandle, BlockOptions, BlockWriter, Channel, OpenError, SendError, Session,
    WriteError,
};
use squall_units::Micros;

use super::Flow;
use crate::{gather::micros, media::Class, parcel::Parcel, tally::Fate};

/// Most bytes of a flow that wait for a session.
const MAX_WAITING: usize = 16 << 20;

/// Where a flow's parcels go.
#[derive(Debug, Default)]
pub(super) struct Uplink {
    line: Option<Line>,
    /// The block that has not ended, if it has begun on this line.
    growing: Option<Growing>,
    /// Blocks that came while there was no session, oldest first. The last one may grow.
    waiting: VecDeque<Parcel>,
    waiting_bytes: usize,
}

/// A flow's place in a session.
#[derive(Debug)]
pub(crate) struct Line {
    sender: Arc<Sender>,
    channel: u16,
}

impl Line {
    pub(crate) fn new(sender: Arc<Sender>, channel: u16) -> Self {
        Self { sender, channel }
    }
}

/// Hands blocks to a session.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Number of the session in this program; later ones are higher.
    id: u64,
    session: Session,
    /// By channel. They outlive the lines of a flow that is carried by another session meanwhile: the other end puts
    /// parcels in order for as long as the channel is the flow's.
    numbers: Mutex<HashMap<u16, Numbers>>,
}

/// How far the parcels of a channel have come.
#[derive(Debug, Default)]
struct Numbers {
    /// That of the next one.
    next: u64,
    /// The stamp of the last one.
    last: Option<Micros>,
}

impl Sender {
    pub(crate) fn new(id: u64, session: Session) -> Self {
        Self { id, session, numbers: Mutex::default() }
    }

    /// The channel is no flow's any more: the next one's parcels are numbered from 0.
    pub(crate) fn forget(&self, channel: u16) {
        self.numbers().remove(&channel);
    }

    fn numbers(&self) -> MutexGuard<'_, HashMap<u16, Numbers>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Blocks of a channel are handed over here as they grow.
    pub(crate) fn take_in_parts(&self, channel: u16) {
        self.session.set_in_parts(Channel::new(channel), true);
    }

    /// Sends a block that is complete.
    fn send(&self, options: &BlockOptions, data: Bytes) -> Result<BlockHandle, Fate> {
        let mut block = Block::new(data).channel(options.channel).priority(options.priority);
        (block.deadline, block.reliable) = (options.deadline, !options.unreliable);
        self.session.try_send(block).map_err(|error| match error {
            SendError::Closed => Fate::Closed,
            _ => Fate::Overflow,
        })
    }

    fn open(&self, options: &BlockOptions) -> Result<BlockWriter, Fate> {
        self.session.try_open(options).map_err(|error| match error {
            OpenError::Closed => Fate::Closed,
            _ => Fate::Overflow,
        })
    }
}

fn fate(of: &BlockFate) -> Fate {
    match of {
        BlockFate::Delivered { .. } => Fate::Delivered,
        BlockFate::Expired { .. } => Fate::Expired,
        BlockFate::Lost { .. } => Fate::Lost,
        BlockFate::Cancelled { .. } => Fate::Cancelled,
        BlockFate::Refused(_) => Fate::Refused,
        _ => Fate::Closed,
    }
}

/// A block of a flow that is sent while it grows, or that is not sent to its end.
#[derive(Debug)]
struct Growing {
    class: Class,
    bytes: usize,
    to: Result<BlockWriter, Fate>,
}

impl Growing {
    fn add(&mut self, flow: &Arc<Flow>, parcel: Parcel) {
        let (len, ends) = (parcel.len(), parcel.ends);
        self.bytes += len;
        let Ok(writer) = &mut self.to else { return };
        let data = parcel.into_rest();
        let added = if ends { writer.try_append_last(data) } else { writer.try_append(data) };
        if let Err(WriteError::Full(_) | WriteError::TooLarge { .. }) = added {
            // What was written counts for what it is; the rest is dropped.
            let rest = Self { class: self.class, bytes: len, to: Err(Fate::Overflow) };
            let mut written = mem::replace(self, rest);
            written.bytes -= len;
            written.end(flow);
        }
    }

    /// No more comes of it.
    fn end(self, flow: &Arc<Flow>) {
        let Self { class, bytes, to } = self;
        match to.map(BlockWriter::finish) {
            Ok(Ok(handle)) => follow(flow, class, bytes, handle),
            // Without a byte, which none is.
            Ok(Err(_)) => flow.ended(class, Fate::Cancelled, bytes),
            Err(fate) => flow.tally.ended(class, fate, bytes),
        }
    }
}

/// Counts what becomes of a block.
fn follow(flow: &Arc<Flow>, class: Class, bytes: usize, handle: BlockHandle) {
    let flow = flow.clone();
    tokio::spawn(async move { flow.ended(class, fate(&handle.await), bytes) });
}

impl Uplink {
    pub(super) fn dispatch(&mut self, flow: &Arc<Flow>, parcel: Parcel) {
        match &self.line {
            Some(line) => self.growing = line.send(flow, self.growing.take(), parcel),
            None => self.wait(flow, parcel),
        }
    }

    pub(super) fn carrier(&self) -> Option<u64> {
        self.line.as_ref().map(|line| line.sender.id())
    }

    pub(super) fn attach(&mut self, flow: &Arc<Flow>, line: Line) -> bool {
        match &self.line {
            Some(other) if other.sender.id() > line.sender.id() => return false,
            Some(same) if same.sender.id() == line.sender.id() && same.channel == line.channel => {
                return true;
            }
            _ => {}
        }
        self.end_growing(flow);
        self.sweep(flow);
        self.waiting_bytes = 0;
        for parcel in self.waiting.drain(..) {
            self.growing = line.send(flow, self.growing.take(), parcel);
        }
        self.line = Some(line);
        true
    }

    pub(super) fn detach(&mut self, flow: &Arc<Flow>, session: u64) -> bool {
        self.take_line(flow, session).is_some()
    }

    pub(super) fn take_line(&mut self, flow: &Arc<Flow>, session: u64) -> Option<Line> {
        let line = self.line.take_if(|line| line.sender.id() == session)?;
        self.end_growing(flow);
        Some(line)
    }

    /// The session that carries the flow changes: what comes of the block yet goes on in another one.
    fn end_growing(&mut self, flow: &Arc<Flow>) {
        if let Some(growing) = self.growing.take() {
            growing.end(flow);
        }
    }

    fn wait(&mut self, flow: &Flow, parcel: Parcel) {
        self.sweep(flow);
        let goes_on = !parcel.begins && self.waiting.back().is_some_and(|last| !last.ends);
        if parcel.is_empty() && !goes_on {
            return;
        }
        let full = !goes_on && self.waiting.len() >= flow.config().max_pending;
        if full || self.waiting_bytes + parcel.len() > MAX_WAITING {
            flow.tally.ended(parcel.class, Fate::Overflow, parcel.len());
            return;
        }
        self.waiting_bytes += parcel.len();
        match self.waiting.back_mut().filter(|_| goes_on) {
            Some(last) => last.extend(&parcel),
            None => self.waiting.push_back(parcel.beginning()),
        }
    }

    pub(super) fn sweep(&mut self, flow: &Flow) {
        let latency = micros(flow.config().latency_or_default());
        let now = flow.clock.now();
        while self.waiting.front().is_some_and(|parcel| parcel.stamp.saturating_add(latency) <= now) {
            let Some(parcel) = self.waiting.pop_front() else { return };
            self.waiting_bytes -= parcel.len();
            flow.tally.ended(parcel.class, Fate::Unsent, parcel.len());
        }
    }
}

impl Line {
    /// Sends a parcel, in the block that grows or in one of its own. What grows then.
    fn send(&self, flow: &Arc<Flow>, growing: Option<Growing>, parcel: Parcel) -> Option<Growing> {
        let ends = parcel.ends;
        let growing = match growing {
            Some(mut growing) if !parcel.begins => {
                growing.add(flow, parcel);
                growing
            }
            // Whoever gathered it has failed, and begins again.
            Some(growing) => {
                growing.end(flow);
                return self.send(flow, None, parcel);
            }
            // The end of a block that was given up with its session.
            None if parcel.is_empty() => return None,
            None if ends => {
                self.send_whole(flow, parcel.beginning());
                return None;
            }
            None => self.begin(flow, parcel.beginning()),
        };
        if !ends {
            return Some(growing);
        }
        growing.end(flow);
        None
    }

    fn send_whole(&self, flow: &Arc<Flow>, parcel: Parcel) {
        let (class, bytes) = (parcel.class, parcel.len());
        match self.hand_over(flow, parcel, |options, data| self.sender.send(options, data)) {
            Ok(handle) => follow(flow, class, bytes, handle),
            Err(fate) => flow.tally.ended(class, fate, bytes),
        }
    }

    fn begin(&self, flow: &Arc<Flow>, parcel: Parcel) -> Growing {
        let (class, bytes) = (parcel.class, parcel.len());
        let expected_len = u32::try_from(parcel.expected).ok().filter(|expected| *expected > 0);
        let opened = self.hand_over(flow, parcel, |options, data| {
            let options = BlockOptions { expected_len, ..options.clone() };
            let mut writer = self.sender.open(&options)?;
            let written = writer.try_append(data);
            Ok((writer, written))
        });
        let to = match opened {
            Ok((writer, Ok(()) | Err(WriteError::Ended))) => Ok(writer),
            // It is cancelled. The other end learns that, so its number is used.
            Ok((_, Err(_))) => {
                flow.pending.fetch_sub(1, Relaxed);
                Err(Fate::Overflow)
            }
            Err(fate) => Err(fate),
        };
        Growing { class, bytes, to }
    }

    /// Numbers a block and hands it to the session. Only what was handed over has a number: a gap is something that may
    /// still come.
    fn hand_over<T>(
        &self,
        flow: &Arc<Flow>,
        parcel: Parcel,
        give: impl FnOnce(&BlockOptions, Bytes) -> Result<T, Fate>,
    ) -> Result<T, Fate> {
        if flow.pending.load(Relaxed) >= flow.config().max_pending {
            return Err(Fate::Overflow);
        }
        let stamp = parcel.stamp;
        let options = flow.options(parcel.class, stamp, self.channel).ok_or(Fate::Unsent)?;
        let mut all = self.sender.numbers();
        let numbers = all.entry(self.channel).or_default();
        let before = numbers.last.map_or(0, |last| stamp.saturating_sub(last));
        let given = give(&options, parcel.seal(flow.clock.now(), numbers.next, before))?;
        numbers.next += 1;
        numbers.last = Some(stamp);
        flow.pending.fetch_add(1, Relaxed);
        Ok(given)
    }
}
