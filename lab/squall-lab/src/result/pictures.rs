//! Quality of the pictures as shown to a viewer.

use serde::{Deserialize, Serialize};
use squall_media::quality::{Likeness, psnr_of};

use super::round6;
use crate::statistics::nearest_rank;

/// Pictures as shown, each compared with the source before encoding that should have been shown.
/// Computed on luma; see [`squall_media::quality`] for the formulas.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PictureQuality {
    /// Number of compared pictures: those due before the end of the run.
    pub compared: u64,
    /// PSNR of the single pictures in dB.
    pub psnr: Spread,
    /// PSNR in dB of the mean squared error over all pictures, where single bad pictures weigh
    /// more.
    pub total_psnr: f64,
    /// Difference in dB between the mean PSNR if everything had arrived in time and the actual mean
    /// PSNR.
    pub psnr_loss: f64,
    /// Structural similarity, 1 for equal pictures.
    pub ssim: Spread,
    /// Difference between the mean SSIM if everything had arrived in time and the actual mean SSIM.
    pub ssim_loss: f64,
}

/// Mean, median and lower tail of a quality measure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// 5th percentile.
    pub p5: f64,
}

impl PictureQuality {
    /// Compares the pictures as seen with those that would have been seen if everything had arrived
    /// in time; `None` without pictures.
    pub(crate) fn of(seen: &[Likeness], intact: &[Likeness]) -> Option<Self> {
        let psnr = Spread::of(seen.iter().map(Likeness::psnr))?;
        let ssim = Spread::of(seen.iter().map(|seen| seen.ssim))?;
        let lost = |intact: Option<Spread>, seen: Spread| {
            intact.map_or(0.0, |intact| round6(intact.mean - seen.mean))
        };
        let error = seen.iter().map(|seen| seen.mean_squared_error).sum::<f64>() / seen.len() as f64;
        Some(Self {
            compared: seen.len() as u64,
            total_psnr: round6(psnr_of(error)),
            psnr_loss: lost(Spread::of(intact.iter().map(Likeness::psnr)), psnr),
            psnr,
            ssim_loss: lost(Spread::of(intact.iter().map(|intact| intact.ssim)), ssim),
            ssim,
        })
    }
}

impl Spread {
    /// Computes the statistics of these values; `None` if there are none.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.sort_unstable_by(f64::total_cmp);
        let at = |share| nearest_rank(&values, share).map(round6);
        Some(Self { mean: round6(mean), median: at(5_000)?, p5: at(500)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(mean_squared_error: f64, ssim: f64) -> Likeness {
        Likeness { mean_squared_error, ssim }
    }

    #[test]
    fn worked_by_hand() {
        // 255²/25 is 2601, 34.151404 dB; 255²/6502.5 is 10, 10 dB; no error is 100 dB.
        let shown = [seen(25.0, 0.9), seen(6_502.5, 0.3), seen(0.0, 1.0)];
        let quality = PictureQuality::of(&shown, &[seen(25.0, 0.9); 3]).expect("there are pictures");
        assert_eq!(quality.compared, 3);
        assert_eq!(quality.psnr, Spread { mean: 48.050_468, median: 34.151_404, p5: 10.0 });
        assert_eq!(quality.ssim, Spread { mean: 0.733_333, median: 0.9, p5: 0.3 });
        assert_eq!((quality.psnr_loss, quality.ssim_loss), (-13.899_064, 0.166_667));
        // 65,025 · 3 / 6,527.5 is 29.8851.
        assert_eq!(quality.total_psnr, 14.754_547);
        assert_eq!(PictureQuality::of(&[], &[]), None);
    }
}
