//! The state that all parts of a running tunnel share.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use squall::{AdmissionStats, Endpoint, Limit, Quotas, Session};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};

use crate::{
    clock::{Clock, lock},
    config::{Config, Side, TokenHash},
    control::code,
    flow::Registry,
    journal::{Journal, Kind},
    limiter::{TokenFailures, UnauthenticatedSessions},
    memory,
    status::{SessionStatus, Status, StrangersStatus, WhyStatus, printable},
    tenants::{ChangeError, Sources, Tenants, state::StateError, tenant::Tenant},
    totals::Totals,
    tun::Tun,
};

/// Sessions of all hosts whose peer has not presented the token yet.
pub(crate) const MAX_UNAUTHENTICATED: usize = 16;

/// Of these, sessions of one host.
const MAX_UNAUTHENTICATED_OF_HOST: usize = 8;

/// Characters of an unknown name that an error repeats.
const MAX_SHOWN: usize = 128;

/// Capacity changes that wait for a reader; older ones are dropped.
const BITRATES: usize = 256;

/// The state of a running tunnel.
#[derive(Debug)]
pub(crate) struct Shared {
    config: Mutex<Arc<Config>>,
    /// Held while the flows are changed.
    changing: Mutex<()>,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) clock: Clock,
    pub(crate) registry: Registry,
    /// The TUN device, if there is one.
    pub(crate) tun: Option<Arc<Tun>>,
    /// The quotas of interfaces, at an entry that has any.
    pub(crate) quotas: OnceLock<Quotas>,
    /// The address of the exit, at an entry.
    exit: Mutex<Option<SocketAddr>>,
    pub(crate) journal: Arc<Journal>,
    /// Whether the reasons of what became of blocks are kept: if they can be read.
    pub(crate) explains: bool,
    unauthenticated: UnauthenticatedSessions<Session>,
    token_failures: TokenFailures,
    /// One permit for each tunnel that an exit accepts.
    permits: Arc<Semaphore>,
    /// How many there are.
    max_sessions: usize,
    /// The endpoint of an exit.
    pub(crate) endpoint: OnceLock<Endpoint>,
    sessions: Mutex<Vec<Arc<LiveStatus>>>,
    /// Counters over all sessions.
    pub(crate) totals: Totals,
    last_session: AtomicU64,
    pub(crate) opened: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Whether the tunnel is stopping.
    pub(crate) stopping: watch::Sender<bool>,
    /// Why the tunnel cannot continue, if so.
    pub(crate) failure: watch::Sender<Option<String>>,
    /// Changes of the capacity of sessions.
    pub(crate) bitrates: broadcast::Sender<Bitrate>,
    /// When an exit that drains closes the sessions that are left.
    draining: watch::Sender<Option<Instant>>,
    /// Redirects that this exit sent, or that this entry followed.
    pub(crate) redirects: AtomicU64,
}

impl Identity {
    /// Its name in the configuration; empty for entries without one.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Exit => "",
            Self::Peer(name) => name,
            Self::Tenant(tenant) => &tenant.name,
        }
    }
}

/// The owner of a token.
#[derive(Debug)]
pub(crate) enum Identity {
    /// Every entry.
    Exit,
    /// A peer of the TUN device that has its own.
    Peer(String),
    /// A tenant.
    Tenant(Arc<Tenant>),
}

/// The capacity of a session of a tunnel, for an encoder to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bitrate {
    /// Number of the session, from 1.
    pub session: u64,
    /// Bits per second for all flows that enter at this end together: [`squall::Capacity::safe`]. 0 when the session is
    /// over.
    pub safe_bps: u64,
    /// What limits it.
    pub limit: Limit,
}

impl Shared {
    /// The state of a tunnel with this TUN device. Reads what is kept about tenants.
    pub(crate) fn new(config: Config, tun: Option<Arc<Tun>>) -> Result<Self, StateError> {
        let clock = Clock::start();
        let journal = Arc::new(Journal::new(clock));
        let explains = config.metrics.is_some() || config.control.is_some();
        let tenants = Tenants::open(&config, journal.clone())?;
        Ok(Self {
            changing: Mutex::default(),
            tenants: Arc::new(tenants),
            clock,
            registry: Registry::new(clock, journal.clone(), explains, tun.clone()),
            tun,
            quotas: OnceLock::new(),
            exit: Mutex::default(),
            journal,
            explains,
            unauthenticated: UnauthenticatedSessions::new(MAX_UNAUTHENTICATED, MAX_UNAUTHENTICATED_OF_HOST),
            token_failures: TokenFailures::default(),
            permits: Arc::new(Semaphore::new(config.max_sessions)),
            max_sessions: config.max_sessions,
            endpoint: OnceLock::new(),
            sessions: Mutex::default(),
            totals: Totals::default(),
            last_session: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stopping: watch::Sender::new(false),
            failure: watch::Sender::new(None),
            bitrates: broadcast::Sender::new(BITRATES),
            draining: watch::Sender::new(None),
            redirects: AtomicU64::new(0),
            config: Mutex::new(Arc::new(config)),
        })
    }

    /// Sets the address of the exit that the current session has.
    pub(crate) fn set_exit(&self, address: Option<SocketAddr>) {
        *lock(&self.exit) = address;
    }

    /// Whether packets to this address and port are those of the tunnel itself.
    pub(crate) fn is_exit(&self, address: IpAddr, port: Option<u16>) -> bool {
        lock(&self.exit)
            .is_some_and(|exit| exit.ip() == address && port.is_none_or(|port| port == exit.port()))
    }

    /// The current configuration.
    pub(crate) fn config(&self) -> Arc<Config> {
        lock(&self.config).clone()
    }

    /// Applies the flows and tenants of a configuration, and makes it the current one. Returns a description of the changes.
    pub(crate) fn apply(&self, config: Config) -> Result<String, ChangeError> {
        let _changing = lock(&self.changing);
        let words = self.tenants.change(&config, &self.registry, |sources| {
            sources.configured.clone_from(&config.tenants.list);
            Ok(())
        })?;
        *lock(&self.config) = Arc::new(config);
        Ok(words)
    }

    /// Changes the tenants of other sources than the configuration.
    pub(crate) fn change_tenants(
        &self,
        change: impl FnOnce(&mut Sources) -> Result<(), ChangeError>,
    ) -> Result<String, ChangeError> {
        let _changing = lock(&self.changing);
        self.tenants.change(&self.config(), &self.registry, change)
    }

    /// The owner of a token, at an exit. `None` if it is wrong.
    pub(crate) fn identify(&self, token: &[u8]) -> Option<Identity> {
        match self.tenants.identify(&TokenHash::of(token)) {
            Some(tenant) => Some(Identity::Tenant(tenant)),
            None => self.config().identify(token).map(|peer| peer.map_or(Identity::Exit, Identity::Peer)),
        }
    }

    /// The configurations with which the current sessions began.
    pub(crate) fn session_configs(&self) -> Vec<Arc<Config>> {
        lock(&self.sessions).iter().map(|session| session.config.clone()).collect()
    }

    /// Marks the tunnel as unable to continue.
    pub(crate) fn fail(&self, why: &str) {
        self.journal.task_failed("the tunnel", why);
        self.failure.send_replace(Some(why.to_owned()));
    }

    /// Lets an exit drain, once. Returns the time that is left for it; `None` at an entry.
    pub(crate) fn drain(&self) -> Option<Duration> {
        let config = self.config();
        let Side::Listen(listen) = &config.side else { return None };
        let (now, timeout) = (Instant::now(), listen.drain_timeout);
        let begins =
            |before: &mut Option<Instant>| before.is_none() && before.replace(now + timeout).is_none();
        if self.draining.send_if_modified(begins) {
            let words = match lock(&self.sessions).len() {
                0 => "draining: there is no session to move".to_owned(),
                _ => format!("draining: sessions move to other exits, within {timeout:?}"),
            };
            self.journal.info(Kind::Session, words);
        }
        self.draining().map(|until| until.saturating_duration_since(now))
    }

    /// When the exit closes the sessions that are left, if it drains.
    pub(crate) fn draining(&self) -> Option<Instant> {
        *self.draining.borrow()
    }

    /// Changes when the exit begins to drain.
    pub(crate) fn drain_changes(&self) -> watch::Receiver<Option<Instant>> {
        self.draining.subscribe()
    }

    /// Waits until no session is left, and all that arrived has left, too.
    pub(crate) async fn is_empty(&self, max_sessions: usize) {
        let all = u32::try_from(max_sessions).unwrap_or(u32::MAX);
        // Fails if the semaphore is closed, which it never is.
        let _ = self.permits.acquire_many(all).await;
    }

    /// Permission to carry another tunnel of an entry, unless `max_sessions` are carried. One that has sessions already leaves a place to
    /// each tenant that has none, and to the entries with the token of the exit, but not more than half of all.
    pub(crate) fn permit(&self, identity: &Identity) -> Option<OwnedSemaphorePermit> {
        let unnamed = || lock(&self.sessions).iter().filter(|session| session.is_unnamed()).count();
        let (has_others, waits) = match identity {
            Identity::Tenant(tenant) => {
                (tenant.session_count() > 1, self.config().token.is_some() && unnamed() == 0)
            }
            Identity::Exit | Identity::Peer(_) => (unnamed() > 0, false),
        };
        let reserved = match has_others {
            true => (self.tenants.without_sessions() + usize::from(waits)).min(self.max_sessions / 2),
            false => 0,
        };
        (self.permits.available_permits() > reserved).then(|| self.any_permit()).flatten()
    }

    /// The same, without a reserve.
    pub(crate) fn any_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Whether an exit accepts sessions, or an entry has one.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn is_ready(&self) -> Result<(), &'static str> {
        let is_entry = self.config().is_entry();
        let has_session = || lock(&self.sessions).iter().any(|session| session.status().agreed);
        match is_entry {
            true if !has_session() => Err("no session"),
            false if self.draining().is_some() => Err("draining"),
            _ => Ok(()),
        }
    }

    /// The stories of a flow.
    pub(crate) fn why(&self, name: &str) -> Result<WhyStatus, String> {
        let flows = self.registry.all();
        let flow = flows.iter().find(|flow| flow.config().name == name).ok_or_else(|| {
            let names: Vec<String> = flows.iter().map(|flow| flow.config().name.clone()).collect();
            let name = printable(name.chars().take(MAX_SHOWN).collect());
            let names = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
            format!("no flow is named '{name}': {names}")
        })?;
        let uptime_s = self.clock.now() as f64 / 1e6;
        Ok(WhyStatus { uptime_s, flow: flow.status(), stories: flow.stories() })
    }

    pub(crate) fn status(&self) -> Status {
        let config = self.config();
        let endpoint = self.endpoint.get();
        let (role, address) = match &config.side {
            Side::Connect(connect) => ("entry", connect.words()),
            Side::Listen(listen) => {
                let bound = endpoint.and_then(|endpoint| endpoint.local_addrs().first().copied());
                ("exit", bound.unwrap_or(listen.address).to_string())
            }
        };
        let strangers = endpoint.map_or_else(StrangersStatus::default, |endpoint| {
            let AdmissionStats { pending, retried, displaced, expired, refused } = endpoint.admission();
            StrangersStatus { pending: pending as u64, retried, displaced, expired, refused }
        });
        let sessions = lock(&self.sessions).clone();
        Status {
            role: role.to_owned(),
            address,
            scheduler: config.scheduler.clone(),
            uptime_s: self.clock.now() as f64 / 1e6,
            memory_bytes: memory::resident().unwrap_or(0),
            sessions_opened: self.opened.load(Relaxed),
            sessions_failed: self.failed.load(Relaxed),
            strangers,
            task_failures: self.journal.task_failures(),
            draining: self.draining().is_some(),
            redirects: self.redirects.load(Relaxed),
            sessions: sessions.iter().map(|session| session.status()).collect(),
            flows: self.registry.all().iter().map(|flow| flow.status()).collect(),
            quotas: self.quotas.get().map(Quotas::state).into_iter().flatten().map(Into::into).collect(),
            tun: self.tun.as_ref().map(|tun| tun.status()),
            tenants: self.tenants.status(),
            events: self.journal.events(),
        }
    }
}

/// The status of a session, updated while it runs.
#[derive(Debug)]
pub(crate) struct LiveStatus {
    since: Instant,
    /// The configuration at its begin.
    config: Arc<Config>,
    status: Mutex<SessionStatus>,
}

impl LiveStatus {
    /// Whether it is that of an entry without a tenant.
    fn is_unnamed(&self) -> bool {
        let status = lock(&self.status);
        status.agreed && status.tenant.is_none()
    }

    fn status(&self) -> SessionStatus {
        SessionStatus { age_s: self.since.elapsed().as_secs_f64(), ..lock(&self.status).clone() }
    }
}

/// A session in the list of sessions. When it is dropped, the session leaves the list, and its flows are detached.
pub(crate) struct Registered {
    shared: Arc<Shared>,
    pub(crate) id: u64,
    live: Arc<LiveStatus>,
}

impl Registered {
    /// Numbers a session with this peer, at an entry an exit of that name, and adds it to the list.
    pub(crate) fn new(shared: &Arc<Shared>, peer: Option<SocketAddr>, exit: Option<String>) -> Self {
        let id = shared.last_session.fetch_add(1, Relaxed) + 1;
        let peer = peer.map_or_else(|| "?".to_owned(), |peer| peer.to_string());
        let config = shared.config();
        let scheduler = config.scheduler.clone();
        let status = Mutex::new(SessionStatus { id, peer, exit, scheduler, ..SessionStatus::default() });
        let live = Arc::new(LiveStatus { since: Instant::now(), config, status });
        lock(&shared.sessions).push(live.clone());
        Self { shared: shared.clone(), id, live }
    }

    /// Changes the status of the session.
    pub(crate) fn update(&self, change: impl FnOnce(&mut SessionStatus)) {
        let status = &mut *lock(&self.live.status);
        change(status);
        self.shared.totals.count(status);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock(&self.shared.sessions).retain(|other| !Arc::ptr_eq(other, &self.live));
        self.shared.totals.leave(self.id);
        self.shared.registry.release(self.id);
    }
}

/// A session whose peer has not presented the token yet.
#[derive(Debug)]
pub(crate) struct UnauthenticatedSession {
    shared: Arc<Shared>,
    number: u64,
    address: IpAddr,
}

impl UnauthenticatedSession {
    /// Adds a session that has come up. It may displace another one.
    pub(crate) fn new(shared: &Arc<Shared>, address: IpAddr, session: &Session) -> Self {
        let (number, displaced) = shared.unauthenticated.enter(address, session.clone());
        if let Some(displaced) = displaced {
            displaced.close(code::FULL, "too many connections without a token");
        }
        Self { shared: shared.clone(), number, address }
    }

    /// The peer presented a wrong token. Returns whether its host may present another one now.
    pub(crate) fn wrong_token(&self) -> bool {
        self.shared.token_failures.count(self.address, self.shared.clock.now())
    }
}

impl Drop for UnauthenticatedSession {
    fn drop(&mut self) {
        self.shared.unauthenticated.leave(self.number);
    }
}
