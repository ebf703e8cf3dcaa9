//! One end of a flow: its socket, which outlives sessions, and its queue into the current session.

mod counters;
mod fair;
pub(crate) mod gather;
mod inlet;
mod live;
mod offset;
mod place;
mod registry;
pub(crate) mod reorder;
mod socket;
pub(crate) mod tun_inlet;
mod uplink;
pub(crate) mod why;

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use squall::{BlockOptions, Channel, Priority};
use squall_observe::{
    clock::{Clock, lock},
    journal::{Journal, Kind},
    status::{FlowStatus, StoryStatus},
    throttle::Throttle,
};
use squall_units::{Span, Time};
use tokio::sync::{Notify, watch};

pub use self::registry::FlowError;
use self::{
    counters::{FlowCounters, Outcome},
    live::FlowSocket,
    reorder::{Absence, Rule},
    uplink::SendQueue,
    why::Reasons,
};
pub(crate) use self::{
    registry::Registry,
    uplink::{SessionSender, Uplink},
};
use crate::{
    config::{End, FlowConfig, MAX_THEIR_LATENCY},
    media::{Class, Media, Problem},
    tenant::{
        Tenant,
        meter::{self, Direction},
    },
    tun::{self, Written},
    wire::frame::Frame,
};

/// Bytes of the UDP and IPv4 headers of a datagram.
const UDP_HEADERS: usize = 28;

/// Minimum interval between two reports of datagrams that the system refuses.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(60);

/// Entry and departure point of datagrams.
#[derive(Clone, Debug)]
enum Port {
    Socket(Arc<FlowSocket>),
    Tun(tun::Port),
}

/// Reason why no video is found in a flow, and the reasons already reported.
#[derive(Debug, Default)]
struct Problems {
    now: Option<Problem>,
    reported: Vec<Problem>,
}

/// Permission to send datagrams. They count for the tenant once they are sent.
#[derive(Debug)]
enum Permit<'a> {
    Unlimited,
    Limited(meter::Permit<'a>),
}

impl Permit<'_> {
    /// Counts the datagrams as sent.
    fn commit(self) {
        if let Self::Limited(permit) = self {
            permit.commit();
        }
    }
}

/// One end of a flow.
#[derive(Debug)]
pub(crate) struct Flow {
    config: watch::Sender<Arc<FlowConfig>>,
    clock: Clock,
    journal: Arc<Journal>,
    port: Port,
    /// Tenant that its datagrams are counted for.
    tenant: Option<Arc<Tenant>>,
    /// Latest sender at an `in` end, which receives the replies.
    sender: Mutex<Option<SocketAddr>>,
    /// Detected media format: an index into [`Media::ALL`].
    media: AtomicU8,
    problems: Mutex<Problems>,
    /// Number of blocks in the session.
    pending: AtomicUsize,
    queue: Mutex<SendQueue>,
    pub(crate) counters: FlowCounters,
    /// Rate limit of reports about datagrams that the system refuses.
    refusals: Throttle,
    /// Records of scheduling decisions for its blocks, if an address to read them is configured.
    reasons: Option<Arc<Reasons>>,
    /// Time in microseconds at which a datagram last entered or left.
    last_used: AtomicU64,
    /// Notified when no more blocks are in a session.
    idle: Notify,
    /// Number of the latest session that delivered a part of the flow.
    delivered_by: AtomicU64,
}

impl Flow {
    fn new(
        config: FlowConfig,
        clock: Clock,
        journal: Arc<Journal>,
        port: Port,
        explains: bool,
        tenant: Option<Arc<Tenant>>,
    ) -> Self {
        let media = config.media;
        let flow = Self {
            config: watch::Sender::new(Arc::new(config)),
            clock,
            journal,
            port,
            tenant,
            sender: Mutex::default(),
            media: AtomicU8::new(0),
            problems: Mutex::default(),
            pending: AtomicUsize::new(0),
            queue: Mutex::default(),
            counters: FlowCounters::default(),
            refusals: Throttle::new(REFUSAL_INTERVAL),
            reasons: explains.then(Arc::default),
            last_used: AtomicU64::new(clock.now().micros()),
            idle: Notify::new(),
            delivered_by: AtomicU64::new(0),
        };
        flow.set_media(media);
        flow
    }

    /// Returns the current configuration.
    pub(crate) fn config(&self) -> Arc<FlowConfig> {
        self.config.borrow().clone()
    }

    /// Returns the rule by which frames from the other end leave here. `theirs` is the latency
    /// there, which this end limits.
    pub(crate) fn rule(&self, theirs: Duration) -> Rule {
        let config = self.config();
        let latency = theirs.min(config.latency.unwrap_or_default().max(MAX_THEIR_LATENCY)).into();
        Rule {
            playout: config.playout,
            ordered: config.order,
            latency,
            delay: config.latency.map_or(latency, Span::from),
            max_pending: config.max_pending,
        }
    }

    /// Sends a datagram that leaves the tunnel here. The datagram is dropped and counted if the
    /// system refuses it, if a reply has no target, or if it exceeds the limits of a tenant.
    /// Returns `false` if the system has no room for it now.
    pub(crate) fn write(&self, datagram: &[u8]) -> bool {
        let Some(permit) = self.reserve(Direction::In, datagram.len() + self.headers(1)) else { return true };
        let written = match &self.port {
            Port::Socket(socket) => self.write_to(socket, datagram),
            Port::Tun(port) => port.write(datagram),
        };
        let packets = match &self.port {
            Port::Socket(_) => 1,
            Port::Tun(_) => tun::packets(datagram),
        };
        let count = match written {
            Written::Yes => {
                permit.commit();
                self.used();
                &self.counters.datagrams_out
            }
            Written::Later => return false,
            Written::Refused => &self.counters.unwritten,
            Written::Foreign => &self.counters.foreign,
        };
        count.fetch_add(packets, Relaxed);
        true
    }

    fn write_to(&self, socket: &FlowSocket, datagram: &[u8]) -> Written {
        let target = match self.config.borrow().end {
            End::Out(target) => Some(target),
            _ => *lock(&self.sender),
        };
        let Some(target) = target else { return Written::Refused };
        match socket.send(datagram, target) {
            Some(Ok(_)) => Written::Yes,
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => Written::Later,
            Some(Err(error)) => {
                // A target that does not listen yet may do so later, and is not a problem of this
                // machine.
                if error.kind() != io::ErrorKind::ConnectionRefused {
                    self.report_refusal(&socket.refusal(target, &error));
                }
                Written::Refused
            }
            // The task of the flow reports the reason.
            None => Written::Refused,
        }
    }

    fn report_refusal(&self, words: &str) {
        let Some(before) = self.refusals.count() else { return };
        let others = if before == 0 { String::new() } else { format!("; {before} others before it") };
        self.journal.warn(Kind::Flow, format!("flow '{}': {words}{others}", self.config().name));
    }

    /// Returns the bytes of the headers of datagrams, which count as payload, because short
    /// datagrams also cost their headers. Packets of a TUN device include their headers.
    fn headers(&self, datagrams: usize) -> usize {
        match &self.port {
            Port::Socket(_) => UDP_HEADERS * datagrams,
            Port::Tun(_) => 0,
        }
    }

    /// Reserves datagrams within the limits of the tenant, if the flow has one.
    fn reserve(&self, direction: Direction, bytes: usize) -> Option<Permit<'_>> {
        match &self.tenant {
            Some(tenant) => tenant.meter.reserve(direction, bytes, self.clock.now()).map(Permit::Limited),
            None => Some(Permit::Unlimited),
        }
    }

    /// Counts datagrams that enter here.
    pub(crate) fn enters(&self, datagrams: u64) {
        self.used();
        self.counters.datagrams_in.fetch_add(datagrams, Relaxed);
    }

    /// Notes the time at which a datagram enters or leaves.
    fn used(&self) {
        self.last_used.store(self.clock.now().micros(), Relaxed);
    }

    /// Records the end of a block that no session had accepted.
    fn not_taken(&self, class: Class, stamp: Time, outcome: Outcome, bytes: usize) {
        self.counters.ended(class, outcome, bytes);
        if let Some(reasons) = &self.reasons {
            let latency = self.config().latency_or_default().into();
            reasons.not_taken((class, stamp, latency), outcome, bytes, self.clock.now());
        }
    }

    /// Records blocks of the other end that did not leave here, with the latency of the flow there.
    pub(crate) fn absent(&self, now: Time, session: u64, latency: Duration, absence: Absence) {
        if let Some(reasons) = &self.reasons {
            reasons.absent(now, session, latency.into(), absence);
        }
    }

    /// Returns the stories of its blocks, oldest first.
    pub(crate) fn stories(&self) -> Vec<StoryStatus> {
        self.reasons.as_ref().map(|reasons| reasons.stories()).unwrap_or_default()
    }

    /// Records the end of a block that the session had accepted.
    fn ended(&self, class: Class, outcome: Outcome, bytes: usize) {
        if self.pending.fetch_sub(1, Relaxed) == 1 {
            self.idle.notify_one();
        }
        if let Port::Tun(port) = &self.port {
            port.announce_room();
        }
        self.counters.ended(class, outcome, bytes);
    }

    /// Notes that a session delivered a part of the flow.
    pub(crate) fn delivered_by(&self, session: u64) {
        self.delivered_by.fetch_max(session, Relaxed);
    }

    /// Returns the latest session that delivered a part of the flow; 0 if none has.
    pub(crate) fn latest_delivery(&self) -> u64 {
        self.delivered_by.load(Relaxed)
    }

    /// Returns the options of a block for the session; `None` if its latency has passed.
    fn options(&self, frame: &Frame, stamp: Time, channel: u16) -> Option<BlockOptions> {
        let class = frame.class;
        let config = self.config();
        // The packets of a TUN device have waited in their queue, which drops old ones. The wait must
        // not put those of a transfer before the urgent ones of others, as deadlines order blocks.
        let age = match &self.port {
            Port::Socket(_) => (self.clock.now() - stamp).into(),
            Port::Tun(_) => Duration::ZERO,
        };
        let left = config.latency_or_default().checked_sub(age).filter(|left| !left.is_zero())?;
        let left = if frame.is_urgent { left * 3 / 4 } else { left };
        let options = BlockOptions::new()
            .channel(Channel::new(channel))
            .depends(frame.depends)
            .deadline(left)
            .priority(Priority::new((config.priority + class.rank()).min(Priority::LAST.get())))
            .hint(config.hint.clone())
            // The first packets of a frame have left when the last one is lost, and an incomplete
            // frame is worse than none.
            .reliable(class != Class::Data || config.reliable);
        Some(options)
    }

    fn set_media(&self, media: Media) {
        let index = Media::ALL.iter().rposition(|(_, one)| *one == media).unwrap_or(0);
        self.media.store(index as u8, Relaxed);
    }

    /// Sets the reason why no video is found; `None` if video is found. Returns the reason if it
    /// was not reported before.
    fn set_problem(&self, problem: Option<Problem>) -> Option<Problem> {
        let mut problems = lock(&self.problems);
        problems.now = problem;
        let new = problem.filter(|problem| !problems.reported.contains(problem));
        problems.reported.extend(new);
        new
    }

    /// Applies a changed configuration.
    fn reconfigure(&self, config: &FlowConfig) {
        self.config.send_replace(Arc::new(config.clone()));
        self.set_media(config.media);
        *lock(&self.problems) = Problems::default();
    }

    pub(crate) fn status(&self) -> FlowStatus {
        let config = self.config();
        let address = match (config.end, &self.port) {
            (End::In(address) | End::Out(address), _) => address.to_string(),
            (_, Port::Tun(port)) => port.device().to_owned(),
            (_, Port::Socket(_)) => String::new(),
        };
        let media = Media::ALL.get(usize::from(self.media.load(Relaxed))).map_or("udp", |(name, _)| name);
        let counters = &self.counters;
        let now = self.clock.now();
        let (shares, stories) = self.reasons.as_ref().map(|reasons| reasons.shares(now)).unwrap_or_default();
        FlowStatus {
            name: config.name.clone(),
            end: if config.is_in() { "in" } else { "out" }.to_owned(),
            address,
            media: match config.end {
                End::In(_) => media,
                End::Out(_) => "-",
                End::TunIn | End::TunOut => "ip",
            }
            .to_owned(),
            media_problem: lock(&self.problems).now.map(|problem| problem.to_string()),
            attached: self.carrier().is_some(),
            latency_ms: config.latency_or_default().as_millis() as u64,
            datagrams_in: counters.datagrams_in.load(Relaxed),
            datagrams_stale: counters.stale.load(Relaxed),
            datagrams_overflowed: counters.overflowed.load(Relaxed),
            datagrams_foreign: counters.foreign.load(Relaxed),
            datagrams_out: counters.datagrams_out.load(Relaxed),
            unwritten: counters.unwritten.load(Relaxed),
            null_bytes_deleted: counters.null_bytes_deleted.load(Relaxed),
            pending: self.pending.load(Relaxed) as u64,
            sent: counters.sent(),
            received: counters.received(),
            latency: counters.latency(now),
            idle_s: (now - Time::from_micros(self.last_used.load(Relaxed))).as_secs_f64(),
            shares,
            stories,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the `out` end of a flow.
    pub(super) fn out(flow: &str) -> Arc<Flow> {
        let clock = Clock::start();
        let registry = Registry::new(clock, Arc::new(Journal::new(clock)), false, None);
        registry.set(&[FlowConfig::parse(flow, false).expect("is right")], &|_| None).expect("is opened");
        registry.get("x").expect("is there")
    }

    #[tokio::test]
    async fn the_latency_of_a_peer_is_taken_up_to_ten_seconds_or_its_own() {
        for (options, theirs, latency, delay) in [
            ("", 8, 8, 8),
            ("", 60, 10, 10),
            (",latency=2s", 60, 10, 2),
            (",latency=40s", 60, 40, 40),
            (",latency=40s", 20, 20, 40),
        ] {
            let flow = out(&format!("x=udp://127.0.0.1:9,playout=steady{options}"));
            let rule = flow.rule(Duration::from_secs(theirs));
            assert_eq!(
                (rule.latency, rule.delay),
                (Span::from_secs(latency), Span::from_secs(delay)),
                "{options:?}, {theirs} s"
            );
        }
    }
}
