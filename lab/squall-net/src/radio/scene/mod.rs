//! Scenes: seeded movements through places with varying signal.
//!
//! A scene has a state and returns one set of levels after another, each with its duration:
//! [`STEP`], unless something needs its exact length. Numbers are given with their source; those
//! without a source are assumptions and marked as such.

mod canyon;
mod handover;
mod place;
mod rail;
mod random;
mod tunnel;
mod walk;
mod wifi_edge;

use rand_pcg::Pcg64Mcg;
use squall_trace::Micros;

pub(super) use self::random::{Drift, gauss};
pub use self::{
    canyon::Canyon, handover::Handover, rail::Rail, tunnel::Tunnel, walk::Walk, wifi_edge::WifiEdge,
};
use super::Levels;
use place::STEP;

/// The state of a scene.
#[derive(Debug, Clone)]
pub(super) enum Scene {
    Walk(walk::State),
    WifiEdge(wifi_edge::State),
    Canyon(canyon::State),
    Tunnel(tunnel::State),
    Rail(rail::State),
    Handover(handover::State),
}

impl Scene {
    /// Returns the next levels, and their duration.
    pub(super) fn step(&mut self, random: &mut Pcg64Mcg) -> (Levels, Micros) {
        match self {
            Self::Walk(state) => (state.step(random), STEP),
            Self::WifiEdge(state) => (state.step(random), STEP),
            Self::Canyon(state) => (state.step(random), STEP),
            Self::Tunnel(state) => (state.step(random), STEP),
            Self::Rail(state) => state.step(random),
            Self::Handover(state) => state.step(),
        }
    }
}
