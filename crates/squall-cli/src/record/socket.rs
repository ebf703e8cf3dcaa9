//! Sockets of a recording: over one interface, and with the kernel's times of arrival.

use std::{
    io::{self, IoSliceMut},
    net::SocketAddr,
    os::fd::{AsFd as _, AsRawFd as _},
    time::{Duration, Instant, SystemTime},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{
        ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt::ReceiveTimestampns,
    },
};
use socket2::{Domain, SockAddr, Socket, Type};

/// Bytes of the kernel's buffers.
const BUFFER: usize = 4 << 20;

/// Milliseconds between looks at the clock.
const TICK: u8 = 2;

/// A clock in microseconds, from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch(pub(super) Instant);

impl Epoch {
    pub(super) fn now(self) -> u64 {
        1 + u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX / 4)
    }
}

/// A datagram that has arrived.
pub(super) struct Arrival {
    pub(super) length: usize,
    pub(super) from: Option<SocketAddr>,
    /// Time since the kernel received it.
    pub(super) age: u64,
}

/// A socket to the host over an interface.
pub(super) fn connect(interface: &str, host: SocketAddr) -> io::Result<Socket> {
    let socket = open(host)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.connect(&SockAddr::from(host))?;
    Ok(socket)
}

/// A socket that listens.
pub(super) fn listen(address: SocketAddr) -> io::Result<Socket> {
    let socket = open(address)?;
    socket.bind(&SockAddr::from(address))?;
    Ok(socket)
}

fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    // The kernel may grant less, and have no times; then those of the program count.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
    let _ = setsockopt(&socket, ReceiveTimestampns, &true);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Waits for a datagram: with something to send for a moment at most.
pub(super) fn wait(socket: &Socket, sends: bool) -> io::Result<()> {
    let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, if sends { PollTimeout::from(TICK) } else { PollTimeout::NONE }) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The next datagram, if there is one.
pub(super) fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
    let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let mut slices = [IoSliceMut::new(buffer)];
    let received =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::MSG_DONTWAIT);
    let message = match received {
        Ok(message) => message,
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stamp = message.cmsgs()?.find_map(|one| match one {
        ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time)),
        _ => None,
    });
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // A system clock that was set meanwhile makes no packet a second old.
    let age = stamp.map_or(Duration::ZERO, |stamp| now.saturating_sub(stamp)).min(Duration::from_secs(1));
    let from = message.address.as_ref().and_then(|from| {
        let v4 = from.as_sockaddr_in().map(|one| SocketAddr::new(one.ip().into(), one.port()));
        v4.or_else(|| from.as_sockaddr_in6().map(|one| SocketAddr::V6((*one).into())))
    });
    Ok(Some(Arrival { length: message.bytes, from, age: age.as_micros() as u64 }))
}

/// Bytes of the headers of an IP packet to the address.
pub(super) fn headers(address: SocketAddr) -> u32 {
    if address.is_ipv4() { 28 } else { 48 }
}
