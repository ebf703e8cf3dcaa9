//! Flows from the file: common fields, fields of the kind, defaults and bounds.

use std::fmt;
use std::path::Path;

use serde::de::{self, Deserialize, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use squall_sched::{BuildError, Registry};
use squall_units::Span;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::definition::{MAX_FLOWS, check_name};
use super::place::{Outline, Problem, Step, problem};
use crate::flow::{Direction, Flow, Production, UNORDERED};
use crate::traffic::Traffic;

/// Allowed values of `production`.
const PRODUCTION: std::ops::RangeInclusive<Span> = Span::from_millis(1)..=Span::from_millis(60_000);

/// Channels per session.
const MAX_CHANNELS: u32 = squall_proto::MAX_CHANNELS as u32;

/// Fields of flows of all kinds.
const COMMON: [&str; 12] = [
    "name",
    "kind",
    "direction",
    "channel",
    "channels",
    "weight",
    "start",
    "end",
    "production",
    "growing",
    "dependencies",
    "partial",
];

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    name: String,
    kind: Spanned<String>,
    direction: Option<Direction>,
    channel: Option<u32>,
    channels: Option<Channels>,
    weight: Option<u16>,
    start: Option<Span>,
    end: Option<Span>,
    production: Option<Span>,
    growing: Option<bool>,
    dependencies: Option<bool>,
    partial: Option<bool>,
}

/// Reads all flows, fills in their defaults and checks them.
pub(super) fn resolve(count: usize, duration_us: u64, outline: &Outline<'_>) -> Result<Vec<Flow>, Problem> {
    if !(1..=MAX_FLOWS).contains(&count) {
        let words = format!("{count} [[flow]] tables, expected 1 to {MAX_FLOWS}");
        return Err(Problem::at_key("flow", words));
    }
    let mut flows: Vec<Flow> = Vec::with_capacity(count);
    for index in 0..count {
        let reader = Reader::new(index, outline)?;
        flows.push(reader.flow(&flows, duration_us)?);
    }
    Ok(flows)
}

/// Loads the files that flows name, relative to this folder.
pub(super) fn load(flows: &mut [Flow], base: &Path) -> Result<(), Problem> {
    flows.iter_mut().enumerate().try_for_each(|(index, flow)| {
        let loaded = flow.traffic.load(base);
        loaded.map_err(|invalid| problem(&["flow"], index, &[invalid.field], invalid.words))
    })
}

/// Checks the multiplexer of a flow and the channels that it uses, except for errors that
/// `leaves_out` accepts. Returns the wrong field and the reason.
pub(super) fn check_channels(
    flow: &Flow,
    registry: &Registry,
    leaves_out: impl Fn(&BuildError) -> bool,
) -> Result<(), (&'static str, String)> {
    let count = match registry.build_multiplexer(&flow.multiplexer) {
        Ok(built) => u32::from(built.channels()),
        Err(error) if leaves_out(&error) => return Ok(()),
        Err(error) => return Err(("channels", format!("channels: {error}"))),
    };
    let takes_all = count == MAX_CHANNELS;
    if takes_all && flow.weight != 1 {
        return Err(("weight", "weight: channels per message are everybody's, and have none".to_owned()));
    }
    if !takes_all && flow.channel + count > MAX_CHANNELS {
        let words = format!("channels: {count} from {} on go beyond {MAX_CHANNELS}", flow.channel);
        return Err(("channels", words));
    }
    Ok(())
}

/// A `[[flow]]` table whose common fields have been read.
struct Reader<'a> {
    index: usize,
    common: Common,
    /// Fields of the kind. Their position is that of `kind`, where missing fields are reported.
    own: Spanned<DeValue<'a>>,
}

impl<'a> Reader<'a> {
    fn new(index: usize, outline: &Outline<'a>) -> Result<Self, Problem> {
        let place = [Step::Key("flow"), Step::Index(index), Step::Key("kind")];
        let table = outline
            .entry("flow", index)
            .ok_or_else(|| problem(&["flow"], index, &[], "flow: expected a table"))?;
        let (common, own): (DeTable<'_>, DeTable<'_>) =
            table.into_iter().partition(|(key, _)| COMMON.contains(&key.get_ref().as_ref()));
        let common = deserialize(at(outline.offset(&place[..2]), DeValue::Table(common)))?;
        Ok(Self { index, common, own: at(outline.offset(&place), DeValue::Table(own)) })
    }

    /// Resolves the flow. `others` are the flows before it.
    fn flow(&self, others: &[Flow], duration_us: u64) -> Result<Flow, Problem> {
        let common = &self.common;
        check_name(&common.name).map_err(|words| self.at("name", words))?;
        if others.iter().any(|other| other.name == common.name) {
            return Err(self.at("name", format!("name: two flows are called {:?}", common.name)));
        }
        let channel = common.channel.unwrap_or(self.index as u32);
        if channel >= MAX_CHANNELS {
            return Err(self.at("channel", format!("channel: {channel} is not below {MAX_CHANNELS}")));
        }
        let multiplexer = common.channels.as_ref().map_or(UNORDERED, |channels| &channels.0).to_owned();
        let weight = self.weight()?;
        let start_us = common.start.map_or(0, Span::micros);
        let end_us = common.end.map_or(duration_us, Span::micros);
        if start_us >= end_us {
            let field = if common.start.is_some() { "start" } else { "end" };
            return Err(self.at(field, format!("{field}: the flow ends before it starts")));
        }
        if end_us > duration_us {
            return Err(self.at("end", "end: it is after the end of the run"));
        }
        let traffic = self.traffic()?;
        let direction = common.direction.unwrap_or(Direction::Down);
        let production = self.production(&traffic)?;
        let flow = Flow::new(&common.name, direction, end_us, traffic);
        let dependencies = common.dependencies.unwrap_or(false);
        let partial = common.partial.unwrap_or(false);
        Ok(Flow { channel, multiplexer, weight, start_us, production, dependencies, partial, ..flow })
    }

    /// Resolves the traffic from the fields of the kind.
    fn traffic(&self) -> Result<Traffic, Problem> {
        let kind = &self.common.kind;
        let key = Spanned::new(kind.span(), kind.get_ref().as_str().into());
        let tagged = DeTable::from_iter([(key, self.own.clone())]);
        let traffic: Traffic =
            deserialize(at(kind.span().start, DeValue::Table(tagged))).map_err(|found| {
                let unknown =
                    found.words.strip_prefix("unknown field `").and_then(|rest| rest.split_once("`, "));
                // The unknown field may belong to a nested table.
                let own = |field: &str| self.own.get_ref().get(field).is_some();
                let words = unknown.filter(|(field, _)| own(field)).map(|(field, expected)| {
                    format!("{field}: a flow of kind {:?} has no such field, {expected}", kind.get_ref())
                });
                Problem { words: words.unwrap_or(found.words), ..found }
            })?;
        if traffic.deadline_us() == Some(0) {
            return Err(self.at("deadline", "deadline: nothing arrives within 0"));
        }
        traffic.validate().map_err(|invalid| self.at(invalid.field, invalid.words))?;
        Ok(traffic)
    }

    /// Resolves the way in which the bytes of the blocks become available.
    fn production(&self, traffic: &Traffic) -> Result<Production, Problem> {
        let (time, growing) = (self.common.production, self.common.growing);
        let Some(time) = time else {
            return match growing {
                Some(_) => Err(self.at("growing", "growing: only blocks with a `production` can grow")),
                None => Ok(Production::default()),
            };
        };
        if traffic.backlog().is_some() {
            return Err(self.at("production", "production: the blocks of a bulk flow are there at once"));
        }
        if !PRODUCTION.contains(&time) {
            return Err(self.at("production", "production: it is not within 1ms and 1min"));
        }
        if traffic.deadline().is_some_and(|deadline| deadline <= time) {
            return Err(self.at("production", "production: it must be shorter than the deadline"));
        }
        Ok(Production { time_us: time.micros(), growing: growing.unwrap_or(false) })
    }

    /// Resolves the weight of the channels.
    fn weight(&self) -> Result<u16, Problem> {
        let weight = self.common.weight.unwrap_or(1);
        if !(1..=squall_sched::MAX_WEIGHT).contains(&weight) {
            let words = format!("weight: {weight} is not within 1 and {}", squall_sched::MAX_WEIGHT);
            return Err(self.at("weight", words));
        }
        Ok(weight)
    }

    /// Creates a problem with one of the flow's fields.
    fn at(&self, field: &'static str, words: impl fmt::Display) -> Problem {
        problem(&["flow"], self.index, &[field], words)
    }
}

/// Creates a value at this byte of the text.
fn at(offset: usize, value: DeValue<'_>) -> Spanned<DeValue<'_>> {
    Spanned::new(offset..offset, value)
}

fn deserialize<T: DeserializeOwned>(value: Spanned<DeValue<'_>>) -> Result<T, Problem> {
    let at = value.span().start;
    T::deserialize(value.into_deserializer()).map_err(|error| {
        let at = error.span().map_or(at, |span| span.start);
        Problem { place: vec![Step::Offset(at)], words: error.message().to_owned() }
    })
}

/// Name of a multiplexer with its options, or a number of ordered channels.
#[derive(Debug, Clone)]
struct Channels(String);

impl<'de> Deserialize<'de> for Channels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl Visitor<'_> for Words {
            type Value = Channels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a multiplexer such as \"one\", or a number of channels, 1 to 1024")
            }

            fn visit_str<E: de::Error>(self, description: &str) -> Result<Channels, E> {
                Ok(Channels(description.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Channels, E> {
                let count = u32::try_from(number).ok().filter(|count| (1..=1024).contains(count));
                let wrong = || E::invalid_value(de::Unexpected::Signed(number), &self);
                count.map(|count| Channels(format!("spread(channels={count})"))).ok_or_else(wrong)
            }
        }

        deserializer.deserialize_any(Words)
    }
}

#[cfg(test)]
mod tests;
