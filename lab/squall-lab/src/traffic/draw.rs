//! Random numbers of a distribution.

use rand::{Rng, RngExt};
use rand_pcg::Pcg64Mcg;

use super::real::{exp, ln};
use crate::flow::Distribution;

/// Draws whole numbers of a distribution within bounds.
#[derive(Debug)]
pub(super) struct Draw {
    shape: Shape,
    least: u64,
    greatest: u64,
}

#[derive(Debug)]
enum Shape {
    Constant(u64),
    Uniform(u64, u64),
    Exponential { mean: f64 },
    Pareto { scale: f64, shape: f64 },
    Poisson { events: f64, step: u64 },
}

impl Draw {
    /// Of this distribution, whose numbers are to lie within these bounds.
    pub(super) fn new(distribution: Distribution, (least, greatest): (u64, u64)) -> Self {
        let bounds = (least as f64, greatest as f64);
        let shape = match distribution {
            Distribution::Constant(value) => Shape::Constant(value),
            Distribution::Uniform { from, to } => Shape::Uniform(from, to.max(from)),
            Distribution::Exponential { mean } => {
                Shape::Exponential { mean: solve(mean as f64, bounds, |free| exponential_mean(free, bounds)) }
            }
            Distribution::Pareto { mean, shape } => {
                let scale = solve(mean as f64, bounds, |scale| pareto_mean(scale, shape, bounds));
                Shape::Pareto { scale, shape }
            }
            Distribution::Poisson { mean, step } => {
                Shape::Poisson { events: mean as f64 / step.max(1) as f64, step: step.max(1) }
            }
        };
        Self { shape, least, greatest }
    }

    pub(super) fn next(&self, rng: &mut Pcg64Mcg) -> u64 {
        let value = match self.shape {
            Shape::Constant(value) => value,
            Shape::Uniform(from, to) => rng.random_range(from..=to),
            Shape::Exponential { mean } => whole(-ln(uniform(rng)) * mean),
            Shape::Pareto { scale, shape } => whole(scale * exp(-ln(uniform(rng)) / shape)),
            Shape::Poisson { events, step } => poisson(events, rng).saturating_mul(step),
        };
        value.clamp(self.least, self.greatest)
    }
}

/// Above 0, up to 1.
fn uniform(rng: &mut Pcg64Mcg) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

fn whole(value: f64) -> u64 {
    (value + 0.5) as u64
}

/// Mean of an exponential distribution of this mean, brought to the bounds: the least, and the area below the
/// distribution's tail from there to the greatest.
fn exponential_mean(free: f64, (least, greatest): (f64, f64)) -> f64 {
    least + free * (exp(-least / free) - exp(-greatest / free))
}

/// The same of a Pareto distribution.
fn pareto_mean(scale: f64, shape: f64, (least, greatest): (f64, f64)) -> f64 {
    let from = least.max(scale);
    let tail = |x: f64| exp(shape * ln(scale / x)) * x / (shape - 1.0);
    from + tail(from) - tail(greatest)
}

/// The parameter for which the growing function `mean_of` has this value, to all digits there are.
fn solve(mean: f64, (_, greatest): (f64, f64), mean_of: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (1e-9, greatest);
    for _ in 0..100 {
        let middle = low / 2.0 + high / 2.0;
        if mean_of(middle) < mean {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// A Poisson number of this mean, at least 10: transformed rejection (W. Hörmann, "The transformed rejection method
/// for generating Poisson random variables", 1993, algorithm PTRS).
fn poisson(mean: f64, rng: &mut Pcg64Mcg) -> u64 {
    let (b, ln_mean) = (0.931 + 2.53 * mean.sqrt(), ln(mean));
    let a = -0.059 + 0.024_83 * b;
    let inverse_alpha = 1.123_9 + 1.132_8 / (b - 3.4);
    let quick = 0.927_7 - 3.622_4 / (b - 2.0);
    loop {
        let (u, v) = (uniform(rng) - 0.5, uniform(rng));
        let distance = 0.5 - u.abs();
        let k = ((2.0 * a / distance + b) * u + mean + 0.43).floor();
        if distance >= 0.07 && v <= quick {
            return k as u64;
        }
        if k < 0.0 || distance < 0.013 && v > distance {
            continue;
        }
        let hat = ln(v * inverse_alpha / (a / (distance * distance) + b));
        if hat <= k * ln_mean - mean - ln_factorial(k) {
            return k as u64;
        }
    }
}

/// Logarithm of a factorial, by Stirling's series.
fn ln_factorial(k: f64) -> f64 {
    const LN_TAU_HALF: f64 = 0.918_938_533_204_672_7;
    // The series is for large numbers: smaller ones are reached from 10.
    let mut n = k + 1.0;
    let mut below = 1.0;
    while n < 10.0 {
        below *= n;
        n += 1.0;
    }
    let square = n * n;
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1_260.0 * square)) / square) / n;
    (n - 0.5) * ln(n) - n + LN_TAU_HALF + series - ln(below)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;
    use crate::flow::Messages;

    fn drawn(distribution: Distribution, bounds: (u64, u64), count: usize) -> Vec<u64> {
        let draw = Draw::new(distribution, bounds);
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        (0..count).map(|_| draw.next(&mut rng)).collect()
    }

    /// Mean and standard deviation.
    fn moments(numbers: &[u64]) -> (f64, f64) {
        let count = numbers.len() as f64;
        let mean = numbers.iter().map(|n| *n as f64).sum::<f64>() / count;
        let variance = numbers.iter().map(|n| (*n as f64 - mean) * (*n as f64 - mean)).sum::<f64>() / count;
        (mean, variance.sqrt())
    }

    #[test]
    fn means_and_spreads_are_those_of_the_books() {
        let mean = 20_000;
        // A Pareto distribution of shape 2.5 has a standard deviation of 0.894 of its mean, slow to show itself.
        let cases = [
            (Distribution::Constant(mean), 0.0, 0.0),
            (Distribution::Uniform { from: 10_000, to: 30_000 }, 10_000.0 / 3f64.sqrt(), 0.01),
            (Distribution::Exponential { mean }, 20_000.0, 0.01),
            (Distribution::Pareto { mean, shape: 2.5 }, 17_889.0, 0.15),
            (Distribution::Poisson { mean, step: 1 }, 20_000f64.sqrt(), 0.01),
            (Distribution::Poisson { mean, step: 1_000 }, 20f64.sqrt() * 1_000.0, 0.01),
            (Distribution::Poisson { mean, step: 2_000 }, 10f64.sqrt() * 2_000.0, 0.01),
        ];
        for (distribution, spread, tolerance) in cases {
            let (drawn_mean, drawn_spread) = moments(&drawn(distribution, Messages::SIZES, 400_000));
            assert!((drawn_mean / 20_000.0 - 1.0).abs() < 0.01, "{distribution:?}: {drawn_mean}");
            assert!((drawn_spread - spread).abs() <= spread * tolerance, "{distribution:?}: {drawn_spread}");
        }
    }

    #[test]
    fn bounds_leave_the_mean_alone() {
        let bounds = (100, 5_000);
        let heavy = [
            Distribution::Exponential { mean: 200 },
            Distribution::Exponential { mean: 2_000 },
            Distribution::Pareto { mean: 400, shape: 1.1 },
        ];
        for distribution in heavy {
            let numbers = drawn(distribution, bounds, 400_000);
            let wanted = match distribution {
                Distribution::Exponential { mean } | Distribution::Pareto { mean, .. } => mean as f64,
                _ => unreachable!("only those two"),
            };
            assert!(
                (moments(&numbers).0 / wanted - 1.0).abs() < 0.01,
                "{distribution:?}: {:?}",
                moments(&numbers)
            );
            assert!(numbers.iter().all(|n| (100..=5_000).contains(n)));
        }
    }

    #[test]
    fn the_tail_of_pareto_has_its_index() {
        let numbers = drawn(Distribution::Pareto { mean: 30_000, shape: 1.5 }, Messages::SIZES, 400_000);
        let above = |limit| numbers.iter().filter(|n| **n > limit).count() as f64;
        // Ten times as large is 10^1.5 times as rare.
        let ratio = above(20_000) / above(200_000);
        assert!((ratio / 31.6 - 1.0).abs() < 0.05, "{ratio}");
    }

    #[test]
    fn numbers_are_fixed_to_the_last() {
        let first = |distribution| drawn(distribution, Messages::SIZES, 3);
        assert_eq!(first(Distribution::Exponential { mean: 20_000 }), EXPONENTIAL);
        assert_eq!(first(Distribution::Pareto { mean: 20_000, shape: 1.5 }), PARETO);
        assert_eq!(first(Distribution::Poisson { mean: 20_000, step: 1_000 }), POISSON);
    }

    const EXPONENTIAL: [u64; 3] = [7_424, 14_837, 26_132];
    const PARETO: [u64; 3] = [8_654, 11_080, 16_146];
    const POISSON: [u64; 3] = [23_000, 17_000, 17_000];

    proptest! {
        #[test]
        fn what_is_drawn_is_within_bounds(
            mean in 10u64..8_000_000, shape in 1.01..20.0f64, kind in 0usize..3, seed: u64,
        ) {
            let distribution = [
                Distribution::Exponential { mean },
                Distribution::Pareto { mean, shape },
                Distribution::Poisson { mean, step: 1 },
            ][kind];
            let draw = Draw::new(distribution, Messages::SIZES);
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            for _ in 0..20 {
                prop_assert!((1..=16 << 20).contains(&draw.next(&mut rng)));
            }
        }
    }
}
