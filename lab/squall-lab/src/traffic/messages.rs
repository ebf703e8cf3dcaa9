//! Messages whose size and pace vary.

use rand_pcg::Pcg64Mcg;
use squall_units::{Size, Span};

use super::distribution::{Distribution, Draw, Quantity};
use super::fields::{Checked, MAX_BLOCK, MIN_INTERVAL_US, priority};
use super::frame_type::ReliableFrames;
use super::source::{Kind, Source};
use crate::offer::{Class, Offer};

/// Sizes of messages.
pub(super) const SIZES: Quantity<Size> =
    Quantity { whole: Size::bytes, unit: "bytes", least: 1, greatest: MAX_BLOCK, step: 1 };

/// Times between two messages: up to one hour, Poisson in milliseconds.
pub(super) const INTERVALS: Quantity<Span> = Quantity {
    whole: Span::micros,
    unit: "us",
    least: MIN_INTERVAL_US,
    greatest: 3_600_000_000,
    step: 1_000,
};

/// Messages of random sizes at random times: MAppLE's traffic generator (NineTails §III).
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Size of a message.
    pub size: Distribution<Size>,
    /// Time from one message to the next.
    pub interval: Distribution<Span>,
    /// Deadline after a message is offered.
    pub deadline: Option<Span>,
    /// Priority, 0 first.
    #[serde(default)]
    pub priority: u8,
    /// Whether lost data is repaired until it arrives: all or none.
    #[serde(default)]
    pub reliable: ReliableFrames,
    /// Whether a message waits for the one before it.
    ///
    /// MAppLE's generator writes into a queue that mimics a blocked or a non-blocked socket (NineTails §III). The paper
    /// does not say when a blocked one continues. Here it does when the session that sends is done with the message: it
    /// was acknowledged or dropped.
    #[serde(default)]
    pub blocking: bool,
}

impl Kind for Messages {
    fn kind(&self) -> &'static str {
        "messages"
    }

    fn validate(&self) -> Checked {
        SIZES.check("size", self.size)?;
        INTERVALS.check("interval", self.interval)?;
        priority("priority", self.priority)?;
        self.reliable.check_blocks()
    }

    fn classes(&self) -> Vec<Class> {
        self.reliable.class("message", self.priority)
    }

    fn deadline(&self) -> Option<Span> {
        self.deadline
    }

    fn source(&self, rng: Pcg64Mcg, _length_us: u64) -> Box<dyn Source> {
        Box::new(Irregular::new(self, rng))
    }
}

#[derive(Debug)]
struct Irregular {
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
    fn new(messages: &Messages, rng: Pcg64Mcg) -> Self {
        Self {
            size: SIZES.draw(messages.size),
            interval: INTERVALS.draw(messages.interval),
            deadline_us: messages.deadline_us(),
            classes: messages.classes(),
            rng,
            at_us: 0,
            offers: 0,
            blocking: messages.blocking,
            blocked: false,
        }
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

    fn irregular(blocking: bool) -> Irregular {
        let messages = Messages {
            size: Distribution::Constant(Size::from_bytes(1_000)),
            interval: Distribution::Constant(Span::from_millis(10)),
            deadline: None,
            priority: 0,
            reliable: ReliableFrames::All,
            blocking,
        };
        Irregular::new(&messages, Pcg64Mcg::seed_from_u64(1))
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
        assert_eq!(next_us(&mut messages), Some(37_000), "a lost message has ended");
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
