//! State shared by the driver and the handles of an endpoint.

pub(crate) mod core;
pub(crate) mod group;
pub(crate) mod handle;
pub(crate) mod order;
pub(crate) mod path;
pub(crate) mod quotas;
mod radios;
pub(crate) mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::{core::Core, group::Group};

/// The core of a worker behind its lock.
pub(crate) struct Shared(Mutex<Core>);

impl Shared {
    pub(crate) fn new(proto: squall_proto::Endpoint, group: Arc<Group>, worker: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Core::new(proto, group, worker))))
    }

    /// Locks the core. A panic in another holder does not make its state unusable.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
