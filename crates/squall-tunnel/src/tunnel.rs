//! A running end of a tunnel.

use std::{mem, net::SocketAddr, sync::Arc, time::Duration};

use squall::Fingerprint;
use squall_observe::{
    journal::Kind,
    status::Status,
    supervise::{self, Supervised},
    web::{self, Source, Web},
};
use tokio::sync::broadcast;

#[cfg(unix)]
use crate::rpc;
use crate::{
    config::{Config, ConnectConfig, IdentityConfig, Side, TenantConfig},
    entry::Entry,
    exit::{self, tenant_list},
    flow::tun_inlet,
    session::silence,
    shared::{Bitrate, ChangeError, ExitState, Shared, StartError},
    tun::Tun,
};

/// Timeout for closing the session of an entry.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// One end of a tunnel.
#[derive(Debug)]
pub struct Tunnel {
    shared: Arc<Shared>,
    side: Running,
    /// Configuration at the start, parts of which stay in use.
    started: Arc<Config>,
    web: Option<Web>,
    /// Tasks other than the main one: the reader of the TUN device, the count of tenants' bytes,
    /// and the requests of their list.
    _tasks: Vec<Supervised>,
    /// Serves the control socket.
    #[cfg(unix)]
    _control: Option<rpc::Control>,
    main: Supervised,
}

/// Side of the tunnel.
#[derive(Debug)]
enum Running {
    Entry(Arc<Entry>),
    Exit(Arc<ExitState>),
}

impl Running {
    fn source(&self) -> Arc<dyn Source> {
        match self {
            Self::Entry(entry) => entry.clone(),
            Self::Exit(exit) => exit.clone(),
        }
    }

    fn exit(&self) -> Option<&Arc<ExitState>> {
        match self {
            Self::Entry(_) => None,
            Self::Exit(exit) => Some(exit),
        }
    }
}

impl Tunnel {
    /// Opens the sockets of all flows, and starts to connect or to listen. Must be called inside a
    /// tokio runtime.
    ///
    /// Addresses, interfaces and routes may be missing at first: flows and `metrics` wait for them
    /// while the rest runs, and at an exit this returns once its address exists.
    ///
    /// # Errors
    /// If a socket or a certificate cannot be opened, for instance because a port is in use. An
    /// unreachable exit is not an error: the entry retries.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let tun = Tun::open(&config)?;
        let shared = Arc::new(Shared::new(config, tun.clone()));
        let (config, journal) = (shared.config(), shared.journal.clone());
        let (side, mut tasks) = match &config.side {
            Side::Connect(connect) => (Running::Entry(Entry::new(shared.clone(), connect)?), Vec::new()),
            Side::Listen(listen) => {
                let exit = ExitState::new(shared.clone(), listen).map_err(ChangeError::State)?;
                exit.apply(Config::clone(&config))?;
                let tasks = tasks_of_tenants(&exit, &config);
                (Running::Exit(exit), tasks)
            }
        };
        if let Some(tun) = tun {
            let registry = shared.registry.clone();
            let run = move || tun_inlet::run(tun.clone(), registry.clone());
            tasks.push(supervise::restarting(journal.clone(), "the TUN device", run));
        }
        if let Some(warning) = config.warning() {
            journal.warn(Kind::Config, warning);
        }
        let web = match config.metrics {
            Some(address) => Some(web::serve(address, side.source(), journal.clone()).await?),
            None => None,
        };
        #[cfg(unix)]
        let control = match &config.control {
            Some(control) => {
                let (source, exit) = (side.source(), side.exit().cloned());
                let tunnel = rpc::Controlled { source, exit, journal: journal.clone() };
                Some(rpc::serve(control, tunnel).await?)
            }
            None => None,
        };
        let main = match &side {
            Running::Entry(entry) => {
                let entry = entry.clone();
                supervise::restarting(journal, "the entry", move || entry.clone().run())
            }
            Running::Exit(exit) => {
                let (endpoint, exit) = (exit::listen(exit).await?, exit.clone());
                supervise::restarting(journal, "the exit", move || exit::run(exit.clone(), endpoint.clone()))
            }
        };
        Ok(Self {
            shared,
            side,
            started: config,
            web,
            _tasks: tasks,
            #[cfg(unix)]
            _control: control,
            main,
        })
    }

    /// Checks the certificates that a configuration names, except those that would be created.
    ///
    /// # Errors
    /// If a certificate cannot be used.
    pub fn check_files(config: &Config) -> Result<(), StartError> {
        match &config.side {
            Side::Connect(connect) => Ok(connect.check_files()?),
            Side::Listen(listen) => exit::read(listen).map(drop),
        }
    }

    /// Applies another configuration. Sessions and unchanged flows continue. An exit reads its
    /// certificate again, for new sessions. Returns descriptions of the changes that take effect
    /// later.
    ///
    /// # Errors
    /// If a socket cannot be opened, or a certificate cannot be used; nothing changes then.
    pub fn reload(&self, mut config: Config) -> Result<Vec<String>, StartError> {
        let before = self.shared.config();
        if let Some(connect) = config.connect() {
            connect.check_files()?;
        }
        let exit = self.side.exit().zip(config.listen());
        let renewal = exit.map(|(_, listen)| exit::read(listen)).transpose()?.flatten();
        let notes = later_changes(&self.started, &self.shared.session_configs(), &config);
        if config.tun.is_some() != self.shared.tun.is_some() {
            // The device is created or removed at the next start.
            config.tun = before.tun.clone();
        }
        let is_counted = |tenant: &&TenantConfig| tenant.limits.bytes.is_some();
        let counted = config.tenants.list.iter().find(is_counted);
        if let (None, Some(_), Some(tenant)) = (&before.tenants.state, &config.tenants.state, counted) {
            return Err(StartError::Tenants(format!(
                "tenant '{}': limits.bytes needs tenants_state, which takes effect with the next start",
                tenant.name
            )));
        }
        // These stay in use until the next start.
        config.tenants.url.clone_from(&before.tenants.url);
        config.tenants.state.clone_from(&before.tenants.state);
        let (warning, tun) = (config.warning(), config.tun.clone());
        let changes = match &self.side {
            Running::Entry(entry) => entry.apply(config)?,
            Running::Exit(exit) => exit.apply(config)?,
        };
        if let (Some(tun), Some(config)) = (&self.shared.tun, &tun) {
            tun.set(config);
            self.shared.registry.announce();
        }
        let journal = &self.shared.journal;
        journal.info(Kind::Config, format!("the configuration was reloaded: {changes}"));
        let renewed = self.side.exit().zip(renewal.as_ref());
        if let Some(fingerprint) = renewed.and_then(|(exit, renewal)| exit::renew(exit, renewal)) {
            let words = "new sessions get another certificate, with the fingerprint";
            journal.info(Kind::Config, format!("{words} {fingerprint}"));
        }
        notes.iter().for_each(|note| journal.info(Kind::Config, note.clone()));
        if let Some(warning) = warning {
            journal.warn(Kind::Config, warning);
        }
        Ok(notes)
    }

    /// Reports a configuration that cannot be applied.
    pub fn refuse(&self, error: &dyn std::error::Error) {
        self.shared.journal.warn(Kind::Config, format!("the configuration was not reloaded: {error}"));
    }

    /// Returns the status.
    pub fn status(&self) -> Status {
        self.side.source().status()
    }

    /// Returns a receiver for capacity changes of the sessions: see
    /// [`squall::Session::capacity_changes`]. A slow reader misses the oldest changes.
    pub fn bitrates(&self) -> broadcast::Receiver<Bitrate> {
        self.shared.bitrates.subscribe()
    }

    /// Returns the listening address of an exit.
    pub fn listening(&self) -> Option<SocketAddr> {
        self.side.exit()?.address()
    }

    /// Returns the fingerprint of an exit's certificate for new sessions.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.side.exit()?.fingerprint()
    }

    /// Returns the address of `/metrics` and `/status`, once this machine has it.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.web.as_ref().and_then(Web::address)
    }

    /// Waits until the tunnel cannot continue, and returns the reason. The process should then exit
    /// with a failure, so that its service manager restarts it. Cancel safe.
    pub async fn failed(&self) -> String {
        let mut failure = self.shared.failure.subscribe();
        match failure.wait_for(Option::is_some).await.map(|why| why.clone()) {
            Ok(why) => why.unwrap_or_default(),
            // Unreachable: the sender lives as long as the tunnel.
            Err(_) => std::future::pending().await,
        }
    }

    /// Starts to drain an exit: it accepts no more sessions and requests that its entries use
    /// another exit, which they do without interruption. [`Self::drained`] waits for them. No
    /// effect at an entry, and on an exit that is already draining.
    ///
    /// An entry without another exit, or of a version without this feature, reconnects at once.
    pub fn drain(&self) {
        if let Some(exit) = self.side.exit() {
            exit.drain();
        }
    }

    /// Waits until an exit drains, see [`Self::drain`]. Cancel safe.
    pub async fn draining(&self) {
        let waits =
            async { self.side.exit()?.drain_changes().wait_for(Option::is_some).await.ok().map(drop) };
        if waits.await.is_none() {
            // An entry does not drain; the sender of an exit lives as long as the tunnel.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until a draining exit has no sessions and all received data has left, or until
    /// [`ListenConfig::drain_timeout`](crate::config::ListenConfig::drain_timeout) has passed.
    /// [`Self::stop`] should be called then. Cancel safe.
    pub async fn drained(&self) {
        self.draining().await;
        let Some((exit, until)) = self.side.exit().and_then(|exit| Some((exit, exit.draining()?))) else {
            return;
        };
        if tokio::time::timeout_at(until.into(), exit.is_empty()).await.is_err() {
            let words = "draining has taken too long: the sessions that are left are closed";
            self.shared.journal.warn(Kind::Session, words);
        }
    }

    /// Ends all sessions; the other end is notified.
    pub async fn stop(mut self) {
        self.shared.stopping.send_replace(true);
        match &self.side {
            Running::Exit(exit) => exit::close(exit).await,
            Running::Entry(_) => self.shared.journal.info(Kind::Session, "the entry ends"),
        }
        let _ = tokio::time::timeout(STOP_TIMEOUT, self.main.join()).await;
        let side = self.side;
        let save = move || match &side {
            Running::Entry(entry) => entry.save(),
            Running::Exit(exit) => exit.tenants.save(),
        };
        let _ = tokio::time::timeout(STOP_TIMEOUT, tokio::task::spawn_blocking(save)).await;
    }
}

/// Starts the tasks of an exit that concern its tenants.
fn tasks_of_tenants(exit: &Arc<ExitState>, config: &Config) -> Vec<Supervised> {
    let (journal, tenants) = (exit.shared.journal.clone(), exit.tenants.clone());
    let counts =
        supervise::restarting(journal.clone(), "the count of tenants", move || tenants.clone().run());
    let list = config.tenants.url.clone().map(|url| {
        let (mut current, exit) = (tenant_list::use_kept(exit, &url), exit.clone());
        supervise::restarting(journal, "the list of tenants", move || {
            // After a failure of the task, the list is requested as if none were stored.
            tenant_list::run(exit.clone(), url.clone(), mem::take(&mut current))
        })
    });
    [Some(counts), list].into_iter().flatten().collect()
}

/// Scope of values that take effect with the next session.
const SESSION: &str = "next session";
/// Scope of values that take effect with the next start.
const START: &str = "next start";

/// Describes the values of a new configuration that are not in use yet: current sessions and the
/// endpoint of an exit keep theirs.
fn later_changes(started: &Config, sessions: &[Arc<Config>], new: &Config) -> Vec<String> {
    let of = |config, scope| differences(config, new).into_iter().filter(move |(_, when)| *when == scope);
    let mut changes: Vec<_> = of(started, START).collect();
    changes.extend(sessions.iter().flat_map(|session| of(session, SESSION)));
    let mut notes = Vec::new();
    for (what, when) in changes {
        let note = format!("{what} takes effect with the {when}");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// Returns the values in which two configurations differ, and when a change takes effect. Flows
/// change at once.
fn differences(one: &Config, other: &Config) -> Vec<(&'static str, &'static str)> {
    let endpoint = if one.is_entry() { SESSION } else { START };
    let side = match (&one.side, &other.side) {
        (Side::Connect(one), Side::Connect(other)) => {
            (without_quotas(one) != without_quotas(other), "[connect]", SESSION)
        }
        // The certificate changes at once, unless it is generated at the start.
        (Side::Listen(one), Side::Listen(other)) => {
            let made = other.identity == IdentityConfig::Fresh && one.identity != other.identity;
            (one.address != other.address || made, "[listen]", START)
        }
        _ => (true, "the change between [connect] and [listen]", START),
    };
    let quotas =
        |config: &Config| config.connect().map(|connect| (connect.quota_of_paths(), connect.quotas.clone()));
    let silences = silence(&one.all_flows()) != silence(&other.all_flows());
    let device = |config: &Config| config.tun.clone().map(|tun| (tun.device, tun.addresses, tun.mtu));
    let all = [
        (one.scheduler != other.scheduler, "scheduler", SESSION),
        (one.arms != other.arms, "the arms", SESSION),
        (one.congestion != other.congestion, "congestion", endpoint),
        (silences, "the silence after which a path is suspected", endpoint),
        (one.max_sessions != other.max_sessions, "max_sessions", START),
        (one.workers != other.workers, "listen.workers", START),
        (one.quic_lb != other.quic_lb, "[listen.load_balancer]", START),
        (one.token != other.token, "the token", SESSION),
        side,
        (one.is_entry() == other.is_entry() && quotas(one) != quotas(other), "the quota of a path", START),
        (device(one) != device(other), "the TUN device", START),
        (one.metrics != other.metrics, "metrics", START),
        (one.control != other.control, "control", START),
        (one.tenants.url != other.tenants.url, "tenants_url", START),
        (one.tenants.state != other.tenants.state, "tenants_state", START),
        (one.log != other.log, "[log]", START),
    ];
    all.into_iter().filter(|(differs, ..)| *differs).map(|(_, what, when)| (what, when)).collect()
}

/// Removes the quotas, which are counted over sessions and apply from the start.
fn without_quotas(connect: &ConnectConfig) -> ConnectConfig {
    let mut connect = ConnectConfig { quotas: None, ..connect.clone() };
    connect.paths.values_mut().for_each(|path| path.quota = None);
    connect
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ListenConfig, Token};

    #[test]
    fn quotas_take_effect_with_the_next_start() {
        let parse = |paths: &str| {
            let head = "token = \"correct horse battery\"\n[connect]\nto = \"a:1\"\nquotas = \"q\"\n";
            Config::parse("t.toml", &format!("{head}{paths}"), "".as_ref()).expect("is right")
        };
        let quota = |size: &str| {
            parse(&format!("[connect.paths.wwan0]\nquota = \"{size}\"\nquota_period = \"month\"\n"))
        };
        let started = quota("1GB");
        let notes = |new| later_changes(&started, &[Arc::new(started.clone())], &new);
        assert_eq!(notes(quota("2GB")), ["the quota of a path takes effect with the next start"]);
        let other = [
            "the quota of a path takes effect with the next start",
            "[connect] takes effect with the next session",
        ];
        assert_eq!(notes(parse("[connect.paths.wwan0]\nrate_limit = \"1Mbps\"\n")), other);
        assert!(notes(quota("1GB")).is_empty());
    }

    #[test]
    fn only_values_that_are_not_in_use_take_effect_later() {
        let listen = ListenConfig::new(([127, 0, 0, 1], 4433).into(), IdentityConfig::Fresh);
        let token = Token::new("correct horse battery").expect("is long enough");
        let started = Config::new(Side::Listen(listen), token);
        let other = Config { scheduler: "ecf".to_owned(), max_sessions: 3, ..started.clone() };
        let sessions = [Arc::new(started.clone())];
        let notes = later_changes(&started, &sessions, &other);
        let expected =
            ["max_sessions takes effect with the next start", "scheduler takes effect with the next session"];
        assert_eq!(notes, expected);
        assert_eq!(later_changes(&started, &[], &other), expected[..1]);
        assert!(later_changes(&started, &sessions, &started).is_empty(), "back to the values in use");
    }
}
