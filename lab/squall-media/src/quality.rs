//! Difference of a picture from the expected one.
//!
//! **PSNR** is `10 log10(255² / mean squared error)` of one picture against its source, as in the
//! per-picture output of ffmpeg's `psnr` filter. The PSNR of several pictures is the mean of
//! theirs, with [`PSNR_CAP_DB`] for equal ones; ffmpeg's summary is instead the PSNR of their mean
//! squared error, which [`psnr_of`] returns.
//!
//! **SSIM** is the structural similarity of Wang, Bovik, Sheikh and Simoncelli (*Image quality
//! assessment: from error visibility to structural similarity*, IEEE Transactions on Image
//! Processing 13(4), 2004), of luma, with its constants (K₁ 0.01, K₂ 0.03). The windows are squares
//! of 8×8 samples, every four samples in both directions, as in ffmpeg's `ssim` filter, and not the
//! paper's Gaussian of 11×11: this is several times as fast, and gives the numbers commonly used to
//! compare encoders. The two agree to 0.00001, although that filter has a smaller C₁.

use thiserror::Error;

use crate::picture::Picture;

mod ssim;

/// The value reported for identical pictures, whose PSNR has no finite value, in dB.
pub const PSNR_CAP_DB: f64 = 100.0;

/// Two pictures of different sizes cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("cannot compare a picture of {}x{} with one of {}x{}", .left.0, .left.1, .right.0, .right.1)]
pub struct CompareError {
    /// Width and height of the first picture.
    pub left: (u32, u32),
    /// Width and height of the second picture.
    pub right: (u32, u32),
}

/// Comparison of the luma of a picture with that of its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likeness {
    /// Mean squared error over the samples.
    pub mean_squared_error: f64,
    /// Structural similarity, 1 for equal pictures, rarely below 0.
    pub ssim: f64,
}

impl Likeness {
    /// Returns the PSNR in dB, capped at [`PSNR_CAP_DB`].
    #[must_use]
    pub fn psnr(&self) -> f64 {
        psnr_of(self.mean_squared_error)
    }
}

/// Compares the luma of two pictures.
///
/// # Errors
/// If the pictures differ in size.
pub fn likeness(left: &Picture, right: &Picture) -> Result<Likeness, CompareError> {
    if !left.same_size(right) {
        return Err(CompareError { left: (left.width, left.height), right: (right.width, right.height) });
    }
    Ok(plane_likeness(left.width as usize, &left.y, &right.y))
}

/// Compares two planes of equal size whose rows are `width` samples each.
pub(crate) fn plane_likeness(width: usize, left: &[u8], right: &[u8]) -> Likeness {
    let mean_squared_error = squared_error(left, right) as f64 / left.len() as f64;
    Likeness { mean_squared_error, ssim: ssim::of_planes(width, left, right) }
}

/// Returns the PSNR in dB of a mean squared error, capped at [`PSNR_CAP_DB`].
#[must_use]
pub fn psnr_of(mean_squared_error: f64) -> f64 {
    // An error of 0 gives infinity, which is capped.
    (10.0 * (255.0 * 255.0 / mean_squared_error).log10()).min(PSNR_CAP_DB)
}

fn squared_error(left: &[u8], right: &[u8]) -> u64 {
    // 4096 squares of at most 255² fit in 32 bits, which lets the inner loop use wide registers.
    let block = |(a, b): (&[u8], &[u8])| -> u64 {
        u64::from(a.iter().zip(b).map(|(&a, &b)| u32::from(a.abs_diff(b)).pow(2)).sum::<u32>())
    };
    left.chunks(4096).zip(right.chunks(4096)).map(block).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(y: u8) -> Picture {
        let mut picture = Picture::new(4, 2).unwrap();
        picture.y.fill(y);
        picture
    }

    #[test]
    fn identical_pictures_reach_the_cap() {
        assert_eq!(likeness(&flat(50), &flat(50)).unwrap().psnr(), 100.0);
    }

    #[test]
    fn worked_by_hand() {
        // Luma off by 5 everywhere: MSE 25, 255²/25 = 2601, 34.1514 dB. One luma sample of eight off by
        // 20: MSE 50, 1300.5, 31.1411 dB. Off by 255 everywhere: 0 dB.
        let five = likeness(&flat(100), &flat(105)).unwrap().psnr();
        assert!((five - 34.1514).abs() < 1e-4, "{five}");

        let mut one = flat(100);
        one.y[3] = 80;
        let one = likeness(&flat(100), &one).unwrap().psnr();
        assert!((one - 31.1411).abs() < 1e-4, "{one}");

        assert_eq!(likeness(&flat(0), &flat(255)).unwrap().psnr(), 0.0);
    }

    #[test]
    fn long_planes_do_not_overflow() {
        let (black, white) = (vec![0u8; 70_000], vec![255u8; 70_000]);
        assert_eq!(squared_error(&black, &white), 70_000 * 255 * 255);
    }

    #[test]
    fn sizes_must_agree() {
        let error = likeness(&flat(0), &Picture::new(2, 2).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "cannot compare a picture of 4x2 with one of 2x2");
    }
}
