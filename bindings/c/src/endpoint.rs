//! Endpoints that listen.

use std::{net::ToSocketAddrs as _, sync::Arc, time::Duration};

use squall::{Config, Identity};
use tokio::{sync::Notify, task::AbortHandle};

use squall_bindings::{Code, Failure, Queue, Session, listen, runtime};

/// A listening endpoint, with the next accepted session.
pub(crate) struct Endpoint {
    inner: squall::Endpoint,
    fingerprint: String,
    accepted: Arc<Accepted>,
    task: AbortHandle,
}

/// Holds one session; more wait in the endpoint, within its limits.
struct Accepted {
    queue: Queue<squall::Session>,
    taken: Notify,
}

impl Endpoint {
    pub(crate) fn listen(addresses: &[&str], identity: &Identity, config: &Config) -> Result<Self, Failure> {
        let tls = identity.server_tls().map_err(Failure::of(Code::ErrorListen))?;
        let mut resolved = Vec::new();
        for address in addresses {
            let found = address.to_socket_addrs();
            resolved.extend(found.map_err(|e| {
                Failure::new(Code::ErrorListen, format!("cannot listen on '{address}': {e}"))
            })?);
        }
        let queue = Queue::new().map_err(Failure::of(Code::ErrorSystem))?;
        let accepted = Arc::new(Accepted { queue, taken: Notify::new() });
        let runtime = runtime()?;
        let inner = listen(runtime.handle(), &resolved[..], &tls, config);
        let inner = inner.map_err(Failure::of(Code::ErrorListen))?;
        let (endpoint, filled) = (inner.clone(), accepted.clone());
        let task = runtime.spawn(async move {
            while let Some(session) = endpoint.accept().await {
                filled.queue.push(session);
                filled.taken.notified().await;
            }
        });
        let fingerprint = identity.fingerprint().to_string();
        Ok(Self { inner, fingerprint, accepted, task: task.abort_handle() })
    }

    /// Waits for the next session; `None` after the timeout.
    pub(crate) fn accept(&self, timeout: Duration) -> Result<Option<Session>, Failure> {
        let closed = |_| Failure::new(Code::ErrorClosed, "the endpoint is closed");
        let Some(session) = self.accepted.queue.pop(timeout).map_err(closed)? else { return Ok(None) };
        self.accepted.taken.notify_one();
        Session::accepted(session).map(Some)
    }

    pub(crate) fn fd(&self) -> i32 {
        self.accepted.queue.fd()
    }

    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    pub(crate) fn address(&self, index: usize) -> Result<String, Failure> {
        let all = self.inner.local_addrs();
        let address = all.get(index).ok_or_else(|| {
            Failure::argument(format!("there is no address {index}: the endpoint has {}", all.len()))
        })?;
        Ok(address.to_string())
    }

    /// Stops accepting sessions; accepted ones continue.
    pub(crate) fn end(&self) {
        self.task.abort();
        self.accepted.queue.end();
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.end();
    }
}
