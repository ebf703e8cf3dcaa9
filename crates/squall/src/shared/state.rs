//! State of a session for its handles.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
};

use squall_proto::{Capacity, Channel, CloseReason, Event, Outcome, SessionStats, sched::BlockId};
use tokio::sync::{Notify, oneshot, watch};

use crate::{PathEvent, PathInfo, UnusedInterface};

/// Largest number of waiting path events; beyond it the oldest is dropped.
const MAX_PATH_EVENTS: usize = 256;

/// Signals for the handles of a session.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// Blocks of the peer can be taken, or no more will come.
    pub(crate) arrivals: Notify,
    /// A path has changed, or none will change any more.
    pub(crate) paths: Notify,
    /// There is room to send, a block has ended, the session has come up or ended, or the driver
    /// has sent everything.
    pub(crate) changed: Notify,
}

/// Identifies a receiver of blocks in parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceiverId(pub(crate) u64);

/// State of a session in addition to that of the proto session.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) signals: Arc<Signals>,
    /// This side started the session.
    pub(crate) is_own: bool,
    /// The session is up.
    pub(crate) connected: bool,
    /// No handle is left.
    pub(crate) abandoned: bool,
    /// A `send` waits for room for this many bytes.
    pub(crate) blocked: Option<usize>,
    /// An `append` waits for room for this many bytes.
    pub(crate) append_blocked: Option<usize>,
    /// A `writable` waits for half of the queue.
    pub(crate) wants_half: bool,
    /// A `finish` waits.
    pub(crate) finishing: bool,
    /// Senders for the outcomes of open blocks.
    pub(crate) outcomes: HashMap<BlockId, oneshot::Sender<Outcome>>,
    /// Capacity of the session as last reported.
    pub(crate) capacity: watch::Sender<Capacity>,
    /// Interfaces that the session does not run over.
    pub(crate) unused: Vec<UnusedInterface>,
    paths: VecDeque<PathEvent>,
    paths_dropped: u64,
    /// Events that were waiting when the session ended.
    pub(crate) left: VecDeque<Event>,
    /// Channels whose blocks go to a receiver in parts.
    pub(crate) receivers: HashMap<Channel, ReceiverId>,
    pub(crate) last_receiver: ReceiverId,
    /// Address of the peer when the session came up.
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) ended: Option<Ended>,
}

/// Close reason of a session and its final counters.
#[derive(Clone)]
pub(crate) struct Ended {
    pub(crate) reason: CloseReason,
    pub(crate) stats: SessionStats,
    pub(crate) paths: Vec<PathInfo>,
}

impl State {
    /// Returns the close reason; [`CloseReason::Local`] if the session has not ended.
    pub(crate) fn reason(&self) -> CloseReason {
        self.ended.as_ref().map_or(CloseReason::Local, |ended| ended.reason.clone())
    }

    /// Reports the outcome of a block to its handle.
    pub(crate) fn on_outcome(&mut self, block: BlockId, outcome: Outcome) {
        if let Some(handle) = self.outcomes.remove(&block) {
            // The application may have dropped its handle.
            let _ = handle.send(outcome);
        }
        if self.append_blocked.is_some() {
            // The block that ended may be the one that waits for room.
            self.signals.changed.notify_waiters();
        }
    }

    /// Queues a change of a path.
    pub(crate) fn on_path(&mut self, event: PathEvent) {
        if self.paths.len() >= MAX_PATH_EVENTS {
            self.paths.pop_front();
            self.paths_dropped += 1;
        }
        self.paths.push_back(event);
        self.signals.paths.notify_waiters();
    }

    pub(crate) fn next_path_event(&mut self) -> Option<PathEvent> {
        self.paths.pop_front()
    }

    /// Marks the session as ended.
    pub(crate) fn on_end(&mut self, ended: Ended) {
        self.ended = Some(ended);
        self.outcomes.clear();
        self.capacity.send_replace(Capacity::default());
        self.wake_all();
    }

    pub(crate) fn wake_all(&self) {
        self.signals.arrivals.notify_waiters();
        self.signals.paths.notify_waiters();
        self.signals.changed.notify_waiters();
    }

    /// Adds the events dropped here to the counters of the session.
    pub(crate) fn complete(&self, mut stats: SessionStats) -> SessionStats {
        stats.path_events_dropped += self.paths_dropped;
        stats
    }
}

#[cfg(test)]
mod tests {
    use squall_proto::sched::PathId;

    use super::*;
    use crate::PathChange;

    #[test]
    fn path_events_that_are_not_taken_are_bounded_and_counted() {
        let mut state = State::default();
        for id in 0..=MAX_PATH_EVENTS {
            state.on_path(PathEvent { path: PathId(id as u8), change: PathChange::Down });
        }
        assert_eq!(state.complete(SessionStats::default()).path_events_dropped, 1);
        assert_eq!(state.next_path_event().map(|event| event.path), Some(PathId(1)));
        assert_eq!(state.paths.len(), MAX_PATH_EVENTS - 1);
    }
}
