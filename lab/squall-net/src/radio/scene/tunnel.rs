//! Tunnels without an antenna inside.

use rand_pcg::Pcg64Mcg;

use super::{
    place::{STEP_SECONDS, cell},
    random::Shadow,
};
use crate::radio::{Levels, model::model};

model! {
    /// A road or line with tunnels at regular distances, none of which has an antenna inside.
    ///
    /// The signal falls at the mouth, where the cell goes out of sight, and then with every metre
    /// until the middle, after which the other mouth is nearer. Interference falls with it, so that
    /// noise alone is the limit inside. No standard gives these losses: they differ from tunnel to
    /// tunnel, and all numbers here except the shadowing are assumptions.
    pub struct Tunnel in "radio.tunnel" as tunnel {
        /// Speed in m/s. Default 20: 72 km/h.
        speed: f64 = 20.0, within [0.01, 200.0];
        /// Distance between tunnels in metres; the movement starts with it. Default 600.
        open: f64 = 600.0, within [0.0, 1e6];
        /// Length of a tunnel in metres. Default 300.
        length: f64 = 300.0, within [1.0, 1e5];
        /// RSRP outside in dBm. Default −85.
        rsrp: f64 = -85.0, within [-160.0, 0.0];
        /// Interference in a resource element outside in dBm. Default −105.
        interference: f64 = -105.0, within [-200.0, 0.0];
        /// Loss at the mouth in dB. Default 20, as at a street corner (ITU-R P.1411 §4.1.3).
        entry: f64 = 20.0, within [0.0, 100.0];
        /// Distance in metres over which that loss sets in. Default 30 (ibid.).
        mouth: f64 = 30.0, within [0.01, 10_000.0];
        /// Further loss in dB per metre. Default 0.2.
        fade: f64 = 0.2, within [0.0, 10.0];
        /// Deviation of the shadowing in dB. Default 4 (3GPP TR 38.901 Table 7.4.1-1, UMa, line of sight).
        shadow: f64 = 4.0, within [0.0, 30.0];
        /// Its correlation distance in metres. Default 37 (ibid., Table 7.5-6).
        decorrelation: f64 = 37.0, within [0.1, 10_000.0];
    }
}

#[derive(Debug, Clone)]
pub(in crate::radio) struct State {
    tunnel: Tunnel,
    shadow: Shadow,
    /// Metres since the end of the last tunnel.
    at: f64,
}

impl Tunnel {
    pub(in crate::radio) fn begin(&self, random: &mut Pcg64Mcg) -> State {
        let shadow = Shadow::new(self.shadow, self.decorrelation, self.speed, random);
        State { tunnel: *self, shadow, at: 0.0 }
    }

    /// Returns the loss of the tunnel at this position, in dB.
    fn loss(&self, at: f64) -> f64 {
        let inside = (at - self.open).min(self.open + self.length - at);
        if inside <= 0.0 {
            return 0.0;
        }
        self.entry * (inside / self.mouth).min(1.0) + self.fade * (inside - self.mouth).max(0.0)
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
