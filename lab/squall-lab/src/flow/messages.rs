//! Messages whose size and pace vary.

use super::{Class, Distribution, Kind};

/// Messages of random sizes at random times: MAppLE's traffic generator (NineTails §III).
#[derive(Debug, Clone, PartialEq)]
pub struct Messages {
    /// Size in bytes.
    pub size: Distribution,
    /// Time from one message to the next, in microseconds.
    pub interval: Distribution,
    /// Deadline in microseconds after a message is offered.
    pub deadline_us: Option<u64>,
    /// Priority, 0 first.
    pub priority: u8,
    /// Whether lost data is repaired until it arrives.
    pub reliable: bool,
    /// Whether a message waits for the one before it.
    ///
    /// MAppLE's generator writes into a queue that mimics a blocked or a non-blocked socket (NineTails §III); when a
    /// blocked one goes on the paper does not say. Here it does when the session that sends is done with the message:
    /// it was delivered, as its acknowledgements tell, or given up.
    pub blocking: bool,
}

impl Messages {
    /// Least and greatest size of a message in bytes.
    pub const SIZES: (u64, u64) = (1, super::MAX_BLOCK);

    /// Least and greatest time between two messages in microseconds, 100 µs and 1 h.
    pub const INTERVALS_US: (u64, u64) = (100, 3_600_000_000);
}

impl Kind for Messages {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn classes(&self) -> Vec<Class> {
        vec![Class::new("message", self.reliable, self.priority)]
    }

    fn deadline_us(&self) -> Option<u64> {
        self.deadline_us
    }
}
