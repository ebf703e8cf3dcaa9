//! The entry: connects to one of its exits, moves to another exit on request, and reconnects when
//! the session has ended.

mod exits;
mod race;
mod srv;

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use squall::{Interfaces, Quotas, Session};
use squall_observe::{
    Status,
    clock::lock,
    journal::Kind,
    status::WhyStatus,
    supervise::{self, Supervised},
    web::Source,
};
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
};

use self::exits::{Avoided, Candidate};
use crate::{
    config::{Config, ConnectConfig, ExitAddress, Side},
    flow::FlowError,
    session::{self, Ended, EntryState, Goaway, Role, session_config},
    shared::{Shared, StartError},
};

/// Pause before the first retry; doubled with each retry, up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(200);

/// Maximum pause before a retry.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Duration of a session after which the pause is [`MIN_PAUSE`] again.
const STABLE: Duration = Duration::from_secs(1);

/// Time without an answer from an exit after which the next exit is tried in parallel. Several
/// round trips of a slow network.
const STAGGER: Duration = Duration::from_millis(1500);

/// As [`STAGGER`], while all paths of a session are silent. Shorter, because the flows are
/// interrupted.
const STALL_STAGGER: Duration = Duration::from_millis(500);

/// The entry of a tunnel.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) shared: Arc<Shared>,
    connect: Mutex<Arc<ConnectConfig>>,
    /// Quotas of interfaces, opened by the first run if any interface has one.
    quotas: OnceLock<Quotas>,
    avoided: Avoided,
}

impl Entry {
    /// Opens the sockets of the flows.
    pub(crate) fn new(shared: Arc<Shared>, connect: &ConnectConfig) -> Result<Arc<Self>, StartError> {
        connect.check_files()?;
        shared.registry.set(&shared.config().all_flows(), &|_| None)?;
        let connect = Mutex::new(Arc::new(connect.clone()));
        Ok(Arc::new(Self { shared, connect, quotas: OnceLock::new(), avoided: Avoided::default() }))
    }

    /// Applies the flows of a configuration, and makes it the current one. Returns a description of
    /// the changes. If the configuration is that of an exit, the change of side takes effect at the
    /// next start.
    pub(crate) fn apply(&self, mut config: Config) -> Result<String, FlowError> {
        let mut current = lock(&self.connect);
        let connect = match &config.side {
            Side::Connect(connect) => Arc::new(connect.clone()),
            Side::Listen(_) => current.clone(),
        };
        config.side = Side::Connect(ConnectConfig::clone(&connect));
        let words = self.shared.registry.set(&config.all_flows(), &|_| None)?;
        *current = connect;
        self.shared.set_config(config);
        Ok(words)
    }

    /// Writes the bytes used of quotas to their file. May block.
    pub(crate) fn save(&self) {
        if let Some(quotas) = self.quotas.get() {
            quotas.save();
        }
    }

    fn config(&self) -> (Arc<Config>, Arc<ConnectConfig>) {
        (self.shared.config(), lock(&self.connect).clone())
    }

    /// Runs until the tunnel is stopped.
    pub(crate) async fn run(self: Arc<Self>) -> Result<(), String> {
        let mut stopping = self.shared.stopping.subscribe();
        let (mut pause, mut reported) = (MIN_PAUSE, None);
        let (_, connect) = self.config();
        if self.quotas.get().is_none() {
            let own = connect.clone();
            let opened =
                spawn_blocking(move || own.open_quotas()).await.map_err(|error| error.to_string())?;
            if let Some(quotas) = opened {
                let _ = self.quotas.set(quotas);
            }
        }
        self.shared.journal.info(Kind::Session, format!("connecting to {}", connect.words()));
        while !*stopping.borrow() {
            tokio::select! {
                was_stable = self.attempt(&mut reported) => {
                    if was_stable {
                        pause = MIN_PAUSE;
                    }
                }
                _ = stopping.changed() => return Ok(()),
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stopping.changed() => return Ok(()),
            }
            for flow in self.shared.registry.all() {
                flow.sweep();
            }
            pause = (pause * 2).min(MAX_PAUSE);
        }
        Ok(())
    }

    /// Connects to the first exit that accepts, and runs sessions until the last one has ended.
    /// Returns `true` if they were stable. The same problem is reported once.
    async fn attempt(self: &Arc<Self>, reported: &mut Option<String>) -> bool {
        let arrange = |known: &[Candidate], _| self.sorted(known);
        match self.first(self.hosts(), None, arrange, STAGGER).await {
            Ok(session) => {
                *reported = None;
                let begun = Instant::now();
                let ended = self.carry(session).await;
                let words = format!("the session is over: {ended}; reconnecting");
                match ended.is_normal() {
                    true => self.shared.journal.info(Kind::Session, words),
                    false => self.shared.journal.warn(Kind::Session, words),
                }
                return begun.elapsed() >= STABLE;
            }
            Err(problem) if reported.as_ref() != Some(&problem) => {
                self.shared.journal.warn(Kind::Session, format!("no session: {problem}; retrying"));
                *reported = Some(problem);
            }
            Err(_) => {}
        }
        false
    }

    /// Returns the hosts of the configuration, the preferred one first.
    fn hosts(&self) -> Vec<Candidate> {
        let (config, connect) = self.config();
        exits::hosts(&config, &connect)
    }

    /// Returns these exits, with draining ones at the end.
    fn sorted(&self, known: &[Candidate]) -> Vec<Candidate> {
        let mut exits = known.to_vec();
        self.avoided.sort(&mut exits);
        exits
    }

    /// Opens a session with the first exit that accepts one, among `known` and those of SRV
    /// records: see [`race::first`]. `at` is the address of one host, if already resolved.
    async fn first(
        self: &Arc<Self>,
        known: Vec<Candidate>,
        at: Option<(&str, SocketAddr)>,
        arrange: impl Fn(&[Candidate], bool) -> Vec<Candidate>,
        stagger: Duration,
    ) -> Result<Running, String> {
        let (config, connect) = self.config();
        let attempt = |exit: Candidate| {
            let at = at.filter(|(host, _)| exit.is_at(host)).map(|(_, address)| address);
            self.clone().establish(config.clone(), connect.clone(), exit, at)
        };
        race::first(known, exits::of_names(&config, &connect), arrange, stagger, attempt).await
    }

    /// Runs a session until it ends. A successor replaces it if all its paths are silent, as the
    /// exit may have restarted or be reachable over other paths; or if the exit drains, in which
    /// case the successor starts before the session ends.
    async fn carry(self: &Arc<Self>, mut session: Running) -> Ended {
        // Sessions that have been replaced.
        let mut left = JoinSet::new();
        loop {
            let mut state = session.state.subscribe();
            let successor = self.successor(&session.exit, &session.session, &mut state);
            let next = tokio::select! {
                ended = &mut session.running => return ended,
                next = successor => next,
            };
            let is_stalled = state.borrow().stalled;
            let before = std::mem::replace(&mut session, next);
            if is_stalled {
                let words = "all paths were silent; another session takes over";
                self.shared.journal.warn(Kind::Session, words);
                before.session.close(0, "another session takes over");
                // Received blocks still leave.
                before.running.await;
            } else {
                let words = format!("{} drains; {} takes over", before.exit.host, session.exit.host);
                self.shared.journal.info(Kind::Session, words);
                self.shared.redirects.fetch_add(1, Relaxed);
                before.leaving.send_replace(true);
                let journal = self.shared.journal.clone();
                left.spawn(async move {
                    // Moves the whole struct: dropping it closes the session.
                    let mut before = before;
                    let ended = (&mut before.running).await;
                    let over = format!("the session with {} is over: {ended}", before.exit.host);
                    journal.info(Kind::Session, over);
                });
                while left.try_join_next().is_some() {}
            }
        }
    }

    /// Returns the successor of this session, once one is needed.
    async fn successor(
        self: &Arc<Self>,
        own: &Candidate,
        session: &Session,
        state: &mut watch::Receiver<EntryState>,
    ) -> Running {
        loop {
            let needed = state.wait_for(|state| state.stalled || state.goaway.is_some()).await;
            let Ok(goaway) = needed.map(|state| state.goaway.clone()) else {
                // The session has ended, which its own task reports.
                return std::future::pending().await;
            };
            if let Some(goaway) = goaway {
                return self.other_exit(&own.host, session, &goaway).await;
            }
            tokio::select! {
                session = self.again(own, session) => return session,
                _ = state.wait_for(|state| !state.stalled || state.goaway.is_some()) => {}
            }
        }
    }

    /// Connects again, preferably to the same exit. Every second attempt uses its previous address
    /// without a lookup, as the name servers may be unreachable too.
    async fn again(self: &Arc<Self>, own: &Candidate, session: &Session) -> Running {
        let mut at = None;
        loop {
            at = if at.is_none() { Some((own.host.as_str(), session.remote_address())) } else { None };
            let (config, connect) = self.config();
            let mut known = exits::hosts(&config, &connect);
            let is_of_name = |exit: &ExitAddress| exit.domain().is_some_and(|name| own.is_of(name));
            known.extend(connect.to.iter().any(is_of_name).then(|| own.clone()));
            let arrange = |known: &[Candidate], _| {
                let mut exits = self.sorted(known);
                exits.sort_by_key(|exit| !exit.is_at(&own.host));
                exits
            };
            if let Ok(session) = self.first(known, at, arrange, STALL_STAGGER).await {
                return session;
            }
            tokio::time::sleep(MIN_PAUSE).await;
        }
    }

    /// Connects to another exit, because that of this session drains. If there is no other exit,
    /// the session ends and the entry reconnects as after a restart.
    async fn other_exit(self: &Arc<Self>, own: &str, session: &Session, goaway: &Goaway) -> Running {
        self.avoided.add(own, goaway.left);
        let by = Some(session.remote_address().ip());
        let (mut pause, mut reported) = (MIN_PAUSE, false);
        loop {
            let (config, connect) = self.config();
            let arrange = |known: &[Candidate], is_complete: bool| {
                let trusted = exits::trusted(&connect, known, is_complete, by, &goaway.exits);
                // It must be tried before the others.
                let Some((mut exits, untrusted)) = trusted else { return Vec::new() };
                if let Some(host) = untrusted.first().filter(|_| !reported) {
                    let words = format!(
                        "{own} names an exit that is not in this configuration, which is not used: {host}"
                    );
                    self.shared.journal.warn(Kind::Session, words);
                }
                let mut others = self.sorted(known);
                others.retain(|exit| exits.iter().all(|other| !other.is_at(&exit.host)));
                exits.append(&mut others);
                exits.retain(|exit| !exit.is_at(own));
                exits
            };
            match self.first(exits::hosts(&config, &connect), None, arrange, STAGGER).await {
                Ok(session) => return session,
                Err(problem) if problem.is_empty() => {
                    session.close(0, "there is no other exit");
                    return std::future::pending().await;
                }
                Err(problem) if !reported => {
                    let words = format!("{own} drains, and no other exit accepts: {problem}; retrying");
                    self.shared.journal.warn(Kind::Session, words);
                }
                Err(_) => {}
            }
            reported = true;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Connects to an exit, at the given address or those of its host, and presents the token.
    async fn establish(
        self: Arc<Self>,
        config: Arc<Config>,
        connect: Arc<ConnectConfig>,
        exit: Candidate,
        at: Option<SocketAddr>,
    ) -> Result<Running, String> {
        let host = exit.host.clone();
        let failed = |problem| {
            self.shared.failed.fetch_add(1, Relaxed);
            problem
        };
        let session = self.open(&config, connect.clone(), &exit, at).await.map_err(failed)?;
        let mut running = start(self.shared.clone(), &config, &connect, exit, session);
        let mut state = running.state.subscribe();
        let ended = tokio::select! {
            biased;
            Ok(_) = state.wait_for(|state| state.agreed) => return Ok(running),
            ended = &mut running.running => ended,
        };
        if ended.is_draining() {
            self.avoided.add(&host, Duration::from_secs(5));
        }
        Err(failed(match ended.refusal() {
            Some(words) => format!("{host} refused: {words}"),
            None => format!("{host}: {ended}"),
        }))
    }

    async fn open(
        &self,
        config: &Config,
        connect: Arc<ConnectConfig>,
        exit: &Candidate,
        at: Option<SocketAddr>,
    ) -> Result<Session, String> {
        let mut addresses = Vec::from_iter(at);
        if exit.least.is_some() {
            let found = tokio::net::lookup_host(&exit.host).await;
            addresses = exit.permitted(found.map_err(|error| format!("{}: {error}", exit.host))?);
            if addresses.is_empty() {
                return Err(format!("{} is nearer than the exit that named it, and is not used", exit.host));
            }
        }
        // Unless interfaces are selected, use all but the tunnel's own device.
        let device = config.tun.as_ref().filter(|_| connect.interfaces.is_empty());
        let (host, pin) = (exit.host.clone(), exit.pin);
        // Reads the file of `ca`, if there is one.
        let request = spawn_blocking(move || connect.request(&host, pin));
        let request = request.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let mut request = request.addresses(addresses);
        if let Some(tun) = device {
            request = request.interfaces(Interfaces::Except(vec![tun.device.clone()]));
        }
        if let Some(quotas) = self.quotas.get() {
            request = request.quotas(quotas.clone());
        }
        if let Some(name) = &exit.server_name {
            request = request.server_name(name);
        }
        let settings = session_config(config).map_err(|error| error.to_string())?;
        squall::connect(request.config(settings)).await.map_err(|error| error.to_string())
    }
}

impl Source for Entry {
    fn status(&self) -> Status {
        let quotas = self.quotas.get().map(Quotas::state).into_iter().flatten().map(Into::into).collect();
        let (_, connect) = self.config();
        Status { role: "entry".to_owned(), address: connect.words(), quotas, ..self.shared.status() }
    }

    fn why(&self, flow: &str) -> Result<WhyStatus, String> {
        self.shared.why(flow)
    }
}

/// A session that both ends have accepted. It is closed when dropped.
struct Running {
    exit: Candidate,
    session: Session,
    state: watch::Sender<EntryState>,
    leaving: watch::Sender<bool>,
    running: Pin<Box<dyn Future<Output = Ended> + Send>>,
    _radios: Option<Supervised>,
    _close: CloseOnDrop,
}

fn start(
    shared: Arc<Shared>,
    config: &Config,
    connect: &ConnectConfig,
    exit: Candidate,
    session: Session,
) -> Running {
    let radios = connect.signal.then(|| {
        let (shared, session) = (shared.clone(), session.clone());
        let journal = shared.journal.clone();
        supervise::restarting(journal, "reading radios", move || follow(shared.clone(), session.clone()))
    });
    let (state, leaving) = (watch::Sender::default(), watch::Sender::new(false));
    let role = Role::Entry {
        token: config.token.clone(),
        metered: connect.metered.clone(),
        paths: connect.paths.clone(),
        exit: exit.host.clone(),
        state: state.clone(),
        leaving: leaving.subscribe(),
    };
    let running = Box::pin(session::run(shared, session.clone(), role));
    let close = CloseOnDrop(session.clone());
    Running { exit, session, state, leaving, running, _radios: radios, _close: close }
}

/// Closes a session whose task ends early.
struct CloseOnDrop(Session);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close(0, "the entry ends");
    }
}

/// Reads the radios of a session's interfaces, and reports those that cannot be read.
async fn follow(shared: Arc<Shared>, session: Session) -> Result<(), String> {
    squall::follow_radios(session, |problem| {
        shared.journal.warn(Kind::Path, format!("no radio: {problem}"));
    })
    .await;
    Ok(())
}
