//! How the blocks of a flow are spread over the channels of its session.

/// How the messages of a flow are spread over channels: MAppLE's stream multiplexer (NineTails, §III).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multiplexer {
    /// One channel without order: each message is told when it is whole. The default.
    Unordered,
    /// One ordered channel, as one stream: a message waits for those before it.
    One,
    /// A channel of its own for each message. Channels are numbers below 1,024 and a session remembers the
    /// last message of each, so they are used in turn, without order: a message that outlives 1,023
    /// others shares its number and still waits for none.
    PerMessage,
    /// So many ordered channels in turn.
    Spread(u32),
}

impl Multiplexer {
    /// The channel of the `index`th message of a flow whose first channel is `first`.
    pub fn channel(self, first: u32, index: u64) -> u32 {
        let count = match self {
            Multiplexer::Unordered | Multiplexer::One => 1,
            Multiplexer::PerMessage => return ((u64::from(first) + index) % CHANNELS) as u32,
            Multiplexer::Spread(count) => u64::from(count.max(1)),
        };
        first + (index % count) as u32
    }

    /// Whether a message waits for the one before it on its channel.
    pub fn is_ordered(self) -> bool {
        matches!(self, Multiplexer::One | Multiplexer::Spread(_))
    }

    /// Channels that a flow has to itself.
    pub fn channels(self) -> u32 {
        match self {
            Multiplexer::Unordered | Multiplexer::One => 1,
            Multiplexer::PerMessage => CHANNELS as u32,
            Multiplexer::Spread(count) => count,
        }
    }
}

/// Channels of a session.
const CHANNELS: u64 = squall_proto::wire::MAX_CHANNELS as u64;
