//! Quality as seen by a viewer, in numbers.

use serde::Serialize;

use crate::result::{Spread, round6};

/// Statistics of a quality measure over all pictures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Arithmetic mean.
    pub mean: f64,
    /// 5th percentile.
    pub p5: f64,
    /// Lowest mean of any second, beginning at any picture; of the whole film if it is shorter.
    pub worst_second: f64,
}

impl Figures {
    /// Computes the statistics of these values, with `second` values per second; `None` without
    /// values.
    pub fn of(values: &[f64], second: usize) -> Option<Self> {
        let spread = Spread::of(values.iter().copied())?;
        let window = second.clamp(1, values.len());
        let mean = |window: &[f64]| window.iter().sum::<f64>() / window.len() as f64;
        let worst = values.windows(window).map(mean).fold(f64::INFINITY, f64::min);
        Some(Self { mean: spread.mean, p5: spread.p5, worst_second: round6(worst) })
    }
}

/// Pictures on one screen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// PSNR of luma in dB relative to the source.
    pub psnr: Vec<f64>,
    /// SSIM of luma.
    pub ssim: Vec<f64>,
    /// `true` if the picture was new, `false` if the previous one stayed.
    pub fresh: Vec<bool>,
}

impl Seen {
    /// Share of the pictures that were replaced by the previous one, 0 to 1.
    pub fn frozen_ratio(&self) -> f64 {
        let frozen = self.fresh.iter().filter(|fresh| !**fresh).count();
        if self.fresh.is_empty() { 0.0 } else { round6(frozen as f64 / self.fresh.len() as f64) }
    }

    /// Maximum number of consecutive pictures without a new one.
    pub fn longest_freeze(&self) -> u64 {
        self.fresh.split(|fresh| *fresh).map(|still| still.len() as u64).max().unwrap_or(0)
    }

    /// Returns the number of pictures for which the screen has been frozen at this index; 0 for a
    /// new picture.
    pub fn frozen_for(&self, place: usize) -> u64 {
        self.fresh[..=place].iter().rev().take_while(|fresh| !**fresh).count() as u64
    }
}

/// Returns the most informative picture: the one with the largest difference in SSIM between the
/// best and the worst screen. If no difference reaches 0.01, or there is a single screen, the one
/// where the lowest SSIM is furthest below the encode.
pub fn worst_moment(encode: &Seen, seen: &[&Seen]) -> Option<usize> {
    let ssim = |place: usize| seen.iter().map(move |seen| seen.ssim[place]);
    let lowest = |place| ssim(place).fold(f64::INFINITY, f64::min);
    let apart = |place| ssim(place).fold(f64::NEG_INFINITY, f64::max) - lowest(place);
    let below = |place: usize| encode.ssim[place] - lowest(place);
    let highest = |of: &dyn Fn(usize) -> f64| {
        let places = 0..encode.ssim.len();
        // The first maximum.
        places.map(|place| (place, of(place))).reduce(|best, one| if one.1 > best.1 { one } else { best })
    };
    match highest(&apart) {
        Some((place, gap)) if gap >= 0.01 => Some(place),
        _ => highest(&below).map(|(place, _)| place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ssim: &[f64]) -> Seen {
        Seen { psnr: vec![30.0; ssim.len()], ssim: ssim.to_vec(), fresh: vec![true; ssim.len()] }
    }

    #[test]
    fn worked_by_hand() {
        let figures = Figures::of(&[4.0, 1.0, 1.0, 4.0, 0.0], 2).expect("there are values");
        assert_eq!(figures, Figures { mean: 2.0, p5: 0.0, worst_second: 1.0 });
        assert_eq!(Figures::of(&[4.0, 2.0], 30).map(|all| all.worst_second), Some(3.0));
        assert_eq!(Figures::of(&[], 30), None);
    }

    #[test]
    fn freezes_are_runs_without_a_new_picture() {
        let fresh = vec![true, false, false, true, false, false, false, true];
        let seen = Seen { fresh, ..Seen::default() };
        assert_eq!((seen.frozen_ratio(), seen.longest_freeze()), (0.625, 3));
        assert_eq!([0, 2, 3, 6].map(|place| seen.frozen_for(place)), [0, 2, 0, 3]);
    }

    #[test]
    fn the_worst_moment_is_where_they_differ_most() {
        let encode = seen(&[0.98, 0.98, 0.97, 0.98]);
        let (one, other) = (seen(&[0.98, 0.6, 0.9, 0.98]), seen(&[0.98, 0.58, 0.5, 0.98]));
        assert_eq!(worst_moment(&encode, &[&one, &other]), Some(2));
        assert_eq!(worst_moment(&encode, &[&other]), Some(2));
        assert_eq!(worst_moment(&encode, &[&one, &one]), Some(1), "they are alike: where both are worst");
        assert_eq!(worst_moment(&seen(&[]), &[]), None);
    }
}
