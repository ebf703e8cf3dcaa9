//! Measures of the pictures that a viewer saw.

use super::Count::{self, MedianPsnr, MedianSsim, P5Psnr, P5Ssim, Psnr, PsnrLoss, Ssim, TotalPsnr};
use crate::result::PictureQuality;

/// What there is of it.
pub(super) const PICTURES: [Count; 8] =
    [Psnr, MedianPsnr, P5Psnr, TotalPsnr, PsnrLoss, Ssim, MedianSsim, P5Ssim];

pub(super) fn of_pictures(count: Count, pictures: &PictureQuality) -> Option<f64> {
    match count {
        Psnr => Some(pictures.psnr.mean),
        MedianPsnr => Some(pictures.psnr.median),
        P5Psnr => Some(pictures.psnr.p5),
        TotalPsnr => Some(pictures.total_psnr),
        PsnrLoss => Some(pictures.psnr_loss),
        Ssim => Some(pictures.ssim.mean),
        MedianSsim => Some(pictures.ssim.median),
        P5Ssim => Some(pictures.ssim.p5),
        _ => None,
    }
}
