//! The workers of an endpoint as one: sessions that wait to be accepted, and the end of all work.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use squall_proto::SessionId;
use tokio::sync::Notify;

/// Sessions that wait for [`Endpoint::accept`](crate::Endpoint::accept) at most, of all workers; more are refused.
const MAX_WAITING: usize = 1024;

/// The common state of the workers of an endpoint.
#[derive(Default)]
pub(crate) struct Group {
    /// A worker has nothing left to do.
    pub(crate) idle: Notify,
    backlog: Mutex<Backlog>,
    /// The backlog has a session, or is closed.
    changed: Notify,
}

/// Sessions that can be accepted, each with the place of its worker.
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

    /// Offers a session to the application; returns whether there was room for it.
    pub(crate) fn offer(&self, worker: usize, id: SessionId) -> bool {
        let mut backlog = self.backlog();
        let has_room = backlog.is_open && backlog.sessions.len() < MAX_WAITING;
        if has_room {
            backlog.sessions.push_back((worker, id));
            self.changed.notify_waiters();
        }
        has_room
    }

    /// The next session and the place of its worker; `None` when no more come. Cancel safe.
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

    /// Takes no more sessions.
    pub(crate) fn close(&self) {
        self.backlog().is_open = false;
        self.changed.notify_waiters();
    }

    /// The sessions that wait.
    pub(crate) fn take(&self) -> VecDeque<(usize, SessionId)> {
        std::mem::take(&mut self.backlog().sessions)
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
