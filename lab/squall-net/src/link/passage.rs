//! The stages of a packet in a link, in order: queue, serialiser, propagation, end.

use squall_trace::{Micros, mahimahi::OPPORTUNITY};

use super::{Delivery, Link, Packet, PushOutcome};
use crate::{
    damage::Damage,
    log::DropReason,
    loss::chance,
    queue::Queued,
    rate::Server,
    time::{NEVER, Nanos, micros_after, nanos},
};

impl<T: Clone> Link<T> {
    /// Processes everything due at or before `now`.
    pub(super) fn advance(&mut self, now: Micros) {
        let to = nanos(now).min(NEVER - 1);
        loop {
            let (change, server) = (self.next_change(), self.server_event());
            let at = change.min(server).min(self.line.next());
            if at > to {
                break;
            }
            self.now = at;
            if at == change {
                self.change(at);
            } else if at == server {
                self.serve(at);
            } else {
                self.land(at);
            }
        }
        self.now = self.now.max(to);
        self.pass_opportunities(self.now);
    }

    pub(super) fn server_event(&self) -> Nanos {
        match &self.server {
            Server::Fluid(fluid) => fluid.event(),
            Server::Opportunities(trace) if self.uses_opportunities() => trace.next(),
            Server::Opportunities(_) => NEVER,
        }
    }

    fn uses_opportunities(&self) -> bool {
        self.outages == 0 && (self.serving.is_some() || self.queue.len() > 0)
    }

    /// Skips opportunities that no packet can use.
    pub(super) fn pass_opportunities(&mut self, until: Nanos) {
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

    pub(super) fn enqueue(&mut self, at: Nanos, packet: Packet<T>) -> PushOutcome {
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

    /// Starts to send the next packet if none is being sent. A trace takes packets at its
    /// opportunities instead.
    pub(super) fn start_next(&mut self, at: Nanos) {
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

    /// Sends as much as fits into one opportunity: the rest of one packet, further packets, part of
    /// another.
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

    /// The last bit has left the serialiser: from here a packet may be lost or duplicated.
    pub(super) fn depart(&mut self, at: Nanos, packet: Packet<T>) {
        let (number, size) = (packet.number, packet.size);
        self.ledger.sent(at, number, size, packet.sent_at, packet.waited / 1_000);
        // Both are always drawn, so that neither's draws depend on the other.
        let (lost, faded) = (self.loss.loses(at), chance(&mut self.radio_random, self.conditions.loss));
        if lost || faded {
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

    fn leave(&mut self, at: Nanos, mut packet: Packet<T>) {
        if chance(&mut self.corrupt_random, self.corrupt) {
            packet.damage = Some(Damage::random(&mut self.corrupt_random));
            self.ledger.corrupted(at, packet.number, packet.size);
        }
        if self.delay_first {
            self.arrive(at, packet);
        } else {
            self.fly(at, packet);
        }
    }

    pub(super) fn fly(&mut self, at: Nanos, packet: Packet<T>) {
        let delay = self.jitter.apply(self.delay.at(at));
        self.line.enter(at.saturating_add(delay), packet);
    }

    fn land(&mut self, at: Nanos) {
        let Some((_, mut packet)) = self.line.pop() else { return };
        if self.delay_first {
            packet.entered = at;
            // The push has returned long ago; the ledger has the drop.
            let _ = self.enqueue(at, packet);
        } else {
            self.arrive(at, packet);
        }
    }

    fn arrive(&mut self, at: Nanos, packet: Packet<T>) {
        let Packet { item, number, size, sent_at, waited, ecn, damage, .. } = packet;
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
            ecn,
            damage,
        });
    }
}
