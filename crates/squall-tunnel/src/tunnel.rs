//! One end of a tunnel, running.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use squall::{Fingerprint, IdentityError, Limit, Limits, ListenError, TlsError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};

use crate::{
    clock::Clock,
    config::{Config, FlowConfig, Side},
    entry,
    exit::{self, Exit},
    flow::Registry,
    guard::{Guard, STRANGERS},
    journal::{Journal, Kind},
    link::{Ended, GREETING, Link, Public, Who, code},
    memory,
    status::{Status, StrangersStatus},
    supervise::{self, Kept},
    web::{self, Web, WebError},
};

pub use crate::flow::FlowError;

/// Largest block: the largest frame that can be asked for, and some.
const MAX_BLOCK: u32 = (8 << 20) + (1 << 20);

/// Bytes handed over and not yet there, for all flows together.
const QUEUED: u64 = 32 << 20;

/// Bytes of incoming blocks that are being put together.
const REASSEMBLY: u64 = 32 << 20;

/// A session that hears nothing for this long is over, and the entry connects anew.
const IDLE: Duration = Duration::from_secs(8);

/// How often an idle path is kept alive.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// How long an attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(4);

/// Bounds of the silence after which a path is suspected.
const SHORTEST_SILENCE: Duration = Duration::from_millis(50);
const LONGEST_SILENCE: Duration = Duration::from_millis(200);

/// Why a tunnel does not start, or a new configuration is not taken.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A flow's socket cannot be opened.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// It cannot be listened on the address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificate, or that of an authority, cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Certificate and key do not belong together.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is no such scheduler.
    #[error("{0}")]
    Scheduler(String),
    /// The status cannot be served.
    #[error(transparent)]
    Web(#[from] WebError),
}

/// What all parts of a running tunnel share.
#[derive(Debug)]
pub(crate) struct Core {
    config: Mutex<Arc<Config>>,
    pub(crate) clock: Clock,
    pub(crate) registry: Registry,
    pub(crate) journal: Arc<Journal>,
    pub(crate) guard: Guard<squall::Session>,
    /// For tunnels, where it listens.
    places: Arc<Semaphore>,
    /// What listens, if something does.
    listening: OnceLock<squall::Endpoint>,
    links: Mutex<Vec<Arc<Public>>>,
    next_link: AtomicU64,
    opened: AtomicU64,
    failed: AtomicU64,
    /// Whether everything is to end.
    pub(crate) stopping: watch::Sender<bool>,
    /// Why it cannot go on, if it cannot.
    failure: watch::Sender<Option<String>>,
    /// What sessions can carry, whenever that changes.
    pub(crate) bitrates: broadcast::Sender<Bitrate>,
}

/// What a session of a tunnel can carry, for an encoder to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bitrate {
    /// Number of the session since the program began.
    pub session: u64,
    /// Bits per second, for all flows that come in at this end together: [`squall::Capacity::safe`]. 0 when the session
    /// is over.
    pub safe_bps: u64,
    /// What keeps it from carrying more.
    pub limit: Limit,
}

/// Changes that wait for a reader; the oldest make way.
const BITRATES: usize = 256;

/// One end of a tunnel.
#[derive(Debug)]
pub struct Tunnel {
    core: Arc<Core>,
    exit: Option<Exit>,
    web: Option<Web>,
    main: Kept,
}

impl Tunnel {
    /// Opens the sockets of all flows and begins to connect, or to listen. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If a socket or a certificate cannot be had. That the other end cannot be reached is no error: it is tried
    /// again and again.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let clock = Clock::start();
        let config = Arc::new(config);
        let journal = Arc::new(Journal::new(clock));
        let core = Arc::new(Core {
            config: Mutex::new(config.clone()),
            clock,
            registry: Registry::new(clock, journal.clone()),
            journal: journal.clone(),
            guard: Guard::default(),
            places: Arc::new(Semaphore::new(config.max_sessions)),
            listening: OnceLock::new(),
            links: Mutex::default(),
            next_link: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stopping: watch::Sender::new(false),
            failure: watch::Sender::new(None),
            bitrates: broadcast::Sender::new(BITRATES),
        });
        core.registry.set(&config.flows)?;
        let web = match config.metrics {
            Some(address) => Some(web::serve(address, core.clone()).await?),
            None => None,
        };
        let (exit, main) = match &config.side {
            Side::Connect(connect) => {
                entry::check(connect)?;
                let core = core.clone();
                (None, supervise::keep(journal, "the entry", move || entry::run(core.clone())))
            }
            Side::Listen(listen) => {
                let exit = Exit::listen(listen, &core)?;
                let _ = core.listening.set(exit.endpoint());
                let (core, endpoint) = (core.clone(), exit.endpoint());
                let run = move || exit::run(core.clone(), endpoint.clone());
                (Some(exit), supervise::keep(journal, "the exit", run))
            }
        };
        Ok(Self { core, exit, web, main })
    }

    /// Takes another configuration: flows that stay as they are, and the session, are not touched. Tells what of the
    /// change counts from the next session on, or from the next start.
    ///
    /// # Errors
    /// If a socket cannot be opened; everything stays as it was then.
    pub fn reload(&self, config: Config) -> Result<Vec<String>, StartError> {
        let before = self.core.config();
        if let Side::Connect(connect) = &config.side {
            entry::check(connect)?;
        }
        let changes = self.core.registry.set(&config.flows)?;
        let notes = notes(&before, &config);
        let mut config = config;
        if before.is_entry() != config.is_entry() {
            config.side = before.side.clone();
        }
        *self.core.config.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        let words = changes.words().unwrap_or_else(|| "no flow changed".to_owned());
        self.core.journal.info(Kind::Config, format!("the configuration was read again: {words}"));
        for note in &notes {
            self.core.journal.info(Kind::Config, note.clone());
        }
        Ok(notes)
    }

    /// Notes in journal and log that a configuration was not taken.
    pub fn refuse(&self, error: &dyn std::error::Error) {
        self.core.journal.warn(Kind::Config, format!("the configuration stays as it was: {error}"));
    }

    /// What it is doing.
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// What its sessions can carry, from now on whenever that changes: see [`squall::Session::capacity_changes`]. A reader
    /// that is slow misses the oldest changes.
    pub fn bitrates(&self) -> broadcast::Receiver<Bitrate> {
        self.core.bitrates.subscribe()
    }

    /// Where it listens, if it does.
    pub fn listening(&self) -> Option<SocketAddr> {
        self.exit.as_ref().map(Exit::address)
    }

    /// What the other end pins, if this one listens.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.exit.as_ref().map(Exit::fingerprint)
    }

    /// Where metrics and status are served, if they are.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.web.as_ref().map(Web::address)
    }

    /// Waits until the tunnel cannot go on, and says why. The process is to end with a failure then, so that whoever
    /// started it can start it again. Cancel safe.
    pub async fn failed(&self) -> String {
        let mut failure = self.core.failure.subscribe();
        match failure.wait_for(Option::is_some).await.map(|why| why.clone()) {
            Ok(why) => why.unwrap_or_default(),
            // The core has gone, which it does not while this is there.
            Err(_) => std::future::pending().await,
        }
    }

    /// Ends all sessions; the other end is told.
    pub async fn stop(mut self) {
        self.core.stopping.send_replace(true);
        if let Some(exit) = &self.exit {
            exit.close().await;
        }
        // Sessions say farewell.
        let _ = tokio::time::timeout(Duration::from_secs(2), self.main.join()).await;
    }
}

/// What of a new configuration does not count at once.
fn notes(before: &Config, after: &Config) -> Vec<String> {
    let mut notes = Vec::new();
    let mut later = |differs: bool, what: &str, when: &str| {
        if differs {
            notes.push(format!("{what} counts from {when}"));
        }
    };
    let (session, start) = ("the next session on", "the next start on");
    later(before.scheduler != after.scheduler, "the scheduler", session);
    let of_endpoint = if before.is_entry() { session } else { start };
    later(before.congestion != after.congestion, "the congestion control", of_endpoint);
    let silences = silence(&before.flows) != silence(&after.flows);
    later(silences, "the silence after which a path is suspected", of_endpoint);
    later(before.max_sessions != after.max_sessions, "max_sessions", start);
    later(before.token != after.token, "the token", session);
    match (&before.side, &after.side) {
        (Side::Connect(one), Side::Connect(other)) => later(one != other, "[connect]", session),
        (Side::Listen(one), Side::Listen(other)) => later(one != other, "[listen]", start),
        _ => later(true, "the change between [connect] and [listen]", start),
    }
    later(before.metrics != after.metrics, "metrics", start);
    later(before.log != after.log, "[log]", start);
    notes
}

impl Core {
    /// As it is set now.
    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs a session until it is over.
    pub(crate) async fn link(self: &Arc<Self>, session: squall::Session, who: Who) -> Ended {
        let id = self.next_link.fetch_add(1, Relaxed) + 1;
        let link = Link::new(self.clone(), session, id, who);
        let _listed = Listed::new(self.clone(), link.public());
        link.run().await
    }

    /// The tunnel cannot go on.
    pub(crate) fn fail(&self, why: &str) {
        self.journal.task_failed("the tunnel", why);
        self.failure.send_replace(Some(why.to_owned()));
    }

    fn strangers(&self) -> StrangersStatus {
        let Some(endpoint) = self.listening.get() else { return StrangersStatus::default() };
        let squall::AdmissionStats { pending, retried, displaced, expired, refused } = endpoint.admission();
        StrangersStatus { pending: pending as u64, retried, displaced, expired, refused }
    }

    fn links(&self) -> MutexGuard<'_, Vec<Arc<Public>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a tunnel, if there is one.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// Both ends of a session have agreed.
    pub(crate) fn note_opened(&self) {
        self.opened.fetch_add(1, Relaxed);
    }

    /// An attempt failed, or a session was turned away.
    pub(crate) fn note_failure(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    /// What it is doing.
    pub(crate) fn status(&self) -> Status {
        let config = self.config();
        let (role, address) = match &config.side {
            Side::Connect(connect) => ("entry", connect.to.clone()),
            Side::Listen(listen) => {
                let bound = self.listening.get().and_then(|endpoint| endpoint.local_addrs().first().copied());
                ("exit", bound.unwrap_or(listen.address).to_string())
            }
        };
        let links = self.links().clone();
        Status {
            role: role.to_owned(),
            address,
            scheduler: config.scheduler.clone(),
            uptime_s: self.clock.now() as f64 / 1e6,
            memory_bytes: memory::resident().unwrap_or(0),
            sessions_opened: self.opened.load(Relaxed),
            sessions_failed: self.failed.load(Relaxed),
            strangers: self.strangers(),
            task_failures: self.journal.task_failures(),
            sessions: links.iter().map(|link| link.status()).collect(),
            flows: self.registry.all().iter().map(|flow| flow.status()).collect(),
            events: self.journal.events(),
        }
    }
}

/// A session among those that run; however it ends, it is not after that, and carries nothing.
struct Listed {
    core: Arc<Core>,
    id: u64,
}

impl Listed {
    fn new(core: Arc<Core>, public: Arc<Public>) -> Self {
        let id = public.id();
        core.links().push(public);
        Self { core, id }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.core.links().retain(|other| other.id() != self.id);
        self.core.registry.release(self.id);
    }
}

/// A session that has not told the token yet, where it was called from.
#[derive(Debug)]
pub(crate) struct Visit {
    core: Arc<Core>,
    id: u64,
    /// The host it comes from.
    pub(crate) from: IpAddr,
}

impl Visit {
    /// A session has come up; another one may have to make room.
    pub(crate) fn begin(core: &Arc<Core>, from: IpAddr, session: &squall::Session) -> Self {
        let from = squall::host_network(from);
        let (id, displaced) = core.guard.enter(from, session.clone());
        if let Some(displaced) = displaced {
            displaced.close(code::FULL, "others without a token came, and there is room for few");
        }
        Self { core: core.clone(), id, from }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.core.guard.leave(self.id);
    }
}

/// How sessions of a tunnel behave.
pub(crate) fn session_config(config: &Config) -> Result<squall::Config, StartError> {
    Ok(squall::Config {
        scheduler: squall::scheduler(&config.scheduler)
            .map_err(|error| StartError::Scheduler(error.to_string()))?,
        congestion: config.congestion,
        idle_timeout: IDLE,
        keep_alive: KEEP_ALIVE,
        connect_timeout: CONNECT,
        silence: silence(&config.flows),
        announce_timeout: GREETING,
        distrust: true,
        limits: Limits {
            block: MAX_BLOCK,
            queued_bytes: QUEUED,
            reassembly: REASSEMBLY,
            open_blocks: 16_384,
            handshakes: 64,
            // Half, so that a flood from behind the address of an entry takes a second to displace its handshake.
            handshakes_per_host: 32,
            // Beside the tunnels those without a token, and as many that are being let in or go.
            sessions: config.max_sessions + 2 * STRANGERS,
            ..Limits::default()
        },
        ..squall::Config::default()
    })
}

/// Silence after which a path is suspected: a third of the shortest latency, so that the other two thirds are left to
/// send again what went into the silence, but no more than where latency does not matter, and not so little that a
/// pause of a machine is taken for a failure.
fn silence(flows: &[FlowConfig]) -> Duration {
    let shortest = flows.iter().map(FlowConfig::latency_or_default).min();
    (shortest.unwrap_or(FlowConfig::DEFAULT_LATENCY) / 3).clamp(SHORTEST_SILENCE, LONGEST_SILENCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::End;

    #[test]
    fn the_most_urgent_flow_tells_how_long_a_silence_may_be() {
        let flow = |ms: Option<u64>| FlowConfig {
            latency: ms.map(Duration::from_millis),
            ..FlowConfig::new("f", End::In("127.0.0.1:5000".parse().expect("an address")))
        };
        let silence = |flows: &[_]| super::silence(flows).as_millis();
        assert_eq!(silence(&[]), 100, "the default latency is 300 ms");
        assert_eq!(silence(&[flow(None), flow(Some(240)), flow(Some(2_000))]), 80);
        assert_eq!(silence(&[flow(Some(60))]), 50);
        assert_eq!(silence(&[flow(Some(2_000))]), 200);
    }
}
