//! The reference to a session that all its handles share.

use std::sync::Arc;

use squall_proto::{CloseReason, Event, SessionId};
use tokio::sync::Notify;

use crate::shared::{
    Shared,
    core::Core,
    state::{ReceiverId, Signals},
};

/// Reference to a session of an endpoint. The session is closed when the reference is dropped.
pub(crate) struct SessionRef {
    pub(super) shared: Arc<Shared>,
    pub(super) id: SessionId,
    pub(super) signals: Arc<Signals>,
}

impl SessionRef {
    /// Waits for a result of `check`, which is called now and after each signal.
    pub(super) async fn until<T>(
        &self,
        signal: &Notify,
        mut check: impl FnMut(&mut Core, SessionId) -> Option<T>,
    ) -> T {
        loop {
            let given = signal.notified();
            if let Some(result) = check(&mut self.shared.lock(), self.id) {
                return result;
            }
            given.await;
        }
    }

    pub(super) async fn changed<T>(&self, check: impl FnMut(&mut Core, SessionId) -> Option<T>) -> T {
        self.until(&self.signals.changed, check).await
    }

    /// Returns the result of `read`; `None` when the session is over.
    pub(super) fn read<T>(&self, read: impl FnOnce(&mut squall_proto::Session) -> T) -> Option<T> {
        self.shared.lock().proto.session(self.id).map(read)
    }

    /// As [`Self::read`], for changes that may cause packets.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut squall_proto::Session) -> T) -> Option<T> {
        let mut core = self.shared.lock();
        let changed = core.proto.session(self.id).map(change);
        core.wake();
        changed
    }

    /// Returns the next event about blocks of the peer for a receiver, or for the session itself.
    pub(super) async fn arrived(&self, receiver: Option<ReceiverId>) -> Result<Option<Event>, CloseReason> {
        let next = |core: &mut Core, id| match core.poll_arrival(id, receiver) {
            None if !core.is_over(id) => None,
            None => match core.close_reason(id) {
                Some(reason) if !reason.is_normal() => Some(Err(reason)),
                _ => Some(Ok(None)),
            },
            event => Some(Ok(event)),
        };
        self.until(&self.signals.arrivals, next).await
    }
}

impl std::fmt::Debug for SessionRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for SessionRef {
    fn drop(&mut self) {
        self.shared.lock().abandon(self.id);
    }
}
