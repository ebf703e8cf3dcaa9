//! `kind = "film"`.

use squall_media::encoder::EncodeError;
use squall_media::{ClipConfig, EncoderConfig};
use squall_units::{Rate, Span};

use super::reader::Reader;
use super::video::frames_within;
use super::words::Reliable;
use crate::flow::{Film, ReliableFrames};
use crate::scenario::place::Problem;

/// Longest round of a film, in microseconds: it is kept in memory.
const MAX_LENGTH_US: u64 = 60_000_000;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    width: Option<u32>,
    height: Option<u32>,
    fps: Option<u32>,
    bitrate: Rate,
    keyframe_interval: Option<Span>,
    #[serde(default)]
    disposable: bool,
    length: Option<Span>,
    scene: Option<u64>,
    deadline: Option<Span>,
    priority_key: Option<u8>,
    priority_delta: Option<u8>,
    priority_disposable: Option<u8>,
    reliable: Option<Reliable>,
}

pub(super) fn read(reader: &Reader<'_>) -> Result<Film, Problem> {
    let table: Table = reader.fields()?;
    let fps = table.fps.unwrap_or(30);
    let interval_us = table.keyframe_interval.map_or(2_000_000, Span::micros);
    let length_us = table.length.map_or(10_000_000, Span::micros);
    if !(1..=MAX_LENGTH_US).contains(&length_us) {
        return Err(reader.at("length", "length: it must be above 0, and at most one minute"));
    }
    let encoder = EncoderConfig {
        width: table.width.unwrap_or(1280),
        height: table.height.unwrap_or(720),
        fps: fps.into(),
        bitrate_bps: u32::try_from(table.bitrate.bps()).unwrap_or(u32::MAX),
        key_interval: frames_within(interval_us, fps) as u32,
        disposable: table.disposable,
        quantiser: None,
    };
    encoder.check().map_err(|error| reader.at(field(&error), error))?;
    Ok(Film {
        clip: ClipConfig { encoder, seed: table.scene.unwrap_or(1) },
        pictures: frames_within(length_us, fps),
        deadline_us: reader.deadline(table.deadline)?.unwrap_or(150_000),
        priorities: [
            reader.priority("priority_key", table.priority_key, 0)?,
            reader.priority("priority_delta", table.priority_delta, 1)?,
            reader.priority("priority_disposable", table.priority_disposable, 2)?,
        ],
        reliable: table.reliable.map_or(ReliableFrames::Reference, |Reliable(frames)| frames),
    })
}

/// The field of the scenario that the encoder does not take.
fn field(error: &EncodeError) -> &'static str {
    match error {
        EncodeError::Setting { field: "fps", .. } => "fps",
        EncodeError::Setting { field: "bitrate_bps", .. } => "bitrate",
        EncodeError::Setting { field: "key_interval", .. } => "keyframe_interval",
        EncodeError::Setting { field: "height", .. } => "height",
        EncodeError::Size(size) if size.width.is_multiple_of(2) => "height",
        _ => "width",
    }
}
