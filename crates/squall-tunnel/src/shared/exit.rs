//! State of an exit: its tenants, the sessions that it may accept, and draining.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use squall::{AdmissionStats, Endpoint, Fingerprint, Session};
use squall_observe::{
    Status,
    clock::lock,
    journal::Kind,
    places::{Place, Places},
    status::{UnauthenticatedStatus, WhyStatus},
    web::Source,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{
    Shared,
    tenants::{ChangeError, Sources, Tenants},
    token_failures::TokenFailures,
};
use crate::{
    code,
    config::{Config, ListenConfig, Side, TokenHash},
    tenant::{Tenant, state::StateError},
};

/// Maximum number of sessions, over all hosts, whose peer has not presented the token yet.
pub(crate) const MAX_UNAUTHENTICATED: usize = 16;

/// Maximum number of these sessions per host.
const MAX_UNAUTHENTICATED_OF_HOST: usize = 8;

/// State of an exit.
#[derive(Debug)]
pub(crate) struct ExitState {
    pub(crate) shared: Arc<Shared>,
    listen: Mutex<Arc<ListenConfig>>,
    /// Held while the flows are changed.
    changing: Mutex<()>,
    pub(crate) tenants: Arc<Tenants>,
    unauthenticated: Arc<Places<Session>>,
    token_failures: TokenFailures,
    /// Permits, one for each tunnel that it accepts.
    permits: Arc<Semaphore>,
    /// Total number of permits.
    max_sessions: usize,
    /// Endpoint, once the exit listens.
    endpoint: OnceLock<Endpoint>,
    /// Fingerprint of the certificate for new sessions, once the exit listens.
    fingerprint: Mutex<Option<Fingerprint>>,
    /// Time at which the remaining sessions are closed, if the exit drains.
    draining: watch::Sender<Option<Instant>>,
}

/// Owner of a token.
#[derive(Debug)]
pub(crate) enum Identity {
    /// Any entry, with the token of the exit.
    Exit,
    /// Peer of the TUN device with its own token.
    Peer(String),
    /// A tenant.
    Tenant(Arc<Tenant>),
}

impl Identity {
    /// Returns the property that assigns the client to an arm: its name, or its address if it
    /// shares the token of the exit.
    pub(crate) fn client(&self, address: IpAddr) -> Vec<u8> {
        match self {
            Self::Exit => format!("address {address}").into_bytes(),
            Self::Peer(name) => format!("peer {name}").into_bytes(),
            Self::Tenant(tenant) => format!("tenant {}", tenant.name).into_bytes(),
        }
    }

    /// Returns the name in the configuration; empty for entries without one.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Exit => "",
            Self::Peer(name) => name,
            Self::Tenant(tenant) => &tenant.name,
        }
    }
}

impl ExitState {
    /// Creates the state. Reads the stored state of tenants.
    pub(crate) fn new(shared: Arc<Shared>, listen: &ListenConfig) -> Result<Arc<Self>, StateError> {
        let config = shared.config();
        Ok(Arc::new(Self {
            listen: Mutex::new(Arc::new(listen.clone())),
            changing: Mutex::default(),
            tenants: Arc::new(Tenants::open(&config, shared.journal.clone())?),
            unauthenticated: Places::new(MAX_UNAUTHENTICATED, MAX_UNAUTHENTICATED_OF_HOST),
            token_failures: TokenFailures::default(),
            permits: Arc::new(Semaphore::new(config.max_sessions)),
            max_sessions: config.max_sessions,
            endpoint: OnceLock::new(),
            fingerprint: Mutex::default(),
            draining: watch::Sender::new(None),
            shared,
        }))
    }

    /// Sets the endpoint and the fingerprint, once the exit listens.
    pub(crate) fn listens(&self, endpoint: &Endpoint, fingerprint: Fingerprint) {
        let _ = self.endpoint.set(endpoint.clone());
        self.set_fingerprint(fingerprint);
    }

    /// Returns the endpoint, once the exit listens.
    pub(crate) fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.get()
    }

    /// Returns the listening address, once the exit listens.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.endpoint()?.local_addrs().first().copied()
    }

    /// Returns the fingerprint of the certificate for new sessions, once the exit listens.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        *lock(&self.fingerprint)
    }

    /// Sets the fingerprint. Returns `true` if it has changed.
    pub(crate) fn set_fingerprint(&self, fingerprint: Fingerprint) -> bool {
        lock(&self.fingerprint).replace(fingerprint) != Some(fingerprint)
    }

    /// Returns the settings for listening.
    pub(crate) fn listen(&self) -> Arc<ListenConfig> {
        lock(&self.listen).clone()
    }

    /// Applies the flows and tenants of a configuration, and makes it the current one. Returns a
    /// description of the changes. If the configuration is that of an entry, the change of side
    /// takes effect at the next start.
    pub(crate) fn apply(&self, mut config: Config) -> Result<String, ChangeError> {
        let _changing = lock(&self.changing);
        let listen = match &config.side {
            Side::Listen(listen) => Arc::new(listen.clone()),
            Side::Connect(_) => self.listen(),
        };
        config.side = Side::Listen(ListenConfig::clone(&listen));
        let words = self.tenants.change(&config, &self.shared.registry, |sources| {
            sources.configured.clone_from(&config.tenants.list);
            Ok(())
        })?;
        *lock(&self.listen) = listen;
        self.shared.set_config(config);
        Ok(words)
    }

    /// Changes the tenants of sources other than the configuration.
    pub(crate) fn change_tenants(
        &self,
        change: impl FnOnce(&mut Sources) -> Result<(), ChangeError>,
    ) -> Result<String, ChangeError> {
        let _changing = lock(&self.changing);
        self.tenants.change(&self.shared.config(), &self.shared.registry, change)
    }

    /// Returns the owner of a token; `None` if it is wrong.
    pub(crate) fn identify(&self, token: &[u8]) -> Option<Identity> {
        match self.tenants.identify(&TokenHash::of(token)) {
            Some(tenant) => Some(Identity::Tenant(tenant)),
            None => {
                self.shared.config().identify(token).map(|peer| peer.map_or(Identity::Exit, Identity::Peer))
            }
        }
    }

    /// Adds a session whose peer has not presented the token yet. May displace another one.
    pub(crate) fn admit(&self, address: IpAddr, session: &Session) -> Place<Session> {
        let (place, displaced) = self.unauthenticated.enter(address, session.clone());
        if let Some(displaced) = displaced {
            displaced.close(code::FULL, "too many connections without a token");
        }
        place
    }

    /// Counts a wrong token of a peer. Returns `true` if its host may present another one now.
    pub(crate) fn wrong_token(&self, address: IpAddr) -> bool {
        self.token_failures.count(address, self.shared.clock.now())
    }

    /// Begins to drain, unless already draining. Returns the time limit of the draining.
    pub(crate) fn drain(&self) -> Duration {
        let (now, timeout) = (Instant::now(), self.listen().drain_timeout);
        let begins =
            |before: &mut Option<Instant>| before.is_none() && before.replace(now + timeout).is_none();
        if self.draining.send_if_modified(begins) {
            let words = match self.shared.session_count() {
                0 => "draining: there is no session to move".to_owned(),
                _ => format!("draining: sessions move to other exits, within {timeout:?}"),
            };
            self.shared.journal.info(Kind::Session, words);
        }
        self.draining().map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Returns the time at which the remaining sessions are closed, if the exit drains.
    pub(crate) fn draining(&self) -> Option<Instant> {
        *self.draining.borrow()
    }

    /// Returns a receiver that changes when the exit begins to drain.
    pub(crate) fn drain_changes(&self) -> watch::Receiver<Option<Instant>> {
        self.draining.subscribe()
    }

    /// Waits until no session is left, and all received data has left.
    pub(crate) async fn is_empty(&self) {
        let all = u32::try_from(self.max_sessions).unwrap_or(u32::MAX);
        // Fails if the semaphore is closed, which it never is.
        let _ = self.permits.acquire_many(all).await;
    }

    /// Returns a permit for another tunnel of an entry, unless `max_sessions` are carried. An entry
    /// with sessions leaves one permit to each tenant without a session, and to the entries with
    /// the token of the exit, but at most half of all.
    pub(crate) fn permit(&self, identity: &Identity) -> Option<OwnedSemaphorePermit> {
        let has_unnamed = self.shared.has_unnamed_session();
        let (has_others, waits) = match identity {
            Identity::Tenant(tenant) => {
                (tenant.session_count() > 1, self.shared.config().token.is_some() && !has_unnamed)
            }
            Identity::Exit | Identity::Peer(_) => (has_unnamed, false),
        };
        let reserved = match has_others {
            true => (self.tenants.without_sessions() + usize::from(waits)).min(self.max_sessions / 2),
            false => 0,
        };
        (self.permits.available_permits() > reserved).then(|| self.any_permit()).flatten()
    }

    /// Returns a permit without leaving a reserve.
    pub(crate) fn any_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }
}

impl Source for ExitState {
    fn status(&self) -> Status {
        let unauthenticated = self.endpoint().map_or_else(UnauthenticatedStatus::default, |endpoint| {
            let AdmissionStats { pending, retried, displaced, expired, refused } = endpoint.admission();
            UnauthenticatedStatus { pending: pending as u64, retried, displaced, expired, refused }
        });
        Status {
            role: "exit".to_owned(),
            address: self.address().unwrap_or_else(|| self.listen().address).to_string(),
            unauthenticated,
            draining: self.draining().is_some(),
            tenants: self.tenants.status(),
            ..self.shared.status()
        }
    }

    fn why(&self, flow: &str) -> Result<WhyStatus, String> {
        self.shared.why(flow)
    }
}
