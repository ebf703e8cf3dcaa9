//! Tunnels without an antenna in them.

use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::{STEP_SECONDS, cell, check_all, random::Shadow};
use crate::{error::ConfigError, radio::Levels};

/// On a road or line with a tunnel every so often, none of which has an antenna inside.
///
/// The signal falls at the mouth, where the cell goes out of sight, and then with every metre, until the middle,
/// from where on the other mouth is nearer. Interference falls with it, so that noise alone is the limit inside.
/// No standard gives these losses: they differ from tunnel to tunnel, and all numbers here are assumptions but
/// the shadowing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tunnel {
    /// In m/s. Default 20: 72 km/h.
    pub speed: f64,
    /// From tunnel to tunnel in metres; the way begins with it. Default 600.
    pub open: f64,
    /// Length of a tunnel in metres. Default 300.
    pub length: f64,
    /// RSRP outside in dBm. Default −85.
    pub rsrp: f64,
    /// Interference in a resource element outside in dBm. Default −105.
    pub interference: f64,
    /// Loss at the mouth in dB. Default 20, that of a street's corner (ITU-R P.1411 §4.1.3).
    pub entry: f64,
    /// Within how many metres that comes. Default 30 (ibid.).
    pub mouth: f64,
    /// Further loss in dB for each metre. Default 0.2.
    pub fade: f64,
    /// Deviation of the shadowing in dB. Default 4 (3GPP TR 38.901 Table 7.4.1-1, UMa, line of sight).
    pub shadow: f64,
    /// Its correlation distance in metres. Default 37 (ibid., Table 7.5-6).
    pub decorrelation: f64,
}

impl Default for Tunnel {
    fn default() -> Self {
        Self {
            speed: 20.0,
            open: 600.0,
            length: 300.0,
            rsrp: -85.0,
            interference: -105.0,
            entry: 20.0,
            mouth: 30.0,
            fade: 0.2,
            shadow: 4.0,
            decorrelation: 37.0,
        }
    }
}

#[derive(Debug, Clone)]
pub(in super::super) struct State {
    tunnel: Tunnel,
    shadow: Shadow,
    /// Metres since the end of the last tunnel.
    at: f64,
}

impl Tunnel {
    pub(super) fn begin(&self, random: &mut Pcg64Mcg) -> State {
        let shadow = Shadow::new(self.shadow, self.decorrelation, self.speed, random);
        State { tunnel: *self, shadow, at: 0.0 }
    }

    /// What the tunnel takes there, in dB.
    fn loss(&self, at: f64) -> f64 {
        let inside = (at - self.open).min(self.open + self.length - at);
        if inside <= 0.0 {
            return 0.0;
        }
        self.entry * (inside / self.mouth).min(1.0) + self.fade * (inside - self.mouth).max(0.0)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        check_all(&[
            ("radio.tunnel.speed", self.speed, 0.01, 200.0),
            ("radio.tunnel.open", self.open, 0.0, 1e6),
            ("radio.tunnel.length", self.length, 1.0, 1e5),
            ("radio.tunnel.rsrp", self.rsrp, -160.0, 0.0),
            ("radio.tunnel.interference", self.interference, -200.0, 0.0),
            ("radio.tunnel.entry", self.entry, 0.0, 100.0),
            ("radio.tunnel.mouth", self.mouth, 0.01, 10_000.0),
            ("radio.tunnel.fade", self.fade, 0.0, 10.0),
            ("radio.tunnel.shadow", self.shadow, 0.0, 30.0),
            ("radio.tunnel.decorrelation", self.decorrelation, 0.1, 10_000.0),
        ])
    }
}

impl State {
    pub(super) fn step(&mut self, random: &mut Pcg64Mcg) -> Levels {
        let Tunnel { rsrp, interference, open, length, speed, .. } = self.tunnel;
        let loss = self.tunnel.loss(self.at);
        self.at = (self.at + speed * STEP_SECONDS) % (open + length);
        cell(rsrp - loss + self.shadow.go(random), interference - loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_is_deepest_in_its_middle() {
        let tunnel = Tunnel::default();
        for (at, loss) in
            [(600.0, 0.0), (615.0, 10.0), (630.0, 20.0), (750.0, 44.0), (885.0, 10.0), (900.0, 0.0)]
        {
            assert!((tunnel.loss(at) - loss).abs() < 1e-9, "{at}");
        }
    }
}
