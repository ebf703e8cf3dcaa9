//! Flows as deterministic lists of offers.
//!
//! A [`Generator`] is an iterator of constant size, but for what a player remembers: an hour of video costs no more
//! memory than a second. It stands for the application at both ends: what it makes may depend on what it is told of the
//! blocks before. Two generators of the same flow, seed and index that are told the same give the same offers, whatever else runs.

mod blocks;
mod bulk;
mod dash;
mod draw;
mod encoded;
mod film;
mod frames;
mod game;
mod gop;
mod messages;
mod offer;
mod real;
mod reel;
pub(crate) mod references;
mod shelf;
mod source;
mod tiles;
mod video;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use squall_media::film::FilmError;
use squall_media::sphere::SphereError;

use crate::flow::{Flow, Follow, Traffic};
pub use offer::{Frame, Offer};
pub use source::Allowed;
pub(crate) use source::Outcome;
use source::Source;

/// What paces the offers of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// The clock: offer each block at its `at_us`.
    Clock,
    /// The session: from `start_us` to `end_us`, offer the next block whenever fewer than `backlog` bytes of
    /// the flow are queued.
    Saturate {
        /// First offer, in microseconds from the start of the run.
        start_us: u64,
        /// No offer at or after this time.
        end_us: u64,
        /// Bytes to keep queued.
        backlog: u64,
    },
}

/// The offers of one flow, in order of time. Endless for [`Pace::Saturate`].
#[derive(Debug)]
pub struct Generator {
    flow: Flow,
    source: Box<dyn Source>,
    /// Blocks so far.
    blocks: u64,
    /// Requests so far, which have channels of their own.
    requests: u64,
}

impl Generator {
    /// The offers of `flow`, the `index`th of its scenario, in a run with this seed.
    pub fn new(flow: &Flow, index: usize, seed: u64) -> Self {
        // One stream of random numbers per flow: adding a flow must not change the others.
        let stream = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let source = source(flow, Pcg64Mcg::seed_from_u64(seed ^ stream));
        Self { flow: flow.clone(), source, blocks: 0, requests: 0 }
    }

    /// What paces the offers.
    pub fn pace(&self) -> Pace {
        let Flow { start_us, end_us, .. } = self.flow;
        let saturate = |backlog| Pace::Saturate { start_us, end_us, backlog };
        self.flow.traffic.backlog().map_or(Pace::Clock, saturate)
    }

    /// The receiver has the `index`th block of the flow since `at_us`, in microseconds from the start of the run.
    /// A flow that had nothing to offer may have now.
    pub fn on_delivered(&mut self, index: u64, at_us: u64) {
        self.source.on_delivered(index, at_us.saturating_sub(self.flow.start_us));
    }

    /// The receiver knows since `at_us`, in microseconds from the start of the run, that it will not have the `index`th
    /// block of the flow, which its sender may or may not know. A flow that had nothing to offer may have now.
    pub fn on_missed(&mut self, index: u64, at_us: u64) {
        self.source.on_missed(index, at_us.saturating_sub(self.flow.start_us));
    }

    /// The session that sent the `index`th block of the flow is done with it since `at_us`, in microseconds from the
    /// start of the run: the receiver has it, or it was given up or never taken. A flow that had nothing to offer may
    /// have now.
    pub fn on_ended(&mut self, index: u64, at_us: u64, delivered: bool) {
        self.source.on_ended(index, at_us.saturating_sub(self.flow.start_us), delivered);
    }

    /// What [`Self::on_allowed`] is to be told before each block is made, if anything.
    pub fn follows(&self) -> Option<Follow> {
        self.flow.traffic.follows()
    }

    /// The session that sends allows this much since `at_us`, in microseconds from the start of the run.
    pub fn on_allowed(&mut self, at_us: u64, allowed: Allowed) {
        self.source.on_allowed(at_us.saturating_sub(self.flow.start_us), allowed);
    }

    /// What the receiving end made of the flow, when the run ends at `end_us` from its start.
    pub(crate) fn outcome(&self, end_us: u64) -> Outcome {
        self.source.outcome(end_us.saturating_sub(self.flow.start_us))
    }
}

impl Iterator for Generator {
    type Item = Offer;

    /// The next block. A flow that waits for what it will be told has none, and may have one again afterwards.
    fn next(&mut self) -> Option<Offer> {
        let offer = self.source.next()?;
        let at_us = self.flow.start_us.checked_add(offer.at_us).filter(|at_us| *at_us < self.flow.end_us)?;
        let multiplexer = self.flow.multiplexer;
        let count = if offer.is_request() { &mut self.requests } else { &mut self.blocks };
        let channel = multiplexer.channel(self.flow.channel, *count);
        *count += 1;
        Some(Offer { at_us, channel, ordered: multiplexer.is_ordered(), ..offer })
    }
}

/// Why pictures could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// Those of a film.
    #[error(transparent)]
    Film(#[from] FilmError),
    /// Those of a sphere.
    #[error(transparent)]
    Sphere(#[from] SphereError),
}

/// Encodes the pictures of a flow that has some, for all [`Generator`]s of it in this process. A generator that finds
/// none encodes them itself.
///
/// # Errors
/// When the codec fails.
pub fn prepare(flow: &Flow) -> Result<(), PictureError> {
    match &flow.traffic {
        Traffic::Film(film) => drop(film::encoded(film)?),
        Traffic::Tiles(tiles) => {
            if let Some(pictures) = &tiles.pictures {
                drop(tiles::encoded(tiles, pictures)?);
            }
        }
        _ => {}
    }
    Ok(())
}

/// The blocks of this flow; `rng` is theirs alone.
fn source(flow: &Flow, rng: Pcg64Mcg) -> Box<dyn Source> {
    let classes = flow.traffic.classes();
    match &flow.traffic {
        Traffic::Video(video) => Box::new(video::Frames::new(video, classes, rng)),
        Traffic::Blocks(blocks) => Box::new(blocks::Steady::new(blocks, classes)),
        Traffic::Bulk(bulk) => Box::new(bulk::Endless::new(bulk, classes)),
        Traffic::Messages(messages) => Box::new(messages::Irregular::new(messages, classes, rng)),
        Traffic::Gop(gop) => Box::new(gop::film(gop, classes, rng)),
        Traffic::Frames(frames) => Box::new(frames::film(frames, classes, rng)),
        Traffic::Film(film) => Box::new(film::Screening::new(film, classes, rng)),
        Traffic::Game(game) => Box::new(game::Encoder::new(game, classes, rng)),
        Traffic::Dash(film) => {
            Box::new(dash::Streaming::new(film, classes, flow.end_us - flow.start_us, rng))
        }
        Traffic::Tiles(tiles) => Box::new(tiles::Sphere::new(tiles, classes, rng)),
        Traffic::Encoded(film) => Box::new(encoded::Screening::new(film, classes)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flow::{
        Blocks, Bulk, Direction, Distribution, FrameType, Gop, Messages, Multiplexer, Production,
        ReliableFrames, Video,
    };

    fn flow(traffic: Traffic) -> Flow {
        Flow {
            name: "f".into(),
            direction: Direction::Down,
            channel: 3,
            multiplexer: Multiplexer::Unordered,
            weight: 1,
            start_us: 500_000,
            end_us: 10_500_000,
            production: Production::default(),
            traffic,
        }
    }

    fn video() -> Video {
        Video {
            fps: 30,
            bitrate_bps: 20_000_000,
            group: 60,
            key_ratio: 5.0,
            size_jitter: 0.2,
            deadline_us: Some(100_000),
            priority_key: 0,
            priority_delta: 1,
            reliable: ReliableFrames::Key,
        }
    }

    #[test]
    fn video_keeps_its_rate_and_pace() {
        let offers: Vec<_> = Generator::new(&flow(Traffic::Video(video())), 0, 1).collect();
        assert_eq!(offers.len(), 300);
        assert_eq!(offers[0].at_us, 500_000);
        assert_eq!(offers[1].at_us, 533_333);
        assert_eq!(offers.iter().filter(|o| o.class == 0).count(), 5);
        assert!(offers.iter().all(|o| o.reliable == (o.class == 0) && u16::from(o.priority) == o.class));
        let bps = offers.iter().map(|o| o.size * 8).sum::<u64>() / 10;
        assert!((19_500_000..20_500_000).contains(&bps), "{bps}");
        let sizes: std::collections::BTreeSet<_> = offers.iter().map(|o| o.size).collect();
        assert!(sizes.len() > 250, "sizes vary");
    }

    #[test]
    fn key_ratio_holds_without_jitter() {
        let exact = Video { size_jitter: 0.0, ..video() };
        let offers: Vec<_> = Generator::new(&flow(Traffic::Video(exact)), 0, 1).take(2).collect();
        let ratio = offers[0].size as f64 / offers[1].size as f64;
        assert!((ratio - 5.0).abs() < 0.001, "{ratio}");
    }

    #[test]
    fn seed_and_index_decide() {
        let flow = flow(Traffic::Video(video()));
        let offers = |index, seed| Generator::new(&flow, index, seed).collect::<Vec<_>>();
        assert_eq!(offers(0, 7), offers(0, 7));
        assert_ne!(offers(0, 7), offers(0, 8));
        assert_ne!(offers(0, 7), offers(1, 7));
    }

    #[test]
    fn blocks_end_with_the_flow() {
        let blocks =
            Blocks { size: 1_000, interval_us: 250_000, deadline_us: None, priority: 2, reliable: false };
        let times: Vec<_> = Generator::new(&flow(Traffic::Blocks(blocks)), 0, 1).map(|o| o.at_us).collect();
        assert_eq!(times.len(), 40);
        assert_eq!(times.last(), Some(&10_250_000));
    }

    #[test]
    fn messages_are_spread_as_the_multiplexer_says() {
        let blocks =
            Blocks { size: 1_000, interval_us: 1_000, deadline_us: None, priority: 2, reliable: false };
        let spread = |multiplexer| {
            let flow = Flow { multiplexer, ..flow(Traffic::Blocks(blocks.clone())) };
            let offers: Vec<_> = Generator::new(&flow, 0, 1).collect();
            let channels: Vec<_> = offers.iter().map(|offer| offer.channel).collect();
            (channels[..5].to_vec(), channels[1_021..1_024].to_vec(), offers[0].ordered)
        };
        assert_eq!(spread(Multiplexer::One), (vec![3; 5], vec![3; 3], true));
        assert_eq!(spread(Multiplexer::Unordered), (vec![3; 5], vec![3; 3], false));
        assert_eq!(spread(Multiplexer::PerMessage), (vec![3, 4, 5, 6, 7], vec![0, 1, 2], false));
        assert_eq!(spread(Multiplexer::Spread(2)), (vec![3, 4, 3, 4, 3], vec![4, 3, 4], true));
    }

    #[test]
    fn bulk_is_endless_and_reliable() {
        let bulk = Bulk { size: 65_536, backlog: 1_000_000, priority: 1 };
        let mut generator = Generator::new(&flow(Traffic::Bulk(bulk)), 0, 1);
        assert_eq!(
            generator.pace(),
            Pace::Saturate { start_us: 500_000, end_us: 10_500_000, backlog: 1_000_000 }
        );
        let offer = generator.nth(1_000_000).unwrap();
        assert!(offer.reliable && offer.size == 65_536 && offer.channel == 3);
    }

    fn any_distribution(least: u64, greatest: u64) -> impl Strategy<Value = Distribution> {
        let mean = least.max(10)..greatest / 2;
        prop_oneof![
            (least..=greatest).prop_map(Distribution::Constant),
            (least..=greatest).prop_map(move |from| Distribution::Uniform { from, to: greatest }),
            mean.clone().prop_map(|mean| Distribution::Exponential { mean }),
            (mean.clone(), 1.01..100.0f64).prop_map(|(mean, shape)| Distribution::Pareto { mean, shape }),
            mean.prop_map(|mean| Distribution::Poisson { mean, step: 1 }),
        ]
    }

    proptest! {
        #[test]
        fn messages_go_on_within_their_bounds(
            size in any_distribution(1, 16 << 20), interval in any_distribution(100, 3_600_000_000), seed: u64,
        ) {
            let messages = Messages {
                size, interval, deadline_us: None, priority: 0, reliable: true, blocking: false,
            };
            let endless = Flow { start_us: 0, end_us: u64::MAX, ..flow(Traffic::Messages(messages)) };
            let offers: Vec<_> = Generator::new(&endless, 0, seed).take(50).collect();
            prop_assert_eq!(offers.len(), 50);
            prop_assert!(offers.iter().all(|offer| (1..=16 << 20).contains(&offer.size)));
            let steps = offers.windows(2).map(|pair| pair[1].at_us - pair[0].at_us);
            prop_assert!(steps.into_iter().all(|step| (100..=3_600_000_000).contains(&step)));
        }

        #[test]
        fn groups_keep_their_rate_and_lose_no_picture(
            pattern in "I[IPB]{0,20}", interval_us in 10_000u64..2_000_000, spread: bool, seed: u64,
        ) {
            let gop = Gop {
                pattern: pattern.chars().filter_map(FrameType::of).collect(),
                interval_us,
                bitrate_bps: 8_000_000,
                sizes: [10.0, 3.0, 1.0],
                size_jitter: 0.0,
                spread,
                deadline_us: None,
                priorities: [0, 1, 2],
                reliable: ReliableFrames::Reference,
            };
            let endless = Flow { start_us: 0, end_us: u64::MAX, ..flow(Traffic::Gop(gop)) };
            let count = 5 * pattern.len();
            let offers: Vec<_> = Generator::new(&endless, 0, seed).take(count).collect();
            let bytes: u64 = offers.iter().map(|offer| offer.size).sum();
            // Whole bytes, and none of 0.
            prop_assert!(bytes.abs_diff(5 * interval_us) <= count as u64, "{bytes}");
            prop_assert!(offers.is_sorted_by_key(|offer| offer.at_us));
            let mut pictures: Vec<u64> = offers.iter().filter_map(|o| Some(o.frame?.picture)).collect();
            pictures.sort_unstable();
            prop_assert!(pictures.into_iter().eq(0..count as u64));
            for (index, offer) in offers.iter().enumerate() {
                let frame = offer.frame.expect("a group has pictures");
                prop_assert!(frame.needs.iter().flatten().all(|need| *need < index as u64));
            }
        }
    }
}
