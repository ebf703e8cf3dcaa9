//! Sockets of flows, with large buffers and the age of each received datagram.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};
use squall_observe::wait::instead;
use tokio::net::UdpSocket;

/// Size of the kernel buffers in bytes: the datagrams of a large key frame arrive, or leave, in one
/// burst.
const BUFFER: usize = 4 << 20;

/// Purpose of a flow's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Purpose {
    /// Address where datagrams enter, or destination of those that leave.
    pub(super) address: SocketAddr,
    pub(super) is_in: bool,
    /// Interface configured for a group.
    pub(super) interface: Option<String>,
    pub(super) ttl: u8,
}

impl Purpose {
    pub(super) fn is_group(&self) -> bool {
        self.address.ip().is_multicast()
    }
}

/// Opens the socket of an end of a flow. For datagrams that enter: bound to the address, and joined
/// to its group on the interface of this index. For datagrams that leave: able to send to the
/// address, to a group over that interface. Without an index, the routes of the system select the
/// interface for sending.
pub(super) fn open(purpose: &Purpose, index: Option<u32>) -> io::Result<UdpSocket> {
    let address = purpose.address;
    match bound(purpose, address, index) {
        Ok(socket) => Ok(socket),
        Err(error) => {
            let other = instead(address, &error).filter(|_| purpose.is_in).ok_or(error)?;
            tracing::warn!("{address}: this machine has no IPv6; datagrams enter at {other}");
            bound(purpose, other, index)
        }
    }
}

fn bound(purpose: &Purpose, address: SocketAddr, index: Option<u32>) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // The kernel may grant less, which is acceptable.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
    request_reports(&socket);
    if purpose.is_in {
        listen(&socket, purpose, address, index)?;
    } else {
        let any: IpAddr =
            if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        socket.bind(&SocketAddr::new(any, 0).into())?;
        if purpose.is_group() {
            send_over(&socket, purpose, index)?;
        }
    }
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket.into())
}

/// Binds the socket, and joins the group of a multicast address.
fn listen(socket: &Socket, purpose: &Purpose, address: SocketAddr, index: Option<u32>) -> io::Result<()> {
    if address.is_ipv6() && address.ip().is_unspecified() {
        // Independent of the system's default.
        socket.set_only_v6(false)?;
    }
    if !purpose.is_group() {
        return socket.bind(&address.into());
    }
    socket.set_reuse_address(true)?;
    if purpose.interface.is_some() {
        only_joined(socket, address);
    }
    let index = index.unwrap_or(0);
    match address {
        SocketAddr::V4(v4) => {
            socket.bind(&address.into())?;
            socket.join_multicast_v4_n(v4.ip(), &InterfaceIndexOrAddress::Index(index))
        }
        SocketAddr::V6(mut v6) => {
            // A link-scoped group belongs to an interface; other groups are bound on all.
            if index > 0 && is_of_link(*v6.ip()) {
                v6.set_scope_id(index);
            }
            socket.bind(&v6.into())?;
            socket.join_multicast_v6(v6.ip(), index)
        }
    }
}

/// `true` if the group exists once per link: interface-local or link-local scope (RFC 4291 section
/// 2.7).
fn is_of_link(group: Ipv6Addr) -> bool {
    matches!(group.octets()[1] & 0xf, 1 | 2)
}

/// Excludes datagrams of the group from other interfaces, on which other sockets have joined it.
#[cfg(target_os = "linux")]
fn only_joined(socket: &Socket, address: SocketAddr) {
    let set = if address.is_ipv4() {
        socket.set_multicast_all_v4(false)
    } else {
        socket.set_multicast_all_v6(false)
    };
    if let Err(error) = set {
        tracing::debug!(%error, "the kernel does not distinguish groups of interfaces");
    }
}

/// No effect: other systems behave like this by default.
#[cfg(not(target_os = "linux"))]
fn only_joined(_: &Socket, _: SocketAddr) {}

/// Sets interface and hop limit of datagrams to a group.
fn send_over(socket: &Socket, purpose: &Purpose, index: Option<u32>) -> io::Result<()> {
    match (purpose.address, index) {
        (SocketAddr::V4(_), index) => {
            socket.set_multicast_ttl_v4(purpose.ttl.into())?;
            index.map_or(Ok(()), |index| send_over_v4(socket, index))
        }
        (SocketAddr::V6(_), index) => {
            socket.set_multicast_hops_v6(purpose.ttl.into())?;
            index.map_or(Ok(()), |index| socket.set_multicast_if_v6(index))
        }
    }
}

/// Selects the interface by its index: two modems may have the same address.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn send_over_v4(socket: &Socket, index: u32) -> io::Result<()> {
    let any = Ipv4Addr::UNSPECIFIED;
    Ok(rustix::net::sockopt::set_ip_multicast_if_with_ifindex(socket, &any, &any, index)?)
}

/// Selects the interface by an address in 0.0.0.0/8 that encodes its index, as BSD systems and
/// Windows accept it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn send_over_v4(socket: &Socket, index: u32) -> io::Result<()> {
    socket.set_multicast_if_v4(&Ipv4Addr::from_bits(index))
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) length: usize,
    pub(super) from: SocketAddr,
    /// Time since the kernel received it; zero if the kernel does not report it.
    pub(super) age: Duration,
    /// Total of datagrams dropped by the socket for lack of room before this one, since it was
    /// opened, modulo 2^32; zero if the kernel does not report it.
    pub(super) overflowed: u32,
}

/// Requests arrival timestamps and the number of dropped datagrams from the kernel. Without them,
/// datagrams count as fresh and none as lost.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn request_reports(socket: &Socket) {
    use nix::sys::socket::{
        setsockopt,
        sockopt::{ReceiveTimestampns, RxqOvfl},
    };
    if let Err(error) = setsockopt(socket, ReceiveTimestampns, &true) {
        tracing::debug!(%error, "the kernel does not report timestamps");
    }
    if let Err(error) = setsockopt(socket, RxqOvfl, &1) {
        tracing::debug!(%error, "the kernel does not report overflows");
    }
}

/// No effect: only Linux and Android report them.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn request_reports(_: &Socket) {}

/// Returns the buffer size in bytes that the kernel has granted, for messages.
pub(super) fn granted(socket: &UdpSocket) -> usize {
    // Linux reports twice the size, which includes its own overhead.
    let factor = if cfg!(any(target_os = "linux", target_os = "android")) { 2 } else { 1 };
    SockRef::from(socket).recv_buffer_size().unwrap_or(0) / factor
}

/// Reads a datagram, if there is one.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Arrival> {
    use std::{io::IoSliceMut, os::fd::AsRawFd as _, time::SystemTime};

    use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

    socket.try_io(tokio::io::Interest::READABLE, || {
        let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec, u32);
        let mut slices = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
        let (mut stamp, mut overflowed) = (None, 0);
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::ScmTimestampns(time) => stamp = Some(Duration::from(time)),
                ControlMessageOwned::RxqOvfl(count) => overflowed = count,
                _ => {}
            }
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let age = stamp.map_or(Duration::ZERO, |stamp| now.saturating_sub(stamp));
        let from = message.address.as_ref().and_then(socket_address);
        let from = from.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Arrival { length: message.bytes, from, age, overflowed })
    })
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn socket_address(from: &nix::sys::socket::SockaddrStorage) -> Option<SocketAddr> {
    let v4 = from.as_sockaddr_in().map(|one| SocketAddr::new(one.ip().into(), one.port()));
    v4.or_else(|| from.as_sockaddr_in6().map(|one| SocketAddr::V6((*one).into())))
}

/// Reads a datagram, if there is one.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Arrival> {
    let (length, from) = socket.try_recv_from(buffer)?;
    Ok(Arrival { length, from, age: Duration::ZERO, overflowed: 0 })
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use std::time::Instant;

    use super::*;

    fn socket(address: SocketAddr, is_in: bool) -> io::Result<UdpSocket> {
        open(&Purpose { address, is_in, interface: None, ttl: 1 }, None)
    }

    #[tokio::test]
    async fn addresses_overlap_where_the_system_refuses_one_of_two_sockets() {
        let all = ["127.0.0.1", "127.0.0.2", "0.0.0.0", "::", "::1", "::ffff:127.0.0.1"];
        let all = all.map(|ip| SocketAddr::new(ip.parse().expect("an address"), 0));
        let mut compared = 0;
        for (one, other) in all.into_iter().flat_map(|one| all.map(|other| (one, other))) {
            // Without IPv6 some addresses cannot be opened. Another process may occupy a port at
            // one of them.
            let Ok(_) = socket(other, true) else { continue };
            let outcomes = (0..5).filter_map(|_| {
                let first = socket(one, true).ok()?;
                let port = first.local_addr().ok()?.port();
                let (one, other) = (SocketAddr::new(one.ip(), port), SocketAddr::new(other.ip(), port));
                Some((socket(other, true).is_err(), crate::config::overlap(one, other)))
            });
            let outcomes: Vec<(bool, bool)> = outcomes.collect();
            let Some((_, overlap)) = outcomes.first().copied() else { continue };
            assert_eq!(outcomes.iter().all(|(is_refused, _)| *is_refused), overlap, "{one}, {other}");
            compared += 1;
        }
        assert!(compared >= 9, "{compared}");
    }

    #[test]
    fn a_link_local_sender_keeps_its_interface() {
        let on_link: SocketAddr = "[fe80::1%3]:7000".parse().expect("an address");
        assert_eq!(socket_address(&on_link.into()), Some(on_link));
        let v4: SocketAddr = "192.0.2.1:7000".parse().expect("an address");
        assert_eq!(socket_address(&v4.into()), Some(v4));
    }

    #[tokio::test]
    async fn a_datagram_for_a_group_has_the_ttl_of_the_flow() {
        for address in ["239.1.1.1:5000", "[ff15::1]:5000"] {
            let address: SocketAddr = address.parse().expect("an address");
            let socket = open(&Purpose { address, is_in: false, interface: None, ttl: 7 }, None);
            let socket = socket.expect("is opened");
            let options = SockRef::from(&socket);
            let ttl =
                if address.is_ipv4() { options.multicast_ttl_v4() } else { options.multicast_hops_v6() };
            assert_eq!(ttl.expect("is known"), 7);
        }
    }

    #[tokio::test]
    async fn a_datagram_is_as_old_as_the_kernel_says() {
        let receiver = socket(SocketAddr::from(([127, 0, 0, 1], 0)), true).expect("is opened");
        let address = receiver.local_addr().expect("is bound");
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("is bound");
        // The first request for timestamps activates them in the kernel a moment later.
        std::thread::sleep(Duration::from_millis(100));
        sender.send_to(b"old", address).expect("is sent");
        std::thread::sleep(Duration::from_millis(300));
        sender.send_to(b"fresh!", address).expect("is sent");
        receiver.readable().await.expect("can be read");
        let mut buffer = [0; 100];
        let begin = Instant::now();
        let old = receive(&receiver, &mut buffer).expect("is there");
        assert_eq!((&buffer[..old.length], old.from), (&b"old"[..], sender.local_addr().expect("is bound")));
        let fresh = receive(&receiver, &mut buffer).expect("is there");
        assert_eq!(&buffer[..fresh.length], b"fresh!");
        // The second datagram was read slightly later than the first.
        let between = begin.elapsed();
        assert!(
            old.age + between >= fresh.age + Duration::from_millis(300),
            "{:?}, {:?} and {between:?}",
            old.age,
            fresh.age
        );
        let none = receive(&receiver, &mut buffer).expect_err("is empty");
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
    }

    #[tokio::test]
    async fn datagrams_that_find_no_room_are_reported() {
        let receiver = socket(SocketAddr::from(([127, 0, 0, 1], 0)), true).expect("is opened");
        let address = receiver.local_addr().expect("is bound");
        SockRef::from(&receiver).set_recv_buffer_size(20_000).expect("is set");
        assert_eq!(granted(&receiver), 20_000);
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("is bound");
        for _ in 0..100 {
            sender.send_to(&[0; 1_000], address).expect("is sent");
        }
        receiver.readable().await.expect("can be read");
        let (mut buffer, mut read) = ([0; 2_000], 0);
        while receive(&receiver, &mut buffer).is_ok() {
            read += 1;
        }
        // The count arrives with the next datagram that has room.
        sender.send_to(b"next", address).expect("is sent");
        receiver.readable().await.expect("can be read");
        let next = receive(&receiver, &mut buffer).expect("is there");
        assert!(read < 100 && next.overflowed == 100 - read, "{read} read, {next:?}");
    }
}
