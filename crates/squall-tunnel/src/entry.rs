//! The entry: connects, and reconnects when the session is over.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use squall::Session;
use tokio::sync::watch;

use crate::{
    config::{Config, ConnectConfig, Side},
    journal::Kind,
    session::{self, Ended, Role},
    settings::session_config,
    shared::Shared,
    supervise,
};

/// Pause before the first retry; it doubles with each, up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(200);

/// Longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// After a session that lasted this long the pause is [`MIN_PAUSE`] again.
const STABLE: Duration = Duration::from_secs(1);

/// Runs until the tunnel is stopped.
pub(crate) async fn run(shared: Arc<Shared>) -> Result<(), String> {
    let mut stopping = shared.stopping.subscribe();
    let mut pause = MIN_PAUSE;
    let mut reported = None;
    if let Side::Connect(connect) = &shared.config().side {
        shared.journal.info(Kind::Session, format!("connecting to {}", connect.to));
    }
    while !*stopping.borrow() {
        tokio::select! {
            was_stable = attempt(&shared, &mut reported) => {
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
        for flow in shared.registry.all() {
            flow.sweep();
        }
        pause = (pause * 2).min(MAX_PAUSE);
    }
    Ok(())
}

/// Connects, and runs the session until it is over. Returns whether the session was stable. A problem that was `reported`
/// is not reported again.
async fn attempt(shared: &Arc<Shared>, reported: &mut Option<String>) -> bool {
    let config = shared.config();
    let Side::Connect(connect) = &config.side else { return false };
    let problem = match open(&config).await {
        Ok(session) => {
            let begun = Instant::now();
            let ended = carry(shared, &config, connect, session).await;
            if ended.agreed {
                *reported = None;
                let words = format!("the session is over: {ended}; reconnecting");
                match ended.is_normal() {
                    true => shared.journal.info(Kind::Session, words),
                    false => shared.journal.warn(Kind::Session, words),
                }
                return begun.elapsed() >= STABLE;
            }
            match ended.refusal() {
                Some(words) => format!("{} refused: {words}", connect.to),
                None => format!("{}: {ended}", connect.to),
            }
        }
        Err(problem) => problem,
    };
    shared.failed.fetch_add(1, Relaxed);
    if reported.as_ref() != Some(&problem) {
        shared.journal.warn(Kind::Session, format!("no session: {problem}; retrying"));
        *reported = Some(problem);
    }
    false
}

async fn open(config: &Config) -> Result<Session, String> {
    let request = config.request().ok_or("no exit is configured")?.map_err(|error| error.to_string())?;
    let settings = session_config(config).map_err(|error| error.to_string())?;
    squall::connect(request, settings).await.map_err(|error| error.to_string())
}

/// Runs a session until it is over. While all its paths are silent, another session is tried, which takes over if it comes
/// up first: the exit may have restarted, or may be reachable over other paths.
async fn carry(
    shared: &Arc<Shared>,
    config: &Config,
    connect: &ConnectConfig,
    mut session: Session,
) -> Ended {
    loop {
        let _close = CloseOnDrop(session.clone());
        let _radios = connect.signal.then(|| {
            let (shared, session) = (shared.clone(), session.clone());
            let journal = shared.journal.clone();
            supervise::restarting(journal, "reading radios", move || follow(shared.clone(), session.clone()))
        });
        let stalled = watch::Sender::new(false);
        let mut is_stalled = stalled.subscribe();
        let role = Role::Entry { token: config.token.clone(), metered: connect.metered.clone(), stalled };
        let running = session::run(shared.clone(), session.clone(), role);
        tokio::pin!(running);
        let next = tokio::select! {
            ended = &mut running => return ended,
            next = replacement(config, &mut is_stalled) => next,
        };
        shared.journal.warn(Kind::Session, "all paths were silent; another session takes over");
        session.close(0, "another session takes over");
        // Received blocks still leave.
        running.await;
        session = next;
    }
}

/// Connects again while all paths of a session are silent.
async fn replacement(config: &Config, stalled: &mut watch::Receiver<bool>) -> Session {
    loop {
        if stalled.wait_for(|stalled| *stalled).await.is_err() {
            // The session is over, which its own task reports.
            std::future::pending::<()>().await;
        }
        let attempts = async {
            loop {
                if let Ok(session) = open(config).await {
                    return session;
                }
                tokio::time::sleep(MIN_PAUSE).await;
            }
        };
        tokio::select! {
            session = attempts => return session,
            _ = stalled.wait_for(|stalled| !*stalled) => {}
        }
    }
}

/// Closes a session whose task ends early.
struct CloseOnDrop(Session);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close(0, "the entry ends");
    }
}

/// Lets a session follow the radios of its interfaces, and reports the ones that cannot be read.
async fn follow(shared: Arc<Shared>, session: Session) -> Result<(), String> {
    squall::follow_radios(session, |problem| {
        shared.journal.warn(Kind::Path, format!("no radio: {problem}"));
    })
    .await;
    Ok(())
}
