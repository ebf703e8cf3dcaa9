//! Routes that the kernel would choose over each interface, by `RTM_GETROUTE` of rtnetlink(7).

use std::{
    fs,
    io::{self, Read as _},
    net::IpAddr,
    time::Duration,
};

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage},
};
use rustix::{
    io::Errno,
    net::{
        AddressFamily as Family, RecvFlags, SendFlags, SocketFlags, SocketType, connect,
        netlink::SocketAddrNetlink,
        recv, send, socket_with,
        sockopt::{Timeout, set_socket_timeout},
    },
};

/// Timeout of an answer. The kernel answers at once.
const ANSWER: Duration = Duration::from_millis(200);

/// Size of the receive buffer in bytes; larger than one route.
const BUFFER: usize = 8 * 1024;

/// Malformed answers after which the kernel is no longer asked. Answers of a sandbox or an emulated
/// kernel may make no sense.
const MAX_STRANGE: u32 = 8;

/// A netlink socket for queries of routes.
pub(crate) struct Kernel {
    file: std::os::fd::OwnedFd,
    sequence: u32,
    strange: u32,
}

/// The fields of a route that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    /// Index of the outgoing interface.
    pub(crate) over: u32,
    /// Source address. For a query of the table entry, the preferred source of the route itself;
    /// otherwise the address that the kernel chooses.
    pub(crate) source: Option<IpAddr>,
    /// Metric; smaller is preferred.
    pub(crate) metric: u32,
}

/// Conditions on the requested route.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Query {
    /// Source address of the packets, for policy rules.
    pub(crate) from: Option<IpAddr>,
    /// Index of the outgoing interface; 0 for any.
    pub(crate) over: u32,
    /// Request the entry of the table instead of the route that a packet would take.
    pub(crate) entry: bool,
}

impl Kernel {
    pub(crate) fn open() -> io::Result<Self> {
        // The protocol of interfaces and routes (`NETLINK_ROUTE`) is number 0, the default.
        let file = socket_with(Family::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        connect(&file, &SocketAddrNetlink::new(0, 0))?;
        set_socket_timeout(&file, Timeout::Recv, Some(ANSWER))?;
        Ok(Self { file, sequence: 0, strange: 0 })
    }

    /// Looks up the route to an address; `Ok(None)` if there is none.
    ///
    /// # Errors
    /// If the kernel gives no usable answer.
    pub(crate) fn route(&mut self, to: IpAddr, query: Query) -> io::Result<Option<Route>> {
        if self.strange >= MAX_STRANGE {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let answer = self.ask(to, query);
        self.strange += u32::from(answer.is_err());
        answer
    }

    fn ask(&mut self, to: IpAddr, query: Query) -> io::Result<Option<Route>> {
        self.sequence += 1;
        send(&self.file, &request(to, query, self.sequence), SendFlags::empty())?;
        let mut buffer = [0; BUFFER];
        loop {
            let (len, _) = recv(&self.file, &mut buffer[..], RecvFlags::empty())?;
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&buffer[..len]);
            let message = message.map_err(io::Error::other)?;
            // Late answer to the previous query.
            if message.header.sequence_number != self.sequence {
                continue;
            }
            return match message.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => Ok(read(&route)),
                NetlinkPayload::Error(error) => refusal(error.to_io()),
                _ => Err(io::ErrorKind::InvalidData.into()),
            };
        }
    }
}

fn request(to: IpAddr, query: Query, sequence: u32) -> Vec<u8> {
    let (family, bits) = if to.is_ipv4() { (AddressFamily::Inet, 32) } else { (AddressFamily::Inet6, 128) };
    let mut route = RouteMessage::default();
    route.header.address_family = family;
    route.header.destination_prefix_length = bits;
    // Without the table, a route that the kernel made up cannot be distinguished from others.
    route.header.flags = RouteFlags::LookupTable;
    route.attributes.push(RouteAttribute::Destination(to.into()));
    if query.entry {
        route.header.flags |= RouteFlags::FibMatch;
    }
    if let Some(from) = query.from {
        route.header.source_prefix_length = bits;
        route.attributes.push(RouteAttribute::Source(from.into()));
    }
    if query.over != 0 {
        route.attributes.push(RouteAttribute::Oif(query.over));
    }
    let mut header = NetlinkHeader::default();
    (header.flags, header.sequence_number) = (NLM_F_REQUEST, sequence);
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(RouteNetlinkMessage::GetRoute(route)));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Parses a route. `None` for the route that Linux makes up if an interface is given and has no
/// IPv4 route: the kernel treats the destination as a neighbour, and sends ARP requests without
/// end. Such a route is in no table.
fn read(route: &RouteMessage) -> Option<Route> {
    let mut found = Route::default();
    let mut table = u32::from(route.header.table);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(over) => found.over = *over,
            RouteAttribute::Priority(metric) => found.metric = *metric,
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::PrefSource(source) => found.source = address(source),
            _ => {}
        }
    }
    (table != 0).then_some(found)
}

fn address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

/// Separates refusals by the routing itself (no route, forbidden by a rule, or an interface that is
/// gone), which are `Ok(None)`, from other errors.
fn refusal(error: io::Error) -> io::Result<Option<Route>> {
    let lasting =
        [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::NETDOWN, Errno::NODEV, Errno::SRCH, Errno::ACCESS];
    match Errno::from_io_error(&error) {
        Some(errno) if lasting.contains(&errno) => Ok(None),
        _ => Err(error),
    }
}

/// `true` if the kernel drops packets that arrive on another interface than the one towards their
/// source (`rp_filter` 1, RFC 3704 §2.2).
pub(crate) fn is_strict(interface: &str) -> bool {
    let mode = |name: &str| {
        let mut text = String::new();
        let file = fs::File::open(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter")).ok()?;
        file.take(16).read_to_string(&mut text).ok()?;
        text.trim().parse::<u32>().ok()
    };
    // The larger value counts (ip-sysctl in the kernel documentation).
    mode("all").max(mode(interface)) == Some(1)
}

/// `true` if an interface with this name and index exists.
pub(crate) fn has_interface(name: &str, index: u32) -> bool {
    let any = socket_with(Family::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    any.and_then(|file| rustix::net::netdevice::name_to_index(file, name)) == Ok(index)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_kernel_routes_to_loopback_over_loopback() {
        let mut kernel = match Kernel::open() {
            Ok(kernel) => kernel,
            Err(error) => return squall_testkit::skipped(&format!("there is no netlink: {error}")),
        };
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        let route = kernel.route(here, Query::default()).expect("is answered").expect("there is one");
        assert!(has_interface("lo", route.over));
        assert_eq!(route.source, Some(here));
        assert!(!has_interface("lo", route.over + 1_000_000) && !has_interface("none7", route.over));
    }

    #[test]
    fn a_route_in_no_table_is_none() {
        let mut message = RouteMessage::default();
        message.attributes = vec![
            RouteAttribute::Oif(7),
            RouteAttribute::PrefSource(RouteAddress::Inet(Ipv4Addr::new(10, 0, 0, 7))),
        ];
        assert_eq!(read(&message), None);
        message.attributes.push(RouteAttribute::Table(1_000));
        message.attributes.push(RouteAttribute::Priority(30));
        let source = Some(Ipv4Addr::new(10, 0, 0, 7).into());
        assert_eq!(read(&message), Some(Route { over: 7, source, metric: 30 }));
    }

    #[test]
    fn only_errors_of_the_routing_mean_that_there_is_no_route() {
        let meaning = |errno: Errno| refusal(errno.into()).ok();
        assert_eq!(meaning(Errno::NETUNREACH), Some(None));
        assert_eq!(meaning(Errno::ACCESS), Some(None), "prohibited");
        for unsupported in [Errno::OPNOTSUPP, Errno::INVAL, Errno::PERM] {
            assert_eq!(meaning(unsupported), None, "{unsupported}");
        }
    }
}
