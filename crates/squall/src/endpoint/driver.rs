//! The task of a worker: sockets on one side, the core on the other.
//!
//! One task for all sockets and sessions of the worker. Handles change the core under its lock and wake this task;
//! packets therefore never cross a channel. Each turn receives a batch, drives the core by the loop of
//! [`squall_proto::drive`], and notifies sessions; the lock is not held while packets are received.

use std::{
    future::Future,
    ops::Range,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use squall_proto::{
    Ecn, Interface, NetPath, Transmit,
    drive::{self, Datagram, Io, Unreachable},
    worker_of,
};

use super::{path_manager::PathManager, timer::Timer};
use crate::{
    error,
    net::{
        socket::{Batch, ReceiveBuffers},
        sockets::Sockets,
        watch::{InterfaceWatch, Look},
    },
    shared::{
        Shared,
        core::Core,
        order::{Handed, Order},
    },
};

/// Turns after which the driver yields to other tasks of the runtime.
const MAX_TURNS: usize = 16;

/// Transmits per turn before the driver checks for received packets again.
const MAX_TRANSMITS: usize = 16;

/// Packets handed to the core before it may answer. A full batch of the kernel holds about two
/// thousand packets; acknowledging all of them at once would add milliseconds to the round trip and
/// make the peer burst.
const MAX_UNANSWERED: usize = 64;

/// Time in which a dropped endpoint answers late packets of closed sessions. The socket is closed
/// afterwards, so QUIC may end before three probe timeouts have passed (RFC 9000 §10.2), which are
/// seconds on a slow path.
const DRAIN: Duration = Duration::from_millis(300);

/// Drives a worker until it has no work left.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    place: Place,
    sockets: Sockets,
    /// Path managers of the sessions that this side started.
    managers: Vec<PathManager>,
    /// Present while this side has a session that it started.
    watch: Option<InterfaceWatch>,
    buffers: ReceiveBuffers,
    /// Received packets that belong to other workers, with the index of each worker.
    astray: Vec<(usize, Handed)>,
    out: Vec<u8>,
    timer: Timer,
    /// Deadline for closing the sockets of a dropped endpoint.
    ends_at: Option<Instant>,
}

/// Position of a worker in its endpoint.
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) workers: Arc<[Weak<Shared>]>,
    /// Number of listening sockets. They come first in the sockets of each worker, in the same
    /// order.
    pub(super) listening: usize,
}

impl Place {
    /// Returns the worker that a packet from this socket belongs to, if it is another one.
    fn other_for(&self, socket: usize, packet: &[u8]) -> Option<usize> {
        let count = self.workers.len();
        if count == 1 || socket >= self.listening {
            return None;
        }
        Some(worker_of(packet, count)).filter(|worker| *worker != self.index)
    }
}

impl Driver {
    /// Creates a driver. Must be called within a runtime.
    pub(super) fn new(shared: Arc<Shared>, place: Place, sockets: Sockets) -> Self {
        let (buffers, timer) = (ReceiveBuffers::new(), Timer::new());
        let (managers, astray, out) = (Vec::new(), Vec::new(), Vec::new());
        Self { shared, place, sockets, managers, watch: None, buffers, astray, out, timer, ends_at: None }
    }

    /// Executes a request of a handle.
    fn execute(&mut self, order: Order) {
        match order {
            Order::Connect(request, answer) => {
                let started = PathManager::start(*request, &self.shared, &mut self.sockets);
                let started = started.map(|manager| {
                    let session = manager.session();
                    self.managers.push(manager);
                    session
                });
                self.watch.iter_mut().for_each(InterfaceWatch::refresh);
                answer(started);
            }
            Order::Interfaces(session, plan) => {
                if let Some(manager) = self.managers.iter_mut().find(|manager| manager.session() == session) {
                    manager.set_plan(plan);
                    self.watch.iter_mut().for_each(InterfaceWatch::refresh);
                }
            }
        }
    }

    /// Opens and closes paths as interfaces appear and disappear. May bind sockets by a function of
    /// the application, so the core must not be locked.
    fn manage_paths(&mut self, cx: &mut Context<'_>) {
        while !self.managers.is_empty() {
            let is_missing = self.managers.iter().any(PathManager::is_missing);
            let watch = self.watch.get_or_insert_with(InterfaceWatch::new);
            let ways = || {
                let listing = self.managers.iter().filter(|manager| manager.plan().is_of_the_system());
                let mut remotes: Vec<_> = listing.flat_map(PathManager::remotes).copied().collect();
                remotes.sort_unstable();
                remotes.dedup();
                remotes
            };
            let Poll::Ready(Look { view, lost }) = watch.poll(cx, ways, is_missing) else { return };
            let Self { managers, shared, sockets, .. } = self;
            managers.retain_mut(|manager| {
                lost.iter().for_each(|lost| manager.suspect(lost, shared));
                manager.update(&view, shared, sockets)
            });
        }
        self.watch = None;
    }

    /// Hands received packets to the core.
    fn receive(&mut self, cx: &mut Context<'_>) -> Arrivals {
        let mut arrivals = Arrivals::None;
        for index in 0..self.sockets.len() {
            let (socket, _) = self.sockets.at(index);
            let Poll::Ready(batch) = socket.poll_receive(cx, &mut self.buffers) else { continue };
            let Batch { count, is_last } = batch;
            arrivals = arrivals.max(if is_last { Arrivals::All } else { Arrivals::Some });
            let mut entry = 0;
            while entry < count {
                let mut packets = 0;
                let first = entry;
                while entry < count && packets < MAX_UNANSWERED {
                    let meta = self.buffers.message(entry).0;
                    packets += meta.len.div_ceil(meta.stride.max(1));
                    entry += 1;
                }
                let (entries, rest, local) = (first..entry, BytesMut::new(), Interface(0));
                let received = Received { index, entries, rest, local };
                self.turn(cx, Some(received), |turn| drive::take_in(turn));
                for (worker, packet) in self.astray.drain(..) {
                    if let Some(other) = self.place.workers.get(worker).and_then(Weak::upgrade) {
                        other.lock().hand_over(packet);
                    }
                }
                if packets >= MAX_UNANSWERED {
                    self.transmit(cx);
                }
            }
        }
        arrivals
    }

    /// Lets the core act on timers and sends its packets. Returns `true` if there may be more to
    /// send.
    fn transmit(&mut self, cx: &mut Context<'_>) -> bool {
        for socket in self.sockets.iter_mut() {
            // Packets whose sending failed count as lost.
            let _ = socket.flush(cx);
        }
        let mut out = std::mem::take(&mut self.out);
        let more = self.turn(cx, None, |turn| {
            turn.core.take_changes();
            drive::take_in(turn);
            let more = drive::send_out(turn, MAX_TRANSMITS, &mut out);
            turn.core.flushes += u64::from(!more);
            more
        });
        self.out = out;
        more
    }

    /// Returns `true` if there are only bytes of growing blocks to send, and more may join them.
    fn waits_for_growth(&self) -> bool {
        let mut core = self.shared.lock();
        let now = Instant::now();
        core.growth_due().is_some_and(|due| now < due) && core.due().is_none_or(|due| now < due)
    }

    /// Drives the core, which stays locked during the call.
    fn turn(
        &mut self,
        cx: &mut Context<'_>,
        received: Option<Received>,
        drive: impl FnOnce(&mut Turn<'_, '_>) -> bool,
    ) -> bool {
        let Self { shared, place, sockets, buffers, astray, .. } = self;
        drive(&mut Turn { core: &mut shared.lock(), place, sockets, buffers, astray, cx: Some(cx), received })
    }

    /// `true` if no work is left: the endpoint was dropped or closed, and its sessions have ended.
    fn is_done(&mut self, core: &Core) -> bool {
        if !core.is_let_go() || !core.orders.is_empty() {
            return false;
        }
        if core.proto.is_empty() {
            return true;
        }
        if self.place.listening == 0 || core.proto.sessions().next().is_some() {
            self.ends_at = None;
            return false;
        }
        let now = Instant::now();
        now >= *self.ends_at.get_or_insert(now + DRAIN)
    }

    /// Sends the last packets, until the kernel accepts no more.
    fn send_last(&mut self, core: &mut Core) {
        let Self { place, sockets, buffers, astray, out, .. } = self;
        let mut turn = Turn { core, place, sockets, buffers, astray, cx: None, received: None };
        drive::send_out(&mut turn, MAX_TRANSMITS, out);
    }
}

/// Packets that have arrived at the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Arrivals {
    None,
    /// All were received.
    All,
    /// There may be more.
    Some,
}

/// Messages of a socket that the core has not processed yet.
struct Received {
    /// Index of the socket.
    index: usize,
    entries: Range<usize>,
    /// Rest of the message before `entries`.
    rest: BytesMut,
    /// Interface that the message arrived on.
    local: Interface,
}

/// The core and the sockets, in one turn.
struct Turn<'a, 'c> {
    core: &'a mut Core,
    place: &'a Place,
    sockets: &'a mut Sockets,
    buffers: &'a ReceiveBuffers,
    astray: &'a mut Vec<(usize, Handed)>,
    /// `None` once no task waits for the sockets.
    cx: Option<&'a mut Context<'c>>,
    received: Option<Received>,
}

impl Io for Turn<'_, '_> {
    fn endpoint(&mut self) -> &mut squall_proto::Endpoint {
        &mut self.core.proto
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn receive(&mut self) -> Option<Datagram> {
        if let Some(Handed { socket, remote, sent_to, ecn, data }) = self.core.handed.pop_front() {
            let (socket, address) = self.sockets.at(socket);
            let local = self.core.routes.receiving(socket.key, address, sent_to);
            return Some(Datagram { path: NetPath { local, remote }, ecn, data });
        }
        loop {
            let Self { received, buffers, sockets, core, place, astray, .. } = &mut *self;
            let Received { index, entries, rest, local } = received.as_mut()?;
            while rest.is_empty() {
                let (meta, data) = buffers.message(entries.next()?);
                let (socket, address) = sockets.at(*index);
                *local = core.routes.receiving(socket.key, address, meta.dst_ip);
                *rest = BytesMut::from(data);
            }
            let (meta, _) = buffers.message(entries.start - 1);
            let data = rest.split_to(meta.stride.clamp(1, rest.len()));
            let (socket, remote, sent_to) = (*index, meta.addr, meta.dst_ip);
            let ecn = meta.ecn.and_then(|ecn| Ecn::from_bits(ecn as u8));
            match place.other_for(socket, &data) {
                Some(other) => {
                    core.handed_over += 1;
                    astray.push((other, Handed { socket, remote, sent_to, ecn, data }));
                }
                None => return Some(Datagram { path: NetPath { local: *local, remote }, ecn, data }),
            }
        }
    }

    fn read_radios(&mut self) {
        let Core { radios, meters, proto, routes, .. } = &mut *self.core;
        radios.read(Instant::now(), proto, routes);
        meters.read(Instant::now(), proto, routes);
    }

    fn max_packets(&self) -> usize {
        if self.cx.is_some() { self.sockets.max_segments() } else { 1 }
    }

    fn send(&mut self, transmit: &Transmit, data: &[u8]) -> Result<(), Unreachable> {
        let Some((socket, packet)) = self.sockets.route(&self.core.routes, transmit) else { return Ok(()) };
        let Some(cx) = &mut self.cx else {
            socket.send_last(&packet, data);
            return Ok(());
        };
        let Err(error) = socket.send(cx, packet, data) else { return Ok(()) };
        self.core.send_error = Some((transmit.path.remote, error::plain(&error)));
        if error::is_unreachable(&error) { Err(Unreachable) } else { Ok(()) }
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
            let arrivals = this.receive(cx);
            let mut busy = arrivals == Arrivals::Some;
            if arrivals > Arrivals::None || !this.waits_for_growth() {
                busy |= this.transmit(cx);
            }
            let at = {
                let mut core = shared.lock();
                busy |= core.announce();
                if this.is_done(&core) {
                    return Poll::Ready(());
                }
                core.due().into_iter().chain(this.ends_at).chain(core.growth_due()).min()
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
    /// Closes the sessions that are left when the runtime ends, so that their peers need not time
    /// out.
    fn drop(&mut self) {
        let shared = self.shared.clone();
        let mut core = shared.lock();
        let Core { meters, proto, routes, .. } = &mut *core;
        meters.finish_all(proto, routes);
        core.close_all(0, "");
        self.send_last(&mut core);
        // The addresses must be free before tasks that wait for the end continue.
        self.sockets = Sockets::default();
        core.retire();
    }
}
