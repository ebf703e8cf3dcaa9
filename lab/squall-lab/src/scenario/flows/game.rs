//! `kind = "game"`.

use squall_units::{Rate, Ratio, Span};

use super::MAX_BLOCK;
use super::reader::Reader;
use super::video::frames_within;
use super::words::Reliable;
use crate::flow::{Follow, Game, ReliableFrames};
use crate::scenario::place::Problem;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    fps: Option<u32>,
    bitrate_min: Rate,
    bitrate_max: Rate,
    follow: Option<Follows>,
    share: Option<Ratio>,
    keyframe_interval: Option<Span>,
    key_ratio: Option<f64>,
    jitter: Option<Ratio>,
    deadline: Option<Span>,
    priority_key: Option<u8>,
    priority_delta: Option<u8>,
    reliable: Option<Reliable>,
}

#[derive(Debug, Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Follows {
    Link,
    Safe,
}

pub(super) fn read(reader: &Reader<'_>) -> Result<Game, Problem> {
    let table: Table = reader.fields()?;
    let fps = table.fps.unwrap_or(60);
    if !(1..=1_000).contains(&fps) {
        return Err(reader.at("fps", format!("fps: {fps} is not within 1 and 1000")));
    }
    let (min, max) = (table.bitrate_min.bps(), table.bitrate_max.bps());
    if min == 0 || max < min {
        let words = "bitrate_min: it must be above 0, and at most bitrate_max";
        return Err(reader.at("bitrate_min", words));
    }
    let deadline_us = reader.deadline(table.deadline)?.unwrap_or(200_000);
    let follow = match table.follow {
        None | Some(Follows::Link) => Follow::Link,
        // The other half of the deadline is for what goes wrong.
        Some(Follows::Safe) => Follow::Safe { within_us: deadline_us / 2 },
    };
    let share = table.share.map_or(if follow == Follow::Link { 0.9 } else { 1.0 }, Ratio::as_f64);
    if share == 0.0 {
        return Err(reader.at("share", "share: it must be above 0"));
    }
    let key_ratio = table.key_ratio.unwrap_or(4.0);
    if !(1.0..=100.0).contains(&key_ratio) {
        return Err(reader.at("key_ratio", format!("key_ratio: {key_ratio} is not within 1 and 100")));
    }
    if table.keyframe_interval.map(Span::micros) == Some(0) {
        return Err(reader.at("keyframe_interval", "keyframe_interval: it must be above 0"));
    }
    let game = Game {
        fps,
        bitrate_min_bps: min,
        bitrate_max_bps: max,
        follow,
        share,
        group: table.keyframe_interval.map(|interval| frames_within(interval.micros(), fps)),
        key_ratio,
        size_jitter: table.jitter.map_or(0.0, Ratio::as_f64),
        deadline_us,
        priority_key: reader.priority("priority_key", table.priority_key, 0)?,
        priority_delta: reader.priority("priority_delta", table.priority_delta, 1)?,
        reliable: table.reliable.map_or(ReliableFrames::All, |Reliable(frames)| frames),
    };
    let largest = game.largest_frame();
    if largest > MAX_BLOCK {
        let words = format!("bitrate_max: its largest frame of {largest} bytes is above {MAX_BLOCK} bytes");
        return Err(reader.at("bitrate_max", words));
    }
    Ok(game)
}
