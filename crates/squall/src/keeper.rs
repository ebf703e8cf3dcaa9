//! Keeps a path open over every interface that there is.

use std::{
    net::SocketAddr,
    task::Context,
    time::{Duration, Instant},
};

use squall_proto::{NetPath, SessionId};
use tokio::time::{Interval, MissedTickBehavior};

use crate::{
    ConnectError, Interfaces,
    driver::Sockets,
    error,
    interfaces::{self, Candidate, Found},
    shared::Core,
    socket::SocketKey,
};

/// How often interfaces are looked over.
const TICK: Duration = Duration::from_secs(1);

/// A path that is gone although its interface is there is opened again after this, then after twice as
/// long each time, up to [`MAX_PAUSE`]: every attempt costs a path id.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// See [`FIRST_PAUSE`].
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The paths of a session that this side started.
pub(crate) struct Keeper {
    /// The session, once it is known.
    pub(crate) session: Option<SessionId>,
    plan: Interfaces,
    remotes: Vec<SocketAddr>,
    kept: Vec<Kept>,
    max_paths: usize,
    tick: Interval,
}

/// A path, and its socket.
#[derive(Debug)]
struct Kept {
    candidate: Candidate,
    key: SocketKey,
    net: NetPath,
    retry_at: Instant,
    pause: Duration,
}

impl Keeper {
    /// Opens sockets for all interfaces there are now. `host` is for messages.
    pub(crate) fn start(
        plan: Interfaces,
        remotes: Vec<SocketAddr>,
        host: &str,
        max_paths: usize,
        core: &mut Core,
        sockets: &mut Sockets,
    ) -> Result<Self, ConnectError> {
        let fail = |why: String| ConnectError::NoInterface { remote: host.to_owned(), why };
        let found = interfaces::list().map_err(|e| fail(error::plain(&e)))?;
        let wanted = interfaces::candidates(&plan, &remotes, &found);
        if wanted.is_empty() {
            return Err(fail(none_fits(&plan, &found)));
        }
        let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + TICK, TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut keeper = Self { session: None, plan, remotes, kept: Vec::new(), max_paths, tick };
        let mut failures = Vec::new();
        for candidate in wanted.into_iter().take(max_paths) {
            if let Err(error) = keeper.open(&candidate, core, sockets) {
                failures.push(format!("{}: {}", candidate.local.ip(), error::plain(&error)));
            }
        }
        if keeper.kept.is_empty() {
            return Err(fail(failures.join(", ")));
        }
        for failure in failures {
            tracing::warn!("path not usable for now: {failure}");
        }
        Ok(keeper)
    }

    /// The paths, the preferred first.
    pub(crate) fn paths(&self) -> Vec<NetPath> {
        self.kept.iter().map(|kept| kept.net).collect()
    }

    /// The interfaces there are now, when it is time to look them over, or the application wants
    /// others (`asked`). Asks the system, so not to be called with the core locked.
    pub(crate) fn poll_look(
        &mut self,
        cx: &mut Context<'_>,
        asked: Option<Interfaces>,
    ) -> Option<Vec<Found>> {
        let mut due = asked.is_some();
        while self.tick.poll_tick(cx).is_ready() {
            due = true;
        }
        if let Some(plan) = asked {
            self.plan = plan;
        }
        if due { interfaces::list().ok() } else { None }
    }

    /// Opens and closes paths as interfaces have come and gone. Until the session is there, its paths
    /// race and stay as they are.
    pub(crate) fn look_over(&mut self, found: &[Found], core: &mut Core, sockets: &mut Sockets) {
        let open = |id: &SessionId| core.proto.session(*id).is_some_and(|s| !s.is_closed());
        let Some(session) = self.session.filter(open) else { return };
        let mut wanted = interfaces::candidates(&self.plan, &self.remotes, found);
        wanted.truncate(self.max_paths);
        let now = Instant::now();
        for candidate in &wanted {
            if self.kept.iter().any(|kept| kept.candidate == *candidate) {
                continue;
            }
            match self.open(candidate, core, sockets) {
                Ok(net) => {
                    tracing::info!(?candidate, "path appears");
                    if let Some(session) = core.proto.session(session) {
                        session.add_path(now, net);
                    }
                }
                Err(error) => tracing::debug!(?candidate, %error, "path not usable for now"),
            }
        }
        self.kept.retain(|kept| {
            let stays = wanted.contains(&kept.candidate);
            if !stays {
                tracing::info!(candidate = ?kept.candidate, "path goes");
                if let Some(session) = core.proto.session(session) {
                    session.remove_interface(now, kept.net.local);
                }
                core.routes.remove(kept.key);
                sockets.remove(kept.key);
            }
            stays
        });
        self.reopen(now, session, core);
    }

    /// Opens paths again that are gone while their interface is there.
    fn reopen(&mut self, now: Instant, session: SessionId, core: &mut Core) {
        let Some(session) = core.proto.session(session) else { return };
        let open: Vec<NetPath> = session.path_stats().into_iter().map(|(_, net, _)| net).collect();
        for kept in &mut self.kept {
            if open.contains(&kept.net) {
                kept.pause = FIRST_PAUSE;
                kept.retry_at = now + FIRST_PAUSE;
            } else if now >= kept.retry_at {
                session.add_path(now, kept.net);
                kept.retry_at = now + kept.pause;
                kept.pause = (kept.pause * 2).min(MAX_PAUSE);
            }
        }
    }

    fn open(
        &mut self,
        candidate: &Candidate,
        core: &mut Core,
        sockets: &mut Sockets,
    ) -> std::io::Result<NetPath> {
        let (key, local) = sockets.bind(candidate.local, candidate.device.as_deref())?;
        let name = core.routes.add(key, local, candidate.device.clone());
        let net = NetPath { local: name, remote: candidate.remote };
        let retry_at = Instant::now() + FIRST_PAUSE;
        self.kept.push(Kept { candidate: candidate.clone(), key, net, retry_at, pause: FIRST_PAUSE });
        Ok(net)
    }
}

/// Why there is no path to try.
fn none_fits(plan: &Interfaces, found: &[Found]) -> String {
    match plan {
        Interfaces::Auto => "no interface is up with an address of the right family".into(),
        Interfaces::Named(names) => {
            let mut known: Vec<&str> = found.iter().map(|f| f.name.as_str()).collect();
            known.dedup();
            let names = names.join(", ");
            format!(
                "none of {names} is up with an address of the right family; there are {}",
                known.join(", ")
            )
        }
        Interfaces::Local(addresses) => {
            format!("none of the local addresses [{}] is of its family", error::list_of(addresses))
        }
        Interfaces::Pairs(_) => "no pair of addresses was given".into(),
    }
}
