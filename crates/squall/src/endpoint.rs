//! Listening and connecting.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use squall_proto::{AdmissionStats, ClientTls, Config, ServerTls, TlsError};
use tokio::{sync::oneshot, task::spawn_blocking};

use crate::{
    Connect, ConnectError, ListenError, Session, Trust,
    connect::Request,
    driver::Driver,
    error::{self, Attempted},
    interfaces,
    shared::{Order, Shared},
    sockets::Sockets,
};

/// Sessions with one configuration, driven by one task: those that come in, and those that go out, as
/// many as are wanted. Sessions that go out share their sockets. Clones stand for the same endpoint.
///
/// When the last clone is dropped, no session is let in any more; those that are open go on.
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    local: Vec<SocketAddr>,
    connect_timeout: Duration,
    max_paths: usize,
    /// The trust that was used last: a platform's certificates take time to read and memory to keep.
    trusted: Mutex<Option<(Trust, ClientTls)>>,
}

impl Endpoint {
    /// Listens on an address, or on several. On an unspecified one (`0.0.0.0`, `[::]`) every session is
    /// answered from the address it called; `[::]` takes IPv4 as well. Port 0 takes a free port, see
    /// [`Self::local_addrs`]. The endpoint can connect, too.
    ///
    /// # Errors
    /// If an address cannot be bound; see [`ListenError`].
    pub fn listen(addrs: impl ToSocketAddrs, tls: &ServerTls, config: Config) -> Result<Self, ListenError> {
        let _runtime = runtime()?;
        let mut sockets = Sockets::default();
        let mut local = Vec::new();
        for addr in addrs.to_socket_addrs().map_err(ListenError::Address)? {
            local.push(sockets.listen(addr).map_err(|source| ListenError::Bind { addr, source })?);
        }
        if local.is_empty() {
            return Err(ListenError::NoAddress);
        }
        Self::start(config, Some(tls), sockets, local)
    }

    /// An endpoint that lets no session in, for [`Self::connect`].
    ///
    /// # Errors
    /// [`ListenError::NoRuntime`] outside a tokio runtime.
    pub fn client(config: Config) -> Result<Self, ListenError> {
        Self::start(config, None, Sockets::default(), Vec::new())
    }

    fn start(
        config: Config,
        tls: Option<&ServerTls>,
        sockets: Sockets,
        local: Vec<SocketAddr>,
    ) -> Result<Self, ListenError> {
        let runtime = runtime()?;
        let (connect_timeout, max_paths) = (config.connect_timeout, config.limits.paths);
        let proto = squall_proto::Endpoint::new(config, tls, None, Instant::now());
        let shared = Shared::new(proto, tls.is_some());
        let _entered = runtime.enter();
        runtime.spawn(Driver::new(shared.clone(), sockets));
        let trusted = Mutex::default();
        Ok(Self { inner: Arc::new(Inner { shared, local, connect_timeout, max_paths, trusted }) })
    }

    /// Connects to a server over all its interfaces and to all its addresses at once: the handshake is raced
    /// over them, and the interfaces that do not win become further paths. Cancel safe: an attempt that is
    /// not waited for ends.
    ///
    /// # Errors
    /// If there is no way to the server, or it cannot be trusted; see [`ConnectError`]. The attempt ends
    /// after [`Config::connect_timeout`].
    pub async fn connect(&self, request: Connect) -> Result<Session, ConnectError> {
        let tls = self.inner.client_tls(&request.trust)?;
        let remotes = request.resolve().await?;
        let found = if request.interfaces.is_of_the_system() {
            let listed = spawn_blocking(interfaces::list).await.unwrap_or_else(|e| Err(e.into()));
            listed.map_err(|e| ConnectError::NoInterface {
                remote: request.host().to_owned(),
                why: error::plain(&e),
            })?
        } else {
            Vec::new()
        };
        let (answer, answered) = oneshot::channel();
        let shared = &self.inner.shared;
        {
            let order = Request {
                tls,
                server_name: request.name().to_owned(),
                plan: request.interfaces.clone(),
                found,
                remotes: remotes.clone(),
                host: request.host().to_owned(),
                max_paths: self.inner.max_paths,
            };
            let mut core = shared.lock();
            if core.gone || core.closed {
                return Err(ConnectError::EndpointClosed);
            }
            core.orders.push(Order::Connect(Box::new(order), answer));
            core.wake();
        }
        let session = answered.await.map_err(|_| ConnectError::EndpointClosed)??;
        let Err(reason) = session.connected().await else { return Ok(session) };
        let send_error = shared.lock().send_error.take().filter(|(remote, _)| remotes.contains(remote));
        let attempted = Attempted {
            remote: request.host().to_owned(),
            server_name: request.name().to_owned(),
            timeout: self.inner.connect_timeout,
            send_error: send_error.map(|(_, text)| text),
        };
        Err(ConnectError::explain(reason, attempted))
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

    /// Accepts with another certificate from now on, as after a renewal. Open sessions continue. No effect on an endpoint
    /// made by [`Self::client`].
    pub fn set_tls(&self, tls: &ServerTls) {
        self.inner.shared.lock().proto.set_tls(tls);
    }

    /// The addresses listened on; none on an endpoint made by [`Self::client`].
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

    /// Closes all sessions and lets no more in or out. Peers see `code` and `reason`; 0 means a normal end.
    pub fn close(&self, code: u32, reason: &str) {
        let mut core = self.inner.shared.lock();
        core.accepting = false;
        core.closed = true;
        core.close_all(code, reason);
        self.inner.shared.accept.notify_waiters();
    }

    /// Waits until nothing is left of any session, the close of each included.
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

impl Inner {
    fn client_tls(&self, trust: &Trust) -> Result<ClientTls, TlsError> {
        let mut trusted = self.trusted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tls)) = trusted.as_ref().filter(|(last, _)| last == trust) {
            return Ok(tls.clone());
        }
        let tls = trust.client_tls()?;
        *trusted = Some((trust.clone(), tls.clone()));
        Ok(tls)
    }
}

fn runtime() -> Result<tokio::runtime::Handle, ListenError> {
    tokio::runtime::Handle::try_current().map_err(|_| ListenError::NoRuntime)
}

/// Connects from an endpoint of its own, for programs with one session: see [`Endpoint::connect`].
///
/// # Errors
/// As [`Endpoint::connect`].
pub async fn connect(request: Connect, config: Config) -> Result<Session, ConnectError> {
    let endpoint = Endpoint::client(config).map_err(|_| ConnectError::NoRuntime)?;
    endpoint.connect(request).await
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut core = self.shared.lock();
        core.accepting = false;
        core.held = false;
        while let Some(id) = core.accepted.pop_front() {
            core.abandon(id);
        }
        core.wake();
        self.shared.accept.notify_waiters();
    }
}
