//! A clip encoded in advance, so that a session spends its CPU on the network instead of encoding.

use serde::{Deserialize, Serialize};

use crate::encoder::{EncodeError, Encoder, EncoderConfig};
use crate::frame::{EncodedFrame, frame_time_us};
use crate::picture::Picture;
use crate::scene::Scene;

/// Content and encoding of a [`Clip`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClipConfig {
    /// Settings of the encoder.
    pub encoder: EncoderConfig,
    /// Seed of the [`Scene`]. Default 0.
    pub seed: u64,
}

/// Encoded frames of a generated scene, in memory, repeated endlessly.
///
/// The first frame is a key frame, so that the sequence can restart after the last. Source pictures
/// are not kept; [`Clip::source_picture`] draws them again.
#[derive(Debug)]
pub struct Clip {
    config: ClipConfig,
    frames: Vec<EncodedFrame>,
    scene: Scene,
}

impl Clip {
    /// Draws and encodes `seconds` of the scene (at least one frame).
    ///
    /// # Errors
    /// If a setting is out of range, or the encoder fails.
    pub fn generate(config: ClipConfig, seconds: f64) -> Result<Self, EncodeError> {
        Self::generate_with(config, seconds, |_, _| {})
    }

    /// As [`Clip::generate`], with a call of `progress` after each frame with the numbers of
    /// finished and of all frames.
    ///
    /// # Errors
    /// If a setting is out of range, or the encoder fails.
    pub fn generate_with(
        config: ClipConfig,
        seconds: f64,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Self, EncodeError> {
        let mut encoder = Encoder::new(config.encoder.clone())?;
        let scene = Scene::new(config.encoder.width, config.encoder.height, config.seed)?;
        let total = ((seconds * config.encoder.fps).round() as u64).max(1);
        let mut frames = Vec::new();
        for index in 0..total {
            frames.push(encoder.encode(&scene.render(index), false)?);
            progress(index + 1, total);
        }
        Ok(Self { config, frames, scene })
    }

    /// Returns the configuration of the clip.
    #[must_use]
    pub fn config(&self) -> &ClipConfig {
        &self.config
    }

    /// Returns the frames of one round.
    #[must_use]
    pub fn frames(&self) -> &[EncodedFrame] {
        &self.frames
    }

    /// Returns frame `index` of the endless sequence, with its own index and time; the bytes are
    /// shared.
    #[must_use]
    pub fn frame(&self, index: u64) -> EncodedFrame {
        let frame = &self.frames[self.place(index)];
        EncodedFrame { index, pts_us: frame_time_us(index, self.config.encoder.fps), ..frame.clone() }
    }

    /// Returns the picture from which frame `index` was encoded.
    #[must_use]
    pub fn source_picture(&self, index: u64) -> Picture {
        self.scene.render(self.place(index) as u64)
    }

    /// Returns the mean rate of one round, in bits per second.
    #[must_use]
    pub fn bitrate_bps(&self) -> f64 {
        let bytes: usize = self.frames.iter().map(|frame| frame.data.len()).sum();
        bytes as f64 * 8.0 * self.config.encoder.fps / self.frames.len() as f64
    }

    fn place(&self, index: u64) -> usize {
        (index % self.frames.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameKind;

    #[test]
    fn a_clip_repeats_from_its_key_frame() {
        let encoder = EncoderConfig {
            width: 160,
            height: 90,
            bitrate_bps: 400_000,
            key_interval: 5,
            ..Default::default()
        };
        let mut steps = Vec::new();
        let clip =
            Clip::generate_with(ClipConfig { encoder, seed: 1 }, 0.4, |done, of| steps.push((done, of)));
        let clip = clip.unwrap();
        assert_eq!((steps.first(), steps.last()), (Some(&(1, 12)), Some(&(12, 12))));
        assert_eq!(clip.frames().len(), 12);

        let again = clip.frame(24);
        assert_eq!((again.index, again.pts_us, again.kind), (24, 800_000, FrameKind::Key));
        assert_eq!(again.data, clip.frames()[0].data);
        assert_eq!(clip.source_picture(13), clip.source_picture(1));
        assert!((300_000.0..500_000.0).contains(&clip.bitrate_bps()), "{}", clip.bitrate_bps());
    }
}
