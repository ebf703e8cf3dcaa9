//! Interface of a multicast group: the configured one, or that of the system's route.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use squall_observe::wait::is_absent;

use super::socket::Purpose;

/// Maximum number of interfaces that a message names.
const MAX_NAMED: usize = 4;

/// State of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: String,
    /// Index, which changes when the interface is removed and added again.
    pub(super) index: u32,
    /// The interface is not reported to be down.
    pub(super) is_running: bool,
    /// The interface usually carries groups; loopback and many tunnels do not.
    is_usual: bool,
    addresses: Vec<IpAddr>,
}

/// Interfaces of this machine. Empty where the system does not list them, for instance without
/// netlink.
pub(super) struct Places(Vec<Place>);

impl Places {
    /// Lists the interfaces. May block.
    #[cfg(unix)]
    pub(super) fn list() -> Self {
        use nix::{
            ifaddrs::getifaddrs,
            net::if_::{InterfaceFlags, if_nametoindex},
            sys::socket::SockaddrStorage,
        };

        let ip = |address: &SockaddrStorage| {
            let v4 = address.as_sockaddr_in().map(|one| IpAddr::from(one.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|one| one.ip().into()))
        };
        let mut all: Vec<Place> = Vec::new();
        // One entry per address, and on Linux one per interface.
        for interface in getifaddrs().into_iter().flatten() {
            let (name, flags) = (interface.interface_name, interface.flags);
            let address = interface.address.as_ref().and_then(ip);
            if let Some(place) = all.iter_mut().find(|place| place.name == name) {
                place.addresses.extend(address);
            } else if let Ok(index) = if_nametoindex(name.as_str()) {
                let is_running = flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING);
                let is_usual = flags.contains(InterfaceFlags::IFF_MULTICAST);
                let is_usual = is_usual && !flags.contains(InterfaceFlags::IFF_LOOPBACK);
                all.push(Place { name, index, is_running, is_usual, addresses: Vec::from_iter(address) });
            }
        }
        Self(all)
    }

    /// Returns no interfaces: on other systems, the system selects one.
    #[cfg(not(unix))]
    pub(super) fn list() -> Self {
        Self(Vec::new())
    }

    /// Finds the interface for the group of a flow.
    ///
    /// # Errors
    /// A description of the missing interface or route.
    pub(super) fn find(&self, purpose: &Purpose) -> Result<Place, String> {
        match (&purpose.interface, purpose.address) {
            (Some(name), _) => {
                let named = self.0.iter().find(|place| place.name == *name).cloned();
                let others =
                    self.names(None).map_or_else(String::new, |names| format!("; there are {names}"));
                named.ok_or_else(|| format!("there is no interface '{name}'{others}"))
            }
            (None, SocketAddr::V6(group)) if group.scope_id() > 0 => self
                .by_index(group.scope_id())
                .ok_or_else(|| format!("there is no interface {}", group.scope_id())),
            (None, group) => self.routed(group),
        }
    }

    /// `true` if the interface still exists.
    pub(super) fn has(&self, place: &Place) -> bool {
        place.index == 0 || self.by_index(place.index).is_some()
    }

    fn by_index(&self, index: u32) -> Option<Place> {
        self.0.iter().find(|place| place.index == index).cloned()
    }

    fn routed(&self, group: SocketAddr) -> Result<Place, String> {
        let any: IpAddr =
            if group.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        // Sends nothing: the system selects the source address.
        let local = UdpSocket::bind((any, 0)).and_then(|socket| {
            socket.connect(group)?;
            socket.local_addr()
        });
        let names = self.names(None).map_or_else(String::new, |names| format!(" ({names})"));
        let hint = format!("set interface in the flow{names}, or add a route");
        match local {
            Ok(_) if self.0.is_empty() => Ok(Place::of_the_system()),
            Ok(local) => self.owner(local).ok_or_else(|| format!("no interface has {}; {hint}", local.ip())),
            Err(error) if is_absent(&error) => {
                Err(format!("there is no route to the group {}: {hint}", group.ip()))
            }
            Err(error) => Err(format!("no route to the group {}: {error}; {hint}", group.ip())),
        }
    }

    fn owner(&self, local: SocketAddr) -> Option<Place> {
        match local {
            SocketAddr::V6(local) if local.scope_id() > 0 => self.by_index(local.scope_id()),
            local => self.0.iter().find(|place| place.addresses.contains(&local.ip())).cloned(),
        }
    }

    /// Returns, for messages, the names of some usual interfaces other than this one.
    pub(super) fn names(&self, except: Option<&Place>) -> Option<String> {
        let is_other = |place: &&Place| except.is_none_or(|except| place.index != except.index);
        let others = self.0.iter().filter(|place| place.is_usual).filter(is_other);
        let mut names: Vec<&str> = others.map(|place| place.name.as_str()).take(MAX_NAMED + 1).collect();
        if let Some(last) = names.get_mut(MAX_NAMED) {
            *last = "…";
        }
        (!names.is_empty()).then(|| names.join(", "))
    }
}

impl Place {
    /// Returns an unnamed interface that the system selects where interfaces are not listed.
    fn of_the_system() -> Self {
        let name = "an interface".to_owned();
        Self { name, index: 0, is_running: true, is_usual: true, addresses: Vec::new() }
    }

    /// `true` if a socket opened for this interface still serves it in its state `now`. The system
    /// keeps a group membership while an interface is down, but switches forget it, so the group is
    /// joined again afterwards.
    pub(super) fn serves(&self, now: &Self, purpose: &Purpose) -> bool {
        let returned = now.is_running && !self.is_running;
        let same = self.index == now.index;
        same && (!purpose.is_in
            || !now.is_running
            || !returned && self.senders(purpose) == now.senders(purpose))
    }

    /// Returns the source addresses of membership reports: those of IPv4 (RFC 3376 section 4.2.13),
    /// or the link-local ones of IPv6 (RFC 3810 section 5.2.13).
    fn senders(&self, purpose: &Purpose) -> Vec<IpAddr> {
        let reports = |ip: &&IpAddr| match ip {
            IpAddr::V4(_) => purpose.address.is_ipv4(),
            IpAddr::V6(ip) => purpose.address.is_ipv6() && ip.is_unicast_link_local(),
        };
        let mut senders: Vec<IpAddr> = self.addresses.iter().filter(reports).copied().collect();
        senders.sort_unstable();
        senders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(index: u32, is_running: bool, addresses: &[&str]) -> Place {
        let addresses = addresses.iter().map(|ip| ip.parse().expect("is an address")).collect();
        Place { name: format!("eth{index}"), index, is_running, is_usual: true, addresses }
    }

    fn purpose(address: &str, is_in: bool) -> Purpose {
        let interface = Some("eth2".to_owned());
        Purpose { address: address.parse().expect("is an address"), is_in, interface, ttl: 1 }
    }

    #[test]
    fn a_group_is_joined_again_where_the_interface_is_another_or_its_reports_come_from_elsewhere() {
        let (v4, v6) = (purpose("239.1.1.1:5", true), purpose("[ff15::1]:5", true));
        let before = place(2, true, &["192.0.2.1", "fe80::1", "2001:db8::1"]);
        let serves = |now: &Place, purpose| before.serves(now, purpose);
        assert!(serves(&before.clone(), &v4) && serves(&before.clone(), &v6));
        assert!(!serves(&place(3, true, &["192.0.2.1", "fe80::1"]), &v4), "made again");
        let renumbered = place(2, true, &["192.0.2.7", "fe80::1"]);
        assert!(!serves(&renumbered, &v4) && serves(&renumbered, &v6));
        let temporary = place(2, true, &["192.0.2.1", "fe80::1", "2001:db8::77"]);
        assert!(serves(&temporary, &v4) && serves(&temporary, &v6));
        assert!(serves(&place(2, false, &[]), &v4), "down: there is nothing to join");
        assert!(!place(2, false, &[]).serves(&before, &v4), "up again");
        assert!(serves(&renumbered, &purpose("239.1.1.1:5", false)), "out only needs the interface");
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        let lo = Place { name: "lo".to_owned(), is_usual: false, ..place(1, true, &["127.0.0.1"]) };
        let places = Places(vec![lo, place(2, true, &["192.0.2.1"]), place(3, true, &["192.0.2.2"])]);
        let error =
            places.find(&Purpose { interface: Some("lan".to_owned()), ..purpose("239.1.1.1:5", true) });
        assert_eq!(error, Err("there is no interface 'lan'; there are eth2, eth3".to_owned()));
        assert_eq!(places.find(&purpose("239.1.1.1:5", true)).map(|place| place.index), Ok(2));
        assert_eq!(places.names(Some(&places.0[1])).as_deref(), Some("eth3"));
        let scoped = Purpose { interface: None, ..purpose("[ff02::1%3]:5", true) };
        assert_eq!(places.find(&scoped).map(|place| place.index), Ok(3));
    }

    #[cfg(unix)]
    #[test]
    fn interfaces_are_listed_with_their_addresses() {
        let Places(all) = Places::list();
        let loopback = all.iter().find(|place| place.addresses.contains(&Ipv4Addr::LOCALHOST.into()));
        assert!(
            loopback.is_some_and(|place| place.index > 0 && place.is_running && !place.is_usual),
            "{all:?}"
        );
    }
}
