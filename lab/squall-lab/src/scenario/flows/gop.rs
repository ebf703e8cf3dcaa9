//! `kind = "gop"`.

use squall_units::{Rate, Ratio, Span};

use super::MAX_BLOCK;
use super::classes::{FrameSizes, Priorities};
use super::reader::Reader;
use super::words::Reliable;
use crate::flow::{FrameType, Gop, ReliableFrames};
use crate::scenario::place::Problem;

/// Most frames of a group.
const MAX_PATTERN: usize = 1_000;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    pattern: String,
    interval: Span,
    bitrate: Rate,
    sizes: Option<FrameSizes>,
    jitter: Option<Ratio>,
    spread: Option<bool>,
    deadline: Option<Span>,
    priorities: Option<Priorities>,
    reliable: Option<Reliable>,
}

pub(super) fn read(reader: &Reader<'_>) -> Result<Gop, Problem> {
    let table: Table = reader.fields()?;
    let interval_us = reader.block_interval(table.interval)?;
    let bitrate_bps = table.bitrate.bps();
    if bitrate_bps == 0 {
        return Err(reader.at("bitrate", "bitrate: 0 is no video"));
    }
    let gop = Gop {
        pattern: pattern(reader, &table.pattern, interval_us)?,
        interval_us,
        bitrate_bps,
        sizes: table.sizes.unwrap_or_default().checked(reader)?,
        size_jitter: table.jitter.map_or(0.0, Ratio::as_f64),
        spread: table.spread.unwrap_or(false),
        deadline_us: reader.deadline(table.deadline)?,
        priorities: table.priorities.unwrap_or_default().of_types(reader)?,
        reliable: table.reliable.map_or(ReliableFrames::Reference, |Reliable(frames)| frames),
    };
    let largest = gop.largest_frame();
    if largest > MAX_BLOCK {
        let words = format!("bitrate: its largest frame of {largest} bytes is above {MAX_BLOCK} bytes");
        return Err(reader.at("bitrate", words));
    }
    Ok(gop)
}

fn pattern(reader: &Reader<'_>, letters: &str, interval_us: u64) -> Result<Vec<FrameType>, Problem> {
    let pattern: Option<Vec<FrameType>> = letters.chars().map(FrameType::of).collect();
    let pattern = pattern.filter(|pattern| pattern.first() == Some(&FrameType::I));
    let words = format!("pattern: {letters:?} is not an I followed by any of I, P and B");
    let pattern = pattern.ok_or_else(|| reader.at("pattern", words))?;
    let most = MAX_PATTERN.min(interval_us as usize);
    if pattern.len() > most {
        return Err(reader.at("pattern", format!("pattern: {} frames are more than {most}", pattern.len())));
    }
    Ok(pattern)
}
