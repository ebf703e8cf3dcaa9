//! Street canyons of a city with small cells.

use rand_pcg::Pcg64Mcg;

use super::{
    place::{STEP_SECONDS, cell},
    random::{Shadow, between},
};
use crate::radio::{Levels, model::model};

model! {
    /// A drive through the streets of a city with cells below the roofs, without end: a block in
    /// sight of a cell, then round the corner a block out of its sight.
    ///
    /// ITU-R P.1411 §4.1.3 puts the loss at a corner at 20 dB in urban streets, and 3GPP TR 38.901
    /// (UMi street canyon) the difference between its two path losses at 15 to 25 dB over the usual
    /// distances: the loss of each corner is drawn from that range. The interference arrives over
    /// the roofs and is not affected by corners.
    pub struct Canyon in "radio.canyon" as canyon {
        /// Speed in m/s. Default 8.3: 30 km/h.
        speed: f64 = 8.3, within [0.01, 100.0];
        /// Length of a block in metres. Default 80, an assumption.
        block: f64 = 80.0, within [1.0, 100_000.0];
        /// RSRP in sight of a cell in dBm. Default −80, an assumption.
        rsrp: f64 = -80.0, within [-160.0, 0.0];
        /// Interference and noise of others in a resource element in dBm. Default −105, an assumption.
        interference: f64 = -105.0, within [-200.0, 0.0];
        /// The mean loss of a corner in dB. Default 20.
        corner: f64 = 20.0, within [0.0, 100.0];
        /// Maximum deviation of a corner's loss from the mean, in dB. Default 5.
        spread: f64 = 5.0, within [0.0, canyon.corner];
        /// Distance in metres over which the loss sets in. Default 10. P.1411 has 30 for slow
        /// changes along the street; the drop itself is steeper where the street is narrow.
        turn: f64 = 10.0, within [0.01, canyon.block / 2.0];
        /// Deviation of the shadowing in dB. Default 4 (TR 38.901 Table 7.4.1-1, UMi, line of sight).
        shadow: f64 = 4.0, within [0.0, 30.0];
        /// Its correlation distance in metres. Default 10 (ibid., Table 7.5-6).
        decorrelation: f64 = 10.0, within [0.1, 10_000.0];
    }
}

#[derive(Debug, Clone)]
pub(in crate::radio) struct State {
    canyon: Canyon,
    shadow: Shadow,
    /// Metres from the start of the block in sight; the block out of sight follows.
    at: f64,
    /// Loss of the current or next corner in dB.
    corner: f64,
}

impl Canyon {
    pub(in crate::radio) fn begin(&self, random: &mut Pcg64Mcg) -> State {
        State {
            canyon: *self,
            shadow: Shadow::new(self.shadow, self.decorrelation, self.speed, random),
            at: 0.0,
            corner: self.draw(random),
        }
    }

    fn draw(&self, random: &mut Pcg64Mcg) -> f64 {
        between(random, self.corner - self.spread, self.corner + self.spread)
    }

    /// Returns the share of a corner's loss at this position.
    fn depth(&self, at: f64) -> f64 {
        let (into, left) = ((at - self.block) / self.turn, (2.0 * self.block - at) / self.turn);
        into.min(left).clamp(0.0, 1.0)
    }
}

impl State {
    pub(super) fn step(&mut self, random: &mut Pcg64Mcg) -> Levels {
        let canyon = self.canyon;
        let rsrp = canyon.rsrp - self.corner * canyon.depth(self.at) + self.shadow.go(random);
        self.at += canyon.speed * STEP_SECONDS;
        if self.at >= 2.0 * canyon.block {
            self.at -= 2.0 * canyon.block;
            self.corner = canyon.draw(random);
        }
        cell(rsrp, canyon.interference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corner_takes_its_loss_within_metres() {
        let canyon = Canyon::default();
        for (at, depth) in [(0.0, 0.0), (80.0, 0.0), (85.0, 0.5), (90.0, 1.0), (120.0, 1.0), (155.0, 0.5)] {
            assert!((canyon.depth(at) - depth).abs() < 1e-9, "{at}");
        }
    }
}
