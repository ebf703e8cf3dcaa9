//! Logarithm and exponential by the four basic operations. IEEE 754 specifies these to the last
//! bit, unlike the results of mathematical libraries: so random numbers are the same on all
//! machines.

use std::f64::consts::{LN_2, SQRT_2};

/// Natural logarithm of a positive, normal number.
pub(super) fn ln(x: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1_023;
    let mut mantissa = f64::from_bits(bits & FRACTION | 1_023 << 52);
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh t, and |t| < 0.172: twelve terms are enough.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let series = (0..12).rev().fold(0.0, |sum, term| sum * t * t + 1.0 / f64::from(2 * term + 1));
    exponent as f64 * LN_2 + 2.0 * t * series
}

/// The exponential function; 0 below -700, constant above 700.
pub(super) fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    let x = x.min(700.0);
    let power = (x / LN_2).round();
    let rest = x - power * LN_2;
    let series = (1..18).rev().fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    series * f64::from_bits(((power as i64 + 1_023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_agree_with_the_library(x in 1e-12..1e12f64, y in -50.0..50.0f64) {
            prop_assert!((ln(x) - x.ln()).abs() <= 1e-13 * x.ln().abs().max(1.0));
            prop_assert!((exp(y) / y.exp() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn ends_are_finite() {
        assert_eq!((ln(1.0), exp(0.0), exp(-1e9)), (0.0, 1.0, 0.0));
        assert!(exp(1e9).is_finite() && exp(-700.0) > 0.0);
    }
}
