//! Quantities whose unit is that of the measure beside them.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use squall_units::{Rate, Ratio, Size, Span};

use crate::measure::Unit;

/// A limit whose unit is that of its measure.
#[derive(Debug, Clone)]
pub(crate) struct Quantity(String);

impl Quantity {
    /// The value in this unit.
    ///
    /// # Errors
    /// What is wrong with the text, in words.
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

    /// Whether it stands for a number that is not published: `nan`.
    pub(crate) fn is_absent(&self) -> bool {
        self.0.eq_ignore_ascii_case("nan")
    }

    /// The same, with a sign that may stand before it.
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
