//! Opens a path over every interface that can reach the server, and closes those of interfaces that are gone.

use std::{io, net::SocketAddr, sync::Arc, time::Instant};

use squall_proto::{NetPath, SessionId, Target};

use crate::{
    ConnectError, Interfaces, Network, Quotas, Session,
    connect::Request,
    error,
    interfaces::{self, Candidate, Found},
    shared::{Core, Shared},
    sockets::{Lease, Sockets},
};

/// The paths of a session that this side started.
pub(crate) struct PathManager {
    session: SessionId,
    plan: Interfaces,
    quotas: Option<Quotas>,
    remotes: Vec<SocketAddr>,
    kept: Vec<Kept>,
    max_paths: usize,
    /// Whether the race is over, and each interface has one path.
    settled: bool,
    /// Whether the session is not up yet, or an interface could not be used.
    is_missing: bool,
}

/// A path, and its socket.
#[derive(Debug)]
struct Kept {
    candidate: Candidate,
    lease: Lease,
    net: NetPath,
}

impl PathManager {
    /// Starts to connect, over all interfaces there are now.
    pub(crate) fn start(
        request: Request,
        shared: &Arc<Shared>,
        sockets: &mut Sockets,
    ) -> Result<(Session, Self), ConnectError> {
        let Request { tls, server_name, plan, quotas, found, remotes, host, max_paths } = request;
        let fail = |why: String| ConnectError::NoInterface { remote: host.clone(), why };
        let mut wanted = interfaces::candidates(&plan, &remotes, &found);
        if wanted.is_empty() {
            return Err(fail(none_fits(&plan, &found)));
        }
        wanted.retain(|paths| has_quota(quotas.as_ref(), paths));
        if wanted.is_empty() {
            return Err(fail("the quotas of all interfaces are used up".into()));
        }
        wanted.truncate(max_paths);
        let mut manager = Self {
            session: SessionId(0),
            plan,
            quotas,
            remotes,
            kept: Vec::new(),
            max_paths,
            settled: false,
            is_missing: true,
        };
        let mut failures = Vec::new();
        let mut interfaces = Vec::new();
        for candidates in wanted {
            let mut paths = Vec::new();
            for candidate in candidates {
                match manager.lease(&candidate, sockets) {
                    Ok(lease) => paths.push(manager.take(candidate, lease, &mut shared.lock())),
                    Err(error) => failures.push(failure(&candidate, &error)),
                }
            }
            interfaces.push(paths);
        }
        if manager.kept.is_empty() {
            return Err(fail(failures.join(", ")));
        }
        for failure in failures {
            tracing::warn!("path not usable for now: {failure}");
        }
        let core = &mut *shared.lock();
        let target = Target { tls, server_name, interfaces };
        match core.proto.connect(Instant::now(), target) {
            Ok(id) => {
                manager.session = id;
                if let Some(quotas) = manager.quotas.clone() {
                    core.meters.follow(id, quotas);
                }
                Ok((Session::new(shared.clone(), id, core.enrol_own(id)), manager))
            }
            Err(error) => {
                manager.release(core, sockets, |_| false, |_| "the session is over".into());
                Err(ConnectError::Request(error.to_string()))
            }
        }
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    pub(crate) fn plan(&self) -> &Interfaces {
        &self.plan
    }

    pub(crate) fn set_plan(&mut self, plan: Interfaces) {
        self.plan = plan;
    }

    /// Whether the interfaces are to be looked at again soon.
    pub(crate) fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// Opens and closes paths as interfaces have come and gone. Until the session is up, its paths
    /// race and stay as they are. Returns whether the session still exists.
    pub(crate) fn update(&mut self, found: &[Found], shared: &Shared, sockets: &mut Sockets) -> bool {
        {
            let core = &mut *shared.lock();
            if !core.proto.has(self.session) {
                self.release(core, sockets, |_| false, |_| "the session is over".into());
                return false;
            }
            let Some(session) = core.proto.session(self.session).filter(|session| !session.is_closed())
            else {
                return true;
            };
            if !std::mem::replace(&mut self.settled, true)
                && let Some((_, winner, _)) = session.path_stats().first()
            {
                // The address that won the race is the one to use, by each interface that reaches it.
                self.remotes.sort_by_key(|remote| *remote != winner.remote);
            }
        }
        let mut wanted = interfaces::candidates(&self.plan, &self.remotes, found);
        wanted.retain(|paths| {
            has_quota(self.quotas.as_ref(), paths) || paths.iter().any(|path| self.has(path))
        });
        let wanted: Vec<Candidate> =
            wanted.into_iter().filter_map(|paths| paths.into_iter().next()).take(self.max_paths).collect();
        // Networks bind by a call of the application's, which may take its time: not with the core locked.
        let new: Vec<&Candidate> = wanted.iter().filter(|one| !self.has(one)).collect();
        let leased: Vec<(Candidate, Lease)> =
            new.iter().filter_map(|one| Some(((*one).clone(), self.lease_or_log(one, sockets)?))).collect();
        self.is_missing = leased.len() < new.len();
        let core = &mut *shared.lock();
        let now = Instant::now();
        for (candidate, lease) in leased {
            tracing::info!("{}: path opened, the interface has appeared", label(&candidate));
            let net = self.take(candidate, lease, core);
            if let Some(session) = core.proto.session(self.session) {
                session.add_path(now, net);
            }
        }
        let why = |gone: &Candidate| why_closed(gone, &wanted, found);
        self.release(core, sockets, |kept| wanted.contains(&kept.candidate), why);
        self.note_changes(wanted, core);
        true
    }

    /// Suspects the session's paths from an address that is gone.
    pub(crate) fn suspect(&self, lost: &Found, shared: &Shared) {
        let from = |candidate: &Candidate| {
            let device = candidate.device.as_ref();
            candidate.local.ip() == lost.ip && device.is_none_or(|device| *device == lost.name)
        };
        for Kept { net, candidate, .. } in self.kept.iter().filter(|kept| from(&kept.candidate)) {
            tracing::info!("{}: the interface is down or has lost its address", label(candidate));
            shared.lock().proto.handle_unreachable(Instant::now(), net.local, None);
        }
    }

    /// Closes the paths that do not stay.
    fn release(
        &mut self,
        core: &mut Core,
        sockets: &mut Sockets,
        stays: impl Fn(&Kept) -> bool,
        why: impl Fn(&Candidate) -> String,
    ) {
        let (kept, gone): (Vec<Kept>, Vec<Kept>) = self.kept.drain(..).partition(stays);
        self.kept = kept;
        for Kept { candidate, lease, net } in gone {
            // One that raced may have the socket of the one that won.
            if !self.kept.iter().any(|kept| kept.net.local == net.local)
                && let Some(session) = core.proto.session(self.session)
            {
                tracing::info!("{}: path closed, {}", label(&candidate), why(&candidate));
                session.remove_interface(Instant::now(), net.local);
            }
            if sockets.release(lease.key) {
                core.routes.remove(lease.key);
            }
        }
    }

    /// Passes on whether networks that stay cost money.
    fn note_changes(&mut self, wanted: Vec<Candidate>, core: &mut Core) {
        let Some(session) = core.proto.session(self.session) else { return };
        for candidate in wanted {
            if let Some(kept) = self.kept.iter_mut().find(|kept| kept.candidate == candidate) {
                let labels = core.routes.labels(kept.net.local);
                session.set_labels(kept.net.local, labels);
                if let Some(network) = &candidate.network {
                    session.set_metered(Instant::now(), kept.net.local, network.is_metered());
                }
                kept.candidate = candidate;
            }
        }
    }

    fn has(&self, candidate: &Candidate) -> bool {
        self.kept.iter().any(|kept| kept.candidate == *candidate)
    }

    fn lease_or_log(&self, candidate: &Candidate, sockets: &mut Sockets) -> Option<Lease> {
        let lease = self.lease(candidate, sockets);
        lease.inspect_err(|error| tracing::debug!(?candidate, %error, "path not usable for now")).ok()
    }

    /// A socket for a path. Pairs are paths of their own even where their local addresses are equal.
    fn lease(&self, candidate: &Candidate, sockets: &mut Sockets) -> io::Result<Lease> {
        let pairs = matches!(self.plan, Interfaces::Pairs(_));
        let own = self.kept.iter().filter(|_| pairs).map(|kept| kept.lease.key);
        sockets.lease(candidate, &own.collect::<Vec<_>>())
    }

    /// Keeps a path over a socket.
    fn take(&mut self, candidate: Candidate, lease: Lease, core: &mut Core) -> NetPath {
        let Lease { key, local } = lease;
        let known = core.routes.own_name(key, local.ip());
        let device = || candidate.name().map(str::to_owned);
        let name = known.unwrap_or_else(|| core.routes.add(key, local, device()));
        let net = NetPath { local: name, remote: candidate.remote };
        self.kept.push(Kept { candidate, lease, net });
        net
    }
}

/// Why a path is closed while its session goes on.
fn why_closed(gone: &Candidate, wanted: &[Candidate], found: &[Found]) -> String {
    let is_same = |one: &&Candidate| {
        one.name() == gone.name() && (gone.name().is_some() || one.local.ip() == gone.local.ip())
    };
    if let Some(other) = wanted.iter().find(is_same) {
        return if other.remote != gone.remote {
            format!("{} is used instead of {}", other.remote, gone.remote)
        } else if other.local.ip() != gone.local.ip() {
            format!("the interface has the address {} now", other.local.ip())
        } else {
            "the interface has come back under another number".into()
        };
    }
    let name = gone.device.as_ref();
    let is_here = |one: &&Found| one.ip == gone.local.ip() && name.is_none_or(|name| *name == one.name);
    match gone.network {
        None if found.iter().any(|one| is_here(&one)) => "the interface is not to be used any more".into(),
        None if found.iter().any(|one| name == Some(&one.name)) => {
            format!("the interface has lost the address {}", gone.local.ip())
        }
        None => "the interface is gone".into(),
        Some(_) => "the network is gone, or not to be used any more".into(),
    }
}

/// Whether the quota of an interface, if it has one, is not used up. Paths that are open are closed by the session.
fn has_quota(quotas: Option<&Quotas>, paths: &[Candidate]) -> bool {
    let is_exhausted = |path: &Candidate| {
        let by_address = path.local.ip().to_string();
        let names = path.name().into_iter().chain([by_address.as_str()]);
        quotas.is_some_and(|quotas| names.into_iter().any(|name| quotas.is_exhausted(name)))
    };
    !paths.iter().any(is_exhausted)
}

fn failure(candidate: &Candidate, error: &io::Error) -> String {
    format!("{}: {}", label(candidate), error::plain(error))
}

/// Interface, network or address of a path, for messages.
fn label(candidate: &Candidate) -> String {
    candidate.name().map_or_else(|| candidate.local.ip().to_string(), str::to_owned)
}

/// Why there is no path to try.
fn none_fits(plan: &Interfaces, found: &[Found]) -> String {
    match plan {
        Interfaces::Auto | Interfaces::Except(_) => {
            "no interface is up with an address of the right family".into()
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn over(device: &str, local: &str, remote: &str) -> Candidate {
        Candidate {
            device: Some(device.to_owned()),
            network: None,
            index: 3,
            local: SocketAddr::new(local.parse().expect("an address"), 0),
            remote: remote.parse().expect("an address"),
        }
    }

    fn found(name: &str, ip: &str) -> Found {
        Found { name: name.to_owned(), ip: ip.parse().expect("an address"), index: 3, is_running: true }
    }

    #[test]
    fn a_closed_path_has_its_true_reason() {
        let gone = over("wwan1", "10.9.1.2", "10.9.0.2:4433");
        let winner = over("wwan1", "10.9.1.2", "10.9.0.1:4433");
        let here = [found("lo", "127.0.0.1"), found("wwan1", "10.9.1.2")];
        let lost = "10.9.0.1:4433 is used instead of 10.9.0.2:4433";
        assert_eq!(why_closed(&gone, std::slice::from_ref(&winner), &here), lost);
        let other_family = over("wwan1", "2001:db8::2", "[2001:db8::1]:4433");
        assert_eq!(
            why_closed(&other_family, &[winner], &here),
            "10.9.0.1:4433 is used instead of [2001:db8::1]:4433"
        );
        let renewed = over("wwan1", "10.9.1.9", "10.9.0.2:4433");
        assert_eq!(why_closed(&gone, &[renewed], &here), "the interface has the address 10.9.1.9 now");
        assert_eq!(why_closed(&gone, &[], &here), "the interface is not to be used any more");
        let moved = [found("wwan1", "10.9.1.7")];
        assert_eq!(why_closed(&gone, &[], &moved), "the interface has lost the address 10.9.1.2");
        assert_eq!(why_closed(&gone, &[], &here[..1]), "the interface is gone");
    }
}
