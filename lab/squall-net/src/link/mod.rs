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

/// An emulated one-way link carrying items of type `T`, without sockets or a clock of its own.
///
/// Times are microseconds from the start of the run and must not decrease from call to call (an earlier time
/// counts as the latest seen). Everything due at or before `now` happens before what the call itself does:
/// a packet pushed at the very microsecond in which another leaves the queue finds that place free, and a
/// packet pushed in a millisecond cannot use a trace's opportunity of that millisecond. Among things due at
/// the same nanosecond, the script comes first, then the radio, the stalls, the serialiser and arrivals. So the same configuration,
/// seed and pushes give the same deliveries.
#[derive(Debug, Clone)]
pub struct Link<T> {
    now: Nanos,
    pushes: u64,
    ecn: EcnTreatment,
    mtu: u32,
    /// What a change cannot exceed.
    mtu_bound: u32,
    policer: Option<Policer>,
    queue: Queue<Packet<T>>,
    server: Server,
    serving: Option<Packet<T>>,
    /// What the packet being sent still needs: bytes if opportunities serve it, work if an outage holds it.
    serving_left: u64,
    delay: Delay,
    jitter: Jitter,
    /// Packets on the way from the serialiser, or towards the queue if the delay comes first.
    line: Line<Packet<T>>,
    delay_first: bool,
    loss: Loss,
    duplicate: Ratio,
    duplicate_random: Pcg64Mcg,
    corrupt: Ratio,
    corrupt_random: Pcg64Mcg,
    script: Script,
    outage_mode: OutageMode,
    /// Outages that have begun and not ended.
    outages: u32,
    radio: Option<Follower>,
    /// What the radio leaves of the link.
    conditions: Conditions,
    radio_random: Pcg64Mcg,
    stalls: Option<Stalls>,
    /// What the stalls leave of the rate.
    left: Ratio,
    ready: VecDeque<Delivery<T>>,
    latest: Option<u64>,
    ledger: Ledger,
}

/// What became of a pushed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PushOutcome {
    /// It is on its way. It may still be lost there.
    Queued,
    /// The link did not take it.
    Dropped(DropReason),
}

/// A packet at the end of the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<T> {
    /// What was pushed.
    pub item: T,
    /// Its size in bytes, as pushed.
    pub size: usize,
    /// Which push on this link it was, from 0. A copy has the number of its original.
    pub number: u64,
    /// When it was pushed.
    pub sent_at: Micros,
    /// When it arrived, rounded up to a microsecond.
    pub arrived_at: Micros,
    /// How long it waited in the queue before its first byte was sent.
    pub queueing: Micros,
    /// Its ECN field at the end of the link.
    pub ecn: Ecn,
    /// What the way did to its bytes, if anything.
    pub damage: Option<Damage>,
}

/// The state of a link at a moment, for showing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// Bits per second; `None` means unlimited. For a mahimahi trace the mean of the 200 ms around.
    pub rate: Option<u64>,
    /// Propagation delay without jitter.
    pub delay: Micros,
    /// Bytes in the queue, without the packet being sent.
    pub queue_bytes: u64,
    /// Packets in the queue, without the one being sent.
    pub queue_packets: u64,
    /// Packets sent and not yet arrived.
    pub flying: u64,
    /// Whether there is an outage.
    pub outage: bool,
}

/// What a link can do for a while.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outlook {
    pub(crate) service: Service,
    /// The least delay that a packet can meet.
    pub(crate) delay: Micros,
    /// Whether there is no outage.
    pub(crate) is_up: bool,
    /// When any of this changes. An opportunity of a trace is a change too.
    pub(crate) until: Micros,
}

/// How packets leave the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Service {
    /// Bits per second; `None` means unlimited.
    Rate(Option<u64>),
    /// At opportunities; the next `count` come at that time.
    Opportunities { at: Micros, count: u64 },
}

#[derive(Debug, Clone)]
struct Packet<T> {
    item: T,
    number: u64,
    size: u32,
    /// Bytes it takes in the queue: the size, plus a TUN header when a mahimahi trace serves it.
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
    /// A link at time 0.
    ///
    /// # Errors
    ///
    /// If a trace has not been loaded or a value is out of its range; the message names the field.
    pub fn new(config: &LinkConfig, seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        // A stream each, so that a change of one model leaves the draws of the others as they were.
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
            // None of the streams above, nor one of a neighbouring seed.
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

    /// Gives the link a packet of `size` bytes (IP size: a UDP payload and 28 bytes of IPv4 and UDP headers), from a
    /// sender that does not use ECN.
    pub fn push(&mut self, now: Micros, size: usize, item: T) -> PushOutcome {
        self.push_marked(now, size, Ecn::NotCapable, item)
    }

    /// The same with this ECN field.
    pub fn push_marked(&mut self, now: Micros, size: usize, ecn: Ecn, item: T) -> PushOutcome {
        self.advance(now);
        let now = now.max(micros_before(self.now));
        let (number, at) = (self.pushes, self.now);
        self.pushes += 1;
        // Saturates far above the largest MTU, so that such a packet is dropped below.
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

    /// Whether a packet of this size pushed now would be refused at the door.
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

    /// When to call [`poll`](Self::poll) next; `None` if nothing is on its way. A poll at that time may still
    /// give nothing, because the packet was lost or the rate has changed; then ask again.
    pub fn poll_timeout(&self) -> Option<Micros> {
        if let Some(delivery) = self.ready.front() {
            return Some(delivery.arrived_at);
        }
        let mut at = self.line.next();
        // What is in front on an orderly line is the next arrival, whatever the serialiser does meanwhile.
        if self.delay_first || !self.line.settled() {
            at = at.min(self.server_event());
            if self.serving.is_some() || self.queue.len() > 0 {
                at = at.min(self.next_change());
            }
        }
        (at != NEVER).then(|| micros_after(at))
    }

    /// The next packet that has arrived by `now`, in the order of arrival.
    pub fn poll(&mut self, now: Micros) -> Option<Delivery<T>> {
        self.advance(now);
        self.ready.pop_front()
    }

    /// Counters up to the latest call.
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

    /// The state at `now`.
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

    /// What the link can do from `now` on, and until when. Nothing may be on its way.
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

    /// Whether an outage destroys what it meets.
    pub(crate) fn drops_in_outages(&self) -> bool {
        self.outage_mode == OutageMode::Drop
    }

    /// Whether the delay comes before queue and serialiser.
    pub(crate) fn delays_first(&self) -> bool {
        self.delay_first
    }

    /// The largest packet it takes, in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Starts (or, with `false`, ends and forgets) the record of every packet. Off by default.
    pub fn keep_records(&mut self, keep: bool) {
        self.ledger.keep_records(keep);
    }

    /// The record since the last call, up to the latest time the link has seen.
    pub fn drain_records(&mut self) -> Vec<Record> {
        self.ledger.drain()
    }
}
