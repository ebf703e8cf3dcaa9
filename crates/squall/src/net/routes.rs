//! Mapping from the interfaces of the core to sockets and addresses.
//!
//! Two network interfaces may have the same address. Each socket therefore counts as an interface,
//! and so does each address of a socket that has several.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use squall_proto::Interface;

use super::socket::SocketKey;

/// Largest number of local addresses of one socket; further ones share the first. Bounds the memory
/// that a peer can occupy if a whole network is routed to this machine.
const MAX_ADDRESSES: usize = 1024;

/// Interfaces of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    routes: HashMap<Interface, Route>,
    /// Interfaces by socket and local address.
    numbers: HashMap<(SocketKey, IpAddr), Interface>,
    /// Interfaces of closed bound sockets, by name and address. A session counts its bytes by
    /// interface, so a network that comes back keeps its interface.
    former: HashMap<(Option<String>, IpAddr), Interface>,
    next: u32,
}

/// Socket and address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) socket: SocketKey,
    /// Actual local address.
    pub(crate) local: SocketAddr,
    /// Source address of packets, if the socket has several.
    pub(crate) source: Option<IpAddr>,
    /// Name of the network interface, if the socket belongs to one.
    pub(crate) device: Option<String>,
    /// Reason why no answer can arrive, according to the system.
    pub(crate) trouble: Option<String>,
}

impl Routes {
    /// Returns the interface of a socket that is bound to one address; creates it if necessary.
    pub(crate) fn bound(&mut self, socket: SocketKey, local: SocketAddr, device: Option<&str>) -> Interface {
        if let Some(known) = self.numbers.get(&(socket, local.ip())) {
            return *known;
        }
        let device = device.map(str::to_owned);
        let former = self.former.remove(&(device.clone(), local.ip()));
        self.insert(former, local.ip(), Route { socket, local, source: None, device, trouble: None })
    }

    /// Returns the interface that a packet arrived on. On a socket without a fixed address (`local`
    /// unspecified), that is the interface of the packet's destination address.
    pub(crate) fn receiving(
        &mut self,
        socket: SocketKey,
        local: SocketAddr,
        sent_to: Option<IpAddr>,
    ) -> Interface {
        // The socket of a network is one interface, even if the system picks the address.
        let own = self.numbers.get(&(socket, local.ip())).copied();
        if let Some(own) = own.filter(|own| self.get(*own).is_some_and(|route| route.device.is_some())) {
            return own;
        }
        let ip = sent_to.filter(|_| local.ip().is_unspecified()).unwrap_or(local.ip());
        if let Some(known) = self.numbers.get(&(socket, ip)) {
            return *known;
        }
        if self.numbers.len() >= MAX_ADDRESSES
            && let Some((_, other)) = self.numbers.iter().find(|((s, _), _)| *s == socket)
        {
            return *other;
        }
        let (source, local) = ((!ip.is_unspecified()).then_some(ip), SocketAddr::new(ip, local.port()));
        self.insert(None, ip, Route { socket, local, source, device: None, trouble: None })
    }

    pub(crate) fn get(&self, interface: Interface) -> Option<&Route> {
        self.routes.get(&interface)
    }

    /// Sets the reason why no answer can arrive; `None` clears it.
    pub(crate) fn set_trouble(&mut self, interface: Interface, trouble: Option<String>) {
        if let Some(route) = self.routes.get_mut(&interface) {
            route.trouble = trouble;
        }
    }

    /// Returns the interfaces with this name or address.
    pub(crate) fn matching(&self, name: &str) -> Vec<Interface> {
        let ip: Option<IpAddr> = name.parse().ok();
        let is_meant = |r: &Route| r.device.as_deref() == Some(name) || ip == Some(r.local.ip());
        self.routes.iter().filter(|(_, route)| is_meant(route)).map(|(interface, _)| *interface).collect()
    }

    /// Returns the labels of an interface in hints: its name and its address.
    pub(crate) fn labels(&self, interface: Interface) -> Vec<String> {
        let route = self.get(interface);
        route.map_or_else(Vec::new, |route| {
            route.device.clone().into_iter().chain([route.local.ip().to_string()]).collect()
        })
    }

    /// Returns the names of all interfaces, or local addresses where there is no name, for
    /// messages.
    pub(crate) fn known(&self) -> Vec<String> {
        let name = |route: &Route| route.device.clone().unwrap_or_else(|| route.local.ip().to_string());
        let mut known: Vec<String> = self.routes.values().map(name).collect();
        known.sort();
        known.dedup();
        known
    }

    /// Removes a socket. If it was bound to an address, the next socket on that address gets the
    /// same interface.
    pub(crate) fn remove(&mut self, socket: SocketKey) {
        let gone = |route: &Route| route.socket == socket && route.source.is_none();
        for (interface, route) in self.routes.iter().filter(|(_, route)| gone(route)) {
            if self.former.len() < MAX_ADDRESSES {
                self.former.insert((route.device.clone(), route.local.ip()), *interface);
            }
        }
        self.routes.retain(|_, route| route.socket != socket);
        self.numbers.retain(|(s, _), _| *s != socket);
    }

    /// Returns the address of an interface; an unspecified one if it is gone.
    pub(crate) fn address(&self, interface: Interface) -> SocketAddr {
        self.get(interface).map_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into(), |route| route.local)
    }

    fn insert(&mut self, former: Option<Interface>, ip: IpAddr, route: Route) -> Interface {
        self.next += 1;
        let interface = former.unwrap_or(Interface(self.next));
        self.numbers.insert((route.socket, ip), interface);
        self.routes.insert(interface, route);
        interface
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().expect("is an address")
    }

    #[test]
    fn sockets_with_the_same_address_are_different_interfaces() {
        let mut routes = Routes::default();
        let first = routes.bound(SocketKey(1), addr("192.168.8.100:5"), Some("wwan0"));
        let second = routes.bound(SocketKey(2), addr("192.168.8.100:6"), Some("wwan1"));
        assert_ne!(first, second);
        assert_eq!(routes.bound(SocketKey(2), addr("192.168.8.100:6"), Some("wwan1")), second, "it has one");
        assert_eq!(routes.address(second), addr("192.168.8.100:6"));
        assert_eq!(routes.get(second).and_then(|r| r.device.as_deref()), Some("wwan1"));
        routes.remove(SocketKey(1));
        assert!(routes.get(first).is_none() && routes.get(second).is_some());
    }

    #[test]
    fn a_network_that_comes_back_is_the_same_interface() {
        let mut routes = Routes::default();
        let wwan = |routes: &mut Routes, key, port: &str| {
            routes.bound(SocketKey(key), addr(&format!("192.168.8.100:{port}")), Some("wwan0"))
        };
        let first = wwan(&mut routes, 1, "5");
        routes.remove(SocketKey(1));
        let other = routes.bound(SocketKey(2), addr("192.168.8.100:6"), Some("wwan1"));
        assert_ne!(other, first, "another interface with the same address");
        assert_eq!(wwan(&mut routes, 3, "7"), first);
        assert_ne!(wwan(&mut routes, 4, "8"), first, "it is in use");
        assert_eq!(routes.get(first).map(|route| route.socket), Some(SocketKey(3)));
    }

    #[test]
    fn a_socket_for_all_addresses_answers_from_the_one_that_was_called() {
        let mut routes = Routes::default();
        let any = addr("[::]:443");
        let first = routes.receiving(SocketKey(1), any, Some(addr("[2001:db8::1]:0").ip()));
        assert_eq!(routes.receiving(SocketKey(1), any, Some(addr("[2001:db8::1]:0").ip())), first);
        let other = routes.receiving(SocketKey(1), any, Some(addr("[2001:db8::2]:0").ip()));
        assert_ne!(first, other);
        let route = routes.get(other).expect("is known");
        assert_eq!(
            (route.local, route.source),
            (addr("[2001:db8::2]:443"), Some(addr("[2001:db8::2]:0").ip()))
        );
        let unknown = routes.receiving(SocketKey(1), any, None);
        assert_eq!(routes.get(unknown).map(|r| r.source), Some(None));
    }

    #[test]
    fn a_network_is_one_interface_even_if_the_system_picks_its_address() {
        let mut routes = Routes::default();
        let any = addr("0.0.0.0:5");
        let first = routes.bound(SocketKey(1), any, Some("cellular"));
        assert_eq!(routes.receiving(SocketKey(1), any, Some(addr("10.0.0.7:0").ip())), first);
        assert_eq!(routes.receiving(SocketKey(1), any, None), first);
        let other = routes.bound(SocketKey(2), any, Some("wifi"));
        assert_ne!(other, first);
    }

    #[test]
    fn addresses_to_remember_are_bounded() {
        let mut routes = Routes::default();
        for n in 0..5000u32 {
            let to = Ipv4Addr::from_bits(0x7f00_0000 + n);
            routes.receiving(SocketKey(1), addr("0.0.0.0:443"), Some(to.into()));
        }
        assert_eq!(routes.routes.len(), MAX_ADDRESSES);
    }
}
