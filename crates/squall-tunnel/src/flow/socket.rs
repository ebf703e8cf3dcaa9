//! Sockets of flows.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use super::receive;
use crate::config::End;

/// Bytes that the kernel may keep: a large key frame comes, or leaves, all at once.
const BUFFER: usize = 4 << 20;

/// A socket for this end of a flow: bound to its address, or for sending to it.
pub(super) fn open(end: End) -> io::Result<UdpSocket> {
    let (End::In(address) | End::Out(address)) = end;
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // The kernel gives what it may; a smaller buffer is no reason to do without.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
    receive::stamp(&socket);
    match end {
        End::In(address) => listen(&socket, address)?,
        End::Out(address) => {
            let any: IpAddr =
                if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            socket.bind(&SocketAddr::new(any, 0).into())?;
        }
    }
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket.into())
}

/// Binds, and joins the group of a multicast address.
fn listen(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.ip().is_multicast() {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    match address.ip() {
        IpAddr::V4(group) if group.is_multicast() => socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(group) if group.is_multicast() => socket.join_multicast_v6(&group, 0),
        _ => Ok(()),
    }
}
