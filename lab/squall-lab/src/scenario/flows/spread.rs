//! A quantity that is given, or drawn anew each time.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::flow::Distribution;

/// `"20kB"`, `{ uniform = ["10kB", "30kB"] }`, `{ exponential = "20kB" }`,
/// `{ pareto = { mean = "20kB", shape = 1.5 } }` or `{ poisson = "20kB" }`, with the unit of `T`.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "lowercase", remote = "Self")]
pub(super) enum Spread<T> {
    Constant(T),
    Uniform((T, T)),
    Exponential(T),
    Pareto(Pareto<T>),
    Poisson(T),
}

#[derive(Debug, Clone, Copy, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pareto<T> {
    mean: T,
    shape: f64,
}

impl<T: Copy> Spread<T> {
    /// In whole units of the laboratory; `step` is what Poisson numbers count.
    pub(super) fn distribution(self, units: impl Fn(T) -> u64, step: u64) -> Distribution {
        match self {
            Spread::Constant(value) => Distribution::Constant(units(value)),
            Spread::Uniform((from, to)) => Distribution::Uniform { from: units(from), to: units(to) },
            Spread::Exponential(mean) => Distribution::Exponential { mean: units(mean) },
            Spread::Pareto(Pareto { mean, shape }) => Distribution::Pareto { mean: units(mean), shape },
            Spread::Poisson(mean) => Distribution::Poisson { mean: units(mean), step },
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spread<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = Spread<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a quantity, or one of the tables constant, uniform, exponential, pareto and poisson",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Spread<T>, E> {
                T::deserialize(StrDeserializer::new(text)).map(Spread::Constant)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Spread<T>, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Spread<T>, A::Error> {
                Spread::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}
