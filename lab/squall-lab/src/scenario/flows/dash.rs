//! `kind = "dash"`.

use squall_units::{Rate, Ratio, Size, Span};

use super::MAX_BLOCK;
use super::reader::Reader;
use crate::flow::Dash;
use crate::scenario::place::Problem;

/// Shortest segment in microseconds.
const MIN_SEGMENT_US: u64 = 1_000;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    bitrate: Rate,
    segment: Option<Span>,
    buffer: Option<Span>,
    request: Option<Size>,
    jitter: Option<Ratio>,
    deadline: Option<Span>,
    priority: Option<u8>,
}

pub(super) fn read(reader: &Reader<'_>) -> Result<Dash, Problem> {
    let table: Table = reader.fields()?;
    let bitrate_bps = table.bitrate.bps();
    if bitrate_bps == 0 {
        return Err(reader.at("bitrate", "bitrate: 0 is no film"));
    }
    let segment_us = table.segment.map_or(200_000, Span::micros);
    if segment_us < MIN_SEGMENT_US {
        return Err(reader.at("segment", format!("segment: it must be at least {MIN_SEGMENT_US}us")));
    }
    let buffer_us = table.buffer.map_or(2 * segment_us, Span::micros);
    if buffer_us == 0 || !buffer_us.is_multiple_of(segment_us) {
        let words = format!("buffer: it must be a whole number of segments of {segment_us}us, at least one");
        return Err(reader.at("buffer", words));
    }
    let request = table.request.map_or(300, Size::bytes);
    if !(1..=MAX_BLOCK).contains(&request) {
        return Err(reader.at("request", format!("request: {request} is not within 1 and {MAX_BLOCK} bytes")));
    }
    let dash = Dash {
        bitrate_bps,
        segment_us,
        buffer: buffer_us / segment_us,
        request,
        size_jitter: table.jitter.map_or(0.0, Ratio::as_f64),
        deadline_us: reader.deadline(table.deadline)?,
        priority: reader.priority("priority", table.priority, 0)?,
    };
    let largest = dash.largest_segment();
    if largest > MAX_BLOCK {
        let words = format!("bitrate: its largest segment of {largest} bytes is above {MAX_BLOCK} bytes");
        return Err(reader.at("bitrate", words));
    }
    Ok(dash)
}
