//! Listening and connecting.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Instant,
};

use squall_proto::{AdmissionStats, Config, ServerTls, Target};

use crate::{
    Connect, ConnectError, ListenError, Session,
    driver::{Driver, Sockets},
    error::Attempted,
    keeper::Keeper,
    shared::Shared,
    socket::Binding,
};

/// Sockets that sessions come in on. Clones stand for the same sockets.
///
/// When the last clone is dropped, nobody is let in any more; sessions that were accepted go on.
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    local: Vec<SocketAddr>,
}

impl Endpoint {
    /// Listens on an address, or on several. On an unspecified one (`0.0.0.0`, `[::]`) every session is
    /// answered from the address it called; `[::]` takes IPv4 as well. Port 0 takes a free port, see
    /// [`Self::local_addrs`].
    ///
    /// # Errors
    /// If an address cannot be bound; see [`ListenError`].
    pub fn listen(addrs: impl ToSocketAddrs, tls: &ServerTls, config: Config) -> Result<Self, ListenError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| ListenError::NoRuntime)?;
        let mut sockets = Sockets::default();
        let mut local = Vec::new();
        for addr in addrs.to_socket_addrs().map_err(ListenError::Address)? {
            let (_, bound) =
                sockets.bind(addr, Binding::Address).map_err(|source| ListenError::Bind { addr, source })?;
            local.push(bound);
        }
        if local.is_empty() {
            return Err(ListenError::NoAddress);
        }
        let proto = squall_proto::Endpoint::new(config, Some(tls), None, Instant::now());
        let shared = Shared::new(proto, true);
        runtime.spawn(Driver::new(shared.clone(), sockets, None));
        Ok(Self { inner: Arc::new(Inner { shared, local }) })
    }

    /// The next session; `None` when no more are let in. Cancel safe.
    pub async fn accept(&self) -> Option<Session> {
        let shared = &self.inner.shared;
        loop {
            let more = shared.accept.notified();
            {
                let mut core = shared.lock();
                if let Some(id) = core.accepted.pop_front() {
                    return Some(Session::new(shared.clone(), id, core.signals(id)));
                }
                if !core.accepting {
                    return None;
                }
            }
            more.await;
        }
    }

    /// Connects to a server over all its interfaces at once: the handshake is raced over them, and those
    /// that do not win become further paths.
    ///
    /// # Errors
    /// If there is no way to the server, or it cannot be trusted; see [`ConnectError`]. The attempt ends
    /// after [`Config::connect_timeout`].
    pub async fn connect(request: Connect, config: Config) -> Result<Session, ConnectError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| ConnectError::NoRuntime)?;
        let tls = request.trust.client_tls()?;
        let remotes = request.resolve().await?;
        let (timeout, limits) = (config.connect_timeout, config.limits);
        let proto = squall_proto::Endpoint::new(config, None, None, Instant::now());
        let shared = Shared::new(proto, false);
        let mut sockets = Sockets::default();
        let session = {
            let mut core = shared.lock();
            let mut keeper = Keeper::start(
                request.interfaces.clone(),
                remotes,
                request.host(),
                limits.paths,
                &mut core,
                &mut sockets,
            )?;
            let target = Target { tls, server_name: request.name().to_owned(), paths: keeper.paths() };
            let id = core
                .proto
                .connect(Instant::now(), target)
                .map_err(|error| ConnectError::Request(error.to_string()))?;
            keeper.serve(id, &mut core);
            let signals = core.enrol(id);
            runtime.spawn(Driver::new(shared.clone(), sockets, Some(keeper)));
            Session::new(shared.clone(), id, signals)
        };
        let Err(reason) = session.connected().await else { return Ok(session) };
        let send_error = shared.lock().send_error.take();
        let (remote, server_name) = (request.host().to_owned(), request.name().to_owned());
        Err(ConnectError::explain(reason, Attempted { remote, server_name, timeout, send_error }))
    }

    /// The addresses listened on.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.inner.local
    }

    /// What became of those that wanted to connect, and how many have not announced themselves.
    pub fn admission(&self) -> AdmissionStats {
        self.inner.shared.lock().proto.admission()
    }

    /// Sessions that are open, accepted or not.
    pub fn session_count(&self) -> usize {
        self.inner.shared.lock().proto.sessions().count()
    }

    /// Closes all sessions and lets no more in. Peers see `code` and `reason`; 0 means a normal end.
    pub fn close(&self, code: u32, reason: &str) {
        let mut core = self.inner.shared.lock();
        core.accepting = false;
        core.close_all(code, reason);
        self.inner.shared.accept.notify_waiters();
    }

    /// Waits until nothing is left of any session, farewells included.
    pub async fn wait_idle(&self) {
        let shared = &self.inner.shared;
        loop {
            let idle = shared.idle.notified();
            {
                let mut core = shared.lock();
                if core.gone || core.proto.is_empty() {
                    return;
                }
                core.wake();
            }
            idle.await;
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("local", &self.inner.local).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut core = self.shared.lock();
        core.accepting = false;
        core.listening = false;
        while let Some(id) = core.accepted.pop_front() {
            core.abandon(id);
        }
        core.wake();
        self.shared.accept.notify_waiters();
    }
}
