//! What an application offers: a flow of blocks of one kind, in one direction.

pub use squall_net::Direction;

/// `"down"` or `"up"`, as scenario files spell it.
pub(crate) fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

/// Which frames of a video are reliable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReliableFrames {
    /// Every frame is repaired until it arrives.
    All,
    /// Key frames are, delta frames may be given up.
    Key,
    /// None is: a frame that misses its deadline is dropped.
    None,
}

impl ReliableFrames {
    /// Whether a frame of this sort is reliable.
    pub fn covers(self, key: bool) -> bool {
        match self {
            ReliableFrames::All => true,
            ReliableFrames::Key => key,
            ReliableFrames::None => false,
        }
    }
}

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

/// A flow of blocks, with all defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Unique name within the scenario.
    pub name: String,
    /// Which end sends.
    pub direction: Direction,
    /// Channel of the session that carries it, the first if it has several.
    pub channel: u32,
    /// How its blocks are spread over channels.
    pub multiplexer: Multiplexer,
    /// Weight of its channels where channels take turns, 1 to 256.
    pub weight: u16,
    /// Time of the first block, in microseconds from the start of the run.
    pub start_us: u64,
    /// No block is offered at or after this time, in microseconds from the start of the run.
    pub end_us: u64,
    /// The blocks themselves.
    pub traffic: Traffic,
}

/// Blocks of a flow that are alike, such as its key frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// What they are, unique within the flow.
    pub name: String,
    /// Whether lost data is repaired until it arrives.
    pub reliable: bool,
    /// Priority, 0 first.
    pub priority: u8,
}

impl Class {
    /// A class of this name.
    pub fn new(name: &str, reliable: bool, priority: u8) -> Self {
        Self { name: name.to_owned(), reliable, priority }
    }
}

/// The kinds of traffic.
#[derive(Debug, Clone, PartialEq)]
pub enum Traffic {
    /// Frames at a steady pace, key frames larger than delta frames.
    Video(Video),
    /// Blocks of one size at a steady pace.
    Blocks(Blocks),
    /// As many reliable blocks as the session takes.
    Bulk(Bulk),
}

impl Traffic {
    /// `"video"`, `"blocks"` or `"bulk"`, as scenario files spell it.
    pub fn kind(&self) -> &'static str {
        match self {
            Traffic::Video(_) => "video",
            Traffic::Blocks(_) => "blocks",
            Traffic::Bulk(_) => "bulk",
        }
    }

    /// Its classes, at least one; [`Offer::class`](crate::Offer::class) is a place in them.
    pub fn classes(&self) -> Vec<Class> {
        match self {
            Traffic::Video(video) => {
                let class = |name, key, priority| Class::new(name, video.reliable.covers(key), priority);
                vec![class("key", true, video.priority_key), class("delta", false, video.priority_delta)]
            }
            Traffic::Blocks(blocks) => vec![Class::new("block", blocks.reliable, blocks.priority)],
            Traffic::Bulk(bulk) => vec![Class::new("block", true, bulk.priority)],
        }
    }

    /// Time from one picture to the next in microseconds, if the blocks are pictures or parts of them.
    pub fn picture_us(&self) -> Option<u64> {
        match self {
            Traffic::Video(video) => Some(1_000_000 / u64::from(video.fps)),
            Traffic::Blocks(_) | Traffic::Bulk(_) => None,
        }
    }

    /// Deadline of its blocks in microseconds after each is offered, if they have one.
    pub fn deadline_us(&self) -> Option<u64> {
        match self {
            Traffic::Video(video) => video.deadline_us,
            Traffic::Blocks(blocks) => blocks.deadline_us,
            Traffic::Bulk(_) => None,
        }
    }
}

/// A video: groups of one key frame followed by delta frames.
#[derive(Debug, Clone, PartialEq)]
pub struct Video {
    /// Frames per second.
    pub fps: u32,
    /// Mean rate over a whole group, in bits per second.
    pub bitrate_bps: u64,
    /// Frames from one key frame to the next, at least 1.
    pub group: u64,
    /// Size of a key frame relative to a delta frame.
    pub key_ratio: f64,
    /// Sizes vary uniformly by up to this share in both directions, 0 to 1.
    pub size_jitter: f64,
    /// Deadline in microseconds after a frame is offered.
    pub deadline_us: Option<u64>,
    /// Priority of key frames, 0 first.
    pub priority_key: u8,
    /// Priority of delta frames, 0 first.
    pub priority_delta: u8,
    /// Which frames are reliable.
    pub reliable: ReliableFrames,
}

impl Video {
    /// Mean size of a frame in bytes, such that a whole group has the bitrate of the video.
    pub fn frame_size(&self, key: bool) -> u64 {
        let group = self.group as f64;
        let group_bytes = self.bitrate_bps as f64 / 8.0 * group / f64::from(self.fps);
        let delta = group_bytes / (group - 1.0 + self.key_ratio);
        (if key { delta * self.key_ratio } else { delta }) as u64
    }

    /// Largest frame in bytes.
    pub fn largest_frame(&self) -> u64 {
        (self.frame_size(true) as f64 * (1.0 + self.size_jitter)) as u64
    }
}

/// Blocks of one size at a steady pace: game messages, audio chunks, tiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocks {
    /// Size in bytes.
    pub size: u64,
    /// Time between two blocks, in microseconds.
    pub interval_us: u64,
    /// Deadline in microseconds after a block is offered.
    pub deadline_us: Option<u64>,
    /// Priority, 0 first.
    pub priority: u8,
    /// Whether lost data is repaired until it arrives.
    pub reliable: bool,
}

/// Reliable blocks without a deadline, always more of them than the paths can carry.
#[derive(Debug, Clone, PartialEq)]
pub struct Bulk {
    /// Size in bytes.
    pub size: u64,
    /// Bytes to keep queued in the session.
    pub backlog: u64,
    /// Priority, 0 first.
    pub priority: u8,
}
