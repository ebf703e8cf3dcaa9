//! Opens a path over every interface that reaches the server, and closes the paths of interfaces
//! that are gone.

use std::{io, net::SocketAddr, time::Instant};

use squall_proto::{NetPath, SessionId, Target, sched::PathState};

use super::places::{Answer, Places};
use crate::{
    ConnectError, Interfaces, Network, Quotas, UnusedInterface, error,
    net::{
        interfaces::{self, Candidate},
        sockets::{Lease, Sockets},
        view::{Found, View, Way},
    },
    shared::{Shared, core::Core, order::Request},
};

/// Largest number of interfaces that race the handshake. Afterwards the session keeps a path over
/// those that were answered, within its path limit.
const MAX_RACED: usize = 32;

/// Manages the paths of a session that this side started.
pub(crate) struct PathManager {
    session: SessionId,
    plan: Interfaces,
    quotas: Option<Quotas>,
    remotes: Vec<SocketAddr>,
    kept: Vec<Kept>,
    max_paths: usize,
    /// The race is over; each interface has one path.
    settled: bool,
    /// Choice of the path of each interface after the race.
    places: Places,
    /// Interfaces that the session does not run over.
    unused: Vec<UnusedInterface>,
    /// The session is not up yet, or an interface could not be used.
    is_missing: bool,
}

/// An open path and its socket.
#[derive(Debug)]
struct Kept {
    candidate: Candidate,
    lease: Lease,
    net: NetPath,
}

impl PathManager {
    /// Starts to connect over all present interfaces.
    pub(crate) fn start(
        request: Request,
        shared: &Shared,
        sockets: &mut Sockets,
    ) -> Result<Self, ConnectError> {
        let Request { tls, server_name, plan, quotas, view, remotes, host, config } = request;
        let fail = |why: String| ConnectError::NoInterface { remote: host.clone(), why };
        let mut wanted = interfaces::candidates(&plan, &remotes, &view);
        if wanted.is_empty() {
            return Err(fail(none_fits(&plan, &remotes, &view)));
        }
        wanted.retain(|paths| has_quota(quotas.as_ref(), paths));
        if wanted.is_empty() {
            return Err(fail("the quotas of all interfaces are used up".into()));
        }
        wanted.truncate(MAX_RACED);
        let mut manager = Self {
            session: SessionId(0),
            plan,
            quotas,
            remotes,
            kept: Vec::new(),
            max_paths: config.limits.max_paths,
            settled: false,
            places: Places::default(),
            unused: Vec::new(),
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
        let target = Target { tls, server_name, interfaces, config: Some(config) };
        match core.proto.connect(Instant::now(), target) {
            Ok(id) => {
                manager.session = id;
                if let Some(quotas) = manager.quotas.clone() {
                    core.meters.follow(id, quotas);
                }
                core.enrol(id, true);
                Ok(manager)
            }
            Err(error) => {
                manager.release(core, sockets, |_| false, |_| "the session is over".into());
                Err(error.into())
            }
        }
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    pub(crate) fn plan(&self) -> &Interfaces {
        &self.plan
    }

    /// Returns the addresses of the server.
    pub(crate) fn remotes(&self) -> &[SocketAddr] {
        &self.remotes
    }

    pub(crate) fn set_plan(&mut self, plan: Interfaces) {
        self.plan = plan;
    }

    /// `true` if the interfaces should be listed again soon.
    pub(crate) fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// Opens and closes paths as interfaces appear and disappear. While the session connects, its
    /// racing paths stay as they are. Returns `false` once the session no longer exists.
    pub(crate) fn update(&mut self, view: &View, shared: &Shared, sockets: &mut Sockets) -> bool {
        // The view may have been started before this session existed.
        if self.plan.is_of_the_system() && !self.remotes.iter().all(|remote| view.to.contains(remote)) {
            return true;
        }
        let answers = {
            let core = &mut *shared.lock();
            if !core.proto.has(self.session) {
                self.release(core, sockets, |_| false, |_| "the session is over".into());
                return false;
            }
            let Some(session) = core.proto.session(self.session).filter(|session| !session.is_closed())
            else {
                return true;
            };
            let paths = session.path_stats();
            if !std::mem::replace(&mut self.settled, true)
                && let Some((_, winner, _)) = paths.first()
            {
                // Every interface that reaches the address that won the race should use it.
                self.remotes.sort_by_key(|remote| *remote != winner.remote);
            }
            paths.into_iter().map(|(_, net, stats)| (net, stats.state)).collect::<Vec<_>>()
        };
        let answer = |candidate: &Candidate| {
            let kept = self.kept.iter().find(|kept| kept.candidate == *candidate);
            let state = answers.iter().find(|(net, _)| kept.is_some_and(|kept| kept.net == *net));
            match state {
                None => Answer::Absent,
                Some((_, PathState::Opening)) => Answer::Opening,
                Some((_, PathState::Suspect)) => Answer::Silent,
                Some(_) => Answer::Alive,
            }
        };
        let mut possible = interfaces::candidates(&self.plan, &self.remotes, view);
        possible.retain(|paths| {
            has_quota(self.quotas.as_ref(), paths) || paths.iter().any(|path| self.has(path))
        });
        let all: Vec<Candidate> = possible.iter().flatten().cloned().collect();
        let usable = |path: &Candidate| is_usable(path, view);
        let wanted = self.places.choose(possible, self.max_paths, answer, usable, Instant::now());
        // Networks bind sockets by a function of the application, which may take long; the core
        // must not be locked.
        let new: Vec<&Candidate> = wanted.iter().filter(|one| !self.has(one)).collect();
        let leased: Vec<(Candidate, Lease)> =
            new.iter().filter_map(|one| Some(((*one).clone(), self.lease_or_log(one, sockets)?))).collect();
        self.is_missing = leased.len() < new.len() || self.places.is_searching();
        self.log_unused(interfaces::unused(&self.plan, &self.remotes, view));
        let core = &mut *shared.lock();
        core.set_unused(self.session, &self.unused);
        let now = Instant::now();
        for (candidate, lease) in leased {
            let (label, remote) = (label(&candidate), candidate.remote);
            match self.kept.iter().any(|kept| kept.candidate.shares_interface(&candidate)) {
                true => {
                    tracing::info!("{label}: path opened from {} to {remote}", candidate.local.ip());
                }
                false => tracing::info!("{label}: path opened, the interface has appeared"),
            }
            let net = self.take(candidate, lease, core);
            if let Some(session) = core.proto.session(self.session) {
                session.add_path(now, net);
            }
        }
        let why = |gone: &Candidate| why_closed(gone, &wanted, &all, view);
        self.release(core, sockets, |kept| wanted.contains(&kept.candidate), why);
        self.note_changes(wanted, core);
        true
    }

    /// Stores the unused interfaces, and logs each once.
    fn log_unused(&mut self, unused: Vec<UnusedInterface>) {
        let mut new: Vec<&UnusedInterface> = unused.iter().filter(|one| !self.unused.contains(one)).collect();
        while let Some(why) = new.first().map(|one| &one.why) {
            let same: Vec<&str> = new.iter().filter(|o| o.why == *why).map(|o| o.name.as_str()).collect();
            match self.plan {
                Interfaces::Named(_) => tracing::warn!("{}: not used, {why}", same.join(", ")),
                _ => tracing::info!("{}: not used, {why}", same.join(", ")),
            }
            new.retain(|one| one.why != *why);
        }
        self.unused = unused;
    }

    /// Suspects the paths that leave from an address that is gone.
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

    /// Closes the paths for which `stays` is false.
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
            // A path to another remote address may share the socket.
            let is_shared = self.kept.iter().any(|kept| kept.net.local == net.local);
            let is_kept = self.kept.iter().any(|kept| kept.net == net);
            if let Some(session) = core.proto.session(self.session).filter(|_| !is_kept) {
                match is_shared {
                    true => session.remove_path(Instant::now(), net),
                    false => {
                        tracing::info!("{}: path closed, {}", label(&candidate), why(&candidate));
                        session.remove_interface(Instant::now(), net.local);
                    }
                }
            }
            if sockets.release(lease.key) {
                core.routes.remove(lease.key);
            }
        }
    }

    /// Forwards changes of networks that stay: price, labels and trouble.
    fn note_changes(&mut self, wanted: Vec<Candidate>, core: &mut Core) {
        let Some(session) = core.proto.session(self.session) else { return };
        for candidate in wanted {
            if let Some(kept) = self.kept.iter_mut().find(|kept| kept.candidate == candidate) {
                core.routes.set_trouble(kept.net.local, candidate.trouble.clone());
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

    /// Leases a socket for a path. Explicit pairs get a socket each, even if their local addresses
    /// are equal.
    fn lease(&self, candidate: &Candidate, sockets: &mut Sockets) -> io::Result<Lease> {
        let pairs = matches!(self.plan, Interfaces::Pairs(_));
        let own = self.kept.iter().filter(|_| pairs).map(|kept| kept.lease.key);
        sockets.lease(candidate, &own.collect::<Vec<_>>())
    }

    /// Stores a path and its socket.
    fn take(&mut self, candidate: Candidate, lease: Lease, core: &mut Core) -> NetPath {
        let Lease { key, local } = lease;
        let interface = core.routes.bound(key, local, candidate.name());
        let net = NetPath { local: interface, remote: candidate.remote };
        self.kept.push(Kept { candidate, lease, net });
        net
    }
}

/// `true` if a path that is no longer a candidate can still carry data until another path of its
/// interface is up.
fn is_usable(path: &Candidate, view: &View) -> bool {
    let Some(name) = path.device.as_ref() else { return false };
    let is_here = |f: &Found| f.ip == path.local.ip() && f.name == *name && f.index == path.index;
    let leads_nowhere = view.way(path.index, path.remote.ip()) == Some(&Way::Nowhere);
    !leads_nowhere && view.found.iter().any(|f| f.is_running && is_here(f))
}

/// Describes why a path is closed while its session continues. `wanted` are the paths to keep,
/// `all` the possible ones.
fn why_closed(gone: &Candidate, wanted: &[Candidate], all: &[Candidate], view: &View) -> String {
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
    if all.contains(gone) {
        return format!("no answer from {}, so another interface is tried", gone.remote);
    }
    if gone.network.is_some() {
        return "the network is gone, or not to be used any more".into();
    }
    if view.unlisted.is_some() {
        return "the routing table leads another way now".into();
    }
    let name = gone.device.as_ref();
    let is_here = |one: &&Found| one.ip == gone.local.ip() && name.is_none_or(|name| *name == one.name);
    match view.found.iter().find(is_here) {
        Some(here) if !here.is_running => return "the interface is down, or has no carrier".into(),
        Some(_) if view.way(gone.index, gone.remote.ip()) == Some(&Way::Nowhere) => {
            return format!("the kernel has no route to {} over it any more", gone.remote.ip());
        }
        Some(_) => return "the interface is not to be used any more".into(),
        None => {}
    }
    let exists = name.is_some_and(|name| {
        view.found.iter().any(|one| one.name == *name) || has_interface(name, gone.index)
    });
    match exists {
        true => format!("the interface has lost the address {}", gone.local.ip()),
        false if name.is_none() => format!("no interface has the address {} any more", gone.local.ip()),
        false => "the interface is gone".into(),
    }
}

/// `true` if an interface with this name and index exists, with or without an address.
fn has_interface(name: &str, index: u32) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return crate::net::kernel::has_interface(name, index);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return (name, index).0.is_empty();
}

/// `true` unless the quota of an interface is exhausted. The session itself closes paths that are
/// already open.
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

/// Returns the interface, network or address of a path for messages.
fn label(candidate: &Candidate) -> String {
    candidate.name().map_or_else(|| candidate.local.ip().to_string(), str::to_owned)
}

/// Describes why no path can be tried.
fn none_fits(plan: &Interfaces, remotes: &[SocketAddr], view: &View) -> String {
    let unused = interfaces::unused(plan, remotes, view);
    let reasons: Vec<String> = unused.iter().map(|one| format!("{}: {}", one.name, one.why)).collect();
    let reasons = reasons.join("; ");
    match (plan, &view.unlisted) {
        (Interfaces::Auto, Some(why)) => {
            format!("interfaces cannot be listed ({why}), and the routing table has no way there")
        }
        (Interfaces::Named(_) | Interfaces::Except(_), Some(why)) => {
            format!("interfaces cannot be listed ({why}): give local addresses instead of names")
        }
        (Interfaces::Auto | Interfaces::Except(_), None) if reasons.is_empty() => {
            "no interface is up with an address of the right family".into()
        }
        (Interfaces::Auto | Interfaces::Except(_), None) => reasons,
        (Interfaces::Named(_), None) => {
            let mut known: Vec<&str> = view.found.iter().map(|f| f.name.as_str()).collect();
            // The list has one entry per address of an interface.
            known.sort_unstable();
            known.dedup();
            format!("{reasons}; there are {}", known.join(", "))
        }
        (Interfaces::Local(addresses), _) => {
            format!("none of the local addresses [{}] is of its family", error::list_of(addresses))
        }
        (Interfaces::Pairs(_), _) => "no pair of addresses was given".into(),
        (Interfaces::Networks(networks), _) if networks.is_empty() => "there is no network now".into(),
        (Interfaces::Networks(networks), _) => {
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
            trouble: None,
        }
    }

    fn view(all: &[(&str, &str)]) -> View {
        let found = |(name, ip): &(&str, &str)| Found {
            name: (*name).to_owned(),
            ip: ip.parse().expect("an address"),
            index: 3,
            is_running: true,
            is_p2p: false,
        };
        View { found: all.iter().map(found).collect(), ..View::default() }
    }

    #[test]
    fn a_closed_path_has_its_true_reason() {
        let gone = over("wwan1", "10.9.1.2", "10.9.0.2:4433");
        let winner = over("wwan1", "10.9.1.2", "10.9.0.1:4433");
        let mut here = view(&[("lo", "127.0.0.1"), ("wwan1", "10.9.1.2")]);
        let lost = "10.9.0.1:4433 is used instead of 10.9.0.2:4433";
        assert_eq!(why_closed(&gone, std::slice::from_ref(&winner), &[], &here), lost);
        let other_family = over("wwan1", "2001:db8::2", "[2001:db8::1]:4433");
        assert_eq!(
            why_closed(&other_family, &[winner], &[], &here),
            "10.9.0.1:4433 is used instead of [2001:db8::1]:4433"
        );
        let renewed = over("wwan1", "10.9.1.9", "10.9.0.2:4433");
        assert_eq!(why_closed(&gone, &[renewed], &[], &here), "the interface has the address 10.9.1.9 now");
        assert_eq!(why_closed(&gone, &[], &[], &here), "the interface is not to be used any more");
        let displaced = why_closed(&gone, &[], std::slice::from_ref(&gone), &here);
        assert_eq!(displaced, "no answer from 10.9.0.2:4433, so another interface is tried");
        here.ways.insert((3, gone.remote.ip()), Way::Nowhere);
        let no_route = "the kernel has no route to 10.9.0.2 over it any more";
        assert_eq!(why_closed(&gone, &[], &[], &here), no_route);
        here.found[1].is_running = false;
        assert_eq!(why_closed(&gone, &[], &[], &here), "the interface is down, or has no carrier");
        let moved = view(&[("wwan1", "10.9.1.7")]);
        assert_eq!(why_closed(&gone, &[], &[], &moved), "the interface has lost the address 10.9.1.2");
        let hidden = View { unlisted: Some("permission denied".into()), ..View::default() };
        assert_eq!(why_closed(&gone, &[], &[], &hidden), "the routing table leads another way now");
        let none = view(&[("lo", "127.0.0.1")]);
        assert_eq!(why_closed(&gone, &[], &[], &none), "the interface is gone");
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn an_interface_without_addresses_is_not_gone() {
        let mut gone = over("lo", "127.0.0.9", "10.9.0.2:4433");
        let all = View::of_system(&[]).expect("can be listed").found;
        gone.index = all.iter().find(|f| f.name == "lo").expect("there is one").index;
        let lost = "the interface has lost the address 127.0.0.9";
        assert_eq!(why_closed(&gone, &[], &[], &View::default()), lost);
    }

    #[test]
    fn no_path_to_try_is_explained() {
        let remotes: [SocketAddr; 1] = ["203.0.113.1:1".parse().expect("is one")];
        let mut here = view(&[("br-1", "172.17.0.1"), ("wwan1", "10.9.1.2")]);
        here.found[0].is_running = false;
        here.ways.insert((3, remotes[0].ip()), Way::Nowhere);
        assert_eq!(
            none_fits(&Interfaces::Auto, &remotes, &here),
            "br-1: it is down, or has no carrier; wwan1: the kernel has no route to 203.0.113.1 over it"
        );
        let hidden = View { unlisted: Some("permission denied".into()), ..View::default() };
        assert_eq!(
            none_fits(&Interfaces::Named(vec!["wwan1".into()]), &remotes, &hidden),
            "interfaces cannot be listed (permission denied): give local addresses instead of names"
        );
    }

    #[test]
    fn an_address_that_stays_may_carry_data_until_the_next_one_does() {
        let old = over("wwan1", "10.9.1.2", "10.9.0.1:4433");
        let mut here = view(&[("wwan1", "10.9.1.2"), ("wwan1", "10.9.1.9")]);
        assert!(is_usable(&old, &here));
        assert!(!is_usable(&over("wwan1", "10.9.1.3", "10.9.0.1:4433"), &here));
        here.ways.insert((3, old.remote.ip()), Way::Nowhere);
        assert!(!is_usable(&old, &here));
    }
}
