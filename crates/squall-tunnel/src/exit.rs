//! The exit: listens, and accepts sessions.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
    time::Duration,
};

use squall::{Endpoint, Fingerprint, Identity, IdentityError, ListenError, ServerTls, TlsError};

use crate::{
    clock::lock,
    config::{IdentityConfig, ListenConfig},
    error::StartError,
    journal::Kind,
    session::{self, Role},
    settings::session_config,
    shared::{Shared, UnauthenticatedSession},
    supervise,
    wait::{POLL, Waiting, is_absent},
};

/// Timeout for the close of all sessions. An entry without another exit keeps trying, so that the endpoint is never idle.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The endpoint of an exit.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
    fingerprint: Mutex<Fingerprint>,
}

/// A certificate that can be used.
#[derive(Debug)]
pub(crate) struct Renewal {
    tls: ServerTls,
    fingerprint: Fingerprint,
}

/// The certificate of the exit, if it is in files.
pub(crate) fn read(listen: &ListenConfig) -> Result<Option<Renewal>, StartError> {
    let (identity, file) = match &listen.identity {
        IdentityConfig::Files { certificate, key } => (Identity::load_pair(certificate, key)?, certificate),
        // One that would be created is created at the start only.
        IdentityConfig::Kept(file) if file.exists() => (Identity::load(file)?, file),
        IdentityConfig::Kept(_) | IdentityConfig::Fresh => return Ok(None),
    };
    let named = |why: TlsError| IdentityError::Content { path: file.clone(), why: why.to_string() };
    let tls = identity.server_tls().map_err(named)?;
    Ok(Some(Renewal { tls, fingerprint: identity.fingerprint() }))
}

impl Exit {
    /// Listens, as soon as the address is there.
    pub(crate) async fn listen(listen: &ListenConfig, shared: &Arc<Shared>) -> Result<Self, StartError> {
        let address = listen.address.ip();
        let name = if address.is_unspecified() { "localhost".to_owned() } else { address.to_string() };
        let identity = match &listen.identity {
            IdentityConfig::Files { certificate, key } => Identity::load_pair(certificate, key)?,
            IdentityConfig::Kept(file) => Identity::load_or_create(file, &name)?,
            IdentityConfig::Fresh => Identity::self_signed(&name)?,
        };
        let mut settings = session_config(&shared.config())?;
        // Each session gets the scheduler of the configuration at its begin.
        let (first, weak) = (settings.scheduler.clone(), Arc::downgrade(shared));
        settings.scheduler = Arc::new(move || {
            let current =
                weak.upgrade().and_then(|shared| squall::scheduler(&shared.config().scheduler).ok());
            current.map_or_else(|| first(), |factory| factory())
        });
        let (tls, mut waiting) = (identity.server_tls()?, Waiting::default());
        let endpoint = loop {
            match Endpoint::listen(listen.address, &tls, settings.clone()) {
                Err(error) if matches!(&error, ListenError::Bind { source, .. } if is_absent(source)) => {
                    waiting.report(&shared.journal, Kind::Session, format!("{error}; the exit waits for it"));
                }
                listening => break listening?,
            }
            tokio::time::sleep(POLL).await;
        };
        let address = endpoint.local_addrs()[0];
        Ok(Self { endpoint, address, fingerprint: Mutex::new(identity.fingerprint()) })
    }

    /// The fingerprint of the certificate that new sessions are accepted with.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        *lock(&self.fingerprint)
    }

    /// Accepts new sessions with this certificate. Returns whether it is another one.
    pub(crate) fn renew(&self, renewal: &Renewal) -> bool {
        self.endpoint.set_tls(&renewal.tls);
        let mut fingerprint = lock(&self.fingerprint);
        std::mem::replace(&mut *fingerprint, renewal.fingerprint) != renewal.fingerprint
    }

    /// Closes all sessions; the peers are notified.
    pub(crate) async fn close(&self) {
        self.endpoint.close(0, "the exit ends");
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.endpoint.wait_idle()).await;
    }
}

/// Accepts sessions until the tunnel is stopped.
pub(crate) async fn run(shared: Arc<Shared>, endpoint: Endpoint) -> Result<(), String> {
    while let Some(session) = endpoint.accept().await {
        let remote = session.remote_address();
        let unauthenticated = Some(UnauthenticatedSession::new(&shared, remote.ip(), &session));
        let (shared, journal) = (shared.clone(), shared.journal.clone());
        supervise::spawn(journal.clone(), format!("the session with {remote}"), async move {
            let ended =
                session::run(shared.clone(), session, Role::Exit { unauthenticated, permit: None }).await;
            let over = format!("the session with {remote} is over: {ended}");
            match (ended.agreed, ended.is_normal()) {
                (true, true) => ended.journal.info(Kind::Session, over),
                (true, false) => ended.journal.warn(Kind::Session, over),
                // Such as the attempt of an entry that another one of it has overtaken.
                (false, true) => tracing::debug!("{remote} connected and sent no token: {ended}"),
                (false, false) => {
                    shared.failed.fetch_add(1, Relaxed);
                    journal.rejected(&format!("{remote} was rejected: {ended}"));
                }
            }
        });
    }
    if !*shared.stopping.borrow() {
        // Its sockets are closed: only a restart opens them again.
        shared.fail("the listening endpoint has ended");
    }
    Ok(())
}
