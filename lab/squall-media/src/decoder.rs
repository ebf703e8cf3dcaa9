//! H.264 decoding with OpenH264.

use openh264::formats::YUVSource;
use thiserror::Error;

use crate::frame::MAX_FRAME_BYTES;
use crate::picture::{Picture, SizeError};

/// Failure to decode a frame.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// The frame is damaged, or a frame that it needs is missing.
    #[error("frame cannot be decoded: it is damaged or refers to a missing frame (OpenH264 code {code})")]
    Undecodable {
        /// OpenH264's error code.
        code: i64,
    },
    /// The frame exceeds [`MAX_FRAME_BYTES`].
    #[error("frame of {bytes} bytes is above the limit of {MAX_FRAME_BYTES}")]
    TooLarge {
        /// Size of the frame.
        bytes: usize,
    },
    /// The stream has a picture size that is not supported.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// OpenH264 could not be started.
    #[error("OpenH264 decoder cannot start (code {code})")]
    Start {
        /// OpenH264's error code.
        code: i64,
    },
}

/// An H.264 decoder for one stream, which receives one access unit at a time. Each returns its
/// picture at once: streams whose display order differs from the decoding order (B frames) are not
/// supported, and cause errors.
///
/// **Missing frames.** Error concealment is off. After a lost reference frame OpenH264 therefore
/// rejects the following frames (an error, no picture) until the next key frame, instead of
/// decoding with wrong references. The last good picture stays on the screen, frozen: the usual
/// behaviour of conferencing software, and the assumption of [`Film`](crate::Film).
pub struct Decoder {
    raw: openh264::decoder::Decoder,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

impl Decoder {
    /// Starts a decoder; it needs a key frame first.
    ///
    /// # Errors
    /// If OpenH264 cannot start.
    pub fn new() -> Result<Self, DecodeError> {
        let raw = openh264::decoder::Decoder::new()
            .map_err(|error| DecodeError::Start { code: error.native_code() })?;
        Ok(Self { raw })
    }

    /// Decodes one access unit in Annex B form. `None` if it was accepted but contains no picture
    /// (for instance parameter sets alone).
    ///
    /// # Errors
    /// If the frame is damaged or too large or needs a missing frame. The decoder remains usable:
    /// it resumes at the next key frame.
    pub fn decode(&mut self, data: &[u8]) -> Result<Option<Picture>, DecodeError> {
        if data.len() > MAX_FRAME_BYTES {
            return Err(DecodeError::TooLarge { bytes: data.len() });
        }
        if data.is_empty() {
            return Ok(None);
        }
        let decoded =
            self.raw.decode(data).map_err(|error| DecodeError::Undecodable { code: error.native_code() })?;
        decoded.map(|yuv| copy(&yuv)).transpose()
    }
}

fn copy(yuv: &openh264::decoder::DecodedYUV<'_>) -> Result<Picture, DecodeError> {
    let (width, height) = yuv.dimensions();
    let side = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let mut picture = Picture::new(side(width), side(height))?;
    let (stride_y, stride_u, stride_v) = yuv.strides();
    copy_plane(&mut picture.y, width, yuv.y(), stride_y);
    copy_plane(&mut picture.u, width / 2, yuv.u(), stride_u);
    copy_plane(&mut picture.v, width / 2, yuv.v(), stride_v);
    Ok(picture)
}

fn copy_plane(to: &mut [u8], width: usize, from: &[u8], stride: usize) {
    for (to, from) in to.chunks_exact_mut(width).zip(from.chunks(stride)) {
        to.copy_from_slice(&from[..width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::{Clip, ClipConfig};
    use crate::encoder::EncoderConfig;
    use crate::quality::likeness;
    use crate::scene::tests::read_index;

    fn clip() -> Clip {
        let encoder = EncoderConfig {
            width: 320,
            height: 180,
            bitrate_bps: 1_500_000,
            key_interval: 10,
            ..Default::default()
        };
        Clip::generate(ClipConfig { encoder, seed: 3 }, 1.0).unwrap()
    }

    #[test]
    fn what_was_encoded_comes_back() {
        let (clip, mut decoder) = (clip(), Decoder::new().unwrap());
        // Two rounds, so that the transition of the loop is decoded too.
        for index in 0..60 {
            let picture = decoder.decode(&clip.frame(index).data).unwrap().unwrap();
            assert_eq!(read_index(&picture), Some(index % 30));
            let psnr = likeness(&clip.source_picture(index), &picture).unwrap().psnr();
            assert!(psnr > 30.0, "frame {index}: {psnr}");
        }
    }

    #[test]
    fn after_a_lost_frame_nothing_decodes_until_the_next_key() {
        for lost in [0, 3, 9, 12] {
            let (clip, mut decoder) = (clip(), Decoder::new().unwrap());
            let mut shown = Vec::new();
            for index in (0..30).filter(|&index| index != lost) {
                if let Ok(Some(picture)) = decoder.decode(&clip.frame(index).data) {
                    assert_eq!(read_index(&picture), Some(index));
                    shown.push(index);
                }
            }
            let resumes = (lost / 10 + 1) * 10;
            let expected: Vec<u64> = (0..30).filter(|&index| index < lost || index >= resumes).collect();
            assert_eq!(shown, expected, "frame {lost} lost");
        }
    }

    #[test]
    fn rubbish_is_an_error_or_nothing() {
        let (clip, mut decoder) = (clip(), Decoder::new().unwrap());
        assert!(!matches!(decoder.decode(&[0, 0, 0, 1, 0x65, 1, 2, 3]), Ok(Some(_))));
        assert!(!matches!(decoder.decode(&[7; 500]), Ok(Some(_))));
        assert!(matches!(decoder.decode(&[]), Ok(None)));
        let cut = &clip.frame(0).data;
        assert!(!matches!(decoder.decode(&cut[..cut.len() / 2]), Ok(Some(_))), "half a key frame");
        assert!(decoder.decode(&clip.frame(10).data).unwrap().is_some());
    }
}
