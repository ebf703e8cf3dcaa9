//! Quantities that vary from message to message, and random numbers with their distributions.

use std::fmt;
use std::marker::PhantomData;

use rand::{Rng, RngExt};
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::fields::{Checked, require};
use super::real::{exp, ln};

/// Distribution of a quantity: `"20kB"`, `{ uniform = ["10kB", "30kB"] }`, `{ exponential = "20kB"
/// }`, `{ pareto = { mean = "20kB", shape = 1.5 } }` or `{ poisson = "20kB" }`, with the unit of
/// `T`.
///
/// Numbers outside the bounds of the quantity are clamped. The mean applies to the clamped numbers.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase", remote = "Self")]
pub enum Distribution<T> {
    /// A constant.
    Constant(T),
    /// Uniform between the two values, inclusive.
    Uniform((T, T)),
    /// Exponential with this mean: times between independent events.
    Exponential(T),
    /// Pareto: heavy-tailed, with a few values far larger than most.
    Pareto(Pareto<T>),
    /// Poisson with this mean, at least 10 steps: a count of independent events, in steps.
    Poisson(T),
}

/// A Pareto distribution.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pareto<T> {
    /// Mean.
    pub mean: T,
    /// Tail index, above 1; the smaller, the heavier the tail. Without the bounds, the variance
    /// would be infinite at 2 and below.
    pub shape: f64,
}

/// A quantity in integer multiples of a unit.
#[derive(Debug)]
pub(super) struct Quantity<T> {
    pub(super) whole: fn(T) -> u64,
    /// Name of the unit in errors.
    pub(super) unit: &'static str,
    pub(super) least: u64,
    pub(super) greatest: u64,
    /// Unit that Poisson numbers count in.
    pub(super) step: u64,
}

impl<T: Copy> Quantity<T> {
    /// Requires a distribution of numbers within the bounds. An unbounded distribution must have
    /// its mean in the lower half of them, to leave room above.
    pub(super) fn check(&self, field: &'static str, distribution: Distribution<T>) -> Checked {
        let unit = self.unit;
        let within = |what: &str, value: T, least: u64, greatest: u64| {
            let value = (self.whole)(value);
            let words = format!("{what}{value} {unit} is not within {least} and {greatest} {unit}");
            require((least..=greatest).contains(&value), field, words)
        };
        let (least, greatest) = (self.least, self.greatest);
        let mean = |mean: T, least: u64| within("a mean of ", mean, least, greatest / 2);
        match distribution {
            Distribution::Constant(value) => within("", value, least, greatest),
            Distribution::Uniform((from, to)) => {
                within("", from, least, greatest)?;
                within("the upper end of ", to, (self.whole)(from), greatest)
            }
            Distribution::Exponential(value) => mean(value, least),
            Distribution::Pareto(Pareto { mean: value, shape }) => {
                mean(value, least)?;
                let words = format_args!("shape {shape} is not within 1.01 and 100");
                require((1.01..=100.0).contains(&shape), field, words)
            }
            Distribution::Poisson(value) => mean(value, least.max(10 * self.step)),
        }
    }

    /// Creates the generator for a distribution.
    pub(super) fn draw(&self, distribution: Distribution<T>) -> Draw {
        let bounds = (self.least as f64, self.greatest as f64);
        let shape = match distribution {
            Distribution::Constant(value) => Shape::Constant((self.whole)(value)),
            Distribution::Uniform((from, to)) => {
                let from = (self.whole)(from);
                Shape::Uniform(from, (self.whole)(to).max(from))
            }
            Distribution::Exponential(mean) => {
                let mean = (self.whole)(mean) as f64;
                Shape::Exponential { mean: solve(mean, bounds, |free| exponential_mean(free, bounds)) }
            }
            Distribution::Pareto(Pareto { mean, shape }) => {
                let mean = (self.whole)(mean) as f64;
                Shape::Pareto { scale: solve(mean, bounds, |scale| pareto_mean(scale, shape, bounds)), shape }
            }
            Distribution::Poisson(mean) => {
                Shape::Poisson { events: (self.whole)(mean) as f64 / self.step as f64, step: self.step }
            }
        };
        Draw { shape, least: self.least, greatest: self.greatest }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Distribution<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = Distribution<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a quantity, or one of the tables constant, uniform, exponential, pareto and poisson",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Distribution<T>, E> {
                T::deserialize(StrDeserializer::new(text)).map(Distribution::Constant)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Distribution<T>, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Distribution<T>, A::Error> {
                Distribution::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}

/// Generates integers with a distribution, clamped to the bounds.
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

/// Returns a number above 0 and up to 1.
fn uniform(rng: &mut Pcg64Mcg) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

fn whole(value: f64) -> u64 {
    (value + 0.5) as u64
}

/// Mean of an exponential distribution with this mean after clamping to the bounds: the lower bound
/// plus the integral of the tail from there to the upper bound.
fn exponential_mean(free: f64, (least, greatest): (f64, f64)) -> f64 {
    least + free * (exp(-least / free) - exp(-greatest / free))
}

/// Mean of a Pareto distribution after clamping to the bounds.
fn pareto_mean(scale: f64, shape: f64, (least, greatest): (f64, f64)) -> f64 {
    let from = least.max(scale);
    let tail = |x: f64| exp(shape * ln(scale / x)) * x / (shape - 1.0);
    from + tail(from) - tail(greatest)
}

/// Solves for the parameter at which the increasing function `mean_of` has this value, to full
/// precision.
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

/// Returns a Poisson number with this mean, at least 10, by transformed rejection (W. Hörmann, "The
/// transformed rejection method for generating Poisson random variables", 1993, algorithm PTRS).
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
    // The series needs large arguments; smaller ones are computed from 10 downwards.
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

    const SIZES: (u64, u64) = (1, 16 << 20);

    fn draw(distribution: Distribution<u64>, (least, greatest): (u64, u64), step: u64) -> Draw {
        Quantity { whole: |n| n, unit: "bytes", least, greatest, step }.draw(distribution)
    }

    fn drawn(distribution: Distribution<u64>, bounds: (u64, u64), count: usize) -> Vec<u64> {
        stepped(distribution, bounds, 1, count)
    }

    fn stepped(distribution: Distribution<u64>, bounds: (u64, u64), step: u64, count: usize) -> Vec<u64> {
        let draw = draw(distribution, bounds, step);
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
    fn means_and_deviations_are_those_of_the_distributions() {
        let mean = 20_000;
        // A Pareto distribution of shape 2.5 has a standard deviation of 0.894 of its mean; the
        // estimate converges slowly.
        let cases = [
            (Distribution::Constant(mean), 1, 0.0, 0.0),
            (Distribution::Uniform((10_000, 30_000)), 1, 10_000.0 / 3f64.sqrt(), 0.01),
            (Distribution::Exponential(mean), 1, 20_000.0, 0.01),
            (Distribution::Pareto(Pareto { mean, shape: 2.5 }), 1, 17_889.0, 0.15),
            (Distribution::Poisson(mean), 1, 20_000f64.sqrt(), 0.01),
            (Distribution::Poisson(mean), 1_000, 20f64.sqrt() * 1_000.0, 0.01),
            (Distribution::Poisson(mean), 2_000, 10f64.sqrt() * 2_000.0, 0.01),
        ];
        for (distribution, step, spread, tolerance) in cases {
            let (drawn_mean, drawn_spread) = moments(&stepped(distribution, SIZES, step, 400_000));
            assert!((drawn_mean / 20_000.0 - 1.0).abs() < 0.01, "{distribution:?}: {drawn_mean}");
            assert!((drawn_spread - spread).abs() <= spread * tolerance, "{distribution:?}: {drawn_spread}");
        }
    }

    #[test]
    fn bounds_leave_the_mean_alone() {
        let bounds = (100, 5_000);
        let heavy = [
            (Distribution::Exponential(200), 200.0),
            (Distribution::Exponential(2_000), 2_000.0),
            (Distribution::Pareto(Pareto { mean: 400, shape: 1.1 }), 400.0),
        ];
        for (distribution, wanted) in heavy {
            let numbers = drawn(distribution, bounds, 400_000);
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
        let numbers = drawn(Distribution::Pareto(Pareto { mean: 30_000, shape: 1.5 }), SIZES, 400_000);
        let above = |limit| numbers.iter().filter(|n| **n > limit).count() as f64;
        // Values ten times as large are 10^1.5 times as rare.
        let ratio = above(20_000) / above(200_000);
        assert!((ratio / 31.6 - 1.0).abs() < 0.05, "{ratio}");
    }

    #[test]
    fn numbers_are_fixed_to_the_last() {
        let first = |distribution| stepped(distribution, SIZES, 1_000, 3);
        assert_eq!(first(Distribution::Exponential(20_000)), EXPONENTIAL);
        assert_eq!(first(Distribution::Pareto(Pareto { mean: 20_000, shape: 1.5 })), PARETO);
        assert_eq!(first(Distribution::Poisson(20_000)), POISSON);
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
                Distribution::Exponential(mean),
                Distribution::Pareto(Pareto { mean, shape }),
                Distribution::Poisson(mean),
            ][kind];
            let draw = draw(distribution, SIZES, 1);
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            for _ in 0..20 {
                prop_assert!((1..=16 << 20).contains(&draw.next(&mut rng)));
            }
        }
    }
}
