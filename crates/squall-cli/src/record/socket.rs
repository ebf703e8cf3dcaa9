//! Sockets of a recording: bound to an interface, with arrival timestamps of the kernel.

use std::{
    io::{self, IoSlice, IoSliceMut},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::fd::{AsFd as _, AsRawFd as _},
    time::{Duration, Instant, SystemTime},
};

use nix::{
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{
        ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
        sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo, ReceiveTimestampns},
    },
};
use socket2::{Domain, SockAddr, Socket, Type};

/// Size of the kernel buffers in bytes.
const BUFFER: usize = 4 << 20;

/// Milliseconds between checks of the clock.
const TICK: u8 = 2;

/// Clock in microseconds, starting at 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch(pub(super) Instant);

impl Epoch {
    pub(super) fn now(self) -> u64 {
        1 + u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX / 4)
    }
}

/// A received datagram.
pub(super) struct Arrival {
    pub(super) length: usize,
    pub(super) from: Option<SocketAddr>,
    /// Address of this host that it was sent to, on a listening socket.
    pub(super) to: Option<IpAddr>,
    /// Microseconds since the kernel received it.
    pub(super) age: u64,
}

/// Opens a socket to the host over an interface.
pub(super) fn connect(interface: &str, host: SocketAddr) -> io::Result<Socket> {
    let socket = open(host)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.connect(&SockAddr::from(host))?;
    Ok(socket)
}

/// Opens a listening socket.
pub(super) fn listen(address: SocketAddr) -> io::Result<Socket> {
    let socket = open(address)?;
    // The peer has a connected socket, which accepts answers only from the address that it sent to.
    match address {
        SocketAddr::V4(_) => setsockopt(&socket, Ipv4PacketInfo, &true)?,
        SocketAddr::V6(_) => setsockopt(&socket, Ipv6RecvPacketInfo, &true)?,
    }
    socket.bind(&SockAddr::from(address))?;
    Ok(socket)
}

fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    // The kernel may grant less, and may lack timestamps; then the program's own clock is used.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
    let _ = setsockopt(&socket, ReceiveTimestampns, &true);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Waits for a datagram; only briefly if there are packets to send.
pub(super) fn wait(socket: &Socket, sends: bool) -> io::Result<()> {
    let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, if sends { PollTimeout::from(TICK) } else { PollTimeout::NONE }) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads the next datagram, if there is one.
pub(super) fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
    let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec, libc::in6_pktinfo);
    let mut slices = [IoSliceMut::new(buffer)];
    let received =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::MSG_DONTWAIT);
    let message = match received {
        Ok(message) => message,
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (mut stamp, mut to) = (None, None);
    for one in message.cmsgs()? {
        match one {
            ControlMessageOwned::ScmTimestampns(time) => stamp = Some(Duration::from(time)),
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                to = Some(Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr)).into());
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => to = Some(info.ipi6_addr.s6_addr.into()),
            _ => {}
        }
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // If the system clock was changed, no packet counts as older than a second.
    let age = stamp.map_or(Duration::ZERO, |stamp| now.saturating_sub(stamp)).min(Duration::from_secs(1));
    let from = message.address.as_ref().and_then(|from| {
        let v4 = from.as_sockaddr_in().map(|one| SocketAddr::new(one.ip().into(), one.port()));
        v4.or_else(|| from.as_sockaddr_in6().map(|one| SocketAddr::V6((*one).into())))
    });
    Ok(Some(Arrival { length: message.bytes, from, to, age: age.as_micros() as u64 }))
}

/// Sends from this address of the host; `None` for that of the route.
pub(super) fn send(socket: &Socket, data: &[u8], to: SocketAddr, from: Option<IpAddr>) -> io::Result<usize> {
    let any = libc::in_addr { s_addr: 0 };
    let (v4, v6);
    let control = match from {
        None => None,
        Some(IpAddr::V4(ip)) => {
            let ip = libc::in_addr { s_addr: u32::from(ip).to_be() };
            v4 = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: ip, ipi_addr: any };
            Some(ControlMessage::Ipv4PacketInfo(&v4))
        }
        Some(IpAddr::V6(ip)) => {
            let ip = libc::in6_addr { s6_addr: ip.octets() };
            v6 = libc::in6_pktinfo { ipi6_addr: ip, ipi6_ifindex: 0 };
            Some(ControlMessage::Ipv6PacketInfo(&v6))
        }
    };
    let to = SockaddrStorage::from(to);
    Ok(sendmsg(
        socket.as_raw_fd(),
        &[IoSlice::new(data)],
        control.as_slice(),
        MsgFlags::MSG_DONTWAIT,
        Some(&to),
    )?)
}

/// Returns the bytes of the headers of an IP packet to the address.
pub(super) fn headers(address: SocketAddr) -> u32 {
    if address.is_ipv4() { 28 } else { 48 }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn an_answer_comes_from_the_address_that_was_asked() {
        let has_v6 = UdpSocket::bind("[::1]:0").is_ok();
        for (listens, asked) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "127.0.0.2"), ("[::]:0", "::1")] {
            if !has_v6 && listens.starts_with('[') {
                continue;
            }
            let listening = listen(listens.parse().expect("is an address")).expect("listens");
            let port = listening.local_addr().ok().and_then(|one| one.as_socket()).expect("is bound").port();
            let asked: IpAddr = asked.parse().expect("is an address");
            let asking =
                UdpSocket::bind(if asked.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).expect("is bound");
            asking.connect((asked, port)).expect("connects");
            asking.set_read_timeout(Some(Duration::from_secs(5))).expect("is set");
            asking.send(b"question").expect("is sent");

            let mut buffer = [0; 100];
            wait(&listening, false).expect("is there");
            let arrival = receive(&listening, &mut buffer).expect("is received").expect("is there");
            assert_eq!(arrival.to.map(|ip| ip.to_canonical()), Some(asked), "{listens}");
            let from = arrival.from.expect("has a sender");
            send(&listening, b"answer", from, arrival.to).expect("is sent");
            let length = asking.recv(&mut buffer).expect("is answered from there");
            assert_eq!(&buffer[..length], b"answer");
        }
    }
}
