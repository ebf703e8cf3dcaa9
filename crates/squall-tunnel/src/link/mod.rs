//! A session between the two ends: greeting, which flows it carries, their blocks both ways.

mod flows;
mod paths;

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use squall::{
    Arrival, Block, Channel, CloseReason, Limit, PathEvent, PathInfo, Priority, Received, SendError, Session,
    sched::{BlockId, PathState},
};
use squall_units::Micros;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{MissedTickBehavior, sleep_until},
};

use self::{flows::Lanes, paths::Paths};
use crate::{
    config::Token,
    control::{CHANNEL, Message, VERSION},
    flow::Sender,
    journal::Kind,
    order::Part,
    status::SessionStatus,
    supervise,
    tunnel::{Bitrate, Core, Visit},
};

/// How often paths are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// How long the other end may take to say who it is.
pub(crate) const GREETING: Duration = Duration::from_secs(5);

/// Messages that wait for room in the session's queue. There are more only if the other end asks faster than it listens.
const MAX_UNSAID: usize = 64;

/// How long all paths must have been silent before another session is tried beside this one.
const STALLED: Duration = Duration::from_millis(500);

/// Codes with which a session is closed. 0 is a normal end.
pub(crate) mod code {
    /// The other end broke the protocol of tunnels.
    pub(crate) const PROTOCOL: u32 = 16;
    /// It told another token.
    pub(crate) const TOKEN: u32 = 17;
    /// It told too many wrong ones lately.
    pub(crate) const TOO_MANY: u32 = 18;
    /// It speaks another version.
    pub(crate) const VERSION: u32 = 19;
    /// There are as many tunnels as may be.
    pub(crate) const FULL: u32 = 20;
    /// It said nothing for too long.
    pub(crate) const SILENT: u32 = 21;
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) reason: CloseReason,
    /// Whether both ends had agreed on the token.
    pub(crate) agreed: bool,
    /// Why this side closed it, if it did.
    pub(crate) closed: Option<String>,
}

/// What others may see of a link.
#[derive(Debug)]
pub(crate) struct Public {
    id: u64,
    since: Instant,
    status: Mutex<SessionStatus>,
}

impl Public {
    /// What the session is doing.
    pub(crate) fn status(&self) -> SessionStatus {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        status.age_s = self.since.elapsed().as_secs_f64();
        status
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

/// Which side this is of a session that has just come up.
pub(crate) enum Who {
    /// The one that called.
    Caller {
        /// What to tell the other end.
        token: Token,
        /// Interfaces whose bytes cost money.
        metered: Vec<String>,
        /// Whether all paths have been silent for [`STALLED`].
        stalled: watch::Sender<bool>,
    },
    /// The one that was called.
    Called(Visit),
}

/// A session that runs.
pub(crate) struct Link {
    core: Arc<Core>,
    session: Session,
    public: Arc<Public>,
    /// The token to tell, if this side called: the one that goes with whom it called, whatever is set since.
    token: Option<Token>,
    /// Among those that have not told the token yet, if this side was called.
    visit: Option<Visit>,
    /// One of the places for tunnels, if this side was called and both ends have agreed.
    place: Option<OwnedSemaphorePermit>,
    /// Who the other end is, for words.
    peer: String,
    agreed: bool,
    lanes: Lanes,
    paths: Paths,
    /// Interfaces whose bytes cost money.
    metered: Vec<String>,
    closed: Option<String>,
    /// Messages to the other end that found no room yet, oldest first.
    unsaid: VecDeque<Vec<u8>>,
    /// Since when all paths have been silent.
    silent_since: Option<Instant>,
    /// Told when that has lasted, if this side called.
    stalled: Option<watch::Sender<bool>>,
}

impl Link {
    /// A session that has just come up.
    pub(crate) fn new(core: Arc<Core>, session: Session, id: u64, who: Who) -> Self {
        let (token, visit, metered, stalled) = match who {
            Who::Caller { token, metered, stalled } => (Some(token), None, metered, Some(stalled)),
            Who::Called(visit) => (None, Some(visit), Vec::new(), None),
        };
        let caller = token.is_some();
        let remote: Option<SocketAddr> = session.path_stats().first().map(|path| path.remote);
        let peer = remote.map_or_else(|| "?".to_owned(), |remote| remote.to_string());
        let scheduler = core.config().scheduler.clone();
        let status = SessionStatus { id, peer: peer.clone(), scheduler, ..SessionStatus::default() };
        let public = Arc::new(Public { id, since: Instant::now(), status: Mutex::new(status) });
        let sender = Arc::new(Sender::new(id, session.clone()));
        let lanes = Lanes::new(sender, peer.clone(), caller);
        let paths = Paths::new(caller);
        Self {
            core,
            session,
            public,
            token,
            visit,
            place: None,
            peer,
            agreed: false,
            lanes,
            paths,
            metered,
            closed: None,
            unsaid: VecDeque::new(),
            silent_since: None,
            stalled,
        }
    }

    pub(crate) fn public(&self) -> Arc<Public> {
        self.public.clone()
    }

    /// Runs until the session is over.
    pub(crate) async fn run(mut self) -> Ended {
        self.declare_cost();
        let mut flows = self.core.registry.subscribe();
        let mut capacity = self.session.capacity_changes();
        let greet_until = Instant::now() + GREETING;
        self.say_hello();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let reason = loop {
            let due = self.lanes.poll_timeout().and_then(|at| self.core.clock.instant(at));
            let at = due.unwrap_or_else(Instant::now).into();
            tokio::select! {
                biased;
                Some(event) = self.session.path_event() => self.take_path(&event),
                arrival = self.session.recv_any() => match arrival {
                    None => break self.session.closed().await,
                    Some(Arrival::Block(block)) => self.take_message(&block),
                    Some(Arrival::Part(part)) => self.take_part(part),
                    Some(Arrival::Missed(missed)) => self.lanes.gone(missed.channel.get(), missed.id),
                    Some(_) => {}
                },
                Ok(()) = capacity.changed() => {
                    let capacity = capacity.borrow_and_update();
                    self.report_bitrate(capacity.safe, capacity.limit);
                }
                () = sleep_until(at), if due.is_some() => {}
                changed = flows.changed() => {
                    if changed.is_ok() && self.agreed {
                        self.offer();
                    }
                }
                _ = look.tick() => {
                    self.look();
                    self.say_rest();
                    if !self.agreed && Instant::now() >= greet_until {
                        self.close(code::SILENT, "nothing was said for too long: is this a squall tunnel?");
                    }
                }
            }
            self.lanes.let_out(self.core.clock.now());
        };
        self.finish(reason)
    }

    /// The session is over: what came still leaves, when its time has come.
    fn finish(mut self, reason: CloseReason) -> Ended {
        self.look();
        self.report_bitrate(0, Limit::OutOfUse);
        let Self { core, agreed, closed, mut lanes, place, .. } = self;
        let (journal, name) =
            (core.journal.clone(), format!("the last output of session {}", self.public.id));
        supervise::watch(journal, name, async move {
            // What still waits takes room until it has left.
            let _place = place;
            lanes.close();
            while let Some(at) = lanes.poll_timeout() {
                if let Some(at) = core.clock.instant(at) {
                    sleep_until(at.into()).await;
                }
                lanes.let_out(core.clock.now());
            }
        });
        Ended { reason, agreed, closed }
    }

    fn take_path(&mut self, event: &PathEvent) {
        if self.agreed {
            self.paths.changed(&self.core.journal, &self.session, event.path, &event.change);
        }
        self.declare_cost();
    }

    /// Blocks of flows come in parts; those of other channels are of flows that have no end here yet.
    fn take_message(&mut self, block: &Received) {
        if self.closed.is_some() || block.channel.get() != CHANNEL {
            return;
        }
        match Message::decode(&block.data) {
            Ok(message) => self.answer(message),
            Err(error) => self.close(code::PROTOCOL, &error.to_string()),
        }
    }

    fn take_part(&mut self, part: squall::Part) {
        if self.closed.is_some() {
            return;
        }
        #[cfg(test)]
        supervise::trap(&part.data, b"panic in the session");
        let squall::Part { id: BlockId(block_id), channel, offset, data, is_last, .. } = part;
        let part = Part { block_id, offset, data, is_last };
        if let Err(error) = self.lanes.arrived(self.core.clock.now(), channel.get(), part) {
            self.close(code::PROTOCOL, &error.to_string());
        }
    }

    fn answer(&mut self, message: Message) {
        match message {
            Message::Hello { version, token } if !self.agreed => self.greet(version, &token),
            Message::Flows { generation, flows } if self.agreed => {
                let verdicts = self.lanes.take_offers(&self.core, flows);
                self.say(&Message::Answer { generation, verdicts });
            }
            Message::Answer { verdicts, .. } if self.agreed => {
                self.lanes.take_verdicts(&self.core, &verdicts);
            }
            _ => self.close(code::PROTOCOL, "a message out of turn"),
        }
    }

    fn greet(&mut self, version: u8, token: &[u8]) {
        if version != VERSION {
            let words =
                format!("this end speaks version {VERSION} of the tunnel protocol, that one {version}");
            return self.close(code::VERSION, &words);
        }
        if self.token.is_none() {
            if !self.core.config().token.matches(token) {
                return self.refuse_token();
            }
            let Some(place) = self.core.place() else {
                return self.close(code::FULL, "there are as many tunnels as may be (max_sessions)");
            };
            self.place = Some(place);
            self.visit = None;
            self.session.trust();
            self.answer_hello();
        }
        self.agreed = true;
        let capacity = self.session.capacity();
        self.report_bitrate(capacity.safe, capacity.limit);
        self.core.note_opened();
        let over = self.paths.names(&self.session.path_stats());
        let words = format!("session {} with {} is up, over {over}", self.public.id, self.peer);
        self.core.journal.info(Kind::Session, words);
        self.look();
        self.offer();
    }

    /// Only wrong tokens count against a host: the right one opens whatever its neighbours tried.
    fn refuse_token(&mut self) {
        let now = self.core.clock.now();
        let may_try = self.visit.as_ref().is_none_or(|visit| self.core.guard.failed(visit.from, now));
        if may_try {
            self.close(code::TOKEN, "wrong token: both ends need the same one");
        } else {
            self.close(code::TOO_MANY, "too many wrong tokens from there: try again in a minute");
        }
    }

    /// The side that called says who it is.
    fn say_hello(&mut self) {
        if let Some(token) = &self.token {
            let token = token.reveal().as_bytes().to_vec();
            self.say(&Message::Hello { version: VERSION, token });
        }
    }

    fn answer_hello(&mut self) {
        self.say(&Message::Hello { version: VERSION, token: Vec::new() });
    }

    /// Tells which flows come in here, and looks whether those of the other end still have an end here.
    fn offer(&mut self) {
        let (offer, lost) = self.lanes.offer(&self.core);
        self.say(&offer);
        if let Some(lost) = lost {
            self.say(&lost);
        }
    }

    fn say(&mut self, message: &Message) {
        if self.unsaid.len() >= MAX_UNSAID {
            return self.close(code::PROTOCOL, "too many messages that were not read");
        }
        self.unsaid.push_back(message.encode());
        self.say_rest();
    }

    /// Says what there is room for; the rest at the next look.
    fn say_rest(&mut self) {
        while let Some(message) = self.unsaid.front() {
            let block = Block::new(message.clone())
                .channel(Channel::new(CHANNEL))
                .priority(Priority::FIRST)
                .ordered();
            if let Err(SendError::Full(_)) = self.session.try_send(block) {
                return;
            }
            // A session that is over reports that itself.
            self.unsaid.pop_front();
        }
    }

    fn close(&mut self, code: u32, words: &str) {
        if self.closed.is_none() {
            self.closed = Some(words.to_owned());
            self.session.close(code, words);
        }
    }

    fn declare_cost(&self) {
        for interface in &self.metered {
            // One that is not there now is declared when its path comes up.
            let _ = self.session.set_metered(interface, true);
        }
    }

    /// Looks at paths and counters.
    fn look(&mut self) {
        let stats = self.session.stats();
        let infos = self.session.path_stats();
        self.watch_silence(&infos);
        let capacity = self.session.capacity();
        let paths = self.paths.look(&self.core.journal, Instant::now(), &infos, &capacity, self.agreed);
        self.lanes.set_way(Paths::min_rtt_us(&infos) / 2 as Micros);
        let mut status = self.public.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.agreed = self.agreed;
        status.queued_bytes = stats.queued_bytes;
        status.open_blocks = stats.open_blocks as u64;
        status.capacity = (&capacity).into();
        status.paths = paths;
        drop(status);
        for flow in self.core.registry.all() {
            flow.sweep();
        }
    }

    /// Reports what the session can carry, if it is one of this tunnel.
    fn report_bitrate(&self, safe_bps: u64, limit: Limit) {
        if self.agreed {
            // Without a receiver it is not wanted.
            let _ = self.core.bitrates.send(Bitrate { session: self.public.id, safe_bps, limit });
        }
    }

    fn watch_silence(&mut self, infos: &[PathInfo]) {
        let silent = self.agreed
            && !infos.is_empty()
            && infos.iter().all(|info| info.stats.state == PathState::Suspect);
        if !silent {
            self.silent_since = None;
        }
        let since = silent.then(|| *self.silent_since.get_or_insert_with(Instant::now));
        if let Some(stalled) = &self.stalled {
            stalled.send_if_modified(|before| {
                let now = since.is_some_and(|since| since.elapsed() >= STALLED);
                std::mem::replace(before, now) != now
            });
        }
    }
}

/// Channels by the name of the flow.
type Channels = BTreeMap<String, u16>;
