//! One `[[flow]]` table.

use serde::de::{DeserializeOwned, IntoDeserializer};
use squall_units::Span;
use toml::Spanned;
use toml::de::DeTable;

use super::words::{Channels, Reliable};
use super::{MAX_BLOCK, MIN_INTERVAL_US};
use crate::flow::{Direction, Flow, Multiplexer, Production, ReliableFrames, Traffic};
use crate::scenario::check_name;
use crate::scenario::place::{Outline, Problem, Step, problem};

/// Bounds of a `production`, in microseconds.
const MIN_PRODUCTION_US: u64 = 1_000;
const MAX_PRODUCTION_US: u64 = 60_000_000;

/// Channels of a session.
const MAX_CHANNELS: u32 = 1_024;

/// Priorities of a session.
const PRIORITIES: u8 = squall_sched::PRIORITIES;

/// The fields that flows of all kinds have.
const COMMON: [&str; 10] =
    ["name", "kind", "direction", "channel", "channels", "weight", "start", "end", "production", "growing"];

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CommonTable {
    name: String,
    kind: Kind,
    direction: Option<Direction>,
    channel: Option<u32>,
    channels: Option<Channels>,
    weight: Option<u16>,
    start: Option<Span>,
    end: Option<Span>,
    production: Option<Span>,
    growing: Option<bool>,
}

/// The kinds, as they are spelt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Video,
    Blocks,
    Bulk,
    Messages,
    Gop,
    Frames,
    Film,
    Game,
    Dash,
    Tiles,
}

impl Kind {
    fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// A table whose common fields are read.
pub(super) struct Reader<'a> {
    index: usize,
    common: CommonTable,
    /// The fields of its kind. Its position is that of `kind`, where those that are missing are missed.
    own: Spanned<DeTable<'a>>,
}

impl<'a> Reader<'a> {
    /// Of the `index`th table.
    pub(super) fn new(index: usize, outline: &Outline<'a>) -> Result<Self, Problem> {
        let place = [Step::Key("flow"), Step::Index(index)];
        let at = outline.offset(&place);
        let table = outline
            .entry("flow", index)
            .ok_or_else(|| problem(&["flow"], index, &[], "flow: expected a table"))?;
        let (common, own) = table.into_iter().partition(|(key, _)| COMMON.contains(&key.get_ref().as_ref()));
        let common = read(Spanned::new(at..at, common))?;
        let kind = outline.offset(&[place[0], place[1], Step::Key("kind")]);
        Ok(Self { index, common, own: Spanned::new(kind..kind, own) })
    }

    pub(super) fn kind(&self) -> Kind {
        self.common.kind
    }

    /// The flow, after those that are there already, whose blocks are read by `traffic`.
    pub(super) fn flow(
        &self,
        others: &[Flow],
        duration_us: u64,
        traffic: impl Fn(&Self) -> Result<Traffic, Problem>,
    ) -> Result<Flow, Problem> {
        let common = &self.common;
        check_name(&common.name).map_err(|words| self.at("name", words))?;
        if others.iter().any(|other| other.name == common.name) {
            return Err(self.at("name", format!("name: two flows are called {:?}", common.name)));
        }
        let channel = common.channel.unwrap_or(self.index as u32);
        if channel >= MAX_CHANNELS {
            return Err(self.at("channel", format!("channel: {channel} is not below {MAX_CHANNELS}")));
        }
        let (multiplexer, weight) = self.multiplexer(channel)?;
        let start_us = common.start.map_or(0, Span::micros);
        let end_us = common.end.map_or(duration_us, Span::micros);
        if start_us >= end_us {
            let field = if common.start.is_some() { "start" } else { "end" };
            return Err(self.at(field, format!("{field}: the flow ends before it starts")));
        }
        if end_us > duration_us {
            return Err(self.at("end", "end: it is after the end of the run"));
        }
        let traffic = traffic(self)?;
        let direction = common.direction.unwrap_or(Direction::Down);
        let name = common.name.clone();
        let production = self.production(&traffic)?;
        Ok(Flow { name, direction, channel, multiplexer, weight, start_us, end_us, production, traffic })
    }

    /// How the bytes of its blocks come into being.
    fn production(&self, traffic: &Traffic) -> Result<Production, Problem> {
        let (time, growing) = (self.common.production, self.common.growing);
        let Some(time_us) = time.map(Span::micros) else {
            return match growing {
                Some(_) => Err(self.at("growing", "growing: only blocks with a `production` can grow")),
                None => Ok(Production::default()),
            };
        };
        if traffic.backlog().is_some() {
            return Err(self.at("production", "production: the blocks of a bulk flow are there at once"));
        }
        if !(MIN_PRODUCTION_US..=MAX_PRODUCTION_US).contains(&time_us) {
            return Err(self.at("production", "production: it is not within 1ms and 1min"));
        }
        if traffic.deadline_us().is_some_and(|deadline| deadline <= time_us) {
            return Err(self.at("production", "production: it must be shorter than the deadline"));
        }
        Ok(Production { time_us, growing: growing.unwrap_or(false) })
    }

    /// How its blocks are spread over channels from this one on, and their weight.
    fn multiplexer(&self, channel: u32) -> Result<(Multiplexer, u16), Problem> {
        let multiplexer = self.common.channels.map_or(Multiplexer::Unordered, |channels| channels.0);
        let weight = self.common.weight.unwrap_or(1);
        if !(1..=squall_sched::MAX_WEIGHT).contains(&weight) {
            let words = format!("weight: {weight} is not within 1 and {}", squall_sched::MAX_WEIGHT);
            return Err(self.at("weight", words));
        }
        match multiplexer {
            Multiplexer::PerMessage if self.common.weight.is_some() => {
                Err(self.at("weight", "weight: channels per message are everybody's, and have none"))
            }
            Multiplexer::Spread(count) if channel + count > MAX_CHANNELS => {
                Err(self
                    .at("channels", format!("channels: {count} from {channel} on go beyond {MAX_CHANNELS}")))
            }
            _ => Ok((multiplexer, weight)),
        }
    }

    /// The fields of its kind. `T` denies unknown fields; what it misses, it misses at `kind`.
    pub(super) fn fields<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        read(self.own.clone()).map_err(|problem| {
            let unknown =
                problem.words.strip_prefix("unknown field `").and_then(|rest| rest.split_once("`, "));
            // Tables within it have fields too.
            let own = |field: &str| self.own.get_ref().keys().any(|key| key.get_ref() == field);
            let words = unknown.filter(|(field, _)| own(field)).map(|(field, expected)| {
                let kind = self.common.kind.word();
                format!("{field}: a flow of kind \"{kind}\" has no such field, {expected}")
            });
            Problem { words: words.unwrap_or(problem.words), ..problem }
        })
    }

    pub(super) fn priority(
        &self,
        field: &'static str,
        given: Option<u8>,
        default: u8,
    ) -> Result<u8, Problem> {
        let priority = given.unwrap_or(default);
        if priority >= PRIORITIES {
            return Err(self.at(field, format!("{field}: {priority} is not within 0 and {}", PRIORITIES - 1)));
        }
        Ok(priority)
    }

    /// A `size` in bytes that a block may have.
    pub(super) fn block_size(&self, size: u64) -> Result<u64, Problem> {
        if !(1..=MAX_BLOCK).contains(&size) {
            return Err(self.at("size", format!("size: {size} is not within 1 and {MAX_BLOCK} bytes")));
        }
        Ok(size)
    }

    /// An `interval` in microseconds that blocks may have.
    pub(super) fn block_interval(&self, interval: Span) -> Result<u64, Problem> {
        if interval.micros() < MIN_INTERVAL_US {
            return Err(self.at("interval", format!("interval: it must be at least {MIN_INTERVAL_US}us")));
        }
        Ok(interval.micros())
    }

    /// A `deadline` in microseconds.
    pub(super) fn deadline(&self, given: Option<Span>) -> Result<Option<u64>, Problem> {
        match given.map(Span::micros) {
            Some(0) => Err(self.at("deadline", "deadline: nothing arrives within 0")),
            deadline => Ok(deadline),
        }
    }

    /// A `reliable` for blocks that are no frames.
    pub(super) fn reliable_blocks(&self, given: Option<Reliable>) -> Result<bool, Problem> {
        match given {
            None | Some(Reliable(ReliableFrames::All)) => Ok(true),
            Some(Reliable(ReliableFrames::None)) => Ok(false),
            Some(Reliable(ReliableFrames::Key | ReliableFrames::Reference)) => {
                Err(self.at("reliable", "reliable: only a video has key frames, expected true or false"))
            }
        }
    }

    /// Something wrong with one of its fields.
    pub(super) fn at(&self, field: &'static str, words: impl std::fmt::Display) -> Problem {
        problem(&["flow"], self.index, &[field], words)
    }
}

fn read<T: DeserializeOwned>(table: Spanned<DeTable<'_>>) -> Result<T, Problem> {
    let at = table.span().start;
    T::deserialize(table.into_deserializer()).map_err(|error| {
        let at = error.span().map_or(at, |span| span.start);
        Problem { place: vec![Step::Offset(at)], words: error.message().to_owned() }
    })
}
