//! Values that are words or something else.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::flow::{Multiplexer, ReliableFrames};

/// `true`, `false`, `"all"`, `"reference"`, `"key"` or `"none"`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reliable(pub(super) ReliableFrames);

impl<'de> Deserialize<'de> for Reliable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl Visitor<'_> for Words {
            type Value = Reliable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, \"all\", \"reference\", \"key\" or \"none\"")
            }

            fn visit_bool<E: de::Error>(self, all: bool) -> Result<Reliable, E> {
                Ok(Reliable(if all { ReliableFrames::All } else { ReliableFrames::None }))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Reliable, E> {
                match word {
                    "all" => Ok(Reliable(ReliableFrames::All)),
                    "reference" => Ok(Reliable(ReliableFrames::Reference)),
                    "key" => Ok(Reliable(ReliableFrames::Key)),
                    "none" => Ok(Reliable(ReliableFrames::None)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }

        deserializer.deserialize_any(Words)
    }
}

/// `"one"`, `"per-message"` or a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Channels(pub(super) Multiplexer);

impl<'de> Deserialize<'de> for Channels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl Visitor<'_> for Words {
            type Value = Channels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"one\", \"per-message\" or a number of channels, 1 to 1024")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Channels, E> {
                match word {
                    "one" => Ok(Channels(Multiplexer::One)),
                    "per-message" => Ok(Channels(Multiplexer::PerMessage)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Channels, E> {
                let count = u32::try_from(number).ok().filter(|count| (1..=1024).contains(count));
                let wrong = || E::invalid_value(de::Unexpected::Signed(number), &self);
                count.map(|count| Channels(Multiplexer::Spread(count))).ok_or_else(wrong)
            }
        }

        deserializer.deserialize_any(Words)
    }
}
