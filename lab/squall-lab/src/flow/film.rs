//! A film that is really encoded, and whose viewer is shown what can be decoded in time.

use squall_media::{ClipConfig, FrameKind};

use super::{Class, FrameType, Kind, ReliableFrames};

/// A generated moving scene, encoded with H.264 when the flow is first needed, over and over to the end of the flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Film {
    /// What it shows, and how it is encoded.
    pub clip: ClipConfig,
    /// Length of a round in pictures, at least 1.
    pub pictures: u64,
    /// From offering a frame to showing it, in microseconds: its deadline.
    pub deadline_us: u64,
    /// Priorities of key frames, of those that others need, and of those that none needs; 0 first.
    pub priorities: [u8; 3],
    /// Which frames are reliable.
    pub reliable: ReliableFrames,
}

impl Film {
    /// The class of a frame.
    pub(crate) fn class(kind: FrameKind) -> u16 {
        match kind {
            FrameKind::Key => 0,
            FrameKind::Delta => 1,
            FrameKind::Disposable => 2,
        }
    }

    /// Length of a round in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.pictures as f64 / self.clip.encoder.fps
    }
}

impl Kind for Film {
    fn name(&self) -> &'static str {
        "film"
    }

    fn classes(&self) -> Vec<Class> {
        let [key, delta, disposable] = self.priorities;
        let class = |name, like, priority| Class::new(name, self.reliable.covers_type(like), priority);
        vec![
            class("key", FrameType::I, key),
            class("delta", FrameType::P, delta),
            class("disposable", FrameType::B, disposable),
        ]
    }

    fn deadline_us(&self) -> Option<u64> {
        Some(self.deadline_us)
    }

    fn picture_us(&self) -> Option<u64> {
        Some((1e6 / self.clip.encoder.fps).round() as u64)
    }
}
