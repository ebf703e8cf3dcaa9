//! The file as it is written: every field as it may stand there, defaults not yet filled in.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use squall_net::{PathConfig, Rate, Ratio, Size, Span};
use squall_proto::CongestionControl;

use crate::flow::{Direction, ReliableFrames};
use crate::measure::Measure;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) duration: Span,
    pub(super) seed: Option<u64>,
    pub(super) seeds: Option<Vec<u64>>,
    pub(super) schedulers: Vec<String>,
    #[serde(default, deserialize_with = "congestion")]
    pub(super) congestion: CongestionControl,
    #[serde(rename = "path", default)]
    pub(super) paths: Vec<PathConfig>,
    #[serde(rename = "flow", default)]
    pub(super) flows: Vec<FlowTable>,
    #[serde(default)]
    pub(super) streams: StreamsTable,
    #[serde(rename = "check", default)]
    pub(super) checks: Vec<CheckTable>,
}

fn congestion<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CongestionControl, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// The fields of all kinds of flows; `flows` sorts out which belong to which.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowTable {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) direction: Option<Direction>,
    pub(super) channel: Option<u32>,
    pub(super) channels: Option<Channels>,
    pub(super) weight: Option<u16>,
    pub(super) start: Option<Span>,
    pub(super) end: Option<Span>,
    pub(super) fps: Option<u32>,
    pub(super) bitrate: Option<Rate>,
    pub(super) keyframe_interval: Option<Span>,
    pub(super) key_ratio: Option<f64>,
    pub(super) jitter: Option<Ratio>,
    pub(super) deadline: Option<Span>,
    pub(super) priority: Option<u8>,
    pub(super) priority_key: Option<u8>,
    pub(super) priority_delta: Option<u8>,
    pub(super) reliable: Option<Reliable>,
    pub(super) size: Option<Size>,
    pub(super) interval: Option<Span>,
    pub(super) backlog: Option<Size>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Video,
    Blocks,
    Bulk,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckTable {
    pub(super) path: Option<String>,
    pub(super) flow: Option<String>,
    pub(super) class: Option<String>,
    pub(super) measure: Measure,
    pub(super) direction: Option<Direction>,
    pub(super) from: Option<Span>,
    pub(super) to: Option<Span>,
    pub(super) at_least: Option<Quantity>,
    pub(super) at_most: Option<Quantity>,
    #[serde(default)]
    pub(super) schedulers: Vec<String>,
}

/// `true`, `false`, `"all"`, `"key"` or `"none"`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reliable(pub(super) ReliableFrames);

impl<'de> Deserialize<'de> for Reliable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl Visitor<'_> for Words {
            type Value = Reliable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, \"all\", \"key\" or \"none\"")
            }

            fn visit_bool<E: de::Error>(self, all: bool) -> Result<Reliable, E> {
                Ok(Reliable(if all { ReliableFrames::All } else { ReliableFrames::None }))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Reliable, E> {
                match word {
                    "all" => Ok(Reliable(ReliableFrames::All)),
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
pub(super) struct Channels(pub(super) crate::flow::Multiplexer);

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
                    "one" => Ok(Channels(crate::flow::Multiplexer::One)),
                    "per-message" => Ok(Channels(crate::flow::Multiplexer::PerMessage)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Channels, E> {
                let count = u32::try_from(number).ok().filter(|count| (1..=1024).contains(count));
                let wrong = || E::invalid_value(de::Unexpected::Signed(number), &self);
                count.map(|count| Channels(crate::flow::Multiplexer::Spread(count))).ok_or_else(wrong)
            }
        }

        deserializer.deserialize_any(Words)
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamsTable {
    #[serde(default)]
    pub(super) scheduler: StreamsKind,
    pub(super) quantum: Option<Size>,
}

#[derive(Debug, Clone, Copy, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StreamsKind {
    #[default]
    Fifo,
    Wrr,
}

/// A limit whose unit is that of its measure.
#[derive(Debug, Clone)]
pub(super) struct Quantity(pub(super) String);

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
