//! A block that an application hands over, its class, and what it is to a player.

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

/// One block that the application hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// When, in microseconds from the start of the run. For [`Pace::Saturate`](crate::traffic::Pace::Saturate): not before.
    pub at_us: u64,
    /// Size in bytes, at least 1.
    pub size: u64,
    /// Deadline in microseconds after `at_us`.
    pub deadline_us: Option<u64>,
    /// Priority, 0 first.
    pub priority: u8,
    /// Whether lost data is repaired until it arrives.
    pub reliable: bool,
    /// Which of the flow's classes it is of, or [`Self::REQUEST`].
    pub class: u16,
    /// What it is to a player, if it is a picture or a part of one.
    pub frame: Option<Frame>,
    /// Channel of the session that carries it.
    pub channel: u32,
    /// Whether it is delivered after the ordered one before it on its channel.
    pub ordered: bool,
}

impl Offer {
    /// Class of the requests that the receiver of a flow sends: blocks against the direction of the flow, which do not
    /// count as its traffic.
    pub const REQUEST: u16 = u16::MAX;

    /// Whether it goes against the direction of its flow; see [`Self::REQUEST`].
    pub fn is_request(&self) -> bool {
        self.class == Self::REQUEST
    }

    /// A block of this class, the `index`th of its flow, without a deadline and not a picture. Its flow's
    /// multiplexer sets the channel when it is handed over.
    pub(crate) fn new(at_us: u64, size: u64, index: u16, class: &Class) -> Self {
        Self {
            at_us,
            size,
            deadline_us: None,
            priority: class.priority,
            reliable: class.reliable,
            class: index,
            frame: None,
            channel: 0,
            ordered: false,
        }
    }
}

/// A block as a decoder sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Which picture it belongs to, counted from 0 in the order of display.
    pub picture: u64,
    /// Whether the picture can be shown once this block and the blocks it needs are there. Refinements of a picture
    /// that can be shown without them are not the base.
    pub base: bool,
    /// Blocks of the flow, counted from 0 in the order of the offers, that it cannot be decoded without.
    pub needs: [Option<u64>; 2],
}

impl Frame {
    /// A whole picture that needs at most the one that was offered before it, as in a stream without
    /// reordering: a key frame nothing.
    pub fn in_sequence(index: u64, key: bool) -> Self {
        Self { picture: index, base: true, needs: [index.checked_sub(1).filter(|_| !key), None] }
    }
}
