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
//! | read frames from a file | [`source::open`] |
//! | write what arrived to a playable file | [`annexb::AnnexBWriter`], [`ivf::IvfWriter`] |
//! | judge what a viewer saw | [`Player`], [`LiveMeter`] |
//! | compare two pictures | [`quality`] |
//!
//! A frame's way: [`Scene`] → [`Encoder`] → [`EncodedFrame`] → (network) → [`Player`] → [`PlayReport`],
//! and, when there is time for it, [`Player::quality`] → [`QualityReport`].

pub mod annexb;
pub mod clip;
pub mod decoder;
pub mod encoder;
pub mod ffmpeg;
pub mod frame;
mod glyphs;
pub mod ivf;
pub mod live;
mod noise;
pub mod picture;
pub mod player;
pub mod quality;
pub mod scene;
pub mod source;

pub use clip::{Clip, ClipConfig};
pub use decoder::Decoder;
pub use encoder::{Encoder, EncoderConfig};
pub use frame::{EncodedFrame, FrameKind};
pub use live::{LiveMeter, LiveReading};
pub use picture::Picture;
pub use player::{LatePolicy, PlayReport, Player, PlayerConfig, QualityReport};
pub use scene::Scene;
