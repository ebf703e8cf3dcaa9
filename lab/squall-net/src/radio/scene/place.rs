//! Movement, and received power.

use squall_trace::Micros;

use crate::radio::Levels;

/// Duration of a step of levels: short compared with the second that people and trains need to
/// leave a shadow, long compared with a packet.
pub(super) const STEP: Micros = 20_000;

/// [`STEP`] in seconds.
pub(super) const STEP_SECONDS: f64 = 0.02;

/// Movement from one place to another and back, in metres.
#[derive(Debug, Clone)]
pub(super) struct Shuttle {
    near: f64,
    far: f64,
    at: f64,
    step: f64,
}

impl Shuttle {
    /// Starts at the near end with this speed in m/s.
    pub(super) fn new(near: f64, far: f64, speed: f64) -> Self {
        Self { near, far, at: near, step: speed * STEP_SECONDS }
    }

    /// Returns the current position, then advances by a step.
    pub(super) fn go(&mut self) -> f64 {
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
pub(super) fn log_distance(reference: f64, exponent: f64, metres: f64) -> f64 {
    reference - 10.0 * exponent * metres.max(1.0).log10()
}

/// Returns the sum of two powers in dBm.
pub(super) fn together(one: f64, other: f64) -> f64 {
    10.0 * (10f64.powf(one / 10.0) + 10f64.powf(other / 10.0)).log10()
}

/// Receiver noise in a resource element in dBm, as in [`CellularMap`](crate::radio::CellularMap).
pub(super) const NOISE: f64 = -123.2;

/// The highest SINR that modems report, in dB.
pub(super) const HIGHEST_SINR: f64 = 30.0;

/// Returns the RSRP and the resulting SINR with this interference (in dBm in a resource element).
pub(super) fn cell(rsrp: f64, interference: f64) -> Levels {
    let sinr = (rsrp - together(interference, NOISE)).min(HIGHEST_SINR);
    Levels { rsrp: Some(rsrp), sinr: Some(sinr), ..Levels::default() }
}
