//! Which socket and address a local address of the core stands for.
//!
//! The core distinguishes paths by address alone, and two interfaces may have the same one. So each
//! socket, and each address of a socket that has several, gets an address of its own that exists
//! nowhere outside: from 100.64.0.0/10 (RFC 6598) or from a unique local prefix (RFC 4193).

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use squall_proto::NetPath;

use crate::socket::SocketKey;

/// Local addresses that one socket may have; those beyond share the first. Bounds what a peer on a
/// network that is routed here as a whole can make us remember.
const MAX_ADDRESSES: usize = 1024;

/// The translation between both sides.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    routes: HashMap<IpAddr, Route>,
    /// By socket and the address in use there.
    names: HashMap<(SocketKey, IpAddr), IpAddr>,
    /// Names of bound sockets that are gone, by interface and address: a network that comes back is the
    /// same to a session, which counts its bytes by name.
    former: HashMap<(Option<String>, IpAddr), IpAddr>,
    next: u32,
}

/// What a local address of the core stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) socket: SocketKey,
    /// The real address.
    pub(crate) local: SocketAddr,
    /// Address to send from, where the socket has several.
    pub(crate) source: Option<IpAddr>,
    /// Name of the interface, if the socket belongs to one.
    pub(crate) device: Option<String>,
    /// Why no answer will come to it, by what the system says.
    pub(crate) trouble: Option<String>,
}

impl Routes {
    /// Names a socket bound to one address; returns the name.
    pub(crate) fn add(&mut self, socket: SocketKey, local: SocketAddr, device: Option<String>) -> IpAddr {
        let former = self.former.remove(&(device.clone(), local.ip()));
        let name = former.unwrap_or_else(|| self.new_name(local.ip()));
        self.insert(name, local.ip(), Route { socket, local, source: None, device, trouble: None })
    }

    /// The name of a socket that is bound to one address.
    pub(crate) fn own_name(&self, socket: SocketKey, local: IpAddr) -> Option<IpAddr> {
        self.names.get(&(socket, local)).copied()
    }

    /// The name of what a packet was received on: on a socket bound to no particular address (`local`
    /// unspecified), that is the address it was sent to.
    pub(crate) fn name(&mut self, socket: SocketKey, local: SocketAddr, sent_to: Option<IpAddr>) -> IpAddr {
        // A socket of a network bears one name, even where the system picks the address.
        let own = self.names.get(&(socket, local.ip())).copied();
        if let Some(name) = own.filter(|name| self.get(*name).is_some_and(|route| route.device.is_some())) {
            return name;
        }
        let ip = sent_to.filter(|_| local.ip().is_unspecified()).unwrap_or(local.ip());
        if let Some(name) = self.names.get(&(socket, ip)) {
            return *name;
        }
        if self.names.len() >= MAX_ADDRESSES
            && let Some(name) = self.names.iter().find(|((s, _), _)| *s == socket).map(|(_, name)| *name)
        {
            return name;
        }
        let source = (!ip.is_unspecified()).then_some(ip);
        let name = self.new_name(ip);
        self.insert(
            name,
            ip,
            Route { socket, local: SocketAddr::new(ip, local.port()), source, device: None, trouble: None },
        )
    }

    /// What a name stands for.
    pub(crate) fn get(&self, name: IpAddr) -> Option<&Route> {
        self.routes.get(&name)
    }

    /// Enters why no answer will come there, if so.
    pub(crate) fn set_trouble(&mut self, name: IpAddr, trouble: Option<String>) {
        if let Some(route) = self.routes.get_mut(&name) {
            route.trouble = trouble;
        }
    }

    /// The names of what has this real address, or belongs to the interface of this name.
    pub(crate) fn matching(&self, interface: &str) -> Vec<IpAddr> {
        let ip: Option<IpAddr> = interface.parse().ok();
        let is_meant = |r: &Route| r.device.as_deref() == Some(interface) || ip == Some(r.local.ip());
        self.routes.iter().filter(|(_, route)| is_meant(route)).map(|(name, _)| *name).collect()
    }

    /// What people call a path from there: by the name of the interface, and by the real address.
    pub(crate) fn labels(&self, name: IpAddr) -> Vec<String> {
        let route = self.get(name);
        route.map_or_else(Vec::new, |route| {
            route.device.clone().into_iter().chain([route.local.ip().to_string()]).collect()
        })
    }

    /// The names of all interfaces, or local addresses where there is no name, for people.
    pub(crate) fn known(&self) -> Vec<String> {
        let name = |route: &Route| route.device.clone().unwrap_or_else(|| route.local.ip().to_string());
        let mut known: Vec<String> = self.routes.values().map(name).collect();
        known.sort();
        known.dedup();
        known
    }

    /// Forgets a socket. If it was bound to an address, the next one there has its name.
    pub(crate) fn remove(&mut self, socket: SocketKey) {
        let gone = |route: &Route| route.socket == socket && route.source.is_none();
        for (name, route) in self.routes.iter().filter(|(_, route)| gone(route)) {
            if self.former.len() < MAX_ADDRESSES {
                self.former.insert((route.device.clone(), route.local.ip()), *name);
            }
        }
        self.routes.retain(|_, route| route.socket != socket);
        self.names.retain(|(s, _), _| *s != socket);
    }

    /// The same path with the real local address, for people.
    pub(crate) fn real(&self, net: NetPath) -> NetPath {
        let local = self.get(net.local).map_or(net.local, |route| route.local.ip());
        NetPath { local, ..net }
    }

    fn new_name(&mut self, ip: IpAddr) -> IpAddr {
        self.next += 1;
        match ip {
            IpAddr::V4(_) => Ipv4Addr::from_bits(0x6440_0000 + self.next % (1 << 22)).into(),
            IpAddr::V6(_) => {
                Ipv6Addr::from_bits((0xfd73_7175_616c_6c00 << 64) + u128::from(self.next)).into()
            }
        }
    }

    fn insert(&mut self, name: IpAddr, ip: IpAddr, route: Route) -> IpAddr {
        self.names.insert((route.socket, ip), name);
        self.routes.insert(name, route);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().expect("is an address")
    }

    #[test]
    fn sockets_with_the_same_address_have_different_names() {
        let mut routes = Routes::default();
        let first = routes.add(SocketKey(1), addr("192.168.8.100:5"), Some("wwan0".into()));
        let second = routes.add(SocketKey(2), addr("192.168.8.100:6"), Some("wwan1".into()));
        assert_ne!(first, second);
        let net = NetPath { local: second, remote: addr("192.0.2.1:1") };
        assert_eq!(routes.real(net).local, addr("192.168.8.100:6").ip());
        assert_eq!(routes.get(second).and_then(|r| r.device.as_deref()), Some("wwan1"));
        routes.remove(SocketKey(1));
        assert!(routes.get(first).is_none() && routes.get(second).is_some());
    }

    #[test]
    fn a_network_that_comes_back_has_its_name_again() {
        let mut routes = Routes::default();
        let wwan = |routes: &mut Routes, key, port: &str| {
            routes.add(SocketKey(key), addr(&format!("192.168.8.100:{port}")), Some("wwan0".into()))
        };
        let first = wwan(&mut routes, 1, "5");
        routes.remove(SocketKey(1));
        let other = routes.add(SocketKey(2), addr("192.168.8.100:6"), Some("wwan1".into()));
        assert_ne!(other, first, "another interface with the same address");
        assert_eq!(wwan(&mut routes, 3, "7"), first);
        assert_ne!(wwan(&mut routes, 4, "8"), first, "it is in use");
        assert_eq!(routes.get(first).map(|route| route.socket), Some(SocketKey(3)));
    }

    #[test]
    fn a_socket_for_all_addresses_answers_from_the_one_that_was_called() {
        let mut routes = Routes::default();
        let any = addr("[::]:443");
        let name = routes.name(SocketKey(1), any, Some(addr("[2001:db8::1]:0").ip()));
        assert!(name.is_ipv6());
        assert_eq!(routes.name(SocketKey(1), any, Some(addr("[2001:db8::1]:0").ip())), name);
        let other = routes.name(SocketKey(1), any, Some(addr("[2001:db8::2]:0").ip()));
        assert_ne!(name, other);
        let route = routes.get(other).expect("is known");
        assert_eq!(
            (route.local, route.source),
            (addr("[2001:db8::2]:443"), Some(addr("[2001:db8::2]:0").ip()))
        );
        let unknown = routes.name(SocketKey(1), any, None);
        assert_eq!(routes.get(unknown).map(|r| r.source), Some(None));
    }

    #[test]
    fn a_network_has_one_name_even_if_the_system_picks_its_address() {
        let mut routes = Routes::default();
        let any = addr("0.0.0.0:5");
        let name = routes.add(SocketKey(1), any, Some("cellular".into()));
        assert_eq!(routes.name(SocketKey(1), any, Some(addr("10.0.0.7:0").ip())), name);
        assert_eq!(routes.name(SocketKey(1), any, None), name);
        let other = routes.add(SocketKey(2), any, Some("wifi".into()));
        assert_ne!(other, name);
    }

    #[test]
    fn addresses_to_remember_are_bounded() {
        let mut routes = Routes::default();
        for n in 0..5000u32 {
            let to = Ipv4Addr::from_bits(0x7f00_0000 + n);
            routes.name(SocketKey(1), addr("0.0.0.0:443"), Some(to.into()));
        }
        assert_eq!(routes.routes.len(), MAX_ADDRESSES);
    }
}
