//! Scenes: seeded movements through places where the signal comes and goes.
//!
//! A scene has a state and gives one pair of levels after the other, each with the time for which it holds:
//! [`STEP`], unless something needs its exact length. Numbers have their source beside them; those without one
//! are assumptions, and say so.

mod canyon;
mod handover;
mod rail;
mod random;
mod tunnel;
mod walk;
mod wifi_edge;

use rand_pcg::Pcg64Mcg;
use squall_units::Micros;

pub(super) use self::random::{Drift, gauss};
pub use self::{
    canyon::Canyon, handover::Handover, rail::Rail, tunnel::Tunnel, walk::Walk, wifi_edge::WifiEdge,
};
use super::{Levels, Source};
use crate::error::ConfigError;

/// How long levels hold: short against the second within which people and trains leave a shadow, long against a
/// packet.
const STEP: Micros = 20_000;

/// [`STEP`] in seconds.
const STEP_SECONDS: f64 = 0.02;

/// A scene on its way.
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
    /// `None` if the levels come from no scene.
    pub(super) fn new(source: &Source, random: &mut Pcg64Mcg) -> Option<Self> {
        Some(match source {
            Source::Series(_) | Source::Trace(_) => return None,
            Source::Walk(walk) => Self::Walk(walk.begin(random)),
            Source::WifiEdge(edge) => Self::WifiEdge(edge.begin(random)),
            Source::Canyon(canyon) => Self::Canyon(canyon.begin(random)),
            Source::Tunnel(tunnel) => Self::Tunnel(tunnel.begin(random)),
            Source::Rail(rail) => Self::Rail(rail.begin(random)),
            Source::Handover(handover) => Self::Handover(handover.begin()),
        })
    }

    /// The next levels, and for how long they hold.
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

    pub(super) fn check(source: &Source) -> Result<(), ConfigError> {
        match source {
            Source::Series(_) | Source::Trace(_) => Ok(()),
            Source::Walk(walk) => walk.check(),
            Source::WifiEdge(edge) => edge.check(),
            Source::Canyon(canyon) => canyon.check(),
            Source::Tunnel(tunnel) => tunnel.check(),
            Source::Rail(rail) => rail.check().and_then(|()| rail.check_failures()),
            Source::Handover(handover) => handover.check(),
        }
    }
}

/// Somebody who goes from one place to another and back, in metres.
#[derive(Debug, Clone)]
struct Shuttle {
    near: f64,
    far: f64,
    at: f64,
    step: f64,
}

impl Shuttle {
    /// Begins at the near end with this speed in m/s.
    fn new(near: f64, far: f64, speed: f64) -> Self {
        Self { near, far, at: near, step: speed * STEP_SECONDS }
    }

    /// Where it is now; then it goes on.
    fn go(&mut self) -> f64 {
        let here = self.at;
        self.at += self.step;
        if self.at > self.far || self.at < self.near {
            self.step = -self.step;
            self.at = self.at.clamp(self.near, self.far);
        }
        here
    }
}

/// Received power of an access point or cell without obstacles: `at one metre − 10 · exponent · log10(metres)`.
fn log_distance(reference: f64, exponent: f64, metres: f64) -> f64 {
    reference - 10.0 * exponent * metres.max(1.0).log10()
}

/// The sum of two powers in dBm.
fn together(one: f64, other: f64) -> f64 {
    10.0 * (10f64.powf(one / 10.0) + 10f64.powf(other / 10.0)).log10()
}

/// Noise of a receiver in a resource element in dBm, as in [`CellularMap`](super::CellularMap).
const NOISE: f64 = -123.2;

/// The highest SINR that modems report, in dB.
const HIGHEST_SINR: f64 = 30.0;

/// RSRP and the SINR that goes with it over this interference (in dBm in a resource element).
fn cell(rsrp: f64, interference: f64) -> Levels {
    let sinr = (rsrp - together(interference, NOISE)).min(HIGHEST_SINR);
    Levels { rsrp: Some(rsrp), sinr: Some(sinr), ..Levels::default() }
}
