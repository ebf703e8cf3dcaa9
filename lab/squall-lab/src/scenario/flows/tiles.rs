//! `kind = "tiles"`.

use squall_units::{Rate, Ratio, Span};

use super::MAX_BLOCK;
use super::reader::Reader;
use super::video::frames_within;
use crate::flow::{Head, ReliableTiles, TilePictures, Tiles, Viewport};
use crate::scenario::place::Problem;

/// Longest time for which the sender does not know of a head, and from sending to showing, in microseconds: what the
/// head does in between is kept.
const MAX_AGE_US: u64 = 10_000_000;

/// Most bytes of luma of real pictures, which are kept.
const MAX_PICTURE_BYTES: u64 = 512 << 20;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    fps: Option<u32>,
    bitrate: Rate,
    columns: Option<u16>,
    rows: Option<u16>,
    #[serde(default)]
    viewport: ViewportTable,
    #[serde(default)]
    head: HeadTable,
    feedback_delay: Option<Span>,
    margin: Option<Ratio>,
    outside: Option<Ratio>,
    jitter: Option<Ratio>,
    deadline: Option<Span>,
    #[serde(default)]
    reliable: Reliable,
    pictures: Option<PicturesTable>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PicturesTable {
    width: Option<u32>,
    height: Option<u32>,
    length: Option<Span>,
    scene: Option<u64>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewportTable {
    width: Option<f64>,
    height: Option<f64>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadTable {
    speed: Option<f64>,
    tilt: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Reliable {
    None,
    Viewport,
    #[default]
    Margin,
    All,
}

impl From<Reliable> for ReliableTiles {
    fn from(word: Reliable) -> Self {
        match word {
            Reliable::None => Self::None,
            Reliable::Viewport => Self::Viewport,
            Reliable::Margin => Self::Margin,
            Reliable::All => Self::All,
        }
    }
}

pub(super) fn read(reader: &Reader<'_>) -> Result<Tiles, Problem> {
    let table: Table = reader.fields()?;
    let fps = number(reader, "fps", table.fps.unwrap_or(30), 1..=1_000)?;
    let bitrate_bps = table.bitrate.bps();
    if bitrate_bps == 0 {
        return Err(reader.at("bitrate", "bitrate: 0 is no video"));
    }
    let (viewport, head) = (table.viewport, table.head);
    let viewport = Viewport {
        width: degrees(reader, "viewport", "width", viewport.width.unwrap_or(100.0), 1.0..=360.0)?,
        height: degrees(reader, "viewport", "height", viewport.height.unwrap_or(90.0), 1.0..=180.0)?,
    };
    let head = Head {
        speed: degrees(reader, "head", "speed", head.speed.unwrap_or(40.0), 0.0..=360.0)?,
        tilt: degrees(reader, "head", "tilt", head.tilt.unwrap_or(15.0), 0.0..=45.0)?,
    };
    let age =
        |field, given: Option<u64>, default| number(reader, field, given.unwrap_or(default), 0..=MAX_AGE_US);
    let tiles = Tiles {
        fps,
        bitrate_bps,
        columns: number(reader, "columns", table.columns.unwrap_or(12), 1..=64)?,
        rows: number(reader, "rows", table.rows.unwrap_or(6), 1..=32)?,
        viewport,
        head,
        feedback_us: age("feedback_delay", table.feedback_delay.map(Span::micros), 50_000)?,
        margin_share: table.margin.map_or(0.5, Ratio::as_f64),
        outside_share: table.outside.map_or(0.1, Ratio::as_f64),
        size_jitter: table.jitter.map_or(0.0, Ratio::as_f64),
        deadline_us: age("deadline", reader.deadline(table.deadline)?, 80_000)?,
        reliable: table.reliable.into(),
        pictures: table.pictures.map(|table| pictures(reader, &table, fps)).transpose()?,
    };
    if let Some(pictures) = &tiles.pictures {
        if table.jitter.is_some() {
            return Err(reader.at("jitter", "jitter: real pictures have sizes of their own"));
        }
        let cut = tiles.sphere(pictures).check();
        cut.map_err(|error| reader.at("pictures", format!("pictures: {error}")))?;
    }
    let largest = tiles.largest_tile();
    if largest > MAX_BLOCK {
        let words = format!("bitrate: its largest tile of {largest} bytes is above {MAX_BLOCK} bytes");
        return Err(reader.at("bitrate", words));
    }
    Ok(tiles)
}

fn pictures(reader: &Reader<'_>, table: &PicturesTable, fps: u32) -> Result<TilePictures, Problem> {
    let (width, height) = (table.width.unwrap_or(1536), table.height.unwrap_or(768));
    let pictures = frames_within(table.length.map_or(2_000_000, Span::micros), fps);
    let bytes = u64::from(width).saturating_mul(height.into()).saturating_mul(pictures);
    if bytes > MAX_PICTURE_BYTES {
        let words = format!("pictures: {pictures} of {width}x{height} pixels are above 512 MiB");
        return Err(reader.at("pictures", words));
    }
    Ok(TilePictures { width, height, pictures: pictures as u32, scene: table.scene.unwrap_or(1) })
}

fn number<T: PartialOrd + std::fmt::Display + Copy>(
    reader: &Reader<'_>,
    field: &'static str,
    value: T,
    bounds: std::ops::RangeInclusive<T>,
) -> Result<T, Problem> {
    let (least, most) = (bounds.start(), bounds.end());
    let words = || format!("{field}: {value} is not within {least} and {most}");
    if bounds.contains(&value) { Ok(value) } else { Err(reader.at(field, words())) }
}

fn degrees(
    reader: &Reader<'_>,
    field: &'static str,
    part: &str,
    value: f64,
    bounds: std::ops::RangeInclusive<f64>,
) -> Result<f64, Problem> {
    let (least, most) = (bounds.start(), bounds.end());
    let words = || format!("{field}: {part}: {value} is not within {least} and {most} degrees");
    if bounds.contains(&value) { Ok(value) } else { Err(reader.at(field, words())) }
}
