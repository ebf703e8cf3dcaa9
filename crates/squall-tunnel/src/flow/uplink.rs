//! Transfer of a flow's blocks into a session: blocks that grow, and a queue for times without a
//! session.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use squall::{
    Block, BlockHandle, BlockId, BlockOptions, BlockWriter, Channel, OpenError, PathInfo, PathStats,
    Receiver, SendError, Session, WriteError, sched::PathState,
};
use squall_observe::clock::lock;
use squall_units::{Span, Time};
use tokio::sync::Notify;

use super::{Flow, counters::Outcome, why::Recorder};
use crate::{
    media::Class,
    tenant::meter::Direction,
    wire::frame::{self, Frame},
};

/// Time limit for blocks of the previous session to arrive when a flow moves to another one, so
/// that the receiver gets them in order. A third of the flow's latency if that is less.
const HAND_OVER: Duration = Duration::from_millis(100);

/// Maximum number of bytes of a flow that wait for a session.
const MAX_WAITING: usize = 16 << 20;

/// Blocks of a flow that no session has accepted yet.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    uplink: Option<Uplink>,
    /// Uplink that is used once the blocks of the previous one have ended.
    successor: Option<Uplink>,
    /// Block that has begun on this uplink and has not ended.
    growing: Option<Growing>,
    /// Blocks from times without a session, oldest first. The last one may grow.
    waiting: VecDeque<Frame>,
    waiting_bytes: usize,
}

/// Channel of a flow in a session.
#[derive(Debug)]
pub(crate) struct Uplink {
    pub(crate) sender: Arc<SessionSender>,
    pub(crate) channel: u16,
}

/// Passes blocks to a session.
#[derive(Debug)]
pub(crate) struct SessionSender {
    /// Number of the session in this program; later sessions have higher numbers.
    pub(crate) id: u64,
    session: Session,
    /// Receiver for the blocks of flows.
    receiver: Arc<Receiver>,
    /// The other end restores null packets.
    restores_nulls: AtomicBool,
    /// Another session takes over.
    leaving: AtomicBool,
    /// Notified when another session takes a flow from this one.
    displaced: Notify,
    /// Number of the next frame and stamp of the last one, by channel and strand. They outlive the
    /// uplink of a flow that another session carries meanwhile: the other end keeps the order as
    /// long as the channel belongs to the flow.
    numbers: Mutex<HashMap<(u16, u16), Numbering>>,
    /// Room for packets of a TUN device, and the time of its measurement.
    room: Mutex<Option<(Time, Room)>>,
    /// Recorder of the blocks, if an address to read the records is configured.
    pub(crate) recorder: Option<Arc<Recorder>>,
}

/// Numbering of the frames of a strand.
#[derive(Debug, Default)]
struct Numbering {
    next: u64,
    /// Stamp of the last frame.
    last: Option<Time>,
}

impl SessionSender {
    pub(crate) fn new(
        id: u64,
        session: Session,
        receiver: Arc<Receiver>,
        recorder: Option<Arc<Recorder>>,
    ) -> Self {
        Self {
            id,
            session,
            receiver,
            restores_nulls: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            displaced: Notify::new(),
            numbers: Mutex::default(),
            room: Mutex::default(),
            recorder,
        }
    }

    /// Sets whether the other end restores null packets. Called before the session carries a flow.
    pub(crate) fn set_restores_nulls(&self, restores: bool) {
        self.restores_nulls.store(restores, Relaxed);
    }

    /// Marks the session as being replaced. Its blocks still arrive.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Relaxed);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Relaxed)
    }

    /// Waits until another session has taken a flow from this one. Cancel safe.
    pub(crate) async fn displaced(&self) {
        self.displaced.notified().await;
    }

    /// Resets the numbering of a channel that no longer belongs to a flow; the frames of its next
    /// flow are numbered from 0.
    pub(crate) fn forget(&self, channel: u16) {
        lock(&self.numbers).retain(|(of, _), _| *of != channel);
    }

    /// Makes the session deliver blocks of a channel in parts, as they grow.
    pub(crate) fn deliver_in_parts(&self, channel: u16) {
        self.receiver.add(Channel::new(channel));
    }

    /// Returns the room for packets of a TUN device.
    fn room(&self, now: Time) -> Room {
        let mut kept = lock(&self.room);
        let kept = match &mut *kept {
            Some((measured, room)) if now < *measured + Room::MAX_AGE => room,
            kept => &mut kept.insert((now, Room::of(&self.session.paths()))).1,
        };
        Room { unsent: self.session.unsent_bytes(), ..*kept }
    }

    fn send(&self, options: &BlockOptions, data: Bytes) -> Result<BlockHandle, Outcome> {
        self.session.try_send(Block::with(data, options.clone())).map_err(|error| match error {
            SendError::Closed(_) => Outcome::Closed,
            _ => Outcome::Overflow,
        })
    }

    fn open(&self, options: &BlockOptions) -> Result<BlockWriter, Outcome> {
        self.session.try_open(options).map_err(|error| match error {
            OpenError::Closed(_) => Outcome::Closed,
            _ => Outcome::Overflow,
        })
    }
}

/// Room for packets of a TUN device in a session. More would only wait there, where they can
/// neither be dropped nor overtaken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// Bytes that no path has taken.
    pub(super) unsent: u64,
    /// Unsent bytes up to which the session gets more.
    pub(super) limit: u64,
    /// Bytes that the paths carry in a millisecond.
    pub(super) per_ms: u64,
}

impl Room {
    /// Time for which a measurement of the paths is valid.
    const MAX_AGE: Span = Span::from_millis(5);

    /// Time that the unsent bytes last: until the next acknowledgement, or the next tick of the
    /// timer.
    const AHEAD_MS: u64 = 3;

    /// Time that the part of a free window lasts for which there is room. A window may be many
    /// times what the path carries in a round trip.
    const FREE_MS: u64 = 10;

    /// Bytes of a free window for which there is room before the rate is known: the initial window
    /// (RFC 9002, section 7.2).
    const START: u64 = 14_720;

    /// Bytes for which there is always room: a few packets, without which no path is measured.
    const LEAST: u64 = 4 * 1_500;

    /// Measures the room over paths: their free windows, the bytes of [`Self::AHEAD_MS`], and those
    /// that the others carry while a packet on the slowest one arrives. With fewer bytes in view
    /// schedulers do not use that path: the next bytes would arrive earlier on another.
    fn of(paths: &[PathInfo]) -> Self {
        let used = || paths.iter().map(|path| &path.stats).filter(|stats| stats.state == PathState::Active);
        let rate = |stats: &PathStats| stats.capacity.unwrap_or(stats.delivery_rate) / 8_000;
        let slowest = used().map(|stats| stats.one_way_delay).max().unwrap_or_default();
        let ahead = used().map(|stats| {
            let earlier = slowest.saturating_sub(stats.one_way_delay).as_millis() as u64;
            let most = (rate(stats) * Self::FREE_MS).max(Self::START);
            let free = stats.window.saturating_sub(stats.in_flight).min(most);
            free + rate(stats) * (Self::AHEAD_MS + earlier)
        });
        let limit = ahead.sum::<u64>().max(Self::LEAST);
        Self { unsent: 0, limit, per_ms: used().map(rate).sum() }
    }
}

/// A block that is sent while it grows. After a failure to send, the rest of the block is dropped.
#[derive(Debug)]
struct Growing {
    class: Class,
    stamp: Time,
    bytes: usize,
    writer: Result<BlockWriter, Outcome>,
    recorder: Option<Arc<Recorder>>,
}

impl Growing {
    /// Appends datagrams. Returns `true` if the session accepted them.
    fn add(&mut self, flow: &Arc<Flow>, frame: Frame) -> bool {
        let (len, ends) = (frame.len(), frame.ends);
        self.bytes += len;
        let Ok(writer) = &mut self.writer else { return false };
        let data = frame.into_rest();
        let added = if ends { writer.try_append_last(data) } else { writer.try_append(data) };
        let is_taken = added.is_ok();
        if let Err(WriteError::Full(_) | WriteError::TooLarge { .. }) = added {
            // The written bytes count with the outcome of the block, the rest as overflow.
            let (class, stamp) = (self.class, self.stamp);
            let rest = Self { class, stamp, bytes: len, writer: Err(Outcome::Overflow), recorder: None };
            let mut written = mem::replace(self, rest);
            written.bytes -= len;
            written.end(flow);
        }
        is_taken
    }

    fn end(self, flow: &Arc<Flow>) {
        let Self { class, stamp, bytes, writer, recorder } = self;
        match writer.map(BlockWriter::finish) {
            Ok(Ok(handle)) => count_outcome(flow, class, bytes, handle, recorder),
            // Only an empty block fails here, and none is empty.
            Ok(Err(_)) => flow.ended(class, Outcome::Cancelled, bytes),
            Err(outcome) => flow.not_taken(class, stamp, outcome, bytes),
        }
    }
}

/// Counts a block once its outcome is known.
fn count_outcome(
    flow: &Arc<Flow>,
    class: Class,
    bytes: usize,
    handle: BlockHandle,
    recorder: Option<Arc<Recorder>>,
) {
    let (flow, block) = (flow.clone(), handle.id().0);
    tokio::spawn(async move {
        let mut delivered_at = None;
        let outcome = match handle.await {
            squall::Outcome::Delivered { at, .. } => {
                delivered_at = Some(at);
                Outcome::Delivered
            }
            squall::Outcome::Expired { .. } => Outcome::Expired,
            squall::Outcome::Lost { .. } => Outcome::Lost,
            squall::Outcome::Cancelled { .. } => Outcome::Cancelled,
            squall::Outcome::Refused(_) => Outcome::Refused,
            _ => Outcome::Closed,
        };
        flow.ended(class, outcome, bytes);
        if let Some(recorder) = recorder {
            recorder.end(block, outcome, delivered_at, bytes);
        }
    });
}

impl Flow {
    /// Sends datagrams that entered here to the other end, now or once there is a session.
    pub(crate) fn dispatch(self: &Arc<Self>, frame: Frame) {
        let queue = &mut *lock(&self.queue);
        match &queue.uplink {
            Some(uplink) => queue.growing = uplink.send(self, queue.growing.take(), frame),
            None => queue.wait(self, frame),
        }
    }

    /// Returns the room for packets of a TUN device; `None` without a session.
    pub(super) fn room(&self) -> Option<Room> {
        let queue = lock(&self.queue);
        queue.uplink.as_ref().map(|uplink| uplink.sender.room(self.clock.now()))
    }

    /// Returns the number of the session that carries the flow, or is about to.
    pub(crate) fn carrier(&self) -> Option<u64> {
        let queue = lock(&self.queue);
        queue.successor.as_ref().or(queue.uplink.as_ref()).map(|uplink| uplink.sender.id)
    }

    /// `true` if blocks of the flow currently go into this session.
    pub(crate) fn is_carried_by(&self, session: u64) -> bool {
        lock(&self.queue).uplink.as_ref().is_some_and(|uplink| uplink.sender.id == session)
    }

    /// `true` if the session that carries the flow is being replaced.
    pub(crate) fn carrier_leaves(&self) -> bool {
        lock(&self.queue).uplink.as_ref().is_some_and(|uplink| uplink.sender.is_leaving())
    }

    /// Attaches the flow to a session. Returns `false` if a later session carries the flow.
    pub(crate) fn attach(self: &Arc<Self>, uplink: Uplink) -> bool {
        let queue = &mut *lock(&self.queue);
        match queue.successor.as_ref().or(queue.uplink.as_ref()) {
            Some(other) if other.sender.id > uplink.sender.id => return false,
            Some(same) if same.sender.id == uplink.sender.id && same.channel == uplink.channel => {
                return true;
            }
            // Only the session that carried the flow must withdraw; moving a flow repeatedly does
            // not disturb others.
            Some(previous) => previous.sender.displaced.notify_one(),
            None => {}
        }
        queue.end_growing(self);
        if queue.successor.is_some() {
            queue.successor = Some(uplink);
        } else if self.pending.load(Relaxed) > 0
            && queue.uplink.take_if(|uplink| uplink.sender.is_leaving()).is_some()
        {
            queue.successor = Some(uplink);
            tokio::spawn(self.clone().hand_over());
        } else {
            queue.take_up(self, uplink);
        }
        true
    }

    /// Waits until the blocks of the previous session have ended, then attaches the flow to the
    /// next one.
    async fn hand_over(self: Arc<Self>) {
        let limit = HAND_OVER.min(self.config().latency_or_default() / 3);
        let ended = async {
            while self.pending.load(Relaxed) > 0 {
                self.idle.notified().await;
            }
        };
        // Blocks that take longer may arrive after later ones.
        let _ = tokio::time::timeout(limit, ended).await;
        let queue = &mut *lock(&self.queue);
        if let Some(uplink) = queue.successor.take() {
            queue.take_up(&self, uplink);
        }
    }

    /// Removes the flow from a session. Returns `true` if the session carried it.
    pub(crate) fn detach(self: &Arc<Self>, session: u64) -> bool {
        self.take_uplink(session).is_some()
    }

    /// Takes the flow's channel in a session, for use by another flow.
    pub(crate) fn take_uplink(self: &Arc<Self>, session: u64) -> Option<Uplink> {
        let queue = &mut *lock(&self.queue);
        let is_of = |uplink: &mut Uplink| uplink.sender.id == session;
        let uplink = queue.uplink.take_if(is_of).or_else(|| queue.successor.take_if(is_of))?;
        queue.end_growing(self);
        Some(uplink)
    }

    /// Drops waiting blocks whose deadline has passed.
    pub(crate) fn sweep(&self) {
        lock(&self.queue).sweep(self);
    }
}

impl SendQueue {
    /// Ends the growing block because the session changes; its rest continues as a block of the
    /// next session.
    fn end_growing(&mut self, flow: &Arc<Flow>) {
        if let Some(growing) = self.growing.take() {
            growing.end(flow);
        }
    }

    /// Attaches the flow to a session, and sends the waiting blocks first.
    fn take_up(&mut self, flow: &Arc<Flow>, uplink: Uplink) {
        self.sweep(flow);
        self.waiting_bytes = 0;
        for frame in self.waiting.drain(..) {
            self.growing = uplink.send(flow, self.growing.take(), frame);
        }
        self.uplink = Some(uplink);
    }

    fn wait(&mut self, flow: &Flow, frame: Frame) {
        self.sweep(flow);
        let continues = !frame.begins && self.waiting.back().is_some_and(|last| !last.ends);
        if frame.is_empty() && !continues {
            return;
        }
        let full = !continues && self.waiting.len() >= flow.config().max_pending;
        if full || self.waiting_bytes + frame.len() > MAX_WAITING {
            flow.not_taken(frame.class, frame.stamp, Outcome::Overflow, frame.len());
            return;
        }
        self.waiting_bytes += frame.len();
        match self.waiting.back_mut().filter(|_| continues) {
            Some(last) => last.extend(&frame),
            None => self.waiting.push_back(frame.beginning()),
        }
    }

    fn sweep(&mut self, flow: &Flow) {
        let latency = flow.config().latency_or_default().into();
        let now = flow.clock.now();
        while self.waiting.front().is_some_and(|frame| frame.stamp + latency <= now) {
            let Some(frame) = self.waiting.pop_front() else { return };
            self.waiting_bytes -= frame.len();
            flow.not_taken(frame.class, frame.stamp, Outcome::Unsent, frame.len());
        }
    }
}

impl Uplink {
    /// Sends datagrams within the limits of the tenant, in the growing block or in a new one.
    /// Returns the block that grows afterwards.
    fn send(&self, flow: &Arc<Flow>, growing: Option<Growing>, frame: Frame) -> Option<Growing> {
        let frame = if self.sender.restores_nulls.load(Relaxed) { frame } else { frame.with_nulls() };
        let bytes = frame.payload + flow.headers(frame.datagrams as usize);
        let Some(permit) = flow.reserve(Direction::Out, bytes) else {
            // The growing block ends without these datagrams.
            let goes_on = !frame.ends && !frame.begins;
            return if goes_on { growing } else { self.pass_on(flow, growing, frame.emptied()).0 };
        };
        let deleted = frame.deleted;
        let (growing, is_taken) = self.pass_on(flow, growing, frame);
        if is_taken {
            permit.commit();
            flow.counters.null_bytes_deleted.fetch_add(deleted as u64, Relaxed);
        }
        growing
    }

    /// Passes datagrams to the session. Returns the block that grows afterwards, and `true` if the
    /// session accepted the datagrams.
    fn pass_on(&self, flow: &Arc<Flow>, growing: Option<Growing>, frame: Frame) -> (Option<Growing>, bool) {
        let ends = frame.ends;
        let (growing, is_taken) = match growing {
            Some(mut growing) if !frame.begins => {
                let is_taken = growing.add(flow, frame);
                (growing, is_taken)
            }
            // The inlet failed and was restarted.
            Some(growing) => {
                growing.end(flow);
                return self.pass_on(flow, None, frame);
            }
            // End of a block that was dropped with its session or beyond a limit.
            None if frame.is_empty() => return (None, false),
            None if ends => return (None, self.send_whole(flow, frame.beginning())),
            None => self.begin(flow, frame.beginning()),
        };
        if !ends {
            return (Some(growing), is_taken);
        }
        growing.end(flow);
        (None, is_taken)
    }

    /// Sends a complete block. Returns `true` if the session accepted it.
    fn send_whole(&self, flow: &Arc<Flow>, frame: Frame) -> bool {
        let (class, stamp, bytes) = (frame.class, frame.stamp, frame.len());
        let sent = self.number(flow, frame, |options, data| {
            let handle = self.sender.send(options, data)?;
            Ok((handle.id(), handle))
        });
        let is_taken = sent.is_ok();
        match sent {
            Ok(handle) => count_outcome(flow, class, bytes, handle, self.sender.recorder.clone()),
            Err(outcome) => flow.not_taken(class, stamp, outcome, bytes),
        }
        is_taken
    }

    /// Begins a block. Returns it, and `true` if the session accepted its first datagrams.
    fn begin(&self, flow: &Arc<Flow>, frame: Frame) -> (Growing, bool) {
        let (class, stamp, bytes) = (frame.class, frame.stamp, frame.len());
        let expected_len = u32::try_from(frame.expected).ok().filter(|expected| *expected > 0);
        let opened = self.number(flow, frame, |options, data| {
            let options = options.clone().expected_len(expected_len);
            let mut writer = self.sender.open(&options)?;
            let written = writer.try_append(data);
            Ok((writer.id(), (writer, written)))
        });
        let is_taken = matches!(opened, Ok((_, Ok(()))));
        let writer = match opened {
            Ok((writer, Ok(()) | Err(WriteError::Ended))) => Ok(writer),
            // The block is cancelled, which the other end sees, so its number is used.
            Ok((_, Err(_))) => {
                flow.pending.fetch_sub(1, Relaxed);
                Err(Outcome::Overflow)
            }
            Err(outcome) => Err(outcome),
        };
        (Growing { class, stamp, bytes, writer, recorder: self.sender.recorder.clone() }, is_taken)
    }

    /// Numbers a block and passes it to the session. Only accepted blocks get a number, so a gap
    /// means that a block may still arrive.
    fn number<T>(
        &self,
        flow: &Arc<Flow>,
        frame: Frame,
        send: impl FnOnce(&BlockOptions, Bytes) -> Result<(BlockId, T), Outcome>,
    ) -> Result<T, Outcome> {
        if flow.pending.load(Relaxed) >= flow.config().max_pending {
            return Err(Outcome::Overflow);
        }
        let (class, stamp, strand) = (frame.class, frame.stamp, frame.strand);
        let options = flow.options(&frame, stamp, self.channel).ok_or(Outcome::Unsent)?;
        let mut numbers = lock(&self.sender.numbers);
        let Numbering { next, last } = numbers.entry((self.channel, strand)).or_default();
        let since_last = last.map_or(Span::ZERO, |last| stamp - last);
        let number = frame::number(strand, *next);
        let (block, sent) = send(&options, frame.seal(flow.clock.now(), number, since_last))?;
        if let (Some(recorder), Some(reasons)) = (&self.sender.recorder, &flow.reasons) {
            let latency = flow.config().latency_or_default().into();
            recorder.begin(reasons, (class, stamp, latency), number, block.0);
        }
        (*next, *last) = (*next + 1, Some(stamp));
        flow.pending.fetch_add(1, Relaxed);
        Ok(sent)
    }
}
