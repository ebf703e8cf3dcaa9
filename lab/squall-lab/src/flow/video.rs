//! Frames at a steady pace, key frames larger than delta frames.

use super::{Class, Kind, ReliableFrames};

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

impl Kind for Video {
    fn name(&self) -> &'static str {
        "video"
    }

    fn classes(&self) -> Vec<Class> {
        let class = |name, key, priority| Class::new(name, self.reliable.covers(key), priority);
        vec![class("key", true, self.priority_key), class("delta", false, self.priority_delta)]
    }

    fn deadline_us(&self) -> Option<u64> {
        self.deadline_us
    }

    fn picture_us(&self) -> Option<u64> {
        Some(1_000_000 / u64::from(self.fps))
    }
}
