//! Which frames are worth repairing.

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
