//! A session: blocks out, blocks in.

pub(crate) mod arrival;
pub(crate) mod follow;
pub(crate) mod interface;
mod reference;
pub(crate) mod writer;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use squall_proto::{
    Block, BlockOptions, Capacity, Channel, CloseReason, OpenError, Reasons, Received, SchedulerFactory,
    SendError, SessionId, SessionStats, WeightError,
    sched::{BlockId, PathState},
    signal::Subscriber,
};
use tokio::sync::watch;

use self::{
    arrival::{Arrival, Arrivals, Receiver},
    interface::InterfaceHandle,
    reference::SessionRef,
    writer::BlockWriter,
};
use crate::{
    BlockHandle, Interfaces, NotConnector, PathEvent, PathInfo, UnknownInterface, UnusedInterface,
    shared::{Shared, core::Core},
};

/// A session with one peer. Clones stand for the same session, so that one task can send and another
/// receive; all methods take `&self`.
///
/// Blocks that arrive, outcomes of one's own blocks, changes of paths and the end come apart: [`Self::recv`], the
/// [`BlockHandle`] of each block, [`Self::path_event`] and [`Self::closed`]. An application takes those that it
/// needs; those that it does not take are bounded and hold nothing up, except blocks that arrive, which hold the
/// peer back.
///
/// When the last clone is dropped the session is closed at once, with code 0: call [`Self::finish`] first for
/// blocks that are still on their way.
#[derive(Clone)]
pub struct Session {
    inner: Arc<SessionRef>,
}

/// Why not every block had ended when the session was finished.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The time was up.
    #[error("{open} blocks were still on their way after {after:?}")]
    TimedOut {
        /// Blocks that had not ended.
        open: usize,
        /// The time that was given.
        after: Duration,
    },
    /// The session ended first.
    #[error("the session ended before all blocks had")]
    Closed(#[source] CloseReason),
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, id: SessionId) -> Self {
        let signals = shared.lock().signals(id);
        Self { inner: Arc::new(SessionRef { shared, id, signals }) }
    }

    /// Hands a block over, and waits for room when the queue is full. A deadline counts from when there
    /// was room. The handle gives the block's outcome to those who await it, and can be dropped.
    ///
    /// Cancel safe: a block that was not handed over yet is dropped.
    ///
    /// # Errors
    /// If the block is empty or too large, or the session is over. Never [`SendError::Full`].
    pub async fn send(&self, block: Block) -> Result<BlockHandle, SendError> {
        let mut waiting = Some(block);
        self.inner
            .changed(|core, id| match core.send(id, waiting.take()?, true) {
                Err(SendError::Full(back)) => {
                    waiting = Some(*back);
                    None
                }
                done => Some(done),
            })
            .await
    }

    /// Hands a block over if there is room.
    ///
    /// # Errors
    /// [`SendError::Full`] hands the block back; [`Self::writable`] waits for room. The others as for
    /// [`Self::send`].
    pub fn try_send(&self, block: Block) -> Result<BlockHandle, SendError> {
        self.inner.shared.lock().send(self.inner.id, block, false)
    }

    /// Opens a block before its bytes are there: they leave as they are written. Waits for room when too many blocks
    /// are open. The deadline counts from when there was room. See [`BlockWriter`].
    ///
    /// Cancel safe: nothing is opened.
    ///
    /// # Errors
    /// If the session is over.
    pub async fn open(&self, options: BlockOptions) -> Result<BlockWriter, OpenError> {
        let handle = self.inner.changed(|core, id| match core.open(id, &options) {
            Err(OpenError::Full) => None,
            done => Some(done),
        });
        Ok(BlockWriter::new(self.inner.clone(), handle.await?))
    }

    /// Opens a block if there is room; see [`Self::open`].
    ///
    /// # Errors
    /// [`OpenError::Full`] if too many blocks are open; [`Self::writable`] waits for room. Or the session is over.
    pub fn try_open(&self, options: &BlockOptions) -> Result<BlockWriter, OpenError> {
        let handle = self.inner.shared.lock().open(self.inner.id, options)?;
        Ok(BlockWriter::new(self.inner.clone(), handle))
    }

    /// Waits until half of the send queue is free, or the session is over. Cancel safe.
    pub async fn writable(&self) {
        self.inner.changed(|core, id| core.is_writable(id).then_some(())).await;
    }

    /// Cancels a block. Its outcome is [`Outcome::Cancelled`](crate::Outcome::Cancelled), unless it has
    /// ended before.
    pub fn cancel(&self, block: BlockId) {
        self.inner.change(|session| session.cancel(Instant::now(), block));
    }

    /// The next block that has arrived whole; `None` when the session has ended normally and all were taken. Blocks that
    /// will not arrive whole are skipped; [`Self::recv_any`] returns them. Blocks on the channels of a [`Receiver`] go
    /// there. Cancel safe.
    ///
    /// Blocks that are not taken count against [`Config::reassembly`](crate::Config::reassembly), which
    /// holds the peer back.
    ///
    /// # Errors
    /// The reason, if the session has not [ended normally](CloseReason::is_normal) and all blocks were taken.
    pub async fn recv(&self) -> Result<Option<Received>, CloseReason> {
        loop {
            match self.recv_any().await? {
                Some(Arrival::Block(block)) => return Ok(Some(block)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// The next block of the peer's, including those that will not arrive whole, in the order in which that became known.
    /// Takes from the same queue as [`Self::recv`], with the same end and errors. Cancel safe.
    pub async fn recv_any(&self) -> Result<Option<Arrival>, CloseReason> {
        arrival::next(&self.inner).await
    }

    /// [`Self::recv_any`] as a stream.
    pub fn arrivals(&self) -> Arrivals {
        Arrivals::new(self.inner.clone())
    }

    /// Has the blocks of these channels received in parts as they grow, by the returned receiver rather than by
    /// [`Self::recv`]. It keeps the session open.
    pub fn receiver(&self, channels: impl IntoIterator<Item = Channel>) -> Receiver {
        let id = self.inner.shared.lock().next_receiver(self.inner.id);
        let receiver = Receiver::new(self.inner.clone(), id);
        channels.into_iter().for_each(|channel| receiver.add(channel));
        receiver
    }

    /// The next change of a path; `None` when the session is over and all were taken. Cancel safe. The
    /// latest 256 wait; older ones are dropped and counted in
    /// [`SessionStats::path_events_dropped`](crate::SessionStats::path_events_dropped).
    pub async fn path_event(&self) -> Option<PathEvent> {
        let next = |core: &mut Core, id| match core.poll_path(id) {
            None if !core.is_over(id) => None,
            event => Some(event),
        };
        self.inner.until(&self.inner.signals.paths, next).await
    }

    /// Waits for the end of the session; returns the reason, to every caller. Cancel safe.
    pub async fn closed(&self) -> CloseReason {
        self.inner
            .changed(|core, id| core.is_over(id).then(|| core.close_reason(id).unwrap_or(CloseReason::Local)))
            .await
    }

    /// Completes when the session is up; with the reason when it is over without having been.
    pub(crate) async fn connected(&self) -> Result<(), CloseReason> {
        self.inner
            .changed(|core, id| {
                if core.is_connected(id) {
                    return Some(Ok(()));
                }
                core.is_over(id).then(|| Err(core.close_reason(id).unwrap_or(CloseReason::Local)))
            })
            .await
    }

    /// Waits until every block that was handed over has ended, then closes the session with code 0. When
    /// the time is up it is closed all the same.
    ///
    /// # Errors
    /// If the time was up, or the session ended, before all blocks had.
    pub async fn finish(&self, timeout: Duration) -> Result<(), FinishError> {
        let waited = tokio::time::timeout(timeout, self.all_ended()).await;
        let (outcome, flushes) = {
            let mut core = self.inner.shared.lock();
            let open = core.stats(self.inner.id).open_blocks;
            let outcome = match waited {
                Ok(outcome) => outcome,
                Err(_) if open == 0 => Ok(()),
                Err(_) => Err(FinishError::TimedOut { open, after: timeout }),
            };
            core.close(self.inner.id, 0, "");
            (outcome, core.flushes)
        };
        // The close is sent before the program can end.
        let sent = tokio::time::timeout(CLOSE, self.flushed(flushes));
        let _ = sent.await;
        outcome
    }

    async fn all_ended(&self) -> Result<(), FinishError> {
        self.inner
            .changed(|core, id| {
                let ended_first = |core: &mut Core| core.stats(id).blocks_closed > 0;
                core.finishing(id).then(|| {
                    if ended_first(core) {
                        Err(FinishError::Closed(core.close_reason(id).unwrap_or(CloseReason::Local)))
                    } else {
                        Ok(())
                    }
                })
            })
            .await
    }

    async fn flushed(&self, before: u64) {
        self.inner
            .changed(|core, id| {
                if core.gone || core.flushes > before {
                    return Some(());
                }
                core.finishing(id);
                core.wake();
                None
            })
            .await;
    }

    /// An interface that the session runs over, by name or by local address, for its settings.
    ///
    /// # Errors
    /// If there is no such interface now; one that appears later is reported by [`Self::path_event`].
    pub fn interface(&self, name: &str) -> Result<InterfaceHandle, UnknownInterface> {
        let interfaces = self.inner.shared.lock().interfaces(name)?;
        Ok(InterfaceHandle::new(self.inner.clone(), interfaces))
    }

    /// Closes the session at once; blocks on their way end with it. The peer sees `code` and `reason`; 0
    /// means a normal end.
    pub fn close(&self, code: u32, reason: &str) {
        self.inner.shared.lock().close(self.inner.id, code, reason);
    }

    /// Why the session ended, if it has; [`Self::closed`] waits for it.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.inner.shared.lock().close_reason(self.inner.id)
    }

    /// Counters since the session began; the last ones when it is over.
    pub fn stats(&self) -> SessionStats {
        self.inner.shared.lock().stats(self.inner.id)
    }

    /// Every open path with its addresses and counters; the last ones when the session is over.
    pub fn paths(&self) -> Vec<PathInfo> {
        self.inner.shared.lock().paths(self.inner.id)
    }

    /// The interfaces that the session would run over but does not, each with the reason: no carrier, no route, no address. At
    /// most 32; none for addresses, pairs and networks that were given, nor on an accepted session.
    pub fn unused_interfaces(&self) -> Vec<UnusedInterface> {
        self.inner.shared.lock().unused(self.inner.id)
    }

    /// What the session can carry, for an encoder to follow: `safe` is what it carries over the next second with a
    /// probability of nine in ten. All 0 before the session is up and when it is over.
    ///
    /// ```no_run
    /// # async fn example(session: squall::Session, mut encoder: impl FnMut(u64)) {
    /// let mut changes = session.capacity_changes();
    /// while changes.changed().await.is_ok() {
    ///     encoder(changes.borrow_and_update().safe);
    /// }
    /// # }
    /// ```
    pub fn capacity(&self) -> Capacity {
        self.inner.read(|session| session.capacity(Instant::now())).unwrap_or_default()
    }

    /// The capacity whenever it changes: at once when `safe` falls by more than 5 %, also because a radio announces a
    /// fade or a path is suspected; when it rises by more than 10 %, and at most each 50 ms. The latest is kept; all 0 when
    /// the session is over. The receiver ends with the last handle of the session.
    pub fn capacity_changes(&self) -> watch::Receiver<Capacity> {
        self.inner.shared.lock().capacity_changes(self.inner.id)
    }

    /// Bytes of blocks that can still be handed over to arrive `within` a time, with a probability from 0 to 1, beside
    /// those that wait: the size for the next frame. 0 when the session is over.
    pub fn deliverable(&self, within: Duration, probability: f64) -> u64 {
        self.inner.read(|session| session.deliverable(Instant::now(), within, probability)).unwrap_or(0)
    }

    /// Requests that the peer send at most this many bits per second of blocks; `None` for no limit. For a picture that has
    /// become small, or a decoder that is too slow. The peer's [`Self::capacity`] reports no more than that, for its encoder
    /// to follow; blocks beyond it still arrive. It holds until the next call.
    pub fn request_bitrate(&self, bits_per_second: Option<u64>) {
        self.inner.change(|session| session.request_bitrate(bits_per_second));
    }

    /// Changes the interfaces that a session started by this side runs over.
    ///
    /// # Errors
    /// If the session was accepted: the side that connects chooses.
    pub fn set_interfaces(&self, interfaces: Interfaces) -> Result<(), NotConnector> {
        let changed = self.inner.shared.lock().set_interfaces(self.inner.id, interfaces);
        if changed { Ok(()) } else { Err(NotConnector) }
    }

    /// The peer has shown that it may use all that the bounds of [`Config`](crate::Config) allow, where
    /// [`Config::distrust`](crate::Config::distrust) holds it back.
    pub fn trust(&self) {
        self.inner.change(|session| session.trust(Instant::now()));
    }

    /// Replaces the scheduler of [`Config::scheduler`](crate::Config::scheduler()) for this session, such as by a server that has learnt
    /// who its peer is. Returns whether it did: only before the first block is handed over. Whether the peer reports stalls is
    /// still the wish of the first one.
    pub fn set_scheduler(&self, scheduler: SchedulerFactory) -> bool {
        self.inner.change(|session| session.set_scheduler(scheduler)).unwrap_or(false)
    }

    /// Sets the radio of an interface, given by name or by local address; `None` removes it. Its latest reading is
    /// evaluated every 100 ms, and holds until there is another. A change takes effect here at once, and is announced to
    /// the peer. A radio that is removed, or whose readings have no levels any more, has no effect after five seconds. See [`Config::signal`](crate::Config::signal), and
    /// [`Monitor`](crate::signal::Monitor) for where readings come from. It holds while the session lasts,
    /// even if the interface is not there yet, or disappears and comes back.
    pub fn set_signal(&self, interface: &str, signal: Option<Subscriber>) {
        let mut core = self.inner.shared.lock();
        core.radios.follow(self.inner.id, interface, signal);
        core.wake();
    }

    /// Sets the weight of a channel, 1 to 256, among those with data to send, for a
    /// [stream scheduler](crate::Config::streams) that uses weights; 1 if never set.
    ///
    /// # Errors
    /// If there is no such weight, or the session is over.
    pub fn set_channel_weight(&self, channel: Channel, weight: u16) -> Result<(), WeightError> {
        self.inner
            .read(|session| session.set_channel_weight(channel, weight))
            .unwrap_or(Err(WeightError::Closed))
    }

    /// Address of the peer: that of the oldest open path, or of the last one when the session is over.
    pub fn remote_address(&self) -> SocketAddr {
        let unspecified = (Ipv4Addr::UNSPECIFIED, 0).into();
        self.inner.shared.lock().remote(self.inner.id).unwrap_or(unspecified)
    }

    /// Smoothed round trip time of the fastest path that carries data, or of the fastest if none does; 0 before there is a
    /// measurement.
    pub fn rtt(&self) -> Duration {
        let paths = self.paths();
        let fastest = |active: bool| {
            let fits = |path: &&PathInfo| !active || path.stats.state == PathState::Active;
            paths.iter().filter(fits).map(|path| path.stats.srtt).min()
        };
        fastest(true).or_else(|| fastest(false)).unwrap_or_default()
    }

    /// Largest block in bytes that can be sent: this side's [`Config::max_block`](crate::Config::max_block), or the
    /// peer's if that is less, once the peer has announced it; 0 when the session is over.
    pub fn max_block_len(&self) -> usize {
        self.inner.read(|session| session.max_block() as usize).unwrap_or(0)
    }

    /// Starts or stops to log the scheduler's decisions and the losses of data. This costs
    /// so little that a program can always have it.
    pub fn keep_reasons(&self, on: bool) {
        self.inner.read(|session| session.keep_reasons(on));
    }

    /// Takes the decisions and losses since the last call; `None` when the session is over. At most 65,536 of each are kept.
    pub fn take_reasons(&self) -> Option<Reasons> {
        self.inner.read(squall_proto::Session::take_reasons)
    }
}

/// Longest wait until the close of the session is sent.
const CLOSE: Duration = Duration::from_millis(200);

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}
