//! Interfaces as the system reports them, and the ways to servers over them.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use if_addrs::{IfOperStatus, Interface};

use crate::error::{is_without_family, plain};

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::kernel::{self, Kernel, Query, Route};

/// Largest number of ways per view: one for each interface and address of a server.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MAX_WAYS: usize = 1024;

/// Largest number of addresses of an interface for which routes are queried.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MAX_SOURCES: usize = 16;

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) ip: IpAddr,
    /// Index of the interface, the scope id of its link-local addresses.
    pub(crate) index: u32,
    /// The interface is up and has a carrier, or may have one.
    pub(crate) is_running: bool,
    /// Point-to-point link: packets reach the other end with or without a route.
    pub(crate) is_p2p: bool,
}

/// Routing of packets to a server over one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// There is no route.
    Nowhere,
    From {
        /// Source address of the packets.
        source: IpAddr,
        /// Metric; the system prefers the smaller.
        metric: u32,
        /// Reason why no answer can arrive, as text.
        trouble: Option<String>,
    },
}

/// State of the system's interfaces and routes at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Server addresses that the ways lead to.
    pub(crate) to: Vec<SocketAddr>,
    pub(crate) found: Vec<Found>,
    /// Ways by interface index and server address. An entry is missing if the system does not
    /// report the way.
    pub(crate) ways: HashMap<(u32, IpAddr), Way>,
    /// Reason why interfaces cannot be listed, if this process may not list them.
    pub(crate) unlisted: Option<String>,
    /// Source addresses by the routing table for the server addresses, if interfaces cannot be
    /// listed.
    pub(crate) sources: HashMap<IpAddr, IpAddr>,
}

impl View {
    /// Reads the interfaces and the ways to these addresses. May block.
    pub(crate) fn of_system(remotes: &[SocketAddr]) -> io::Result<Self> {
        let to = remotes.to_vec();
        match list() {
            Ok(found) => Ok(Self { ways: ways(&found, remotes), to, found, ..Self::default() }),
            Err(error) if is_denied(&error) => {
                let source = |remote: &SocketAddr| Some((remote.ip(), source(*remote).ok()?));
                let unlisted = Some(plain(&error));
                let sources = remotes.iter().filter_map(source).collect();
                Ok(Self { to, unlisted, sources, ..Self::default() })
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn way(&self, index: u32, to: IpAddr) -> Option<&Way> {
        self.ways.get(&(index, to))
    }
}

/// Lists the addresses of all interfaces. May block.
fn list() -> io::Result<Vec<Found>> {
    let found = |i: Interface| Found {
        ip: i.ip(),
        index: i.index.unwrap_or(0),
        // On Unix the kernel reports whether an interface is running, even if its driver reports no
        // state. Elsewhere an unknown state may mean either.
        is_running: i.oper_status == IfOperStatus::Up
            || cfg!(not(unix)) && i.oper_status == IfOperStatus::Unknown,
        is_p2p: i.is_p2p,
        name: i.name,
    };
    Ok(if_addrs::get_if_addrs()?.into_iter().map(found).collect())
}

/// `true` if this process may not list interfaces, or the system has no means for it: Android, a
/// sandbox.
fn is_denied(error: &io::Error) -> bool {
    is_without_family(error)
        || matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported)
}

/// Returns the source address of packets to a server. Sends nothing.
fn source(remote: SocketAddr) -> io::Result<IpAddr> {
    let any = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(remote)?;
    Ok(socket.local_addr()?.ip())
}

/// `true` if packets from `local` can reach `remote`: same family, and link-local addresses only
/// reach link-local ones.
pub(crate) fn suits(local: IpAddr, remote: IpAddr) -> bool {
    local.is_ipv4() == remote.is_ipv4() && is_link_local(local) == is_link_local(remote)
}

pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn ways(_: &[Found], _: &[SocketAddr]) -> HashMap<(u32, IpAddr), Way> {
    HashMap::new()
}

/// Returns the ways over every running interface.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn ways(found: &[Found], remotes: &[SocketAddr]) -> HashMap<(u32, IpAddr), Way> {
    let mut ways = HashMap::new();
    let mut kernel = match Kernel::open() {
        Ok(kernel) => kernel,
        Err(error) => {
            tracing::debug!(%error, "the kernel cannot be asked for routes");
            return ways;
        }
    };
    let usable = |f: &&Found| f.is_running && f.index != 0 && !f.ip.is_loopback();
    for Found { name, ip, index, .. } in found.iter().filter(usable) {
        for to in remotes.iter().map(SocketAddr::ip).filter(|to| suits(*ip, *to)) {
            if ways.contains_key(&(*index, to)) || ways.len() >= MAX_WAYS {
                continue;
            }
            let strict = to.is_ipv4() && kernel::is_strict(name);
            match way(found, *index, to, strict, |query| kernel.route(to, query)) {
                Ok(way) => drop(ways.insert((*index, to), way)),
                Err(error) => tracing::debug!(%error, name, %to, "the kernel does not say how to get there"),
            }
        }
    }
    ways
}

/// Finds the way to a server over an interface by the routes of the kernel. `strict` if the
/// interface has `rp_filter` 1.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn way(
    found: &[Found],
    over: u32,
    to: IpAddr,
    strict: bool,
    mut route: impl FnMut(Query) -> io::Result<Option<Route>>,
) -> io::Result<Way> {
    let own = found.iter().filter(|f| f.index == over && suits(f.ip, to)).map(|f| f.ip);
    let mut sources: Vec<IpAddr> = own.take(MAX_SOURCES).collect();
    let any = route(Query { over, ..Query::default() })?.filter(|route| route.over == over);
    // The kernel selects the source by RFC 6724: not deprecated, and of the right scope.
    let chosen = any.as_ref().and_then(|route| route.source);
    sources.sort_by_key(|source| Some(*source) != chosen);
    if let (Some(chosen), Some(any)) = (chosen.filter(|chosen| sources.contains(chosen)), &any)
        && to.is_ipv6()
    {
        return Ok(Way::From { source: chosen, metric: any.metric, trouble: None });
    }
    // The address of another interface is valid only if the route names it.
    let foreign = chosen.filter(|chosen| to.is_ipv4() && !sources.contains(chosen));
    for source in foreign.into_iter().chain(sources) {
        // Policy rules may have routes only for packets from this address, or none for them.
        let entry = to.is_ipv4();
        let Some(route_from) = route(Query { from: Some(source), over, entry })? else { continue };
        if route_from.over != over || foreign == Some(source) && route_from.source != foreign {
            continue;
        }
        let trouble = match strict {
            true => {
                let back = route(Query { from: Some(source), ..Query::default() })?;
                back.filter(|back| back.over != over).map(|back| filtered(found, over, back.over, to))
            }
            false => None,
        };
        return Ok(Way::From { source, metric: route_from.metric, trouble });
    }
    Ok(Way::Nowhere)
}

/// Describes why packets from a server are dropped on one interface: its route leads over another
/// one.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn filtered(found: &[Found], over: u32, back: u32, to: IpAddr) -> String {
    let name = |index: u32| {
        let name = found.iter().find(|f| f.index == index).map(|f| f.name.clone());
        name.unwrap_or_else(|| format!("interface {index}"))
    };
    let (over, back) = (name(over), name(back));
    format!(
        "the kernel drops what arrives here from {to}, as rp_filter is 1 and its route leads over {back}: \
         sysctl -w net.ipv4.conf.{over}.rp_filter=2"
    )
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("is an address")
    }

    fn found() -> Vec<Found> {
        let entry = |(name, index, address): (&str, u32, &str)| Found {
            name: name.into(),
            ip: ip(address),
            index,
            is_running: true,
            is_p2p: false,
        };
        let all = [
            ("lo", 1, "127.0.0.1"),
            ("lo", 1, "192.0.2.99"),
            ("wwan1", 2, "10.9.1.2"),
            ("wwan1", 2, "2001:db8:1::2"),
            ("wwan1", 2, "2001:db8:2::2"),
            ("wwan2", 3, "10.9.2.2"),
            ("wwan2", 3, "10.9.2.3"),
            ("wwan2", 3, "169.254.7.7"),
        ];
        all.map(entry).into()
    }

    fn route(over: u32, source: &str, metric: u32) -> Option<Route> {
        Some(Route { over, source: source.parse().ok(), metric })
    }

    fn from(source: &str, metric: u32) -> Way {
        Way::From { source: ip(source), metric, trouble: None }
    }

    /// Returns the way over an interface for a table of queries: source, interface index, and
    /// whether the table entry is requested.
    fn way_of(over: u32, to: &str, strict: bool, table: &[(&str, u32, bool, Option<Route>)]) -> Option<Way> {
        let answer = |query: Query| {
            let meant = |row: &&(&str, u32, bool, Option<Route>)| {
                (row.0.parse().ok(), row.1, row.2) == (query.from, query.over, query.entry)
            };
            Ok(table.iter().find(meant).and_then(|row| row.3.clone()))
        };
        way(&found(), over, ip(to), strict, answer).ok()
    }

    #[test]
    fn a_link_without_a_route_leads_nowhere() {
        assert_eq!(way_of(3, "203.0.113.1", false, &[]), Some(Way::Nowhere));
        assert_eq!(way_of(2, "2001:db8:9::1", false, &[]), Some(Way::Nowhere));
        // The kernel answers with another interface if it does not treat the requested one as a
        // condition.
        let other = [("10.9.2.2", 3, true, route(2, "", 1)), ("", 3, false, route(2, "10.9.1.2", 0))];
        assert_eq!(way_of(3, "203.0.113.1", false, &other), Some(Way::Nowhere));
    }

    #[test]
    fn packets_leave_from_the_address_that_the_kernel_chooses() {
        let table = [("", 2, false, route(2, "2001:db8:2::2", 1024))];
        assert_eq!(way_of(2, "2001:db8:9::1", false, &table), Some(from("2001:db8:2::2", 1024)));
        let table = [("", 3, false, route(3, "10.9.2.3", 0)), ("10.9.2.3", 3, true, route(3, "", 20))];
        assert_eq!(way_of(3, "203.0.113.1", false, &table), Some(from("10.9.2.3", 20)));
    }

    #[test]
    fn rules_for_a_source_address_are_respected() {
        let only_by_rule = [("10.9.2.2", 3, true, route(3, "", 7))];
        assert_eq!(way_of(3, "203.0.113.1", false, &only_by_rule), Some(from("10.9.2.2", 7)));
        // Prohibited from the address that would be chosen.
        let table = [("", 3, false, route(3, "10.9.2.2", 0)), ("10.9.2.3", 3, true, route(3, "", 7))];
        assert_eq!(way_of(3, "203.0.113.1", false, &table), Some(from("10.9.2.3", 7)));
    }

    #[test]
    fn an_address_of_another_interface_is_taken_only_where_the_route_names_it() {
        let any = ("", 3, false, route(3, "192.0.2.99", 0));
        let named = [any.clone(), ("192.0.2.99", 3, true, route(3, "192.0.2.99", 4))];
        assert_eq!(way_of(3, "203.0.113.1", false, &named), Some(from("192.0.2.99", 4)));
        let borrowed = [any, ("192.0.2.99", 3, true, route(3, "", 4))];
        assert_eq!(way_of(3, "203.0.113.1", false, &borrowed), Some(Way::Nowhere));
    }

    #[test]
    fn strict_filtering_is_trouble_where_the_route_back_leads_over_another_interface() {
        let mut table = [
            ("", 3, false, route(3, "10.9.2.2", 0)),
            ("10.9.2.2", 3, true, route(3, "", 20)),
            ("10.9.2.2", 0, false, route(2, "10.9.2.2", 0)),
        ];
        let Some(Way::From { trouble: Some(trouble), .. }) = way_of(3, "203.0.113.1", true, &table) else {
            panic!("it is not noticed")
        };
        assert!(trouble.contains("its route leads over wwan1: sysctl -w net.ipv4.conf.wwan2.rp_filter=2"));
        assert_eq!(way_of(3, "203.0.113.1", false, &table), Some(from("10.9.2.2", 20)), "loose");
        table[2].3 = route(3, "10.9.2.2", 0);
        assert_eq!(way_of(3, "203.0.113.1", true, &table), Some(from("10.9.2.2", 20)), "the same way");
    }

    #[test]
    fn a_kernel_that_does_not_say_decides_nothing() {
        let silent = |_| Err(io::ErrorKind::Unsupported.into());
        assert!(way(&found(), 2, ip("203.0.113.1"), false, silent).is_err());
    }

    #[test]
    fn only_a_lasting_refusal_means_that_there_is_no_list() {
        use rustix::io::Errno;
        let denied = |errno: Errno| is_denied(&errno.into());
        // Android and snap, systemd, gVisor.
        assert!([Errno::ACCESS, Errno::PERM, Errno::AFNOSUPPORT, Errno::OPNOTSUPP].into_iter().all(denied));
        assert!(![Errno::NOBUFS, Errno::MFILE, Errno::INTR].into_iter().any(denied));
    }

    #[test]
    fn this_machine_has_a_loopback_interface() {
        assert!(list().expect("can be listed").iter().any(|f| f.ip.is_loopback() && f.is_running));
        assert_eq!(source(SocketAddr::new(ip("127.0.0.1"), 9)).ok(), Some(ip("127.0.0.1")));
    }
}
