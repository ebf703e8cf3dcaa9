//! CoDel, the controlled-delay queue discipline (RFC 8289 §5): drops at the head of the queue, at a slowly
//! rising rate, while packets have waited longer than the target for a whole interval.

use crate::time::{Nanos, nanos};

use super::queue::CodelConfig;

/// State of the control law (RFC 8289 §5.1, "codel_queue_t").
#[derive(Debug, Clone)]
pub(crate) struct Codel {
    target: Nanos,
    interval: Nanos,
    ecn: bool,
    /// Time at which the delay will have been above the target for an interval; `None` while it is
    /// below.
    first_above: Option<Nanos>,
    dropping: bool,
    next_drop: Nanos,
    count: u32,
    last_count: u32,
}

/// CoDel never drops if at most this number of bytes is queued: one packet of the largest size.
const MAX_PACKET: u64 = 1_500;

impl Codel {
    pub(crate) fn new(config: CodelConfig) -> Self {
        Self {
            target: nanos(config.target.micros()),
            interval: nanos(config.interval.micros()),
            ecn: config.ecn,
            first_above: None,
            dropping: false,
            next_drop: 0,
            count: 0,
            last_count: 0,
        }
    }

    /// Takes the next packet to send, and drops packets by the control law. `pop` removes the head
    /// of the queue and returns it with its time of entry and the bytes left behind it. A packet to
    /// be dropped is passed to `mark` first: if that marks it, the packet is sent and the next drop
    /// is due as if it had been dropped; otherwise `drop` receives it.
    pub(crate) fn dequeue<P>(
        &mut self,
        now: Nanos,
        mut pop: impl FnMut() -> Option<(P, Nanos, u64)>,
        mut mark: impl FnMut(&mut P) -> bool,
        mut drop: impl FnMut(P),
    ) -> Option<P> {
        let (mut packet, mut late) = self.judge(now, pop());
        if self.dropping {
            if !late {
                self.dropping = false;
            }
            while self.dropping && now >= self.next_drop {
                self.count += 1;
                if self.ecn && packet.as_mut().is_some_and(&mut mark) {
                    self.next_drop = self.control_law(self.next_drop);
                    break;
                }
                packet.into_iter().for_each(&mut drop);
                (packet, late) = self.judge(now, pop());
                if late {
                    self.next_drop = self.control_law(self.next_drop);
                } else {
                    self.dropping = false;
                }
            }
        } else if late {
            if !(self.ecn && packet.as_mut().is_some_and(&mut mark)) {
                packet.into_iter().for_each(&mut drop);
                packet = self.judge(now, pop()).0;
            }
            self.start_dropping(now);
        }
        packet
    }

    /// Enters the dropping state. If it ended only recently, the rate of drops resumes near its
    /// last value (RFC 8289 §5.4).
    fn start_dropping(&mut self, now: Nanos) {
        self.dropping = true;
        let delta = self.count - self.last_count;
        let recently = now < self.next_drop.saturating_add(self.interval.saturating_mul(16));
        self.count = if delta > 1 && recently { delta } else { 1 };
        self.next_drop = self.control_law(now);
        self.last_count = self.count;
    }

    /// Returns the packet, and `true` if it may be dropped: the delay has been above the target for
    /// an interval (RFC 8289 §5.6, "dodequeue").
    fn judge<P>(&mut self, now: Nanos, head: Option<(P, Nanos, u64)>) -> (Option<P>, bool) {
        let Some((packet, entered, left)) = head else {
            self.first_above = None;
            return (None, false);
        };
        if now - entered < self.target || left <= MAX_PACKET {
            self.first_above = None;
            return (Some(packet), false);
        }
        let first_above = *self.first_above.get_or_insert(now.saturating_add(self.interval));
        (Some(packet), now >= first_above)
    }

    fn control_law(&self, from: Nanos) -> Nanos {
        from.saturating_add((self.interval as f64 / f64::from(self.count).sqrt()) as Nanos)
    }
}
