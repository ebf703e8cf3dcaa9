//! Cloud gaming: frames whose size follows the capacity of the session.

use rand_pcg::Pcg64Mcg;
use squall_units::{Rate, Ratio, Span};

use super::fields::{Checked, frames_within, largest, millis, number, percent, priority, require, within};
use super::frame_type::ReliableFrames;
use super::source::{Allowed, Follow, Kind, Source, jittered};
use crate::offer::{Class, Frame, Offer};

/// Stream of a remotely rendered game (AUGUR, NSDI 2024, §2.1): an encoder without lookahead makes
/// one frame per tick, sized according to the current capacity of the session.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Game {
    /// Frames per second.
    #[serde(default = "number::<60, _>")]
    pub fps: u32,
    /// Minimum bitrate of the encoder.
    pub bitrate_min: Rate,
    /// Maximum bitrate of the encoder.
    pub bitrate_max: Rate,
    /// The forecast that the encoder follows.
    #[serde(default)]
    pub follow: Forecast,
    /// Share of the allowed rate that the encoder uses, above 0. Default: 0.9 for `link`, 1 for
    /// `safe`.
    pub share: Option<Ratio>,
    /// Interval between key frames. `None`: only the first frame is one, and those that repair a
    /// loss.
    pub keyframe_interval: Option<Span>,
    /// Size of a key frame relative to the mean. The frames after it compensate for it, each by up
    /// to half of its own size.
    #[serde(default = "number::<4, _>")]
    pub key_ratio: f64,
    /// Sizes vary uniformly by up to this share in both directions.
    #[serde(default)]
    pub jitter: Ratio,
    /// Deadline after a frame is offered; a later frame counts as a stall.
    #[serde(default = "millis::<200>")]
    pub deadline: Span,
    /// Priority of key frames, 0 first.
    #[serde(default)]
    pub priority_key: u8,
    /// Priority of delta frames, 0 first.
    #[serde(default = "number::<1, _>")]
    pub priority_delta: u8,
    /// Reliability by frame type.
    #[serde(default)]
    pub reliable: ReliableFrames,
}

/// Forecast as named in scenario files; see [`Follow`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Forecast {
    /// Current capacity of the paths.
    #[default]
    Link,
    /// Capacity that arrives safely within half of the deadline; the other half is left for
    /// repairs.
    Safe,
}

/// Denominator of shares in integer arithmetic, which gives the same sizes on every machine.
const ONE: u64 = 1_000_000;

impl Game {
    fn share(&self) -> Ratio {
        let usual = if self.follow == Forecast::Link { percent::<90>() } else { Ratio::ONE };
        self.share.unwrap_or(usual)
    }

    /// Number of frames per group, at least 1.
    fn group(&self) -> Option<u64> {
        self.keyframe_interval.map(|interval| frames_within(interval, self.fps))
    }

    /// Returns the encoder's bitrate in bits per second for an allowed rate.
    fn bitrate_bps(&self, allowed_bps: u64) -> u64 {
        let share = (self.share().as_f64() * ONE as f64) as u128;
        let bps = (u128::from(allowed_bps) * share / u128::from(ONE)) as u64;
        bps.clamp(self.bitrate_min.bps(), self.bitrate_max.bps())
    }

    /// Mean size of a frame in bytes at this bitrate, at least 1.
    fn frame_size(&self, bitrate_bps: u64) -> u64 {
        (bitrate_bps / (8 * u64::from(self.fps))).max(1)
    }

    /// Size of a key frame in bytes at this bitrate.
    fn key_size(&self, bitrate_bps: u64) -> u64 {
        (self.frame_size(bitrate_bps) as f64 * self.key_ratio) as u64
    }

    /// Size of the largest frame in bytes.
    fn largest_frame(&self) -> u64 {
        (self.key_size(self.bitrate_max.bps()) as f64 * (1.0 + self.jitter.as_f64())) as u64
    }
}

impl Kind for Game {
    fn kind(&self) -> &'static str {
        "game"
    }

    fn validate(&self) -> Checked {
        within("fps", self.fps, 1..=1_000)?;
        let rates = self.bitrate_min.bps() > 0 && self.bitrate_max >= self.bitrate_min;
        require(rates, "bitrate_min", "it must be above 0, and at most bitrate_max")?;
        require(self.share() > Ratio::ZERO, "share", "it must be above 0")?;
        within("key_ratio", self.key_ratio, 1.0..=100.0)?;
        let keys = self.keyframe_interval.is_none_or(|interval| interval.micros() > 0);
        require(keys, "keyframe_interval", "it must be above 0")?;
        priority("priority_key", self.priority_key)?;
        priority("priority_delta", self.priority_delta)?;
        largest("bitrate_max", "frame", self.largest_frame())
    }

    fn classes(&self) -> Vec<Class> {
        self.reliable.key_and_delta([self.priority_key, self.priority_delta])
    }

    fn deadline(&self) -> Option<Span> {
        Some(self.deadline)
    }

    fn picture_us(&self) -> Option<u64> {
        Some(1_000_000 / u64::from(self.fps))
    }

    fn follows(&self) -> Option<Follow> {
        Some(match self.follow {
            Forecast::Link => Follow::Link,
            Forecast::Safe => Follow::Safe { within_us: self.deadline.micros() / 2 },
        })
    }

    fn source(&self, rng: Pcg64Mcg, _length_us: u64) -> Box<dyn Source> {
        Box::new(Encoder::new(self, rng))
    }
}

/// An encoder that follows a rate. A frame is encoded during the interval before its offer, so its
/// size depends on the rate at the time of the previous offer.
#[derive(Debug)]
struct Encoder {
    game: Game,
    /// Classes of key frames and delta frames.
    classes: Vec<Class>,
    rng: Pcg64Mcg,
    next: u64,
    /// Latest limits of the session; 0 before the first.
    allowed: Allowed,
    /// Bytes by which key frames exceeded the mean and that later frames still have to save.
    debt: u64,
    /// Index of the latest key frame.
    key: Option<u64>,
    /// A frame since the latest key frame is lost: nothing can be decoded until the next one.
    broken: bool,
}

impl Encoder {
    fn new(game: &Game, rng: Pcg64Mcg) -> Self {
        Self {
            game: game.clone(),
            classes: game.classes(),
            rng,
            next: 0,
            allowed: Allowed::default(),
            debt: 0,
            key: None,
            broken: false,
        }
    }

    /// Returns the size of the next frame, such that the mean has the bitrate, and not above the
    /// size that arrives in time.
    fn budget(&mut self, key: bool) -> u64 {
        let least = self.game.frame_size(self.game.bitrate_min.bps());
        self.by_rate(key).min(self.allowed.frame.max(least))
    }

    fn by_rate(&mut self, key: bool) -> u64 {
        let bitrate = self.game.bitrate_bps(self.allowed.bps);
        let mean = self.game.frame_size(bitrate);
        if key {
            let size = self.game.key_size(bitrate);
            self.debt += size - mean;
            size
        } else {
            let saved = self.debt.min(mean / 2);
            self.debt -= saved;
            mean - saved
        }
    }

    fn is_key(&self, index: u64) -> bool {
        self.key.is_none_or(|key| self.broken || self.game.group().is_some_and(|group| index - key >= group))
    }
}

impl Source for Encoder {
    fn next(&mut self) -> Option<Offer> {
        let index = self.next;
        let at_us = index.checked_mul(1_000_000)? / u64::from(self.game.fps);
        self.next += 1;
        let key = self.is_key(index);
        if key {
            (self.key, self.broken) = (Some(index), false);
        }
        let size = jittered(self.budget(key), self.game.jitter.as_f64(), &mut self.rng);
        let class = usize::from(!key);
        Some(Offer {
            deadline_us: self.game.deadline_us(),
            frame: Some(Frame::in_sequence(index, key)),
            ..Offer::new(at_us, size, class as u16, &self.classes[class])
        })
    }

    /// Called when a frame will not arrive, which breaks the chain of the frames after it. The next
    /// frame begins a new chain, as after a picture loss indication (RFC 4585 §6.3.1), which
    /// reaches the sender without delay here. Losses before the latest key frame are already
    /// repaired.
    fn on_missed(&mut self, index: u64, _at_us: u64) {
        self.broken |= self.key.is_some_and(|key| index >= key);
    }

    fn on_ended(&mut self, index: u64, at_us: u64, delivered: bool) {
        if !delivered {
            self.on_missed(index, at_us);
        }
    }

    fn on_allowed(&mut self, _at_us: u64, allowed: Allowed) {
        self.allowed = allowed;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    fn game() -> Game {
        let fields =
            "fps = 50\nbitrate_min = \"1mbps\"\nbitrate_max = \"20mbps\"\nshare = 0.5\nkey_ratio = 3";
        toml::from_str(fields).expect("its fields are right")
    }

    /// A game with this number of frames, of 20 ms each, between key frames.
    fn grouped(frames: u64) -> Game {
        Game { keyframe_interval: Some(Span::from_millis(frames * 20)), ..game() }
    }

    fn encoder(game: &Game) -> Encoder {
        Encoder::new(game, Pcg64Mcg::seed_from_u64(1))
    }

    fn allowed(bps: u64) -> Allowed {
        Allowed { bps, frame: u64::MAX }
    }

    fn sizes(encoder: &mut Encoder, count: usize) -> Vec<u64> {
        (0..count).filter_map(|_| encoder.next()).map(|offer| offer.size).collect()
    }

    #[test]
    fn sizes_follow_the_rate_within_bounds() {
        let mut encoder = encoder(&game());
        encoder.on_allowed(0, allowed(0));
        // No capacity yet: 1 Mbps, 2,500 bytes a frame, the first three times that; four frames
        // save the rest.
        assert_eq!(sizes(&mut encoder, 6), [7_500, 1_250, 1_250, 1_250, 1_250, 2_500]);
        encoder.on_allowed(60_000, allowed(8_000_000));
        assert_eq!(sizes(&mut encoder, 2), [10_000, 10_000]);
        encoder.on_allowed(100_000, allowed(1_000_000_000));
        assert_eq!(sizes(&mut encoder, 1), [50_000]);
        encoder.on_allowed(120_000, allowed(100_000));
        assert_eq!(sizes(&mut encoder, 1), [2_500]);
    }

    #[test]
    fn the_usual_share_depends_on_the_forecast() {
        let game = Game { share: None, ..game() };
        assert_eq!(game.share(), percent::<90>());
        assert_eq!(Game { follow: Forecast::Safe, ..game }.share(), Ratio::ONE);
    }

    #[test]
    fn no_frame_is_larger_than_what_arrives() {
        let mut encoder = encoder(&grouped(2));
        encoder.on_allowed(0, Allowed { bps: 16_000_000, frame: 30_000 });
        assert_eq!(sizes(&mut encoder, 2), [30_000, 10_000]);
        encoder.on_allowed(40_000, Allowed { bps: 16_000_000, frame: 0 });
        assert_eq!(sizes(&mut encoder, 1), [2_500], "what the encoder makes at least");
    }

    #[test]
    fn key_frames_are_within_the_bitrate() {
        let mut encoder = encoder(&grouped(10));
        encoder.on_allowed(0, allowed(16_000_000));
        let sizes = sizes(&mut encoder, 20);
        assert_eq!((sizes[0], sizes[10], sizes[9]), (60_000, 60_000, 20_000));
        assert_eq!([&sizes[..10], &sizes[10..]].map(|group| group.iter().sum::<u64>()), [200_000; 2]);
        encoder.broken = true;
        let early: u64 = (0..30).filter_map(|_| encoder.next()).map(|offer| offer.size).sum();
        assert_eq!(early, 30 * 20_000);
    }

    #[test]
    fn a_lost_frame_brings_one_key_frame() {
        let mut encoder = encoder(&game());
        let keys = |encoder: &mut Encoder, count: usize| -> Vec<bool> {
            (0..count).filter_map(|_| encoder.next()).map(|offer| offer.class == 0).collect()
        };
        assert_eq!(keys(&mut encoder, 3), [true, false, false]);
        encoder.on_ended(0, 50_000, true);
        encoder.on_ended(1, 200_000, false);
        assert_eq!(keys(&mut encoder, 2), [true, false]);
        // The loss of an earlier frame does not matter after that key frame.
        encoder.on_ended(2, 220_000, false);
        assert_eq!(keys(&mut encoder, 2), [false, false]);
        encoder.on_missed(3, 300_000);
        assert_eq!(keys(&mut encoder, 2), [true, false]);
    }

    #[test]
    fn frames_make_a_chain() {
        let mut encoder = encoder(&grouped(3));
        let needs: Vec<_> =
            (0..5).filter_map(|_| encoder.next()?.frame).map(|frame| frame.needs[0]).collect();
        assert_eq!(needs, [None, Some(0), Some(1), None, Some(3)]);
    }

    proptest! {
        #[test]
        fn no_frame_is_out_of_bounds(
            seed: u64,
            jitter in 0.0..1.0f64,
            group in proptest::option::of(1..300u64),
            events in proptest::collection::vec((0..2_000_000_000u64, any::<bool>()), 1..50),
        ) {
            let game = Game { jitter: Ratio::from_f64(jitter).expect("it is a share"), ..group.map_or_else(game, grouped) };
            let mut encoder = Encoder::new(&game, Pcg64Mcg::seed_from_u64(seed));
            let least = game.frame_size(game.bitrate_min.bps()) as f64 / 2.0 * (1.0 - jitter);
            let mut last = 0;
            for (index, (rate, delivered)) in (0..).zip(events) {
                encoder.on_allowed(last, allowed(rate));
                let offer = encoder.next().expect("it is never stuck");
                prop_assert!(offer.size <= game.largest_frame() && offer.size as f64 >= least - 1.0);
                prop_assert!(offer.at_us >= last);
                last = offer.at_us;
                encoder.on_ended(index, last, delivered);
            }
        }
    }
}
