//! The costly part of judging: decoding what arrived and comparing each picture with its source.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Player, playout};
use crate::decoder::{DecodeError, Decoder};
use crate::picture::Picture;
use crate::quality::{CompareError, psnr};

/// How good the pictures were that a viewer saw.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QualityReport {
    /// Slots of the stream.
    pub slots: u64,
    /// Slots judged: fewer when frames could not be kept ([`PlayerConfig::keep_bytes`](super::PlayerConfig)).
    pub covered: u64,
    /// Every how many slots a picture was compared.
    pub every: u32,
    /// Pictures compared.
    pub compared: u64,
    /// Frames that the decoder decoded.
    pub decoded: u64,
    /// Frames that the decoder refused.
    pub refused: u64,
    /// Frames of which [`Player::finish`] and the decoder disagree whether they can be decoded. Other than 0
    /// means that frame kinds are wrong or frames damaged.
    pub disagreements: u64,
    /// PSNR of luma, in dB.
    pub psnr_y: Spread,
    /// PSNR of the three planes, weighted 6:1:1, in dB.
    pub psnr_yuv: Spread,
}

/// Mean, tenth percentile and minimum; all 0 when there are no values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// A tenth of the values are not above it.
    pub p10: f64,
    /// The smallest.
    pub min: f64,
}

/// Why pictures could not be compared.
#[derive(Debug, Error)]
pub enum QualityError {
    /// The decoder cannot be used.
    #[error(transparent)]
    Decoder(#[from] DecodeError),
    /// Source and stream differ in size.
    #[error("frame {index}: {source}")]
    Compare {
        /// Number of the frame.
        index: u64,
        /// How they differ.
        source: CompareError,
    },
}

impl Player {
    /// Decodes what arrived (H.264), slot by slot, and compares the picture shown in every `every`-th slot
    /// with the one that should have been shown, which `source` gives by frame number.
    ///
    /// A frozen picture is compared with the source of the slot in which it stands; before the first
    /// picture a viewer sees black.
    ///
    /// # Errors
    /// When the decoder cannot start, or the pictures differ in size.
    pub fn quality(
        &self,
        mut source: impl FnMut(u64) -> Picture,
        every: NonZeroU32,
    ) -> Result<QualityReport, QualityError> {
        let slots = playout::play(&self.config, &self.frames);
        let mut decoder = Decoder::new()?;
        let mut shown: Option<Picture> = None;
        let (mut luma, mut all) = (Vec::new(), Vec::new());
        let (mut covered, mut decoded, mut refused, mut disagreements) = (0, 0, 0, 0);
        for (place, slot) in (0u64..).zip(&slots) {
            let Some(feed) = self.data_of(&slot.feed) else { break };
            let mut pictures = 0u64;
            for (index, data) in feed {
                match decoder.decode(data) {
                    Ok(Some(picture)) => {
                        pictures += 1;
                        // Late frames are decoded for those after them, and not shown.
                        if index == slot.index {
                            shown = Some(picture);
                        }
                    }
                    Ok(None) | Err(_) => refused += 1,
                }
            }
            decoded += pictures;
            disagreements += pictures.abs_diff(slot.decoded);
            covered += 1;
            if place % u64::from(every.get()) == 0 {
                let wanted = source(slot.index);
                let psnr = compare(&wanted, shown.as_ref())
                    .map_err(|source| QualityError::Compare { index: slot.index, source })?;
                luma.push(psnr.y);
                all.push(psnr.yuv);
            }
        }
        Ok(QualityReport {
            slots: slots.len() as u64,
            covered,
            every: every.get(),
            compared: luma.len() as u64,
            decoded,
            refused,
            disagreements,
            psnr_y: Spread::of(luma),
            psnr_yuv: Spread::of(all),
        })
    }

    /// The bytes of these frames; `None` when one was not kept.
    fn data_of(&self, indexes: &[u64]) -> Option<Vec<(u64, &[u8])>> {
        indexes.iter().map(|index| Some((*index, &self.frames.get(index)?.data.as_ref()?[..]))).collect()
    }
}

fn compare(wanted: &Picture, shown: Option<&Picture>) -> Result<crate::quality::Psnr, CompareError> {
    match shown {
        Some(shown) => psnr(wanted, shown),
        None => psnr(wanted, &wanted.black()),
    }
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let Some(&min) = values.first() else { return Self::default() };
        let p10 = values[values.len().div_ceil(10) - 1];
        Self { mean: values.iter().sum::<f64>() / values.len() as f64, p10, min }
    }
}
