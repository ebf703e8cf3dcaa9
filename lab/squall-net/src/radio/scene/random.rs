//! Correlated random numbers.

use std::f64::consts::TAU;

use rand_pcg::{Pcg64Mcg, rand_core::Rng};
use squall_trace::Micros;
use squall_units::Span;

use super::place::STEP_SECONDS;

/// Draws from the normal distribution with mean 0 and deviation 1 (Box and Muller 1958).
pub(in crate::radio) fn gauss(random: &mut Pcg64Mcg) -> f64 {
    // Not 0, which has no logarithm.
    let radius = (-2.0 * (1.0 - uniform(random)).ln()).sqrt();
    radius * (TAU * uniform(random)).cos()
}

/// Draws from 0 (inclusive) to 1 (exclusive).
pub(super) fn uniform(random: &mut Pcg64Mcg) -> f64 {
    // The 53 bits that a double holds.
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Draws uniformly between two bounds.
pub(super) fn between(random: &mut Pcg64Mcg, least: f64, most: f64) -> f64 {
    least + (most - least) * uniform(random)
}

/// A normal process whose correlation decays exponentially with time: a first-order autoregression.
#[derive(Debug, Clone)]
pub(in crate::radio) struct Drift {
    deviation: f64,
    /// In deviations.
    value: f64,
    /// Correlation time in microseconds; 0 for uncorrelated values.
    memory: f64,
}

impl Drift {
    /// Starts with a value given in deviations, without correlation.
    pub(in crate::radio) fn new(deviation: f64, value: f64) -> Self {
        Self { deviation, value, memory: 0.0 }
    }

    /// Sets the time in which the correlation falls to 1/e.
    pub(in crate::radio) fn keeping(self, memory: Span) -> Self {
        Self { memory: memory.micros() as f64, ..self }
    }

    /// Advances by some time and returns the new value.
    pub(in crate::radio) fn pass(&mut self, time: Micros, random: &mut Pcg64Mcg) -> f64 {
        if self.deviation == 0.0 {
            return 0.0;
        }
        if time > 0 {
            let kept = if self.memory > 0.0 { (-(time as f64) / self.memory).exp() } else { 0.0 };
            self.value = kept * self.value + (1.0 - kept * kept).sqrt() * gauss(random);
        }
        self.deviation * self.value
    }
}

/// Log-normal shadowing along a path (Gudmundson, Electronics Letters 27(23), 1991): its
/// correlation falls exponentially with the distance.
#[derive(Debug, Clone)]
pub(super) struct Shadow {
    deviation: f64,
    value: f64,
    kept: f64,
    renewed: f64,
}

impl Shadow {
    /// Creates shadowing with this deviation in dB and this distance in metres to 1/e of the
    /// correlation, passed at this speed in m/s.
    pub(super) fn new(deviation: f64, distance: f64, speed: f64, random: &mut Pcg64Mcg) -> Self {
        let kept = (-speed * STEP_SECONDS / distance).exp();
        Self { deviation, value: gauss(random), kept, renewed: (1.0 - kept * kept).sqrt() }
    }

    /// Returns the current shadowing in dB, then advances by a step.
    pub(super) fn go(&mut self, random: &mut Pcg64Mcg) -> f64 {
        let here = self.deviation * self.value;
        self.value = self.kept * self.value + self.renewed * gauss(random);
        here
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::rand_core::SeedableRng;

    fn moments(values: &[f64], lag: usize) -> (f64, f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
        let pairs = values.iter().zip(&values[lag..]).map(|(a, b)| (a - mean) * (b - mean));
        (mean, variance.sqrt(), pairs.sum::<f64>() / n / variance)
    }

    #[test]
    fn a_shadow_has_its_deviation_and_its_distance() {
        let mut random = Pcg64Mcg::seed_from_u64(5);
        let mut shadow = Shadow::new(4.0, 10.0, 5.0, &mut random);
        let values: Vec<f64> = (0..400_000).map(|_| shadow.go(&mut random)).collect();
        // Ten metres are 100 steps.
        let (mean, deviation, correlation) = moments(&values, 100);
        assert!(mean.abs() < 0.3, "{mean}");
        assert!((deviation - 4.0).abs() < 0.2, "{deviation}");
        assert!((correlation - 1.0 / std::f64::consts::E).abs() < 0.05, "{correlation}");
    }

    #[test]
    fn noise_has_its_deviation_and_its_time() {
        let mut random = Pcg64Mcg::seed_from_u64(6);
        let mut drift = Drift::new(2.0, 0.0).keeping(Span::from_millis(1_000));
        let values: Vec<f64> = (0..200_000).map(|_| drift.pass(100_000, &mut random)).collect();
        let (_, deviation, correlation) = moments(&values, 10);
        assert!((deviation - 2.0).abs() < 0.06, "{deviation}");
        assert!((correlation - 1.0 / std::f64::consts::E).abs() < 0.03, "{correlation}");
        let mut white = Drift::new(2.0, 0.0);
        let values: Vec<f64> = (0..100_000).map(|_| white.pass(100_000, &mut random)).collect();
        assert!(moments(&values, 1).2.abs() < 0.02);
    }
}
