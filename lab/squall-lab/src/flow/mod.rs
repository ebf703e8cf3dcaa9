//! What an application offers: a flow of blocks of one kind, in one direction.
//!
//! Each kind of traffic has a file here, which says what it is, one in [`traffic`](crate::traffic), which makes its
//! blocks, and one in the scenario, which reads its fields.

mod blocks;
mod bulk;
mod dash;
mod distribution;
mod encoded;
mod film;
mod frame_trace;
mod frame_type;
mod frames;
mod game;
mod gop;
mod messages;
mod multiplexer;
mod production;
mod reliable;
mod tiles;
mod video;

pub use blocks::Blocks;
pub use bulk::Bulk;
pub use dash::Dash;
pub use distribution::Distribution;
pub use encoded::{Cue, Encoded};
pub use film::Film;
pub use frame_trace::{FrameRow, FrameTrace, FrameTraceError};
pub use frame_type::FrameType;
pub use frames::{FrameClasses, Frames};
pub use game::{Follow, Game};
pub use gop::Gop;
pub use messages::Messages;
pub use multiplexer::Multiplexer;
pub use production::Production;
pub use reliable::ReliableFrames;
pub use squall_net::Direction;
pub use tiles::{Head, ReliableTiles, TilePictures, Tiles, Viewport};
pub use video::Video;

/// Largest block of a session in bytes.
pub(crate) const MAX_BLOCK: u64 = 16 << 20;

/// `"down"` or `"up"`, as scenario files spell it.
pub(crate) fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

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
    /// How the bytes of its blocks come into being.
    pub production: Production,
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
    /// Messages of random sizes at random times.
    Messages(Messages),
    /// Groups of pictures with a pattern.
    Gop(Gop),
    /// A film whose frame sizes are recorded.
    Frames(Frames),
    /// A film that is really encoded, and judged by what can be decoded of it.
    Film(Film),
    /// Frames whose size follows what the session can carry.
    Game(Game),
    /// Segments that a player with a small buffer asks for.
    Dash(Dash),
    /// Tiles of a sphere, by where the viewer looks.
    Tiles(Tiles),
    /// The frames of a film that was encoded before, once; no scenario file asks for it.
    Encoded(Encoded),
}

/// What every kind of traffic tells of itself.
trait Kind {
    /// The word for it in scenario files.
    fn name(&self) -> &'static str;

    /// Its classes, at least one.
    fn classes(&self) -> Vec<Class>;

    /// Deadline of its blocks in microseconds after each is offered, if they have one.
    fn deadline_us(&self) -> Option<u64>;

    /// Time from one picture to the next in microseconds, if the blocks are pictures or parts of them.
    fn picture_us(&self) -> Option<u64> {
        None
    }

    /// Bytes to keep queued in the session, if that paces it and not the clock.
    fn backlog(&self) -> Option<u64> {
        None
    }

    /// What the sizes of its blocks follow, if they follow what the session can carry.
    fn follows(&self) -> Option<Follow> {
        None
    }
}

impl Traffic {
    fn of_kind(&self) -> &dyn Kind {
        match self {
            Traffic::Video(video) => video,
            Traffic::Blocks(blocks) => blocks,
            Traffic::Bulk(bulk) => bulk,
            Traffic::Messages(messages) => messages,
            Traffic::Gop(gop) => gop,
            Traffic::Frames(frames) => frames,
            Traffic::Film(film) => film,
            Traffic::Game(game) => game,
            Traffic::Dash(dash) => dash,
            Traffic::Tiles(tiles) => tiles,
            Traffic::Encoded(film) => film,
        }
    }

    /// `"video"`, `"blocks"` and so on, as scenario files spell it.
    pub fn kind(&self) -> &'static str {
        self.of_kind().name()
    }

    /// Its classes, at least one; [`Offer::class`](crate::Offer::class) is a place in them.
    pub fn classes(&self) -> Vec<Class> {
        self.of_kind().classes()
    }

    /// Time from one picture to the next in microseconds, if the blocks are pictures or parts of them.
    pub fn picture_us(&self) -> Option<u64> {
        self.of_kind().picture_us()
    }

    /// Deadline of its blocks in microseconds after each is offered, if they have one.
    pub fn deadline_us(&self) -> Option<u64> {
        self.of_kind().deadline_us()
    }

    /// Bytes to keep queued in the session, if that paces the blocks and not the clock.
    pub fn backlog(&self) -> Option<u64> {
        self.of_kind().backlog()
    }

    /// What the sizes of its blocks follow, if they follow what the session can carry.
    pub fn follows(&self) -> Option<Follow> {
        self.of_kind().follows()
    }
}
