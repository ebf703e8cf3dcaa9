//! Which frames are worth repairing.

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
    /// Whether a frame of this sort is reliable: a key frame, or one that others need.
    pub fn covers(self, key: bool, reference: bool) -> bool {
        match self {
            ReliableFrames::All => true,
            ReliableFrames::Reference => key || reference,
            ReliableFrames::Key => key,
            ReliableFrames::None => false,
        }
    }
}
