//! Configuration values with two spellings: a short text for the common case and a table for the rest.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, value::MapAccessDeserializer},
};

/// A value written as a text (`loss = "0.1%"`) or as a table (`loss = { to_bad = "1%", to_good = "20%" }`).
pub(crate) trait TextOrTable: Sized {
    /// Description of the expected input, for error messages.
    const EXPECTED: &'static str;

    /// The table's fields.
    type Table: for<'de> Deserialize<'de>;

    fn from_text(text: &str) -> Result<Self, String>;

    fn from_table(table: Self::Table) -> Result<Self, String>;
}

pub(crate) fn deserialize<'de, V: TextOrTable, D: Deserializer<'de>>(deserializer: D) -> Result<V, D::Error> {
    deserializer.deserialize_any(Visitor(PhantomData))
}

struct Visitor<V>(PhantomData<V>);

impl<'de, V: TextOrTable> de::Visitor<'de> for Visitor<V> {
    type Value = V;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(V::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<V, E> {
        V::from_text(text).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<V, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<V, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<V, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<V, A::Error> {
        let table = V::Table::deserialize(MapAccessDeserializer::new(map))?;
        V::from_table(table).map_err(de::Error::custom)
    }
}

/// Implements [`Deserialize`] and [`FromStr`](std::str::FromStr) for [`TextOrTable`] types.
macro_rules! text_or_table {
    ($($value:ty),* $(,)?) => {$(
        impl<'de> serde::Deserialize<'de> for $value {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::form::deserialize(deserializer)
            }
        }

        impl std::str::FromStr for $value {
            type Err = $crate::error::ConfigError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                <Self as $crate::form::TextOrTable>::from_text(text)
                    .map_err($crate::error::ConfigError::Value)
            }
        }
    )*};
}

pub(crate) use text_or_table;
