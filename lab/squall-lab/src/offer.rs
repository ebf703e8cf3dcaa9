//! Blocks that an application submits, their classes and their meaning for a player.

/// Blocks of a flow that are alike, such as its key frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Name, unique within the flow.
    pub name: String,
    /// Lost data is repaired until it arrives.
    pub reliable: bool,
    /// Priority, 0 first.
    pub priority: u8,
}

impl Class {
    /// Creates a class.
    pub fn new(name: &str, reliable: bool, priority: u8) -> Self {
        Self { name: name.to_owned(), reliable, priority }
    }
}

/// One block that the application submits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Time in microseconds from the start of the run. For
    /// [`Pace::Saturate`](crate::traffic::Pace::Saturate): the earliest time.
    pub at_us: u64,
    /// Size in bytes, at least 1.
    pub size: u64,
    /// Deadline in microseconds after `at_us`.
    pub deadline_us: Option<u64>,
    /// Priority, 0 first.
    pub priority: u8,
    /// Lost data is repaired until it arrives.
    pub reliable: bool,
    /// Index of the block's class within the flow, or [`Self::REQUEST`].
    pub class: u16,
    /// The picture that the block belongs to, if any.
    pub frame: Option<Frame>,
    /// Channel of the session.
    pub channel: u32,
    /// The block is delivered only after the preceding ordered block of its channel.
    pub ordered: bool,
}

impl Offer {
    /// Class of the requests that the receiver of a flow sends. They travel against the direction
    /// of the flow and do not count as its traffic.
    pub const REQUEST: u16 = u16::MAX;

    /// `true` if the block travels against the direction of its flow; see [`Self::REQUEST`].
    pub fn is_request(&self) -> bool {
        self.class == Self::REQUEST
    }

    /// Creates a block of a class, the `index`th of its flow, without a deadline or a picture. The
    /// flow's multiplexer sets the channel when the block is submitted.
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

/// Decoder's view of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Picture that the block belongs to, counted from 0 in display order.
    pub picture: u64,
    /// The picture can be shown once this block and the blocks in `needs` have arrived. `false` for
    /// refinements, without which the picture can be shown as well.
    pub base: bool,
    /// Blocks of the flow that are required to decode this one, counted from 0 in the order of the
    /// offers.
    pub needs: [Option<u64>; 2],
}

impl Frame {
    /// A whole picture that depends only on the one offered before it, as in a stream without
    /// reordering. A key frame depends on nothing.
    pub fn in_sequence(index: u64, key: bool) -> Self {
        Self { picture: index, base: true, needs: [index.checked_sub(1).filter(|_| !key), None] }
    }
}
