//! Quantities in the unit of the measure that they belong to.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use squall_units::{Rate, Ratio, Size, Span};

use crate::measure::Unit;

/// A limit in the unit of its measure, unparsed.
#[derive(Debug, Clone)]
pub(crate) struct Quantity(String);

impl Quantity {
    /// Parses the value in this unit.
    ///
    /// # Errors
    /// A description of the problem.
    pub(crate) fn value(&self, unit: Unit) -> Result<f64, String> {
        fn read<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
            text.parse().map_err(|error: T::Err| error.to_string())
        }

        let text = &self.0;
        Ok(match unit {
            Unit::Rate => read::<Rate>(text)?.bps() as f64,
            Unit::Size => read::<Size>(text)?.bytes() as f64,
            Unit::Time => read::<Span>(text)?.micros() as f64,
            Unit::Ratio => read::<Ratio>(text)?.as_f64(),
            Unit::Level | Unit::Likeness | Unit::Frames | Unit::Number => read::<f64>(text)?,
        })
    }

    /// `true` for a number that the paper does not give: `nan`.
    pub(crate) fn is_absent(&self) -> bool {
        self.0.eq_ignore_ascii_case("nan")
    }

    /// Like [`Self::value`], with an optional sign.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub(crate) fn signed_value(&self, unit: Unit) -> Result<f64, String> {
        match self.0.strip_prefix('-') {
            Some(rest) => Ok(-Self(rest.to_owned()).value(unit)?),
            None => Self(self.0.strip_prefix('+').unwrap_or(&self.0).to_owned()).value(unit),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl Visitor<'_> for Words {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a text with a unit")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }
        }

        deserializer.deserialize_any(Words)
    }
}
