//! Messages of random sizes at random times.

use rand_pcg::Pcg64Mcg;

use super::Offer;
use super::draw::Draw;
use super::source::Source;
use crate::flow::{Class, Messages};

#[derive(Debug)]
pub(super) struct Irregular {
    size: Draw,
    interval: Draw,
    deadline_us: Option<u64>,
    classes: Vec<Class>,
    rng: Pcg64Mcg,
    /// The next message is not offered before.
    at_us: u64,
    offers: u64,
    blocking: bool,
    /// The latest message has not ended, and the next one waits for that.
    blocked: bool,
}

impl Irregular {
    pub(super) fn new(messages: &Messages, classes: Vec<Class>, rng: Pcg64Mcg) -> Self {
        let size = Draw::new(messages.size, Messages::SIZES);
        let interval = Draw::new(messages.interval, Messages::INTERVALS_US);
        let (deadline_us, blocking) = (messages.deadline_us, messages.blocking);
        Self { size, interval, deadline_us, classes, rng, at_us: 0, offers: 0, blocking, blocked: false }
    }
}

impl Source for Irregular {
    fn next(&mut self) -> Option<Offer> {
        if self.blocked {
            return None;
        }
        let at_us = self.at_us;
        let size = self.size.next(&mut self.rng);
        self.at_us = at_us.checked_add(self.interval.next(&mut self.rng))?;
        self.offers += 1;
        self.blocked = self.blocking;
        let offer = Offer::new(at_us, size, 0, &self.classes[0]);
        Some(Offer { deadline_us: self.deadline_us, ..offer })
    }

    fn on_ended(&mut self, index: u64, at_us: u64, _delivered: bool) {
        if self.blocked && index + 1 == self.offers {
            self.blocked = false;
            self.at_us = self.at_us.max(at_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::flow::{Distribution, Traffic};

    fn irregular(blocking: bool) -> Irregular {
        let messages = Messages {
            size: Distribution::Constant(1_000),
            interval: Distribution::Constant(10_000),
            deadline_us: None,
            priority: 0,
            reliable: true,
            blocking,
        };
        let classes = Traffic::Messages(messages.clone()).classes();
        Irregular::new(&messages, classes, Pcg64Mcg::seed_from_u64(1))
    }

    fn next_us(messages: &mut Irregular) -> Option<u64> {
        messages.next().map(|offer| offer.at_us)
    }

    #[test]
    fn a_message_waits_for_the_one_before_and_for_its_interval() {
        let mut messages = irregular(true);
        assert_eq!((next_us(&mut messages), next_us(&mut messages)), (Some(0), None));
        messages.on_ended(0, 4_000, true);
        assert_eq!(next_us(&mut messages), Some(10_000), "not before its interval");
        messages.on_ended(0, 12_000, true);
        assert_eq!(next_us(&mut messages), None, "that was another one");
        messages.on_ended(1, 37_000, false);
        assert_eq!(next_us(&mut messages), Some(37_000), "given up is done with");
        messages.on_ended(2, 38_000, true);
        assert_eq!(next_us(&mut messages), Some(47_000), "an interval after the last");
    }

    #[test]
    fn without_blocking_only_the_interval_counts() {
        let mut messages = irregular(false);
        let times: Vec<_> = (0..3).map(|_| next_us(&mut messages)).collect();
        assert_eq!(times, [Some(0), Some(10_000), Some(20_000)]);
        messages.on_ended(0, 90_000, true);
        assert_eq!(next_us(&mut messages), Some(30_000));
    }
}
