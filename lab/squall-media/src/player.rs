//! What a viewer saw: playback of the frames that arrived, judged by their deadlines.
//!
//! # The player that is modelled
//!
//! Each frame has a *slot*: it is shown at its capture time plus the deadline, neither earlier nor later (a
//! jitter buffer of fixed length). In its slot a frame is shown when it and every frame it needs have
//! arrived; otherwise the picture before it stays, frozen. So the frame rate of what is shown measures
//! completeness in time, and the latency of frames is reported apart, from capture to arrival.
//!
//! A frame that arrives after its slot is *late* and never shown. By default it is still decoded, so that
//! later frames can refer to it, as conferencing software does ([`LatePolicy`]). A *missing* frame on which
//! others depend freezes the picture until the next key frame.
//!
//! Frames are numbered in decoding order, and shown in that order: streams with reordering (B frames) can be
//! sent and counted, but their pictures not compared.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::frame::{EncodedFrame, FrameKind};

mod judge;
mod playout;
mod report;

pub use judge::{QualityError, QualityReport, Spread};
pub use report::{FrameCounts, FrameRate, Latency, OfferedLatency, PlayReport, Stalls};

/// Frames that may be missing in a row before a frame number is taken for nonsense.
pub const MAX_INDEX_GAP: u64 = 100_000;
/// Frames between the lowest and the highest number, at most: 38 hours at 30 frames a second.
pub const MAX_INDEX_SPAN: u64 = 1 << 22;

/// What becomes of a frame that arrives after its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LatePolicy {
    /// It is decoded and not shown: the frames after it can still be. The default.
    #[default]
    Decode,
    /// It is thrown away: a late reference frame costs all pictures up to the next key frame.
    Drop,
}

/// How a [`Player`] plays and judges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlayerConfig {
    /// Frames per second of the stream, 0.1 to 1000. Default 30.
    pub fps: f64,
    /// Time from a frame's capture to its slot, in microseconds. Default 150 000.
    pub deadline_us: u64,
    /// What becomes of late frames.
    pub late: LatePolicy,
    /// A second with fewer pictures than this counts as a slow one. Default 24.
    pub low_fps: u32,
    /// How many bytes of frames to keep for [`Player::quality`]. Default 512 MiB; 0 keeps none.
    pub keep_bytes: u64,
}

impl Default for PlayerConfig {
    fn default() -> Self {
        Self { fps: 30.0, deadline_us: 150_000, late: LatePolicy::Decode, low_fps: 24, keep_bytes: 512 << 20 }
    }
}

impl PlayerConfig {
    /// Nominal time between two frames, in microseconds.
    #[must_use]
    pub fn interval_us(&self) -> u64 {
        (1e6 / self.fps).round() as u64
    }

    /// A stall begins when no new picture was shown for longer than this: three frame intervals, at least
    /// 100 ms.
    #[must_use]
    pub fn stall_after_us(&self) -> u64 {
        (self.interval_us() * 3).max(100_000)
    }
}

/// A frame rate that cannot be played.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("player setting fps = {fps}: must be from 0.1 to 1000")]
pub struct PlayerConfigError {
    /// The frame rate asked for.
    pub fps: f64,
}

/// What [`Player::on_frame`] made of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Before its slot.
    InTime,
    /// After its slot.
    Late,
    /// It was there already; the first arrival counts.
    Duplicate,
    /// Its number is more than [`MAX_INDEX_GAP`] away from all others, or too far from the first
    /// ([`MAX_INDEX_SPAN`]); it is not counted at all.
    OutOfRange,
}

/// The receiving side of a stream, without clock and without output: it gets frames with their arrival times.
#[derive(Debug)]
pub struct Player {
    config: PlayerConfig,
    frames: BTreeMap<u64, Frame>,
    kept_bytes: u64,
}

/// What is known of one frame.
#[derive(Clone, Debug)]
struct Frame {
    captured_us: u64,
    kind: FrameKind,
    arrived_us: Option<u64>,
    /// Absent also when the limit for keeping was reached.
    data: Option<Bytes>,
}

impl Player {
    /// A player before its first frame.
    ///
    /// # Errors
    /// When the frame rate is out of range.
    pub fn new(config: PlayerConfig) -> Result<Self, PlayerConfigError> {
        if !(0.1..=1000.0).contains(&config.fps) {
            return Err(PlayerConfigError { fps: config.fps });
        }
        Ok(Self { config, frames: BTreeMap::new(), kept_bytes: 0 })
    }

    /// What the player was made with.
    #[must_use]
    pub fn config(&self) -> &PlayerConfig {
        &self.config
    }

    /// Records a frame that was sent, whether it arrives or not. Optional, and possible at any time.
    ///
    /// Without it the frames sent are taken to be those from the lowest to the highest number that arrived,
    /// the missing ones among them captured at the nominal rate and needed by others.
    pub fn on_sent(&mut self, index: u64, captured_at_us: u64, kind: FrameKind) {
        if self.is_near(index) {
            let frame = Frame { captured_us: captured_at_us, kind, arrived_us: None, data: None };
            self.frames.entry(index).or_insert(frame);
        }
    }

    /// Takes a complete frame. Both times are on one timeline: the caller maps the sender's clock.
    pub fn on_frame(&mut self, arrived_at_us: u64, captured_at_us: u64, frame: EncodedFrame) -> Arrival {
        let EncodedFrame { index, kind, data, .. } = frame;
        if !self.is_near(index) {
            return Arrival::OutOfRange;
        }
        if self.frames.get(&index).is_some_and(|known| known.arrived_us.is_some()) {
            return Arrival::Duplicate;
        }
        let kept = self.kept_bytes.saturating_add(data.len() as u64);
        let keep = kept <= self.config.keep_bytes;
        if keep {
            self.kept_bytes = kept;
        }
        let (arrived_us, data) = (Some(arrived_at_us), keep.then_some(data));
        self.frames.insert(index, Frame { captured_us: captured_at_us, kind, arrived_us, data });
        let due = captured_at_us.saturating_add(self.config.deadline_us);
        if arrived_at_us <= due { Arrival::InTime } else { Arrival::Late }
    }

    /// Judges everything so far. Cheap: which frames can be decoded follows from which ones others need;
    /// nothing is decoded.
    #[must_use]
    pub fn finish(&self) -> PlayReport {
        report::report(&self.config, &playout::play(&self.config, &self.frames))
    }

    fn is_near(&self, index: u64) -> bool {
        let Some((&first, _)) = self.frames.first_key_value() else { return true };
        let Some((&last, _)) = self.frames.last_key_value() else { return true };
        let near = first.saturating_sub(MAX_INDEX_GAP)..=last.saturating_add(MAX_INDEX_GAP);
        near.contains(&index) && last.max(index) - first.min(index) <= MAX_INDEX_SPAN
    }
}

#[cfg(test)]
mod tests;
