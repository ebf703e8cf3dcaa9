//! One end of a tunnel, running.

use std::{mem, net::SocketAddr, sync::Arc, time::Duration};

#[cfg(unix)]
use crate::rpc;
use squall::Fingerprint;
use tokio::sync::broadcast;

use crate::{
    config::{Config, ConnectConfig, IdentityConfig, Side, TenantConfig},
    entry,
    error::StartError,
    exit::{self, Exit},
    journal::Kind,
    settings::silence,
    shared::{Bitrate, Shared},
    status::Status,
    supervise::{self, Supervised},
    tenants::{ChangeError, remote},
    tun::Tun,
    tun_inlet,
    web::{self, Web},
};

/// Timeout for the close of the entry's session.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// One end of a tunnel.
#[derive(Debug)]
pub struct Tunnel {
    shared: Arc<Shared>,
    /// The configuration at the start, parts of which stay in use.
    started: Arc<Config>,
    exit: Option<Exit>,
    web: Option<Web>,
    /// Reads the TUN device.
    _tun_inlet: Option<Supervised>,
    /// Count the bytes of tenants, and request their list.
    _tenants: Vec<Supervised>,
    /// Serves the control socket.
    #[cfg(unix)]
    _control: Option<rpc::Control>,
    main: Supervised,
}

impl Tunnel {
    /// Opens the sockets of all flows, and starts to connect or to listen. Must be called inside a tokio runtime.
    ///
    /// What this machine may have later is no error: flows and `metrics` wait for an address, an interface or a route while the rest
    /// runs, and an exit returns once its address is there.
    ///
    /// # Errors
    /// If a socket or a certificate cannot be opened, as a port that is in use. An unreachable exit is no error: the entry retries.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let tun = Tun::open(&config)?;
        let shared = Arc::new(Shared::new(config, tun).map_err(ChangeError::State)?);
        let (config, journal) = (shared.config(), shared.journal.clone());
        shared.apply(Config::clone(&config))?;
        let tenants = tasks_of_tenants(&shared, &config);
        let tun_inlet = shared.tun.clone().map(|tun| {
            let (shared, name) = (shared.clone(), "the TUN device");
            let run = move || tun_inlet::run(tun.clone(), shared.clone());
            supervise::restarting(journal.clone(), name, run)
        });
        if let Some(warning) = config.warning() {
            journal.warn(Kind::Config, warning);
        }
        let web = match config.metrics {
            Some(address) => Some(web::serve(address, shared.clone()).await?),
            None => None,
        };
        #[cfg(unix)]
        let control = match &config.control {
            Some(control) => Some(rpc::serve(control, shared.clone()).await?),
            None => None,
        };
        let (exit, main) = match &config.side {
            Side::Connect(connect) => {
                connect.check_files()?;
                let shared = shared.clone();
                (None, supervise::restarting(journal, "the entry", move || entry::run(shared.clone())))
            }
            Side::Listen(listen) => {
                let exit = Exit::listen(listen, &shared).await?;
                let _ = shared.endpoint.set(exit.endpoint.clone());
                let (shared, endpoint) = (shared.clone(), exit.endpoint.clone());
                let run = move || exit::run(shared.clone(), endpoint.clone());
                (Some(exit), supervise::restarting(journal, "the exit", run))
            }
        };
        Ok(Self {
            shared,
            started: config,
            exit,
            web,
            _tun_inlet: tun_inlet,
            _tenants: tenants,
            #[cfg(unix)]
            _control: control,
            main,
        })
    }

    /// Checks the certificates that a configuration names. A certificate that would be created is not checked.
    ///
    /// # Errors
    /// If one cannot be used.
    pub fn check_files(config: &Config) -> Result<(), StartError> {
        match &config.side {
            Side::Connect(connect) => Ok(connect.check_files()?),
            Side::Listen(listen) => exit::read(listen).map(drop),
        }
    }

    /// Applies another configuration. Sessions and unchanged flows continue. An exit reads its certificate again, for new
    /// sessions. Returns descriptions of the changes that take effect later.
    ///
    /// # Errors
    /// If a socket cannot be opened, or a certificate cannot be used; nothing changes then.
    pub fn reload(&self, mut config: Config) -> Result<Vec<String>, StartError> {
        let before = self.shared.config();
        if let Side::Connect(connect) = &config.side {
            connect.check_files()?;
        }
        let renewal = match &config.side {
            Side::Listen(listen) if self.exit.is_some() => exit::read(listen)?,
            _ => None,
        };
        let notes = later_changes(&self.started, &self.shared.session_configs(), &config);
        if before.is_entry() != config.is_entry() {
            config.side = before.side.clone();
        }
        if config.tun.is_some() != self.shared.tun.is_some() {
            // The device appears, or goes, with the next start.
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
        // They are in use until the next start.
        config.tenants.url.clone_from(&before.tenants.url);
        config.tenants.state.clone_from(&before.tenants.state);
        let (warning, tun) = (config.warning(), config.tun.clone());
        let changes = self.shared.apply(config)?;
        if let (Some(tun), Some(config)) = (&self.shared.tun, &tun) {
            tun.set(config);
            self.shared.registry.announce();
        }
        let journal = &self.shared.journal;
        journal.info(Kind::Config, format!("the configuration was reloaded: {changes}"));
        if let (Some(exit), Some(renewal)) = (&self.exit, &renewal)
            && exit.renew(renewal)
        {
            let words = "new sessions get another certificate, with the fingerprint";
            journal.info(Kind::Config, format!("{words} {}", exit.fingerprint()));
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

    /// Its status.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Changes of the capacity of its sessions: see [`squall::Session::capacity_changes`]. A slow reader misses the oldest
    /// changes.
    pub fn bitrates(&self) -> broadcast::Receiver<Bitrate> {
        self.shared.bitrates.subscribe()
    }

    /// The address of an exit.
    pub fn listening(&self) -> Option<SocketAddr> {
        self.exit.as_ref().map(|exit| exit.address)
    }

    /// The fingerprint of the certificate that an exit accepts new sessions with.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.exit.as_ref().map(Exit::fingerprint)
    }

    /// The address of `/metrics` and `/status`, once this machine has it.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.web.as_ref().and_then(Web::address)
    }

    /// Waits until the tunnel cannot continue, and returns the reason. The process should exit with a failure then, so that
    /// its service manager restarts it. Cancel safe.
    pub async fn failed(&self) -> String {
        let mut failure = self.shared.failure.subscribe();
        match failure.wait_for(Option::is_some).await.map(|why| why.clone()) {
            Ok(why) => why.unwrap_or_default(),
            // Unreachable: the sender lives as long as the tunnel.
            Err(_) => std::future::pending().await,
        }
    }

    /// Lets an exit drain: it accepts no more sessions and asks its entries to use another exit, which they do without a gap.
    /// [`Self::drained`] waits for them. No effect at an entry, and the second time.
    ///
    /// An entry without another exit, and one of a version before this, reconnects at once.
    pub fn drain(&self) {
        self.shared.drain();
    }

    /// Waits until an exit drains, see [`Self::drain`]. Cancel safe.
    pub async fn draining(&self) {
        let mut changes = self.shared.drain_changes();
        if changes.wait_for(Option::is_some).await.is_err() {
            // Unreachable: the sender lives as long as the tunnel.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until an exit that drains has no session any more and all that arrived has left, or until the time of
    /// [`ListenConfig::drain_timeout`](crate::config::ListenConfig::drain_timeout) has passed. Then it is time for
    /// [`Self::stop`]. Cancel safe.
    pub async fn drained(&self) {
        self.draining().await;
        let Some(until) = self.shared.draining() else { return };
        let empty = self.shared.is_empty(self.started.max_sessions);
        if tokio::time::timeout_at(until.into(), empty).await.is_err() {
            let words = "draining has taken too long: the sessions that are left are closed";
            self.shared.journal.warn(Kind::Session, words);
        }
    }

    /// Ends all sessions; the other end is notified.
    pub async fn stop(mut self) {
        self.shared.stopping.send_replace(true);
        match &self.exit {
            Some(exit) => exit.close().await,
            None => self.shared.journal.info(Kind::Session, "the entry ends"),
        }
        let _ = tokio::time::timeout(STOP_TIMEOUT, self.main.join()).await;
        let shared = self.shared.clone();
        let save = move || {
            shared.tenants.save();
            if let Some(quotas) = shared.quotas.get() {
                quotas.save();
            }
        };
        let _ = tokio::time::timeout(STOP_TIMEOUT, tokio::task::spawn_blocking(save)).await;
    }
}

/// The tasks of an exit that are about its tenants.
fn tasks_of_tenants(shared: &Arc<Shared>, config: &Config) -> Vec<Supervised> {
    if config.is_entry() {
        return Vec::new();
    }
    let (journal, tenants) = (shared.journal.clone(), shared.tenants.clone());
    let counts =
        supervise::restarting(journal.clone(), "the count of tenants", move || tenants.clone().run());
    let list = config.tenants.url.clone().map(|url| {
        let (mut current, shared) = (remote::use_kept(shared, &url), shared.clone());
        supervise::restarting(journal, "the list of tenants", move || {
            // After a failure of the task, the list is requested as if there were none.
            remote::run(shared.clone(), url.clone(), mem::take(&mut current))
        })
    });
    [Some(counts), list].into_iter().flatten().collect()
}

/// Values that come into use with the next session, or with the next start.
const SESSION: &str = "next session";
const START: &str = "next start";

/// The values of a new configuration that are not in use yet: current sessions and the endpoint of an exit keep theirs.
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

/// The values in which two configurations differ, and when another one comes into use. Flows change at once.
fn differences(one: &Config, other: &Config) -> Vec<(&'static str, &'static str)> {
    let endpoint = if one.is_entry() { SESSION } else { START };
    let side = match (&one.side, &other.side) {
        (Side::Connect(one), Side::Connect(other)) => {
            (without_quotas(one) != without_quotas(other), "[connect]", SESSION)
        }
        // The certificate changes at once, unless it is one that is made at the start.
        (Side::Listen(one), Side::Listen(other)) => {
            let made = other.identity == IdentityConfig::Fresh && one.identity != other.identity;
            (one.address != other.address || made, "[listen]", START)
        }
        _ => (true, "the change between [connect] and [listen]", START),
    };
    let quotas = |config: &Config| match &config.side {
        Side::Connect(connect) => Some((connect.quota_of_paths(), connect.quotas.clone())),
        Side::Listen(_) => None,
    };
    let silences = silence(&one.all_flows()) != silence(&other.all_flows());
    let device = |config: &Config| config.tun.clone().map(|tun| (tun.device, tun.addresses, tun.mtu));
    let all = [
        (one.scheduler != other.scheduler, "scheduler", SESSION),
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

/// Quotas are counted over sessions, from the start.
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
