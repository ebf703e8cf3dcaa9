//! I, P and B.

use super::{Class, ReliableFrames};

/// How a frame is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameType {
    /// Intra: by itself, a key frame.
    I,
    /// Predicted from the I or P frame before it.
    P,
    /// Predicted from the I or P frames on both sides of it; nothing needs it.
    B,
}

impl FrameType {
    /// All, in the order of their classes.
    pub const ALL: [FrameType; 3] = [FrameType::I, FrameType::P, FrameType::B];

    /// Of `I`, `P` or `B`.
    pub fn of(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|frame| frame.letter() == letter)
    }

    /// `I`, `P` or `B`.
    pub fn letter(self) -> char {
        match self {
            FrameType::I => 'I',
            FrameType::P => 'P',
            FrameType::B => 'B',
        }
    }

    /// Whether other frames need it.
    pub fn is_reference(self) -> bool {
        self != FrameType::B
    }

    /// The classes `I`, `P` and `B`.
    pub(super) fn classes(priorities: [u8; 3], reliable: ReliableFrames) -> Vec<Class> {
        let class = |(frame, priority): (FrameType, u8)| {
            Class::new(&frame.letter().to_string(), reliable.covers_type(frame), priority)
        };
        Self::ALL.into_iter().zip(priorities).map(class).collect()
    }
}
