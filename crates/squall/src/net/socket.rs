//! UDP sockets: one for each interface or address, each with a queue of its own.

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

/// Kernel buffer for what arrives while the driver is elsewhere, in bytes: 30 ms at 1 Gbps. Linux
/// grants no more than `net.core.rmem_max`.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Kernel buffer for what leaves, in bytes. Small beside the one above: what waits here is out of the
/// scheduler's hands.
const SEND_BUFFER: usize = 1 << 20;

/// Transmits that wait for the kernel at most. When more come, the oldest is dropped, as a router
/// would: QUIC takes it for a loss.
const MAX_PENDING: usize = 64;

/// Errors in a row after which a socket is no longer read.
const MAX_READ_ERRORS: u32 = 64;

/// A socket of one interface or address.
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

/// Identifies a socket, over the whole life of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketKey(pub(crate) u64);

/// What a socket is bound to beside its address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding<'a> {
    /// Nothing: the routing table decides.
    Address,
    /// Nothing, on an address that other workers of this endpoint have.
    #[cfg(target_os = "linux")]
    Shared,
    /// The interface of this name, when the system allows it.
    Device(&'a str),
    /// A network that sees to it itself.
    Network(&'a Network),
}

struct Pending {
    packet: Packet,
    contents: Vec<u8>,
}

/// Where packets go, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) remote: SocketAddr,
    /// Address to send from, on a socket that has several.
    pub(crate) source: Option<IpAddr>,
    pub(crate) segment_size: Option<usize>,
    pub(crate) ecn: Option<squall_proto::Ecn>,
}

impl Socket {
    /// Binds to an address, and to an interface or a network.
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

    /// Lets others be bound to the same address, if they share it too; returns another handle of the socket.
    #[cfg(target_os = "linux")]
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        SockRef::from(&self.io).set_reuse_port(true)?;
        self.io.as_fd().try_clone_to_owned()
    }

    /// Packets that one call can send.
    pub(crate) fn max_segments(&self) -> usize {
        self.state.max_gso_segments().get()
    }

    /// Receives what is there, up to a batch; returns how many entries of `meta` are filled.
    pub(crate) fn poll_receive(&mut self, cx: &mut Context<'_>, buffers: &mut ReceiveBuffers) -> Poll<usize> {
        while self.read_errors < MAX_READ_ERRORS {
            match self.io.poll_recv_ready(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) | Poll::Pending => return Poll::Pending,
            }
            let received = self.io.try_io(Interest::READABLE, || {
                let (mut slices, meta) = buffers.split(self.state.gro_segments().get());
                self.state.recv((&self.io).into(), &mut slices, meta)
            });
            match received {
                Ok(count) => {
                    self.read_errors = 0;
                    return Poll::Ready(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.read_errors += 1;
                    tracing::debug!(%error, "receiving failed");
                }
            }
        }
        Poll::Pending
    }

    /// Sends, or keeps for later when the kernel has no room. After an error
    /// the packets are lost, as on any bad link.
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

    /// Sends waiting packets until the kernel accepts no more; wakes the task when it accepts more.
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

    /// Sends without waiting or keeping, outside of any task: the last packets of an endpoint.
    pub(crate) fn send_last(&self, packet: &Packet, contents: &[u8]) {
        // The endpoint is gone, and an error has no receiver.
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
            // The interface turned out not to segment: do it here.
            (Err(_), Some(size)) if could_segment && self.max_segments() == 1 => {
                let single = Packet { segment_size: None, ..*packet };
                contents.chunks(size).try_for_each(|piece| send(piece, &single))
            }
            (sent, _) => sent,
        }
    }

    /// A packet that is larger than the link takes is a path MTU probe that found its answer. Other
    /// errors are logged now and then for each peer. A missing route is no warning: the session reports that the path is
    /// silent, and every attempt to connect has a socket of its own, whose first error would be another line.
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

/// A failed send, with the number of those before it that were not logged.
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

/// Restricts packets to the interface, whatever the routing table says. Without the permission, the socket is bound to
/// the address only, and the routing table decides.
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

/// Memory to receive into, shared by all sockets of an endpoint.
pub(crate) struct ReceiveBuffers {
    memory: Vec<u8>,
    /// Bytes for each message.
    slot: usize,
    meta: [RecvMeta; BATCH_SIZE],
}

/// Largest UDP payload, which the kernel does not exceed when it joins packets.
const MAX_DATAGRAM: usize = 65_535;

/// Largest packet that arrives alone: no QUIC packet exceeds an Ethernet frame here.
const MAX_PACKET: usize = 2048;

impl ReceiveBuffers {
    pub(crate) fn new() -> Self {
        Self { memory: Vec::new(), slot: 0, meta: [RecvMeta::default(); BATCH_SIZE] }
    }

    /// Room for a batch of messages, each of up to `segments` packets.
    fn split(&mut self, segments: usize) -> ([IoSliceMut<'_>; BATCH_SIZE], &mut [RecvMeta; BATCH_SIZE]) {
        self.slot = (segments * MAX_PACKET).min(MAX_DATAGRAM);
        if self.memory.len() < self.slot * BATCH_SIZE {
            // Fresh from the system, so that only what is received into takes memory.
            self.memory = vec![0; self.slot * BATCH_SIZE];
        }
        let mut slots = self.memory.chunks_exact_mut(self.slot);
        (std::array::from_fn(|_| IoSliceMut::new(slots.next().unwrap_or_default())), &mut self.meta)
    }

    /// One of the messages received last, and its metadata.
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
