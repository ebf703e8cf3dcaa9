//! Frames of a game, as large as the session allows.

use rand_pcg::Pcg64Mcg;

use super::source::{Allowed, Source, jittered};
use super::{Frame, Offer};
use crate::flow::{Class, Game};

/// An encoder that follows a rate. A frame is encoded during the interval before it is offered, so its size is that of
/// the rate when the one before it was.
#[derive(Debug)]
pub(super) struct Encoder {
    game: Game,
    /// Key frames and delta frames.
    classes: Vec<Class>,
    rng: Pcg64Mcg,
    next: u64,
    /// What the session allows; nothing as long as it is not known.
    allowed: Allowed,
    /// Bytes that key frames took beyond the mean, and that frames after them are yet to save.
    debt: u64,
    /// The last key frame, once there was one.
    key: Option<u64>,
    /// A frame since then is lost: nothing can be decoded until the next key frame.
    broken: bool,
}

impl Encoder {
    pub(super) fn new(game: &Game, classes: Vec<Class>, rng: Pcg64Mcg) -> Self {
        Self {
            game: game.clone(),
            classes,
            rng,
            next: 0,
            allowed: Allowed::default(),
            debt: 0,
            key: None,
            broken: false,
        }
    }

    /// Bytes for the next frame, such that the mean is that of the bitrate, and as few as it takes to arrive.
    fn budget(&mut self, key: bool) -> u64 {
        let least = self.game.frame_size(self.game.bitrate_min_bps);
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
        self.key.is_none_or(|key| self.broken || self.game.group.is_some_and(|group| index - key >= group))
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
        let size = jittered(self.budget(key), self.game.size_jitter, &mut self.rng);
        let class = usize::from(!key);
        Some(Offer {
            deadline_us: Some(self.game.deadline_us),
            frame: Some(Frame::in_sequence(index, key)),
            ..Offer::new(at_us, size, class as u16, &self.classes[class])
        })
    }

    /// A frame that is missing breaks the chain of those after it. The next one begins a new chain, as after a picture
    /// loss indication (RFC 4585 §6.3.1), whose way to the sender takes no time here. What was lost before the last key
    /// frame is mended already.
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
    use crate::flow::{Follow, ReliableFrames, Traffic};

    fn game() -> Game {
        Game {
            fps: 50,
            bitrate_min_bps: 1_000_000,
            bitrate_max_bps: 20_000_000,
            follow: Follow::Link,
            share: 0.5,
            group: None,
            key_ratio: 3.0,
            size_jitter: 0.0,
            deadline_us: 200_000,
            priority_key: 0,
            priority_delta: 1,
            reliable: ReliableFrames::All,
        }
    }

    fn encoder(game: &Game) -> Encoder {
        let classes = Traffic::Game(game.clone()).classes();
        Encoder::new(game, classes, Pcg64Mcg::seed_from_u64(1))
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
        // Nothing is known yet: 1 Mbps, 2,500 bytes a frame, the first three times that; four frames save the rest.
        assert_eq!(sizes(&mut encoder, 6), [7_500, 1_250, 1_250, 1_250, 1_250, 2_500]);
        encoder.on_allowed(60_000, allowed(8_000_000));
        assert_eq!(sizes(&mut encoder, 2), [10_000, 10_000]);
        encoder.on_allowed(100_000, allowed(1_000_000_000));
        assert_eq!(sizes(&mut encoder, 1), [50_000]);
        encoder.on_allowed(120_000, allowed(100_000));
        assert_eq!(sizes(&mut encoder, 1), [2_500]);
    }

    #[test]
    fn no_frame_is_larger_than_what_arrives() {
        let mut encoder = encoder(&Game { group: Some(2), ..game() });
        encoder.on_allowed(0, Allowed { bps: 16_000_000, frame: 30_000 });
        assert_eq!(sizes(&mut encoder, 2), [30_000, 10_000]);
        encoder.on_allowed(40_000, Allowed { bps: 16_000_000, frame: 0 });
        assert_eq!(sizes(&mut encoder, 1), [2_500], "what the encoder makes at least");
    }

    #[test]
    fn key_frames_are_within_the_bitrate() {
        let mut encoder = encoder(&Game { group: Some(10), ..game() });
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
        // What was lost before that key frame is no news.
        encoder.on_ended(2, 220_000, false);
        assert_eq!(keys(&mut encoder, 2), [false, false]);
        encoder.on_missed(3, 300_000);
        assert_eq!(keys(&mut encoder, 2), [true, false]);
    }

    #[test]
    fn frames_make_a_chain() {
        let mut encoder = encoder(&Game { group: Some(3), ..game() });
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
            told in proptest::collection::vec((0..2_000_000_000u64, any::<bool>()), 1..50),
        ) {
            let game = Game { group, size_jitter: jitter, ..game() };
            let mut encoder = Encoder::new(
                &game,
                Traffic::Game(game.clone()).classes(),
                Pcg64Mcg::seed_from_u64(seed),
            );
            let least = game.frame_size(game.bitrate_min_bps) as f64 / 2.0 * (1.0 - jitter);
            let mut last = 0;
            for (index, (rate, delivered)) in (0..).zip(told) {
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
