//! The end that is called: listens, and lets sessions in.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use squall::{Endpoint, Fingerprint, Identity, Session};

use crate::{
    config::{IdentityConfig, ListenConfig},
    journal::Kind,
    link::Who,
    supervise,
    tunnel::{Core, StartError, Visit, session_config},
};

/// How long farewells may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// What listens.
#[derive(Debug)]
pub(crate) struct Exit {
    endpoint: Endpoint,
    address: SocketAddr,
    fingerprint: Fingerprint,
}

/// Sees that the files are there that listening needs.
pub(crate) fn check(listen: &ListenConfig) -> Result<(), StartError> {
    if let IdentityConfig::Files { certificate, key } = &listen.identity {
        Identity::load_pair(certificate, key)?.server_tls()?;
    }
    Ok(())
}

impl Exit {
    pub(crate) fn listen(listen: &ListenConfig, core: &Arc<Core>) -> Result<Self, StartError> {
        let address = listen.address.ip();
        let name = if address.is_unspecified() { "localhost".to_owned() } else { address.to_string() };
        let identity = match &listen.identity {
            IdentityConfig::Files { certificate, key } => Identity::load_pair(certificate, key)?,
            IdentityConfig::Kept(file) => Identity::load_or_create(file, &name)?,
            IdentityConfig::Fresh => Identity::self_signed(&name)?,
        };
        let mut settings = session_config(&core.config())?;
        // Each session has the scheduler that is set when it begins. The core lives longer than its endpoint.
        let (first, core) = (settings.scheduler.clone(), Arc::downgrade(core));
        settings.scheduler = Arc::new(move || {
            let set = core.upgrade().and_then(|core| squall::scheduler(&core.config().scheduler).ok());
            set.map_or_else(|| first(), |factory| factory())
        });
        let endpoint = Endpoint::listen(listen.address, &identity.server_tls()?, settings)?;
        let address = endpoint.local_addrs()[0];
        Ok(Self { endpoint, address, fingerprint: identity.fingerprint() })
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Closes all sessions; peers are told.
    pub(crate) async fn close(&self) {
        self.endpoint.close(0, "the exit ends");
        let _ = tokio::time::timeout(FAREWELL, self.endpoint.wait_idle()).await;
    }
}

/// Lets sessions in until the tunnel is stopped.
pub(crate) async fn run(core: Arc<Core>, endpoint: Endpoint) -> Result<(), String> {
    while let Some(session) = endpoint.accept().await {
        // One that is over already has no address, and nothing to be asked.
        let Some(remote) = remote(&session) else { continue };
        let visit = Visit::begin(&core, remote.ip(), &session);
        let (core, peer) = (core.clone(), remote.to_string());
        supervise::watch(core.journal.clone(), format!("the session with {peer}"), async move {
            let ended = core.link(session, Who::Called(visit)).await;
            let why = ended.closed.unwrap_or_else(|| ended.reason.to_string());
            if ended.agreed {
                core.journal.warn(Kind::Session, format!("the session with {peer} is over: {why}"));
            } else {
                core.note_failure();
                core.journal.stranger(&format!("{peer} was turned away: {why}"));
            }
        });
    }
    if !*core.stopping.borrow() {
        // Its sockets are gone with it: only another start brings them back.
        core.fail("the endpoint that listens has ended");
    }
    Ok(())
}

fn remote(session: &Session) -> Option<SocketAddr> {
    session.path_stats().first().map(|path| path.remote)
}
