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

/// A flow of blocks, with all defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Unique name within the scenario.
    pub name: String,
    /// Which end sends.
    pub direction: Direction,
    /// Channel of the session that carries it.
    pub channel: u32,
    /// Time of the first block, in microseconds from the start of the run.
    pub start_us: u64,
    /// No block is offered at or after this time, in microseconds from the start of the run.
    pub end_us: u64,
    /// The blocks themselves.
    pub traffic: Traffic,
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
