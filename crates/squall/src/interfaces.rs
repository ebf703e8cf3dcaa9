//! The local interfaces that lead to a server.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
};

use if_addrs::{IfOperStatus, Interface};

use crate::Network;

/// Over what a client reaches its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interfaces {
    /// Every interface that is up and has an address of a family of the server's; the loopback interface alone
    /// when the server is on this machine. Interfaces that appear later are taken in. The default.
    #[default]
    Auto,
    /// Like [`Interfaces::Auto`], without the interfaces of these names: those of a VPN, for instance, that runs over the
    /// session itself.
    Except(Vec<String>),
    /// The interfaces of these names, whenever they are there.
    Named(Vec<String>),
    /// These local addresses.
    Local(Vec<IpAddr>),
    /// Exactly these pairs of local and remote address, for instance through relays. Port 0 for any
    /// local port.
    Pairs(Vec<(SocketAddr, SocketAddr)>),
    /// These networks, each of which binds its sockets itself. The application reports changes of them
    /// with [`Session::set_interfaces`](crate::Session::set_interfaces).
    Networks(Vec<Network>),
}

/// An address of an interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) ip: IpAddr,
    /// Number of the interface, the scope of its link-local addresses.
    pub(crate) index: u32,
    /// Whether the system reports that the interface passes packets; some drivers report nothing.
    pub(crate) is_running: bool,
}

/// A path that could be opened, and its socket.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Interface that the socket is bound to, if it is.
    pub(crate) device: Option<String>,
    /// Network that binds the socket, instead of an interface.
    pub(crate) network: Option<Network>,
    /// Its number, which changes when it is taken away and comes back; 0 for none.
    pub(crate) index: u32,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

impl Candidate {
    fn between(local: SocketAddr, remote: SocketAddr) -> Self {
        Self { device: None, network: None, index: 0, local, remote }
    }

    /// The name of the interface or network.
    pub(crate) fn name(&self) -> Option<&str> {
        self.network.as_ref().map(Network::name).or(self.device.as_deref())
    }
}

impl Candidate {
    /// Whether one socket can serve for both.
    pub(crate) fn shares_socket(&self, other: &Self) -> bool {
        let same_network = match (&self.network, &other.network) {
            (None, None) => true,
            (Some(one), Some(another)) => one.is_same(another),
            _ => false,
        };
        same_network && self.device == other.device && (self.index, self.local) == (other.index, other.local)
    }
}

impl PartialEq for Candidate {
    /// Whether both are the same path: a network may have changed in other respects.
    fn eq(&self, other: &Self) -> bool {
        self.shares_socket(other) && self.remote == other.remote
    }
}

impl Interfaces {
    /// Whether it depends on the interfaces of the system.
    pub(crate) fn is_of_the_system(&self) -> bool {
        !matches!(self, Self::Networks(_) | Self::Pairs(_))
    }
}

/// The addresses of all interfaces that are not reported to be down. May block.
pub(crate) fn list() -> io::Result<Vec<Found>> {
    let usable = |i: &Interface| matches!(i.oper_status, IfOperStatus::Up | IfOperStatus::Unknown);
    let found = |i: Interface| Found {
        ip: i.ip(),
        index: i.index.unwrap_or(0),
        is_running: i.oper_status == IfOperStatus::Up,
        name: i.name,
    };
    Ok(if_addrs::get_if_addrs()?.into_iter().filter(usable).map(found).collect())
}

/// The interfaces that can be tried, and for each the paths to the addresses of the server that it reaches.
/// `remotes` has the preferred address first, and so has each interface.
pub(crate) fn candidates(plan: &Interfaces, remotes: &[SocketAddr], found: &[Found]) -> Vec<Vec<Candidate>> {
    let mut all = match plan {
        Interfaces::Auto => all_except(&[], remotes, found),
        Interfaces::Except(names) => all_except(names, remotes, found),
        Interfaces::Named(names) => by_name(remotes, found, |name| names.iter().any(|n| n == name)),
        Interfaces::Local(addresses) => {
            let from = |ip: &IpAddr| {
                let local = scoped(*ip, found.iter().find(|f| f.ip == *ip).map_or(0, |f| f.index));
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

/// The paths over every interface without one of these names; over loopback to this machine.
fn all_except(names: &[String], remotes: &[SocketAddr], found: &[Found]) -> Vec<Vec<Candidate>> {
    let (own, others) = on_this_machine(remotes, found);
    let wanted = |name: &str| !is_loopback(name, found) && !names.iter().any(|one| one == name);
    let mut all = by_name(&others, found, wanted);
    all.insert(0, own);
    all
}

/// The paths over a network: from addresses it is known to have, then from those that the system picks.
fn over_network(network: &Network, remotes: &[SocketAddr]) -> Vec<Candidate> {
    let known = network.known_addresses();
    let best = |remote: &SocketAddr| {
        let suitable = known.iter().filter(|ip| suits(**ip, remote.ip()));
        suitable.max_by_key(|ip| is_global(**ip) == is_global(remote.ip()))
    };
    let from_known = remotes.iter().filter_map(|remote| Some((scoped(*best(remote)?, 0), *remote)));
    // A network that has only IPv6 may translate IPv4 without an address of its own; the other way round
    // there is nothing to hope for.
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

/// The paths to addresses on this machine, which run over loopback whatever the address, and the other
/// addresses.
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

/// For each interface that is wanted, the paths to the addresses of the server that it can reach.
fn by_name(remotes: &[SocketAddr], found: &[Found], wanted: impl Fn(&str) -> bool) -> Vec<Vec<Candidate>> {
    let mut names: Vec<&str> = Vec::new();
    for f in found {
        if wanted(&f.name) && !names.contains(&f.name.as_str()) {
            names.push(&f.name);
        }
    }
    let path = |name: &str, remote: &SocketAddr| {
        let suitable = found.iter().filter(|f| f.name == name && suits(f.ip, remote.ip()));
        let best = suitable.max_by_key(|f| is_global(f.ip) == is_global(remote.ip()))?;
        let bound = Candidate::between(scoped(best.ip, best.index), *remote);
        Some(Candidate { device: Some(name.to_owned()), index: best.index, ..bound })
    };
    let paths = |name: &str| remotes.iter().filter_map(|remote| path(name, remote)).collect();
    names.into_iter().map(paths).collect()
}

/// Whether packets from this address can get to that one: link-local ones only to their like.
fn suits(local: IpAddr, remote: IpAddr) -> bool {
    let link_local = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    local.is_ipv4() == remote.is_ipv4() && link_local(local) == link_local(remote)
}

/// Unique local addresses (RFC 4193) reach no global ones.
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

    fn found() -> Vec<Found> {
        let entry = |name: &str, ip: &str, index| Found {
            name: name.into(),
            ip: ip.parse().expect("is an address"),
            index,
            is_running: true,
        };
        vec![
            entry("lo", "127.0.0.1", 1),
            entry("lo", "::1", 1),
            entry("wlan0", "192.168.1.7", 2),
            entry("wlan0", "fe80::7", 2),
            entry("wlan0", "fd00::7", 2),
            entry("wlan0", "2001:db8::7", 2),
            entry("wwan0", "10.0.0.7", 3),
            entry("wwan0", "169.254.3.3", 3),
        ]
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
        // Behind 464XLAT there is IPv4 without an address of its own.
        assert_eq!(over(&["2001:db8::5"], &[v4]), ["cell 0.0.0.0"]);
        assert!(over(&["10.0.0.5"], &[v6]).is_empty());
    }

    #[test]
    fn a_network_keeps_its_socket_until_it_or_its_address_is_another() {
        let remote = ["203.0.113.1:1".parse().expect("is an address")];
        let path = |network: &Network| {
            candidates(&Interfaces::Networks(vec![network.clone()]), &remote, &[]).remove(0).remove(0)
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

    #[test]
    fn this_machine_has_a_loopback_interface() {
        assert!(list().expect("can be listed").iter().any(|f| f.ip.is_loopback()));
    }
}
