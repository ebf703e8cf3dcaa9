//! The task of an endpoint: sockets on one side, the core on the other.
//!
//! One task for all sockets and sessions. Handles change the core under its lock and wake this task;
//! packets therefore never cross a channel. Each turn receives a batch, lets the core act, sends what
//! it has, and tells sessions what has happened; the lock is not held while packets are received.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::BytesMut;
use squall_proto::{Ecn, NetPath, Transmit};

use crate::{
    error,
    keeper::Keeper,
    routes::Routes,
    shared::{Core, Shared},
    socket::{Binding, Packet, ReceiveBuffers, Socket, SocketKey},
    timer::Timer,
};

/// Turns after which other tasks of the runtime get theirs.
const MAX_TURNS: usize = 16;

/// Transmits a turn sends at most before it looks for what has arrived.
const MAX_TRANSMITS: usize = 16;

/// Packets handed to the core before it may answer. A full batch of the kernel holds some two thousand:
/// acknowledging them at once would add milliseconds to the round trip, and have the peer burst.
const MAX_UNANSWERED: usize = 64;

/// The sockets of an endpoint.
#[derive(Default)]
pub(crate) struct Sockets {
    all: Vec<(Socket, SocketAddr)>,
    next: u64,
}

/// Drives an endpoint until nothing is left of it.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    sockets: Sockets,
    keeper: Option<Keeper>,
    buffers: ReceiveBuffers,
    out: Vec<u8>,
    timer: Timer,
}

impl Sockets {
    /// Binds a further socket; returns its key and its address.
    pub(crate) fn bind(
        &mut self,
        addr: SocketAddr,
        binding: Binding<'_>,
    ) -> std::io::Result<(SocketKey, SocketAddr)> {
        self.next += 1;
        let key = SocketKey(self.next);
        let socket = Socket::bind(key, addr, binding)?;
        let local = socket.local_addr()?;
        self.all.push((socket, local));
        Ok((key, local))
    }

    /// Closes a socket.
    pub(crate) fn remove(&mut self, key: SocketKey) {
        self.all.retain(|(socket, _)| socket.key != key);
    }

    /// Packets of one transmit that every socket can send in one call.
    fn max_segments(&self) -> usize {
        self.all.iter().map(|(socket, _)| socket.max_segments()).min().unwrap_or(1)
    }

    /// The socket a transmit is to leave from; `None` when it is gone.
    fn route(&mut self, routes: &Routes, transmit: &Transmit) -> Option<(&mut Socket, Packet)> {
        let route = routes.get(transmit.path.local)?;
        let (socket, _) = self.all.iter_mut().find(|(socket, _)| socket.key == route.socket)?;
        let Transmit { path, segment_size, ecn, .. } = *transmit;
        Some((socket, Packet { remote: path.remote, source: route.source, segment_size, ecn }))
    }
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, sockets: Sockets, keeper: Option<Keeper>) -> Self {
        Self { shared, sockets, keeper, buffers: ReceiveBuffers::new(), out: Vec::new(), timer: Timer::new() }
    }

    /// Hands what has arrived to the core. Says whether there may be more.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let mut received = false;
        for index in 0..self.sockets.all.len() {
            let (socket, _) = &mut self.sockets.all[index];
            let Poll::Ready(count) = socket.poll_receive(cx, &mut self.buffers) else { continue };
            received = true;
            let mut since_answer = 0;
            for entry in 0..count {
                since_answer += self.hand_over(index, entry);
                if since_answer >= MAX_UNANSWERED {
                    self.transmit(cx);
                    since_answer = 0;
                }
            }
        }
        received
    }

    /// Hands the packets of one received message to the core; returns how many.
    fn hand_over(&mut self, index: usize, entry: usize) -> usize {
        let (socket, local) = &self.sockets.all[index];
        let (meta, contents) = self.buffers.message(entry);
        let mut core = self.shared.lock();
        let core = &mut *core;
        let now = Instant::now();
        let name = core.routes.name(socket.key, *local, meta.dst_ip);
        let net = NetPath { local: name, remote: meta.addr };
        let ecn = meta.ecn.and_then(|ecn| Ecn::from_bits(ecn as u8));
        let mut rest = BytesMut::from(contents);
        let mut packets = 0;
        while !rest.is_empty() {
            let packet = rest.split_to(meta.stride.clamp(1, rest.len()));
            core.proto.handle(now, net, ecn, packet);
            packets += 1;
        }
        packets
    }

    /// Lets the core act on the time, and sends what it has. Says whether there may be more.
    fn transmit(&mut self, cx: &mut Context<'_>) -> bool {
        for (socket, _) in &mut self.sockets.all {
            // Errors here are those of packets that are lost.
            let _ = socket.flush(cx);
        }
        let most = self.sockets.max_segments();
        let mut core = self.shared.lock();
        let now = Instant::now();
        core.read_radios(now);
        if core.proto.poll_timeout().is_some_and(|at| at <= now) {
            core.proto.handle_timeout(now);
        }
        for _ in 0..MAX_TRANSMITS {
            self.out.clear();
            let Some(transmit) = core.proto.poll_transmit(Instant::now(), most, &mut self.out) else {
                core.flushes += 1;
                return false;
            };
            let Some((socket, packet)) = self.sockets.route(&core.routes, &transmit) else { continue };
            if let Err(error) = socket.send(cx, packet, &self.out[..transmit.size]) {
                core.send_error = Some(error::plain(&error));
            }
        }
        true
    }

    /// Sends what is left to say, as far as the kernel takes it.
    fn say_last(&mut self, core: &mut Core) {
        for _ in 0..MAX_TRANSMITS {
            self.out.clear();
            let Some(transmit) = core.proto.poll_transmit(Instant::now(), 1, &mut self.out) else { break };
            if let Some((socket, packet)) = self.sockets.route(&core.routes, &transmit) {
                socket.send_last(&packet, &self.out[..transmit.size]);
            }
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let shared = this.shared.clone();
        let asked = {
            let mut core = shared.lock();
            core.set_waker(cx.waker());
            core.plan.take()
        };
        if let Some(keeper) = &mut this.keeper
            && let Some(found) = keeper.poll_look(cx, asked)
        {
            keeper.look_over(&found, &shared, &mut this.sockets);
        }
        for _ in 0..MAX_TURNS {
            let mut busy = this.receive(cx);
            busy |= this.transmit(cx);
            let at = {
                let mut core = shared.lock();
                busy |= core.announce(&shared);
                if !core.listening && core.proto.is_empty() {
                    return Poll::Ready(());
                }
                core.proto.poll_timeout().into_iter().chain(core.radios.due()).min()
            };
            if !busy && !this.timer.poll(cx, at) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    /// Either nothing is left, or the runtime ends: then peers are told, rather than left to time out.
    fn drop(&mut self) {
        let shared = self.shared.clone();
        let mut core = shared.lock();
        core.close_all(0, "");
        self.say_last(&mut core);
        core.retire(&shared);
    }
}
