//! Media for Squall: test content, and its quality on arrival.
//!
//! The crate generates, reads, decodes and evaluates video frames. It has no networking and reads
//! no clock: every time is an argument, in microseconds.
//!
//! | to do this | use |
//! | --- | --- |
//! | draw a moving test scene | [`Scene`] |
//! | encode and decode H.264 | [`Encoder`], [`Decoder`] |
//! | send video without encoding while measuring | [`Clip`] |
//! | write the frames that arrived to a playable file | [`ivf::IvfWriter`] |
//! | compare two pictures | [`quality`] |
//! | encode and decode any video with ffmpeg | [`studio`] |
//! | judge many viewings of one film | [`Film`], or [`Sphere`] for 360° video in tiles |
//!
//! ```
//! use squall_media::{Decoder, Encoder, EncoderConfig, Scene, quality::likeness};
//!
//! let scene = Scene::new(160, 90, 1)?;
//! let mut encoder = Encoder::new(EncoderConfig { width: 160, height: 90, ..Default::default() })?;
//! let mut decoder = Decoder::new()?;
//! for index in 0..10 {
//!     let picture = scene.render(index);
//!     let frame = encoder.encode(&picture, false)?;
//!     let shown = decoder.decode(&frame.data)?.expect("a picture for each frame");
//!     assert!(likeness(&picture, &shown)?.psnr() > 30.0);
//! }
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
mod noise;
pub mod picture;
pub mod quality;
pub mod scene;
pub mod sphere;
pub mod studio;

pub use clip::{Clip, ClipConfig};
pub use decoder::Decoder;
pub use encoder::{Encoder, EncoderConfig};
pub use film::Film;
pub use frame::{EncodedFrame, FrameKind};
pub use picture::Picture;
pub use scene::Scene;
pub use sphere::{Sphere, SphereConfig};
