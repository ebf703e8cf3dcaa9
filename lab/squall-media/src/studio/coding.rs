//! Encodings of films.

use std::{fmt, str::FromStr};

use super::rate::FrameRate;
use crate::ivf::IvfCodec;

/// Layers of the pictures of [`Coding::Svc`], repeated: 7.5, 15 and 30 of 30 pictures a second.
const LAYERS: [u8; 4] = [0, 2, 1, 2];

/// Seconds from one key frame to the next.
const KEY_SECONDS: f64 = 2.0;

/// Encoding of a film. All have a key frame exactly every two seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// H.264 by libx264: between two reference frames, one B frame that no other needs.
    H264,
    /// VP9 by libvpx: each frame needs the previous one.
    Vp9,
    /// VP9 by libvpx in three temporal layers, 0 2 1 2: no frame needs the highest layer.
    Svc,
}

impl Coding {
    /// All encodings.
    pub const ALL: [Self; 3] = [Self::H264, Self::Vp9, Self::Svc];

    /// Returns the number of layers, if there is more than one.
    #[must_use]
    pub fn layers(self) -> Option<u8> {
        (self == Self::Svc).then_some(3)
    }

    /// Returns ffmpeg's name for the encoder.
    pub(super) fn encoder(self) -> &'static str {
        match self {
            Self::H264 => "libx264",
            Self::Vp9 | Self::Svc => "libvpx-vp9",
        }
    }

    pub(super) fn container(self) -> IvfCodec {
        match self {
            Self::H264 => IvfCodec::H264,
            Self::Vp9 | Self::Svc => IvfCodec::Vp9,
        }
    }

    /// Returns the pictures from one key frame to the next; layers restart with each.
    pub(super) fn key_interval(self, rate: FrameRate) -> u64 {
        let step = if self == Self::Svc { LAYERS.len() as f64 } else { 1.0 };
        ((KEY_SECONDS * rate.fps() / step).round().max(1.0) * step) as u64
    }

    pub(super) fn layer(self, place: u64) -> u8 {
        match self {
            Self::Svc => LAYERS[(place % LAYERS.len() as u64) as usize],
            Self::H264 | Self::Vp9 => 0,
        }
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::H264 => "h264",
            Self::Vp9 => "vp9",
            Self::Svc => "svc",
        })
    }
}

impl FromStr for Coding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|coding| coding.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is none of h264, vp9, svc"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_begin_with_each_key_frame() {
        for rate in [FrameRate { rate: 25, scale: 1 }, FrameRate { rate: 30_000, scale: 1001 }] {
            let keys = Coding::Svc.key_interval(rate);
            assert_eq!(Coding::Svc.layer(keys), 0);
            assert!((keys as f64 / rate.fps() - KEY_SECONDS).abs() < 0.1);
        }
        assert_eq!(Coding::H264.key_interval(FrameRate { rate: 25, scale: 1 }), 50);
    }
}
