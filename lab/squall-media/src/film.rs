//! A film that is encoded and decoded once, and then judged for any number of viewers.
//!
//! What a viewer sees in a slot is one of the film's own decoded pictures, or nothing yet: a decoder that conceals
//! nothing gives for a frame either the picture that it gives when nothing is missing, bit by bit, or none (see
//! [`Decoder`]). So each frame is decoded as it came from the encoder, each pair of a picture that was shown and one that should
//! have been is compared once, and both are remembered.

use std::collections::BTreeMap;
use std::sync::Mutex;

use thiserror::Error;

use crate::clip::{Clip, ClipConfig};
use crate::decoder::{DecodeError, Decoder};
use crate::encoder::EncodeError;
use crate::frame::{EncodedFrame, FrameKind};
use crate::picture::Picture;
use crate::quality::{Likeness, likeness};

/// Why a film could not be made.
#[derive(Debug, Error)]
pub enum FilmError {
    /// It cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// What was encoded cannot be decoded.
    #[error("frame {index}: {source}")]
    Decode {
        /// Which frame.
        index: u64,
        /// What the decoder said.
        source: DecodeError,
    },
    /// The decoder gave no picture for a frame.
    #[error("frame {index}: the decoder gave no picture")]
    NoPicture {
        /// Which frame.
        index: u64,
    },
}

/// A [`Clip`] with what its viewers see.
#[derive(Debug)]
pub struct Film {
    clip: Clip,
    /// By the picture shown, none if that is black, and the one that should have been.
    known: Mutex<BTreeMap<(Option<u64>, u64), Likeness>>,
}

impl Film {
    /// Draws, encodes, decodes and compares `seconds` of the scene (at least one frame).
    ///
    /// # Errors
    /// When a setting is out of range, or the codec fails.
    pub fn make(config: ClipConfig, seconds: f64) -> Result<Self, FilmError> {
        let film = Self { clip: Clip::generate(config, seconds)?, known: Mutex::default() };
        let all: Vec<_> = (0..film.frames().len() as u64).map(|index| (Some(index), index)).collect();
        film.compare(&all)?;
        Ok(film)
    }

    /// The frames of one round, which are repeated endlessly.
    #[must_use]
    pub fn frames(&self) -> &[EncodedFrame] {
        self.clip.frames()
    }

    /// Mean rate of one round, in bits per second.
    #[must_use]
    pub fn bitrate_bps(&self) -> f64 {
        self.clip.bitrate_bps()
    }

    /// How well the pictures that were shown stand for those that should have been: in slot `n` of the endless film the
    /// frame that is the `n`th of `shown`, or black.
    ///
    /// The first time that a picture stands in the place of another one takes some milliseconds.
    #[must_use]
    pub fn judge(&self, shown: &[Option<u64>]) -> Vec<Likeness> {
        let length = self.frames().len() as u64;
        let round = |(slot, shown): (u64, &Option<u64>)| (shown.map(|shown| shown % length), slot % length);
        let pairs: Vec<_> = (0..).zip(shown).map(round).collect();
        self.compare(&pairs).expect("every frame was decoded when the film was made");
        let known = self.known();
        pairs.iter().map(|pair| known[pair]).collect()
    }

    /// Sees to it that these pairs are known.
    fn compare(&self, pairs: &[(Option<u64>, u64)]) -> Result<(), FilmError> {
        let missing: BTreeMap<Option<u64>, Vec<u64>> = {
            let known = self.known();
            let mut missing: BTreeMap<_, Vec<u64>> = BTreeMap::new();
            for &(shown, slot) in pairs.iter().filter(|pair| !known.contains_key(*pair)) {
                missing.entry(shown).or_default().push(slot);
            }
            missing
        };
        let mut screening = Screening::new(self.frames())?;
        for (shown, mut slots) in missing {
            slots.sort_unstable();
            slots.dedup();
            let black = self.clip.source_picture(0).black();
            let picture = shown.map_or(Ok(&black), |shown| screening.picture(shown))?;
            let compared = slots.into_iter().map(|slot| {
                let likeness = likeness(&self.clip.source_picture(slot), picture);
                ((shown, slot), likeness.expect("the decoder gives pictures of the size that was encoded"))
            });
            let compared: Vec<_> = compared.collect();
            self.known().extend(compared);
        }
        Ok(())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Option<u64>, u64), Likeness>> {
        self.known.lock().expect("no holder panics")
    }
}

/// Decodes frames from the key frame before each on.
struct Screening<'a> {
    frames: &'a [EncodedFrame],
    decoder: Decoder,
    /// The frame that was decoded last, and its picture.
    last: Option<(u64, Picture)>,
}

impl<'a> Screening<'a> {
    fn new(frames: &'a [EncodedFrame]) -> Result<Self, FilmError> {
        let decoder = Decoder::new().map_err(|source| FilmError::Decode { index: 0, source })?;
        Ok(Self { frames, decoder, last: None })
    }

    fn picture(&mut self, index: u64) -> Result<&Picture, FilmError> {
        let up_to = &self.frames[..=index as usize];
        let key = up_to.iter().rposition(|frame| frame.kind == FrameKind::Key).unwrap_or(0) as u64;
        let next =
            self.last.as_ref().map(|(last, _)| last + 1).filter(|next| (key..=index + 1).contains(next));
        for index in next.unwrap_or(key)..=index {
            let decoded = self.decoder.decode(&self.frames[index as usize].data);
            let picture = decoded.map_err(|source| FilmError::Decode { index, source })?;
            self.last = Some((index, picture.ok_or(FilmError::NoPicture { index })?));
        }
        self.last.as_ref().map(|(_, picture)| picture).ok_or(FilmError::NoPicture { index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::EncoderConfig;
    use crate::noise::unit;

    fn config(disposable: bool) -> ClipConfig {
        let encoder = EncoderConfig {
            width: 160,
            height: 90,
            bitrate_bps: 600_000,
            key_interval: 10,
            disposable,
            ..Default::default()
        };
        ClipConfig { encoder, seed: 4 }
    }

    #[test]
    fn perfect_delivery_is_the_decoded_film() {
        let film = Film::make(config(false), 1.0).unwrap();
        let (scene, mut decoder) = (crate::Scene::new(160, 90, 4).unwrap(), Decoder::new().unwrap());
        let shown: Vec<_> = (0..60).map(Some).collect();
        for (index, seen) in film.judge(&shown).into_iter().enumerate() {
            let data = &film.frames()[index % 30].data;
            let picture = decoder.decode(data).unwrap().unwrap();
            assert_eq!(seen, likeness(&scene.render(index as u64 % 30), &picture).unwrap(), "{index}");
            assert!(seen.psnr() > 28.0 && seen.ssim > 0.8, "{index}: {seen:?}");
        }
    }

    #[test]
    fn what_a_decoder_makes_of_a_damaged_film_is_what_is_judged() {
        for (disposable, seed) in [(false, 1), (false, 2), (true, 3), (true, 4)] {
            let film = Film::make(config(disposable), 1.0).unwrap();
            let (scene, mut decoder) = (crate::Scene::new(160, 90, 4).unwrap(), Decoder::new().unwrap());
            // As it is really decoded, with whatever is missing.
            let mut screen: Option<(u64, Picture)> = None;
            let mut shown = Vec::new();
            let mut seen = Vec::new();
            for (index, frame) in film.frames().iter().enumerate() {
                if unit(seed, index as u64, 0) > 0.15
                    && let Ok(Some(picture)) = decoder.decode(&frame.data)
                {
                    screen = Some((index as u64, picture));
                }
                shown.push(screen.as_ref().map(|(index, _)| *index));
                let source = scene.render(index as u64);
                let black = source.black();
                let picture = screen.as_ref().map_or(&black, |(_, picture)| picture);
                seen.push(likeness(&source, picture).unwrap());
            }
            assert!(shown.windows(2).any(|pair| pair[0] == pair[1]), "nothing froze: {shown:?}");
            assert_eq!(film.judge(&shown), seen);
        }
    }

    #[test]
    fn a_freeze_costs_quality() {
        let film = Film::make(config(false), 1.0).unwrap();
        let still: Vec<_> = (0..20).map(|slot| Some(slot.min(10))).collect();
        let psnr: Vec<f64> = film.judge(&still).iter().map(Likeness::psnr).collect();
        assert!(psnr[11] < psnr[10] - 5.0, "{psnr:?}");
        let black = film.judge(&[None])[0];
        assert!(black.psnr() < 12.0, "{black:?}");
    }
}
