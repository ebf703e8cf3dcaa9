//! Messages with varying size and pace.

use std::collections::BTreeMap;

use rand_pcg::Pcg64Mcg;
use squall_units::{Size, Span};

use super::distribution::{Distribution, Draw, Quantity};
use super::fields::{Checked, MAX_BLOCK, MIN_INTERVAL_US, bytes_within, priority, require};
use super::frame_type::ReliableFrames;
use super::source::{Kind, Source};
use crate::offer::{Class, Offer};

/// Sizes of messages.
pub(super) const SIZES: Quantity<Size> =
    Quantity { whole: Size::bytes, unit: "bytes", least: 1, greatest: MAX_BLOCK, step: 1 };

/// Intervals between messages: up to one hour; Poisson in milliseconds.
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
    /// Interval between messages.
    pub interval: Distribution<Span>,
    /// Deadline after a message is offered.
    pub deadline: Option<Span>,
    /// Priority, 0 first.
    #[serde(default)]
    pub priority: u8,
    /// Lost data is repaired until it arrives: for all messages or none.
    #[serde(default)]
    pub reliable: ReliableFrames,
    /// A message waits for room in the send buffer.
    ///
    /// MAppLE's generator writes into a queue that mimics a blocked or a non-blocked socket and
    /// emulates TCP's send queue (NineTails §III): a blocked one continues when there is room.
    #[serde(default)]
    pub blocking: bool,
    /// Capacity of the send buffer of a blocking flow in bytes, 1 B to 64 MiB. Default: 212,992 B,
    /// the default of sockets in Linux (`net.core.wmem_default`). As in TCP, a message leaves the
    /// buffer when it is acknowledged or dropped. A message larger than the buffer waits until it
    /// is empty.
    pub send_buffer: Option<Size>,
}

/// Largest send buffer: the maximum number of bytes that a session queues.
const MAX_BUFFER: u64 = 64 << 20;

/// Default of the send buffer in bytes.
const BUFFER: u64 = 212_992;

impl Kind for Messages {
    fn kind(&self) -> &'static str {
        "messages"
    }

    fn validate(&self) -> Checked {
        SIZES.check("size", self.size)?;
        INTERVALS.check("interval", self.interval)?;
        priority("priority", self.priority)?;
        if let Some(buffer) = self.send_buffer {
            require(self.blocking, "send_buffer", "only a blocking flow waits for room in it")?;
            bytes_within("send_buffer", buffer.bytes(), MAX_BUFFER)?;
        }
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
    /// Earliest time of the next message.
    at_us: u64,
    /// Send buffer of a blocking flow.
    buffer: Option<Buffer>,
    /// Size of a message that waits for room.
    blocked: Option<u64>,
}

/// A send buffer.
#[derive(Debug)]
struct Buffer {
    capacity: u64,
    used: u64,
    /// Sizes of the buffered messages, by their number in the flow.
    messages: BTreeMap<u64, u64>,
    /// Number of the next message.
    next: u64,
}

impl Buffer {
    fn new(capacity: u64) -> Self {
        Self { capacity, used: 0, messages: BTreeMap::new(), next: 0 }
    }

    fn fits(&self, size: u64) -> bool {
        self.used == 0 || self.used.saturating_add(size) <= self.capacity
    }

    fn add(&mut self, size: u64) {
        self.messages.insert(self.next, size);
        self.next += 1;
        self.used += size;
    }

    fn remove(&mut self, index: u64) {
        self.used -= self.messages.remove(&index).unwrap_or(0);
    }
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
            buffer: messages.blocking.then(|| Buffer::new(messages.send_buffer.map_or(BUFFER, Size::bytes))),
            blocked: None,
        }
    }
}

impl Source for Irregular {
    fn next(&mut self) -> Option<Offer> {
        let size = self.blocked.take().unwrap_or_else(|| self.size.next(&mut self.rng));
        if let Some(buffer) = &mut self.buffer {
            if !buffer.fits(size) {
                self.blocked = Some(size);
                return None;
            }
            buffer.add(size);
        }
        let at_us = self.at_us;
        self.at_us = at_us.checked_add(self.interval.next(&mut self.rng))?;
        let offer = Offer::new(at_us, size, 0, &self.classes[0]);
        Some(Offer { deadline_us: self.deadline_us, ..offer })
    }

    fn on_ended(&mut self, index: u64, at_us: u64, _delivered: bool) {
        let Some(buffer) = &mut self.buffer else { return };
        buffer.remove(index);
        if self.blocked.is_some() {
            self.at_us = self.at_us.max(at_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// Messages of 1 kB each 10 ms, blocking with a send buffer of this size.
    fn irregular(buffer: Option<u64>) -> Irregular {
        let messages = Messages {
            size: Distribution::Constant(Size::from_bytes(1_000)),
            interval: Distribution::Constant(Span::from_millis(10)),
            deadline: None,
            priority: 0,
            reliable: ReliableFrames::All,
            blocking: buffer.is_some(),
            send_buffer: buffer.map(Size::from_bytes),
        };
        Irregular::new(&messages, Pcg64Mcg::seed_from_u64(1))
    }

    fn next_us(messages: &mut Irregular) -> Option<u64> {
        messages.next().map(|offer| offer.at_us)
    }

    #[test]
    fn a_message_waits_for_room_in_the_buffer_and_for_its_interval() {
        let mut messages = irregular(Some(2_999));
        let first: Vec<_> = (0..3).map(|_| next_us(&mut messages)).collect();
        assert_eq!(first, [Some(0), Some(10_000), None], "two fit");
        messages.on_ended(1, 14_000, true);
        assert_eq!(next_us(&mut messages), Some(20_000), "not before its interval");
        assert_eq!(next_us(&mut messages), None);
        messages.on_ended(1, 32_000, true);
        assert_eq!(next_us(&mut messages), None, "that had left the buffer");
        messages.on_ended(0, 57_000, false);
        assert_eq!(next_us(&mut messages), Some(57_000), "a lost message has ended");
        messages.on_ended(2, 58_000, true);
        assert_eq!(next_us(&mut messages), Some(67_000), "an interval after the last");
    }

    #[test]
    fn a_message_larger_than_the_buffer_waits_until_it_is_empty() {
        let mut messages = irregular(Some(1));
        assert_eq!((next_us(&mut messages), next_us(&mut messages)), (Some(0), None));
        messages.on_ended(0, 30_000, true);
        assert_eq!((next_us(&mut messages), next_us(&mut messages)), (Some(30_000), None));
    }

    #[test]
    fn without_blocking_only_the_interval_counts() {
        let mut messages = irregular(None);
        let times: Vec<_> = (0..3).map(|_| next_us(&mut messages)).collect();
        assert_eq!(times, [Some(0), Some(10_000), Some(20_000)]);
        messages.on_ended(0, 90_000, true);
        assert_eq!(next_us(&mut messages), Some(30_000));
    }
}
