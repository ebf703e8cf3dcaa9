//! Steering: all code that depends on noq, and the only place that imports it.
//!
//! noq has no scheduler to plug into: it sends queued datagrams on the lowest path id with window
//! left, and every path's acknowledgements on the lowest usable path. Both decisions are controlled
//! from outside, with the published crate unchanged: [`controller`] closes the window of every path
//! but one, so that the next packet can leave only there, and keeps the ledger of packet fates. The
//! behaviour that this relies on is tested in `contract.rs`, whose tests fail if an upgrade changes
//! it.

#[cfg(test)]
mod contract;
mod controller;
mod governor;
mod hello;
mod ids;
mod listener;
mod marks;
mod media;
mod mtu;
mod paths;
mod places;
mod queue;
pub(crate) mod tls;
mod tolerant;
#[cfg(any(test, feature = "unprotected"))]
mod unprotected;

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::{NonZeroU32, NonZeroUsize},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use noq_proto::{
    ClosePathError, ConnectionError, ConnectionEvent, ConnectionHandle, Event, FourTuple, PathAbandonReason,
    PathEvent, PathStatus, StreamEvent, VarInt, coding::Encodable as _,
};
use squall_sched::PathId;
use squall_units::format::is_hidden;

pub(crate) use controller::{Departure, Fate, Ledger};
pub(crate) use governor::Lost;
pub(crate) use listener::{BACKSTOP_ROUND_TRIPS, Incoming, Listener, Server};
pub use noq_proto::EcnCodepoint as Ecn;
pub(crate) use noq_proto::{ConnectionEvent as PacketEvent, ConnectionHandle as Handle};
pub(crate) use paths::{Entry, Paths, QuicPath};

use crate::{CloseReason, Interface, NetPath, TransportError};

/// A QUIC packet, or several of one size, ready to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The local interface and the peer.
    pub path: NetPath,
    /// Bytes written to the buffer.
    pub size: usize,
    /// Size of each packet but the last, when there are several.
    pub segment_size: Option<usize>,
    /// Congestion notification bits to set.
    pub ecn: Option<Ecn>,
}

/// A packet that left with one of our datagrams, or with none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sent<P> {
    /// Number of the path, which the session may not have admitted yet.
    pub(crate) path: u32,
    pub(crate) packet: u64,
    /// Size of the packet; 0 for further datagrams of a packet already named.
    pub(crate) bytes: u16,
    /// The payload is in this packet. Otherwise it is in another one of the path that left at the
    /// same time.
    pub(crate) certain: bool,
    pub(crate) payload: Option<P>,
}

/// Usage of a closed path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    /// Bytes of UDP payload sent.
    pub(crate) sent: u64,
    /// Bytes of IP packets sent and received.
    pub(crate) carried: u64,
}

/// An event inside noq.
#[derive(Debug)]
pub(crate) enum QuicEvent {
    /// The handshake is confirmed: its packet numbers no longer collide with those of data.
    Confirmed,
    /// A path may carry data.
    PathUp { number: u32 },
    /// A path is closed; no more fates of its packets will be reported. The session must remove its
    /// entry.
    PathGone {
        number: u32,
        net: Option<NetPath>,
        used: Used,
        /// Close code of the peer, if the peer closed it.
        by_peer: Option<u64>,
    },
    /// The peer suspects (`true`) or trusts (`false`) a path.
    RemoteStatus { number: u32, backup: bool },
    /// The peer's hello has arrived, or cannot.
    Hello(Result<Vec<u8>, &'static str>),
    /// The connection has ended.
    Closed(CloseReason),
}

/// The clock of noq, which stops while the process does not run. Otherwise a packet in flight at
/// that time would have had a round trip of that length, and losses on its path would be detected
/// that late.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    behind: Duration,
}

impl Clock {
    /// Stops the clock for the time in which the process did not run.
    pub(crate) fn stop_for(&mut self, time: Duration) {
        self.behind += time;
    }

    /// Returns the time of noq at a moment.
    pub(crate) fn of_quic(self, at: Instant) -> Instant {
        at.checked_sub(self.behind).unwrap_or(at)
    }

    /// Returns the moment at which noq had this time.
    pub(crate) fn of_session(self, at: Instant) -> Instant {
        at + self.behind
    }
}

/// Paths on which noq may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// All: control frames, path validation, acknowledgements, and queued datagrams on the lowest
    /// path.
    Open,
    /// None: only tail-loss probes and acknowledgements can leave.
    Closed,
    /// One: queued datagrams leave there.
    Only(PathId),
}

/// Time after which a timer of noq that stays due runs again.
const GRANULARITY: Duration = Duration::from_millis(1);

/// A noq connection under steering. `P` identifies the content of a datagram, `S` is the session's
/// state of a path.
pub(crate) struct Connection<P, S> {
    inner: noq_proto::Connection,
    handle: ConnectionHandle,
    /// The path of the handshake: noq has no interface for it before the first answer.
    home: NetPath,
    /// Parent of all log messages of the connection.
    span: tracing::Span,
    controllers: Arc<controller::Controllers>,
    /// Latest value of [`Controllers::changes`](controller::Controllers::changes) that was handled.
    changes: usize,
    /// Controllers that have been matched to their paths.
    matched: usize,
    pub(crate) paths: Paths<S>,
    /// Paths with a controller that the session has not admitted.
    pending: Vec<QuicPath>,
    /// Closed paths, which noq lists until the peer has closed them, too.
    gone: Vec<noq_proto::PathId>,
    /// Datagrams queued in noq, oldest first: length and payload.
    queued: VecDeque<(usize, P)>,
    queued_bytes: usize,
    /// Datagrams that noq dropped from the queue since the session last took them, because the MTU
    /// shrank.
    pub(crate) dropped: Vec<P>,
    /// Departures since the session last took them.
    pub(crate) departures: Vec<Sent<P>>,
    /// Packet of each datagram that has just left.
    places: Vec<Option<usize>>,
    buffer_size: usize,
    /// Cached result of [`Self::max_datagram`], until it may have changed.
    max_datagram: Option<usize>,
    hello: Vec<u8>,
    clock: Clock,
    /// Time at which noq's timers ran last, by its clock.
    timed: Option<Instant>,
    /// noq has panicked: it is not called again.
    is_broken: bool,
    /// The panic of noq is still to be reported.
    breaks: bool,
}

impl<P, S: Entry> Connection<P, S> {
    fn new(
        mut inner: noq_proto::Connection,
        handle: ConnectionHandle,
        home: NetPath,
        controllers: Arc<controller::Controllers>,
        clock: Clock,
    ) -> Self {
        let buffer_size = inner.datagrams().send_buffer_space();
        let side = if inner.side().is_client() { "client" } else { "server" };
        let span = tracing::info_span!("session", number = handle.0, side, peer = ?home.remote);
        let mut this = Self {
            inner,
            handle,
            home,
            span,
            controllers,
            changes: 0,
            matched: 0,
            paths: Paths::default(),
            pending: Vec::new(),
            gone: Vec::new(),
            queued: VecDeque::new(),
            queued_bytes: 0,
            dropped: Vec::new(),
            departures: Vec::new(),
            places: Vec::new(),
            buffer_size,
            max_datagram: None,
            hello: Vec::new(),
            clock,
            timed: None,
            is_broken: false,
            breaks: false,
        };
        this.match_controllers();
        this
    }

    /// Returns the path of that number, and admits it to the session if it is new; `None` when
    /// there are too many, or noq has none of that number.
    pub(crate) fn admit(&mut self, number: u32, entry: impl FnOnce(PathId, QuicPath) -> S) -> Option<PathId> {
        self.paths.find(number).or_else(|| {
            let at = self.pending.iter().position(|path| path.number == number)?;
            let id = self.paths.free(number)?;
            self.paths.insert(id, entry(id, self.pending.remove(at)));
            Some(id)
        })
    }

    /// Closes a path that was not admitted.
    pub(crate) fn reject(&mut self, number: u32, now: Instant) {
        if let Some(path) = self.pending.iter().find(|path| path.number == number) {
            self.max_datagram = None;
            // If it was closed before, the event is still to be polled; the last path is always
            // admitted.
            let _ = self.inner.close_path(self.clock.of_quic(now), path.noq_id, VarInt::from_u32(0));
        }
    }

    /// Drops the fates of packets on paths that the session has not admitted: it sent none there.
    pub(crate) fn drop_pending_fates(&self) {
        self.pending.iter().for_each(|path| path.ledger.lock().fates.clear());
    }

    /// Forgets all packets so far.
    pub(crate) fn forget_packets(&self) {
        for path in self.all_paths() {
            let mut ledger = path.ledger.lock();
            ledger.sent.clear();
            ledger.fates.clear();
        }
    }

    /// Iterates over all paths, admitted or not.
    fn all_paths(&self) -> impl Iterator<Item = &QuicPath> {
        self.paths.iter().map(Entry::quic).chain(&self.pending)
    }

    pub(crate) fn handle(&self) -> ConnectionHandle {
        self.handle
    }

    pub(crate) fn span(&self) -> &tracing::Span {
        &self.span
    }

    /// Processes a packet or an answer of the endpoint.
    pub(crate) fn on_event(&mut self, event: ConnectionEvent) {
        if !self.is_broken {
            self.inner.handle_event(event);
            self.match_controllers();
            self.find_dropped();
        }
    }

    /// Returns when noq's timers are due. A timer that stays in the past after it has run is due
    /// again a millisecond later, the granularity of timers in RFC 9002 §6.1.2: otherwise the
    /// session would run without end.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let again = |at| self.timed.filter(|timed| at <= *timed).map_or(at, |timed| timed + GRANULARITY);
        let at = self.inner.poll_timeout().filter(|_| !self.is_broken).map(again);
        at.map(|at| self.clock.of_session(at))
    }

    /// Returns the clock of noq.
    pub(crate) fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }

    /// Runs noq's timers.
    ///
    /// noq-proto 1.4.0 panics when it forgets an abandoned path that had moved twice, and back when
    /// the second address did not answer, if a probe of the MTU was in flight meanwhile
    /// (`discard_path`). That must end this session and no other.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.max_datagram = None;
        if self.is_broken {
            return;
        }
        let now = self.clock.of_quic(now);
        self.timed = Some(now);
        // The state after a panic is not read.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.inner.handle_timeout(now)));
        self.is_broken = outcome.is_err();
        self.breaks = self.is_broken;
        if !self.is_broken {
            self.find_dropped();
        }
    }

    /// Returns `true` if noq has panicked: neither it nor its endpoint may be called for this
    /// connection.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Passes pending requests on to the endpoint and its answers back.
    pub(crate) fn exchange(&mut self, endpoint: &mut noq_proto::Endpoint) {
        if self.is_broken {
            return;
        }
        while let Some(event) = self.inner.poll_endpoint_events() {
            if let Some(answer) = endpoint.handle_event(self.handle, event) {
                self.max_datagram = None;
                self.inner.handle_event(answer);
            }
        }
    }

    /// Returns the next event.
    pub(crate) fn poll(&mut self) -> Option<QuicEvent> {
        if self.is_broken {
            let error = TransportError::plain("internal error of the QUIC library");
            return std::mem::take(&mut self.breaks).then(|| QuicEvent::Closed(error.into()));
        }
        while let Some(event) = self.inner.poll() {
            match event {
                Event::HandshakeConfirmed => return Some(QuicEvent::Confirmed),
                Event::ConnectionLost { reason } => return Some(QuicEvent::Closed(close_reason(reason))),
                Event::Path(event) => {
                    if let Some(event) = self.path_event(&event) {
                        return Some(event);
                    }
                }
                Event::Stream(StreamEvent::Opened { .. } | StreamEvent::Readable { .. }) => {
                    if let Some(hello) = self.read_hello() {
                        return Some(QuicEvent::Hello(hello));
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn path_event(&mut self, event: &PathEvent) -> Option<QuicEvent> {
        match *event {
            PathEvent::Established { id, .. } => {
                self.match_controllers();
                Some(QuicEvent::PathUp { number: number(id) })
            }
            PathEvent::Abandoned { id, ref reason, .. } => {
                self.max_datagram = None;
                let net = self.all_paths().find(|path| path.noq_id == id).map(|path| path.net);
                let used = self.inner.path_stats(id).map_or(Used { sent: 0, carried: 0 }, |stats| Used {
                    sent: stats.udp_tx.bytes,
                    carried: net.map_or(0, |net| ip_bytes(net, &stats)),
                });
                self.pending.retain(|path| path.noq_id != id);
                self.gone.push(id);
                let by_peer = match reason {
                    PathAbandonReason::RemoteAbandoned { error_code } => Some(error_code.into_inner()),
                    _ => None,
                };
                Some(QuicEvent::PathGone { number: number(id), net, used, by_peer })
            }
            PathEvent::RemoteStatus { id, status, .. } => {
                Some(QuicEvent::RemoteStatus { number: number(id), backup: status == PathStatus::Backup })
            }
            _ => None,
        }
    }

    /// Returns the next datagram that arrived.
    pub(crate) fn recv(&mut self) -> Option<Bytes> {
        self.inner.datagrams().recv()
    }

    /// Returns the largest datagram that fits every path now.
    pub(crate) fn max_datagram(&mut self) -> usize {
        // noq goes through all paths and connection ids, and the session asks several times for
        // each packet. A packet or a poll changes the answer only where a path is added, removed or
        // gets another MTU. A path that the peer abandons is detected with the event that follows
        // the packet; until then the answer may be too small, which does no harm.
        self.max_datagram = self.max_datagram.or_else(|| self.inner.datagrams().max_size());
        // Once no path can send, the size that noq reports may be smaller.
        debug_assert!(
            self.max_datagram <= self.inner.datagrams().max_size() || self.has_abandoned(),
            "the size has shrunk unseen"
        );
        self.max_datagram.unwrap_or(0)
    }

    /// Returns `true` if either side has abandoned a path.
    fn has_abandoned(&mut self) -> bool {
        let stats = self.inner.stats();
        stats.frame_rx.path_abandon + stats.frame_tx.path_abandon > 0
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.inner.is_drained()
    }

    pub(crate) fn is_multipath(&self) -> bool {
        self.inner.is_multipath_negotiated()
    }

    pub(crate) fn close(&mut self, now: Instant, code: u32, reason: Bytes) {
        self.max_datagram = None;
        self.inner.close(self.clock.of_quic(now), VarInt::from_u32(code), reason);
    }

    /// Opens a path; only clients may. Returns its number, or the error.
    pub(crate) fn open_path(&mut self, net: NetPath, now: Instant) -> Result<u32, String> {
        let tuple = FourTuple::new(net.remote, Some(net.local.address()));
        self.max_datagram = None;
        let now = self.clock.of_quic(now);
        let id = self.inner.open_path(tuple, PathStatus::Available, now).map_err(|e| e.to_string())?;
        self.match_controllers();
        Ok(number(id))
    }

    /// Returns how often the peer has reported that it wants another path and may open none
    /// (PATHS_BLOCKED).
    pub(crate) fn paths_blocked(&mut self) -> u64 {
        self.inner.stats().frame_rx.paths_blocked
    }

    /// Allows the peer that many concurrent paths. noq counts a path as open permanently if it
    /// receives nothing of it but the abandonment.
    pub(crate) fn allow_paths(&mut self, count: usize, now: Instant) {
        if let Some(count) = u32::try_from(count).ok().and_then(NonZeroU32::new) {
            // Fails only without multipath.
            let _ = self.inner.set_max_concurrent_paths(self.clock.of_quic(now), count);
        }
    }

    /// Closes a path with a code for the peer. Fails on the last one.
    pub(crate) fn close_path(&mut self, path: PathId, now: Instant, code: u32) -> Result<(), String> {
        self.max_datagram = None;
        let now = self.clock.of_quic(now);
        match self.inner.close_path(now, self.paths[path].quic().noq_id, VarInt::from_u32(code)) {
            // If it was closed before, the event is still to be polled.
            Ok(()) | Err(ClosePathError::ClosedPath) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Marks a path as one that carries only probes, or removes the mark. The peer is notified.
    pub(crate) fn set_backup(&mut self, path: PathId, backup: bool) {
        let status = if backup { PathStatus::Backup } else { PathStatus::Available };
        // Fails only on a closed path, which needs no mark.
        let _ = self.inner.set_path_status(self.paths[path].quic().noq_id, status);
    }

    /// Changes the keys now, while there is one path.
    ///
    /// noq does so by itself after 10 to 1,000 packets, and distinguishes old keys from new ones by
    /// the number of the packet at which the change was seen, without regard to its path: packets
    /// with old keys that are in flight on other paths are dropped if their numbers are higher.
    /// After this the next change is due when the cipher requires it, for AES-GCM after eight
    /// million packets (RFC 9001 §6.6).
    pub(crate) fn change_keys(&mut self) {
        self.max_datagram = None;
        self.inner.force_key_update();
    }

    /// Sends a PING on the path with the next free poll.
    pub(crate) fn ping(&mut self, path: PathId) {
        let _ = self.inner.ping_path(self.paths[path].quic().noq_id);
    }

    /// Returns the smoothed RTT. noq has minimum and mean deviation too, but only this one is
    /// public.
    pub(crate) fn srtt(&self, path: PathId) -> Option<Duration> {
        self.inner.rtt(self.paths[path].quic().noq_id)
    }

    /// Returns the counters of the path: packets and bytes both ways, congestion events.
    pub(crate) fn counters(&mut self, path: PathId) -> Option<noq_proto::PathStats> {
        self.inner.path_stats(self.paths[path].quic().noq_id)
    }

    /// Returns the bytes of UDP payload sent on the path.
    pub(crate) fn sent_bytes(&mut self, path: PathId) -> u64 {
        self.counters(path).map_or(0, |counters| counters.udp_tx.bytes)
    }

    /// Returns the bytes of IP packets sent and received on the path.
    pub(crate) fn carried(&mut self, path: PathId) -> u64 {
        let net = self.paths[path].quic().net;
        self.counters(path).map_or(0, |counters| ip_bytes(net, &counters))
    }

    /// Returns the number of the path between these addresses.
    pub(crate) fn number_of(&self, net: NetPath) -> Option<u32> {
        self.path_between(net).map(|path| path.number)
    }

    /// Reads the addresses of all paths again, after a packet or a timer of noq; returns the
    /// admitted paths that moved. A path whose new address does not answer moves back, to its
    /// controller there.
    pub(crate) fn refresh_addresses(&mut self) -> Vec<PathId> {
        let inner = &self.inner;
        let has_moved = |path: &mut QuicPath| {
            let Ok(tuple) = inner.network_path(path.noq_id) else { return false };
            let net = NetPath {
                local: Interface::at(tuple.local_ip()).unwrap_or(path.net.local),
                remote: tuple.remote(),
            };
            let has_moved = std::mem::replace(&mut path.net, net) != net;
            if has_moved && let Some(ledger) = ledger(inner, path.noq_id) {
                path.ledger = ledger;
            }
            has_moved
        };
        self.pending.iter_mut().for_each(|path| _ = has_moved(path));
        let paths = &mut self.paths;
        paths.ids().filter(|id| has_moved(paths[*id].quic_mut())).collect()
    }

    /// Polls noq with the gates of some paths open. Departures are appended to
    /// [`Self::departures`].
    pub(crate) fn poll_transmit(
        &mut self,
        gate: Gate,
        now: Instant,
        max_packets: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.is_broken {
            return None;
        }
        let only = if let Gate::Only(id) = gate { self.paths.get(id) } else { None };
        let only = only.map(|path| path.quic().number);
        // If all gates are open or closed, any path may be the one that needs a lead.
        let may_leave = |path: &&QuicPath| only.is_none() || Some(path.number) == only;
        let lead =
            self.all_paths().filter(may_leave).map(|path| path.ledger.lead()).max().unwrap_or_default();
        for path in self.all_paths() {
            path.ledger.open(gate == Gate::Open || Some(path.number) == only, lead);
        }
        let max = NonZeroUsize::new(max_packets).unwrap_or(NonZeroUsize::MIN);
        let now = self.clock.of_quic(now);
        let left = now.checked_sub(lead.into()).unwrap_or(now);
        let transmit = self.inner.poll_transmit(left, max, buf)?;
        self.attribute();
        let local = Interface::at(transmit.src_ip).unwrap_or_else(|| self.local_of(transmit.destination));
        let net = NetPath { local, remote: transmit.destination };
        let may_mark = transmit.ecn.is_some() && self.may_mark(net, now);
        Some(Transmit {
            path: net,
            size: transmit.size,
            segment_size: transmit.segment_size,
            ecn: transmit.ecn.filter(|_| may_mark),
        })
    }

    /// Returns `true` if packets between these addresses may be marked as ECT now. noq also
    /// decides: it stops when it has no marks to report.
    fn may_mark(&self, net: NetPath, now: Instant) -> bool {
        let Some(path) = self.path_between(net) else { return true };
        path.ledger.lock().marks.may_mark(self.clock.of_quic(now))
    }

    /// Records the arrival of a packet without ECN.
    pub(crate) fn on_unmarked(&self, net: NetPath) {
        if let Some(path) = self.path_between(net) {
            path.ledger.lock().marks.on_unmarked();
        }
    }

    /// Returns the path between these addresses: the latest of several, because the peer may have
    /// closed the others.
    fn path_between(&self, net: NetPath) -> Option<&QuicPath> {
        self.all_paths().filter(|path| path.net == net).max_by_key(|path| path.number)
    }

    fn local_of(&self, remote: SocketAddr) -> Interface {
        let to_remote = self.all_paths().filter(|path| path.net.remote == remote);
        to_remote.min_by_key(|path| path.number).map_or(self.home.local, |path| path.net.local)
    }

    /// Matches controllers that were built since the last call to their paths.
    fn match_controllers(&mut self) {
        let changes = self.controllers.changes();
        if changes == self.changes {
            return;
        }
        self.changes = changes;
        self.max_datagram = None;
        let built = self.controllers.built();
        if built == self.matched {
            return;
        }
        self.matched = built;
        let listed = self.inner.paths();
        self.gone.retain(|id| listed.contains(id));
        for id in listed {
            if self.gone.contains(&id) {
                continue;
            }
            let Some(ledger) = ledger(&self.inner, id) else { continue };
            let admitted = self.paths.iter_mut().map(Entry::quic_mut);
            if let Some(path) = admitted.chain(&mut self.pending).find(|path| path.noq_id == id) {
                path.ledger = ledger;
                continue;
            }
            let Ok(tuple) = self.inner.network_path(id) else { continue };
            let local = Interface::at(tuple.local_ip()).unwrap_or(self.home.local);
            let net = NetPath { local, remote: tuple.remote() };
            self.pending.push(QuicPath { noq_id: id, number: number(id), net, home: local, ledger });
        }
        self.pending.sort_by_key(|path| path.number);
    }
}

impl Interface {
    /// Returns the address that represents the interface in noq, which distinguishes local ends of
    /// paths by address alone. It is never sent, and need not be of the family of the peer's.
    fn address(self) -> IpAddr {
        Ipv4Addr::from_bits(self.0).into()
    }

    /// Returns the interface of an address from noq; `None` where noq leaves the local end open.
    fn at(address: Option<IpAddr>) -> Option<Self> {
        match address? {
            IpAddr::V4(address) => Some(Self(address.to_bits())),
            // No interface has such an address.
            IpAddr::V6(_) => None,
        }
    }
}

/// Returns the ledger of the present controller of a path.
fn ledger(connection: &noq_proto::Connection, id: noq_proto::PathId) -> Option<Arc<Ledger>> {
    let controller = connection.congestion_state(id)?.clone_box().into_any();
    let steering = controller.downcast::<controller::SteeringController>().ok()?;
    Some(steering.ledger().clone())
}

/// Returns the bytes of the IP packets around the UDP payload sent and received on a path.
fn ip_bytes(net: NetPath, stats: &noq_proto::PathStats) -> u64 {
    // Headers of IP, without options or extensions, and of UDP.
    let headers = if net.remote.is_ipv4() { 20 + 8 } else { 40 + 8 };
    let of = |udp: &noq_proto::UdpStats| udp.bytes + headers * udp.datagrams;
    of(&stats.udp_tx) + of(&stats.udp_rx)
}

/// Returns the number of a path id, which noq exposes only in its wire form.
fn number(id: noq_proto::PathId) -> u32 {
    let mut wire = Vec::with_capacity(8);
    id.encode(&mut wire);
    crate::varint::read(&mut wire.as_slice()).map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX))
}

fn close_reason(error: ConnectionError) -> CloseReason {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            CloseReason::ByPeer { code: close.error_code.into_inner(), reason: printable(&close.reason) }
        }
        ConnectionError::TimedOut => CloseReason::TimedOut,
        ConnectionError::LocallyClosed => CloseReason::Local,
        other => transport_error(other).into(),
    }
}

fn transport_error(error: ConnectionError) -> TransportError {
    let message = printable(error.to_string().as_bytes());
    let (code, tls) = match error {
        ConnectionError::TransportError(error) => {
            let tls = error.crypto.and_then(|tls| tls.downcast_ref::<rustls::Error>().cloned());
            (Some(error.code.into()), tls.map(Arc::new))
        }
        ConnectionError::ConnectionClosed(close) => (Some(close.error_code.into()), None),
        _ => (None, None),
    };
    TransportError { code, tls, message }
}

/// Returns the reason text of a peer, fit for a log or a terminal: no hidden characters, at most
/// [`MAX_REASON`] characters.
fn printable(words: &[u8]) -> String {
    let text = String::from_utf8_lossy(words);
    text.chars().take(MAX_REASON).map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}

/// Largest number of characters of a peer's reason that are kept.
const MAX_REASON: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_peer_are_fit_for_a_terminal() {
        assert_eq!(printable(b"no\nERROR all is lost\x1b[2J \xff"), "no ERROR all is lost [2J \u{fffd}");
        assert_eq!(printable("a\u{202e}b\u{200b}c\u{2028}d".as_bytes()), "a b c d");
        assert_eq!(printable(&[b'a'; 1000]).len(), MAX_REASON);
    }
}
