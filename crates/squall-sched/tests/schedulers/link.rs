//! Links for a stage, and the session's part between them and the scheduler: a pacer, a rate with a
//! queue and a delay for each path, acknowledgements, losses, silence.

use std::ops::Range;

use squall_sched::{Block, PathId, PathState, PathView, Span, Time};
use squall_units::short::{at_us, ms, us};

use crate::stage::{CHUNK, Flight, Stage};

/// Time passes in steps of a quarter of a millisecond.
const TICK: Span = us(250);
/// Ratio of the pacer's rate to that of the link, so that a queue builds up.
const PACE: u64 = 2;

/// A link, the same in both directions.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) kbps: u64,
    /// One-way delay, without queue.
    pub(crate) delay: Span,
    /// Period in which it drops everything.
    pub(crate) dead: Range<Time>,
    paced_until: Time,
    busy_until: Time,
    last_ack: Time,
    /// Arrival of the answer to a probe.
    answer: Option<Time>,
}

impl Link {
    fn time_for(&self, bytes: u64) -> Span {
        us(bytes * 8000 / self.kbps)
    }
}

impl Stage {
    /// Creates a stage with a link for each (kbps, one-way delay in ms, queue in packets). The
    /// window of a path fills the link and its queue.
    pub(crate) fn linked(scheduler: &str, links: &[(u64, u64, u64)]) -> Self {
        let window = |(kbps, ms, queue): &(u64, u64, u64)| kbps * 2 * ms / 8 / u64::from(CHUNK) + queue + 2;
        let paths: Vec<_> = links.iter().map(|link| (2 * link.1, window(link))).collect();
        let mut stage = Self::new(scheduler, &paths);
        let link = |(kbps, owd, _): &(u64, u64, u64)| Link {
            kbps: *kbps,
            delay: ms(*owd),
            dead: at_us(0)..at_us(0),
            paced_until: Time::EPOCH,
            busy_until: Time::EPOCH,
            last_ack: Time::EPOCH,
            answer: None,
        };
        stage.links = links.iter().map(link).collect();
        stage.paths.iter_mut().for_each(|view| view.bandwidth = view.window * 8_000_000 / view.srtt.micros());
        stage
    }

    /// Lets links and scheduler work until `end`.
    pub(crate) fn run_until(&mut self, end: Time) {
        self.send_all();
        while self.now < end {
            self.now += TICK;
            self.depart();
            self.acknowledge();
            self.expire();
            (0..self.links.len() as u8).for_each(|id| self.watch(id));
            self.offer_one();
            self.send_all();
        }
    }

    /// Moves packets from the pacers onto the links.
    fn depart(&mut self) {
        for flight in self.flying.iter_mut().filter(|flight| flight.left.is_none()) {
            let link = &mut self.links[usize::from(flight.packet.path)];
            if link.paced_until > self.now {
                continue;
            }
            let bytes = u64::from(flight.packet.len());
            link.paced_until = link.paced_until.max(self.now - TICK) + link.time_for(bytes) / PACE;
            flight.left = Some(self.now);
            self.paths.iter_mut().filter(|p| p.id.0 == flight.packet.path).for_each(|p| p.waiting -= bytes);
            if link.dead.contains(&self.now) {
                continue;
            }
            link.busy_until = link.busy_until.max(self.now) + link.time_for(bytes);
            let arrival = link.busy_until + link.delay;
            // Packets in flight when the link dies are dropped too.
            flight.due = (!link.dead.contains(&arrival)).then(|| (arrival + link.delay, arrival - self.now));
        }
    }

    /// Processes acknowledgements, and the losses that they show: packets that left earlier than an
    /// acknowledged one.
    fn acknowledge(&mut self) {
        while let Some(flight) = self.flying.iter().find(|f| f.due.is_some_and(|due| due.0 <= self.now)) {
            let flight = flight.clone();
            self.measure(&flight);
            let overtaken = |other: &&Flight| {
                let before = other.left.is_some() && other.left < flight.left;
                other.packet.path == flight.packet.path && other.due.is_none() && before
            };
            let lost: Vec<_> = self.flying.iter().filter(overtaken).map(|f| f.packet.clone()).collect();
            lost.iter().for_each(|packet| self.lose(packet));
            self.arrive(&flight.packet);
            if self.queue.get(flight.packet.block).is_some_and(Block::is_complete) {
                self.remove(flight.packet.block);
            }
            self.end_pointless();
        }
    }

    fn measure(&mut self, flight: &Flight) {
        let (Some(left), Some((_, owd)), now) = (flight.left, flight.due, self.now) else { return };
        self.links[usize::from(flight.packet.path)].last_ack = now;
        let view = self.path(flight.packet.path);
        let rtt = now - left;
        view.rtt_dev = (view.rtt_dev * 3 + rtt.abs_diff(view.srtt)) / 4;
        (view.srtt, view.latest_rtt) = ((view.srtt * 7 + rtt) / 8, rtt);
        view.owd = (view.owd * 3 + owd) / 4;
        view.bandwidth = view.window * 8_000_000 / view.srtt.micros();
    }

    fn end_pointless(&mut self) {
        let damaged =
            |b: &Block| !b.meta().reliable && b.lost_bytes() > 0 && (b.fresh_bytes() > 0 || b.is_growing());
        let pointless = self.queue.iter().filter(|b| b.is_spent() || damaged(b));
        let pointless: Vec<_> = pointless.map(|b| b.meta().id).collect();
        pointless.into_iter().for_each(|id| self.remove(id));
    }

    fn expire(&mut self) {
        let late = |b: &&Block| b.meta().deadline.is_some_and(|d| d <= self.now);
        let late: Vec<_> = self.queue.iter().filter(late).map(|b| b.meta().id).collect();
        self.expired += late.len();
        late.into_iter().for_each(|id| self.remove(id));
    }

    /// Suspects a silent path, probes a suspected one, and readmits it when it answers.
    fn watch(&mut self, id: u8) {
        let now = self.now;
        let PathView { state, srtt, rtt_dev, .. } = *self.path(id);
        let oldest = self.flying.iter().filter(|f| f.packet.path == id).filter_map(|f| f.left).min();
        let link = &mut self.links[usize::from(id)];
        if state == PathState::Active {
            let silence = ((srtt + rtt_dev * 4 + ms(10)) * 2).clamp(ms(50), ms(200));
            if oldest.is_some_and(|oldest| now >= link.last_ack.max(oldest + srtt) + silence) {
                link.answer = None;
                self.suspect(id);
            }
            return;
        }
        match link.answer {
            Some(answer) if answer <= now => {
                link.last_ack = now;
                self.fail_dropped(id);
                self.readmit(id);
            }
            Some(_) => {}
            None => {
                let answer = now + link.delay * 2;
                link.answer = Some(answer).filter(|_| !link.dead.contains(&now));
            }
        }
    }

    /// Marks packets as lost that were dropped before an answer arrived.
    fn fail_dropped(&mut self, id: u8) {
        let dropped = |f: &&Flight| f.packet.path == id && f.left.is_some() && f.due.is_none();
        let dropped: Vec<_> = self.flying.iter().filter(dropped).map(|f| f.packet.clone()).collect();
        dropped.iter().for_each(|packet| self.lose(packet));
        self.end_pointless();
    }

    /// Offers the path that delivered last if every path is silent, as the session does.
    fn offer_one(&mut self) {
        self.paths.iter_mut().for_each(|p| p.usable = p.state == PathState::Active);
        if self.paths.iter().any(|p| p.usable) {
            return;
        }
        let links = &self.links;
        let last = |p: &&mut PathView| links[usize::from(p.id.0)].last_ack;
        if let Some(PathId(id)) = self.paths.iter_mut().max_by_key(last).map(|p| p.id) {
            self.path(id).usable = true;
        }
    }
}
