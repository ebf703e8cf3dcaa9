//! The exit: listens, and accepts sessions.

pub(crate) mod tenant_list;

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use squall::{
    Endpoint, EndpointConfig, Fingerprint, Identity, IdentityError, ListenError, ServerTls, TlsError,
};
use squall_observe::{
    journal::Kind,
    supervise,
    wait::{POLL, Waiting, is_absent},
};

use crate::{
    config::{IdentityConfig, ListenConfig},
    session::{self, Role, session_config},
    shared::{ExitState, StartError},
};

/// Timeout for closing all sessions. An entry without another exit keeps trying, so the endpoint
/// may never become idle.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// A new, valid certificate.
#[derive(Debug)]
pub(crate) struct Renewal {
    tls: ServerTls,
    fingerprint: Fingerprint,
}

/// Reads the certificate of the exit, if it is in files.
pub(crate) fn read(listen: &ListenConfig) -> Result<Option<Renewal>, StartError> {
    let (identity, file) = match &listen.identity {
        IdentityConfig::Files { certificate, key } => (Identity::load_pair(certificate, key)?, certificate),
        // A missing self-signed certificate is created only at the start.
        IdentityConfig::Kept(file) if file.exists() => (Identity::load(file)?, file),
        IdentityConfig::Kept(_) | IdentityConfig::Fresh => return Ok(None),
    };
    let named = |why: TlsError| IdentityError::Content { path: file.clone(), why: why.to_string() };
    let tls = identity.server_tls().map_err(named)?;
    Ok(Some(Renewal { tls, fingerprint: identity.fingerprint() }))
}

/// Listens once the address is available.
pub(crate) async fn listen(exit: &ExitState) -> Result<Endpoint, StartError> {
    let (listen, shared) = (exit.listen(), &exit.shared);
    let address = listen.address.ip();
    let name = if address.is_unspecified() { "localhost".to_owned() } else { address.to_string() };
    let identity = match &listen.identity {
        IdentityConfig::Files { certificate, key } => Identity::load_pair(certificate, key)?,
        IdentityConfig::Kept(file) => Identity::load_or_create(file, &name)?,
        IdentityConfig::Fresh => Identity::self_signed(&name)?,
    };
    let config = shared.config();
    let settings = session_config(&config)?;
    // Each session gets the scheduler of the configuration at its start, or that of its arm once
    // its client is identified.
    let (first, weak) = (settings.scheduler.clone(), Arc::downgrade(shared));
    let settings = settings.scheduler(Arc::new(move || {
        let current =
            weak.upgrade().and_then(|shared| squall::scheduler(shared.config().first_scheduler()).ok());
        current.map_or_else(|| first(), |factory| factory())
    }));
    let settings = EndpointConfig::from(settings).workers(config.workers);
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
    exit.listens(&endpoint, identity.fingerprint());
    Ok(endpoint)
}

/// Installs this certificate for new sessions. Returns its fingerprint if it has changed.
pub(crate) fn renew(exit: &ExitState, renewal: &Renewal) -> Option<Fingerprint> {
    let Renewal { tls, fingerprint } = renewal;
    exit.endpoint()?.set_tls(tls);
    exit.set_fingerprint(*fingerprint).then_some(*fingerprint)
}

/// Closes all sessions and notifies the peers.
pub(crate) async fn close(exit: &ExitState) {
    let Some(endpoint) = exit.endpoint() else { return };
    endpoint.close(0, "the exit ends");
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, endpoint.wait_idle()).await;
}

/// Accepts sessions until the tunnel is stopped.
pub(crate) async fn run(exit: Arc<ExitState>, endpoint: Endpoint) -> Result<(), String> {
    while let Some(session) = endpoint.accept().await {
        let remote = session.remote_address();
        let place = Some(exit.admit(remote.ip(), &session));
        let (exit, journal) = (exit.clone(), exit.shared.journal.clone());
        supervise::spawn(journal.clone(), format!("the session with {remote}"), async move {
            let shared = exit.shared.clone();
            let role = Role::Exit { exit, address: remote.ip(), place, permit: None };
            let ended = session::run(shared.clone(), session, role).await;
            let over = format!("the session with {remote} is over: {ended}");
            match (ended.agreed, ended.is_normal()) {
                (true, true) => ended.journal.info(Kind::Session, over),
                (true, false) => ended.journal.warn(Kind::Session, over),
                // For instance an attempt of an entry that another of its attempts overtook.
                (false, true) => tracing::debug!("{remote} connected and sent no token: {ended}"),
                (false, false) => {
                    shared.failed.fetch_add(1, Relaxed);
                    journal.rejected(&format!("{remote} was rejected: {ended}"));
                }
            }
        });
    }
    if !*exit.shared.stopping.borrow() {
        // Its sockets are closed: only a restart opens them again.
        exit.shared.fail("the listening endpoint has ended");
    }
    Ok(())
}
