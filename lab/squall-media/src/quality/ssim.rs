//! Structural similarity of two planes.

/// Side of a block for which sums are kept; a window is two blocks wide and high.
const BLOCK: usize = 4;
/// (K₁ L)² and (K₂ L)² of the paper, with L = 255.
const C1: f64 = 0.01 * 0.01 * 255.0 * 255.0;
const C2: f64 = 0.03 * 0.03 * 255.0 * 255.0;

/// Sums over the samples of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    left: u32,
    right: u32,
    /// Sum of the squares of both.
    squares: u32,
    products: u32,
}

impl Sums {
    fn of(left: &[u8], right: &[u8]) -> Self {
        let mut sums = Self::default();
        for (&left, &right) in left.iter().zip(right) {
            let (left, right) = (u32::from(left), u32::from(right));
            sums.left += left;
            sums.right += right;
            sums.squares += left * left + right * right;
            sums.products += left * right;
        }
        sums
    }

    fn plus(self, other: Self) -> Self {
        Self {
            left: self.left + other.left,
            right: self.right + other.right,
            squares: self.squares + other.squares,
            products: self.products + other.products,
        }
    }

    /// Returns the similarity by the paper's equation 13, with sample variances (divided by n − 1).
    fn similarity(self, samples: usize) -> f64 {
        let count = samples as f64;
        let (left, right) = (f64::from(self.left) / count, f64::from(self.right) / count);
        let degrees = (count - 1.0).max(1.0);
        let variances = (f64::from(self.squares) - count * (left * left + right * right)) / degrees;
        let covariance = (f64::from(self.products) - count * left * right) / degrees;
        (2.0 * left * right + C1) * (2.0 * covariance + C2)
            / ((left * left + right * right + C1) * (variances + C2))
    }
}

/// Returns the mean over all windows. Samples beyond the last whole block are ignored; a plane
/// smaller than a window is one window.
pub(super) fn of_planes(width: usize, left: &[u8], right: &[u8]) -> f64 {
    let (columns, rows) = (width / BLOCK, left.len() / width / BLOCK);
    if columns < 2 || rows < 2 {
        return Sums::of(left, right).similarity(left.len());
    }
    let (mut above, mut below) = (vec![Sums::default(); columns], vec![Sums::default(); columns]);
    let mut total = 0.0;
    for row in 0..rows {
        std::mem::swap(&mut above, &mut below);
        let rows = row * BLOCK * width..(row + 1) * BLOCK * width;
        sum_blocks(width, &left[rows.clone()], &right[rows], &mut below);
        if row > 0 {
            let windows = above.windows(2).zip(below.windows(2));
            let window = |(above, below): (&[Sums], &[Sums])| {
                above[0].plus(above[1]).plus(below[0]).plus(below[1]).similarity(4 * BLOCK * BLOCK)
            };
            total += windows.map(window).sum::<f64>();
        }
    }
    total / ((columns - 1) * (rows - 1)) as f64
}

/// Adds up a row of blocks.
fn sum_blocks(width: usize, left: &[u8], right: &[u8], blocks: &mut [Sums]) {
    blocks.fill(Sums::default());
    for (left, right) in left.chunks_exact(width).zip(right.chunks_exact(width)) {
        let pairs = left.chunks_exact(BLOCK).zip(right.chunks_exact(BLOCK));
        for (sums, (left, right)) in blocks.iter_mut().zip(pairs) {
            *sums = sums.plus(Sums::of(left, right));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn worked_by_hand() {
        // One window. Flat planes of 100 and 110: only the term of luminance counts,
        // (2·100·110 + 6.5025) / (100² + 110² + 6.5025).
        let flat = of_planes(8, &[100; 64], &[110; 64]);
        assert!((flat - 22_006.502_5 / 22_106.502_5).abs() < 1e-12, "{flat}");
        // A chequer of 100 and 120 against its negative: means 110, variances 100·64/63, covariance
        // the negative of that. C₂ is 58.5225.
        let board: Vec<u8> = (0..64).map(|at| if (at + at / 8) % 2 == 0 { 100 } else { 120 }).collect();
        let negative: Vec<u8> = board.iter().map(|luma| 220 - luma).collect();
        let variance = 100.0 * 64.0 / 63.0;
        let expected = (58.522_5 - 2.0 * variance) / (58.522_5 + 2.0 * variance);
        assert!((of_planes(8, &board, &negative) - expected).abs() < 1e-12);
    }

    #[test]
    fn windows_overlap_by_half() {
        // 12×8 samples are two windows. The right third differs: it is half of the second.
        let mut left = vec![100; 96];
        let right = left.clone();
        for row in left.chunks_exact_mut(12) {
            row[8..].fill(130);
        }
        let window: Vec<u8> = (0..64).map(|at| if at % 8 < 4 { 100 } else { 130 }).collect();
        let second = Sums::of(&window, &[100; 64]).similarity(64);
        assert!((of_planes(12, &left, &right) - f64::midpoint(1.0, second)).abs() < 1e-12);
    }

    #[test]
    fn small_planes_are_one_window() {
        assert_eq!(of_planes(2, &[7; 4], &[7; 4]), 1.0);
        assert!(of_planes(2, &[0; 4], &[255; 4]) < 0.001);
    }

    proptest! {
        #[test]
        fn only_equal_planes_are_alike(
            width in 1usize..40, height in 1usize..40, seed: u64, error in prop::option::of(1u8..=255),
        ) {
            let sample = |at: usize| (crate::noise::hash(seed, at as u64, 0) >> 56) as u8;
            let left: Vec<u8> = (0..width * height).map(sample).collect();
            let mut right = left.clone();
            if let Some(error) = error {
                right[0] = right[0].wrapping_add(error);
            }
            let ssim = of_planes(width, &left, &right);
            prop_assert!((-1.0..=1.0 + 1e-12).contains(&ssim));
            prop_assert_eq!(ssim > 1.0 - 1e-12, error.is_none());
            prop_assert!((ssim - of_planes(width, &right, &left)).abs() < 1e-12);
        }
    }
}
