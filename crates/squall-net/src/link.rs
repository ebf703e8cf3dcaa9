//! One direction of a link.

use std::collections::VecDeque;

use rand_pcg::{Pcg64Mcg, rand_core::SeedableRng};

use crate::{
    config::{ConfigError, LinkConfig},
    delay::{Delay, Jitter, Line},
    log::{Count, DropReason, Ledger, LinkStats, Record},
    loss::{Loss, chance},
    mahimahi::{OPPORTUNITY, TUN_HEADER},
    queue::{Queue, Queued},
    rate::{Fluid, Pace, Server, WORK_PER_BIT},
    script::{Change, OutageMode, Script},
    time::{NEVER, Nanos, micros_after, micros_before, nanos},
    units::{Micros, Ratio, Span},
};

/// An emulated one-way link carrying items of type `T`, without sockets or a clock of its own.
///
/// Times are microseconds from the start of the run and must not decrease from call to call (an earlier time
/// counts as the latest seen). Everything due at or before `now` happens before what the call itself does:
/// a packet pushed at the very microsecond in which another leaves the queue finds that place free, and a
/// packet pushed in a millisecond cannot use a trace's opportunity of that millisecond. Among things due at
/// the same nanosecond, the script comes first, then the serialiser, then arrivals. So the same configuration,
/// seed and pushes give the same deliveries.
#[derive(Debug, Clone)]
pub struct Link<T> {
    now: Nanos,
    pushes: u64,
    mtu: u32,
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
    script: Script,
    outage_mode: OutageMode,
    /// Outages that have begun and not ended.
    outages: u32,
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
}

impl<T> Queued for Packet<T> {
    fn bytes(&self) -> u64 {
        u64::from(self.queue_size)
    }

    fn entered(&self) -> Nanos {
        self.entered
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
            mtu: config.effective_mtu(),
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
            script: Script::new(&config.events)?,
            outage_mode: config.outage,
            outages: 0,
            ready: VecDeque::new(),
            latest: None,
            ledger: Ledger::default(),
        })
    }

    /// Gives the link a packet of `size` bytes (IP size: a UDP payload and 28 bytes of IPv4 and UDP headers).
    pub fn push(&mut self, now: Micros, size: usize, item: T) -> PushOutcome {
        self.advance(now);
        let now = now.max(micros_before(self.now));
        let (number, at) = (self.pushes, self.now);
        self.pushes += 1;
        // Saturates far above the largest MTU, so that such a packet is dropped below.
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.ledger.pushed(at, number, size);
        if let Some(reason) = self.refusal(size) {
            self.ledger.dropped(at, number, size, reason);
            return PushOutcome::Dropped(reason);
        }
        let header = if matches!(self.server, Server::Opportunities(_)) { TUN_HEADER as u32 } else { 0 };
        let queue_size = size + header;
        let packet = Packet { item, number, size, queue_size, sent_at: now, entered: at, waited: 0 };
        if self.delay_first {
            self.fly(at, packet);
            return PushOutcome::Queued;
        }
        self.enqueue(at, packet)
    }

    /// Whether a packet of this size pushed now would be refused at the door.
    pub(crate) fn refuses(&mut self, now: Micros, size: usize) -> bool {
        self.advance(now);
        u32::try_from(size).map_or(true, |size| self.refusal(size).is_some())
    }

    fn refusal(&self, size: u32) -> Option<DropReason> {
        if size > self.mtu {
            Some(DropReason::Mtu)
        } else if self.outages > 0 && self.outage_mode == OutageMode::Drop {
            Some(DropReason::Outage)
        } else {
            None
        }
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
                at = at.min(self.script.next());
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

    /// Starts (or, with `false`, ends and forgets) the record of every packet. Off by default.
    pub fn keep_records(&mut self, keep: bool) {
        self.ledger.keep_records(keep);
    }

    /// The record since the last call, up to the latest time the link has seen.
    pub fn drain_records(&mut self) -> Vec<Record> {
        self.ledger.drain()
    }
}

// What happens inside, in the order of a packet's way: queue, serialiser, line, end.
impl<T: Clone> Link<T> {
    /// Lets everything due at or before `now` happen.
    fn advance(&mut self, now: Micros) {
        let to = nanos(now).min(NEVER - 1);
        loop {
            let (script, server) = (self.script.next(), self.server_event());
            let at = script.min(server).min(self.line.next());
            if at > to {
                break;
            }
            self.now = at;
            if at == script {
                self.follow_script(at);
            } else if at == server {
                self.serve(at);
            } else {
                self.land(at);
            }
        }
        self.now = self.now.max(to);
        self.pass_opportunities(self.now);
    }

    fn server_event(&self) -> Nanos {
        match &self.server {
            Server::Fluid(fluid) => fluid.event(),
            Server::Opportunities(trace) if self.uses_opportunities() => trace.next(),
            Server::Opportunities(_) => NEVER,
        }
    }

    fn uses_opportunities(&self) -> bool {
        self.outages == 0 && (self.serving.is_some() || self.queue.len() > 0)
    }

    /// Lets the opportunities go by that nobody can use.
    fn pass_opportunities(&mut self, until: Nanos) {
        if self.uses_opportunities() {
            return;
        }
        let Server::Opportunities(trace) = &mut self.server else { return };
        if self.ledger.keeps_records() {
            while trace.next() <= until {
                self.ledger.opportunity(trace.next());
                trace.take();
            }
        } else {
            trace.skip(until);
        }
    }

    fn enqueue(&mut self, at: Nanos, packet: Packet<T>) -> PushOutcome {
        self.pass_opportunities(at);
        let Self { queue, ledger, .. } = self;
        let number = packet.number;
        let mut outcome = PushOutcome::Queued;
        queue.push(packet, |dropped| {
            if dropped.number == number {
                outcome = PushOutcome::Dropped(DropReason::Queue);
            }
            ledger.dropped(at, dropped.number, dropped.size, DropReason::Queue);
        });
        self.start_next(at);
        let stats = &mut self.ledger.stats;
        stats.queue_bytes_max = stats.queue_bytes_max.max(self.queue.bytes());
        outcome
    }

    /// Begins to send the next packet if nothing is being sent. Opportunities take theirs when they come.
    fn start_next(&mut self, at: Nanos) {
        let idle = self.serving.is_none() && self.outages == 0 && matches!(self.server, Server::Fluid(_));
        if !idle {
            return;
        }
        let Some(packet) = self.dequeue(at) else { return };
        if let Server::Fluid(fluid) = &mut self.server {
            fluid.begin(at, u64::from(packet.size));
        }
        self.serving = Some(packet);
    }

    fn dequeue(&mut self, at: Nanos) -> Option<Packet<T>> {
        let Self { queue, ledger, .. } = self;
        let mut packet = queue.pop(at, |condemned| {
            ledger.dropped(at, condemned.number, condemned.size, DropReason::Codel);
        })?;
        packet.waited = at - packet.entered;
        Some(packet)
    }

    fn serve(&mut self, at: Nanos) {
        match &mut self.server {
            Server::Fluid(fluid) => {
                if fluid.run(at) {
                    self.finish_serving(at);
                }
            }
            Server::Opportunities(trace) => {
                trace.take();
                self.ledger.opportunity(at);
                self.use_opportunity(at);
            }
        }
    }

    fn finish_serving(&mut self, at: Nanos) {
        if let Some(packet) = self.serving.take() {
            self.depart(at, packet);
        }
        self.start_next(at);
    }

    /// Sends what fits into one opportunity: the rest of one packet, further packets, part of another.
    fn use_opportunity(&mut self, at: Nanos) {
        let mut room = OPPORTUNITY;
        while room > 0 {
            if self.serving.is_none() {
                let Some(packet) = self.dequeue(at) else { return };
                self.serving_left = packet.bytes();
                self.serving = Some(packet);
            }
            let used = room.min(self.serving_left);
            room -= used;
            self.serving_left -= used;
            if self.serving_left == 0
                && let Some(packet) = self.serving.take()
            {
                self.depart(at, packet);
            }
        }
    }

    /// The last bit has left the serialiser: from here a packet may be lost or doubled.
    fn depart(&mut self, at: Nanos, packet: Packet<T>) {
        let (number, size) = (packet.number, packet.size);
        self.ledger.sent(at, number, size, packet.sent_at, packet.waited / 1_000);
        if self.loss.loses(at) {
            self.ledger.dropped(at, number, size, DropReason::Loss);
            return;
        }
        let copy = chance(&mut self.duplicate_random, self.duplicate).then(|| packet.clone());
        self.leave(at, packet);
        if let Some(copy) = copy {
            self.ledger.duplicated(at, number, size);
            self.leave(at, copy);
        }
    }

    fn leave(&mut self, at: Nanos, packet: Packet<T>) {
        if self.delay_first {
            self.arrive(at, packet);
        } else {
            self.fly(at, packet);
        }
    }

    fn fly(&mut self, at: Nanos, packet: Packet<T>) {
        let delay = self.jitter.apply(self.delay.at(at));
        self.line.enter(at.saturating_add(delay), packet);
    }

    fn land(&mut self, at: Nanos) {
        let Some((_, mut packet)) = self.line.pop() else { return };
        if self.delay_first {
            packet.entered = at;
            // The push was answered long ago; the ledger has the drop.
            let _ = self.enqueue(at, packet);
        } else {
            self.arrive(at, packet);
        }
    }

    fn arrive(&mut self, at: Nanos, packet: Packet<T>) {
        let Packet { item, number, size, sent_at, waited, .. } = packet;
        self.ledger.delivered(at, number, size);
        if self.latest.is_some_and(|latest| number < latest) {
            self.ledger.stats.reordered += 1;
        }
        self.latest = self.latest.max(Some(number));
        self.ready.push_back(Delivery {
            item,
            size: size as usize,
            number,
            sent_at,
            arrived_at: micros_after(at),
            queueing: waited / 1_000,
        });
    }
}

// Scripted changes.
impl<T: Clone> Link<T> {
    fn follow_script(&mut self, at: Nanos) {
        match self.script.pop() {
            Some(Change::Rate { to, over }) => {
                let pace = match self.server.rate(at) {
                    Some(from) if over > 0 => {
                        Pace::Ramp { from, to: to.bps(), start: at, end: at.saturating_add(over) }
                    }
                    _ => Pace::Fixed(to.bps()),
                };
                self.change_rate(at, pace);
            }
            Some(Change::Delay { to, over: 0 }) => self.delay = Delay::Fixed(to),
            Some(Change::Delay { to, over }) => {
                let from = Span::from_micros(self.delay.at(at) / 1_000);
                self.delay = Delay::Ramp { from, to, start: at, end: at.saturating_add(over) };
            }
            Some(Change::Loss(loss)) => self.loss.change(&loss),
            Some(Change::OutageStart) => {
                self.outages += 1;
                if self.outages == 1 {
                    self.begin_outage(at);
                }
            }
            Some(Change::OutageEnd) => {
                if self.outages == 1 {
                    self.pass_opportunities(at);
                }
                self.outages -= 1;
                if self.outages == 0 {
                    self.go_on(at);
                }
            }
            None => {}
        }
    }

    /// Replaces the rate; a packet being sent goes on at the new one.
    fn change_rate(&mut self, at: Nanos, pace: Pace) {
        if self.outages == 0 {
            self.stop_serving(at);
        }
        if matches!(self.server, Server::Opportunities(_)) {
            // What was counted in bytes, with the TUN header, becomes work.
            self.serving_left *= 8 * WORK_PER_BIT;
        }
        self.server = Server::Fluid(Fluid::new(pace, at));
        if self.outages == 0 {
            self.go_on(at);
        }
    }

    fn begin_outage(&mut self, at: Nanos) {
        self.stop_serving(at);
        if self.outage_mode == OutageMode::Hold {
            return;
        }
        let flying = std::iter::from_fn(|| self.line.pop()).map(|(_, packet)| packet);
        let waiting = std::iter::from_fn(|| self.queue.take());
        for packet in flying.chain(self.serving.take()).chain(waiting) {
            self.ledger.dropped(at, packet.number, packet.size, DropReason::Outage);
        }
    }

    /// Stops in the middle of a packet, or lets it go if this is its last nanosecond.
    fn stop_serving(&mut self, at: Nanos) {
        let Server::Fluid(fluid) = &mut self.server else { return };
        match fluid.pause(at) {
            Some(left) => self.serving_left = left,
            None => {
                if let Some(packet) = self.serving.take() {
                    self.depart(at, packet);
                }
            }
        }
    }

    /// Goes on with the packet that was stopped, or with the next.
    fn go_on(&mut self, at: Nanos) {
        if let (Server::Fluid(fluid), true) = (&mut self.server, self.serving.is_some()) {
            fluid.resume(at, self.serving_left);
        }
        self.start_next(at);
    }
}
