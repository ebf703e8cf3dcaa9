//! Flows from the file: which fields belong to which kind, defaults, bounds.

use squall_net::Span;

use super::file::{FlowTable, Kind, Reliable};
use super::place::{Outline, Problem, Step, problem};
use super::{MAX_FLOWS, check_name};
use crate::flow::{Blocks, Bulk, Direction, Flow, Multiplexer, ReliableFrames, Traffic, Video};

/// Largest block of a session in bytes.
const MAX_BLOCK: u64 = 16 << 20;

/// Most bytes that a session queues.
const MAX_BACKLOG: u64 = 64 << 20;

/// Channels of a session.
const MAX_CHANNELS: u32 = 1_024;

/// Priorities of a session.
const PRIORITIES: u8 = squall_sched::PRIORITIES;

/// Shortest time between two blocks, in microseconds.
const MIN_INTERVAL_US: u64 = 100;

/// Fills in the defaults of all flows and checks them.
pub(super) fn resolve(
    tables: &[FlowTable],
    duration_us: u64,
    outline: &Outline<'_>,
) -> Result<Vec<Flow>, Problem> {
    if !(1..=MAX_FLOWS).contains(&tables.len()) {
        let words = format!("{} [[flow]] tables, expected 1 to {MAX_FLOWS}", tables.len());
        return Err(Problem::at_key("flow", words));
    }
    tables
        .iter()
        .enumerate()
        .map(|(index, table)| {
            let names = tables[..index].iter().map(|other| other.name.as_str());
            Reader { table, index }.flow(names, duration_us, outline)
        })
        .collect()
}

struct Reader<'a> {
    table: &'a FlowTable,
    index: usize,
}

impl Reader<'_> {
    fn flow<'n>(
        &self,
        mut names: impl Iterator<Item = &'n str>,
        duration_us: u64,
        outline: &Outline<'_>,
    ) -> Result<Flow, Problem> {
        let table = self.table;
        check_name(&table.name).map_err(|words| self.at("name", words))?;
        if names.any(|name| name == table.name) {
            return Err(self.at("name", format!("name: two flows are called {:?}", table.name)));
        }
        self.check_fields(outline)?;
        let channel = table.channel.unwrap_or(self.index as u32);
        if channel >= MAX_CHANNELS {
            return Err(self.at("channel", format!("channel: {channel} is not below {MAX_CHANNELS}")));
        }
        let (multiplexer, weight) = self.multiplexer(channel)?;
        let start_us = table.start.map_or(0, Span::micros);
        let end_us = table.end.map_or(duration_us, Span::micros);
        if start_us >= end_us {
            let field = if table.start.is_some() { "start" } else { "end" };
            return Err(self.at(field, format!("{field}: the flow ends before it starts")));
        }
        if end_us > duration_us {
            return Err(self.at("end", "end: it is after the end of the run"));
        }
        let traffic = match table.kind {
            Kind::Video => Traffic::Video(self.video()?),
            Kind::Blocks => Traffic::Blocks(self.blocks()?),
            Kind::Bulk => Traffic::Bulk(self.bulk()?),
        };
        let direction = table.direction.unwrap_or(Direction::Down);
        let name = table.name.clone();
        Ok(Flow { name, direction, channel, multiplexer, weight, start_us, end_us, traffic })
    }

    /// How its blocks are spread over channels from this one on, and their weight.
    fn multiplexer(&self, channel: u32) -> Result<(Multiplexer, u16), Problem> {
        let multiplexer = self.table.channels.map_or(Multiplexer::Unordered, |channels| channels.0);
        let weight = self.table.weight.unwrap_or(1);
        if !(1..=squall_sched::MAX_WEIGHT).contains(&weight) {
            let words = format!("weight: {weight} is not within 1 and {}", squall_sched::MAX_WEIGHT);
            return Err(self.at("weight", words));
        }
        match multiplexer {
            Multiplexer::PerMessage if self.table.weight.is_some() => {
                Err(self.at("weight", "weight: channels per message are everybody's, and have none"))
            }
            Multiplexer::Spread(count) if channel + count > MAX_CHANNELS => {
                Err(self
                    .at("channels", format!("channels: {count} from {channel} on go beyond {MAX_CHANNELS}")))
            }
            _ => Ok((multiplexer, weight)),
        }
    }

    /// Refuses a field that the kind of flow does not have.
    fn check_fields(&self, outline: &Outline<'_>) -> Result<(), Problem> {
        let (kind, own): (&str, &[&str]) = match self.table.kind {
            Kind::Video => ("video", VIDEO_FIELDS),
            Kind::Blocks => ("blocks", BLOCKS_FIELDS),
            Kind::Bulk => ("bulk", BULK_FIELDS),
        };
        let present = outline.keys(&[Step::Key("flow"), Step::Index(self.index)]);
        let others = [VIDEO_FIELDS, BLOCKS_FIELDS, BULK_FIELDS].concat();
        let foreign =
            others.into_iter().find(|field| !own.contains(field) && present.iter().any(|key| key == field));
        foreign.map_or(Ok(()), |field| {
            let words =
                format!("{field}: a flow of kind \"{kind}\" has no such field, it has {}", own.join(", "));
            Err(self.at(field, words))
        })
    }

    fn video(&self) -> Result<Video, Problem> {
        let table = self.table;
        let fps = table.fps.ok_or_else(|| self.missing("fps"))?;
        if !(1..=1_000).contains(&fps) {
            return Err(self.at("fps", format!("fps: {fps} is not within 1 and 1000")));
        }
        let bitrate_bps = table.bitrate.ok_or_else(|| self.missing("bitrate"))?.bps();
        if bitrate_bps == 0 {
            return Err(self.at("bitrate", "bitrate: 0 is no video"));
        }
        let interval_us = table.keyframe_interval.map_or(2_000_000, Span::micros);
        if interval_us == 0 {
            return Err(self.at("keyframe_interval", "keyframe_interval: it must be above 0"));
        }
        let key_ratio = table.key_ratio.unwrap_or(4.0);
        if !(1.0..=100.0).contains(&key_ratio) {
            return Err(self.at("key_ratio", format!("key_ratio: {key_ratio} is not within 1 and 100")));
        }
        let video = Video {
            fps,
            bitrate_bps,
            group: frames_within(interval_us, fps),
            key_ratio,
            size_jitter: table.jitter.map_or(0.0, squall_net::Ratio::as_f64),
            deadline_us: self.deadline()?,
            priority_key: self.priority("priority_key", table.priority_key, 0)?,
            priority_delta: self.priority("priority_delta", table.priority_delta, 1)?,
            reliable: table.reliable.map_or(ReliableFrames::All, |Reliable(frames)| frames),
        };
        let largest = video.largest_frame();
        if largest > MAX_BLOCK {
            let words = format!("bitrate: its largest frame of {largest} bytes is above {MAX_BLOCK} bytes");
            return Err(self.at("bitrate", words));
        }
        Ok(video)
    }

    fn blocks(&self) -> Result<Blocks, Problem> {
        let interval_us = self.table.interval.ok_or_else(|| self.missing("interval"))?.micros();
        if interval_us < MIN_INTERVAL_US {
            return Err(self.at("interval", format!("interval: it must be at least {MIN_INTERVAL_US}us")));
        }
        let reliable = match self.table.reliable {
            None | Some(Reliable(ReliableFrames::All)) => true,
            Some(Reliable(ReliableFrames::None)) => false,
            Some(Reliable(ReliableFrames::Key)) => {
                return Err(
                    self.at("reliable", "reliable: only a video has key frames, expected true or false")
                );
            }
        };
        let size = self.table.size.ok_or_else(|| self.missing("size"))?.bytes();
        Ok(Blocks {
            size: self.block_size(size)?,
            interval_us,
            deadline_us: self.deadline()?,
            priority: self.priority("priority", self.table.priority, 0)?,
            reliable,
        })
    }

    fn bulk(&self) -> Result<Bulk, Problem> {
        let size = self.block_size(self.table.size.map_or(64_000, squall_net::Size::bytes))?;
        let backlog = self.table.backlog.map_or((size * 4).max(2_000_000), squall_net::Size::bytes);
        if !(1..=MAX_BACKLOG).contains(&backlog) {
            return Err(
                self.at("backlog", format!("backlog: {backlog} is not within 1 and {MAX_BACKLOG} bytes"))
            );
        }
        let priority = self.priority("priority", self.table.priority, 0)?;
        Ok(Bulk { size, backlog: backlog.min(MAX_BACKLOG), priority })
    }

    fn priority(&self, field: &'static str, given: Option<u8>, default: u8) -> Result<u8, Problem> {
        let priority = given.unwrap_or(default);
        if priority >= PRIORITIES {
            return Err(self.at(field, format!("{field}: {priority} is not within 0 and {}", PRIORITIES - 1)));
        }
        Ok(priority)
    }

    fn block_size(&self, size: u64) -> Result<u64, Problem> {
        if !(1..=MAX_BLOCK).contains(&size) {
            return Err(self.at("size", format!("size: {size} is not within 1 and {MAX_BLOCK} bytes")));
        }
        Ok(size)
    }

    fn deadline(&self) -> Result<Option<u64>, Problem> {
        match self.table.deadline.map(Span::micros) {
            Some(0) => Err(self.at("deadline", "deadline: nothing arrives within 0")),
            deadline => Ok(deadline),
        }
    }

    fn missing(&self, field: &'static str) -> Problem {
        self.at("kind", format!("missing field `{field}`"))
    }

    fn at(&self, field: &'static str, words: impl std::fmt::Display) -> Problem {
        problem(&["flow"], self.index, &[field], words)
    }
}

/// Frames in this time, rounded, at least 1.
fn frames_within(interval_us: u64, fps: u32) -> u64 {
    let frames = (u128::from(interval_us) * u128::from(fps) + 500_000) / 1_000_000;
    frames.clamp(1, u128::from(u32::MAX)) as u64
}

const VIDEO_FIELDS: &[&str] = &[
    "fps",
    "bitrate",
    "keyframe_interval",
    "key_ratio",
    "jitter",
    "deadline",
    "priority_key",
    "priority_delta",
    "reliable",
];
const BLOCKS_FIELDS: &[&str] = &["size", "interval", "deadline", "priority", "reliable"];
const BULK_FIELDS: &[&str] = &["size", "backlog", "priority"];
