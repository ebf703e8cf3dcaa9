//! The sine by the four arithmetic operations alone: unlike those of mathematical libraries it is
//! identical on every machine, and so are the pictures.

use std::f64::consts::{PI, TAU};

/// Sine of an angle in radians, to about ten digits up to a million turns.
pub(super) fn sine(angle: f64) -> f64 {
    // To −π…π, then to a quarter of a turn on both sides of 0, as sin(π − x) = sin x.
    let turned = angle - (angle / TAU).round() * TAU;
    let x = if turned.abs() > PI / 2.0 { PI.copysign(turned) - turned } else { turned };
    // Taylor series; the first omitted term is below 1e-12 in this range.
    (1..8).rev().fold(1.0, |sum, term| {
        let step = f64::from(2 * term);
        1.0 - x * x / (step * (step + 1.0)) * sum
    }) * x
}

/// Cosine with the same precision.
pub(super) fn cosine(angle: f64) -> f64 {
    sine(angle + PI / 2.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_agree_with_the_library(angle in -1e6..1e6f64) {
            prop_assert!((sine(angle) - angle.sin()).abs() < 1e-9);
            prop_assert!((cosine(angle) - angle.cos()).abs() < 1e-9);
        }
    }

    #[test]
    fn quarters_are_exact_enough() {
        for (angle, expected) in [(0.0, 0.0), (PI / 2.0, 1.0), (PI, 0.0), (-PI / 2.0, -1.0), (PI / 6.0, 0.5)]
        {
            assert!((sine(angle) - expected).abs() < 1e-11, "{angle}");
        }
    }
}
