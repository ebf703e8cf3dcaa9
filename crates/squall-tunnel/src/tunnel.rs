//! One end of a tunnel, running.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use squall::Fingerprint;
use tokio::sync::broadcast;

use crate::{
    config::{Config, Side},
    entry,
    error::StartError,
    exit::{self, Exit},
    journal::Kind,
    settings::silence,
    shared::{Bitrate, Shared},
    status::Status,
    supervise::{self, Supervised},
    web::{self, Web},
};

/// Timeout for the close of the entry's session.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// One end of a tunnel.
#[derive(Debug)]
pub struct Tunnel {
    shared: Arc<Shared>,
    exit: Option<Exit>,
    web: Option<Web>,
    main: Supervised,
}

impl Tunnel {
    /// Opens the sockets of all flows, and starts to connect or to listen. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If a socket or a certificate cannot be opened. An unreachable exit is no error: the entry retries.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let shared = Arc::new(Shared::new(config));
        let (config, journal) = (shared.config(), shared.journal.clone());
        shared.registry.set(&config.flows)?;
        if let Some(warning) = config.warning() {
            journal.warn(Kind::Config, warning);
        }
        let web = match config.metrics {
            Some(address) => Some(web::serve(address, shared.clone()).await?),
            None => None,
        };
        let (exit, main) = match &config.side {
            Side::Connect(connect) => {
                connect.request()?;
                let shared = shared.clone();
                (None, supervise::restarting(journal, "the entry", move || entry::run(shared.clone())))
            }
            Side::Listen(listen) => {
                let exit = Exit::listen(listen, &shared)?;
                let _ = shared.endpoint.set(exit.endpoint.clone());
                let (shared, endpoint) = (shared.clone(), exit.endpoint.clone());
                let run = move || exit::run(shared.clone(), endpoint.clone());
                (Some(exit), supervise::restarting(journal, "the exit", run))
            }
        };
        Ok(Self { shared, exit, web, main })
    }

    /// Checks the certificates that a configuration names. A certificate that would be created is not checked.
    ///
    /// # Errors
    /// If one cannot be used.
    pub fn check_files(config: &Config) -> Result<(), StartError> {
        match &config.side {
            Side::Connect(connect) => Ok(connect.request().map(drop)?),
            Side::Listen(listen) => exit::check(listen),
        }
    }

    /// Applies another configuration. Sessions and unchanged flows continue. Returns descriptions of the changes that take
    /// effect later.
    ///
    /// # Errors
    /// If a socket cannot be opened; nothing changes then.
    pub fn reload(&self, mut config: Config) -> Result<Vec<String>, StartError> {
        let before = self.shared.config();
        if let Side::Connect(connect) = &config.side {
            connect.request()?;
        }
        let changes = self.shared.registry.set(&config.flows)?;
        let notes = later_changes(&before, &config);
        let warning = config.warning();
        if before.is_entry() != config.is_entry() {
            config.side = before.side.clone();
        }
        self.shared.set_config(config);
        let journal = &self.shared.journal;
        journal.info(Kind::Config, format!("the configuration was reloaded: {changes}"));
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

    /// The fingerprint of an exit's certificate.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.exit.as_ref().map(|exit| exit.fingerprint)
    }

    /// The address of `/metrics` and `/status`.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.web.as_ref().map(Web::address)
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

    /// Ends all sessions; the other end is notified.
    pub async fn stop(mut self) {
        self.shared.stopping.send_replace(true);
        if let Some(exit) = &self.exit {
            exit.close().await;
        }
        let _ = tokio::time::timeout(STOP_TIMEOUT, self.main.join()).await;
    }
}

/// The changes of a new configuration that do not take effect at once.
fn later_changes(before: &Config, after: &Config) -> Vec<String> {
    let (session, start) = ("next session", "next start");
    let endpoint = if before.is_entry() { session } else { start };
    let side = match (&before.side, &after.side) {
        (Side::Connect(one), Side::Connect(other)) => (one != other, "[connect]", session),
        (Side::Listen(one), Side::Listen(other)) => (one != other, "[listen]", start),
        _ => (true, "the change between [connect] and [listen]", start),
    };
    let silences = silence(&before.flows) != silence(&after.flows);
    let changes = [
        (before.scheduler != after.scheduler, "scheduler", session),
        (before.congestion != after.congestion, "congestion", endpoint),
        (silences, "the silence after which a path is suspected", endpoint),
        (before.max_sessions != after.max_sessions, "max_sessions", start),
        (before.token != after.token, "the token", session),
        side,
        (before.metrics != after.metrics, "metrics", start),
        (before.log != after.log, "[log]", start),
    ];
    let changed = changes.into_iter().filter(|(changed, ..)| *changed);
    changed.map(|(_, what, when)| format!("{what} takes effect with the {when}")).collect()
}
