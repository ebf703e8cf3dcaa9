//! Scripted changes of a link.

use super::Link;
use crate::{
    delay::Delay,
    log::DropReason,
    rate::{Fluid, Pace, Server, WORK_PER_BIT},
    script::{Change, OutageMode},
    time::Nanos,
    units::Span,
};

impl<T: Clone> Link<T> {
    pub(super) fn follow_script(&mut self, at: Nanos) {
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
