//! A film that is encoded once, and then evaluated for any number of viewers.
//!
//! The picture that a viewer sees in a slot is one of the film's own decoded pictures, or none:
//! without concealment, a decoder returns for a frame either the same picture as without losses,
//! bit by bit, or none (see [`Decoder`]). Each frame is therefore decoded from the encoder's
//! output, each pair of a shown and an expected picture is compared once, and both results are
//! stored.

use std::collections::BTreeMap;
use std::sync::Mutex;

use thiserror::Error;

use crate::clip::{Clip, ClipConfig};
use crate::decoder::{DecodeError, Decoder};
use crate::encoder::EncodeError;
use crate::frame::{EncodedFrame, FrameKind};
use crate::picture::Picture;
use crate::quality::{Likeness, likeness};

/// Failure to generate a film.
#[derive(Debug, Error)]
pub enum FilmError {
    /// The film cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// An encoded frame cannot be decoded.
    #[error("frame {index}: {source}")]
    Decode {
        /// Number of the frame.
        index: u64,
        /// The decoder's error.
        source: DecodeError,
    },
    /// The decoder returned no picture for a frame.
    #[error("frame {index}: the decoder gave no picture")]
    NoPicture {
        /// Number of the frame.
        index: u64,
    },
}

/// A [`Clip`] with the pictures that its viewers see.
#[derive(Debug)]
pub struct Film {
    clip: Clip,
    /// Results by the picture shown (`None` if black) and the expected one.
    known: Mutex<BTreeMap<Shown, Likeness>>,
    /// Held by the comparing thread, so that no pair is compared twice.
    comparing: Mutex<()>,
}

/// The frame whose picture is shown in a slot (`None` if black), and the slot.
pub type Shown = (Option<u64>, u64);

impl Film {
    /// Draws and encodes `seconds` of the scene (at least one frame).
    ///
    /// # Errors
    /// If a setting is out of range, or the codec fails.
    pub fn make(config: ClipConfig, seconds: f64) -> Result<Self, FilmError> {
        Self::make_with(config, seconds, |_, _| {})
    }

    /// As [`Self::make`], with a call of `progress` after each frame with the numbers of finished
    /// and of all frames.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub fn make_with(
        config: ClipConfig,
        seconds: f64,
        progress: impl FnMut(u64, u64),
    ) -> Result<Self, FilmError> {
        let clip = Clip::generate_with(config, seconds, progress)?;
        Ok(Self { clip, known: Mutex::default(), comparing: Mutex::default() })
    }

    /// Returns the frames of one round, which are repeated endlessly.
    #[must_use]
    pub fn frames(&self) -> &[EncodedFrame] {
        self.clip.frames()
    }

    /// Returns the mean rate of one round, in bits per second.
    #[must_use]
    pub fn bitrate_bps(&self) -> f64 {
        self.clip.bitrate_bps()
    }

    /// Compares the shown pictures with the expected ones, in the order of `shown`. Frames and
    /// slots count from the beginning of the endless film.
    ///
    /// The first comparison of each pair takes some milliseconds.
    ///
    /// # Errors
    /// If the decoder rejects the encoder's output.
    pub fn judge(&self, shown: impl IntoIterator<Item = Shown>) -> Result<Vec<Likeness>, FilmError> {
        let length = self.frames().len() as u64;
        let round = |(shown, slot): Shown| (shown.map(|shown| shown % length), slot % length);
        let pairs: Vec<Shown> = shown.into_iter().map(round).collect();
        self.compare(&pairs)?;
        let known = self.known();
        Ok(pairs.iter().map(|pair| known[pair]).collect())
    }

    /// Compares the pairs without a stored result.
    fn compare(&self, pairs: &[Shown]) -> Result<(), FilmError> {
        let _comparing = self.comparing.lock().expect("no holder panics");
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

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<Shown, Likeness>> {
        self.known.lock().expect("no holder panics")
    }
}

/// Decodes frames, each time starting at the preceding key frame.
struct Screening<'a> {
    frames: &'a [EncodedFrame],
    decoder: Decoder,
    /// The last decoded frame, and its picture.
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
        let seen = film.judge((0..60).map(|slot| (Some(slot), slot))).unwrap();
        for (index, seen) in seen.into_iter().enumerate() {
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
            // Decodes the film directly, with the same missing frames.
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
            assert_eq!(film.judge(shown.into_iter().zip(0..)).unwrap(), seen);
        }
    }

    #[test]
    fn a_freeze_costs_quality() {
        let film = Film::make(config(false), 1.0).unwrap();
        let still = film.judge((0..20).map(|slot| (Some(slot.min(10)), slot))).unwrap();
        let psnr: Vec<f64> = still.iter().map(Likeness::psnr).collect();
        assert!(psnr[11] < psnr[10] - 5.0, "{psnr:?}");
        let black = film.judge([(None, 0)]).unwrap()[0];
        assert!(black.psnr() < 12.0, "{black:?}");
    }
}
