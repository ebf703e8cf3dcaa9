//! The relay's sockets and their addresses.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use socket2::{Domain, Protocol, Socket, Type};

/// Socket buffer: a third of a second at 100 Mbit/s; the kernel allocates less if its limit is
/// lower.
const BUFFER: usize = 4 << 20;

/// Creates the socket to which clients of a path send: 127.77.*path + 1*.1 and an ephemeral port.
pub(super) fn client_side(path: usize, server: SocketAddr) -> io::Result<UdpSocket> {
    bind(if server.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { loopback(path, 1) })
}

/// Creates a socket from which the server receives one client of a path: 127.77.*path + 1*.2 and an
/// ephemeral port, or any address if the server is not on loopback.
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
    // Paths beyond 255 share addresses, but not ports.
    Ipv4Addr::new(127, 77, (path % 255 + 1) as u8, host).into()
}

fn bind(ip: IpAddr) -> io::Result<UdpSocket> {
    let address = SocketAddr::new(ip, 0);
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // Smaller buffers than requested are acceptable.
    let _ = socket.set_recv_buffer_size(BUFFER).and(socket.set_send_buffer_size(BUFFER));
    match socket.bind(&address.into()) {
        // Some systems have only the first loopback address.
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && ip.is_ipv4() => {
            socket.bind(&SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0).into())?;
        }
        result => result?,
    }
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Returns the datagrams that the kernel has dropped at these sockets because their buffers were
/// full, from Linux's table of UDP sockets; `None` if there is no such table or it does not contain
/// all of them.
pub(super) fn overruns<'a>(addresses: impl Iterator<Item = &'a SocketAddr>) -> Option<u64> {
    let table = fs::read_to_string("/proc/net/udp").ok()?;
    addresses.map(|address| drops(&table, *address)).sum()
}

/// Returns the last column of the socket's line. The second column is its address, in the byte
/// order of memory, and port.
fn drops(table: &str, address: SocketAddr) -> Option<u64> {
    let SocketAddr::V4(address) = address else { return None };
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port());
    let line = table.lines().find(|line| line.split_whitespace().nth(1) == Some(&local))?;
    line.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn finds_a_socket_in_the_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            12: 01014D7F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 35\n";
        assert_eq!(drops(table, "127.77.1.1:8080".parse().unwrap()), Some(35));
        assert_eq!(drops(table, "127.77.1.1:8081".parse().unwrap()), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_buffer_is_counted() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = receiver.local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(overruns([address].iter()), Some(0));
        for _ in 0..20_000 {
            sender.send_to(&[0; 1_000], address).unwrap();
        }
        assert!(overruns([address].iter()).unwrap() > 0);
    }
}
