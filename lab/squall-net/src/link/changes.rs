//! Changes of a link: by its script, by its radio, and by stalls.

use squall_units::{Ratio, Span};

use super::Link;
use crate::{
    delay::Delay,
    log::DropReason,
    radio::{Conditions, Follower},
    rate::{Fluid, Pace, Server, WORK_PER_BIT},
    script::{Change, OutageMode},
    stall::Stalls,
    time::{NEVER, Nanos},
};

impl<T: Clone> Link<T> {
    /// Returns the time of the next change that no packet causes.
    pub(super) fn next_change(&self) -> Nanos {
        self.script.next().min(self.radio_event()).min(self.stall_event())
    }

    fn radio_event(&self) -> Nanos {
        self.radio.as_ref().map_or(NEVER, Follower::next)
    }

    fn stall_event(&self) -> Nanos {
        self.stalls.as_ref().map_or(NEVER, Stalls::next)
    }

    /// Applies the first of the changes that are due at `at`.
    pub(super) fn change(&mut self, at: Nanos) {
        if at == self.script.next() {
            self.follow_script(at);
        } else if at == self.radio_event() {
            self.follow_radio(at);
        } else {
            self.follow_stalls(at);
        }
    }

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
            Some(Change::Ecn(ecn)) => self.ecn = ecn,
            Some(Change::Mtu(mtu)) => self.mtu = mtu.min(self.mtu_bound),
            Some(Change::OutageStart) => self.enter_outage(at),
            Some(Change::OutageEnd) => self.leave_outage(at),
            None => {}
        }
    }

    /// Makes the link depend on a radio from time 0 on.
    pub(crate) fn follow(&mut self, radio: Follower) {
        self.radio = Some(radio);
        self.follow_radio(0);
    }

    fn follow_radio(&mut self, at: Nanos) {
        let Some(radio) = &mut self.radio else { return };
        let Conditions { share, loss, outage } = radio.conditions(at);
        let before = std::mem::replace(&mut self.conditions, Conditions { share, loss, outage });
        if share != before.share {
            self.change_share(at);
        }
        match (before.outage, outage) {
            (false, true) => self.enter_outage(at),
            (true, false) => self.leave_outage(at),
            _ => {}
        }
    }

    /// Makes the link stall from time 0 on.
    pub(crate) fn stall(&mut self, stalls: Stalls) {
        self.stalls = Some(stalls);
    }

    fn follow_stalls(&mut self, at: Nanos) {
        let Some(stalls) = &mut self.stalls else { return };
        let left = stalls.left(at);
        let before = std::mem::replace(&mut self.left, left);
        // A share of zero is an outage; the previous share of the rate stays in place until the
        // outage ends.
        if left != Ratio::ZERO && left != before {
            self.change_share(at);
        }
        match (before == Ratio::ZERO, left == Ratio::ZERO) {
            (false, true) => self.enter_outage(at),
            (true, false) => self.leave_outage(at),
            _ => {}
        }
    }

    /// Share of the rate that radio and stalls leave; an outage does not change it.
    fn share(&self) -> Ratio {
        if self.left == Ratio::ZERO { self.conditions.share } else { self.conditions.share.of(self.left) }
    }

    /// Continues at another share of the rate, also with the packet being sent.
    fn change_share(&mut self, at: Nanos) {
        let share = self.share();
        if self.outages == 0 {
            self.stop_serving(at);
        }
        if let Server::Fluid(fluid) = &mut self.server {
            fluid.set_share(at, share);
        }
        if self.outages == 0 {
            self.go_on(at);
        }
    }

    fn enter_outage(&mut self, at: Nanos) {
        self.outages += 1;
        if self.outages == 1 {
            self.begin_outage(at);
        }
    }

    fn leave_outage(&mut self, at: Nanos) {
        if self.outages == 1 {
            self.pass_opportunities(at);
        }
        self.outages -= 1;
        if self.outages == 0 {
            self.go_on(at);
        }
    }

    /// Replaces the rate; the packet being sent continues at the new one.
    fn change_rate(&mut self, at: Nanos, pace: Pace) {
        if self.outages == 0 {
            self.stop_serving(at);
        }
        if matches!(self.server, Server::Opportunities(_)) {
            // The remainder was counted in bytes, with the TUN header; convert it to work.
            self.serving_left *= 8 * WORK_PER_BIT;
        }
        self.server = Server::Fluid(Fluid::new(pace, self.share(), at));
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

    /// Stops in the middle of a packet, or sends it if this is its last nanosecond.
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

    /// Continues with the interrupted packet, or with the next.
    fn go_on(&mut self, at: Nanos) {
        if let (Server::Fluid(fluid), true) = (&mut self.server, self.serving.is_some()) {
            fluid.resume(at, self.serving_left);
        }
        self.start_next(at);
    }
}
