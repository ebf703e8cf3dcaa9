//! The sans-IO endpoint of a worker and the state of its sessions.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
    task::Waker,
    time::{Duration, Instant},
};

use bytes::Bytes;
use squall_proto::{
    Block, BlockOptions, Capacity, Channel, CloseReason, Event, Interface, OpenError, PathHint, PathStats,
    SendError, SessionId, SessionStats, WriteError,
    sched::{BlockId, PathId},
};
use tokio::sync::watch;

use crate::{
    Interfaces, UnknownInterface, UnusedInterface,
    net::routes::Routes,
    shared::{
        group::Group,
        handle::BlockHandle,
        order::{Handed, Order},
        path::{PathEvent, PathInfo},
        quotas::Meters,
        radios::Radios,
        state::{Ended, ReceiverId, Signals, State},
    },
};

/// Largest number of waiting packets from other workers; further ones are dropped.
const MAX_HANDED: usize = 256;

/// Longest wait of bytes appended to an open block, so that they leave in full packets and few calls.
/// The last bytes of a block do not wait. A packet takes as long on a link of 24 Mbps.
const GROWTH_WAIT: Duration = Duration::from_micros(500);

/// Appended bytes from which on none wait: ten packets.
const GROWTH_BYTES: usize = 12_000;

/// Close code of a session that is not accepted.
const NOT_ACCEPTED: u32 = 2;

/// The sans-IO endpoint and the state of its sessions.
pub(crate) struct Core {
    pub(crate) proto: squall_proto::Endpoint,
    group: Arc<Group>,
    /// Index of the worker in the group.
    worker: usize,
    pub(crate) routes: Routes,
    /// Packets for this worker that arrived at other workers.
    pub(crate) handed: VecDeque<Handed>,
    /// Number of packets that arrived here and were for other workers.
    pub(crate) handed_over: u64,
    /// An [`Endpoint`](crate::Endpoint) exists, which can accept sessions.
    pub(crate) held: bool,
    /// The application has closed the endpoint.
    pub(crate) closed: bool,
    /// The driver has ended.
    pub(crate) gone: bool,
    /// Requests of handles that the driver has not executed yet.
    pub(crate) orders: Vec<Order>,
    /// Number of times that all pending packets have been handed to the sockets.
    pub(crate) flushes: u64,
    /// Peer and error of the last failure to send.
    pub(crate) send_error: Option<(SocketAddr, String)>,
    pub(crate) radios: Radios,
    pub(crate) meters: Meters,
    sessions: HashMap<SessionId, State>,
    /// Sessions with a task that waits for room, or for the end of all blocks.
    waiting: Vec<SessionId>,
    waker: Option<Waker>,
    /// A change other than growth has not been processed yet.
    is_changed: bool,
    growth: Option<Growth>,
}

/// Bytes appended to open blocks since the last transmission.
struct Growth {
    bytes: usize,
    /// Latest time of their transmission.
    due: Instant,
}

impl Core {
    pub(crate) fn new(proto: squall_proto::Endpoint, group: Arc<Group>, worker: usize) -> Self {
        Self {
            proto,
            group,
            worker,
            routes: Routes::default(),
            radios: Radios::default(),
            meters: Meters::default(),
            sessions: HashMap::new(),
            waiting: Vec::new(),
            handed: VecDeque::new(),
            handed_over: 0,
            held: true,
            closed: false,
            gone: false,
            orders: Vec::new(),
            flushes: 0,
            send_error: None,
            waker: None,
            is_changed: false,
            growth: None,
        }
    }

    /// Sets the waker of the driver, which [`Self::wake`] uses.
    pub(crate) fn set_waker(&mut self, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    /// `true` if no session can be accepted or started any more.
    pub(crate) fn is_let_go(&self) -> bool {
        !self.held || self.closed
    }

    /// Wakes the driver, to process a change.
    pub(crate) fn wake(&mut self) {
        self.is_changed = true;
        self.rouse();
    }

    fn rouse(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Notes appended bytes, for which the driver is woken once.
    fn grow(&mut self, bytes: usize) {
        let is_first = self.growth.is_none();
        let due = || Instant::now() + GROWTH_WAIT;
        let growth = self.growth.get_or_insert_with(|| Growth { bytes: 0, due: due() });
        growth.bytes += bytes;
        if growth.bytes >= GROWTH_BYTES {
            self.wake();
        } else if is_first {
            self.rouse();
        }
    }

    /// Returns the latest time for the transmission of appended bytes, if nothing else is due before.
    pub(crate) fn growth_due(&self) -> Option<Instant> {
        self.growth.as_ref().filter(|_| !self.is_changed).map(|growth| growth.due)
    }

    /// Returns the time at which a session, a radio or a meter needs a turn.
    pub(crate) fn due(&mut self) -> Option<Instant> {
        let due = self.proto.poll_timeout().into_iter().chain(self.radios.due());
        due.chain(self.meters.due()).min()
    }

    /// Notes that all changes are being processed.
    pub(crate) fn take_changes(&mut self) {
        self.is_changed = false;
        self.growth = None;
    }

    /// Queues a packet that another worker received.
    pub(crate) fn hand_over(&mut self, packet: Handed) {
        if self.handed.len() < MAX_HANDED && !self.gone {
            self.handed.push_back(packet);
            self.wake();
        }
    }

    /// Creates the state of a session.
    pub(crate) fn enrol(&mut self, id: SessionId, is_own: bool) {
        self.sessions.entry(id).or_default().is_own = is_own;
    }

    /// Returns the signals for the handles of a session.
    pub(crate) fn signals(&self, id: SessionId) -> Arc<Signals> {
        self.sessions.get(&id).map(|s| s.signals.clone()).unwrap_or_default()
    }

    /// Hands a block over. With `wait`, the session is signalled once there is room.
    pub(crate) fn send(&mut self, id: SessionId, block: Block, wait: bool) -> Result<BlockHandle, SendError> {
        let Some(state) = self.sessions.get_mut(&id) else {
            return Err(SendError::Closed(CloseReason::Local));
        };
        let Some(session) = self.proto.session(id) else { return Err(SendError::Closed(state.reason())) };
        let len = block.data.len();
        name_paths(&self.routes, session, block.options.hint.as_ref());
        match session.send(Instant::now(), block) {
            Ok(block) => {
                let (handle, outcome) = BlockHandle::new(block);
                state.outcomes.insert(block, outcome);
                self.wake();
                Ok(handle)
            }
            Err(error) => {
                if wait && matches!(error, SendError::Full(_)) {
                    state.blocked = Some(state.blocked.map_or(len, |other| other.min(len)));
                    self.waiting.push(id);
                }
                Err(error)
            }
        }
    }

    /// Opens a block. The session is signalled once there is room.
    pub(crate) fn open(&mut self, id: SessionId, options: &BlockOptions) -> Result<BlockHandle, OpenError> {
        let Some(state) = self.sessions.get_mut(&id) else {
            return Err(OpenError::Closed(CloseReason::Local));
        };
        let Some(session) = self.proto.session(id) else { return Err(OpenError::Closed(state.reason())) };
        name_paths(&self.routes, session, options.hint.as_ref());
        let opened = session.open(Instant::now(), options);
        if opened == Err(OpenError::Full) {
            state.blocked = Some(0);
            self.waiting.push(id);
        }
        let (handle, outcome) = BlockHandle::new(opened?);
        state.outcomes.insert(handle.id(), outcome);
        self.grow(0);
        Ok(handle)
    }

    /// Appends to an open block. With `wait`, the session is signalled once there is room.
    pub(crate) fn append(
        &mut self,
        id: SessionId,
        block: BlockId,
        data: Bytes,
        wait: bool,
    ) -> Result<(), WriteError> {
        let Some(session) = self.proto.session(id) else { return Err(WriteError::Ended) };
        let len = data.len();
        let appended = session.append(block, data);
        match &appended {
            Ok(()) => self.grow(len),
            Err(WriteError::Full(_)) if wait => {
                if let Some(state) = self.sessions.get_mut(&id) {
                    let other = state.append_blocked.unwrap_or(len);
                    state.append_blocked = Some(other.min(len));
                    self.waiting.push(id);
                }
            }
            Err(_) => {}
        }
        appended
    }

    /// Marks an open block as complete.
    pub(crate) fn finish_block(&mut self, id: SessionId, block: BlockId) -> Result<(), WriteError> {
        let Some(session) = self.proto.session(id) else { return Err(WriteError::Ended) };
        let finished = session.finish(Instant::now(), block);
        self.wake();
        finished
    }

    /// `true` if half of the send queue is free, or the session is over; otherwise the session is
    /// signalled when that happens.
    pub(crate) fn is_writable(&mut self, id: SessionId) -> bool {
        if self.has_ended(id) || self.proto.session(id).is_none_or(|session| session.is_half_empty()) {
            return true;
        }
        if let Some(state) = self.sessions.get_mut(&id) {
            state.wants_half = true;
            self.waiting.push(id);
        }
        false
    }

    /// Returns the next event about blocks of the peer: on the channels of a receiver, or, for
    /// `None`, on those without a receiver.
    pub(crate) fn poll_arrival(&mut self, id: SessionId, receiver: Option<ReceiverId>) -> Option<Event> {
        let state = self.sessions.get_mut(&id)?;
        let receivers = &state.receivers;
        let wanted = |channel: Channel| receivers.get(&channel).copied() == receiver;
        let is_wanted = |event: &Event| event.channel().is_some_and(wanted);
        if let Some(index) = state.left.iter().position(is_wanted) {
            return state.left.remove(index);
        }
        let event = self.proto.poll_arrival(id, wanted)?;
        // Memory became free, which may have to be announced to the peer.
        self.touch(id);
        Some(event)
    }

    /// Delivers the blocks of a channel to a receiver in parts, or whole to the session for `None`.
    pub(crate) fn set_receiver(&mut self, id: SessionId, channel: Channel, receiver: Option<ReceiverId>) {
        let Some(state) = self.sessions.get_mut(&id) else { return };
        match receiver {
            Some(receiver) => drop(state.receivers.insert(channel, receiver)),
            None => drop(state.receivers.remove(&channel)),
        }
        if let Some(session) = self.proto.session(id) {
            session.set_in_parts(channel, receiver.is_some());
        }
        state.signals.arrivals.notify_waiters();
    }

    /// Returns the id for a new receiver of a session.
    pub(crate) fn next_receiver(&mut self, id: SessionId) -> ReceiverId {
        let Some(state) = self.sessions.get_mut(&id) else { return ReceiverId::default() };
        state.last_receiver.0 += 1;
        state.last_receiver
    }

    /// Returns the channels of a receiver to the session.
    pub(crate) fn drop_receiver(&mut self, id: SessionId, receiver: ReceiverId) {
        let Some(state) = self.sessions.get(&id) else { return };
        let its = state.receivers.iter().filter(|(_, of)| **of == receiver).map(|(channel, _)| *channel);
        let its: Vec<_> = its.collect();
        its.into_iter().for_each(|channel| self.set_receiver(id, channel, None));
    }

    /// Returns the next change of a path.
    pub(crate) fn poll_path(&mut self, id: SessionId) -> Option<PathEvent> {
        self.sessions.get_mut(&id)?.next_path_event()
    }

    /// `true` if a session is up, or was.
    pub(crate) fn is_connected(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|state| state.connected)
    }

    /// Processes the notices of a session and signals the tasks that wait for them.
    fn take_notices(&mut self, id: SessionId) {
        while let Some(notice) = self.proto.poll_notice(id) {
            if let Event::Closed(reason) = notice {
                self.on_closed(id, reason);
                continue;
            }
            let Some(state) = self.sessions.get_mut(&id) else { continue };
            match notice {
                Event::Connected => self.on_connected(id),
                Event::Ended { id: block, outcome } => state.on_outcome(block, outcome),
                Event::Capacity(capacity) => drop(state.capacity.send_replace(*capacity)),
                Event::Path(path, change) => {
                    let change = change.with_local(|local| self.routes.address(local).ip());
                    state.on_path(PathEvent { path, change });
                }
                // `signal` signals the tasks that wait for room.
                _ => {}
            }
        }
    }

    fn on_connected(&mut self, id: SessionId) {
        let remote = self.open_paths(id).first().map(|path| path.remote);
        if let Some(session) = self.proto.session(id) {
            session.report_outcomes(true);
        }
        if let Some(state) = self.sessions.get_mut(&id) {
            state.connected = true;
            state.remote = remote;
            state.wake_all();
            if state.abandoned {
                // The attempt to connect was dropped.
                self.close(id, 0, "");
            }
        }
    }

    fn on_closed(&mut self, id: SessionId, reason: CloseReason) {
        let stats = self.stats(id);
        let paths = self.open_paths(id);
        self.meters.finish(id, &mut self.proto, &self.routes);
        let left = std::iter::from_fn(|| self.proto.poll_arrival(id, |_| true)).collect();
        if let Some(state) = self.sessions.get_mut(&id) {
            state.left = left;
            state.on_end(Ended { reason, stats, paths });
            if state.abandoned {
                self.sessions.remove(&id);
            }
        }
        self.touch(id);
    }

    /// Marks a session for the endpoint to check, as it may have packets to send or be removable.
    fn touch(&mut self, id: SessionId) {
        self.proto.session(id);
        self.wake();
    }

    /// `true` if a session has ended and reported it, or no longer can because the driver is gone.
    pub(crate) fn is_over(&self, id: SessionId) -> bool {
        self.gone || self.sessions.get(&id).is_none_or(|s| s.ended.is_some())
    }

    /// Returns the close reason of a session if it has ended.
    pub(crate) fn close_reason(&self, id: SessionId) -> Option<CloseReason> {
        self.sessions.get(&id)?.ended.as_ref().map(|ended| ended.reason.clone())
    }

    /// `true` if a session has ended, even if its handles were not signalled yet.
    pub(crate) fn has_ended(&mut self, id: SessionId) -> bool {
        self.is_over(id) || self.proto.session(id).is_none_or(|s| s.is_closed())
    }

    /// `true` if every block of a session has ended; otherwise the session is signalled when that
    /// happens.
    pub(crate) fn finishing(&mut self, id: SessionId) -> bool {
        let Some(session) = self.proto.session(id) else { return true };
        let done = session.is_closed() || session.is_idle();
        if let Some(state) = self.sessions.get_mut(&id) {
            state.finishing = true;
            self.waiting.push(id);
        }
        done || self.gone
    }

    /// Returns a receiver for changes of the capacity.
    pub(crate) fn capacity_changes(&self, id: SessionId) -> watch::Receiver<Capacity> {
        let state = self.sessions.get(&id);
        state.map_or_else(|| watch::Sender::default().subscribe(), |state| state.capacity.subscribe())
    }

    pub(crate) fn close(&mut self, id: SessionId, code: u32, reason: &str) {
        if let Some(session) = self.proto.session(id) {
            session.close(Instant::now(), code, reason);
            self.wake();
        }
    }

    pub(crate) fn close_all(&mut self, code: u32, reason: &str) {
        let all: Vec<SessionId> = self.proto.sessions().collect();
        for id in all {
            self.close(id, code, reason);
        }
        self.wake();
    }

    /// Closes a session whose last handle was dropped, and removes its state once it is over.
    pub(crate) fn abandon(&mut self, id: SessionId) {
        self.close(id, 0, "");
        if self.is_over(id) {
            self.sessions.remove(&id);
        } else if let Some(state) = self.sessions.get_mut(&id) {
            state.abandoned = true;
            self.take_notices(id);
        }
        self.wake();
    }

    /// Returns the counters of a session; the final ones after its end.
    pub(crate) fn stats(&mut self, id: SessionId) -> SessionStats {
        let Some(state) = self.sessions.get(&id) else { return SessionStats::default() };
        match &state.ended {
            Some(ended) => ended.stats.clone(),
            None => state.complete(self.proto.session(id).map(|s| s.stats()).unwrap_or_default()),
        }
    }

    /// Returns the address of the peer of a session that is up or was.
    pub(crate) fn remote(&mut self, id: SessionId) -> Option<SocketAddr> {
        let path = self.paths(id).first().map(|path| path.remote);
        path.or_else(|| self.sessions.get(&id)?.remote)
    }

    /// Returns the paths of a session; the final ones after its end.
    pub(crate) fn paths(&mut self, id: SessionId) -> Vec<PathInfo> {
        if let Some(ended) = self.sessions.get(&id).and_then(|s| s.ended.as_ref()) {
            return ended.paths.clone();
        }
        self.open_paths(id)
    }

    fn open_paths(&mut self, id: SessionId) -> Vec<PathInfo> {
        let all = self.proto.session(id).map(squall_proto::Session::path_stats).unwrap_or_default();
        let real = |(id, net, stats): (PathId, squall_proto::NetPath, PathStats)| {
            let route = self.routes.get(net.local);
            PathInfo {
                id,
                interface: route.and_then(|r| r.device.clone()),
                local: self.routes.address(net.local),
                remote: net.remote,
                trouble: route.and_then(|r| r.trouble.clone()),
                stats,
            }
        };
        all.into_iter().map(real).collect()
    }

    /// Returns the interfaces that a session does not run over.
    pub(crate) fn unused(&self, id: SessionId) -> Vec<UnusedInterface> {
        self.sessions.get(&id).map(|state| state.unused.clone()).unwrap_or_default()
    }

    pub(crate) fn set_unused(&mut self, id: SessionId, unused: &[UnusedInterface]) {
        if let Some(state) = self.sessions.get_mut(&id).filter(|state| state.unused != unused) {
            state.unused = unused.to_vec();
        }
    }

    /// Changes the interfaces of a session if this side started it; returns `true` in that case.
    pub(crate) fn set_interfaces(&mut self, id: SessionId, plan: Interfaces) -> bool {
        let own = self.sessions.get(&id).is_some_and(|state| state.is_own);
        if own {
            self.orders.push(Order::Interfaces(id, plan));
            self.wake();
        }
        own
    }

    /// Returns the interfaces with a name or local address.
    pub(crate) fn interfaces(&self, name: &str) -> Result<Vec<Interface>, UnknownInterface> {
        let interfaces = self.routes.matching(name);
        if interfaces.is_empty() {
            return Err(UnknownInterface { name: name.to_owned(), known: self.routes.known() });
        }
        Ok(interfaces)
    }

    /// Processes the events of sessions. Returns `true` if that may cause packets.
    pub(crate) fn announce(&mut self) -> bool {
        let mut acted = false;
        while let Some(id) = self.proto.poll_ready() {
            match self.sessions.get(&id) {
                Some(state) => {
                    state.signals.arrivals.notify_waiters();
                    self.take_notices(id);
                }
                None => acted |= self.welcome(id),
            }
        }
        self.signal_waiters();
        if self.proto.is_empty() {
            self.group.idle.notify_waiters();
        }
        acted
    }

    /// Handles the first event of an incoming session: offers the session to the application, or
    /// closes it. Returns `true` if that may cause packets.
    fn welcome(&mut self, id: SessionId) -> bool {
        match self.proto.poll_notice(id) {
            Some(Event::Connected) => {}
            // The session is over: drop everything that arrived.
            Some(_) => {
                while self.proto.poll_notice(id).is_some() || self.proto.poll_arrival(id, |_| true).is_some()
                {
                }
                self.touch(id);
                return true;
            }
            None => return self.proto.poll_arrival(id, |_| true).is_some(),
        }
        self.enrol(id, false);
        self.on_connected(id);
        if self.group.offer(self.worker, id) {
            return false;
        }
        self.close(id, NOT_ACCEPTED, "the server accepts no more sessions now");
        self.abandon(id);
        true
    }

    /// Signals the tasks that wait for room, or for the end of blocks.
    fn signal_waiters(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_unstable();
        waiting.dedup();
        waiting.retain(|id| !self.signal(*id));
        self.waiting = waiting;
    }

    /// Signals the tasks of a session if the condition that one of them waits for holds; each then
    /// checks its own condition again. Returns `true` if the session needs no further check.
    fn signal(&mut self, id: SessionId) -> bool {
        let Some(state) = self.sessions.get_mut(&id) else { return true };
        let come = self.proto.session(id).is_none_or(|session| {
            session.is_closed()
                || state.blocked.is_some_and(|len| session.has_room(len))
                || state.append_blocked.is_some_and(|len| session.has_room_for(len))
                || state.wants_half && session.is_half_empty()
                || state.finishing && session.is_idle()
        });
        if come {
            state.blocked = None;
            state.append_blocked = None;
            state.wants_half = false;
            state.finishing = false;
            state.signals.changed.notify_waiters();
        }
        come
    }

    /// Ends all sessions after the end of the driver. Unless the endpoint was dropped, the driver
    /// ended by a panic or with its runtime, and packets that the kernel delivers to this worker
    /// are lost. No worker accepts sessions then, and the application gets the end of the endpoint.
    pub(crate) fn retire(&mut self) {
        self.gone = true;
        self.orders.clear();
        let all: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in all {
            self.take_notices(id);
        }
        for state in self.sessions.values_mut() {
            state.outcomes.clear();
            state.wake_all();
        }
        self.group.close();
        self.group.idle.notify_waiters();
    }
}

/// Sets the labels of the paths that a hint names. Done per block, because interfaces appear and
/// disappear, and few blocks have hints.
fn name_paths(routes: &Routes, session: &mut squall_proto::Session, hint: Option<&PathHint>) {
    let Some(hint) = hint else { return };
    for interface in routes.matching(hint.path()) {
        session.set_labels(interface, routes.labels(interface));
    }
}
