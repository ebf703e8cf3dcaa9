//! `kind = "video"`.

use squall_units::{Rate, Ratio, Span};

use super::MAX_BLOCK;
use super::reader::Reader;
use super::words::Reliable;
use crate::flow::{ReliableFrames, Video};
use crate::scenario::place::Problem;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    fps: u32,
    bitrate: Rate,
    keyframe_interval: Option<Span>,
    key_ratio: Option<f64>,
    jitter: Option<Ratio>,
    deadline: Option<Span>,
    priority_key: Option<u8>,
    priority_delta: Option<u8>,
    reliable: Option<Reliable>,
}

pub(super) fn read(reader: &Reader<'_>) -> Result<Video, Problem> {
    let table: Table = reader.fields()?;
    let fps = table.fps;
    if !(1..=1_000).contains(&fps) {
        return Err(reader.at("fps", format!("fps: {fps} is not within 1 and 1000")));
    }
    let bitrate_bps = table.bitrate.bps();
    if bitrate_bps == 0 {
        return Err(reader.at("bitrate", "bitrate: 0 is no video"));
    }
    let interval_us = table.keyframe_interval.map_or(2_000_000, Span::micros);
    if interval_us == 0 {
        return Err(reader.at("keyframe_interval", "keyframe_interval: it must be above 0"));
    }
    let key_ratio = table.key_ratio.unwrap_or(4.0);
    if !(1.0..=100.0).contains(&key_ratio) {
        return Err(reader.at("key_ratio", format!("key_ratio: {key_ratio} is not within 1 and 100")));
    }
    let video = Video {
        fps,
        bitrate_bps,
        group: frames_within(interval_us, fps),
        key_ratio,
        size_jitter: table.jitter.map_or(0.0, Ratio::as_f64),
        deadline_us: reader.deadline(table.deadline)?,
        priority_key: reader.priority("priority_key", table.priority_key, 0)?,
        priority_delta: reader.priority("priority_delta", table.priority_delta, 1)?,
        reliable: table.reliable.map_or(ReliableFrames::All, |Reliable(frames)| frames),
    };
    let largest = video.largest_frame();
    if largest > MAX_BLOCK {
        let words = format!("bitrate: its largest frame of {largest} bytes is above {MAX_BLOCK} bytes");
        return Err(reader.at("bitrate", words));
    }
    Ok(video)
}

/// Frames in this time, rounded, at least 1.
pub(super) fn frames_within(interval_us: u64, fps: u32) -> u64 {
    let frames = (u128::from(interval_us) * u128::from(fps) + 500_000) / 1_000_000;
    frames.clamp(1, u128::from(u32::MAX)) as u64
}
