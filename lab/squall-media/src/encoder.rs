//! H.264 encoding with OpenH264.

use std::os::raw::c_int;

use bytes::Bytes;
use openh264::OpenH264API;
use openh264::Timestamp;
use openh264::encoder::{
    BitRate, Complexity, EncoderConfig as RawConfig, FrameRate, IntraFramePeriod, QpRange, RateControlMode,
    UsageType,
};
use openh264::formats::YUVSource;
use openh264_sys2::{
    ENCODER_OPTION_SVC_ENCODE_PARAM_EXT, ENCODER_OPTION_TRACE_LEVEL, SEncParamExt, WELS_LOG_QUIET,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::annexb;
use crate::frame::{EncodedFrame, frame_time_us};
use crate::picture::{Picture, SizeError, check_size};

/// Settings of an [`Encoder`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EncoderConfig {
    /// Width in pixels; even, at least 16. Default 1280.
    pub width: u32,
    /// Height in pixels; even, at least 16. Default 720.
    pub height: u32,
    /// Frames per second, 1 to 240. Default 30.
    pub fps: f64,
    /// Target rate in bits per second, 10 kbps to 200 Mbps. Default 8 Mbps. OpenH264 has a finest
    /// quantiser: small pictures cannot use every rate (the scene at 640x360 and 30 frames a second
    /// stays below 15 Mbps).
    pub bitrate_bps: u32,
    /// Distance between key frames, in frames, at least 1. Default 30.
    pub key_interval: u32,
    /// Makes every second frame after a key frame [disposable](crate::FrameKind) (two temporal layers), at some cost
    /// in quality; needs an even `key_interval`. Default false.
    pub disposable: bool,
    /// A fixed quantiser, 0 (finest) to 51, instead of `bitrate_bps`: constant quality, with sizes
    /// that depend on the pictures. Default none.
    pub quantiser: Option<u8>,
}

impl Default for EncoderConfig {
    fn default() -> Self {
        Self {
            width: 1280,
            height: 720,
            fps: 30.0,
            bitrate_bps: 8_000_000,
            key_interval: 30,
            disposable: false,
            quantiser: None,
        }
    }
}

/// Failure to create an encoder or to encode a picture.
#[derive(Debug, Error)]
pub enum EncodeError {
    /// The size is odd, zero or too large.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// A setting is outside its range.
    #[error("encoder setting {field} = {value}: must be {wanted}")]
    Setting {
        /// Name of the field of [`EncoderConfig`].
        field: &'static str,
        /// Given value.
        value: f64,
        /// Description of valid values.
        wanted: &'static str,
    },
    /// The picture does not have the configured size.
    #[error("picture of {got_width}x{got_height} given to an encoder for {width}x{height}")]
    WrongPicture {
        /// Width of the picture.
        got_width: u32,
        /// Height of the picture.
        got_height: u32,
        /// Width configured.
        width: u32,
        /// Height configured.
        height: u32,
    },
    /// OpenH264 failed.
    #[error("OpenH264 failed to encode frame {index} (code {code})")]
    Codec {
        /// Number of the frame.
        index: u64,
        /// OpenH264's error code.
        code: i64,
    },
    /// OpenH264 returned no bytes for a picture.
    #[error("OpenH264 gave no output for frame {index}")]
    Empty {
        /// Number of the frame.
        index: u64,
    },
}

impl EncoderConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// The name of the first field that is out of range.
    pub fn check(&self) -> Result<(), EncodeError> {
        check_size(self.width, self.height)?;
        let setting = |ok: bool, field, value: f64, wanted| {
            if ok { Ok(()) } else { Err(EncodeError::Setting { field, value, wanted }) }
        };
        setting(self.width >= 16, "width", self.width.into(), "at least 16")?;
        setting(self.height >= 16, "height", self.height.into(), "at least 16")?;
        // OpenH264's documented limit, in either orientation.
        let (long, short) = (self.width.max(self.height), self.width.min(self.height));
        setting(long <= 3840, "width or height", long.into(), "at most 3840")?;
        setting(short <= 2160, "width and height", short.into(), "at most 2160 on the shorter side")?;
        setting((1.0..=240.0).contains(&self.fps), "fps", self.fps, "from 1 to 240")?;
        let rate = self.bitrate_bps;
        setting((10_000..=200_000_000).contains(&rate), "bitrate_bps", rate.into(), "10 kbps to 200 Mbps")?;
        setting(self.key_interval >= 1, "key_interval", self.key_interval.into(), "at least 1")?;
        let quantiser = self.quantiser.unwrap_or(0);
        setting(quantiser <= 51, "quantiser", quantiser.into(), "from 0 to 51")?;
        let cadence = !self.disposable || self.key_interval.is_multiple_of(2);
        setting(cadence, "key_interval", self.key_interval.into(), "even with disposable frames")
    }
}

/// An H.264 encoder for one stream: key frames and delta frames, no reordering, one slice per
/// frame.
///
/// Every key frame has its parameter sets, so that decoding can begin at any of them.
pub struct Encoder {
    config: EncoderConfig,
    raw: openh264::encoder::Encoder,
    next_index: u64,
    since_key: u32,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder")
            .field("config", &self.config)
            .field("next_index", &self.next_index)
            .finish_non_exhaustive()
    }
}

impl Encoder {
    /// Creates an encoder; nothing is encoded yet.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(config: EncoderConfig) -> Result<Self, EncodeError> {
        config.check()?;
        let quantisers = config.quantiser.map_or(QpRange::default(), |only| QpRange::new(only, only));
        let raw_config = RawConfig::new()
            .qp(quantisers)
            .bitrate(BitRate::from_bps(config.bitrate_bps))
            .max_frame_rate(FrameRate::from_hz(config.fps as f32))
            .rate_control_mode(RateControlMode::Bitrate)
            .usage_type(UsageType::CameraVideoRealTime)
            .complexity(Complexity::Low)
            .intra_frame_period(IntraFramePeriod::from_num_frames(config.key_interval))
            // Both would change the frame pattern for which the transport is tested.
            .skip_frames(false)
            .scene_change_detect(false)
            .num_threads(1);
        let mut raw = openh264::encoder::Encoder::with_api_config(OpenH264API::from_source(), raw_config)
            .map_err(|error| EncodeError::Codec { index: 0, code: error.native_code() })?;
        silence(&mut raw);
        Ok(Self { config, raw, next_index: 0, since_key: 0 })
    }

    /// Returns the settings of the encoder.
    #[must_use]
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Encodes the next picture; `force_key` makes it a key frame and restarts the key interval.
    ///
    /// # Errors
    /// If the picture has another size, or OpenH264 fails.
    pub fn encode(&mut self, picture: &Picture, force_key: bool) -> Result<EncodedFrame, EncodeError> {
        let (width, height) = (self.config.width, self.config.height);
        if (picture.width, picture.height) != (width, height) {
            let (got_width, got_height) = (picture.width, picture.height);
            return Err(EncodeError::WrongPicture { got_width, got_height, width, height });
        }
        let index = self.next_index;
        if index > 0 && (force_key || self.since_key >= self.config.key_interval) {
            self.raw.force_intra_frame();
            self.since_key = 0;
        }
        let pts_us = frame_time_us(index, self.config.fps);
        if index == 0 && self.config.disposable {
            self.start_two_layers(picture)?;
        }
        let bits = self
            .raw
            .encode_at(&Planes(picture), Timestamp::from_millis(pts_us / 1000))
            .map_err(|error| EncodeError::Codec { index, code: error.native_code() })?;
        let data = Bytes::from(bits.to_vec());
        let kind = annexb::frame_kind(&data);
        if data.is_empty() {
            return Err(EncodeError::Empty { index });
        }
        self.next_index += 1;
        self.since_key += 1;
        Ok(EncodedFrame { index, pts_us, kind, data })
    }

    /// Enables two temporal layers. OpenH264 accepts that only after its start, and it starts with
    /// the first picture, so that picture is encoded twice.
    fn start_two_layers(&mut self, first: &Picture) -> Result<(), EncodeError> {
        let failed = |code| EncodeError::Codec { index: 0, code };
        self.raw.encode(&Planes(first)).map_err(|error| failed(error.native_code()))?;
        set_layers(&mut self.raw, 2).map_err(failed)?;
        self.raw.force_intra_frame();
        Ok(())
    }
}

#[expect(
    unsafe_code,
    reason = "the crate fixes the number of temporal layers at one, and offers no safe call"
)]
fn set_layers(raw: &mut openh264::encoder::Encoder, layers: c_int) -> Result<(), i64> {
    let mut params = SEncParamExt::default();
    // SAFETY: the encoder has been started; both options read or write one SEncParamExt through the pointer
    // during the call. The number of layers is the only field changed.
    unsafe {
        let api = raw.raw_api();
        let code = api.get_option(ENCODER_OPTION_SVC_ENCODE_PARAM_EXT, (&raw mut params).cast());
        if code != 0 {
            return Err(code.into());
        }
        params.iTemporalLayerNum = layers;
        let code = api.set_option(ENCODER_OPTION_SVC_ENCODE_PARAM_EXT, (&raw mut params).cast());
        if code != 0 {
            return Err(code.into());
        }
    }
    Ok(())
}

/// Keeps OpenH264 from writing to standard error: at its start it warns that the rate cannot be
/// held without skipping frames. In fact it is held within one per cent from 4 to 25 Mbps at 720p
/// and 1080p.
#[expect(unsafe_code, reason = "the crate sets the log level only after the start, and offers no safe call")]
fn silence(raw: &mut openh264::encoder::Encoder) {
    let mut level: c_int = WELS_LOG_QUIET;
    // SAFETY: this option may be set before the start, and reads one int through the pointer during
    // the call. Its result does not matter: a failure leaves the log on.
    unsafe {
        raw.raw_api().set_option(ENCODER_OPTION_TRACE_LEVEL, (&raw mut level).cast());
    }
}

/// A [`Picture`] in the form required by OpenH264.
struct Planes<'a>(&'a Picture);

impl YUVSource for Planes<'_> {
    fn dimensions(&self) -> (usize, usize) {
        (self.0.width as usize, self.0.height as usize)
    }

    fn strides(&self) -> (usize, usize, usize) {
        let width = self.0.width as usize;
        (width, width / 2, width / 2)
    }

    fn y(&self) -> &[u8] {
        &self.0.y
    }

    fn u(&self) -> &[u8] {
        &self.0.u
    }

    fn v(&self) -> &[u8] {
        &self.0.v
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoder::Decoder;
    use crate::frame::FrameKind;
    use crate::scene::{Scene, tests::read_index};

    fn small(bitrate_bps: u32, key_interval: u32) -> EncoderConfig {
        EncoderConfig { width: 320, height: 180, bitrate_bps, key_interval, ..Default::default() }
    }

    #[test]
    fn key_frames_come_on_time_and_on_demand() {
        let scene = Scene::new(320, 180, 1).unwrap();
        let mut encoder = Encoder::new(small(1_000_000, 10)).unwrap();
        let mut keys = Vec::new();
        for index in 0..30 {
            let frame = encoder.encode(&scene.render(index), index == 14).unwrap();
            assert_eq!((frame.index, frame.pts_us), (index, frame_time_us(index, 30.0)));
            if frame.kind == FrameKind::Key {
                keys.push(index);
            }
        }
        assert_eq!(keys, [0, 10, 14, 24]);
    }

    #[test]
    fn the_target_rate_is_reached() {
        let scene = Scene::new(320, 180, 1).unwrap();
        for target in [600_000, 1_200_000, 2_400_000] {
            let mut encoder = Encoder::new(small(target, 30)).unwrap();
            let bytes: usize =
                (0..60).map(|index| encoder.encode(&scene.render(index), false).unwrap().data.len()).sum();
            let reached = bytes as f64 * 8.0 / 2.0 / f64::from(target);
            assert!((0.9..1.1).contains(&reached), "{target} bps: {reached} of it");
        }
    }

    #[test]
    fn every_second_frame_can_be_disposable() {
        let scene = Scene::new(320, 180, 1).unwrap();
        let config = EncoderConfig { disposable: true, ..small(1_200_000, 10) };
        let mut encoder = Encoder::new(config).unwrap();
        let frames: Vec<_> =
            (0..60).map(|index| encoder.encode(&scene.render(index), false).unwrap()).collect();
        let letter = |frame: &EncodedFrame| match frame.kind {
            FrameKind::Key => 'K',
            FrameKind::Delta => '-',
            FrameKind::Disposable => 'd',
        };
        assert_eq!(frames.iter().map(letter).collect::<String>(), "Kd-d-d-d-d".repeat(6));
        let reached = frames.iter().map(|frame| frame.data.len()).sum::<usize>() as f64 * 4.0 / 1_200_000.0;
        assert!((0.85..1.15).contains(&reached), "{reached} of the target rate");

        let mut decoder = Decoder::new().unwrap();
        for frame in frames.iter().filter(|frame| frame.kind != FrameKind::Disposable) {
            let picture = decoder.decode(&frame.data).unwrap().unwrap();
            assert_eq!(read_index(&picture), Some(frame.index));
        }
    }

    #[test]
    fn a_finer_quantiser_makes_larger_frames_of_better_pictures() {
        let picture = Scene::new(160, 160, 1).unwrap().render(0);
        let results: Vec<(usize, f64)> = [10, 22, 34, 46]
            .into_iter()
            .map(|quantiser| {
                let config = EncoderConfig {
                    width: 160,
                    height: 160,
                    key_interval: 1,
                    quantiser: Some(quantiser),
                    ..Default::default()
                };
                let mut encoder = Encoder::new(config).unwrap();
                let frames = [0; 3].map(|_| encoder.encode(&picture, false).unwrap());
                assert!(frames.iter().all(|frame| frame.kind == FrameKind::Key));
                let decoded = Decoder::new().unwrap().decode(&frames[2].data).unwrap().unwrap();
                (frames[2].data.len(), crate::quality::likeness(&picture, &decoded).unwrap().psnr())
            })
            .collect();
        assert!(results.windows(2).all(|pair| pair[0].0 > pair[1].0 && pair[0].1 > pair[1].1), "{results:?}");
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let error = |config: EncoderConfig| Encoder::new(config).unwrap_err().to_string();
        assert_eq!(error(small(1, 30)), "encoder setting bitrate_bps = 1: must be 10 kbps to 200 Mbps");
        assert_eq!(error(small(1_000_000, 0)), "encoder setting key_interval = 0: must be at least 1");
        let config = EncoderConfig { fps: f64::NAN, ..Default::default() };
        assert_eq!(error(config), "encoder setting fps = NaN: must be from 1 to 240");
        let config = EncoderConfig { width: 33, ..Default::default() };
        assert!(error(config).starts_with("picture size 33x720"));
    }

    #[test]
    fn a_picture_of_another_size_is_refused() {
        let mut encoder = Encoder::new(small(1_000_000, 30)).unwrap();
        let error = encoder.encode(&Picture::new(64, 64).unwrap(), false).unwrap_err();
        assert_eq!(error.to_string(), "picture of 64x64 given to an encoder for 320x180");
    }
}
