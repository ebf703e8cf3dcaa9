//! A session: blocks out, events in.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use squall_proto::{
    Block, CloseReason, DecisionLog, Event, PacketLog, PathStats, SendError, SessionId, SessionStats,
    sched::{BlockId, PathId},
    signal::Subscriber,
};

use crate::{
    Interfaces,
    shared::{Shared, Signals},
};

/// A session with one peer. Clones stand for the same session, so that one task can send and another
/// receive; all methods take `&self`.
///
/// When the last clone is dropped the session is closed, with code 0: call [`Self::finish`] first for
/// blocks that are still on their way.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    id: SessionId,
    signals: Arc<Signals>,
}

/// Why not every block had ended when the session was finished.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FinishError {
    /// The time was up.
    #[error("{open} blocks were still on their way after {after:?}")]
    TimedOut {
        /// Blocks that had not ended.
        open: usize,
        /// The time that was given.
        after: Duration,
    },
    /// The session ended first; [`Event::Closed`] tells why.
    #[error("the session ended before all blocks had")]
    Closed,
}

/// A path of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct PathInfo {
    /// Its id, as in events.
    pub id: PathId,
    /// Name of the local interface, if the path was opened over a named one.
    pub interface: Option<String>,
    /// Local address.
    pub local: SocketAddr,
    /// Address of the peer.
    pub remote: SocketAddr,
    /// Its counters.
    pub stats: PathStats,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, id: SessionId, signals: Arc<Signals>) -> Self {
        Self { inner: Arc::new(Inner { shared, id, signals }) }
    }

    /// Hands a block over, and waits for room when the queue is full. A deadline counts from when there
    /// was room. Cancel safe: a block that was not handed over yet is dropped.
    ///
    /// # Errors
    /// If the block is empty or too large, or the session is over. Never [`SendError::Full`].
    pub async fn send(&self, block: Block) -> Result<BlockId, SendError> {
        let mut block = block;
        loop {
            let room = self.inner.signals.changed.notified();
            let result = self.inner.shared.lock().send(self.inner.id, block, true);
            match result {
                Err(SendError::Full(back)) => block = back,
                done => return done,
            }
            room.await;
        }
    }

    /// Hands a block over if there is room.
    ///
    /// # Errors
    /// [`SendError::Full`] hands the block back; [`Event::Writable`] comes when half of the queue is
    /// free. The others as for [`Self::send`].
    pub fn try_send(&self, block: Block) -> Result<BlockId, SendError> {
        self.inner.shared.lock().send(self.inner.id, block, false)
    }

    /// Takes a block back. Its fate is told as cancelled, unless it has ended before.
    pub fn cancel(&self, block: BlockId) {
        let mut core = self.inner.shared.lock();
        if let Some(session) = core.proto.session(self.inner.id) {
            session.cancel(Instant::now(), block);
            core.wake();
        }
    }

    /// The next thing that happened; `None` after [`Event::Closed`]. Cancel safe.
    ///
    /// Blocks that are not taken count against [`Limits::reassembly`](crate::Limits::reassembly), which
    /// holds the peer back.
    pub async fn recv(&self) -> Option<Event> {
        loop {
            let more = self.inner.signals.readable.notified();
            {
                let mut core = self.inner.shared.lock();
                let event = core.poll_event(self.inner.id);
                if event.is_some() || core.is_over(self.inner.id) {
                    return event;
                }
            }
            more.await;
        }
    }

    /// The next thing that happened, if something has.
    pub fn try_recv(&self) -> Option<Event> {
        self.inner.shared.lock().poll_event(self.inner.id)
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
        // The farewell is to be on its way, should the program end next.
        let farewell = tokio::time::timeout(FAREWELL, self.flushed(flushes));
        let _ = farewell.await;
        outcome
    }

    async fn all_ended(&self) -> Result<(), FinishError> {
        // Blocks that end with the session count as cancelled, like those taken back before.
        let mut cancelled = 0;
        loop {
            let changed = self.inner.signals.changed.notified();
            {
                let mut core = self.inner.shared.lock();
                let now = core.stats(self.inner.id).blocks_cancelled;
                if core.has_ended(self.inner.id) {
                    return if now > cancelled { Err(FinishError::Closed) } else { Ok(()) };
                }
                cancelled = now;
                if core.finishing(self.inner.id) {
                    return Ok(());
                }
            }
            changed.await;
        }
    }

    async fn flushed(&self, before: u64) {
        loop {
            let changed = self.inner.signals.changed.notified();
            {
                let mut core = self.inner.shared.lock();
                if core.gone || core.flushes > before {
                    return;
                }
                core.finishing(self.inner.id);
                core.wake();
            }
            changed.await;
        }
    }

    /// Closes the session at once; blocks on their way end with it. The peer sees `code` and `reason`; 0
    /// means a normal end.
    pub fn close(&self, code: u32, reason: &str) {
        self.inner.shared.lock().close(self.inner.id, code, reason);
    }

    /// Why the session ended, once [`Event::Closed`] was taken.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.inner.shared.lock().close_reason(self.inner.id)
    }

    /// Counters since the session began; the last ones when it is over.
    pub fn stats(&self) -> SessionStats {
        self.inner.shared.lock().stats(self.inner.id)
    }

    /// Every open path with its addresses and counters; the last ones when the session is over.
    pub fn path_stats(&self) -> Vec<PathInfo> {
        self.inner.shared.lock().paths(self.inner.id)
    }

    /// Changes the interfaces that a session started by this side runs over. An accepted session has
    /// no say in that: there the call is without effect.
    pub fn set_interfaces(&self, interfaces: Interfaces) {
        let mut core = self.inner.shared.lock();
        core.plan = Some(interfaces);
        core.wake();
    }

    /// The peer has shown that it may use all that [`Config::limits`](crate::Config::limits) allows, where
    /// [`Config::distrust`](crate::Config::distrust) holds it back.
    pub fn trust(&self) {
        self.inner.shared.lock().trust(self.inner.id);
    }

    /// Declares the bytes of an interface, given by name or by local address, to cost money or not. The
    /// peer is told: schedulers at both ends see it, and may spare the interface or put a cap on it
    /// (`minrtt(cap=250MB)`). It holds while the interface keeps its address, even if it goes and comes back.
    pub fn set_metered(&self, interface: &str, metered: bool) {
        self.inner.shared.lock().set_metered(self.inner.id, interface, metered);
    }

    /// Has the session go by the radio behind an interface, given by name or by local address, or no more:
    /// its latest reading is looked at every 100 ms, and holds until there is another. What that changes
    /// takes effect here at once, and the peer is told. A radio that is let go, or whose reading tells
    /// nothing any more, counts for nothing after five seconds. See [`Config::signal`](crate::Config::signal), and
    /// [`Monitor`](crate::signal::Monitor) for where readings come from.
    pub fn set_signal(&self, interface: &str, signal: Option<Subscriber>) {
        let mut core = self.inner.shared.lock();
        core.radios.follow(self.inner.id, interface, signal);
        core.wake();
    }

    /// Sets how many bytes of UDP payload this side may send over an interface, given by name or by local
    /// address, in this session; `None` lifts that. A reserve, a quarter but at most 16 kB, is kept from
    /// data for what QUIC itself has to send; when that is nearly used too the path is closed, or, if it is
    /// the only one, the session with [`CloseReason::OverBudget`]. The smaller of this and of the
    /// scheduler's cap holds.
    pub fn set_budget(&self, interface: &str, budget: Option<u64>) {
        self.inner.shared.lock().set_budget(self.inner.id, interface, budget);
    }

    /// Sets the weight of a channel, 1 to 256, among those with data to send, if
    /// [`Config::streams`](crate::Config::streams) has the channels take turns; 1 if never set.
    pub fn set_channel_weight(&self, channel: u16, weight: u16) {
        if let Some(session) = self.inner.shared.lock().proto.session(self.inner.id) {
            session.set_channel_weight(channel, weight);
        }
    }

    /// Starts or stops to log the scheduler's decisions and the packets' fates.
    pub fn keep_log(&self, on: bool) {
        if let Some(session) = self.inner.shared.lock().proto.session(self.inner.id) {
            session.keep_log(on);
        }
    }

    /// Takes the decisions logged since last time; about a million are kept.
    pub fn take_decisions(&self) -> Vec<DecisionLog> {
        let mut core = self.inner.shared.lock();
        core.proto.session(self.inner.id).map(squall_proto::Session::take_decisions).unwrap_or_default()
    }

    /// Takes the packets logged since last time; about a million entries are kept.
    pub fn take_packets(&self) -> Vec<PacketLog> {
        let mut core = self.inner.shared.lock();
        core.proto.session(self.inner.id).map(squall_proto::Session::take_packets).unwrap_or_default()
    }
}

/// Longest that a farewell is waited for.
const FAREWELL: Duration = Duration::from_millis(200);

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.inner.id).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.lock().abandon(self.id);
    }
}
