//! UDP sockets: one per interface or address, each with its own queue.

#[cfg(target_os = "linux")]
use std::os::fd::{AsFd as _, OwnedFd};
use std::{
    collections::VecDeque,
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr},
    task::{Context, Poll},
    time::Instant,
};

use noq_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use socket2::SockRef;
use tokio::{io::Interest, net::UdpSocket};

use super::{network::Network, send_errors::SendErrors};
use crate::error::{is_unreachable, plain};

/// Kernel receive buffer in bytes, for packets that arrive while the driver does other work: 30 ms
/// at 1 Gbps. Linux grants at most `net.core.rmem_max`.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Kernel send buffer in bytes. Smaller than [`RECEIVE_BUFFER`], because the scheduler no longer
/// controls the packets in it.
const SEND_BUFFER: usize = 1 << 20;

/// Largest number of transmits that wait for the kernel. Beyond it the oldest is dropped, as in a
/// router, and QUIC treats it as lost.
const MAX_PENDING: usize = 64;

/// Consecutive errors after which a socket is no longer read.
const MAX_READ_ERRORS: u32 = 64;

/// Socket of one interface or address.
pub(crate) struct Socket {
    pub(crate) key: SocketKey,
    /// Interface, network or address, for messages.
    name: String,
    io: UdpSocket,
    state: UdpSocketState,
    pending: VecDeque<Pending>,
    read_errors: u32,
    send_errors: SendErrors,
}

/// Identifier of a socket, unique over the life of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketKey(pub(crate) u64);

/// Binding of a socket in addition to its address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding<'a> {
    /// None: the routing table decides.
    Address,
    /// None, on an address that other workers of this endpoint share.
    #[cfg(target_os = "linux")]
    Shared,
    /// The interface of this name, if the system permits it.
    Device(&'a str),
    /// A network, which binds the socket itself.
    Network(&'a Network),
}

struct Pending {
    packet: Packet,
    contents: Vec<u8>,
}

/// Destination and send options of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) remote: SocketAddr,
    /// Source address, on a socket that has several.
    pub(crate) source: Option<IpAddr>,
    pub(crate) segment_size: Option<usize>,
    pub(crate) ecn: Option<squall_proto::Ecn>,
}

impl Socket {
    /// Binds a socket to an address, and to an interface or a network.
    pub(crate) fn bind(key: SocketKey, addr: SocketAddr, binding: Binding<'_>) -> io::Result<Self> {
        let socket = socket2::Socket::new(
            socket2::Domain::for_address(addr),
            socket2::Type::DGRAM,
            Some(socket2::Protocol::UDP),
        )?;
        if addr.is_ipv6() {
            socket.set_only_v6(!addr.ip().is_unspecified())?;
        }
        socket.set_nonblocking(true)?;
        let socket = std::net::UdpSocket::from(socket);
        match binding {
            Binding::Address => {}
            #[cfg(target_os = "linux")]
            Binding::Shared => SockRef::from(&socket).set_reuse_port(true)?,
            Binding::Device(device) => bind_device(&socket, device),
            Binding::Network(network) => network.bind(&socket)?,
        }
        let options = SockRef::from(&socket);
        options.bind(&addr.into())?;
        let enlarged =
            [options.set_recv_buffer_size(RECEIVE_BUFFER), options.set_send_buffer_size(SEND_BUFFER)];
        for error in enlarged.into_iter().filter_map(Result::err) {
            tracing::debug!(%addr, %error, "socket buffer stays as it is");
        }
        let io = UdpSocket::from_std(socket)?;
        let state = UdpSocketState::new((&io).into())?;
        let name = match binding {
            Binding::Device(device) => device.to_owned(),
            Binding::Network(network) => network.name().to_owned(),
            _ => addr.ip().to_string(),
        };
        Ok(Self {
            key,
            name,
            io,
            state,
            pending: VecDeque::new(),
            read_errors: 0,
            send_errors: SendErrors::default(),
        })
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Allows other sockets on the same address, if they share it too; returns a duplicate of the
    /// socket's descriptor.
    #[cfg(target_os = "linux")]
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        SockRef::from(&self.io).set_reuse_port(true)?;
        self.io.as_fd().try_clone_to_owned()
    }

    /// Returns the number of packets that one call can send.
    pub(crate) fn max_segments(&self) -> usize {
        self.state.max_gso_segments().get()
    }

    /// Receives pending messages, up to a batch.
    pub(crate) fn poll_receive(&mut self, cx: &mut Context<'_>, buffers: &mut ReceiveBuffers) -> Poll<Batch> {
        while self.read_errors < MAX_READ_ERRORS {
            if !self.is_readable(cx) {
                return Poll::Pending;
            }
            let mut count = 0;
            let received = self.io.try_io(Interest::READABLE, || {
                let (mut slices, meta) = buffers.split(self.state.gro_segments().get());
                count = self.state.recv((&self.io).into(), &mut slices, meta)?;
                // A batch that is not full has emptied the socket: a second call would only say so.
                if count < BATCH_SIZE { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            match received {
                _ if count > 0 => {
                    self.read_errors = 0;
                    return Poll::Ready(Batch { count, is_last: !self.is_readable(cx) });
                }
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.read_errors += 1;
                    tracing::debug!(%error, "receiving failed");
                }
            }
        }
        Poll::Pending
    }

    /// Returns `true` if a message may have arrived; otherwise the task is woken by the next one.
    fn is_readable(&self, cx: &mut Context<'_>) -> bool {
        matches!(self.io.poll_recv_ready(cx), Poll::Ready(Ok(())))
    }

    /// Sends a packet, or queues it when the kernel has no room. After an error the packets are
    /// lost, as on any lossy link.
    pub(crate) fn send(
        &mut self,
        cx: &mut Context<'_>,
        packet: Packet,
        contents: &[u8],
    ) -> Result<(), io::Error> {
        if self.pending.is_empty() {
            match self.try_send(&packet, contents) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return self.log_error(packet.remote, sent),
            }
        }
        if self.pending.len() >= MAX_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(Pending { packet, contents: contents.to_vec() });
        self.flush(cx)
    }

    /// Sends queued packets until the kernel accepts no more; wakes the task when it accepts more.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) -> Result<(), io::Error> {
        let mut outcome = Ok(());
        while let Some(next) = self.pending.front() {
            if !matches!(self.io.poll_send_ready(cx), Poll::Ready(Ok(()))) {
                break;
            }
            let sent = self.try_send(&next.packet, &next.contents);
            if !matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                let remote = next.packet.remote;
                self.pending.pop_front();
                outcome = outcome.and(self.log_error(remote, sent));
            }
        }
        outcome
    }

    /// Sends once without queueing, outside of any task, for the last packets of an endpoint.
    pub(crate) fn send_last(&self, packet: &Packet, contents: &[u8]) {
        // The endpoint is gone, so an error cannot be reported.
        let _ = self.state.try_send((&self.io).into(), &transmit(packet, contents));
    }

    fn try_send(&self, packet: &Packet, contents: &[u8]) -> io::Result<()> {
        let send = |contents: &[u8], packet: &Packet| {
            self.io.try_io(Interest::WRITABLE, || {
                self.state.try_send((&self.io).into(), &transmit(packet, contents))
            })
        };
        let could_segment = self.max_segments() > 1;
        match (send(contents, packet), packet.segment_size) {
            // The interface does not support segmentation after all: split the packets here.
            (Err(_), Some(size)) if could_segment && self.max_segments() == 1 => {
                let single = Packet { segment_size: None, ..*packet };
                contents.chunks(size).try_for_each(|piece| send(piece, &single))
            }
            (sent, _) => sent,
        }
    }

    /// Logs a send error, rate-limited per peer, and returns it. A packet too large for the link is
    /// not an error: it is a path MTU probe that found the limit. A missing route is not logged as
    /// a warning: the session reports the silent path, and each connection attempt uses a new
    /// socket, whose first error would add a line.
    fn log_error(&mut self, remote: SocketAddr, sent: io::Result<()>) -> io::Result<()> {
        let Err(error) = sent else { return Ok(()) };
        if noq_udp::is_msg_size_err(&error) {
            return Ok(());
        }
        if let Some(before) = self.send_errors.record(Instant::now(), remote.ip()) {
            let words = describe(&self.name, remote, &error, before);
            match is_unreachable(&error) {
                true => tracing::debug!("{words}"),
                false => tracing::warn!("{words}"),
            }
        }
        Err(error)
    }
}

/// Describes a failed send, with the number of unlogged failures before it.
fn describe(name: &str, remote: SocketAddr, error: &io::Error, before: u64) -> String {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable};
    let words = match error.kind() {
        HostUnreachable | NetworkDown | NetworkUnreachable => format!("{name}: no route to {remote}"),
        _ => format!("{name}: cannot send to {remote}: {}", plain(error)),
    };
    match before {
        0 => words,
        1 => format!("{words} (1 send failed since the last line)"),
        _ => format!("{words} ({before} sends failed since the last line)"),
    }
}

fn transmit<'a>(packet: &Packet, contents: &'a [u8]) -> Transmit<'a> {
    let ecn = packet.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
    let Packet { remote, source, segment_size, .. } = *packet;
    Transmit { destination: remote, ecn, contents, segment_size, src_ip: source }
}

/// Restricts packets to the interface, regardless of the routing table. Without permission the
/// socket is bound to the address only, and the routing table decides.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn bind_device(socket: &std::net::UdpSocket, device: &str) {
    if let Err(error) = SockRef::from(socket).bind_device(Some(device.as_bytes())) {
        tracing::warn!(device, %error, "cannot bind to the interface, only to its address");
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn bind_device(_: &std::net::UdpSocket, device: &str) {
    tracing::debug!(device, "bound to the address of the interface only");
}

/// Messages received in one call.
pub(crate) struct Batch {
    /// Number of filled entries of the buffers, at least 1.
    pub(crate) count: usize,
    /// There are no more now.
    pub(crate) is_last: bool,
}

/// Receive memory, shared by all sockets of an endpoint.
pub(crate) struct ReceiveBuffers {
    memory: Vec<u8>,
    /// Bytes per message.
    slot: usize,
    meta: [RecvMeta; BATCH_SIZE],
}

/// Largest UDP payload; the kernel merges packets up to this size.
const MAX_DATAGRAM: usize = 65_535;

/// Largest single packet: no QUIC packet here exceeds an Ethernet frame.
const MAX_PACKET: usize = 2048;

impl ReceiveBuffers {
    pub(crate) fn new() -> Self {
        Self { memory: Vec::new(), slot: 0, meta: [RecvMeta::default(); BATCH_SIZE] }
    }

    /// Returns buffers for a batch of messages, each of up to `segments` packets.
    fn split(&mut self, segments: usize) -> ([IoSliceMut<'_>; BATCH_SIZE], &mut [RecvMeta; BATCH_SIZE]) {
        self.slot = (segments * MAX_PACKET).min(MAX_DATAGRAM);
        if self.memory.len() < self.slot * BATCH_SIZE {
            // Allocated zeroed: only pages that are received into occupy memory.
            self.memory = vec![0; self.slot * BATCH_SIZE];
        }
        let mut slots = self.memory.chunks_exact_mut(self.slot);
        (std::array::from_fn(|_| IoSliceMut::new(slots.next().unwrap_or_default())), &mut self.meta)
    }

    /// Returns a message of the last batch and its metadata.
    pub(crate) fn message(&self, entry: usize) -> (&RecvMeta, &[u8]) {
        let meta = &self.meta[entry];
        (meta, &self.memory[entry * self.slot..][..meta.len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_errors_are_in_words() {
        let remote = SocketAddr::from(([192, 0, 2, 1], 4433));
        let words = |kind: io::ErrorKind, before| describe("wlan0", remote, &kind.into(), before);
        let route = "wlan0: no route to 192.0.2.1:4433";
        assert_eq!(words(io::ErrorKind::NetworkUnreachable, 0), route);
        assert_eq!(
            words(io::ErrorKind::HostUnreachable, 36),
            format!("{route} (36 sends failed since the last line)")
        );
        let denied = "wlan0: cannot send to 192.0.2.1:4433: permission denied";
        assert_eq!(words(io::ErrorKind::PermissionDenied, 0), denied);
    }
}
