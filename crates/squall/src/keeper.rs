//! Keeps a path open over every interface that there is.

use std::{
    io,
    net::SocketAddr,
    task::Context,
    time::{Duration, Instant},
};

use squall_proto::{NetPath, Session, SessionId};
use tokio::time::{Interval, MissedTickBehavior};

use crate::{
    ConnectError, Interfaces, Network,
    driver::Sockets,
    error,
    interfaces::{self, Candidate, Found},
    shared::{Core, Shared},
    socket::{Binding, SocketKey},
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
    session: Option<SessionId>,
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

/// A socket that was bound for a path.
struct Bound {
    candidate: Candidate,
    key: SocketKey,
    local: SocketAddr,
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
        let found = list_for(&plan).map_err(|e| fail(error::plain(&e)))?;
        let wanted = interfaces::candidates(&plan, &remotes, &found);
        if wanted.is_empty() {
            return Err(fail(none_fits(&plan, &found)));
        }
        let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + TICK, TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut keeper = Self { session: None, plan, remotes, kept: Vec::new(), max_paths, tick };
        let mut failures = Vec::new();
        for candidate in wanted.into_iter().take(max_paths) {
            match bind(&candidate, sockets) {
                Ok(bound) => drop(keeper.take(bound, core)),
                Err(error) => {
                    let name =
                        candidate.name().map_or_else(|| candidate.local.ip().to_string(), str::to_owned);
                    failures.push(format!("{name}: {}", error::plain(&error)));
                }
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

    /// Keeps the paths of this session from now on.
    pub(crate) fn serve(&mut self, session: SessionId, core: &mut Core) {
        self.session = Some(session);
        if let Some(session) = core.proto.session(session) {
            for kept in &self.kept {
                kept.declare_cost(session);
            }
        }
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
        if due { list_for(&self.plan).ok() } else { None }
    }

    /// Opens and closes paths as interfaces have come and gone. Until the session is there, its paths
    /// race and stay as they are.
    pub(crate) fn look_over(&mut self, found: &[Found], shared: &Shared, sockets: &mut Sockets) {
        let Some(session) = self.session else { return };
        if shared.lock().proto.session(session).is_none_or(|session| session.is_closed()) {
            return;
        }
        let mut wanted = interfaces::candidates(&self.plan, &self.remotes, found);
        wanted.truncate(self.max_paths);
        // Networks bind by a call of the application's, which may take its time: not with the core locked.
        let bound: Vec<Bound> = wanted.iter().filter_map(|one| self.bind_if_new(one, sockets)).collect();
        let core = &mut *shared.lock();
        let now = Instant::now();
        for bound in bound {
            tracing::info!(candidate = ?bound.candidate, "path appears");
            let net = self.take(bound, core);
            if let Some(session) = core.proto.session(session) {
                session.add_path(now, net);
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
        self.note_changes(wanted, session, core);
        self.reopen(now, session, core);
    }

    /// What has changed of networks that stay: whether they cost money.
    fn note_changes(&mut self, wanted: Vec<Candidate>, session: SessionId, core: &mut Core) {
        let Some(session) = core.proto.session(session) else { return };
        for candidate in wanted {
            if let Some(kept) = self.kept.iter_mut().find(|kept| kept.candidate == candidate) {
                kept.candidate = candidate;
                kept.declare_cost(session);
            }
        }
    }

    fn bind_if_new(&self, candidate: &Candidate, sockets: &mut Sockets) -> Option<Bound> {
        if self.kept.iter().any(|kept| kept.candidate == *candidate) {
            return None;
        }
        let bound = bind(candidate, sockets);
        bound.inspect_err(|error| tracing::debug!(?candidate, %error, "path not usable for now")).ok()
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

    /// Keeps a path over a socket that was bound for it.
    fn take(&mut self, bound: Bound, core: &mut Core) -> NetPath {
        let Bound { candidate, key, local } = bound;
        let name = core.routes.add(key, local, candidate.name().map(str::to_owned));
        let net = NetPath { local: name, remote: candidate.remote };
        let retry_at = Instant::now() + FIRST_PAUSE;
        self.kept.push(Kept { candidate, key, net, retry_at, pause: FIRST_PAUSE });
        net
    }
}

impl Kept {
    /// Tells a session whether the bytes of the path cost money, where that is known of its network.
    fn declare_cost(&self, session: &mut Session) {
        if let Some(network) = &self.candidate.network {
            session.set_metered(self.net.local, network.is_metered());
        }
    }
}

fn bind(candidate: &Candidate, sockets: &mut Sockets) -> io::Result<Bound> {
    let binding = match (&candidate.network, &candidate.device) {
        (Some(network), _) => Binding::Network(network),
        (None, Some(device)) => Binding::Device(device),
        (None, None) => Binding::Address,
    };
    let (key, local) = sockets.bind(candidate.local, binding)?;
    Ok(Bound { candidate: candidate.clone(), key, local })
}

/// The interfaces there are, if the plan asks for any.
fn list_for(plan: &Interfaces) -> io::Result<Vec<Found>> {
    if plan.is_of_the_system() { interfaces::list() } else { Ok(Vec::new()) }
}

/// Why there is no path to try.
fn none_fits(plan: &Interfaces, found: &[Found]) -> String {
    match plan {
        Interfaces::Auto => "no interface is up with an address of the right family".into(),
        Interfaces::Named(names) => {
            let mut known: Vec<&str> = found.iter().map(|f| f.name.as_str()).collect();
            // An interface has an entry for each of its addresses.
            known.sort_unstable();
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
        Interfaces::Networks(networks) if networks.is_empty() => "there is no network now".into(),
        Interfaces::Networks(networks) => {
            let names: Vec<&str> = networks.iter().map(Network::name).collect();
            format!("none of {} has an address of the right family", names.join(", "))
        }
    }
}
