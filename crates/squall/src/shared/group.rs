//! State that the workers of an endpoint share: sessions to be accepted, and the end of all work.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use squall_proto::SessionId;
use tokio::sync::Notify;

/// Largest number of sessions that wait for [`Endpoint::accept`](crate::Endpoint::accept), over all
/// workers; further ones are refused.
const MAX_WAITING: usize = 1024;

/// Shared state of the workers of an endpoint.
#[derive(Default)]
pub(crate) struct Group {
    /// Signalled when a worker has no work left.
    pub(crate) idle: Notify,
    backlog: Mutex<Backlog>,
    /// Signalled when the backlog has a session, or is closed.
    changed: Notify,
}

/// Sessions that can be accepted, each with the index of its worker.
#[derive(Default)]
struct Backlog {
    is_open: bool,
    sessions: VecDeque<(usize, SessionId)>,
}

impl Group {
    pub(crate) fn new(accepting: bool) -> Self {
        let backlog = Backlog { is_open: accepting, ..Backlog::default() };
        Self { backlog: Mutex::new(backlog), ..Self::default() }
    }

    /// Offers a session to the application; returns `true` if there was room for it.
    pub(crate) fn offer(&self, worker: usize, id: SessionId) -> bool {
        let mut backlog = self.backlog();
        let has_room = backlog.is_open && backlog.sessions.len() < MAX_WAITING;
        if has_room {
            backlog.sessions.push_back((worker, id));
            self.changed.notify_waiters();
        }
        has_room
    }

    /// Returns the next session and the index of its worker; `None` when no more come. Cancel safe.
    pub(crate) async fn accept(&self) -> Option<(usize, SessionId)> {
        loop {
            let changed = self.changed.notified();
            {
                let mut backlog = self.backlog();
                let next = backlog.sessions.pop_front();
                if next.is_some() || !backlog.is_open {
                    return next;
                }
            }
            changed.await;
        }
    }

    /// Closes the backlog: no further sessions are queued.
    pub(crate) fn close(&self) {
        self.backlog().is_open = false;
        self.changed.notify_waiters();
    }

    /// Takes the waiting sessions.
    pub(crate) fn take(&self) -> VecDeque<(usize, SessionId)> {
        std::mem::take(&mut self.backlog().sessions)
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
