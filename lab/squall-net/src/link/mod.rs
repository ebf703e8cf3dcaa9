//! One direction of a link.

mod changes;
mod passage;

use std::collections::VecDeque;

use rand_pcg::{Pcg64Mcg, rand_core::SeedableRng};
use squall_trace::{Micros, mahimahi::TUN_HEADER};
use squall_units::Ratio;

use crate::{
    config::LinkConfig,
    damage::Damage,
    delay::{Delay, Jitter, Line},
    ecn::{Ecn, EcnTreatment},
    error::ConfigError,
    log::{Count, DropReason, Ledger, LinkStats, Record},
    loss::Loss,
    policer::Policer,
    queue::{Queue, Queued},
    radio::{Conditions, Follower},
    rate::Server,
    script::{OutageMode, Script},
    stall::Stalls,
    time::{NEVER, Nanos, micros_after, micros_before},
};

/// An emulated one-way link for items of type `T`, without sockets or a clock of its own.
///
/// Times are microseconds from the start of the run and must not decrease from call to call (an
/// earlier time counts as the latest one so far). Everything due at or before `now` happens before
/// the effect of the call itself: a packet pushed in the microsecond in which another leaves the
/// queue finds that place free, and a packet pushed in a millisecond cannot use a trace's
/// opportunity of that millisecond. Among things due at the same nanosecond, the script comes
/// first, then the radio, the stalls, the serialiser and arrivals. The same configuration, seed and
/// pushes therefore give the same deliveries.
#[derive(Debug, Clone)]
pub struct Link<T> {
    now: Nanos,
    pushes: u64,
    ecn: EcnTreatment,
    mtu: u32,
    /// Upper bound of the MTU for changes.
    mtu_bound: u32,
    policer: Option<Policer>,
    queue: Queue<Packet<T>>,
    server: Server,
    serving: Option<Packet<T>>,
    /// Remainder of the packet being sent: bytes if opportunities serve it, otherwise work, which
    /// is kept during outages.
    serving_left: u64,
    delay: Delay,
    jitter: Jitter,
    /// Packets between the serialiser and the end of the link, or on their way to the queue if the
    /// delay comes first.
    line: Line<Packet<T>>,
    delay_first: bool,
    loss: Loss,
    duplicate: Ratio,
    duplicate_random: Pcg64Mcg,
    corrupt: Ratio,
    corrupt_random: Pcg64Mcg,
    script: Script,
    outage_mode: OutageMode,
    /// Number of outages in progress.
    outages: u32,
    radio: Option<Follower>,
    /// Conditions that the radio imposes on the link.
    conditions: Conditions,
    radio_random: Pcg64Mcg,
    stalls: Option<Stalls>,
    /// Share of the rate that the stalls leave.
    left: Ratio,
    ready: VecDeque<Delivery<T>>,
    latest: Option<u64>,
    ledger: Ledger,
}

/// Result of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PushOutcome {
    /// The packet was accepted. It may still be lost later.
    Queued,
    /// The link dropped the packet.
    Dropped(DropReason),
}

/// A packet at the end of the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<T> {
    /// The pushed item.
    pub item: T,
    /// Its size in bytes, as pushed.
    pub size: usize,
    /// Number of the push on this link, from 0. A duplicate has the number of its original.
    pub number: u64,
    /// Time of the push.
    pub sent_at: Micros,
    /// Time of the arrival, rounded up to a microsecond.
    pub arrived_at: Micros,
    /// Time in the queue before its first byte was sent.
    pub queueing: Micros,
    /// ECN field at the end of the link.
    pub ecn: Ecn,
    /// Damage on the link, if any.
    pub damage: Option<Damage>,
}

/// The state of a link at a moment, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// Bits per second; `None` means unlimited. For a mahimahi trace, the mean of the surrounding
    /// 200 ms.
    pub rate: Option<u64>,
    /// Propagation delay without jitter.
    pub delay: Micros,
    /// Bytes in the queue, without the packet being sent.
    pub queue_bytes: u64,
    /// Packets in the queue, without the one being sent.
    pub queue_packets: u64,
    /// Packets in flight: sent and not yet delivered.
    pub flying: u64,
    /// An outage is in progress.
    pub outage: bool,
}

/// The service of a link during an interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outlook {
    pub(crate) service: Service,
    /// Minimum delay of a packet.
    pub(crate) delay: Micros,
    /// No outage is in progress.
    pub(crate) is_up: bool,
    /// Time of the next change. An opportunity of a trace is a change too.
    pub(crate) until: Micros,
}

/// Kind of service.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Service {
    /// Bits per second; `None` means unlimited.
    Rate(Option<u64>),
    /// At opportunities; `at` is the time of the next one, and `count` their number.
    Opportunities { at: Micros, count: u64 },
}

#[derive(Debug, Clone)]
struct Packet<T> {
    item: T,
    number: u64,
    size: u32,
    /// Bytes occupied in the queue: the size, plus a TUN header if a mahimahi trace serves it.
    queue_size: u32,
    sent_at: Micros,
    entered: Nanos,
    waited: Nanos,
    ecn: Ecn,
    damage: Option<Damage>,
}

impl<T> Queued for Packet<T> {
    fn bytes(&self) -> u64 {
        u64::from(self.queue_size)
    }

    fn entered(&self) -> Nanos {
        self.entered
    }

    fn mark(&mut self) -> bool {
        let is_capable = self.ecn != Ecn::NotCapable;
        if is_capable {
            self.ecn = Ecn::Congestion;
        }
        is_capable
    }
}

impl<T: Clone> Link<T> {
    /// Creates a link at time 0.
    ///
    /// # Errors
    ///
    /// If a trace has not been loaded or a value is out of its range; the message names the field.
    pub fn new(config: &LinkConfig, seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        // One stream each, so that a change of one model does not affect the draws of the others.
        let stream = |number: u64| Pcg64Mcg::seed_from_u64(seed.wrapping_mul(4).wrapping_add(number));
        let unread = |field: &'static str| move || ConfigError::NotLoaded { field };
        Ok(Self {
            now: 0,
            pushes: 0,
            ecn: config.ecn,
            mtu: config.effective_mtu(),
            mtu_bound: config.mtu_bound(),
            policer: config.policer.map(Policer::new),
            queue: Queue::new(config.queue, config.default_queue_bytes()),
            server: Server::new(&config.rate).ok_or_else(unread("rate"))?,
            serving: None,
            serving_left: 0,
            delay: Delay::new(&config.delay).ok_or_else(unread("delay"))?,
            jitter: Jitter::new(config.jitter, stream(0)),
            line: Line::new(config.jitter.reorder),
            delay_first: config.delay_first,
            loss: Loss::new(&config.loss, stream(1)).ok_or_else(unread("loss"))?,
            duplicate: config.duplicate,
            duplicate_random: stream(2),
            corrupt: config.corrupt,
            // Distinct from the streams above and from those of a neighbouring seed.
            corrupt_random: Pcg64Mcg::seed_from_u64(!seed),
            script: Script::new(&config.events)?,
            outage_mode: config.outage,
            outages: 0,
            radio: None,
            conditions: Conditions::FULL,
            radio_random: stream(3),
            stalls: None,
            left: Ratio::ONE,
            ready: VecDeque::new(),
            latest: None,
            ledger: Ledger::default(),
        })
    }

    /// Pushes a packet of `size` bytes (IP size: a UDP payload and 28 bytes of IPv4 and UDP
    /// headers) whose sender does not use ECN.
    pub fn push(&mut self, now: Micros, size: usize, item: T) -> PushOutcome {
        self.push_marked(now, size, Ecn::NotCapable, item)
    }

    /// Pushes a packet with this ECN field; otherwise as [`push`](Self::push).
    pub fn push_marked(&mut self, now: Micros, size: usize, ecn: Ecn, item: T) -> PushOutcome {
        self.advance(now);
        let now = now.max(micros_before(self.now));
        let (number, at) = (self.pushes, self.now);
        self.pushes += 1;
        // Saturates far above the largest MTU, so that the packet is dropped below.
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.ledger.pushed(at, number, size);
        if let Some(reason) = self.refusal(size, ecn).or_else(|| self.police(size)) {
            self.ledger.dropped(at, number, size, reason);
            return PushOutcome::Dropped(reason);
        }
        let ecn = self.ecn.apply(ecn).unwrap_or_default();
        let header = if matches!(self.server, Server::Opportunities(_)) { TUN_HEADER as u32 } else { 0 };
        let queue_size = size + header;
        let packet = Packet {
            item,
            number,
            size,
            queue_size,
            sent_at: now,
            entered: at,
            waited: 0,
            ecn,
            damage: None,
        };
        if self.delay_first {
            self.fly(at, packet);
            return PushOutcome::Queued;
        }
        self.enqueue(at, packet)
    }

    /// Returns `true` if a packet of this size pushed now would be dropped at once.
    pub(crate) fn refuses(&mut self, now: Micros, size: usize, ecn: Ecn) -> bool {
        self.advance(now);
        u32::try_from(size).map_or(true, |size| self.refusal(size, ecn).is_some())
    }

    fn refusal(&self, size: u32, ecn: Ecn) -> Option<DropReason> {
        if size > self.mtu {
            Some(DropReason::Mtu)
        } else if self.outages > 0 && self.outage_mode == OutageMode::Drop {
            Some(DropReason::Outage)
        } else if self.ecn.apply(ecn).is_none() {
            Some(DropReason::Ecn)
        } else {
            None
        }
    }

    fn police(&mut self, size: u32) -> Option<DropReason> {
        let passes = self.policer.as_mut().is_none_or(|policer| policer.passes(self.now, size));
        (!passes).then_some(DropReason::Policer)
    }

    /// Returns the time of the next call of [`poll`](Self::poll); `None` if no packet is in the
    /// link. That poll may still return nothing, because the packet was lost or the rate has
    /// changed; then request a new timeout.
    pub fn poll_timeout(&self) -> Option<Micros> {
        if let Some(delivery) = self.ready.front() {
            return Some(delivery.arrived_at);
        }
        let mut at = self.line.next();
        // With delays in order, the first packet in flight is the next arrival, independent of the
        // serialiser.
        if self.delay_first || !self.line.settled() {
            at = at.min(self.server_event());
            if self.serving.is_some() || self.queue.len() > 0 {
                at = at.min(self.next_change());
            }
        }
        (at != NEVER).then(|| micros_after(at))
    }

    /// Returns the next packet that has arrived by `now`, in order of arrival.
    pub fn poll(&mut self, now: Micros) -> Option<Delivery<T>> {
        self.advance(now);
        self.ready.pop_front()
    }

    /// Returns the counters as of the latest call.
    pub fn stats(&self) -> LinkStats {
        let total = |packets: &mut dyn Iterator<Item = &Packet<T>>| {
            packets.fold(Count::default(), |sum, packet| {
                sum + Count { packets: 1, bytes: u64::from(packet.size) }
            })
        };
        LinkStats {
            waiting: total(&mut self.queue.iter().chain(&self.serving)),
            flying: total(&mut self.line.iter()),
            ..self.ledger.stats
        }
    }

    /// Returns the state at `now`.
    pub fn state(&mut self, now: Micros) -> LinkState {
        self.advance(now);
        LinkState {
            rate: self.server.rate(self.now),
            delay: self.delay.at(self.now) / 1_000,
            queue_bytes: self.queue.bytes(),
            queue_packets: self.queue.len(),
            flying: self.line.len() as u64,
            outage: self.outages > 0,
        }
    }

    /// Returns the service from `now` until its next change. No packet may be in the link.
    pub(crate) fn outlook(&mut self, now: Micros) -> Outlook {
        self.advance(now);
        let (service, change) = match &self.server {
            Server::Fluid(fluid) => {
                let (rate, change) = fluid.outlook(self.now);
                (Service::Rate(rate), change)
            }
            Server::Opportunities(trace) => {
                let (at, count) = (micros_before(trace.next()), trace.together());
                (Service::Opportunities { at, count }, trace.next())
            }
        };
        let (delay, moves) = self.delay.outlook(self.now);
        let until = self.next_change().min(change).min(moves);
        Outlook {
            service,
            delay: micros_before(self.jitter.least(delay)),
            is_up: self.outages == 0,
            until: if until == NEVER { Micros::MAX } else { micros_before(until) },
        }
    }

    /// Outages drop the packets in the link.
    pub(crate) fn drops_in_outages(&self) -> bool {
        self.outage_mode == OutageMode::Drop
    }

    /// The delay comes before queue and serialiser.
    pub(crate) fn delays_first(&self) -> bool {
        self.delay_first
    }

    /// MTU in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Starts recording every packet, or with `false` ends it and deletes the records. Off by
    /// default.
    pub fn keep_records(&mut self, keep: bool) {
        self.ledger.keep_records(keep);
    }

    /// Takes the records since the last call, up to the latest time of the link.
    pub fn drain_records(&mut self) -> Vec<Record> {
        self.ledger.drain()
    }
}
