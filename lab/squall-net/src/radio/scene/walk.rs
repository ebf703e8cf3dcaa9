//! A walk through a building, away from an access point and back.

use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::{Shuttle, check_all, log_distance, random::Shadow};
use crate::{error::ConfigError, radio::Levels};

/// A walk through a building, away from an access point and back, for ever.
///
/// The RSSI falls with the distance as in free space and by a fixed loss for each wall on the way (the multi-wall
/// model of COST 231, final report §4.7), with log-normal shadowing. Walls are crossed through doors, so that
/// their loss comes within a step or two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Walk {
    /// In m/s. Default 1.4.
    pub speed: f64,
    /// The nearest point in metres. Default 2.
    pub near: f64,
    /// The farthest point in metres. Default 30.
    pub far: f64,
    /// RSSI one metre away in dBm. Default −26: 20 dBm less 46 dB, the first metre at 5.2 GHz (ITU-R P.1238).
    pub reference: f64,
    /// By the power of which it falls with the distance. Default 2, free space, as COST 231 has it beside walls.
    pub exponent: f64,
    /// From wall to wall in metres. Default 6, an assumption.
    pub room: f64,
    /// Loss of a wall in dB. Default 6.9, a heavy wall of COST 231; a light one has 3.4.
    pub wall: f64,
    /// Within how many metres behind a wall its loss comes. Default 1, an assumption: a door.
    pub door: f64,
    /// Deviation of the shadowing in dB. Default 3 (3GPP TR 38.901 Table 7.4.1-1, indoor office, line of sight:
    /// the walls are apart).
    pub shadow: f64,
    /// Its correlation distance in metres. Default 10 (ibid., Table 7.5-6).
    pub decorrelation: f64,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            speed: 1.4,
            near: 2.0,
            far: 30.0,
            reference: -26.0,
            exponent: 2.0,
            room: 6.0,
            wall: 6.9,
            door: 1.0,
            shadow: 3.0,
            decorrelation: 10.0,
        }
    }
}

#[derive(Debug, Clone)]
pub(in super::super) struct State {
    walk: Walk,
    way: Shuttle,
    shadow: Shadow,
}

impl Walk {
    pub(super) fn begin(&self, random: &mut Pcg64Mcg) -> State {
        State {
            walk: *self,
            way: Shuttle::new(self.near, self.far, self.speed),
            shadow: Shadow::new(self.shadow, self.decorrelation, self.speed, random),
        }
    }

    /// What the walls take between the access point and there, in dB.
    fn walls(&self, metres: f64) -> f64 {
        let rooms = metres / self.room;
        let behind = rooms.fract() * self.room;
        let crossed = if rooms >= 1.0 { rooms.floor() - 1.0 + (behind / self.door).min(1.0) } else { 0.0 };
        crossed * self.wall
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        check_all(&[
            ("radio.walk.speed", self.speed, 0.01, 100.0),
            ("radio.walk.near", self.near, 0.0, 10_000.0),
            ("radio.walk.far", self.far, self.near + 0.1, 20_000.0),
            ("radio.walk.reference", self.reference, -100.0, 50.0),
            ("radio.walk.exponent", self.exponent, 0.1, 10.0),
            ("radio.walk.room", self.room, 0.1, 10_000.0),
            ("radio.walk.wall", self.wall, 0.0, 100.0),
            ("radio.walk.door", self.door, 0.01, self.room),
            ("radio.walk.shadow", self.shadow, 0.0, 30.0),
            ("radio.walk.decorrelation", self.decorrelation, 0.1, 10_000.0),
        ])
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
