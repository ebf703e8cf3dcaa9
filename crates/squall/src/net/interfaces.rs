//! Local interfaces that reach a server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::{
    network::Network,
    view::{Found, View, Way, is_link_local, suits},
};

/// Largest number of unused interfaces that are reported with a reason.
const MAX_UNUSED: usize = 32;

/// Interfaces that a client uses to reach its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interfaces {
    /// All interfaces that are up, have a carrier, and over which the system has a route to the
    /// server; only the loopback interface if the server is on this machine. Interfaces that appear
    /// later are added. Where interfaces cannot be listed (Android, a sandbox), a single path by
    /// the routing table. This is the default.
    #[default]
    Auto,
    /// Like [`Interfaces::Auto`], without the interfaces of these names, for instance those of a
    /// VPN that runs over the session itself.
    Except(Vec<String>),
    /// The interfaces of these names, whenever they exist and have a route to the server. A
    /// point-to-point link, as many modems are, needs no route.
    Named(Vec<String>),
    /// These local addresses.
    Local(Vec<IpAddr>),
    /// Exactly these pairs of local and remote address, for instance through relays. Port 0 means
    /// any local port.
    Pairs(Vec<(SocketAddr, SocketAddr)>),
    /// These networks, each of which binds its own sockets. The application reports changes with
    /// [`Session::set_interfaces`](crate::Session::set_interfaces).
    Networks(Vec<Network>),
}

/// An interface that a session does not run over, see [`Session::unused_interfaces`](crate::Session::unused_interfaces).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnusedInterface {
    /// Name of the interface.
    pub name: String,
    /// Reason, as text.
    pub why: String,
}

/// A path that could be opened, with the properties of its socket.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Interface that the socket is bound to, if any.
    pub(crate) device: Option<String>,
    /// Network that binds the socket instead of an interface.
    pub(crate) network: Option<Network>,
    /// Index of the interface, which changes when the interface is removed and added again; 0 for
    /// none.
    pub(crate) index: u32,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// Reason why no answer can arrive, according to the system.
    pub(crate) trouble: Option<String>,
}

impl Candidate {
    fn between(local: SocketAddr, remote: SocketAddr) -> Self {
        Self { device: None, network: None, index: 0, local, remote, trouble: None }
    }

    /// Returns the name of the interface or network.
    pub(crate) fn name(&self) -> Option<&str> {
        self.network.as_ref().map(Network::name).or(self.device.as_deref())
    }
}

impl Candidate {
    /// `true` if one socket can serve both paths.
    pub(crate) fn shares_socket(&self, other: &Self) -> bool {
        let same_network = match (&self.network, &other.network) {
            (None, None) => true,
            (Some(one), Some(another)) => one.is_same(another),
            _ => false,
        };
        same_network && self.device == other.device && (self.index, self.local) == (other.index, other.local)
    }

    /// `true` if both run over one interface or network; without either, from one address.
    pub(crate) fn shares_interface(&self, other: &Self) -> bool {
        match (&self.network, &other.network) {
            (Some(one), Some(another)) => one.is_same(another),
            (None, None) if self.device.is_some() => {
                (&self.device, self.index) == (&other.device, other.index)
            }
            (None, None) => other.device.is_none() && self.local.ip() == other.local.ip(),
            _ => false,
        }
    }
}

impl PartialEq for Candidate {
    /// Two candidates are equal if they are the same path; other properties of a network may
    /// differ.
    fn eq(&self, other: &Self) -> bool {
        self.shares_socket(other) && self.remote == other.remote
    }
}

impl Interfaces {
    /// `true` if the choice depends on the interfaces of the system.
    pub(crate) fn is_of_the_system(&self) -> bool {
        !matches!(self, Self::Networks(_) | Self::Pairs(_))
    }
}

/// Returns the paths that can be tried, grouped by interface. Interfaces that the system prefers
/// come first. `remotes` has the preferred address first, and so has each group.
pub(crate) fn candidates(plan: &Interfaces, remotes: &[SocketAddr], view: &View) -> Vec<Vec<Candidate>> {
    let mut all = match plan {
        Interfaces::Auto if view.unlisted.is_some() => vec![by_routing_table(remotes, view)],
        Interfaces::Auto => all_except(&[], remotes, view),
        Interfaces::Except(names) => all_except(names, remotes, view),
        Interfaces::Named(names) => by_name(remotes, view, true, |name| names.iter().any(|n| n == name)),
        Interfaces::Local(addresses) => {
            let from = |ip: &IpAddr| {
                let local = scoped(*ip, view.found.iter().find(|f| f.ip == *ip).map_or(0, |f| f.index));
                let reached = remotes.iter().filter(|r| r.is_ipv4() == ip.is_ipv4());
                reached.map(|remote| Candidate::between(local, *remote)).collect()
            };
            addresses.iter().map(from).collect()
        }
        Interfaces::Pairs(pairs) => pairs.iter().map(|(l, r)| vec![Candidate::between(*l, *r)]).collect(),
        Interfaces::Networks(networks) => {
            networks.iter().map(|network| over_network(network, remotes)).collect()
        }
    };
    all.retain(|paths: &Vec<Candidate>| !paths.is_empty());
    all
}

/// Returns the interfaces that the plan would use but cannot, one entry each, with the reason.
pub(crate) fn unused(plan: &Interfaces, remotes: &[SocketAddr], view: &View) -> Vec<UnusedInterface> {
    let (except, named): (&[String], Option<&[String]>) = match plan {
        _ if view.unlisted.is_some() => return Vec::new(),
        Interfaces::Auto => (&[], None),
        Interfaces::Except(names) => (names, None),
        Interfaces::Named(names) => (&[], Some(names)),
        _ => return Vec::new(),
    };
    // A server on this machine is reached over loopback only, unless interfaces are named.
    let others = if named.is_some() { remotes.to_vec() } else { on_this_machine(remotes, &view.found).1 };
    let mut names: Vec<&String> = named.into_iter().flatten().collect();
    let reaches = |f: &&Found| !f.ip.is_loopback() && others.iter().any(|to| suits(f.ip, to.ip()));
    if named.is_none() {
        // Interfaces of the other address family count too. Link-local addresses do not: every
        // interface has them.
        let is_meant = |f: &&Found| !f.ip.is_loopback() && (reaches(f) || !is_link_local(f.ip));
        names.extend(
            view.found.iter().filter(is_meant).map(|f| &f.name).filter(|name| !except.contains(name)),
        );
        names.dedup();
    }
    let mut unused: Vec<UnusedInterface> = Vec::new();
    for name in names {
        let is_known = unused.iter().any(|known| known.name == *name);
        if is_known || unused.len() >= MAX_UNUSED || others.is_empty() {
            continue;
        }
        if by_name(&others, view, named.is_some(), |one| one == name).iter().any(|paths| !paths.is_empty()) {
            continue;
        }
        let mut own = view.found.iter().filter(|f| f.name == *name).peekable();
        let why = if own.peek().is_none() {
            "it is not there, or has no address".into()
        } else if own.clone().all(|f| !f.is_running) {
            "it is down, or has no carrier".into()
        } else if own.any(|f| reaches(&f)) {
            format!("the kernel has no route to {} over it", list_of(&others))
        } else {
            format!("it has no address of the family of {}", list_of(&others))
        };
        unused.push(UnusedInterface { name: name.clone(), why });
    }
    unused
}

fn list_of(remotes: &[SocketAddr]) -> String {
    let mut ips: Vec<IpAddr> = remotes.iter().map(SocketAddr::ip).collect();
    ips.dedup();
    ips.truncate(4);
    crate::error::list_of(&ips)
}

/// Returns the paths by the routing table alone.
fn by_routing_table(remotes: &[SocketAddr], view: &View) -> Vec<Candidate> {
    let from = |remote: &SocketAddr| {
        let source = view.sources.get(&remote.ip())?;
        let scope = if let SocketAddr::V6(remote) = remote { remote.scope_id() } else { 0 };
        Some(Candidate::between(scoped(*source, scope), *remote))
    };
    remotes.iter().filter_map(from).collect()
}

/// Returns the paths over all interfaces except those named; over loopback for addresses of this
/// machine.
fn all_except(names: &[String], remotes: &[SocketAddr], view: &View) -> Vec<Vec<Candidate>> {
    let (own, others) = on_this_machine(remotes, &view.found);
    let wanted = |name: &str| !is_loopback(name, &view.found) && !names.iter().any(|one| one == name);
    let mut all = by_name(&others, view, false, wanted);
    all.insert(0, own);
    all
}

/// Returns the paths over a network: first those from its known addresses, then those from an
/// address that the system picks.
fn over_network(network: &Network, remotes: &[SocketAddr]) -> Vec<Candidate> {
    let known = network.known_addresses();
    let best = |remote: &SocketAddr| {
        let suitable = known.iter().filter(|ip| suits(**ip, remote.ip()));
        suitable.max_by_key(|ip| is_global(**ip) == is_global(remote.ip()))
    };
    let from_known = remotes.iter().filter_map(|remote| Some((scoped(*best(remote)?, 0), *remote)));
    // A network with only IPv6 may translate IPv4 without an address of its own. No network
    // translates IPv6 to IPv4 in that way.
    let hopeful = |r: &&SocketAddr| best(r).is_none() && (known.is_empty() || r.is_ipv4());
    let from_any = remotes.iter().filter(hopeful).map(|remote| (unspecified(remote), *remote));
    let over =
        |(local, remote)| Candidate { network: Some(network.clone()), ..Candidate::between(local, remote) };
    from_known.chain(from_any).map(over).collect()
}

fn unspecified(remote: &SocketAddr) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// Splits the remote addresses: paths to addresses of this machine, which all run over loopback,
/// and the other addresses.
fn on_this_machine(remotes: &[SocketAddr], found: &[Found]) -> (Vec<Candidate>, Vec<SocketAddr>) {
    let local = |remote: &SocketAddr| match remote.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => Some(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_loopback() => Some(Ipv6Addr::LOCALHOST.into()),
        own => found.iter().find(|f| f.ip == own).map(|f| f.ip),
    };
    let own = |remote: &SocketAddr| Some(Candidate::between(SocketAddr::new(local(remote)?, 0), *remote));
    let others = remotes.iter().filter(|remote| local(remote).is_none());
    (remotes.iter().filter_map(own).collect(), others.copied().collect())
}

fn is_loopback(name: &str, found: &[Found]) -> bool {
    found.iter().any(|f| f.name == name && f.ip.is_loopback())
}

/// Returns, for each wanted interface, the paths to the server addresses that it can reach. A
/// `named` point-to-point interface needs no route.
fn by_name(
    remotes: &[SocketAddr],
    view: &View,
    named: bool,
    wanted: impl Fn(&str) -> bool,
) -> Vec<Vec<Candidate>> {
    let mut names: Vec<&str> = Vec::new();
    for f in view.found.iter().filter(|f| f.is_running) {
        if wanted(&f.name) && !names.contains(&f.name.as_str()) {
            names.push(&f.name);
        }
    }
    let path = |name: &str, remote: &SocketAddr| {
        let suitable = view.found.iter().filter(|f| f.name == name && suits(f.ip, remote.ip()));
        // Among equals, the first.
        let best = suitable.min_by_key(|f| is_global(f.ip) != is_global(remote.ip()))?;
        let (source, metric, trouble) = match view.way(best.index, remote.ip()) {
            Some(Way::From { source, metric, trouble }) => (*source, *metric, trouble.clone()),
            Some(Way::Nowhere) if !named || !best.is_p2p => return None,
            Some(Way::Nowhere) | None => (best.ip, u32::MAX, None),
        };
        let bound = Candidate::between(scoped(source, best.index), *remote);
        Some((metric, Candidate { device: Some(name.to_owned()), index: best.index, trouble, ..bound }))
    };
    let paths = |name: &&str| remotes.iter().filter_map(|remote| path(name, remote)).collect();
    let mut all: Vec<Vec<(u32, Candidate)>> = names.iter().map(paths).collect();
    all.sort_by_key(|paths| paths.first().map(|(metric, _)| *metric));
    all.into_iter().map(|paths| paths.into_iter().map(|(_, path)| path).collect()).collect()
}

/// `true` unless the address is a unique local one (RFC 4193), which reaches no global address.
fn is_global(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => !ip.is_unique_local(),
    }
}

fn scoped(ip: IpAddr, index: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, 0, 0, index).into(),
        ip => SocketAddr::new(ip, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> View {
        let entry = |name: &str, ip: &str, index| Found {
            name: name.into(),
            ip: ip.parse().expect("is an address"),
            index,
            is_running: true,
            is_p2p: false,
        };
        let found = vec![
            entry("lo", "127.0.0.1", 1),
            entry("lo", "::1", 1),
            entry("wlan0", "192.168.1.7", 2),
            entry("wlan0", "fe80::7", 2),
            entry("wlan0", "fd00::7", 2),
            entry("wlan0", "2001:db8::7", 2),
            entry("wwan0", "10.0.0.7", 3),
            entry("wwan0", "169.254.3.3", 3),
        ];
        View { found, ..View::default() }
    }

    fn plan(plan: &Interfaces, remotes: &[&str]) -> Vec<String> {
        let remotes: Vec<SocketAddr> = remotes.iter().map(|r| r.parse().expect("is an address")).collect();
        let all = candidates(plan, &remotes, &found());
        all.iter().map(|c| format!("{} {}", c[0].name().unwrap_or("-"), c[0].local.ip())).collect()
    }

    #[test]
    fn every_address_of_the_server_is_a_path_of_each_interface_that_reaches_it() {
        let all = |remotes: &[&str]| -> Vec<Vec<String>> {
            let remotes: Vec<SocketAddr> =
                remotes.iter().map(|r| r.parse().expect("is an address")).collect();
            let all = candidates(&Interfaces::Auto, &remotes, &found());
            all.iter().map(|paths| paths.iter().map(|c| c.remote.ip().to_string()).collect()).collect()
        };
        let several = ["[2001:db8:1::1]:1", "203.0.113.1:1", "203.0.113.2:1"];
        assert_eq!(
            all(&several),
            [vec!["2001:db8:1::1", "203.0.113.1", "203.0.113.2"], vec!["203.0.113.1", "203.0.113.2"]]
        );
        assert_eq!(all(&["[::1]:1", "127.0.0.1:1"]), [vec!["::1", "127.0.0.1"]]);
    }

    #[test]
    fn auto_takes_every_interface_of_the_right_family() {
        assert_eq!(plan(&Interfaces::Auto, &["203.0.113.1:1"]), ["wlan0 192.168.1.7", "wwan0 10.0.0.7"]);
        let without = Interfaces::Except(vec!["wlan0".to_owned()]);
        assert_eq!(plan(&without, &["203.0.113.1:1"]), ["wwan0 10.0.0.7"]);
        assert_eq!(plan(&Interfaces::Auto, &["[2001:db8:1::1]:1"]), ["wlan0 2001:db8::7"]);
        assert_eq!(plan(&Interfaces::Auto, &["[fd00::1]:1"]), ["wlan0 fd00::7"]);
        let both = ["[2001:db8:1::1]:1", "203.0.113.1:1"];
        assert_eq!(plan(&Interfaces::Auto, &both), ["wlan0 2001:db8::7", "wwan0 10.0.0.7"]);
    }

    #[test]
    fn a_server_on_this_machine_is_reached_over_loopback() {
        assert_eq!(plan(&Interfaces::Auto, &["127.0.0.9:1"]), ["- 127.0.0.1"]);
        assert_eq!(plan(&Interfaces::Auto, &["[::1]:1"]), ["- ::1"]);
        assert_eq!(plan(&Interfaces::Auto, &["10.0.0.7:1"]), ["- 10.0.0.7"]);
    }

    #[test]
    fn what_is_named_is_taken_and_nothing_else() {
        let named = Interfaces::Named(vec!["wwan0".into(), "eth7".into()]);
        assert_eq!(plan(&named, &["203.0.113.1:1"]), ["wwan0 10.0.0.7"]);
        assert!(plan(&named, &["[2001:db8::1]:1"]).is_empty());
        let local = Interfaces::Local(vec![Ipv4Addr::new(127, 0, 0, 2).into(), Ipv6Addr::LOCALHOST.into()]);
        assert_eq!(plan(&local, &["127.0.0.1:1"]), ["- 127.0.0.2"]);
    }

    #[test]
    fn networks_are_reached_from_their_own_addresses() {
        let network = |addresses: &[&str]| {
            let addresses = addresses.iter().map(|a| a.parse().expect("is an address"));
            Network::new("cell", |_| Ok(())).addresses(addresses.collect::<Vec<_>>())
        };
        let over = |addresses: &[&str], remotes: &[&str]| {
            plan(&Interfaces::Networks(vec![network(addresses)]), remotes)
        };
        let (v4, v6) = ("203.0.113.1:1", "[2001:db8:1::1]:1");
        assert_eq!(over(&["fe80::5", "2001:db8::5", "10.0.0.5"], &[v6, v4]), ["cell 2001:db8::5"]);
        assert_eq!(over(&["10.0.0.5"], &[v6, v4]), ["cell 10.0.0.5"]);
        assert_eq!(over(&[], &[v6, v4]), ["cell ::"]);
        // Behind 464XLAT, IPv4 works without an IPv4 address.
        assert_eq!(over(&["2001:db8::5"], &[v4]), ["cell 0.0.0.0"]);
        assert!(over(&["10.0.0.5"], &[v6]).is_empty());
    }

    #[test]
    fn a_network_keeps_its_socket_until_it_or_its_address_is_another() {
        let remote = ["203.0.113.1:1".parse().expect("is an address")];
        let path = |network: &Network| {
            candidates(&Interfaces::Networks(vec![network.clone()]), &remote, &View::default())
                .remove(0)
                .remove(0)
        };
        let address = |last| [IpAddr::from([10, 0, 0, last])];
        let wifi = Network::new("wifi", |_| Ok(())).addresses(address(5));
        assert_eq!(path(&wifi), path(&wifi.clone().metered(true)));
        assert_ne!(path(&wifi), path(&wifi.clone().addresses(address(6))));
        assert_ne!(path(&wifi), path(&Network::new("wifi", |_| Ok(())).addresses(address(5))));
    }

    #[test]
    fn link_local_addresses_reach_their_like_with_their_scope() {
        let remote = ["[fe80::1]:1".parse().expect("is an address")];
        let all = candidates(&Interfaces::Auto, &remote, &found());
        assert_eq!(all.len(), 1);
        assert_eq!(all[0][0].local.to_string(), "[fe80::7%2]:0");
    }

    /// Returns the paths of each interface and the unused interfaces, for given ways and links that
    /// are down.
    fn with(plan: &Interfaces, remotes: &[&str], down: &[u32], ways: &[(u32, &str, Way)]) -> Vec<String> {
        let remotes: Vec<SocketAddr> = remotes.iter().map(|r| r.parse().expect("is an address")).collect();
        let mut view = found();
        view.found.iter_mut().for_each(|f| f.is_running = !down.contains(&f.index));
        view.found.iter_mut().for_each(|f| f.is_p2p = f.index == 3);
        let ways = ways.iter().map(|(index, to, way)| ((*index, to.parse().expect("is one")), way.clone()));
        view.ways = ways.collect();
        let path = |c: &Candidate| format!("{} to {}", c.local.ip(), c.remote.ip());
        let paths = |all: Vec<Candidate>| {
            let paths: Vec<String> = all.iter().map(path).collect();
            format!("{}: {}", all[0].name().unwrap_or("-"), paths.join(", "))
        };
        let mut lines: Vec<String> = candidates(plan, &remotes, &view).into_iter().map(paths).collect();
        let not = |one: UnusedInterface| format!("not {}: {}", one.name, one.why);
        lines.extend(unused(plan, &remotes, &view).into_iter().map(not));
        lines
    }

    fn from(source: &str, metric: u32) -> Way {
        Way::From { source: source.parse().expect("is one"), metric, trouble: None }
    }

    #[test]
    fn the_routes_choose_interfaces_source_addresses_and_their_order() {
        let (v4, v6) = ("203.0.113.1", "2001:db8:9::1");
        let both = ["[2001:db8:9::1]:1", "203.0.113.1:1"];
        let all =
            [(2, v4, from("192.168.1.7", 600)), (2, v6, from("fd00::7", 600)), (3, v4, from("10.0.0.7", 50))];
        assert_eq!(
            with(&Interfaces::Auto, &both, &[], &all),
            ["wwan0: 10.0.0.7 to 203.0.113.1", "wlan0: fd00::7 to 2001:db8:9::1, 192.168.1.7 to 203.0.113.1"]
        );
        let nowhere = [(2, v4, from("192.168.1.7", 600)), (2, v6, Way::Nowhere), (3, v4, Way::Nowhere)];
        assert_eq!(
            with(&Interfaces::Auto, &both, &[], &nowhere),
            [
                "wlan0: 192.168.1.7 to 203.0.113.1",
                "not wwan0: the kernel has no route to 2001:db8:9::1, 203.0.113.1 over it"
            ]
        );
    }

    #[test]
    fn a_named_link_with_one_other_end_needs_no_route() {
        let ways = [(2, "203.0.113.1", Way::Nowhere), (3, "203.0.113.1", Way::Nowhere)];
        let named = Interfaces::Named(vec!["wlan0".into(), "wwan0".into(), "eth7".into()]);
        assert_eq!(
            with(&named, &["203.0.113.1:1"], &[], &ways),
            [
                "wwan0: 10.0.0.7 to 203.0.113.1",
                "not wlan0: the kernel has no route to 203.0.113.1 over it",
                "not eth7: it is not there, or has no address"
            ]
        );
        assert_eq!(with(&Interfaces::Auto, &["203.0.113.1:1"], &[], &ways).len(), 2, "none is used");
    }

    #[test]
    fn links_without_a_carrier_are_no_candidates() {
        assert_eq!(
            with(&Interfaces::Auto, &["203.0.113.1:1"], &[2], &[]),
            ["wwan0: 10.0.0.7 to 203.0.113.1", "not wlan0: it is down, or has no carrier"]
        );
    }

    #[test]
    fn without_a_list_the_routing_table_has_one_path_and_addresses_do() {
        let remote: SocketAddr = "203.0.113.1:1".parse().expect("is one");
        let source = IpAddr::from([10, 0, 0, 7]);
        let sources = [(remote.ip(), source)].into();
        let view = View { unlisted: Some("permission denied".into()), sources, ..View::default() };
        let paths = |plan| candidates(&plan, &[remote], &view);
        let auto = paths(Interfaces::Auto);
        assert_eq!((auto.len(), auto[0].len()), (1, 1));
        assert_eq!((auto[0][0].local.ip(), auto[0][0].name()), (source, None));
        assert_eq!(paths(Interfaces::Local(vec![source])), auto);
        assert!(paths(Interfaces::Named(vec!["wwan0".into()])).is_empty());
        assert!(
            paths(Interfaces::Except(vec!["tun0".into()])).is_empty(),
            "it might be the way by the table"
        );
    }
}
