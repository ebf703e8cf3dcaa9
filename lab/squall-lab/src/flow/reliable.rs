//! Which frames are worth repairing.

use super::FrameType;

/// Which frames of a video are reliable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReliableFrames {
    /// Every frame is repaired until it arrives.
    All,
    /// Frames that others need are, the rest may be given up.
    Reference,
    /// Key frames are, delta frames may be given up.
    Key,
    /// None is: a frame that misses its deadline is dropped.
    None,
}

impl ReliableFrames {
    /// Whether a frame is reliable in a stream of key frames and others that each need the one before.
    pub fn covers(self, key: bool) -> bool {
        self.covers_type(if key { FrameType::I } else { FrameType::P })
    }

    /// Whether a frame of this type is reliable.
    pub fn covers_type(self, frame: FrameType) -> bool {
        match self {
            ReliableFrames::All => true,
            ReliableFrames::Reference => frame.is_reference(),
            ReliableFrames::Key => frame == FrameType::I,
            ReliableFrames::None => false,
        }
    }
}
