//! Media for Squall: what is sent, and how good it looks when it arrives.
//!
//! The crate makes, reads, decodes and judges video frames. It has no networking and reads no clock:
//! every time is an argument, in microseconds.
//!
//! | to do this | use |
//! | --- | --- |
//! | draw a moving test scene | [`Scene`] |
//! | encode and decode H.264 | [`Encoder`], [`Decoder`] |
//! | send video without encoding while measuring | [`Clip`] |
//! | write the frames that arrived to a playable file | [`ivf::IvfWriter`] |
//! | judge what a viewer saw | [`Player`], [`LiveMeter`] |
//! | compare two pictures | [`quality`] |
//! | encode and decode any video with ffmpeg | [`studio`] |
//! | judge many viewings of one film | [`Film`], or [`Sphere`] for 360° video in tiles |
//!
//! A frame's way: [`Scene`] → [`Encoder`] → [`EncodedFrame`] → (network) → [`Player`] → [`PlayReport`],
//! and, when there is time for it, [`Player::quality`] → [`QualityReport`].
//!
//! ```
//! use squall_media::{Clip, ClipConfig, EncoderConfig, Player, PlayerConfig};
//!
//! let encoder = EncoderConfig { width: 160, height: 90, bitrate_bps: 300_000, ..Default::default() };
//! let clip = Clip::generate(ClipConfig { encoder, seed: 1 }, 1.0)?;
//! let mut player = Player::new(PlayerConfig::default())?;
//! for index in 0..60 {
//!     let frame = clip.frame(index);
//!     let captured_us = frame.pts_us;
//!     player.on_sent(index, captured_us, frame.kind);
//!     if index != 40 {
//!         player.on_frame(captured_us + 20_000, captured_us, frame); // 20 ms on the way
//!     }
//! }
//! let report = player.finish();
//! assert_eq!((report.frames.shown, report.frames.undecodable, report.stalls.count), (40, 19, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod annexb;
pub mod clip;
pub mod decoder;
pub mod encoder;
pub mod film;
pub mod frame;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod glyphs;
pub mod ivf;
pub mod live;
mod noise;
pub mod picture;
pub mod player;
pub mod quality;
pub mod scene;
pub mod sphere;
pub mod studio;

pub use clip::{Clip, ClipConfig};
pub use decoder::Decoder;
pub use encoder::{Encoder, EncoderConfig};
pub use film::Film;
pub use frame::{EncodedFrame, FrameKind};
pub use live::{LiveMeter, LiveReading};
pub use picture::Picture;
pub use player::{LatePolicy, PlayReport, Player, PlayerConfig, QualityReport};
pub use scene::Scene;
pub use sphere::{Sphere, SphereConfig};
