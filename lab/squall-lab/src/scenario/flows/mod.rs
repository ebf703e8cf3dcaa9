//! Flows from the file: the fields that all have here, those of each kind in its file; defaults, bounds.

mod blocks;
mod bulk;
mod classes;
mod dash;
mod film;
mod frames;
mod game;
mod gop;
mod messages;
mod reader;
mod spread;
mod tiles;
mod video;
mod words;

use std::path::Path;

use super::MAX_FLOWS;
use super::place::{Outline, Problem, problem};
use crate::flow::{Flow, MAX_BLOCK, Traffic};
use reader::{Kind, Reader};

/// Most bytes that a session queues.
const MAX_BACKLOG: u64 = 64 << 20;

/// Shortest time between two blocks, in microseconds.
const MIN_INTERVAL_US: u64 = 100;

/// Reads all flows, fills in their defaults and checks them.
pub(super) fn resolve(count: usize, duration_us: u64, outline: &Outline<'_>) -> Result<Vec<Flow>, Problem> {
    if !(1..=MAX_FLOWS).contains(&count) {
        let words = format!("{count} [[flow]] tables, expected 1 to {MAX_FLOWS}");
        return Err(Problem::at_key("flow", words));
    }
    let mut flows: Vec<Flow> = Vec::with_capacity(count);
    for index in 0..count {
        let reader = Reader::new(index, outline)?;
        let flow = reader.flow(&flows, duration_us, traffic)?;
        flows.push(flow);
    }
    Ok(flows)
}

/// Loads the files that flows name, which are relative to this folder.
pub(super) fn load(flows: &mut [Flow], base: &Path) -> Result<(), Problem> {
    flows.iter_mut().enumerate().try_for_each(|(index, flow)| match &mut flow.traffic {
        Traffic::Frames(film) => {
            frames::load(film, base).map_err(|(field, words)| problem(&["flow"], index, &[field], words))
        }
        _ => Ok(()),
    })
}

fn traffic(reader: &Reader<'_>) -> Result<Traffic, Problem> {
    Ok(match reader.kind() {
        Kind::Video => Traffic::Video(video::read(reader)?),
        Kind::Blocks => Traffic::Blocks(blocks::read(reader)?),
        Kind::Bulk => Traffic::Bulk(bulk::read(reader)?),
        Kind::Messages => Traffic::Messages(messages::read(reader)?),
        Kind::Gop => Traffic::Gop(gop::read(reader)?),
        Kind::Frames => Traffic::Frames(frames::read(reader)?),
        Kind::Film => Traffic::Film(film::read(reader)?),
        Kind::Game => Traffic::Game(game::read(reader)?),
        Kind::Dash => Traffic::Dash(dash::read(reader)?),
        Kind::Tiles => Traffic::Tiles(tiles::read(reader)?),
    })
}

#[cfg(test)]
mod tests;
