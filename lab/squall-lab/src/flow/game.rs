//! Cloud gaming: frames whose size follows what the session can carry.

use super::{Class, Kind, ReliableFrames};

/// The stream of a game that is rendered elsewhere (AUGUR, NSDI 2024, §2.1): an encoder without lookahead makes a
/// frame at each tick, as large as its share of what the session can carry at that moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Game {
    /// Frames per second.
    pub fps: u32,
    /// The encoder never makes less, in bits per second.
    pub bitrate_min_bps: u64,
    /// The encoder never makes more, in bits per second.
    pub bitrate_max_bps: u64,
    /// The forecast that the encoder follows.
    pub follow: Follow,
    /// Part of the allowed rate that the encoder uses, above 0 and at most 1.
    pub share: f64,
    /// Frames from one key frame to the next, at least 1. None: only the first is one, and those that repair a loss.
    pub group: Option<u64>,
    /// Size of a key frame relative to the mean. The frames after it make up for it, each by up to half of its own size.
    pub key_ratio: f64,
    /// Sizes vary uniformly by up to this share in both directions, 0 to 1.
    pub size_jitter: f64,
    /// Deadline in microseconds after a frame is offered: what is later is a stall.
    pub deadline_us: u64,
    /// Priority of key frames, 0 first.
    pub priority_key: u8,
    /// Priority of delta frames, 0 first.
    pub priority_delta: u8,
    /// Which frames are reliable.
    pub reliable: ReliableFrames,
}

/// A forecast of a session that an encoder can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// What its paths carry at present, headers included: [`Capacity::link`](squall_proto::Capacity::link).
    Link,
    /// What it carries in nine seconds of ten: [`Capacity::safe`](squall_proto::Capacity::safe). And no frame is larger than
    /// what [arrives](squall_proto::Session::deliverable) with the same probability within a time.
    Safe {
        /// That time, in microseconds.
        within_us: u64,
    },
}

/// A share as millionths, to reckon with integers: the same sizes on every machine.
const ONE: u64 = 1_000_000;

impl Game {
    /// What the encoder makes when the session allows `allowed_bps`, in bits per second.
    pub fn bitrate_bps(&self, allowed_bps: u64) -> u64 {
        let share = (self.share * ONE as f64) as u128;
        let bps = (u128::from(allowed_bps) * share / u128::from(ONE)) as u64;
        bps.clamp(self.bitrate_min_bps, self.bitrate_max_bps)
    }

    /// Mean size of a frame in bytes at this bitrate, at least 1.
    pub fn frame_size(&self, bitrate_bps: u64) -> u64 {
        (bitrate_bps / (8 * u64::from(self.fps))).max(1)
    }

    /// Size of a key frame in bytes at this bitrate.
    pub fn key_size(&self, bitrate_bps: u64) -> u64 {
        (self.frame_size(bitrate_bps) as f64 * self.key_ratio) as u64
    }

    /// Largest frame in bytes.
    pub fn largest_frame(&self) -> u64 {
        (self.key_size(self.bitrate_max_bps) as f64 * (1.0 + self.size_jitter)) as u64
    }
}

impl Kind for Game {
    fn name(&self) -> &'static str {
        "game"
    }

    fn classes(&self) -> Vec<Class> {
        let class = |name, key, priority| Class::new(name, self.reliable.covers(key), priority);
        vec![class("key", true, self.priority_key), class("delta", false, self.priority_delta)]
    }

    fn deadline_us(&self) -> Option<u64> {
        Some(self.deadline_us)
    }

    fn picture_us(&self) -> Option<u64> {
        Some(1_000_000 / u64::from(self.fps))
    }

    fn follows(&self) -> Option<Follow> {
        Some(self.follow)
    }
}
