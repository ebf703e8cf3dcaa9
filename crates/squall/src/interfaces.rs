//! Which local interfaces lead to a server, and what comes and goes.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
};

use crate::Network;

/// Over what a client reaches its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interfaces {
    /// Every interface that is up and has an address of the right family; the loopback interface alone
    /// when the server is on this machine. Interfaces that appear later are taken in. The default.
    #[default]
    Auto,
    /// The interfaces of these names, whenever they are there.
    Named(Vec<String>),
    /// These local addresses.
    Local(Vec<IpAddr>),
    /// Exactly these pairs of local and remote address, for instance through relays. Port 0 for any
    /// local port.
    Pairs(Vec<(SocketAddr, SocketAddr)>),
    /// These networks, each of which binds its sockets itself. Which there are is the application's to
    /// tell, by [`Session::set_interfaces`](crate::Session::set_interfaces).
    Networks(Vec<Network>),
}

/// An address of an interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) ip: IpAddr,
    /// Number of the interface, the scope of its link-local addresses.
    pub(crate) index: u32,
}

/// A path that could be opened, and the socket it takes.
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

impl PartialEq for Candidate {
    /// Whether one socket serves for both: a network may have changed in other respects.
    fn eq(&self, other: &Self) -> bool {
        let same_network = match (&self.network, &other.network) {
            (None, None) => true,
            (Some(one), Some(another)) => one.is_same(another),
            _ => false,
        };
        let rest = |c: &Self| (c.index, c.local, c.remote);
        same_network && self.device == other.device && rest(self) == rest(other)
    }
}

impl Interfaces {
    /// Whether it takes a look at the system to know what there is.
    pub(crate) fn is_of_the_system(&self) -> bool {
        !matches!(self, Self::Networks(_) | Self::Pairs(_))
    }
}

/// The addresses of all interfaces that are up.
pub(crate) fn list() -> io::Result<Vec<Found>> {
    let all = if_addrs::get_if_addrs()?;
    // Many virtual interfaces, loopback among them, do not know whether they are up.
    let usable = |status: &if_addrs::IfOperStatus| {
        matches!(status, if_addrs::IfOperStatus::Up | if_addrs::IfOperStatus::Unknown)
    };
    let up = all.into_iter().filter(|i| usable(&i.oper_status));
    Ok(up.map(|i| Found { ip: i.ip(), index: i.index.unwrap_or(0), name: i.name }).collect())
}

/// The paths that can be tried, given the addresses of the server, the preferred first.
pub(crate) fn candidates(plan: &Interfaces, remotes: &[SocketAddr], found: &[Found]) -> Vec<Candidate> {
    match plan {
        Interfaces::Auto => match on_this_machine(remotes, found) {
            Some(candidate) => vec![candidate],
            None => by_name(remotes, found, |name| !is_loopback(name, found)),
        },
        Interfaces::Named(names) => by_name(remotes, found, |name| names.iter().any(|n| n == name)),
        Interfaces::Local(addresses) => {
            let with_remote = addresses.iter().filter_map(|ip| {
                let remote = remotes.iter().find(|r| r.is_ipv4() == ip.is_ipv4())?;
                let local = scoped(*ip, found.iter().find(|f| f.ip == *ip).map_or(0, |f| f.index));
                Some(Candidate::between(local, *remote))
            });
            with_remote.collect()
        }
        Interfaces::Pairs(pairs) => pairs.iter().map(|(l, r)| Candidate::between(*l, *r)).collect(),
        Interfaces::Networks(networks) => {
            networks.iter().filter_map(|network| over_network(network, remotes)).collect()
        }
    }
}

/// The path over a network: from an address it is known to have, or from one that the system picks.
fn over_network(network: &Network, remotes: &[SocketAddr]) -> Option<Candidate> {
    let known = network.known_addresses();
    let from_known = remotes.iter().find_map(|remote| {
        let suitable = known.iter().filter(|ip| suits(**ip, remote.ip()));
        let best = suitable.max_by_key(|ip| is_global(**ip) == is_global(remote.ip()))?;
        Some((scoped(*best, 0), *remote))
    });
    let (local, remote) = from_known.or_else(|| {
        // A network that has only IPv6 may translate IPv4 without telling an address; the other way round
        // there is nothing to hope for.
        let hopeful = |r: &&SocketAddr| known.is_empty() || r.is_ipv4();
        let remote = remotes.iter().find(hopeful)?;
        Some((unspecified(remote), *remote))
    })?;
    Some(Candidate { network: Some(network.clone()), ..Candidate::between(local, remote) })
}

fn unspecified(remote: &SocketAddr) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// The path to a server on this machine, which runs over loopback whatever the address.
fn on_this_machine(remotes: &[SocketAddr], found: &[Found]) -> Option<Candidate> {
    let remote = remotes.first()?;
    let local = match remote.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        own => found.iter().find(|f| f.ip == own)?.ip,
    };
    Some(Candidate::between(SocketAddr::new(local, 0), *remote))
}

fn is_loopback(name: &str, found: &[Found]) -> bool {
    found.iter().any(|f| f.name == name && f.ip.is_loopback())
}

/// One path for each interface that is wanted: over the first address of the server that it can reach.
fn by_name(remotes: &[SocketAddr], found: &[Found], wanted: impl Fn(&str) -> bool) -> Vec<Candidate> {
    let mut names: Vec<&str> = Vec::new();
    for f in found {
        if wanted(&f.name) && !names.contains(&f.name.as_str()) {
            names.push(&f.name);
        }
    }
    let path = |name: &str| {
        remotes.iter().find_map(|remote| {
            let suitable = found.iter().filter(|f| f.name == name && suits(f.ip, remote.ip()));
            let best = suitable.max_by_key(|f| is_global(f.ip) == is_global(remote.ip()))?;
            let local = scoped(best.ip, best.index);
            let bound = Candidate::between(local, *remote);
            Some(Candidate { device: Some(name.to_owned()), index: best.index, ..bound })
        })
    };
    names.into_iter().filter_map(path).collect()
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
        all.iter().map(|c| format!("{} {}", c.name().unwrap_or("-"), c.local.ip())).collect()
    }

    #[test]
    fn auto_takes_every_interface_of_the_right_family() {
        assert_eq!(plan(&Interfaces::Auto, &["203.0.113.1:1"]), ["wlan0 192.168.1.7", "wwan0 10.0.0.7"]);
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
            candidates(&Interfaces::Networks(vec![network.clone()]), &remote, &[]).remove(0)
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
        assert_eq!(all[0].local.to_string(), "[fe80::7%2]:0");
    }

    #[test]
    fn this_machine_has_a_loopback_interface() {
        assert!(list().expect("can be listed").iter().any(|f| f.ip.is_loopback()));
    }
}
