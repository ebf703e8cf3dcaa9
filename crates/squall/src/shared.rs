//! What the driver and the handles of an endpoint share.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Instant,
};

use squall_proto::{
    Block, CloseReason, Event, Limits, PathChange, PathStats, SendError, SessionId, SessionStats,
    sched::{BlockId, PathId},
};
use tokio::sync::Notify;

use crate::{Interfaces, PathInfo, radios::Radios, routes::Routes};

/// Sessions that wait for [`Endpoint::accept`](crate::Endpoint::accept) at most; more are turned away.
const MAX_WAITING: usize = 1024;

/// Code with which a session is turned away that nobody accepts.
const NOT_ACCEPTED: u32 = 2;

/// The core behind its lock, and what to wait for.
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// A session can be accepted, or no more will come.
    pub(crate) accept: Notify,
    /// Nothing is left to do.
    pub(crate) idle: Notify,
}

/// The sans-IO endpoint and what belongs to its sessions.
pub(crate) struct Core {
    pub(crate) proto: squall_proto::Endpoint,
    pub(crate) routes: Routes,
    pub(crate) accepted: VecDeque<SessionId>,
    /// Whether sessions may still come in.
    pub(crate) accepting: bool,
    /// Whether an [`Endpoint`](crate::Endpoint) can still be asked for sessions.
    pub(crate) listening: bool,
    /// Whether the driver has ended.
    pub(crate) gone: bool,
    /// Interfaces the application asked for, until the driver has seen it.
    pub(crate) plan: Option<Interfaces>,
    /// Times that everything there was to send has been handed to the sockets.
    pub(crate) flushes: u64,
    /// What the system said when sending last failed.
    pub(crate) send_error: Option<String>,
    pub(crate) radios: Radios,
    sessions: HashMap<SessionId, State>,
    /// Sessions that a task waits for: for room, or for the end of all blocks.
    waiting: Vec<SessionId>,
    limits: Limits,
    waker: Option<Waker>,
}

/// What the handles of a session wait for.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// There are events.
    pub(crate) readable: Notify,
    /// There is room to send, or a block has ended, or the driver has sent everything.
    pub(crate) changed: Notify,
}

/// What the endpoint knows of a session beside the proto session.
#[derive(Default)]
struct State {
    signals: Arc<Signals>,
    /// No handle is left.
    abandoned: bool,
    /// A `send` waits for room for this many bytes.
    blocked: Option<u64>,
    /// A `finish` waits.
    finishing: bool,
    /// A `try_send` was told that there is no room.
    told_full: bool,
    ended: Option<Ended>,
}

/// How a session ended, and its last counters.
#[derive(Clone)]
struct Ended {
    reason: CloseReason,
    stats: SessionStats,
    paths: Vec<PathInfo>,
}

impl Shared {
    pub(crate) fn new(proto: squall_proto::Endpoint, limits: Limits, listening: bool) -> Arc<Self> {
        let core = Core {
            proto,
            routes: Routes::default(),
            radios: Radios::default(),
            sessions: HashMap::new(),
            waiting: Vec::new(),
            accepted: VecDeque::new(),
            accepting: listening,
            listening,
            gone: false,
            plan: None,
            flushes: 0,
            send_error: None,
            limits,
            waker: None,
        };
        Arc::new(Self { core: Mutex::new(core), accept: Notify::new(), idle: Notify::new() })
    }

    /// The core. A panic elsewhere does not make it worse than it is.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Has the driver woken by [`Self::wake`].
    pub(crate) fn set_waker(&mut self, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    /// Has the driver look after what was changed.
    pub(crate) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Keeps account of a session from now on.
    pub(crate) fn enrol(&mut self, id: SessionId) -> Arc<Signals> {
        self.sessions.entry(id).or_default().signals.clone()
    }

    /// What the handles of a session wait for.
    pub(crate) fn signals(&self, id: SessionId) -> Arc<Signals> {
        self.sessions.get(&id).map(|s| s.signals.clone()).unwrap_or_default()
    }

    /// Hands a block over. With `wait`, the session is signalled as soon as there is room.
    pub(crate) fn send(&mut self, id: SessionId, block: Block, wait: bool) -> Result<BlockId, SendError> {
        let Some(session) = self.proto.session(id) else { return Err(SendError::Closed) };
        let len = block.data.len() as u64;
        let result = session.send(Instant::now(), block);
        match (&result, self.sessions.get_mut(&id)) {
            (Ok(_), _) => self.wake(),
            (Err(SendError::Full(_)), Some(state)) if wait => {
                state.blocked = Some(state.blocked.map_or(len, |other| other.min(len)));
                self.waiting.push(id);
            }
            (Err(SendError::Full(_)), Some(state)) => state.told_full = true,
            _ => {}
        }
        result
    }

    /// The next event of a session, with the real addresses.
    pub(crate) fn poll_event(&mut self, id: SessionId) -> Option<Event> {
        loop {
            let last = self.last_counters(id);
            let mut event = self.proto.poll_event(id)?;
            match &mut event {
                Event::Writable => {
                    let state = self.sessions.get_mut(&id);
                    if !state.is_some_and(|s| std::mem::take(&mut s.told_full)) {
                        // Only waiting senders were refused; they are signalled otherwise.
                        continue;
                    }
                }
                Event::Path(_, PathChange::Up(net) | PathChange::Rebound(net)) => {
                    *net = self.routes.real(*net);
                }
                Event::Closed(reason) => self.on_closed(id, reason.clone(), last),
                // Memory is free again, or the peer is to be told: both may cause a packet.
                Event::Received(_) | Event::Missed { .. } => self.touch(id),
                _ => {}
            }
            return Some(event);
        }
    }

    /// Counters of a session that is over but has not said so yet; they go with its last event.
    fn last_counters(&mut self, id: SessionId) -> Option<(SessionStats, Vec<PathInfo>)> {
        if !self.proto.session(id)?.is_closed() {
            return None;
        }
        Some((self.proto.session(id)?.stats(), self.open_paths(id)))
    }

    fn on_closed(&mut self, id: SessionId, reason: CloseReason, last: Option<(SessionStats, Vec<PathInfo>)>) {
        let (stats, paths) = last.unwrap_or_default();
        if let Some(state) = self.sessions.get_mut(&id) {
            state.ended = Some(Ended { reason, stats, paths });
            state.signals.changed.notify_waiters();
            state.signals.readable.notify_waiters();
        }
        self.touch(id);
    }

    /// Has the endpoint see whether the session has something to send, or can be forgotten.
    fn touch(&mut self, id: SessionId) {
        self.proto.session(id);
        self.wake();
    }

    /// Whether the last event of a session was taken, or none will come.
    pub(crate) fn is_over(&self, id: SessionId) -> bool {
        self.gone || self.sessions.get(&id).is_none_or(|s| s.ended.is_some())
    }

    /// Why a session ended, if it has and its last event was taken.
    pub(crate) fn close_reason(&self, id: SessionId) -> Option<CloseReason> {
        self.sessions.get(&id)?.ended.as_ref().map(|ended| ended.reason.clone())
    }

    /// Whether a session has ended, its last event taken or not.
    pub(crate) fn has_ended(&mut self, id: SessionId) -> bool {
        self.is_over(id) || self.proto.session(id).is_none_or(|s| s.is_closed())
    }

    /// Whether every block of a session has ended; the session is signalled when that changes.
    pub(crate) fn finishing(&mut self, id: SessionId) -> bool {
        let Some(session) = self.proto.session(id) else { return true };
        let done = session.is_closed() || session.is_idle();
        if let Some(state) = self.sessions.get_mut(&id) {
            state.finishing = true;
            self.waiting.push(id);
        }
        done || self.gone
    }

    /// Closes a session.
    pub(crate) fn close(&mut self, id: SessionId, code: u32, reason: &str) {
        if let Some(session) = self.proto.session(id) {
            session.close(Instant::now(), code, reason);
            self.wake();
        }
    }

    /// The peer of a session may use all that the limits allow.
    pub(crate) fn trust(&mut self, id: SessionId) {
        if let Some(session) = self.proto.session(id) {
            session.trust(Instant::now());
            self.wake();
        }
    }

    /// Closes all sessions.
    pub(crate) fn close_all(&mut self, code: u32, reason: &str) {
        let all: Vec<SessionId> = self.proto.sessions().collect();
        for id in all {
            self.close(id, code, reason);
        }
        self.wake();
    }

    /// The last handle of a session is gone.
    pub(crate) fn abandon(&mut self, id: SessionId) {
        self.close(id, 0, "");
        if self.is_over(id) {
            self.sessions.remove(&id);
        } else if let Some(state) = self.sessions.get_mut(&id) {
            state.abandoned = true;
        }
        self.drain(id);
        self.wake();
    }

    /// Counters of a session; the last ones when it is over.
    pub(crate) fn stats(&mut self, id: SessionId) -> SessionStats {
        if let Some(ended) = self.sessions.get(&id).and_then(|s| s.ended.as_ref()) {
            return ended.stats.clone();
        }
        self.proto.session(id).map(|s| s.stats()).unwrap_or_default()
    }

    /// Paths of a session; the last ones when it is over.
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
                local: route.map_or_else(|| (net.local, 0).into(), |r| r.local),
                remote: net.remote,
                stats,
            }
        };
        all.into_iter().map(real).collect()
    }

    /// Declares an interface, or a local address, to cost money or not.
    pub(crate) fn set_metered(&mut self, id: SessionId, interface: &str, metered: bool) {
        let names = self.routes.matching(interface);
        if let Some(session) = self.proto.session(id) {
            for name in names {
                session.set_metered(name, metered);
            }
            self.wake();
        }
    }

    /// Sets what each path of an interface, or of a local address, may carry.
    pub(crate) fn set_budget(&mut self, id: SessionId, interface: &str, budget: Option<u64>) {
        let names = self.routes.matching(interface);
        if let Some(session) = self.proto.session(id) {
            for name in names {
                session.set_budget(name, budget);
            }
            self.wake();
        }
    }

    /// Tells sessions what has happened. Says whether something was done that causes packets.
    pub(crate) fn announce(&mut self, shared: &Shared) -> bool {
        let mut acted = false;
        while let Some(id) = self.proto.poll_ready() {
            match self.sessions.get(&id) {
                // What comes after the last event is nobody's business.
                Some(state) if state.abandoned || state.ended.is_some() => {
                    self.drain(id);
                    acted = true;
                }
                Some(state) => state.signals.readable.notify_waiters(),
                None => acted |= self.welcome(id, shared),
            }
        }
        self.signal_waiters();
        if self.proto.is_empty() {
            shared.idle.notify_waiters();
        }
        acted
    }

    /// A session nobody knows yet has something to say.
    fn welcome(&mut self, id: SessionId, shared: &Shared) -> bool {
        match self.proto.poll_event(id) {
            Some(Event::Connected) => {}
            Some(_) => {
                // It is over, and its last event taken: what comes after is nobody's business.
                self.drain(id);
                return true;
            }
            None => return false,
        }
        if self.accepting && self.accepted.len() < MAX_WAITING {
            self.enrol(id);
            self.accepted.push_back(id);
            shared.accept.notify_waiters();
            return false;
        }
        self.close(id, NOT_ACCEPTED, "the server takes no more sessions now");
        self.sessions.entry(id).or_default().abandoned = true;
        self.drain(id);
        true
    }

    /// Takes what an abandoned session tells, so that it can be forgotten.
    fn drain(&mut self, id: SessionId) {
        while let Some(event) = self.proto.poll_event(id) {
            match event {
                Event::Connected => self.close(id, 0, ""),
                Event::Closed(_) => {
                    self.sessions.remove(&id);
                }
                _ => {}
            }
        }
        self.touch(id);
    }

    /// Signals the tasks that wait for room, or for the end of blocks.
    fn signal_waiters(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_unstable();
        waiting.dedup();
        waiting.retain(|id| !self.signal(*id));
        self.waiting = waiting;
    }

    /// Whether what the tasks of a session wait for has come; they are signalled then, and ask again
    /// for what they still miss.
    fn signal(&mut self, id: SessionId) -> bool {
        let Some(state) = self.sessions.get_mut(&id) else { return true };
        let come = match self.proto.session(id) {
            None => true,
            Some(session) => {
                let stats = session.stats();
                let room = state.blocked.is_some_and(|len| {
                    stats.queued_bytes + len <= self.limits.queued_bytes
                        && stats.open_blocks < self.limits.open_blocks
                });
                room || session.is_closed() || state.finishing && session.is_idle()
            }
        };
        if come {
            state.blocked = None;
            state.finishing = false;
            state.signals.changed.notify_waiters();
        }
        come
    }

    /// The driver has ended: nobody will be signalled again.
    pub(crate) fn retire(&mut self, shared: &Shared) {
        self.gone = true;
        self.accepting = false;
        for state in self.sessions.values() {
            state.signals.changed.notify_waiters();
            state.signals.readable.notify_waiters();
        }
        shared.accept.notify_waiters();
        shared.idle.notify_waiters();
    }
}
