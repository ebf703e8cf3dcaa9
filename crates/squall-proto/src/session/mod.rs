//! A session: one peer, several paths, blocks both ways.
//!
//! `transmit` decides what leaves next, in the order of `duties`; `decide` asks the scheduler, `receive` takes in packets and
//! fates, `watch` handles what falls due: deadlines, silent paths, probes; `cost` handles metered paths, `roles` what
//! each path is used for, `hints` hints of blocks, `signal` radio reports,
//! `capacity` forecasts what the session can carry.

mod capacity;
mod cost;
mod decide;
mod duties;
#[cfg(test)]
mod extremes;
mod grow;
mod hints;
mod log;
mod loss;
mod notices;
mod paths;
mod probe;
mod receive;
mod reopen;
mod roles;
mod signal;
mod stats;
#[cfg(feature = "trace")]
mod trace;
mod transmit;
mod watch;

use std::{
    collections::VecDeque,
    net::IpAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use squall_sched::{
    BlockId, MAX_PATHS, Micros, PathId, PathSet, PathView, SchedEvent, Scheduler, StreamScheduler,
};

use crate::{
    Block, Channel, CloseReason, Config, Event, Interface, Missed, Outcome, Priority, SendError,
    SessionStats, WeightError,
    feedback::Reporter,
    inbox::{Inbox, Stalls},
    metering::Metering,
    outbox::{Ended, Ending, Outbox},
    path::{Control, Path, Payload},
    radios::Radios,
    steering::{Connection, Handle},
    tally::SessionPlace,
    varint,
    wire::Cancel,
};

use capacity::Outlook;
use duties::Duties;
use hints::Hints;
use log::Logs;
pub use log::{DecisionLog, LossLog, PacketFate, Reasons};
use notices::Notices;
use probe::Probes;
use reopen::Wanted;
use squall_units::short::at_us;
#[cfg(feature = "trace")]
pub use trace::{ArrivalLog, PacketLog};

/// A session with one peer.
pub struct Session {
    config: Config,
    epoch: Instant,
    /// When the process ran again after it had not for a while; 0 for never.
    resumed: Micros,
    conn: Connection<Payload, Path>,
    /// What is logged of it.
    span: tracing::Span,
    stage: Stage,
    /// When a session that has ended is let go of, if QUIC has not by then.
    leaves_at: Micros,
    is_let_go: bool,
    /// Since when no path is up, after one was.
    without_path_since: Option<Micros>,
    /// Where paths were opened from that are closed, and until when packets are taken in there.
    closed: Vec<(Interface, Micros)>,
    /// Whether [`Event::Connected`] was reported.
    announced: bool,
    is_client: bool,
    /// Whether the peer may use more than a stranger.
    trusted: bool,
    /// Whether its endpoint has noted that.
    noted: bool,
    /// On a server: paths that the client was allowed besides the usual number, when that was looked at last, and how often the
    /// client had been blocked by then.
    grants: usize,
    granted_at: Micros,
    paths_blocked: u64,
    /// Paths that the application wants, on a client.
    wanted: Vec<Wanted>,
    scheduler: Box<dyn Scheduler>,
    sched_events: Vec<SchedEvent>,
    views: Vec<PathView>,
    /// Paths that are usable whatever their role.
    usable: PathSet,
    hints: Hints,
    /// Repair paths that schedulers do not see as usable.
    repairing: PathSet,
    /// When they were made.
    viewed_at: Micros,
    outbox: Outbox,
    inbox: Inbox,
    /// Blocks that this side handed over late, which the peer takes for stalls; if the scheduler wants reports of those.
    pauses: Option<Stalls>,
    /// The peer wants such reports.
    peer_wants_stalls: bool,
    /// The scheduler wants blocks to have parity.
    wants_parity: bool,
    /// The peer takes it.
    peer_takes_parity: bool,
    /// Blocks leave in symbols of parity, since paths lose packets.
    cuts_symbols: bool,
    reporter: Reporter,
    control: VecDeque<Control>,
    metering: Metering,
    /// A path may have an allowance.
    has_allowances: bool,
    outlook: Outlook,
    radios: Radios,
    /// Alerts, each for a path.
    urgent: VecDeque<(PathId, Control)>,
    probes: Probes,
    /// The credit that was announced to the peer last.
    announced_credit: u64,
    /// Bits per second of blocks that the application wants from the peer at most.
    wanted_rate: Option<u64>,
    /// Highest sequence of the peer's feedback.
    feedback_sequence: u64,
    duties: Duties,
    /// The path that the datagrams inside noq are meant for.
    batch_path: PathId,
    notices: Notices,
    /// Whether outcomes of blocks become events.
    reports_outcomes: bool,
    /// What the inbox held when the session ended.
    left: VecDeque<Event>,
    /// [`Event::Closed`] is still to be taken.
    end_due: bool,
    stats: SessionStats,
    close_reason: Option<CloseReason>,
    logs: Logs,
    /// Among the sessions of all workers.
    place: SessionPlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Handshake,
    Open,
    Closed,
}

/// The version of the hello.
const HELLO_VERSION: u64 = 1;

/// A bit of the hello: blocks whose length is not known from the start are taken.
const TAKES_GROWING: u64 = 1;

/// A bit of the hello: stalls are to be reported.
const WANTS_STALLED: u64 = 4;

/// A bit of the hello: parity is taken.
const TAKES_PARITY: u64 = 8;

impl Session {
    pub(crate) fn new(
        config: &Config,
        epoch: Instant,
        now: Instant,
        conn: Connection<Payload, Path>,
        is_client: bool,
        place: SessionPlace,
    ) -> Self {
        let trusted = is_client || !config.distrust;
        let mut session = Self {
            config: config.clone(),
            epoch,
            resumed: 0,
            span: span(&conn, is_client),
            conn,
            stage: Stage::Handshake,
            grants: 0,
            granted_at: 0,
            paths_blocked: 0,
            leaves_at: Micros::MAX,
            is_let_go: false,
            without_path_since: None,
            closed: Vec::new(),
            announced: false,
            is_client,
            trusted,
            noted: is_client,
            wanted: Vec::new(),
            scheduler: (config.scheduler)(),
            sched_events: Vec::new(),
            views: Vec::new(),
            usable: PathSet::EMPTY,
            hints: Hints::default(),
            repairing: PathSet::EMPTY,
            viewed_at: 0,
            outbox: Outbox::new(config),
            inbox: Inbox::new(if trusted { config.limits } else { config.limits.of_a_stranger() }),
            pauses: None,
            peer_wants_stalls: false,
            wants_parity: false,
            peer_takes_parity: false,
            cuts_symbols: false,
            reporter: Reporter::default(),
            control: VecDeque::new(),
            metering: Metering::default(),
            has_allowances: false,
            outlook: Outlook::default(),
            radios: Radios::default(),
            urgent: VecDeque::new(),
            probes: Probes::default(),
            announced_credit: config.limits.reassembly,
            wanted_rate: None,
            feedback_sequence: 0,
            duties: Duties::new(),
            batch_path: PathId(0),
            notices: Notices::new(config.limits.open_blocks),
            reports_outcomes: false,
            left: VecDeque::new(),
            end_due: false,
            stats: SessionStats::default(),
            close_reason: None,
            logs: Logs::default(),
            place,
        };
        if config.streams != StreamScheduler::Fifo && !session.scheduler.profile().follows_queue {
            tracing::warn!("the scheduler has an order of its own: channels do not take turns");
        }
        session.outbox.queue.set_streams(config.streams);
        session.wants_parity = session.scheduler.profile().wants_parity;
        session.pauses = session.scheduler.profile().wants_stalls.then(Stalls::default);
        let now = session.micros(now);
        session.admit_path(0, now);
        session
    }

    /// Has the outcome of every block that ends from now on reported by [`Event::Ended`], or not.
    /// Default: not. Of outcomes that are not fetched, the oldest beyond [`Limits::open_blocks`](crate::Limits)
    /// are dropped and counted in [`SessionStats::outcomes_dropped`].
    pub fn report_outcomes(&mut self, on: bool) {
        self.reports_outcomes = on;
    }

    /// Hands a block over for sending.
    ///
    /// # Errors
    /// [`SendError::Full`] hands it back when there is no room; [`Event::Writable`] follows when there
    /// is. The other errors say what is wrong with the block, or that the session is over.
    pub fn send(&mut self, now: Instant, block: Block) -> Result<BlockId, SendError> {
        if self.stage == Stage::Closed {
            return Err(SendError::Closed(self.reason()));
        }
        let (at, len, channel) = (self.micros(now), block.data.len() as u64, block.options.channel);
        let id = self.outbox.send(at, block)?;
        self.note_pause(at, channel, id);
        self.stats.blocks_offered += 1;
        self.stats.bytes_offered += len;
        self.duties.schedule();
        Ok(id)
    }

    fn note_pause(&mut self, at: Micros, channel: Channel, id: BlockId) {
        if let Some(pauses) = &mut self.pauses {
            pauses.on_block(at, channel.get(), id);
        }
    }

    /// Takes a block back. It ends with [`Outcome::Cancelled`], unless it had ended before.
    pub fn cancel(&mut self, now: Instant, id: BlockId) {
        let now = self.micros(now);
        self.end_block(now, id, Ending::Cancelled("taken back by the application"));
    }

    /// Sets the weight of a channel among the channels with data to send, 1 to 256; 1 if never set. Of
    /// effect only with
    /// [`StreamScheduler::WeightedRoundRobin`](squall_sched::StreamScheduler::WeightedRoundRobin), and for
    /// schedulers that send data in the queue's order.
    ///
    /// # Errors
    /// If there is no such weight.
    pub fn set_channel_weight(&mut self, channel: Channel, weight: u16) -> Result<(), WeightError> {
        if !(1..=256).contains(&weight) {
            return Err(WeightError::Weight(weight));
        }
        self.outbox.queue.set_channel_weight(channel.get(), weight);
        Ok(())
    }

    /// The next thing that happened; [`Event::Closed`] is the last.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.notices
            .pop()
            .or_else(|| self.poll_writable())
            .or_else(|| self.poll_arrival(|_| true))
            .or_else(|| self.poll_capacity())
            .or_else(|| self.poll_end())
    }

    /// The next thing that happened other than [`Event::Received`], [`Event::Part`] and [`Event::Missed`]. Those wait for
    /// [`Self::poll_arrival`], even after [`Event::Closed`], and hold the peer back meanwhile.
    pub fn poll_notice(&mut self) -> Option<Event> {
        let notice = self.notices.pop().or_else(|| self.poll_writable()).or_else(|| self.poll_capacity());
        notice.or_else(|| self.poll_end())
    }

    /// The next of the peer's blocks on wanted channels: [`Event::Received`], [`Event::Part`] or [`Event::Missed`].
    pub fn poll_arrival(&mut self, wanted: impl Fn(Channel) -> bool) -> Option<Event> {
        let is_wanted = |event: &Event| event.channel().is_some_and(&wanted);
        match self.left.iter().position(is_wanted) {
            Some(index) => self.left.remove(index),
            None if self.is_live() => self.poll_inbox(|channel| wanted(Channel::new(channel))),
            None => None,
        }
    }

    /// The reason of a close that has happened.
    fn reason(&self) -> CloseReason {
        self.close_reason.clone().unwrap_or(CloseReason::Local)
    }

    fn poll_writable(&mut self) -> Option<Event> {
        (self.is_live() && self.outbox.take_writable()).then_some(Event::Writable)
    }

    fn poll_end(&mut self) -> Option<Event> {
        let due = std::mem::take(&mut self.end_due);
        self.close_reason.clone().filter(|_| due).map(Event::Closed)
    }

    /// Whether the application takes part in the session.
    fn is_live(&self) -> bool {
        self.announced && self.stage != Stage::Closed
    }

    /// Whether [`Self::poll_event`] has an event.
    pub(crate) fn has_events(&self) -> bool {
        let waiting = !self.notices.is_empty() || !self.left.is_empty() || self.end_due;
        let changed = self.inbox.has_events() || self.outbox.is_writable() || self.outlook.has_news();
        waiting || self.is_live() && changed
    }

    /// Ends the session at once: unfinished blocks end with it. The peer is notified.
    pub fn close(&mut self, now: Instant, code: u32, reason: &str) {
        if self.stage == Stage::Closed {
            return;
        }
        self.leave_suspects(now);
        self.conn.close(now, code, Bytes::copy_from_slice(reason.as_bytes()));
        self.end(now, CloseReason::Local);
    }

    /// Closes the suspected paths, as long as there is another: noq sends the close on its first path
    /// alone, and answers on it whatever still arrives.
    fn leave_suspects(&mut self, now: Instant) {
        for id in self.conn.paths.ids() {
            let life = &self.conn.paths[id].life;
            if life.is_suspect() || life.remote_suspects {
                // The last one stays.
                let _ = self.conn.close_path(id, now, 0);
            }
        }
    }

    /// The peer has shown that it may use all that [`Config::limits`] allows, where
    /// [`Config::distrust`] holds it back.
    pub fn trust(&mut self, now: Instant) {
        if self.trusted {
            return;
        }
        self.trusted = true;
        self.inbox.set_limits(self.config.limits);
        self.inbox.set_reports_stalls(self.peer_wants_stalls);
        self.offer_credit();
        let at = self.micros(now);
        self.conn.paths.ids().for_each(|id| self.apply_peer_alert(at, id));
    }

    /// The process did not run for this time. What was under way says nothing of the network, but of the time.
    pub(crate) fn on_suspension(&mut self, now: Instant, time: Duration) {
        self.conn.clock().stop_for(time);
        self.resumed = self.micros(now);
    }

    /// Whether the session is over.
    pub fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// Largest block in bytes that [`Self::send`] takes: what this side allows, or the peer if that is less,
    /// once the peer has said so.
    pub fn max_block(&self) -> u32 {
        self.outbox.block_limit()
    }

    /// Whether half of the send queue is free.
    pub fn is_half_empty(&self) -> bool {
        self.stage != Stage::Closed && self.outbox.is_half_empty()
    }

    /// Whether every block that was handed over has ended.
    pub fn is_idle(&self) -> bool {
        self.outbox.open_blocks() == 0
    }

    /// Whether [`Self::send`] takes a block of this many bytes now.
    pub fn has_room(&self, len: usize) -> bool {
        self.stage != Stage::Closed && self.outbox.has_room(len as u64)
    }

    /// Bytes handed over that are not known to have arrived.
    pub fn queued_bytes(&self) -> u64 {
        self.outbox.queued_bytes()
    }

    fn micros(&self, at: Instant) -> Micros {
        at.saturating_duration_since(self.epoch).as_micros() as Micros
    }

    fn instant(&self, at: Micros) -> Instant {
        self.epoch + Duration::from_micros(at)
    }

    fn end_block(&mut self, now: Micros, id: BlockId, ending: Ending) {
        if let Some(ended) = self.outbox.end(id, ending) {
            self.on_ended(now, &ended);
        }
    }

    fn on_ended(&mut self, now: Micros, ended: &Ended) {
        let meta = ended.meta;
        if let Some(reason) = ended.ending.cancel_reason() {
            self.control.push_back(Control::Cancel(Cancel {
                block: meta.id.0,
                reason,
                priority: meta.priority,
                channel: meta.channel,
                previous: ended.previous,
            }));
        }
        let acked = ended.acked;
        let delivered = matches!(ended.ending, Ending::Delivered);
        let counter = match ended.ending {
            Ending::Delivered => &mut self.stats.blocks_delivered,
            Ending::Expired => &mut self.stats.blocks_expired,
            Ending::Lost => &mut self.stats.blocks_lost,
            Ending::Refused(_) => &mut self.stats.blocks_refused,
            Ending::Cancelled(_) => &mut self.stats.blocks_cancelled,
            Ending::SessionClosed => &mut self.stats.blocks_closed,
        };
        *counter += 1;
        let outcome = match ended.ending {
            Ending::Delivered => {
                self.stats.bytes_delivered += u64::from(meta.len);
                let waited = ended.fully_sent.unwrap_or(at_us(now)) - meta.submitted;
                let over = per_path(&ended.over);
                Outcome::Delivered { at: self.instant(now), waited: waited.duration(), over }
            }
            Ending::Expired => Outcome::Expired { acked },
            Ending::Lost => Outcome::Lost { acked },
            Ending::Cancelled(reason) => Outcome::Cancelled { reason },
            Ending::Refused(reason) => Outcome::Refused(reason),
            Ending::SessionClosed => Outcome::SessionClosed,
        };
        if self.reports_outcomes {
            self.notices.push(Event::Ended { id: meta.id, outcome });
        }
        self.sched_events.push(SchedEvent::Done { block: meta.id, delivered });
        self.duties.schedule();
    }

    /// The connection is over.
    fn end(&mut self, now: Instant, reason: CloseReason) {
        if self.stage == Stage::Closed {
            return;
        }
        self.stage = Stage::Closed;
        self.duties.flush();
        let now = self.micros(now);
        let lasts = if self.conn.is_broken() { 0 } else { self.config.idle_timeout.as_micros() as Micros };
        self.leaves_at = now.saturating_add(lasts);
        for ended in self.outbox.end_all() {
            self.on_ended(now, &ended);
        }
        self.control.clear();
        self.urgent.clear();
        while let Some(event) = self.poll_inbox(|_| true) {
            self.left.push_back(event);
        }
        for label in self.inbox.end_all() {
            self.stats.blocks_missed += 1;
            self.left.push_back(Event::Missed {
                id: label.id,
                channel: Channel::new(label.channel),
                priority: Priority::new(label.priority),
                why: Missed::SessionClosed,
            });
        }
        self.close_reason = Some(reason);
        self.end_due = true;
    }

    /// Both sides are up: reports it to the application, once.
    fn announce(&mut self) {
        if !self.announced {
            self.announced = true;
            // Whatever happened before comes after.
            self.notices.push_first(Event::Connected);
        }
    }

    fn send_hello(&mut self) {
        let mut hello = Vec::new();
        varint::write(&mut hello, HELLO_VERSION);
        varint::write(&mut hello, self.config.limits.block.into());
        // The whole memory, before anything has arrived: the peer never sends a block that does not fit it.
        varint::write(&mut hello, self.config.limits.reassembly >> 10);
        let wants_stalled = if self.pauses.is_some() { WANTS_STALLED } else { 0 };
        varint::write(&mut hello, TAKES_GROWING | TAKES_PARITY | wants_stalled);
        self.conn.send_hello(&hello);
        self.duties.flush();
    }

    /// # Errors
    /// If it is none.
    fn on_hello(&mut self, mut hello: &[u8]) -> Result<(), &'static str> {
        let mut field = || varint::read(&mut hello).ok_or("the hello ends within a field");
        if field()? < HELLO_VERSION {
            return Err("the hello has version 0");
        }
        let (block, credit) = (field()?, field()?.saturating_mul(1024));
        self.outbox.set_block_limit(u32::try_from(block).unwrap_or(u32::MAX));
        self.outbox.set_capacity(credit);
        // Peers from before there were such blocks do not write the field.
        let abilities = field().unwrap_or(0);
        self.outbox.set_peer_takes_growing(abilities & TAKES_GROWING != 0);
        self.peer_takes_parity = abilities & TAKES_PARITY != 0;
        self.peer_wants_stalls = abilities & WANTS_STALLED != 0;
        // What a peer can make this side keep and say comes after trust.
        self.inbox.set_reports_stalls(self.trusted && self.peer_wants_stalls);
        // Feedback that overtook the hello is newer.
        if self.feedback_sequence == 0 {
            self.outbox.set_credit(credit);
        }
        self.duties.schedule();
        self.announce();
        Ok(())
    }

    pub(crate) fn handle(&self) -> Handle {
        self.conn.handle()
    }

    /// Passes on what the connection and its endpoint have to say to each other.
    pub(crate) fn exchange(&mut self, endpoint: &mut noq_proto::Endpoint) {
        // Its number may be that of another connection by now.
        if !self.is_let_go {
            self.conn.exchange(endpoint);
        }
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.conn.is_drained() || self.is_let_go
    }

    /// Whether the session has been over for as long as a peer takes to notice by itself. QUIC waits for three probe timeouts,
    /// which are many minutes once a network has held a packet back for long (RFC 9000 §10.2).
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        !self.is_drained() && self.micros(now) >= self.leaves_at
    }

    pub(crate) fn let_go(&mut self) {
        self.is_let_go = true;
    }

    pub(crate) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    pub(crate) fn in_handshake(&self) -> bool {
        self.stage == Stage::Handshake
    }

    /// Notes how far the session has come in what all workers count.
    pub(crate) fn update_place(&mut self) {
        self.place.update(self.announced && !self.is_closed(), self.in_handshake());
    }

    /// Where the peer is, once after it was authorised.
    pub(crate) fn take_authorised(&mut self) -> Option<IpAddr> {
        if self.noted || !self.trusted || !self.is_announced() {
            return None;
        }
        let remote = self.conn.paths.iter().next()?.quic.net.remote.ip();
        self.noted = true;
        Some(remote)
    }

    /// Whether the session was reported to the application, or is to be. The peer's hello may come before the handshake
    /// is confirmed; until then, one that races is not the session of the attempt.
    pub(crate) fn is_announced(&self) -> bool {
        self.announced && self.stage != Stage::Handshake
    }

    /// Why the session ended, if it has.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.close_reason.as_ref()
    }

    /// This session raced and lost: the application gets none of its events.
    pub(crate) fn discard(&mut self) {
        self.notices.clear();
        self.left.clear();
        self.end_due = false;
        self.announced = false;
    }
}

/// The span of a session, for its log.
fn span(conn: &Connection<Payload, Path>, is_client: bool) -> tracing::Span {
    let peer = conn.home().remote;
    let side = if is_client { "client" } else { "server" };
    tracing::info_span!("session", number = conn.handle().0, side, ?peer)
}

/// Bytes per path, for the paths that had any.
fn per_path(bytes: &[u32; MAX_PATHS]) -> Vec<(PathId, u32)> {
    let with_id = bytes.iter().enumerate().map(|(i, n)| (PathId(i as u8), *n));
    with_id.filter(|(_, n)| *n > 0).collect()
}
