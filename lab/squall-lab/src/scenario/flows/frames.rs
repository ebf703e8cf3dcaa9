//! `kind = "frames"`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use squall_units::{Rate, Span};

use super::MAX_BLOCK;
use super::classes::Priorities;
use super::reader::Reader;
use super::words::Reliable;
use crate::flow::{FrameClasses, FrameTrace, Frames, ReliableFrames};
use crate::scenario::place::Problem;

/// Most layers of a film.
const MAX_LAYERS: u8 = 8;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    file: PathBuf,
    layers: Option<u8>,
    bitrate: Option<Rate>,
    deadline: Option<Span>,
    priorities: Option<Priorities>,
    reliable: Option<Reliable>,
}

pub(super) fn read(reader: &Reader<'_>) -> Result<Frames, Problem> {
    let table: Table = reader.fields()?;
    if table.bitrate.is_some_and(|bitrate| bitrate.bps() == 0) {
        return Err(reader.at("bitrate", "bitrate: 0 is no video"));
    }
    let priorities = table.priorities.unwrap_or_default();
    let reliable = table.reliable.map_or(ReliableFrames::Reference, |Reliable(frames)| frames);
    let by = match table.layers {
        None => FrameClasses::Types(priorities.of_types(reader)?),
        Some(layers @ 1..=MAX_LAYERS) => FrameClasses::Layers(priorities.of_layers(layers, reader)?),
        Some(layers) => {
            return Err(reader.at("layers", format!("layers: {layers} is not within 1 and {MAX_LAYERS}")));
        }
    };
    if reliable == ReliableFrames::Key && matches!(by, FrameClasses::Layers(_)) {
        let words = "reliable: layers are \"all\" so, or the base as \"reference\", or \"none\"";
        return Err(reader.at("reliable", words));
    }
    Ok(Frames {
        file: table.file,
        trace: None,
        bitrate_bps: table.bitrate.map(Rate::bps),
        deadline_us: reader.deadline(table.deadline)?,
        by,
        reliable,
    })
}

/// Loads the file of a film, which is relative to this folder; else the field that is wrong, and why.
pub(super) fn load(frames: &mut Frames, base: &Path) -> Result<(), (&'static str, String)> {
    let trace = FrameTrace::load(&base.join(&frames.file)).map_err(|error| ("file", error.to_string()))?;
    let most = match &frames.by {
        FrameClasses::Types(_) => 1,
        FrameClasses::Layers(priorities) => priorities.len() as u8,
    };
    if trace.layers() > most {
        let words = format!("file: it has {} layers, so it needs `layers = {0}`", trace.layers());
        return Err(("file", words));
    }
    let typed = trace.rows().iter().all(|row| row.frame_type.is_some());
    if !typed && matches!(frames.by, FrameClasses::Types(_)) {
        return Err(("file", "file: it does not give the types of all frames, so it needs `layers`".into()));
    }
    frames.trace = Some(Arc::new(trace));
    match frames.largest_frame() {
        Some(largest) if largest > MAX_BLOCK => Err((
            "bitrate",
            format!("bitrate: its largest frame of {largest} bytes is above {MAX_BLOCK} bytes"),
        )),
        _ => Ok(()),
    }
}
