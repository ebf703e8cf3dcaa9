//! Model of the viewing direction.
//!
//! Yaw: an Ornstein–Uhlenbeck process of its speed. Pitch: a critically damped oscillator about the
//! horizon, driven by white noise. The defaults of the scenario (40°/s, 15°) are fitted to two
//! excerpts of a published data set, the viewers of one video of Lo et al., "360° Video Viewing
//! Dataset in Head-Mounted Virtual Reality" (MMSys 2017), in seconds 0 to 2 and 20 to 22: the root
//! mean square of their mean yaw speed over two seconds is 32 and 31°/s, that of the pitch 17°,
//! with 90 % below 24°. Over two seconds the model gives 30°/s. Real heads rest and jump, while
//! this one drifts. So its median speed is above theirs (16 to 28°/s) and its fastest turns are
//! slower.

use std::collections::VecDeque;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Head movement. The speed of the yaw is correlated over one second; the pitch returns to the
/// horizon, critically damped, within one second, too. Both are driven by white noise.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Head {
    /// Standard deviation of the speed of the yaw, in degrees per second, 0 to 360.
    pub speed: f64,
    /// Standard deviation of the pitch from the horizon, in degrees, 0 to 45.
    pub tilt: f64,
}

impl Default for Head {
    fn default() -> Self {
        Self { speed: 40.0, tilt: 15.0 }
    }
}

/// A direction in degrees: yaw 0 to 360, pitch −90 (down) to 90.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Direction {
    pub(super) yaw: f64,
    pub(super) pitch: f64,
}

/// Time between two positions, in microseconds.
const STEP_US: u64 = 10_000;
/// Time between two positions in seconds.
const STEP: f64 = 0.01;
/// Correlation time of the yaw speed and return time of the pitch, in seconds.
const MEMORY: f64 = 1.0;

/// A moving head, with its positions from the oldest one that is still needed to the latest that
/// was requested. Computed without square roots and trigonometric functions, so results are the
/// same on every machine.
#[derive(Debug)]
pub(super) struct Motion {
    head: Head,
    rng: Pcg64Mcg,
    /// Step of the first position.
    first: u64,
    positions: VecDeque<Direction>,
    yaw_speed: f64,
    pitch_speed: f64,
}

impl Motion {
    pub(super) fn new(head: Head, mut rng: Pcg64Mcg) -> Self {
        let Head { speed, tilt } = head;
        let positions = VecDeque::from([Direction { yaw: 180.0, pitch: tilt * gauss(&mut rng) }]);
        let (yaw_speed, pitch_speed) = (speed * gauss(&mut rng), tilt / MEMORY * gauss(&mut rng));
        Self { head, rng, first: 0, positions, yaw_speed, pitch_speed }
    }

    /// Returns the direction at a time in microseconds, which must not be before the last call of
    /// [`Self::forget`].
    pub(super) fn at(&mut self, at_us: u64) -> Direction {
        let place = (at_us / STEP_US).saturating_sub(self.first) as usize;
        while self.positions.len() <= place {
            let latest = self.positions[self.positions.len() - 1];
            let next = self.step(latest);
            self.positions.push_back(next);
        }
        self.positions[place]
    }

    /// Drops positions before this time.
    pub(super) fn forget(&mut self, before_us: u64) {
        while self.first < before_us / STEP_US && self.positions.len() > 1 {
            self.positions.pop_front();
            self.first += 1;
        }
    }

    fn step(&mut self, from: Direction) -> Direction {
        // Noise per step that gives the configured deviations: σ²·2/τ for a speed that decays with
        // 1/τ, and σ²·4/τ³ for an oscillator of frequency 1/τ.
        const YAW_NOISE: f64 = 0.141_421_356_237_309_5;
        const PITCH_NOISE: f64 = 0.2;
        let turn = self.head.speed * YAW_NOISE * gauss(&mut self.rng) - self.yaw_speed / MEMORY * STEP;
        self.yaw_speed += turn;
        let back = 2.0 * self.pitch_speed / MEMORY + from.pitch / (MEMORY * MEMORY);
        self.pitch_speed += self.head.tilt * PITCH_NOISE * gauss(&mut self.rng) - back * STEP;
        let yaw = from.yaw + self.yaw_speed * STEP;
        // No step is as large as a whole turn.
        let yaw = if yaw < 0.0 { yaw + 360.0 } else { yaw };
        Direction {
            yaw: if yaw >= 360.0 { yaw - 360.0 } else { yaw },
            pitch: (from.pitch + self.pitch_speed * STEP).clamp(-90.0, 90.0),
        }
    }
}

/// Returns a random number of mean 0 and deviation 1, normal to within 1 % up to three deviations:
/// the sum of twelve uniform ones.
fn gauss(rng: &mut Pcg64Mcg) -> f64 {
    let sum: u64 = (0..12).map(|_| u64::from(rng.random::<u32>())).sum();
    sum as f64 / f64::from(1u32 << 31) / 2.0 - 6.0
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn motion(speed: f64, tilt: f64) -> Motion {
        Motion::new(Head { speed, tilt }, Pcg64Mcg::seed_from_u64(3))
    }

    fn deviation(values: impl Iterator<Item = f64>) -> f64 {
        let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value * value, count + 1.0));
        f64::sqrt(sum / count)
    }

    /// Shortest rotation from one yaw to another.
    fn turned(from: f64, to: f64) -> f64 {
        (to - from + 540.0).rem_euclid(360.0) - 180.0
    }

    #[test]
    fn speed_and_pitch_deviate_as_asked() {
        let mut head = motion(40.0, 15.0);
        let way: Vec<Direction> = (0..2_000_000)
            .map(|step| {
                head.forget(step * STEP_US);
                head.at(step * STEP_US)
            })
            .collect();
        let speed = deviation(way.windows(2).map(|pair| turned(pair[0].yaw, pair[1].yaw) / STEP));
        assert!((38.5..41.5).contains(&speed), "{speed}");
        let pitch = deviation(way.iter().map(|direction| direction.pitch));
        assert!((14.4..15.6).contains(&pitch), "{pitch}");
        let drift = deviation(way.windows(201).map(|span| turned(span[0].yaw, span[200].yaw) / 2.0));
        assert!((28.5..31.5).contains(&drift), "{drift}");
        assert!(way.iter().all(|direction| (0.0..360.0).contains(&direction.yaw)));
    }

    #[test]
    fn it_moves_smoothly_and_only_what_may() {
        let mut head = motion(40.0, 15.0);
        for step in 0..10_000 {
            let (from, to) = (head.at(step * STEP_US), head.at((step + 1) * STEP_US));
            assert!(turned(from.yaw, to.yaw).abs() < 2.5 && (from.pitch - to.pitch).abs() < 1.0);
        }
        let mut still = motion(0.0, 0.0);
        assert_eq!(still.at(60_000_000), Direction { yaw: 180.0, pitch: 0.0 });
    }

    #[test]
    fn the_past_does_not_depend_on_the_order_of_queries() {
        let (mut one, mut other) = (motion(40.0, 15.0), motion(40.0, 15.0));
        let far = one.at(5_000_000);
        let near = one.at(1_000_000);
        assert_eq!(other.at(1_000_000), near);
        other.forget(900_000);
        assert_eq!((other.at(5_000_000), other.at(1_000_000)), (far, near));
    }
}
