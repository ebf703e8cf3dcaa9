//! Frames at a steady pace, with key frames larger than delta frames.

use rand_pcg::Pcg64Mcg;
use squall_units::{Rate, Ratio, Span};

use super::fields::{Checked, frames_within, largest, millis, number, priority, require, within};
use super::frame_type::ReliableFrames;
use super::source::{Kind, Source, jittered};
use crate::offer::{Class, Frame, Offer};

/// A video: groups of one key frame followed by delta frames.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Video {
    /// Frames per second.
    pub fps: u32,
    /// Mean rate over a whole group.
    pub bitrate: Rate,
    /// Interval between key frames.
    #[serde(default = "millis::<2_000>")]
    pub keyframe_interval: Span,
    /// Size of a key frame relative to a delta frame.
    #[serde(default = "number::<4, _>")]
    pub key_ratio: f64,
    /// Sizes vary uniformly by up to this share in both directions.
    #[serde(default)]
    pub jitter: Ratio,
    /// Deadline after a frame is offered.
    pub deadline: Option<Span>,
    /// Priority of key frames, 0 first.
    #[serde(default)]
    pub priority_key: u8,
    /// Priority of delta frames, 0 first.
    #[serde(default = "number::<1, _>")]
    pub priority_delta: u8,
    /// Reliability by frame type.
    #[serde(default)]
    pub reliable: ReliableFrames,
    /// Reference of delta frames.
    #[serde(default)]
    pub references: References,
}

/// Reference that is required to decode a delta frame of a [`Video`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum References {
    /// The previous frame: a missing frame makes the rest of its group undecodable.
    #[default]
    Previous,
    /// The key frame of the group, as with a long-term reference (H.264 §8.2.5.3). No frame depends
    /// on a delta frame.
    Key,
}

impl Video {
    /// Number of frames per group, at least 1.
    pub fn group(&self) -> u64 {
        frames_within(self.keyframe_interval, self.fps)
    }

    /// Decoder's view of the `index`th frame.
    fn frame(&self, index: u64) -> Frame {
        let place = index % self.group();
        let need = match self.references {
            References::Previous => 1,
            References::Key => place,
        };
        Frame { picture: index, base: true, needs: [(place > 0).then(|| index - need), None] }
    }

    /// Mean size of a frame in bytes, such that a whole group has the bitrate of the video.
    pub fn frame_size(&self, key: bool) -> u64 {
        let group = self.group() as f64;
        let group_bytes = self.bitrate.bps() as f64 / 8.0 * group / f64::from(self.fps);
        let delta = group_bytes / (group - 1.0 + self.key_ratio);
        (if key { delta * self.key_ratio } else { delta }) as u64
    }
}

impl Kind for Video {
    fn kind(&self) -> &'static str {
        "video"
    }

    fn validate(&self) -> Checked {
        within("fps", self.fps, 1..=1_000)?;
        require(self.bitrate.bps() > 0, "bitrate", "0 is no video")?;
        require(self.keyframe_interval.micros() > 0, "keyframe_interval", "it must be above 0")?;
        within("key_ratio", self.key_ratio, 1.0..=100.0)?;
        priority("priority_key", self.priority_key)?;
        priority("priority_delta", self.priority_delta)?;
        largest("bitrate", "frame", (self.frame_size(true) as f64 * (1.0 + self.jitter.as_f64())) as u64)
    }

    fn classes(&self) -> Vec<Class> {
        self.reliable.key_and_delta([self.priority_key, self.priority_delta])
    }

    fn deadline(&self) -> Option<Span> {
        self.deadline
    }

    fn picture_us(&self) -> Option<u64> {
        Some(1_000_000 / u64::from(self.fps))
    }

    fn source(&self, rng: Pcg64Mcg, _length_us: u64) -> Box<dyn Source> {
        Box::new(Frames { video: self.clone(), classes: self.classes(), rng, next: 0 })
    }
}

#[derive(Debug)]
struct Frames {
    video: Video,
    classes: Vec<Class>,
    rng: Pcg64Mcg,
    next: u64,
}

impl Source for Frames {
    fn next(&mut self) -> Option<Offer> {
        let (video, index) = (&self.video, self.next);
        let at_us = index.checked_mul(1_000_000)? / u64::from(video.fps);
        self.next += 1;
        let key = index.is_multiple_of(video.group());
        let size = jittered(video.frame_size(key), video.jitter.as_f64(), &mut self.rng);
        let class = usize::from(!key);
        Some(Offer {
            deadline_us: video.deadline_us(),
            frame: Some(video.frame(index)),
            ..Offer::new(at_us, size, class as u16, &self.classes[class])
        })
    }
}
