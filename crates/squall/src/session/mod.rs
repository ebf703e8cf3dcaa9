//! Sessions: sending and receiving blocks.

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

/// A session with one peer. Clones refer to the same session, so that one task can send and another
/// receive; all methods take `&self`.
///
/// Received blocks, outcomes of sent blocks, path changes and the end of the session have separate
/// sources: [`Self::recv`], the [`BlockHandle`] of each block, [`Self::path_event`] and
/// [`Self::closed`]. An application may ignore any of them: each queue is bounded and blocks
/// nothing else, except received blocks, which hold the peer back.
///
/// When the last clone is dropped, the session is closed at once, with code 0: call
/// [`Self::finish`] first for blocks that are still on their way.
#[derive(Clone)]
pub struct Session {
    inner: Arc<SessionRef>,
}

/// Reason why not every block had ended when the session was finished.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The timeout expired.
    #[error("{open} blocks were still on their way after {after:?}")]
    TimedOut {
        /// Number of blocks that had not ended.
        open: usize,
        /// Timeout that was given.
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

    /// Hands a block over, and waits for room when the queue is full. The deadline counts from the
    /// time of the hand-over. The returned handle gives the block's outcome when awaited, and can
    /// be dropped.
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
    /// [`SendError::Full`] returns the block; [`Self::writable`] waits for room. Other errors as
    /// for [`Self::send`].
    pub fn try_send(&self, block: Block) -> Result<BlockHandle, SendError> {
        self.inner.shared.lock().send(self.inner.id, block, false)
    }

    /// Opens a block before its bytes are available; they leave as they are written. Waits for room
    /// when too many blocks are open. The deadline counts from the opening. See [`BlockWriter`].
    ///
    /// Cancel safe: no block is opened.
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
    /// [`OpenError::Full`] if too many blocks are open; [`Self::writable`] waits for room.
    /// [`OpenError::Closed`] if the session is over.
    pub fn try_open(&self, options: &BlockOptions) -> Result<BlockWriter, OpenError> {
        let handle = self.inner.shared.lock().open(self.inner.id, options)?;
        Ok(BlockWriter::new(self.inner.clone(), handle))
    }

    /// Waits until half of the send queue is free, or the session is over. Cancel safe.
    pub async fn writable(&self) {
        self.inner.changed(|core, id| core.is_writable(id).then_some(())).await;
    }

    /// Cancels a block. Its outcome is [`Outcome::Cancelled`](crate::Outcome::Cancelled), unless it
    /// has already ended.
    pub fn cancel(&self, block: BlockId) {
        self.inner.change(|session| session.cancel(Instant::now(), block));
    }

    /// Returns the next block that has arrived whole; `None` when the session has ended normally
    /// and the queue is empty. Blocks that will not arrive whole are skipped; [`Self::recv_any`]
    /// returns them. Blocks on the channels of a [`Receiver`] go to the receiver. Cancel safe.
    ///
    /// Blocks that are not taken count against [`Config::reassembly`](crate::Config::reassembly),
    /// which holds the peer back.
    ///
    /// # Errors
    /// The close reason, if the session has not [ended normally](CloseReason::is_normal) and the
    /// queue is empty.
    pub async fn recv(&self) -> Result<Option<Received>, CloseReason> {
        loop {
            match self.recv_any().await? {
                Some(Arrival::Block(block)) => return Ok(Some(block)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// Returns the next block of the peer, including those that will not arrive whole, in the order
    /// of arrival or loss. Uses the queue of [`Self::recv`], with the same end and errors. Cancel
    /// safe.
    pub async fn recv_any(&self) -> Result<Option<Arrival>, CloseReason> {
        arrival::next(&self.inner).await
    }

    /// Returns the results of [`Self::recv_any`] as a stream.
    pub fn arrivals(&self) -> Arrivals {
        Arrivals::new(self.inner.clone())
    }

    /// Receives the blocks of these channels in parts as they grow, through the returned receiver
    /// instead of [`Self::recv`]. The receiver keeps the session open.
    pub fn receiver(&self, channels: impl IntoIterator<Item = Channel>) -> Receiver {
        let id = self.inner.shared.lock().next_receiver(self.inner.id);
        let receiver = Receiver::new(self.inner.clone(), id);
        channels.into_iter().for_each(|channel| receiver.add(channel));
        receiver
    }

    /// Returns the next change of a path; `None` when the session is over and the queue is empty.
    /// Cancel safe. The queue holds the latest 256 changes; older ones are dropped and counted in
    /// [`SessionStats::path_events_dropped`](crate::SessionStats::path_events_dropped).
    pub async fn path_event(&self) -> Option<PathEvent> {
        let next = |core: &mut Core, id| match core.poll_path(id) {
            None if !core.is_over(id) => None,
            event => Some(event),
        };
        self.inner.until(&self.inner.signals.paths, next).await
    }

    /// Waits for the end of the session; every caller gets the reason. Cancel safe.
    pub async fn closed(&self) -> CloseReason {
        self.inner
            .changed(|core, id| core.is_over(id).then(|| core.close_reason(id).unwrap_or(CloseReason::Local)))
            .await
    }

    /// Waits until the session is up.
    ///
    /// # Errors
    /// The close reason, if the session ends before.
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

    /// Waits until every block that was handed over has ended, then closes the session with code 0.
    /// The session is also closed when the timeout expires.
    ///
    /// # Errors
    /// If the timeout expired, or the session ended, before all blocks had ended.
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
        // Send the close before the program can end.
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

    /// Returns an interface that the session runs over, by name or local address, for its settings.
    ///
    /// # Errors
    /// If there is no such interface now. [`Self::path_event`] reports interfaces that appear
    /// later.
    pub fn interface(&self, name: &str) -> Result<InterfaceHandle, UnknownInterface> {
        let interfaces = self.inner.shared.lock().interfaces(name)?;
        Ok(InterfaceHandle::new(self.inner.clone(), interfaces))
    }

    /// Closes the session at once; blocks on their way end with it. The peer receives `code` and
    /// `reason`; 0 means a normal end.
    pub fn close(&self, code: u32, reason: &str) {
        self.inner.shared.lock().close(self.inner.id, code, reason);
    }

    /// Returns the close reason if the session has ended; [`Self::closed`] waits for it.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.inner.shared.lock().close_reason(self.inner.id)
    }

    /// Returns the counters since the session began; the final ones after its end.
    pub fn stats(&self) -> SessionStats {
        self.inner.shared.lock().stats(self.inner.id)
    }

    /// Returns the bytes handed over that no path has taken yet; 0 after the end of the session. A
    /// caller that hands over new data only while they are few keeps the choice of what leaves
    /// next.
    pub fn unsent_bytes(&self) -> u64 {
        self.inner.read(|session| session.unsent_bytes()).unwrap_or(0)
    }

    /// Returns every open path with its addresses and counters; the final ones after the end of the
    /// session.
    pub fn paths(&self) -> Vec<PathInfo> {
        self.inner.shared.lock().paths(self.inner.id)
    }

    /// Returns the interfaces that the session would run over but does not, each with the reason:
    /// no carrier, no route, no address. At most 32; empty if addresses, pairs or networks were
    /// given, and on an accepted session.
    pub fn unused_interfaces(&self) -> Vec<UnusedInterface> {
        self.inner.shared.lock().unused(self.inner.id)
    }

    /// Returns the capacity of the session, for an encoder to follow. `safe` is the rate that the
    /// session reaches over the next second with probability 0.9. All values are 0 before the
    /// session is up and after its end.
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

    /// Returns a receiver for changes of the capacity: at once when `safe` falls by more than 5 %,
    /// also because a radio announces a fade or a path is suspected; when it rises by more than 10
    /// %, at most every 50 ms. The latest value is kept; all values are 0 after the end of the
    /// session. The receiver ends with the last handle of the session.
    pub fn capacity_changes(&self) -> watch::Receiver<Capacity> {
        self.inner.shared.lock().capacity_changes(self.inner.id)
    }

    /// Returns the bytes of new blocks, in addition to those queued, that would arrive `within`
    /// this time with this probability (0 to 1): the size for the next frame. 0 after the end of
    /// the session.
    pub fn deliverable(&self, within: Duration, probability: f64) -> u64 {
        self.inner.read(|session| session.deliverable(Instant::now(), within, probability)).unwrap_or(0)
    }

    /// Requests that the peer send blocks at no more than this bitrate in bit/s; `None` for no
    /// limit. For a picture that has become small, or a decoder that is too slow. The peer's
    /// [`Self::capacity`] reports no more than this, for its encoder to follow; blocks beyond it
    /// still arrive. It holds until the next call.
    pub fn request_bitrate(&self, bits_per_second: Option<u64>) {
        self.inner.change(|session| session.request_bitrate(bits_per_second));
    }

    /// Changes the interfaces of a session that this side started.
    ///
    /// # Errors
    /// If the session was accepted: only the side that connects can choose.
    pub fn set_interfaces(&self, interfaces: Interfaces) -> Result<(), NotConnector> {
        let changed = self.inner.shared.lock().set_interfaces(self.inner.id, interfaces);
        if changed { Ok(()) } else { Err(NotConnector) }
    }

    /// Lifts the limits of [`Config::distrust`](crate::Config::distrust) for this peer, up to the
    /// bounds of [`Config`](crate::Config).
    pub fn trust(&self) {
        self.inner.change(|session| session.trust(Instant::now()));
    }

    /// Replaces the scheduler of [`Config::scheduler`](crate::Config::scheduler()) for this
    /// session, for instance on a server that has identified its peer. Returns `true` if it was
    /// replaced, which is only possible before the first block is handed over. The first scheduler
    /// still determines whether the peer reports stalls.
    pub fn set_scheduler(&self, scheduler: SchedulerFactory) -> bool {
        self.inner.change(|session| session.set_scheduler(scheduler)).unwrap_or(false)
    }

    /// Sets the radio of an interface, given by name or local address; `None` removes it. Its
    /// latest reading is evaluated every 100 ms, and holds until the next. A change takes effect
    /// here at once, and is announced to the peer. A radio that is removed, or whose readings no
    /// longer have levels, stops having an effect after five seconds. See
    /// [`Config::signal`](crate::Config::signal), and [`Monitor`](crate::signal::Monitor) for
    /// sources of readings. The setting holds until the session ends, even if the interface does
    /// not exist yet, or disappears and comes back.
    pub fn set_signal(&self, interface: &str, signal: Option<Subscriber>) {
        let mut core = self.inner.shared.lock();
        core.radios.follow(self.inner.id, interface, signal);
        core.wake();
    }

    /// Sets the weight of a channel, 1 to 256, relative to other channels with data to send, for a
    /// [stream scheduler](crate::Config::streams) that uses weights. Default: 1.
    ///
    /// # Errors
    /// If the weight is out of range, or the session is over.
    pub fn set_channel_weight(&self, channel: Channel, weight: u16) -> Result<(), WeightError> {
        self.inner
            .read(|session| session.set_channel_weight(channel, weight))
            .unwrap_or(Err(WeightError::Closed))
    }

    /// Returns the address of the peer: that of the oldest open path, or of the last one after the
    /// end of the session.
    pub fn remote_address(&self) -> SocketAddr {
        let unspecified = (Ipv4Addr::UNSPECIFIED, 0).into();
        self.inner.shared.lock().remote(self.inner.id).unwrap_or(unspecified)
    }

    /// Returns the smoothed round trip time of the fastest path that carries data, or of the
    /// fastest path if none does; 0 before the first measurement.
    pub fn rtt(&self) -> Duration {
        let paths = self.paths();
        let fastest = |active: bool| {
            let fits = |path: &&PathInfo| !active || path.stats.state == PathState::Active;
            paths.iter().filter(fits).map(|path| path.stats.srtt).min()
        };
        fastest(true).or_else(|| fastest(false)).unwrap_or_default()
    }

    /// Returns the size in bytes of the largest block that can be sent:
    /// [`Config::max_block`](crate::Config::max_block) of this side, or that of the peer if it is
    /// less and has been announced; 0 after the end of the session.
    pub fn max_block_len(&self) -> usize {
        self.inner.read(|session| session.max_block() as usize).unwrap_or(0)
    }

    /// Starts or stops to record the scheduler's decisions and the losses of data. The cost is
    /// small enough to leave it on.
    pub fn keep_reasons(&self, on: bool) {
        self.inner.read(|session| session.keep_reasons(on));
    }

    /// Takes the decisions and losses since the last call; `None` after the end of the session. At
    /// most 65,536 of each are kept.
    pub fn take_reasons(&self) -> Option<Reasons> {
        self.inner.read(squall_proto::Session::take_reasons)
    }
}

/// Longest wait for the close of the session to be sent.
const CLOSE: Duration = Duration::from_millis(200);

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}
