//! What a viewer saw, in numbers.

use serde::Serialize;

use crate::result::{Spread, round6};

/// A measure of every picture that was to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Arithmetic mean.
    pub mean: f64,
    /// A twentieth of the pictures are not above it.
    pub p5: f64,
    /// The lowest mean of any second, begun with any picture; of the whole film if it is shorter.
    pub worst_second: f64,
}

impl Figures {
    /// Of these values, `second` of which are a second; `None` of none.
    pub fn of(values: &[f64], second: usize) -> Option<Self> {
        let spread = Spread::of(values.iter().copied())?;
        let window = second.clamp(1, values.len());
        let mean = |window: &[f64]| window.iter().sum::<f64>() / window.len() as f64;
        let worst = values.windows(window).map(mean).fold(f64::INFINITY, f64::min);
        Some(Self { mean: spread.mean, p5: spread.p5, worst_second: round6(worst) })
    }
}

/// What was on one screen, picture by picture.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// PSNR of luma in dB against the source.
    pub psnr: Vec<f64>,
    /// SSIM of the same.
    pub ssim: Vec<f64>,
    /// Whether there was a new picture; else the one before stayed.
    pub fresh: Vec<bool>,
}

impl Seen {
    /// Share of the pictures in the place of which the one before stayed, 0 to 1.
    pub fn frozen_ratio(&self) -> f64 {
        let frozen = self.fresh.iter().filter(|fresh| !**fresh).count();
        if self.fresh.is_empty() { 0.0 } else { round6(frozen as f64 / self.fresh.len() as f64) }
    }

    /// Most pictures in a row in the place of which one stayed.
    pub fn longest_freeze(&self) -> u64 {
        self.fresh.split(|fresh| *fresh).map(|still| still.len() as u64).max().unwrap_or(0)
    }

    /// How long the picture has stood at this place, in pictures; 0 for a new one.
    pub fn frozen_for(&self, place: usize) -> u64 {
        self.fresh[..=place].iter().rev().take_while(|fresh| !**fresh).count() as u64
    }
}

/// The place at which to look: where the best and the worst of several are furthest apart by SSIM. If they never are by
/// 0.01, or there is one only, where the lowest is furthest below the encode.
pub fn worst_moment(encode: &Seen, seen: &[&Seen]) -> Option<usize> {
    let ssim = |place: usize| seen.iter().map(move |seen| seen.ssim[place]);
    let lowest = |place| ssim(place).fold(f64::INFINITY, f64::min);
    let apart = |place| ssim(place).fold(f64::NEG_INFINITY, f64::max) - lowest(place);
    let below = |place: usize| encode.ssim[place] - lowest(place);
    let highest = |of: &dyn Fn(usize) -> f64| {
        let places = 0..encode.ssim.len();
        // The first of equals.
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
