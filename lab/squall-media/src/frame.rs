//! A compressed frame and its place in the stream.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Maximum size of a compressed frame or NAL unit that any reader accepts: 16 MiB, the default
/// block limit.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// Consequence of the loss of a frame, the greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameKind {
    /// Decodable on its own; every later frame can be decoded from here (an IDR picture in H.264).
    Key,
    /// Needs earlier frames, and later frames need it.
    Delta,
    /// Needs earlier frames, but no other frame needs it: its loss affects one picture only.
    Disposable,
}

/// One compressed frame (H.264: one access unit in Annex B form; IVF codecs: one IVF frame's payload).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedFrame {
    /// Number of the frame in its stream, from 0, in decoding order.
    pub index: u64,
    /// Presentation time from the start of the stream, in microseconds.
    pub pts_us: u64,
    /// Dependence of other frames on this one.
    pub kind: FrameKind,
    /// The compressed bytes.
    pub data: Bytes,
}

/// Returns the time of frame `index` at `fps` frames per second, in microseconds, rounded to
/// nearest.
///
/// It is computed from the start of the stream, so that rounding errors do not accumulate.
#[must_use]
pub fn frame_time_us(index: u64, fps: f64) -> u64 {
    (index as f64 * 1e6 / fps).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_times_do_not_drift() {
        assert_eq!(frame_time_us(0, 30.0), 0);
        assert_eq!(frame_time_us(1, 30.0), 33_333);
        assert_eq!(frame_time_us(2, 30.0), 66_667);
        assert_eq!(frame_time_us(30 * 3600, 30.0), 3_600_000_000);
    }
}
