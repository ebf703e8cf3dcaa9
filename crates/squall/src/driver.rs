//! The task of an endpoint: sockets on one side, the core on the other.
//!
//! One task for all sockets and sessions. Handles change the core under its lock and wake this task;
//! packets therefore never cross a channel. Each turn receives a batch, lets the core act, sends its
//! packets, and notifies the sessions; the lock is not held while packets are received.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::BytesMut;
use squall_proto::{Ecn, NetPath};

use crate::{
    error,
    path_manager::PathManager,
    shared::{Core, Order, Shared},
    socket::ReceiveBuffers,
    sockets::Sockets,
    timer::Timer,
    watch::{InterfaceWatch, Look},
};

/// Turns after which other tasks of the runtime get theirs.
const MAX_TURNS: usize = 16;

/// Transmits a turn sends at most before it looks for what has arrived.
const MAX_TRANSMITS: usize = 16;

/// Packets handed to the core before it may answer. A full batch of the kernel holds some two thousand:
/// acknowledging them at once would add milliseconds to the round trip, and have the peer burst.
const MAX_UNANSWERED: usize = 64;

/// Drives an endpoint until nothing is left of it.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    sockets: Sockets,
    /// Of the sessions that this side started.
    managers: Vec<PathManager>,
    /// While there is a session that this side started.
    watch: Option<InterfaceWatch>,
    buffers: ReceiveBuffers,
    out: Vec<u8>,
    timer: Timer,
}

impl Driver {
    /// Must be called within a runtime.
    pub(crate) fn new(shared: Arc<Shared>, sockets: Sockets) -> Self {
        let (buffers, timer) = (ReceiveBuffers::new(), Timer::new());
        Self { shared, sockets, managers: Vec::new(), watch: None, buffers, out: Vec::new(), timer }
    }

    /// Executes a request of a handle.
    fn execute(&mut self, order: Order) {
        match order {
            Order::Connect(request, answer) => {
                let started = PathManager::start(*request, &self.shared, &mut self.sockets);
                let started = started.map(|(session, manager)| {
                    self.managers.push(manager);
                    session
                });
                self.watch.iter_mut().for_each(InterfaceWatch::refresh);
                // A session that is not waited for any more ends as it is dropped.
                drop(answer.send(started));
            }
            Order::Interfaces(session, plan) => {
                if let Some(manager) = self.managers.iter_mut().find(|manager| manager.session() == session) {
                    manager.set_plan(plan);
                    self.watch.iter_mut().for_each(InterfaceWatch::refresh);
                }
            }
        }
    }

    /// Opens and closes paths as interfaces come and go. May bind sockets by a call of the application's, so not to be called
    /// with the core locked.
    fn manage_paths(&mut self, cx: &mut Context<'_>) {
        while !self.managers.is_empty() {
            let listing = self.managers.iter().any(|manager| manager.plan().is_of_the_system());
            let is_missing = self.managers.iter().any(PathManager::is_missing);
            let watch = self.watch.get_or_insert_with(InterfaceWatch::new);
            let Poll::Ready(Look { found, lost }) = watch.poll(cx, listing, is_missing) else { return };
            let Self { managers, shared, sockets, .. } = self;
            managers.retain_mut(|manager| {
                lost.iter().for_each(|lost| manager.suspect(lost, shared));
                manager.update(&found, shared, sockets)
            });
        }
        self.watch = None;
    }

    /// Passes packets that have arrived to the core. Returns whether there may be more.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let mut received = false;
        for index in 0..self.sockets.len() {
            let (socket, _) = self.sockets.at(index);
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
        let (socket, local) = self.sockets.at(index);
        let (meta, contents) = self.buffers.message(entry);
        let mut core = self.shared.lock();
        let core = &mut *core;
        let now = Instant::now();
        let name = core.routes.name(socket.key, local, meta.dst_ip);
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

    /// Lets the core act on the time, and sends its packets. Returns whether there may be more.
    fn transmit(&mut self, cx: &mut Context<'_>) -> bool {
        for socket in self.sockets.iter_mut() {
            // Errors here are those of packets that are lost.
            let _ = socket.flush(cx);
        }
        let most = self.sockets.max_segments();
        let mut core = self.shared.lock();
        let now = Instant::now();
        let Core { radios, proto, routes, .. } = &mut *core;
        radios.read(now, proto, routes);
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
                if error::is_unreachable(&error) {
                    let NetPath { local, remote } = transmit.path;
                    core.proto.handle_unreachable(Instant::now(), local, Some(remote));
                }
                core.send_error = Some((transmit.path.remote, error::plain(&error)));
            }
        }
        true
    }

    /// Sends the last packets, until the kernel accepts no more.
    fn send_last(&mut self, core: &mut Core) {
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
        let orders = {
            let mut core = shared.lock();
            core.set_waker(cx.waker());
            std::mem::take(&mut core.orders)
        };
        for order in orders {
            this.execute(order);
        }
        this.manage_paths(cx);
        for _ in 0..MAX_TURNS {
            let mut busy = this.receive(cx);
            busy |= this.transmit(cx);
            let at = {
                let mut core = shared.lock();
                busy |= core.announce(&shared);
                if !core.held && core.proto.is_empty() && core.orders.is_empty() {
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
    /// Either nothing is left, or the runtime ends: then sessions are closed, or their peers would have to time out.
    fn drop(&mut self) {
        let shared = self.shared.clone();
        let mut core = shared.lock();
        core.close_all(0, "");
        self.send_last(&mut core);
        core.retire(&shared);
    }
}
