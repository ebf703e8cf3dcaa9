//! The end that calls: connects, and connects anew when the session is over.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use squall::{Connect, Interfaces, Session, Trust};
use tokio::sync::watch;

use crate::{
    config::{Config, ConnectConfig, Side, TrustConfig},
    journal::Kind,
    link::{Ended, Who},
    supervise,
    tunnel::{Core, StartError, session_config},
};

/// Pause before the first new attempt; it doubles with each, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// See [`FIRST_PAUSE`].
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// A session that lasted for this long is no failed attempt: the next one is due after [`FIRST_PAUSE`] again.
const LASTING: Duration = Duration::from_secs(1);

/// Sees that the files are there that a connection needs.
pub(crate) fn check(connect: &ConnectConfig) -> Result<(), StartError> {
    trust(connect).map(drop)
}

/// Runs until the tunnel is stopped.
pub(crate) async fn run(core: Arc<Core>) -> Result<(), String> {
    let mut stopping = core.stopping.subscribe();
    let mut pause = FIRST_PAUSE;
    let mut told = None;
    while !*stopping.borrow() {
        tokio::select! {
            lasted = attempt(&core, &mut told) => {
                if lasted {
                    pause = FIRST_PAUSE;
                }
            }
            _ = stopping.changed() => return Ok(()),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stopping.changed() => return Ok(()),
        }
        for flow in core.registry.all() {
            flow.sweep();
        }
        pause = (pause * 2).min(MAX_PAUSE);
    }
    Ok(())
}

/// Connects, and runs the session until it is over. Whether it was one that lasted. What was told last is told again
/// only when it is something else.
async fn attempt(core: &Arc<Core>, told: &mut Option<String>) -> bool {
    let config = core.config();
    let Side::Connect(connect) = &config.side else { return false };
    let connected = match (request(connect), session_config(&config)) {
        (Ok(request), Ok(settings)) => {
            squall::connect(request, settings).await.map_err(|error| error.to_string())
        }
        (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
    };
    let problem = match connected {
        Ok(session) => {
            let begun = Instant::now();
            let ended = carry(core, &config, connect, session).await;
            let why = ended.closed.unwrap_or_else(|| ended.reason.to_string());
            if ended.agreed {
                *told = None;
                core.journal.warn(Kind::Session, format!("the session is over: {why}; reconnecting"));
                return begun.elapsed() >= LASTING;
            }
            format!("{} does not agree: {why}", connect.to)
        }
        Err(problem) => problem,
    };
    core.note_failure();
    if told.as_ref() != Some(&problem) {
        core.journal.warn(Kind::Session, format!("no session: {problem}; trying again and again"));
        *told = Some(problem);
    }
    false
}

/// Runs a session until it is over. When all its paths fall silent another one is tried beside it, which takes over if it
/// comes up first: the exit may have been started again, or be reachable another way.
async fn carry(core: &Arc<Core>, config: &Config, connect: &ConnectConfig, mut session: Session) -> Ended {
    loop {
        let _farewell = Farewell(session.clone());
        let _radios = connect.signal.then(|| {
            let (core, session) = (core.clone(), session.clone());
            let journal = core.journal.clone();
            supervise::keep(journal, "reading radios", move || follow(core.clone(), session.clone()))
        });
        let stalled = watch::Sender::new(false);
        let silence = stalled.subscribe();
        let who = Who::Caller { token: config.token.clone(), metered: connect.metered.clone(), stalled };
        let link = core.link(session.clone(), who);
        tokio::pin!(link);
        let next = tokio::select! {
            ended = &mut link => return ended,
            next = beside(config, connect, silence) => next,
        };
        core.journal.warn(Kind::Session, "all paths fell silent; another session takes over");
        session.close(0, "another session takes over");
        // What came still leaves.
        link.await;
        session = next;
    }
}

/// Waits until all paths of a session are silent, and connects anew while they are.
async fn beside(config: &Config, connect: &ConnectConfig, mut stalled: watch::Receiver<bool>) -> Session {
    loop {
        if stalled.wait_for(|stalled| *stalled).await.is_err() {
            // The session is over, which its own task reports.
            std::future::pending::<()>().await;
        }
        let attempt = async {
            loop {
                if let (Ok(request), Ok(settings)) = (request(connect), session_config(config))
                    && let Ok(session) = squall::connect(request, settings).await
                {
                    return session;
                }
                tokio::time::sleep(FIRST_PAUSE).await;
            }
        };
        tokio::select! {
            session = attempt => return session,
            _ = stalled.wait_for(|stalled| !*stalled) => {}
        }
    }
}

/// Ends a session that is not waited for any more, and tells the other end.
struct Farewell(Session);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.close(0, "the entry ends");
    }
}

/// Has the session go by the radios of its interfaces, and tells of those that cannot be read.
async fn follow(core: Arc<Core>, session: Session) -> Result<(), String> {
    squall::follow_radios(session, |problem| core.journal.warn(Kind::Path, format!("no radio: {problem}")))
        .await;
    Ok(())
}

fn request(connect: &ConnectConfig) -> Result<Connect, StartError> {
    let addresses: Vec<IpAddr> = connect.interfaces.iter().filter_map(|one| one.parse().ok()).collect();
    let interfaces = match (connect.interfaces.is_empty(), addresses.is_empty()) {
        (true, _) => Interfaces::Auto,
        (false, true) => Interfaces::Named(connect.interfaces.clone()),
        (false, false) => Interfaces::Local(addresses),
    };
    Ok(Connect::to(&connect.to).trust(trust(connect)?).interfaces(interfaces))
}

fn trust(connect: &ConnectConfig) -> Result<Trust, StartError> {
    Ok(match &connect.trust {
        TrustConfig::System => Trust::PlatformRoots,
        TrustConfig::Pin(fingerprint) => Trust::Pinned(*fingerprint),
        TrustConfig::Ca(file) => Trust::Roots(squall::load_certificates(file)?),
        TrustConfig::Insecure => Trust::InsecureAnyone,
    })
}
