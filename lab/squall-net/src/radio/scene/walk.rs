//! A walk through a building, away from an access point and back.

use rand_pcg::Pcg64Mcg;

use super::{
    place::{Shuttle, log_distance},
    random::Shadow,
};
use crate::radio::{Levels, model::model};

model! {
    /// A walk through a building, away from an access point and back, without end.
    ///
    /// The RSSI falls with the distance as in free space and by a fixed loss for each wall in
    /// between (the multi-wall model of COST 231, final report §4.7), with log-normal shadowing.
    /// Walls are crossed through doors, so that their loss sets in within a step or two.
    pub struct Walk in "radio.walk" as walk {
        /// Speed in m/s. Default 1.4.
        speed: f64 = 1.4, within [0.01, 100.0];
        /// The nearest point in metres. Default 2.
        near: f64 = 2.0, within [0.0, 10_000.0];
        /// The farthest point in metres. Default 30.
        far: f64 = 30.0, within [walk.near + 0.1, 20_000.0];
        /// RSSI at one metre in dBm. Default −26: 20 dBm less 46 dB, the first metre at 5.2 GHz
        /// (ITU-R P.1238).
        reference: f64 = -26.0, within [-100.0, 50.0];
        /// Path loss exponent. Default 2, free space, as COST 231 combines it with walls.
        exponent: f64 = 2.0, within [0.1, 10.0];
        /// Distance between walls in metres. Default 6, an assumption.
        room: f64 = 6.0, within [0.1, 10_000.0];
        /// Loss of a wall in dB. Default 6.9, a heavy wall of COST 231; a light one has 3.4.
        wall: f64 = 6.9, within [0.0, 100.0];
        /// Distance behind a wall in metres over which its loss sets in. Default 1, an assumption:
        /// a door.
        door: f64 = 1.0, within [0.01, walk.room];
        /// Deviation of the shadowing in dB. Default 3 (3GPP TR 38.901 Table 7.4.1-1, indoor
        /// office, line of sight, because walls are counted separately).
        shadow: f64 = 3.0, within [0.0, 30.0];
        /// Its correlation distance in metres. Default 10 (ibid., Table 7.5-6).
        decorrelation: f64 = 10.0, within [0.1, 10_000.0];
    }
}

#[derive(Debug, Clone)]
pub(in crate::radio) struct State {
    walk: Walk,
    way: Shuttle,
    shadow: Shadow,
}

impl Walk {
    pub(in crate::radio) fn begin(&self, random: &mut Pcg64Mcg) -> State {
        State {
            walk: *self,
            way: Shuttle::new(self.near, self.far, self.speed),
            shadow: Shadow::new(self.shadow, self.decorrelation, self.speed, random),
        }
    }

    /// Returns the loss of the walls between the access point and this distance, in dB.
    fn walls(&self, metres: f64) -> f64 {
        let rooms = metres / self.room;
        let behind = rooms.fract() * self.room;
        let crossed = if rooms >= 1.0 { rooms.floor() - 1.0 + (behind / self.door).min(1.0) } else { 0.0 };
        crossed * self.wall
    }
}

impl State {
    pub(super) fn step(&mut self, random: &mut Pcg64Mcg) -> Levels {
        let Walk { reference, exponent, .. } = self.walk;
        let metres = self.way.go();
        let clear = log_distance(reference, exponent, metres);
        let rssi = clear - self.walk.walls(metres) + self.shadow.go(random);
        Levels { rssi: Some(rssi), ..Levels::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walls_come_with_the_rooms() {
        let walk = Walk::default();
        for (metres, walls) in
            [(0.5, 0.0), (5.9, 0.0), (6.0, 0.0), (6.5, 0.5), (7.0, 1.0), (12.0, 1.0), (13.5, 2.0)]
        {
            assert!((walk.walls(metres) - walls * 6.9).abs() < 1e-9, "{metres}");
        }
    }
}
