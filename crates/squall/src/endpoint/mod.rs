//! Listening and connecting.

pub(crate) mod config;
mod driver;
mod path_manager;
mod places;
pub(crate) mod request;
mod timer;

use std::{
    net::{SocketAddr, ToSocketAddrs},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use squall_proto::{AdmissionStats, ClientTls, Config, ServerTls, TlsError};
use tokio::{sync::oneshot, task::spawn_blocking};

use self::{
    config::EndpointConfig,
    driver::{Driver, Place},
    request::{Connect, Trust},
};
use crate::{
    ConnectError, EndpointError, ListenError, Session,
    error::{self, Attempted},
    net::{listen, sockets::Sockets, view::View},
    shared::{
        Shared,
        group::Group,
        order::{Order, Request},
    },
};

/// Counters of one worker of an endpoint; see [`Endpoint::workers`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Open sessions, accepted or not.
    pub sessions: usize,
    /// Datagrams that belonged to no connection and began none: garbage, late packets of a closed
    /// session, and packets that a load balancer sent to the wrong server.
    pub unknown: u64,
    /// Packets that arrived on this worker and were handed over to the worker of their session.
    pub handed_over: u64,
}

/// A set of sessions with one configuration, incoming and outgoing. Clones refer to the same
/// endpoint.
///
/// [`EndpointConfig::workers`] tasks drive the sessions, one by default. A session lives on one
/// worker, with all its paths; outgoing sessions are assigned to the workers in turn, and share the
/// sockets of their worker.
///
/// When the last clone is dropped, no session is accepted any more; open sessions continue. The
/// addresses are free at most 0.3 s after the last session has ended.
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

struct Inner {
    group: Arc<Group>,
    workers: Vec<Arc<Shared>>,
    /// Number of sessions started by this side.
    connects: AtomicUsize,
    local: Vec<SocketAddr>,
    /// Default configuration of sessions.
    config: Config,
    /// Most recent trust anchors: reading a platform's certificates takes time, and keeping them
    /// takes memory.
    trusted: Mutex<Option<(Trust, ClientTls)>>,
}

impl Endpoint {
    /// Listens on one or several addresses. On an unspecified address (`0.0.0.0`, `[::]`) the
    /// answers of a session leave from the address that the client used; `[::]` accepts IPv4 as
    /// well, and means `0.0.0.0` on a system without IPv6. Port 0 selects a free port, see
    /// [`Self::local_addrs`]. The endpoint can also connect.
    ///
    /// # Errors
    /// If an address cannot be bound; see [`ListenError`].
    pub fn listen(
        addrs: impl ToSocketAddrs,
        tls: &ServerTls,
        config: impl Into<EndpointConfig>,
    ) -> Result<Self, ListenError> {
        let _runtime = runtime()?;
        let config = config.into();
        let mut sockets: Vec<Sockets> = Vec::new();
        sockets.resize_with(config.count_listening()?, Sockets::default);
        let mut local = Vec::new();
        for addr in addrs.to_socket_addrs().map_err(ListenError::Address)? {
            let bound = listen::bind(&mut sockets, addr).or_else(|error| {
                let other = error::without_ipv6(addr, &error).ok_or(error)?;
                tracing::warn!("this machine has no IPv6: listening on {other} instead of {addr}");
                listen::bind(&mut sockets, other)
            });
            local.push(bound.map_err(|source| ListenError::Bind { addr, source })?);
        }
        if local.is_empty() {
            return Err(ListenError::NoAddress);
        }
        Ok(Self::start(config.sessions, Some(tls), sockets, local)?)
    }

    /// Creates an endpoint that accepts no sessions, for [`Self::connect`].
    ///
    /// # Errors
    /// Outside a tokio runtime, and for an invalid number of workers.
    pub fn client(config: impl Into<EndpointConfig>) -> Result<Self, EndpointError> {
        let config = config.into();
        let mut sockets = Vec::new();
        sockets.resize_with(config.count()?, Sockets::default);
        Self::start(config.sessions, None, sockets, Vec::new())
    }

    fn start(
        config: Config,
        tls: Option<&ServerTls>,
        sockets: Vec<Sockets>,
        local: Vec<SocketAddr>,
    ) -> Result<Self, EndpointError> {
        let runtime = runtime()?;
        let _entered = runtime.enter();
        let cores = squall_proto::Endpoint::workers(&config, tls, None, Instant::now(), sockets.len());
        let group = Arc::new(Group::new(tls.is_some()));
        let shared = |(index, mut core): (_, squall_proto::Endpoint)| {
            core.set_even_offsets(true);
            Shared::new(core, group.clone(), index)
        };
        let workers: Vec<Arc<Shared>> = cores.into_iter().enumerate().map(shared).collect();
        let all: Arc<[_]> = workers.iter().map(Arc::downgrade).collect();
        for (index, (shared, sockets)) in workers.iter().zip(sockets).enumerate() {
            let place = Place { index, workers: all.clone(), listening: local.len() };
            runtime.spawn(Driver::new(shared.clone(), place, sockets));
        }
        let inner =
            Inner { group, workers, connects: AtomicUsize::new(0), local, config, trusted: Mutex::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Connects to a server. The handshake is raced over all interfaces and to all addresses;
    /// interfaces that do not win the race become further paths. Cancel safe: dropping the future
    /// ends the attempt.
    ///
    /// # Errors
    /// If the server cannot be reached or is not trusted; see [`ConnectError`]. The attempt ends
    /// after [`Config::connect_timeout`].
    pub async fn connect(&self, request: Connect) -> Result<Session, ConnectError> {
        // Certificates of the platform are read from files, which may block.
        let (inner, trust) = (self.inner.clone(), request.trust.clone());
        let tls = spawn_blocking(move || inner.client_tls(&trust)).await;
        // The task fails only when the runtime ends.
        let tls = tls.map_err(|_| ConnectError::EndpointClosed)??;
        let remotes = request.resolve().await?;
        let config = request.config.as_ref().unwrap_or(&self.inner.config);
        let view = if request.interfaces.is_of_the_system() {
            let to = remotes.clone();
            let listed = spawn_blocking(move || View::of_system(&to)).await;
            let listed = listed.unwrap_or_else(|e| Err(e.into()));
            listed.map_err(|e| ConnectError::NoInterface {
                remote: request.host().to_owned(),
                why: error::plain(&e),
            })?
        } else {
            View::default()
        };
        let (answer, answered) = oneshot::channel();
        let shared = self.inner.next_worker();
        {
            let order = Request {
                tls,
                server_name: request.name().to_owned(),
                plan: request.interfaces.clone(),
                quotas: request.quotas.clone(),
                view,
                remotes: remotes.clone(),
                host: request.host().to_owned(),
                config: config.clone(),
            };
            let mut core = shared.lock();
            if core.gone || core.closed {
                return Err(ConnectError::EndpointClosed);
            }
            let starting = shared.clone();
            let answer = |started: Result<_, _>| {
                // If the caller no longer waits, the session is dropped here, which closes it.
                drop(answer.send(started.map(|id| Session::new(starting, id))));
            };
            core.orders.push(Order::Connect(Box::new(order), Box::new(answer)));
            core.wake();
        }
        let session = answered.await.map_err(|_| ConnectError::EndpointClosed)??;
        let Err(reason) = session.connected().await else { return Ok(session) };
        let send_error = shared.lock().send_error.take().filter(|(remote, _)| remotes.contains(remote));
        let attempted = Attempted {
            remote: request.host().to_owned(),
            server_name: request.name().to_owned(),
            timeout: config.connect_timeout,
            send_error: send_error.map(|(_, text)| text),
        };
        Err(ConnectError::explain(reason, attempted))
    }

    /// Accepts the next session; `None` once the endpoint accepts no more. Cancel safe.
    pub async fn accept(&self) -> Option<Session> {
        let (worker, id) = self.inner.group.accept().await?;
        Some(Session::new(self.inner.workers[worker].clone(), id))
    }

    /// Replaces the certificate for new sessions, for instance after a renewal. Open sessions
    /// continue. No effect on an endpoint from [`Self::client`].
    pub fn set_tls(&self, tls: &ServerTls) {
        for shared in &self.inner.workers {
            shared.lock().proto.set_tls(tls);
        }
    }

    /// Returns the listening addresses; empty for an endpoint from [`Self::client`].
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.inner.local
    }

    /// Returns counters of admitted and rejected handshakes, and the number of pending ones.
    pub fn admission(&self) -> AdmissionStats {
        let mut sum = AdmissionStats::default();
        for shared in &self.inner.workers {
            let AdmissionStats { pending, retried, displaced, expired, refused } =
                shared.lock().proto.admission();
            sum.pending += pending;
            sum.retried += retried;
            sum.displaced += displaced;
            sum.expired += expired;
            sum.refused += refused;
        }
        sum
    }

    /// Returns the number of open sessions, accepted or not.
    pub fn session_count(&self) -> usize {
        self.inner.workers.iter().map(|shared| shared.lock().proto.sessions().count()).sum()
    }

    /// Returns the counters of each worker; see [`EndpointConfig::workers`].
    pub fn workers(&self) -> Vec<WorkerStats> {
        let stats = |shared: &Arc<Shared>| {
            let core = shared.lock();
            WorkerStats {
                sessions: core.proto.sessions().count(),
                unknown: core.proto.unknown_packets(),
                handed_over: core.handed_over,
            }
        };
        self.inner.workers.iter().map(stats).collect()
    }

    /// Closes all sessions, and accepts and starts no more. Peers receive `code` and `reason`; 0
    /// means a normal end. The addresses are free at most 0.3 s later; [`Self::wait_idle`] waits
    /// for that.
    pub fn close(&self, code: u32, reason: &str) {
        self.inner.group.close();
        for shared in &self.inner.workers {
            let mut core = shared.lock();
            core.closed = true;
            core.close_all(code, reason);
        }
    }

    /// Waits until every session has ended and its close has been sent; on a closed endpoint also
    /// until its addresses are free.
    pub async fn wait_idle(&self) {
        let Inner { group, workers, .. } = &*self.inner;
        loop {
            let idle = group.idle.notified();
            let mut is_idle = true;
            for shared in workers {
                let mut core = shared.lock();
                if !core.gone && (core.closed || !core.proto.is_empty()) {
                    is_idle = false;
                    core.wake();
                }
            }
            if is_idle {
                return;
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
    /// Returns the worker for the next outgoing session.
    fn next_worker(&self) -> &Arc<Shared> {
        &self.workers[self.connects.fetch_add(1, Relaxed) % self.workers.len()]
    }

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

fn runtime() -> Result<tokio::runtime::Handle, EndpointError> {
    tokio::runtime::Handle::try_current().map_err(|_| EndpointError::NoRuntime)
}

/// Connects from a new endpoint, for programs with one session; see [`Endpoint::connect`].
///
/// # Errors
/// As [`Endpoint::connect`].
pub async fn connect(request: Connect) -> Result<Session, ConnectError> {
    Endpoint::client(Config::default())?.connect(request).await
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.group.close();
        for shared in &self.workers {
            let mut core = shared.lock();
            core.held = false;
            core.wake();
        }
        for (worker, id) in self.group.take() {
            self.workers[worker].lock().abandon(id);
        }
    }
}
