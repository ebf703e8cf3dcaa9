//! Dispatches packets to sessions, runs their timers, and connects.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;

use crate::{
    AdmissionStats, Channel, CloseReason, Config, ConnectError, Event, Interface, NetPath, ServerTls,
    Session, Target,
    newcomers::Newcomers,
    race::Attempt,
    steering::{Ecn, Handle, Incoming, Listener, Server, Transmit},
    tally::{SessionPlace, Tally},
    worker::{MAX_WORKERS, Worker},
};

/// A session of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// All sessions behind a set of sockets. See the [crate] documentation for how to drive it.
pub struct Endpoint {
    config: Config,
    epoch: Instant,
    /// Time of the driver's last call.
    called: Instant,
    listener: Listener,
    /// Sessions, racers included, by key.
    sessions: BTreeMap<u64, Session>,
    by_handle: Handles,
    attempts: BTreeMap<u64, Attempt>,
    next_key: u64,
    timers: BTreeSet<(Instant, u64)>,
    timer_of: BTreeMap<u64, Instant>,
    /// Sessions that may have packets to send.
    dirty: BTreeSet<u64>,
    /// Sessions that may have events.
    ready: BTreeSet<u64>,
    /// Packets with which the endpoint itself answers.
    replies: VecDeque<(Transmit, Vec<u8>)>,
    max_replies: usize,
    /// Connections that have not announced themselves.
    newcomers: Newcomers,
    /// Counts over all workers.
    tally: Arc<Tally>,
    /// See [`Self::unknown_packets`].
    unknown: u64,
    /// Reasons of failed attempts.
    failed: VecDeque<(u64, CloseReason)>,
}

/// The session of each handle. Handles are small numbers that are reused, so a lookup in a list is
/// faster than in a map.
#[derive(Default)]
struct Handles(Vec<Option<u64>>);

impl Handles {
    fn get(&self, handle: Handle) -> Option<u64> {
        *self.0.get(handle.0)?
    }

    fn insert(&mut self, handle: Handle, key: u64) {
        if self.0.len() <= handle.0 {
            self.0.resize(handle.0 + 1, None);
        }
        self.0[handle.0] = Some(key);
    }

    /// Removes the handle of a session, unless it belongs to another one by now: QUIC reuses it as
    /// soon as the connection is over, but the session stays until its events are read.
    fn remove(&mut self, handle: Handle, key: u64) {
        if let Some(of) = self.0.get_mut(handle.0) {
            of.take_if(|of| *of == key);
        }
    }
}

/// Largest number of waiting replies of all workers; a flood of garbage gets no more answers.
const MAX_REPLIES: usize = 256;

/// Close code of a session whose peer did not announce itself in time.
const UNANNOUNCED: u32 = 3;

/// Close code of a session that announced itself when the limit of sessions was reached.
const NO_ROOM: u32 = 5;

/// Delay of a driver's call that indicates a suspension of its process or machine.
const SUSPENSION: Duration = Duration::from_millis(500);

/// Returns `true` if a connection is kept only for late packets.
fn is_over(sessions: &BTreeMap<u64, Session>, key: u64) -> bool {
    !sessions.get(&key).is_some_and(|session| session.in_handshake() || session.is_open())
}

impl Endpoint {
    /// Creates an endpoint. With `tls` it accepts sessions. `seed` makes everything but the
    /// cryptography reproducible. `epoch` is the origin of session time.
    pub fn new(config: Config, tls: Option<&ServerTls>, seed: Option<[u8; 32]>, epoch: Instant) -> Self {
        let server = tls.map(|tls| Server::new(&config, tls, seed));
        Self::worker(config, server, seed, epoch, Worker::ALONE, Arc::default())
    }

    /// Creates several endpoints behind the same addresses, each for a task of its own;
    /// [`worker_of`](crate::worker_of) selects the one for a datagram. They have the same keys, and
    /// share the limits of the [`Config`]. `count` is at least 1 and at most [`MAX_WORKERS`]; the
    /// rest is as for [`Self::new`].
    pub fn workers(
        config: &Config,
        tls: Option<&ServerTls>,
        seed: Option<[u8; 32]>,
        epoch: Instant,
        count: usize,
    ) -> Vec<Self> {
        let count = count.clamp(1, MAX_WORKERS);
        let (server, tally) = (tls.map(|tls| Server::new(config, tls, seed)), Arc::<Tally>::default());
        let one = |index: usize| {
            let seed = seed.map(|mut seed| {
                seed[0] ^= index as u8;
                seed
            });
            let worker = Worker { index, count };
            Self::worker(config.clone(), server.clone(), seed, epoch, worker, tally.clone())
        };
        (0..count).map(one).collect()
    }

    fn worker(
        config: Config,
        server: Option<Server>,
        seed: Option<[u8; 32]>,
        epoch: Instant,
        worker: Worker,
        tally: Arc<Tally>,
    ) -> Self {
        let config = config.bounded();
        Self {
            listener: Listener::new(&config, server, seed, worker),
            newcomers: Newcomers::new(config.limits, config.announce_timeout, tally.clone()),
            tally,
            max_replies: worker.share(MAX_REPLIES),
            unknown: 0,
            config,
            epoch,
            called: epoch,
            sessions: BTreeMap::new(),
            by_handle: Handles::default(),
            attempts: BTreeMap::new(),
            next_key: 0,
            timers: BTreeSet::new(),
            timer_of: BTreeMap::new(),
            dirty: BTreeSet::new(),
            ready: BTreeSet::new(),
            replies: VecDeque::new(),
            failed: VecDeque::new(),
        }
    }

    /// Gives all offsets of a block the length of the longest, so that its packets have one size
    /// and the system can segment a batch of them (GSO): a byte or three more in each packet. For a
    /// driver that sends batches. Default: `false`.
    pub fn set_even_offsets(&mut self, on: bool) {
        self.config.even_offsets = on;
    }

    /// Starts to connect. The session of the returned id reports [`Event::Connected`], or
    /// [`Event::Closed`] if the attempt failed.
    ///
    /// # Errors
    /// If there is no path, or the address or the name cannot be used.
    pub fn connect(&mut self, now: Instant, target: Target) -> Result<SessionId, ConnectError> {
        if target.interfaces.iter().all(Vec::is_empty) {
            return Err(ConnectError::NoPath);
        }
        let id = self.new_key();
        let config = match &target.config {
            Some(own) => Config { even_offsets: self.config.even_offsets, ..own.clone().bounded() },
            None => self.config.clone(),
        };
        self.attempts.insert(id, Attempt::new(target, config, now));
        if let Err(error) = self.race(now, id) {
            self.attempts.remove(&id);
            return Err(error);
        }
        Ok(SessionId(id))
    }

    /// Replaces the certificate for new connections. Open sessions, and handshakes in progress,
    /// continue with the one that they began with. No effect on an endpoint without a certificate,
    /// which accepts nothing.
    pub fn set_tls(&mut self, tls: &ServerTls) {
        self.listener.set_tls(tls);
    }

    /// Processes a UDP datagram.
    pub fn handle(&mut self, now: Instant, net: NetPath, ecn: Option<Ecn>, data: BytesMut) {
        self.notice_suspension(now);
        let newcomers = &mut self.newcomers;
        let accept = self.config.accept.as_ref();
        let admit = |proven| match accept {
            Some(accepts) if !accepts(net.remote) => newcomers.ignore(),
            _ => newcomers.admit(proven),
        };
        let mut buf = Vec::new();
        match self.listener.receive(now, net, ecn, data, admit, &mut buf) {
            Incoming::Packet(handle, event) => {
                let Some(key) = self.by_handle.get(handle) else { return };
                if let Some(session) = self.sessions.get_mut(&key) {
                    session.on_packet(now, net, ecn, event);
                    self.after(now, key);
                }
            }
            Incoming::New(conn, proven) => {
                let key = self.new_key();
                self.by_handle.insert(conn.handle(), key);
                let place = SessionPlace::new(&self.tally, !proven);
                if ecn.is_none() {
                    conn.on_unmarked(net);
                }
                let session = Session::new(&self.config, self.epoch, now, *conn, false, place);
                self.sessions.insert(key, session);
                self.newcomers.enter(now, key, net.remote.ip());
                self.after(now, key);
                while let Some(key) = self.newcomers.displace(now, |key| is_over(&self.sessions, key)) {
                    self.forget(key);
                }
            }
            Incoming::Refused(reply) => self.reply(reply, buf),
            Incoming::Unknown(reply) => {
                self.unknown += 1;
                self.reply(reply, buf);
            }
        }
    }

    fn reply(&mut self, reply: Option<Transmit>, mut packet: Vec<u8>) {
        if let Some(transmit) = reply.filter(|_| self.replies.len() < self.max_replies) {
            packet.truncate(transmit.size);
            self.replies.push_back((transmit, packet));
        }
    }

    /// Handles the system's report that packets over `local`, or from there to `remote` alone,
    /// cannot leave now: every session suspects its paths there at once, and probes them until they
    /// deliver again.
    pub fn handle_unreachable(&mut self, now: Instant, local: Interface, remote: Option<SocketAddr>) {
        let keys: Vec<u64> = self.sessions.keys().copied().collect();
        for key in keys {
            if let Some(session) = self.sessions.get_mut(&key)
                && session.on_unreachable(now, local, remote)
            {
                self.after(now, key);
            }
        }
    }

    /// Detects a suspension of the process.
    fn notice_suspension(&mut self, now: Instant) {
        let called = std::mem::replace(&mut self.called, now);
        if now.saturating_duration_since(called) < SUSPENSION {
            return;
        }
        let Some(due) = self.poll_timeout() else { return };
        let late = now.saturating_duration_since(due.max(called));
        if late < SUSPENSION {
            return;
        }
        tracing::debug!(?late, "the process did not run for a while");
        self.listener.clock.stop_for(late);
        self.sessions.values_mut().for_each(|session| session.on_suspension(now, late));
    }

    /// Handles everything that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.notice_suspension(now);
        while let Some(&(at, key)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.remove(&(at, key));
            self.timer_of.remove(&key);
            if let Some(session) = self.sessions.get_mut(&key) {
                session.on_time(now);
                self.after(now, key);
            }
        }
        while let Some(key) = self.newcomers.expire(now) {
            self.dismiss(now, key);
        }
        let ids: Vec<u64> = self.attempts.keys().copied().collect();
        for id in ids {
            // The target was valid when the first path was tried.
            let _ = self.race(now, id);
        }
    }

    /// Returns when [`Self::handle_timeout`] is to be called next. If the next call of any kind is
    /// later by half a second or more, the delay does not count for QUIC: see
    /// [`Config::idle_timeout`].
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let session = self.timers.first().map(|(at, _)| *at);
        let others = self.attempts.values().map(Attempt::timeout).chain(self.newcomers.timeout());
        session.into_iter().chain(others).min()
    }

    /// Writes the next packets to `buf`, which must be empty: up to `max_packets` of one size (the
    /// last may be shorter) to one peer, for drivers that send them in one call.
    pub fn poll_transmit(&mut self, now: Instant, max_packets: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.notice_suspension(now);
        if let Some((transmit, data)) = self.replies.pop_front() {
            buf.extend_from_slice(&data);
            return Some(transmit);
        }
        while let Some(&key) = self.dirty.first() {
            if let Some(session) = self.sessions.get_mut(&key) {
                let transmit = session.poll_transmit(now, max_packets, buf);
                if transmit.is_some() {
                    return transmit;
                }
            }
            self.dirty.remove(&key);
            self.settle(now, key);
        }
        None
    }

    /// Returns a session that may have events.
    pub fn poll_ready(&mut self) -> Option<SessionId> {
        while let Some(key) = self.ready.pop_first() {
            let failed = self.failed.iter().any(|(id, _)| *id == key);
            let session = self.sessions.get(&key);
            if failed
                || session.is_some_and(|s| s.has_events() && (s.life.is_announced() || !s.in_handshake()))
            {
                return Some(SessionId(key));
            }
        }
        None
    }

    /// Returns the next event of any session, for drivers that take all of them at once.
    pub fn poll(&mut self) -> Option<(SessionId, Event)> {
        loop {
            let id = self.poll_ready()?;
            if let Some(event) = self.poll_event(id) {
                // There may be more.
                self.ready.insert(id.0);
                return Some((id, event));
            }
        }
    }

    /// Returns the next event of a session, also if it failed to connect; [`Event::Closed`] is the
    /// last.
    pub fn poll_event(&mut self, id: SessionId) -> Option<Event> {
        self.poll_with(id, Session::poll_event)
    }

    /// Like [`Self::poll_event`], without [`Event::Received`], [`Event::Part`] and
    /// [`Event::Missed`]. Those wait for [`Self::poll_arrival`], even after [`Event::Closed`], and
    /// reduce the peer's credit meanwhile.
    pub fn poll_notice(&mut self, id: SessionId) -> Option<Event> {
        self.poll_with(id, Session::poll_notice)
    }

    /// Returns the next of the peer's blocks on wanted channels: [`Event::Received`],
    /// [`Event::Part`] or [`Event::Missed`].
    pub fn poll_arrival(&mut self, id: SessionId, wanted: impl Fn(Channel) -> bool) -> Option<Event> {
        self.poll_with(id, |session| session.poll_arrival(&wanted))
    }

    fn poll_with(&mut self, id: SessionId, poll: impl Fn(&mut Session) -> Option<Event>) -> Option<Event> {
        if let Some(at) = self.failed.iter().position(|(failed, _)| *failed == id.0) {
            return self.failed.remove(at).map(|(_, reason)| Event::Closed(reason));
        }
        let session = self.sessions.get_mut(&id.0).filter(|s| s.life.is_announced() || s.is_closed())?;
        let announced = session.life.is_announced();
        let event = poll(session);
        // Freed memory of the inbox may be announced to the peer.
        self.dirty.insert(id.0);
        // A racer that lost, or a peer that left before its hello, has no application.
        event.filter(|_| announced)
    }

    /// Returns a session for calls. [`Self::poll_transmit`] must follow.
    pub fn session(&mut self, id: SessionId) -> Option<&mut Session> {
        let session = self.sessions.get_mut(&id.0)?;
        self.dirty.insert(id.0);
        self.ready.insert(id.0);
        Some(session)
    }

    /// Returns `true` if a session exists: connecting, open, or closing.
    pub fn has(&self, id: SessionId) -> bool {
        self.sessions.contains_key(&id.0) || self.attempts.contains_key(&id.0)
    }

    /// Iterates over the open sessions.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions
            .iter()
            .filter(|(_, s)| s.is_open() && s.life.is_announced())
            .map(|(key, _)| SessionId(*key))
    }

    /// Returns the outcomes of connection attempts by peers.
    pub fn admission(&self) -> AdmissionStats {
        self.newcomers.stats()
    }

    /// Returns the number of datagrams that belonged to no connection and began none: garbage, late
    /// packets of a session that is over, and packets that a load balancer sent to the wrong
    /// server.
    pub fn unknown_packets(&self) -> u64 {
        self.unknown
    }

    /// Returns `true` if nothing is left: no session, no attempt, no close in progress.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.attempts.is_empty()
    }

    fn new_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    /// Called after a session was touched.
    fn after(&mut self, now: Instant, key: u64) {
        if let Some(session) = self.sessions.get_mut(&key) {
            session.exchange(&mut self.listener.inner);
            session.life.update_place();
            if session.life.is_announced() && self.newcomers.leave(key) && !self.newcomers.confirm() {
                session.close(now, NO_ROOM, "too many sessions");
                session.discard();
                session.life.update_place();
            }
            if let Some(remote) = session.take_authorised() {
                self.newcomers.authorised(now, remote);
            }
        }
        self.check_racer(now, key);
        self.ready.insert(key);
        self.dirty.insert(key);
    }

    /// Called after a session has nothing more to send.
    fn settle(&mut self, now: Instant, key: u64) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.exchange(&mut self.listener.inner);
        session.life.update_place();
        if let Some(remote) = session.take_authorised() {
            self.newcomers.authorised(now, remote);
        }
        if session.is_overdue(now) {
            session.life.let_go();
            self.listener.forget(session.handle());
        }
        if session.is_drained() {
            if let Some(old) = self.timer_of.remove(&key) {
                self.timers.remove(&(old, key));
            }
            if !session.has_events() || !session.life.is_announced() {
                self.by_handle.remove(session.handle(), key);
                self.sessions.remove(&key);
                self.newcomers.leave(key);
            } else {
                self.ready.insert(key);
            }
            return;
        }
        // Never in the past, so that a driver with a stopped clock does not spin.
        let due = session.timeout(now).map(|at| at.max(now));
        let old = match due {
            Some(at) => self.timer_of.insert(key, at),
            None => self.timer_of.remove(&key),
        };
        // Most packets change nothing.
        if old != due {
            self.timers.extend(due.map(|at| (at, key)));
            if let Some(old) = old {
                self.timers.remove(&(old, key));
            }
        }
        self.ready.insert(key);
    }

    /// Drops a connection that did not announce itself in time.
    fn dismiss(&mut self, now: Instant, key: u64) {
        match self.sessions.get_mut(&key) {
            Some(session) if session.is_open() => {
                session.close(now, UNANNOUNCED, "no hello in time: is this Squall?");
                self.after(now, key);
            }
            // Its address may be forged, and it may have no key to read a reason.
            _ => self.forget(key),
        }
    }

    /// Drops a connection at once; later packets are answered with a stateless reset.
    fn forget(&mut self, key: u64) {
        let Some(session) = self.sessions.remove(&key) else { return };
        self.by_handle.remove(session.handle(), key);
        self.listener.forget(session.handle());
        if let Some(at) = self.timer_of.remove(&key) {
            self.timers.remove(&(at, key));
        }
        self.dirty.remove(&key);
        self.ready.remove(&key);
    }

    /// Starts racers that are due, and ends attempts that failed.
    fn race(&mut self, now: Instant, id: u64) -> Result<(), ConnectError> {
        loop {
            let Some(attempt) = self.attempts.get_mut(&id) else { return Ok(()) };
            if let Some(reason) = attempt.failed(now) {
                self.fail(now, id, reason);
                return Ok(());
            }
            let Some(net) = attempt.next_path(now) else { return Ok(()) };
            let Attempt { target, config, .. } = attempt;
            let conn = self.listener.connect(now, config, &target.tls, &target.server_name, net)?;
            let config = config.clone();
            let key = self.new_key();
            self.by_handle.insert(conn.handle(), key);
            let place = SessionPlace::new(&self.tally, false);
            let session = Session::new(&config, self.epoch, now, conn, true, place);
            self.sessions.insert(key, session);
            if let Some(attempt) = self.attempts.get_mut(&id) {
                attempt.racers.push((key, net));
            }
            self.after(now, key);
        }
    }

    /// Checks whether a racer has won or failed.
    fn check_racer(&mut self, now: Instant, key: u64) {
        let found = self.attempts.iter().find_map(|(id, attempt)| {
            attempt.racers.iter().find(|(racer, _)| *racer == key).map(|(_, net)| (*id, *net))
        });
        let Some((id, net)) = found else { return };
        let Some(session) = self.sessions.get_mut(&key) else { return };
        if session.is_open() {
            self.promote(now, id, key, net);
        } else if session.is_closed() {
            let reason = session.close_reason().cloned().unwrap_or(CloseReason::Local);
            session.discard();
            if let Some(attempt) = self.attempts.get_mut(&id) {
                attempt.on_failure(key, net.remote, reason);
            }
            // Tries the next interface at once, or ends the attempt.
            let _ = self.race(now, id);
        }
    }

    /// Makes the racer `key`, which has won, the session of the attempt.
    fn promote(&mut self, now: Instant, id: u64, key: u64, net: NetPath) {
        let (Some(attempt), Some(mut session)) = (self.attempts.remove(&id), self.sessions.remove(&key))
        else {
            return;
        };
        for kept in attempt.kept_paths(net) {
            session.add_path(now, kept);
        }
        if let Some(old) = self.timer_of.remove(&key) {
            self.timers.remove(&(old, key));
        }
        self.by_handle.insert(session.handle(), id);
        self.sessions.insert(id, session);
        self.ready.insert(id);
        self.dirty.insert(id);
        for (racer, _) in attempt.racers.iter().filter(|(racer, _)| *racer != key) {
            self.drop_racer(now, *racer);
        }
    }

    fn drop_racer(&mut self, now: Instant, key: u64) {
        if let Some(session) = self.sessions.get_mut(&key) {
            session.close(now, 0, "another interface was quicker");
            session.discard();
            self.dirty.insert(key);
        }
    }

    fn fail(&mut self, now: Instant, id: u64, reason: CloseReason) {
        let Some(attempt) = self.attempts.remove(&id) else { return };
        for (racer, _) in attempt.racers {
            self.drop_racer(now, racer);
        }
        self.failed.push_back((id, reason));
        self.ready.insert(id);
    }
}
