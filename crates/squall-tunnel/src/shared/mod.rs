//! State shared by all parts of a running tunnel; [`exit`] has the state of an exit.

mod error;
mod exit;
mod tenants;
mod token_failures;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use squall::Limit;
use squall_observe::{
    Status,
    clock::{Clock, lock},
    journal::Journal,
    machine::resident_memory,
    status::{ArmStatus, SessionStatus, WhyStatus, printable},
    totals::Totals,
};
use tokio::sync::{broadcast, watch};

#[cfg(unix)]
pub(crate) use self::error::ControlError;
pub use self::error::StartError;
pub(crate) use self::{
    exit::{ExitState, Identity, MAX_UNAUTHENTICATED},
    tenants::{ChangeError, Sources},
};
use crate::{
    config::{ArmConfig, Config},
    flow::Registry,
    tun::Tun,
};

/// Maximum number of characters of an unknown name that an error repeats.
const MAX_SHOWN: usize = 128;

/// Maximum number of capacity changes that wait for a reader; older ones are dropped.
const BITRATES: usize = 256;

/// State of a running tunnel.
#[derive(Debug)]
pub(crate) struct Shared {
    config: Mutex<Arc<Config>>,
    pub(crate) clock: Clock,
    pub(crate) registry: Arc<Registry>,
    /// TUN device, if there is one.
    pub(crate) tun: Option<Arc<Tun>>,
    pub(crate) journal: Arc<Journal>,
    /// Scheduling decisions and outcomes of blocks are recorded; set if an address to read them is
    /// configured.
    pub(crate) explains: bool,
    sessions: Mutex<Vec<Arc<LiveStatus>>>,
    /// Counters over all sessions.
    pub(crate) totals: Totals,
    last_session: AtomicU64,
    pub(crate) opened: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// The tunnel is stopping.
    pub(crate) stopping: watch::Sender<bool>,
    /// Reason why the tunnel cannot continue.
    pub(crate) failure: watch::Sender<Option<String>>,
    /// Changes of the capacity of sessions.
    pub(crate) bitrates: broadcast::Sender<Bitrate>,
    /// Redirects that this exit sent, or that this entry followed.
    pub(crate) redirects: AtomicU64,
}

/// Capacity of a session of a tunnel, for an encoder to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bitrate {
    /// Number of the session, from 1.
    pub session: u64,
    /// Bits per second for all flows together that enter at this end: [`squall::Capacity::safe`]. 0
    /// after the end of the session.
    pub safe_bps: u64,
    /// Factor that limits the capacity.
    pub limit: Limit,
}

impl Shared {
    /// Creates the state of a tunnel with this TUN device.
    pub(crate) fn new(config: Config, tun: Option<Arc<Tun>>) -> Self {
        let clock = Clock::start();
        let journal = Arc::new(Journal::new(clock));
        let explains = config.metrics.is_some() || config.control.is_some();
        Self {
            clock,
            registry: Arc::new(Registry::new(clock, journal.clone(), explains, tun.clone())),
            tun,
            journal,
            explains,
            sessions: Mutex::default(),
            totals: Totals::default(),
            last_session: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stopping: watch::Sender::new(false),
            failure: watch::Sender::new(None),
            bitrates: broadcast::Sender::new(BITRATES),
            redirects: AtomicU64::new(0),
            config: Mutex::new(Arc::new(config)),
        }
    }

    /// Returns the current configuration.
    pub(crate) fn config(&self) -> Arc<Config> {
        lock(&self.config).clone()
    }

    pub(crate) fn set_config(&self, config: Config) {
        *lock(&self.config) = Arc::new(config);
    }

    /// Returns the number of sessions.
    pub(crate) fn session_count(&self) -> usize {
        lock(&self.sessions).len()
    }

    /// `true` if an entry without a tenant has a session.
    pub(crate) fn has_unnamed_session(&self) -> bool {
        lock(&self.sessions).iter().any(|session| session.is_unnamed())
    }

    /// Returns the configurations that the current sessions began with.
    pub(crate) fn session_configs(&self) -> Vec<Arc<Config>> {
        lock(&self.sessions).iter().map(|session| session.config.clone()).collect()
    }

    /// Marks the tunnel as unable to continue.
    pub(crate) fn fail(&self, why: &str) {
        self.journal.task_failed("the tunnel", why);
        self.failure.send_replace(Some(why.to_owned()));
    }

    /// Returns the stories of a flow.
    pub(crate) fn why(&self, name: &str) -> Result<WhyStatus, String> {
        let flows = self.registry.all();
        let flow = flows.iter().find(|flow| flow.config().name == name).ok_or_else(|| {
            let names: Vec<String> = flows.iter().map(|flow| flow.config().name.clone()).collect();
            let name = printable(name.chars().take(MAX_SHOWN).collect());
            let names = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
            format!("no flow is named '{name}': {names}")
        })?;
        let uptime_s = self.clock.now().since_epoch().as_secs_f64();
        Ok(WhyStatus { uptime_s, flow: flow.status(), stories: flow.stories() })
    }

    /// Returns the part of the status that both sides have.
    pub(crate) fn status(&self) -> Status {
        let sessions = lock(&self.sessions).clone();
        let (config, totals) = (self.config(), self.totals.sums());
        let arm = |arm: &ArmConfig| ArmStatus {
            name: arm.name.clone(),
            scheduler: arm.scheduler.clone(),
            weight: arm.weight,
            counts: totals.arms.get(&arm.name).copied().unwrap_or_default(),
        };
        Status {
            arms: config.arms.list.iter().map(arm).collect(),
            scheduler: config.scheduler.clone(),
            uptime_s: self.clock.now().since_epoch().as_secs_f64(),
            memory_bytes: resident_memory().unwrap_or(0),
            sessions_opened: self.opened.load(Relaxed),
            sessions_failed: self.failed.load(Relaxed),
            task_failures: self.journal.task_failures(),
            redirects: self.redirects.load(Relaxed),
            sessions: sessions.iter().map(|session| session.status()).collect(),
            flows: self.registry.all().iter().map(|flow| flow.status()).collect(),
            tun: self.tun.as_ref().map(|tun| tun.status()),
            events: self.journal.events(),
            totals,
            ..Status::default()
        }
    }
}

/// Status of a session, updated while it runs.
#[derive(Debug)]
pub(crate) struct LiveStatus {
    since: Instant,
    /// Configuration at the start of the session.
    config: Arc<Config>,
    status: Mutex<SessionStatus>,
}

impl LiveStatus {
    /// `true` if the session belongs to an entry without a tenant.
    fn is_unnamed(&self) -> bool {
        let status = lock(&self.status);
        status.agreed && status.tenant.is_none()
    }

    fn status(&self) -> SessionStatus {
        SessionStatus { age_s: self.since.elapsed().as_secs_f64(), ..lock(&self.status).clone() }
    }
}

/// A session in the list of sessions. Dropping it removes the session from the list and detaches
/// its flows.
pub(crate) struct Registered {
    shared: Arc<Shared>,
    pub(crate) id: u64,
    live: Arc<LiveStatus>,
}

impl Registered {
    /// Numbers a session, and adds it to the list. `exit` is the name of the exit, at an entry.
    pub(crate) fn new(shared: &Arc<Shared>, peer: Option<SocketAddr>, exit: Option<String>) -> Self {
        let id = shared.last_session.fetch_add(1, Relaxed) + 1;
        let peer = peer.map_or_else(|| "?".to_owned(), |peer| peer.to_string());
        let config = shared.config();
        let scheduler = config.first_scheduler().to_owned();
        let status = Mutex::new(SessionStatus { id, peer, exit, scheduler, ..SessionStatus::default() });
        let live = Arc::new(LiveStatus { since: Instant::now(), config, status });
        lock(&shared.sessions).push(live.clone());
        Self { shared: shared.clone(), id, live }
    }

    /// Returns the arm of the session, if the exit compares schedulers.
    pub(crate) fn arm(&self) -> Option<String> {
        lock(&self.live.status).arm.clone()
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
