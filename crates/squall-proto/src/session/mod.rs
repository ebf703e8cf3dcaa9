//! A session: one peer, several paths, blocks both ways.
//!
//! Each part of its state has a type and a file of its own, which does not refer to the session:
//! `lifecycle`, `clock`, `peer`, `side`, `views` (the paths as schedulers see them), `labels`,
//! `queues`, `probes`, `duties`, `notices`, `outlook`, `log`, `trace`. The other files have the
//! session's actions: `transmit` sends, `decide` asks the schedulers, `receive` processes packets
//! and fates, `watch` handles deadlines, `paths` the lives of paths, `reopen` opens them, `probe`
//! probes them, `loss` losses, `cost` metered paths, `roles` and `hints` the paths that blocks may
//! take, `signal` radio reports, `grow` growing blocks, `capacity` and `stats` the application's
//! view, `logging` the logs.

mod capacity;
mod clock;
mod cost;
mod decide;
mod duties;
#[cfg(test)]
mod extremes;
mod grants;
mod grow;
mod hints;
mod labels;
mod lifecycle;
pub(crate) mod log;
mod logging;
mod loss;
mod notices;
mod outlook;
mod paths;
mod peer;
mod probe;
mod probes;
mod queues;
mod receive;
mod reopen;
mod roles;
mod side;
mod signal;
mod stats;
#[cfg(feature = "trace")]
pub(crate) mod trace;
mod transmit;
mod views;
mod watch;

use std::{
    collections::VecDeque,
    net::IpAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use squall_sched::{BlockId, MAX_PATHS, PathId, SchedEvent, Span, Time};

use crate::{
    Block, Channel, CloseReason, Config, Event, Missed, Outcome, SchedulerFactory, SendError, SessionStats,
    WeightError,
    congestion::Evidence,
    feedback::Reporter,
    inbox::Inbox,
    metering::Metering,
    outbox::{Ended, Ending, Outbox},
    path::{Control, Life, Path, Payload},
    radios::Radios,
    steering::{Connection, Handle},
    tally::SessionPlace,
    wire::Cancel,
};

use clock::SessionClock;
use duties::Duties;
use labels::Labels;
use lifecycle::Lifecycle;
use log::Logs;
use log::PacketFate;
use notices::Notices;
use outlook::Outlook;
use peer::{Hello, Peer};
use probes::Probes;
use queues::SendQueues;
use side::Side;
#[cfg(feature = "trace")]
use trace::ArrivalLog;
use views::Views;

/// A session with one peer.
pub struct Session {
    config: Config,
    clock: SessionClock,
    conn: Connection<Payload, Path>,
    pub(crate) life: Lifecycle,
    side: Side,
    peer: Peer,
    views: Views,
    labels: Labels,
    outbox: Outbox,
    inbox: Inbox,
    reporter: Reporter,
    queues: SendQueues,
    metering: Metering,
    outlook: Outlook,
    radios: Radios,
    probes: Probes,
    duties: Duties,
    notices: Notices,
    stats: SessionStats,
    logs: Logs,
}

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
            clock: SessionClock::new(epoch, config),
            conn,
            life: Lifecycle::new(place),
            side: Side::new(is_client, config.limits.max_paths),
            peer: if is_client { Peer::chosen() } else { Peer::accepted(trusted) },
            views: Views::default(),
            labels: Labels::default(),
            outbox: Outbox::new(config),
            inbox: Inbox::new(config.limits),
            reporter: Reporter::default(),
            queues: SendQueues::default(),
            metering: Metering::default(),
            outlook: Outlook::default(),
            radios: Radios::default(),
            probes: Probes::default(),
            duties: Duties::new(),
            notices: Notices::new(config.limits.open_blocks),
            stats: SessionStats::default(),
            logs: Logs::default(),
        };
        if !session.outbox.queue.plain().is_fifo() && !session.outbox.queue.profile().follows_queue {
            tracing::warn!("the scheduler has an order of its own: channels have no weights");
        }
        if !trusted {
            session.inbox.set_limits(config.limits.of_a_stranger());
        }
        let now = session.time(now);
        session.admit_path(0, now);
        session
    }

    /// Sets whether [`Event::Ended`] reports the outcome of every block that ends from now on.
    /// Default: `false`. Of outcomes that are not fetched, the oldest beyond
    /// [`Config::open_blocks`] are dropped and counted in [`SessionStats::outcomes_dropped`].
    pub fn report_outcomes(&mut self, on: bool) {
        self.notices.reports_outcomes = on;
    }

    /// Replaces the scheduler of [`Config::scheduler`] for this session, for instance on a server
    /// that has identified its peer. Returns `true` if it was replaced: only before the first block
    /// is handed over, since a scheduler may have plans for blocks. Whether the peer [reports
    /// stalls](squall_sched::Profile::wants_stalls) is still decided by the first scheduler.
    pub fn set_scheduler(&mut self, scheduler: SchedulerFactory) -> bool {
        let is_first = self.stats.blocks_offered == 0;
        if is_first {
            self.config.scheduler = scheduler.clone();
            self.outbox.set_scheduler(scheduler);
        }
        is_first
    }

    /// Hands a block over for sending.
    ///
    /// # Errors
    /// [`SendError::Full`] returns the block when there is no room; [`Event::Writable`] follows
    /// when there is. The other errors report an invalid block, or that the session is over.
    pub fn send(&mut self, now: Instant, block: Block) -> Result<BlockId, SendError> {
        if self.is_closed() {
            return Err(SendError::Closed(self.reason()));
        }
        let len = block.data.len() as u64;
        let id = self.outbox.send(self.time(now), block)?;
        self.stats.blocks_offered += 1;
        self.stats.bytes_offered += len;
        self.schedule();
        Ok(id)
    }

    /// Cancels a block. It ends with [`Outcome::Cancelled`], unless it had ended before.
    pub fn cancel(&mut self, now: Instant, id: BlockId) {
        let now = self.time(now);
        self.end_block(now, id, Ending::Cancelled("taken back by the application"));
    }

    /// Sets the weight of a channel among the channels with data to send, 1 to 256; 1 if never set.
    /// It has an effect only with a [stream scheduler](crate::Config::streams) that uses weights,
    /// such as [`WeightedRoundRobin`](squall_sched::WeightedRoundRobin). A scheduler that plans by
    /// deadline uses them between blocks whose deadline and priority are equal.
    ///
    /// # Errors
    /// If the weight is out of range.
    pub fn set_channel_weight(&mut self, channel: Channel, weight: u16) -> Result<(), WeightError> {
        if !(1..=256).contains(&weight) {
            return Err(WeightError::Weight(weight));
        }
        self.outbox.queue.set_channel_weight(channel.get(), weight);
        Ok(())
    }

    /// See [`Endpoint::poll_event`](crate::Endpoint::poll_event).
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.notices
            .pop()
            .or_else(|| self.poll_writable())
            .or_else(|| self.poll_arrival(|_| true))
            .or_else(|| self.poll_capacity())
            .or_else(|| self.life.take_end())
    }

    pub(crate) fn poll_notice(&mut self) -> Option<Event> {
        let notice = self.notices.pop().or_else(|| self.poll_writable()).or_else(|| self.poll_capacity());
        notice.or_else(|| self.life.take_end())
    }

    pub(crate) fn poll_arrival(&mut self, wanted: impl Fn(Channel) -> bool) -> Option<Event> {
        let left = self.life.take_arrival(|event| event.channel().is_some_and(&wanted));
        left.or_else(|| {
            let is_live = self.life.is_live();
            if is_live { self.poll_inbox(|channel| wanted(Channel::new(channel))) } else { None }
        })
    }

    /// Returns the reason of a close that has happened.
    fn reason(&self) -> CloseReason {
        self.life.reason().cloned().unwrap_or(CloseReason::Local)
    }

    fn poll_writable(&mut self) -> Option<Event> {
        (self.life.is_live() && self.outbox.take_writable()).then_some(Event::Writable)
    }

    /// Returns `true` if [`Self::poll_event`] has an event.
    pub(crate) fn has_events(&self) -> bool {
        let waiting = !self.notices.is_empty() || self.life.has_events();
        let changed = self.inbox.has_events() || self.outbox.is_writable() || self.outlook.has_news();
        waiting || self.life.is_live() && changed
    }

    /// Ends the session at once: unfinished blocks end with it. The peer is notified.
    pub fn close(&mut self, now: Instant, code: u32, reason: &str) {
        if self.is_closed() {
            return;
        }
        self.leave_suspects(now);
        self.conn.close(now, code, Bytes::copy_from_slice(reason.as_bytes()));
        self.end(now, CloseReason::Local);
    }

    /// Closes the suspected paths while another one is left: noq sends the close on its first path
    /// alone, and answers on it all packets that still arrive.
    fn leave_suspects(&mut self, now: Instant) {
        for id in self.conn.paths.ids() {
            let life = &self.conn.paths[id].life;
            if life.is_suspect() || life.remote_suspects {
                // Fails on the last path, which stays.
                let _ = self.conn.close_path(id, now, 0);
            }
        }
    }

    /// Trusts the peer: it may use all that the limits of [`Config`] allow, where
    /// [`Config::distrust`] restricted it.
    pub fn trust(&mut self, now: Instant) {
        if !self.peer.trust() {
            return;
        }
        self.inbox.set_limits(self.config.limits);
        self.inbox.set_reports_stalls(self.peer.gets_stalls());
        self.offer_credit();
        let at = self.time(now);
        self.conn.paths.ids().for_each(|id| self.apply_peer_alert(at, id));
    }

    /// Excludes a suspension of the process from all measurements: packets in flight meanwhile show
    /// nothing about the network.
    pub(crate) fn on_suspension(&mut self, now: Instant, time: Duration) {
        self.conn.clock().stop_for(time);
        self.clock.resume(now);
    }

    /// Returns `true` if the session is over.
    pub fn is_closed(&self) -> bool {
        self.life.is_closed()
    }

    /// Returns the largest block in bytes that [`Self::send`] accepts: the limit of this side, or
    /// that of the peer if it is lower and has been announced.
    pub fn max_block(&self) -> u32 {
        self.outbox.block_limit()
    }

    /// Returns `true` if half of the send queue is free.
    pub fn is_half_empty(&self) -> bool {
        !self.is_closed() && self.outbox.is_half_empty()
    }

    /// Returns `true` if every block that was handed over has ended.
    pub fn is_idle(&self) -> bool {
        self.outbox.open_blocks() == 0
    }

    /// Returns `true` if [`Self::send`] accepts a block of this many bytes now.
    pub fn has_room(&self, len: usize) -> bool {
        !self.is_closed() && self.outbox.has_room(len as u64)
    }

    /// Returns the bytes handed over that are not acknowledged.
    pub fn queued_bytes(&self) -> u64 {
        self.outbox.queued_bytes()
    }

    /// Returns the bytes handed over that no path has taken yet.
    pub fn unsent_bytes(&self) -> u64 {
        self.outbox.unsent_bytes()
    }

    /// Requests a run of the schedulers.
    fn schedule(&mut self) {
        self.duties.schedule();
    }

    /// Requests a poll of noq for packets that no datagram of ours carries along.
    fn flush(&mut self) {
        self.duties.flush();
    }

    fn time(&self, at: Instant) -> Time {
        self.clock.time(at)
    }

    fn instant(&self, at: Time) -> Instant {
        self.clock.instant(at)
    }

    /// Returns the path of that number, and adds it to the session if it is new; `None` when there
    /// are too many.
    fn admit_path(&mut self, number: u32, now: Time) -> Option<PathId> {
        let (span, liveness) = (self.conn.span().clone(), self.config.switches().liveness);
        self.conn.admit(number, |id, quic| {
            let mut path = Path::new(id, quic, now);
            if !liveness {
                path.life = Life::unwatched(now);
            }
            path.span = tracing::info_span!(parent: &span, "path", id = id.0, number);
            path
        })
    }

    fn end_block(&mut self, now: Time, id: BlockId, ending: Ending) {
        if let Some(ended) = self.outbox.end(id, ending) {
            self.on_ended(now, &ended);
        }
    }

    fn on_ended(&mut self, now: Time, ended: &Ended) {
        let meta = ended.meta;
        if let Some(reason) = ended.ending.cancel_reason() {
            self.queues.push(Control::Cancel(Cancel {
                block: meta.id.0,
                reason,
                priority: meta.priority,
                channel: meta.channel,
                previous: ended.previous,
            }));
        }
        let (acked, stats) = (ended.acked, &mut self.stats);
        let (counter, outcome) = match ended.ending {
            Ending::Delivered => {
                stats.bytes_delivered += u64::from(meta.len);
                let waited = ended.fully_sent.unwrap_or(now) - meta.submitted;
                let (at, waited) = (self.clock.instant(now), waited.duration());
                let outcome = Outcome::Delivered { at, waited, over: per_path(&ended.over) };
                (&mut stats.blocks_delivered, outcome)
            }
            Ending::Expired => (&mut stats.blocks_expired, Outcome::Expired { acked }),
            Ending::Lost => (&mut stats.blocks_lost, Outcome::Lost { acked }),
            Ending::Cancelled(reason) => (&mut stats.blocks_cancelled, Outcome::Cancelled { reason }),
            Ending::Refused(reason) => (&mut stats.blocks_refused, Outcome::Refused(reason)),
            Ending::SessionClosed => (&mut stats.blocks_closed, Outcome::SessionClosed),
        };
        *counter += 1;
        self.notices.push_outcome(meta.id, outcome);
        let delivered = ended.ending == Ending::Delivered;
        self.outbox.queue.note(SchedEvent::Done { block: meta.id, delivered });
        self.schedule();
    }

    /// Ends the session.
    fn end(&mut self, now: Instant, reason: CloseReason) {
        if self.is_closed() {
            return;
        }
        self.flush();
        // The application cannot request the statistics of a session that was not reported.
        let paths = if self.life.is_announced() { self.path_stats() } else { Vec::new() };
        let now = self.time(now);
        for ended in self.outbox.end_all() {
            self.on_ended(now, &ended);
        }
        let mut arrivals: VecDeque<_> = std::iter::from_fn(|| self.poll_inbox(|_| true)).collect();
        for label in self.inbox.end_all() {
            arrivals.push_back(self.missed(&label, Missed::SessionClosed));
        }
        self.queues.clear();
        let lasts = if self.conn.is_broken() { Span::ZERO } else { self.clock.timeouts.idle };
        self.life.close(reason, now + lasts, arrivals, paths);
    }

    /// Reports to the application, once, that both sides are up.
    fn announce(&mut self) {
        if self.life.announce() {
            // Earlier events follow it.
            self.notices.push_first(Event::Connected);
        }
    }

    fn send_hello(&mut self) {
        let profile = self.outbox.queue.profile();
        let hello = Hello {
            block: self.config.limits.max_block,
            // The whole memory, before any data has arrived: the peer never sends a block that does
            // not fit it.
            credit: self.config.limits.reassembly,
            takes_growing: true,
            // The other controllers measure by single acknowledgements.
            takes_joint_reports: profile.takes_joint_reports
                && self.config.congestion.evidence() == Evidence::Capacity,
            wants_stalled: profile.wants_stalls,
            takes_parity: true,
            takes_partial: true,
        };
        self.conn.send_hello(&hello.encode());
        self.flush();
    }

    /// # Errors
    /// If it is malformed.
    fn on_hello(&mut self, hello: &[u8]) -> Result<(), &'static str> {
        let hello = Hello::decode(hello)?;
        self.peer.on_hello(hello);
        self.outbox.set_block_limit(hello.block);
        self.outbox.set_capacity(hello.credit);
        self.outbox.set_peer_takes(hello.takes_growing, hello.takes_partial);
        self.inbox.set_reports_stalls(self.peer.gets_stalls());
        if hello.takes_joint_reports {
            self.reporter.join();
        }
        // Feedback that overtook the hello is newer.
        if !self.peer.has_given_feedback() {
            self.outbox.set_credit(hello.credit);
        }
        self.schedule();
        self.announce();
        Ok(())
    }

    pub(crate) fn handle(&self) -> Handle {
        self.conn.handle()
    }

    /// Exchanges pending events between the connection and its endpoint.
    pub(crate) fn exchange(&mut self, endpoint: &mut noq_proto::Endpoint) {
        // Its number may belong to another connection by now.
        if !self.life.is_let_go() {
            self.conn.exchange(endpoint);
        }
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.conn.is_drained() || self.life.is_let_go()
    }

    /// Returns `true` once the session has been over for the time in which a peer detects that by
    /// itself. QUIC waits for three probe timeouts, which are many minutes once a network has held
    /// a packet back for long (RFC 9000 §10.2).
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        !self.is_drained() && self.life.drop_at().is_some_and(|at| self.time(now) >= at)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.life.is_open()
    }

    pub(crate) fn in_handshake(&self) -> bool {
        self.life.in_handshake()
    }

    /// Returns the peer's address, once, after it was authorised.
    pub(crate) fn take_authorised(&mut self) -> Option<IpAddr> {
        let path = self.conn.paths.iter().next().filter(|_| self.life.is_announced())?;
        self.peer.note().then(|| path.quic.net.remote.ip())
    }

    /// Returns the reason for the end of the session, once it is over.
    pub fn close_reason(&self) -> Option<&CloseReason> {
        self.life.reason()
    }

    /// Discards a session that lost the race: the application gets none of its events.
    pub(crate) fn discard(&mut self) {
        self.notices.clear();
        self.life.discard();
    }
}

/// Returns the bytes per path, for the paths with any.
fn per_path(bytes: &[u32; MAX_PATHS]) -> Vec<(PathId, u32)> {
    let with_id = bytes.iter().enumerate().map(|(i, n)| (PathId(i as u8), *n));
    with_id.filter(|(_, n)| *n > 0).collect()
}
