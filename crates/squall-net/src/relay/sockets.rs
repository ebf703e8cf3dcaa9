//! The relay's sockets and their addresses.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use socket2::{Domain, Protocol, Socket, Type};

/// Holds a quarter of a second at 100 Mbit/s; the kernel gives less if its limit is lower.
const BUFFER: usize = 4 << 20;

/// The socket to which clients of a path send: 127.77.*path + 1*.1 and a port of the system's choice.
pub(super) fn client_side(path: usize, server: SocketAddr) -> io::Result<UdpSocket> {
    bind(if server.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { loopback(path, 1) })
}

/// A socket from which the server hears one client of a path: 127.77.*path + 1*.2 and a fresh port, or any
/// address if the server is elsewhere.
pub(super) fn server_side(path: usize, server: SocketAddr) -> io::Result<UdpSocket> {
    let local = match server.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => loopback(path, 2),
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(ip) if ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = bind(local)?;
    socket.connect(server)?;
    Ok(socket)
}

fn loopback(path: usize, host: u8) -> IpAddr {
    // Paths beyond 255 share addresses, not ports.
    Ipv4Addr::new(127, 77, (path % 255 + 1) as u8, host).into()
}

fn bind(ip: IpAddr) -> io::Result<UdpSocket> {
    let address = SocketAddr::new(ip, 0);
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // Smaller buffers than asked for are still buffers.
    let _ = socket.set_recv_buffer_size(BUFFER).and(socket.set_send_buffer_size(BUFFER));
    match socket.bind(&address.into()) {
        // Some systems have no loopback address but the first.
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && ip.is_ipv4() => {
            socket.bind(&SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0).into())?;
        }
        result => result?,
    }
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
