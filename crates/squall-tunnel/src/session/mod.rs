//! Sessions between the two ends: the handshake, the flows that a session carries, and their blocks
//! in both directions.

mod flows;
mod paths;
mod settings;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    net::IpAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use squall::{
    Arrival, Block, BlockOptions, Channel, CloseReason, Growth, Limit, PathInfo, Priority, Received,
    Receiver, SendError, Session,
    sched::{BlockId, PathState},
};
use squall_observe::{
    journal::{Kind, PeerJournal},
    places::Place,
    supervise,
};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{MissedTickBehavior, sleep_until},
};

pub(crate) use self::settings::{session_config, silence};
use self::{flows::SessionFlows, paths::Paths};
use crate::{
    code,
    config::{PathConfig, Token, TokenHash},
    flow::{SessionSender, reorder::Part, why::Recorder},
    shared::{Bitrate, ExitState, Identity, Registered, Shared},
    tenant::{Membership, Refusal},
    wire::control::{CHANNEL, GOAWAY, HELLO_TIMEOUT, Message, MessageError, NULLS, VERSION},
};

/// Interval at which paths and counters are read.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of messages that wait for room in the session. More arise only if the peer sends
/// requests faster than it reads.
const MAX_UNSENT: usize = 64;

/// Silence of all paths after which the entry tries another session.
const STALL: Duration = Duration::from_millis(500);

/// Silence after which a replaced session is closed.
const QUIET: Duration = Duration::from_millis(500);

/// Result of a session that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    /// Reason why this side closed the session because of the peer, if it did.
    closed: Option<String>,
    reason: CloseReason,
    /// Both ends had agreed on the token.
    pub(crate) agreed: bool,
    /// Journal for events that the peer causes.
    pub(crate) journal: PeerJournal,
}

impl Ended {
    /// `true` if one of the ends closed the session without a fault of the other.
    pub(crate) fn is_normal(&self) -> bool {
        self.closed.is_none() && self.reason.is_normal()
    }

    /// `true` if the peer refused the session because it is draining.
    pub(crate) fn is_draining(&self) -> bool {
        matches!(self.reason, CloseReason::ByPeer { code, .. } if code == u64::from(code::DRAINING))
    }

    /// Returns the reason given by a peer that refused the session.
    pub(crate) fn refusal(&self) -> Option<&str> {
        match &self.reason {
            CloseReason::ByPeer { code: 1.., reason } if !self.agreed && self.closed.is_none() => {
                Some(reason)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.closed {
            Some(why) => f.write_str(why),
            None => self.reason.fmt(f),
        }
    }
}

/// Role of this side in a session.
pub(crate) enum Role {
    /// The side that connected.
    Entry {
        /// Token to present, from the configuration that the address comes from.
        token: Option<Token>,
        /// Interfaces whose bytes cost money.
        metered: Vec<String>,
        /// Roles and limits of the paths of interfaces.
        paths: BTreeMap<String, PathConfig>,
        /// Exit, as `HOST:PORT`.
        exit: String,
        /// State of the session for the entry.
        state: watch::Sender<EntryState>,
        /// Set when another session replaces this one, which ends once all data in flight has
        /// arrived.
        leaving: watch::Receiver<bool>,
    },
    /// The side that listens.
    Exit {
        exit: Arc<ExitState>,
        /// Address of the peer.
        address: IpAddr,
        /// Place among the unauthenticated sessions, until the peer has presented the token.
        place: Option<Place<Session>>,
        /// Permit for the tunnel, once the peer has presented the token.
        permit: Option<OwnedSemaphorePermit>,
    },
}

/// State of a session for its entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryState {
    /// Both ends have agreed on the token.
    pub(crate) agreed: bool,
    /// All paths have been silent for [`STALL`].
    pub(crate) stalled: bool,
    /// Request of a draining exit.
    pub(crate) goaway: Option<Goaway>,
}

/// Request of an exit to use another one.
#[derive(Clone, Debug)]
pub(crate) struct Goaway {
    /// Longest time for which the session remains.
    pub(crate) left: Duration,
    /// Recommended exits.
    pub(crate) exits: Vec<String>,
}

struct TunnelSession {
    shared: Arc<Shared>,
    session: Session,
    /// Receiver for the blocks of flows, in parts.
    receiver: Arc<Receiver>,
    registered: Registered,
    role: Role,
    /// Address of the peer, for messages.
    peer: String,
    /// Both ends have agreed on the token.
    agreed: bool,
    /// Journal for events that the peer causes.
    journal: PeerJournal,
    flows: SessionFlows,
    /// Recorder of the blocks, if an address to read the records is configured.
    recorder: Option<Arc<Recorder>>,
    paths: Paths,
    /// Place of the peer among the sessions of its tenant.
    membership: Option<Membership>,
    /// Reason why this side closed the session, if it did.
    closed: Option<String>,
    /// Messages that the session had no room for, oldest first.
    unsent: VecDeque<Vec<u8>>,
    /// Start of the silence of all paths.
    silent_since: Option<Instant>,
    /// The peer understands [`Message::Goaway`].
    understands_goaway: bool,
    /// Latest arrival of a part of a block.
    last_arrival: Instant,
}

/// Waits until an exit begins to drain. Cancel safe.
async fn begins(drain: &mut Option<watch::Receiver<Option<Instant>>>) {
    if let Some(drain) = drain
        && drain.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// Waits until the place among the sessions of a tenant has to be checked. Cancel safe.
async fn changed(membership: &mut Option<Membership>) {
    match membership {
        Some(membership) => membership.changed().await,
        None => std::future::pending().await,
    }
}

/// Runs an established session until it ends.
pub(crate) async fn run(shared: Arc<Shared>, session: Session, role: Role) -> Ended {
    let is_entry = matches!(role, Role::Entry { .. });
    let remote = session.remote_address();
    let peer = remote.to_string();
    let exit = if let Role::Entry { exit, .. } = &role { Some(exit.clone()) } else { None };
    let registered = Registered::new(&shared, Some(remote), exit);
    let recorder = shared.explains.then(|| Arc::new(Recorder::new(shared.clock, registered.id)));
    session.keep_reasons(shared.explains);
    let receiver = Arc::new(session.receiver([]));
    let sender = SessionSender::new(registered.id, session.clone(), receiver.clone(), recorder.clone());
    let running = TunnelSession {
        flows: SessionFlows::new(Arc::new(sender), peer.clone(), shared.journal.of_peer(""), is_entry),
        recorder,
        paths: Paths::new(is_entry),
        journal: shared.journal.of_peer(""),
        shared,
        session,
        receiver,
        registered,
        role,
        peer,
        agreed: false,
        membership: None,
        closed: None,
        unsent: VecDeque::new(),
        silent_since: None,
        understands_goaway: false,
        last_arrival: Instant::now(),
    };
    running.run().await
}

impl TunnelSession {
    async fn run(mut self) -> Ended {
        self.declare_interfaces();
        let mut flow_changes = self.shared.registry.subscribe();
        let mut capacity = self.session.capacity_changes();
        let hello_deadline = Instant::now() + HELLO_TIMEOUT;
        if let Role::Entry { token, .. } = &self.role {
            let token = token.as_ref().map_or_else(Vec::new, |token| token.reveal().as_bytes().to_vec());
            self.send(&Message::Hello { version: VERSION, token, features: GOAWAY | NULLS });
        }
        let mut drain = match &self.role {
            Role::Exit { exit, .. } => Some(exit.drain_changes()),
            Role::Entry { .. } => None,
        };
        let mut sample = tokio::time::interval(SAMPLE_INTERVAL);
        sample.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let reason = loop {
            let due = self.flows.poll_timeout().and_then(|at| self.shared.clock.instant(at));
            let at = due.unwrap_or_else(Instant::now).into();
            tokio::select! {
                biased;
                Some(event) = self.session.path_event() => {
                    if self.agreed {
                        self.paths.changed(&self.journal, &self.session, event.path, &event.change);
                    }
                    self.declare_interfaces();
                }
                arrival = self.session.recv_any() => match arrival {
                    Ok(Some(Arrival::Block(block))) => self.on_message(&block),
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => break self.session.closed().await,
                },
                Ok(Some(growth)) = self.receiver.recv() => self.on_growth(growth),
                Ok(()) = capacity.changed() => {
                    let capacity = capacity.borrow_and_update();
                    self.report_bitrate(capacity.safe, capacity.limit);
                }
                () = sleep_until(at), if due.is_some() => {}
                () = changed(&mut self.membership) => self.check_membership(),
                changed = flow_changes.changed() => {
                    if changed.is_ok() && self.agreed {
                        self.offer_flows();
                    }
                }
                () = self.flows.displaced() => self.offer_flows(),
                () = begins(&mut drain) => self.announce_drain(),
                _ = sample.tick() => {
                    self.sample();
                    self.send_unsent();
                    self.close_if_left();
                    if !self.agreed && Instant::now() >= hello_deadline {
                        self.close(code::SILENT, "no hello in time: is this a squall tunnel?");
                    }
                }
            }
            if !self.flows.output(self.shared.clock.now()) {
                // Let other sessions run.
                tokio::task::yield_now().await;
            }
        };
        while let Ok(Some(growth)) = self.receiver.recv().await {
            self.on_growth(growth);
        }
        self.finish(reason)
    }

    /// Ends the session. Blocks that have arrived still leave, at their time.
    fn finish(mut self, reason: CloseReason) -> Ended {
        self.sample();
        self.report_bitrate(0, Limit::OutOfUse);
        if let Some(recorder) = &self.recorder {
            recorder.close();
        }
        let Self { shared, registered, role, agreed, closed, journal, mut flows, .. } = self;
        // Held until the last block has left.
        let permit = if let Role::Exit { permit, .. } = role { permit } else { None };
        let name = format!("the last output of session {}", registered.id);
        supervise::spawn(shared.journal.clone(), name, async move {
            let _permit = permit;
            flows.close();
            while let Some(at) = flows.poll_timeout() {
                if let Some(at) = shared.clock.instant(at) {
                    sleep_until(at.into()).await;
                }
                flows.output(shared.clock.now());
                tokio::task::yield_now().await;
            }
        });
        Ended { closed, reason, agreed, journal }
    }

    /// Processes a message. Blocks of flows arrive in parts; whole blocks of other channels belong
    /// to flows that have ended here.
    fn on_message(&mut self, block: &Received) {
        if self.closed.is_some() || block.channel.get() != CHANNEL {
            return;
        }
        let message = match Message::decode(&block.data) {
            Ok(message) => message,
            // A later version may send other messages. Before the hello, the peer is not a tunnel.
            Err(MessageError::Kind(kind)) if self.agreed => {
                return tracing::debug!(
                    "{} sent message {kind}, which this version does not know",
                    self.peer
                );
            }
            Err(error) => return self.close(code::PROTOCOL, &error.to_string()),
        };
        match message {
            Message::Hello { version, token, features } if !self.agreed => {
                self.understands_goaway = features & GOAWAY != 0;
                self.flows.set_restores_nulls(features & NULLS != 0);
                self.on_hello(version, &token);
            }
            Message::Flows { generation, flows } if self.agreed => {
                let verdicts = self.flows.accept_offers(&self.shared, flows);
                self.send(&Message::Answer { generation, verdicts });
            }
            Message::Answer { verdicts, .. } if self.agreed => {
                self.flows.on_verdicts(&self.shared, &verdicts);
            }
            Message::Goaway { left_ms, exits } if self.agreed => self.on_goaway(left_ms, exits),
            _ => self.close(code::PROTOCOL, "unexpected message"),
        }
    }

    /// Handles the request of a draining exit: another session has to take over.
    fn on_goaway(&mut self, left_ms: u32, exits: Vec<String>) {
        let Role::Entry { state, .. } = &self.role else {
            return self.close(code::PROTOCOL, "an entry does not drain");
        };
        self.flows.will_leave();
        let left = Duration::from_millis(left_ms.into());
        // Only the first request counts.
        state.send_if_modified(|state| {
            state.goaway.is_none() && state.goaway.replace(Goaway { left, exits }).is_none()
        });
    }

    /// Requests that the entry use another exit. If the entry does not support the request, the
    /// session is closed, and the entry reconnects.
    fn announce_drain(&mut self) {
        let Role::Exit { exit, .. } = &self.role else { return };
        let Some(until) = exit.draining().filter(|_| self.agreed) else { return };
        let exits = exit.listen().redirect.clone();
        if !self.understands_goaway {
            return self.close(0, "the exit ends");
        }
        let left_ms = until.saturating_duration_since(Instant::now()).as_millis();
        let left_ms = u32::try_from(left_ms).unwrap_or(u32::MAX);
        self.shared.redirects.fetch_add(1, Relaxed);
        self.send(&Message::Goaway { left_ms, exits });
    }

    /// Closes a replaced session once all data has arrived: everything sent, and data that the exit
    /// may have had in flight.
    fn close_if_left(&mut self) {
        let Role::Entry { leaving, .. } = &self.role else { return };
        if !*leaving.borrow() || self.closed.is_some() {
            return;
        }
        self.flows.will_leave();
        if let Some(message) = self.flows.taken_over() {
            self.send(&message);
        }
        let sends = self.flows.is_sending(&self.shared) || self.session.stats().open_blocks > 0;
        if !sends && self.last_arrival.elapsed() >= QUIET {
            self.session.close(0, "another exit takes over");
        }
    }

    fn on_growth(&mut self, growth: Growth) {
        match growth {
            Growth::Part(part) => self.on_part(part),
            Growth::Missed(missed) => self.flows.missed(missed.channel.get(), missed.id),
            _ => {}
        }
    }

    fn on_part(&mut self, part: squall::Part) {
        if self.closed.is_some() {
            return;
        }
        #[cfg(test)]
        crate::trap(&part.data, b"panic in the session");
        self.last_arrival = Instant::now();
        let squall::Part { id: BlockId(block_id), channel, offset, data, is_last, .. } = part;
        let part = Part { block_id, offset, data, is_last };
        if let Err(error) = self.flows.receive(self.shared.clock.now(), channel.get(), part) {
            self.close(code::PROTOCOL, &error.to_string());
        }
    }

    fn on_hello(&mut self, version: u8, token: &[u8]) {
        // Two ends use the lower of their versions. A later release without support for this
        // version closes the session.
        if version < VERSION {
            let reason =
                format!("tunnel protocol version {version} is not supported, this end has version {VERSION}");
            return self.close(code::VERSION, &reason);
        }
        if let Role::Exit { .. } = self.role {
            if let Err(Refusal { code, reason }) = self.authorise(token) {
                return self.close(code, &reason);
            }
            self.session.trust();
            self.send(&Message::Hello { version: VERSION, token: Vec::new(), features: NULLS });
        }
        self.agreed = true;
        if let Role::Entry { state, .. } = &self.role {
            if let Some(tun) = &self.shared.tun {
                tun.set_exit(self.session.remote_address());
            }
            state.send_modify(|state| state.agreed = true);
        }
        let capacity = self.session.capacity();
        self.report_bitrate(capacity.safe, capacity.limit);
        self.shared.opened.fetch_add(1, Relaxed);
        let paths = self.paths.names(&self.session.paths());
        let arm = self.registered.arm().map_or_else(String::new, |arm| format!(", in arm {arm}"));
        let words = format!("session {} with {} is up, over {paths}{arm}", self.registered.id, self.peer);
        self.journal.info(Kind::Session, words);
        self.sample();
        self.offer_flows();
    }

    /// Accepts the token of an entry, unless it is wrong, or there is no room for another session.
    fn authorise(&mut self, token: &[u8]) -> Result<(), Refusal> {
        let Role::Exit { exit, address, place, permit } = &mut self.role else { return Ok(()) };
        let refused = |code, reason: &str| Err(Refusal { code, reason: reason.to_owned() });
        let Some(identity) = exit.identify(token) else {
            // Only wrong tokens count against a host: the right one is always accepted.
            return match exit.wrong_token(*address) {
                true => refused(code::TOKEN, "wrong token (both ends need the same one)"),
                false => refused(code::TOO_MANY, "too many wrong tokens: try again in a minute"),
            };
        };
        if exit.draining().is_some() {
            return refused(code::DRAINING, "the exit drains: use another one");
        }
        if let Identity::Tenant(tenant) = &identity {
            self.membership = Some(tenant.enter(TokenHash::of(token))?);
            self.registered.update(|status| status.tenant = Some(tenant.name.clone()));
        }
        *permit = exit.permit(&identity);
        if permit.is_none() {
            return refused(code::FULL, "the exit carries as many tunnels as max_sessions allows");
        }
        *place = None;
        let client = identity.client(*address);
        self.flows.restrict(&identity);
        self.journal = self.shared.journal.of_peer(identity.name());
        self.flows.set_journal(self.journal.clone());
        self.enter_arm(&client);
        Ok(())
    }

    /// Sets the scheduler of the arm of the session's client, if the exit has arms. No data has
    /// been sent yet.
    fn enter_arm(&self, client: &[u8]) {
        let config = self.shared.config();
        let Some(arm) = config.arms.assign(client) else { return };
        if squall::scheduler(&arm.scheduler).is_ok_and(|factory| self.session.set_scheduler(factory)) {
            self.registered.update(|status| {
                (status.arm, status.scheduler) = (Some(arm.name.clone()), arm.scheduler.clone());
            });
        }
    }

    /// Ends the session if its tenant no longer permits it.
    fn check_membership(&mut self) {
        if let Some(Refusal { code, reason }) = self.membership.as_ref().and_then(Membership::refusal) {
            self.close(code, &reason);
        }
    }

    /// Offers the flows that enter here, and withdraws from flows of the peer that no longer have
    /// an end here.
    fn offer_flows(&mut self) {
        let (offer, withdrawal) = self.flows.offer(&self.shared);
        for message in offer.iter().chain(&withdrawal) {
            self.send(message);
        }
    }

    fn send(&mut self, message: &Message) {
        if self.unsent.len() >= MAX_UNSENT {
            return self.close(code::PROTOCOL, "too many unread messages");
        }
        self.unsent.push_back(message.encode());
        self.send_unsent();
    }

    /// Sends the messages that the session has room for.
    fn send_unsent(&mut self) {
        while let Some(message) = self.unsent.front() {
            let block = Block::with(
                message.clone(),
                BlockOptions::new().channel(Channel::new(CHANNEL)).priority(Priority::FIRST).ordered(true),
            );
            if let Err(SendError::Full(_)) = self.session.try_send(block) {
                return;
            }
            // Other errors mean that the session has ended, which it reports itself.
            self.unsent.pop_front();
        }
    }

    fn close(&mut self, code: u32, reason: &str) {
        if self.closed.is_none() {
            self.closed = Some(reason.to_owned());
            self.session.close(code, reason);
        }
    }

    fn declare_interfaces(&self) {
        let Role::Entry { metered, paths, .. } = &self.role else { return };
        for interface in metered {
            // An interface that is absent now is declared when its path comes up.
            if let Ok(interface) = self.session.interface(interface) {
                interface.set_metered(true);
            }
        }
        for (interface, path) in paths {
            if let Ok(interface) = self.session.interface(interface) {
                interface.set_role(path.role);
                interface.set_rate_limit(path.rate_limit);
            }
        }
    }

    /// Reads paths and counters.
    fn sample(&mut self) {
        let stats = self.session.stats();
        let infos = self.session.paths();
        self.watch_silence(&infos);
        let capacity = self.session.capacity();
        let paths = self.paths.sample(&self.journal, &infos, &capacity, self.agreed);
        let one_way = paths::min_rtt(&infos) / 2;
        self.flows.set_one_way(one_way);
        if let Some(recorder) = &self.recorder {
            let names = infos.iter().map(|info| (info.id, self.paths.name(info)));
            recorder.digest(&self.session, names, one_way);
        }
        let unused = self.session.unused_interfaces();
        self.registered.update(|status| {
            status.unused_interfaces = unused.into_iter().map(Into::into).collect();
            status.agreed = self.agreed;
            status.leaving = matches!(&self.role, Role::Entry { leaving, .. } if *leaving.borrow());
            status.queued_bytes = stats.queued_bytes;
            status.open_blocks = stats.open_blocks as u64;
            status.blocks = (&stats).into();
            status.capacity = (&capacity).into();
            status.switches = self.paths.switches();
            status.paths = paths;
        });
        self.flows.sweep(&self.shared);
        if self.agreed && self.closed.is_none() && self.flows.may_have_more(&self.shared) {
            self.offer_flows();
        }
    }

    fn report_bitrate(&self, safe_bps: u64, limit: Limit) {
        if self.agreed {
            // Fails without a receiver.
            let _ = self.shared.bitrates.send(Bitrate { session: self.registered.id, safe_bps, limit });
        }
    }

    /// Sets `stalled` while all paths are silent.
    fn watch_silence(&mut self, infos: &[PathInfo]) {
        // Ignore paths that were never answered.
        let mut used = infos.iter().map(|info| info.stats.state).filter(|state| *state != PathState::Opening);
        let silent = self.agreed
            && used.next().is_some_and(|first| first == PathState::Suspect)
            && used.all(|state| state == PathState::Suspect);
        self.silent_since = silent.then(|| self.silent_since.unwrap_or_else(Instant::now));
        if let Role::Entry { state, .. } = &self.role {
            let is_stalled = self.silent_since.is_some_and(|since| since.elapsed() >= STALL);
            state.send_if_modified(|state| std::mem::replace(&mut state.stalled, is_stalled) != is_stalled);
        }
    }
}
