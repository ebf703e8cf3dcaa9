//! Kinds of traffic, and flows as deterministic lists of offers.
//!
//! Each kind has one file: a struct with the fields of the scenario file, their defaults and bounds
//! ([`Kind`]), and the generator of its blocks ([`Source`]).
//!
//! A [`Generator`] is an iterator of constant size, apart from the history of a player: an hour of
//! video needs no more memory than a second. It represents the application at both ends, so its
//! blocks may depend on the events of earlier blocks. Two generators of the same flow, seed and
//! index that receive the same events produce the same offers, regardless of other flows.

mod blocks;
mod bulk;
mod cache;
mod cycle;
mod dash;
mod distribution;
mod fields;
mod film;
mod frame_trace;
mod frame_type;
mod frames;
mod game;
mod gop;
mod messages;
mod real;
pub(crate) mod references;
mod source;
mod tiles;
mod video;

use std::ops::Deref;

use bytes::Bytes;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::flow::Flow;
use crate::offer::Offer;
pub use blocks::Blocks;
pub use bulk::Bulk;
pub use cycle::CycleFrame;
pub use dash::Dash;
pub use distribution::{Distribution, Pareto};
pub use fields::{Checked, Invalid};
pub use film::{Encoded, Film};
pub use frame_trace::{FrameRow, FrameTrace};
pub use frame_type::{FrameType, Priorities, ReliableFrames};
pub use frames::Frames;
pub use game::{Forecast, Game};
pub use gop::{FrameSizes, Gop};
pub use messages::Messages;
pub use source::{Allowed, Follow, Kind, Outcome, PictureError, Source};
pub use tiles::{Head, ReliableTiles, TilePictures, Tiles, Viewport};
pub use video::{References, Video};

/// Kinds of traffic. Scenario files name them in lower case.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Traffic {
    /// Frames at a steady pace, key frames larger than delta frames.
    Video(Video),
    /// Blocks of one size at a steady pace.
    Blocks(Blocks),
    /// As many reliable blocks as the session accepts.
    Bulk(Bulk),
    /// Messages of random sizes at random times.
    Messages(Messages),
    /// Groups of pictures with a pattern.
    Gop(Gop),
    /// A film with recorded frame sizes.
    Frames(Frames),
    /// A film that is really encoded, and evaluated by the pictures that can be decoded.
    Film(Film),
    /// Frames whose size follows the capacity of the session.
    Game(Game),
    /// Segments requested by a player with a small buffer.
    Dash(Dash),
    /// Tiles of a sphere, selected by the viewing direction.
    Tiles(Tiles),
    /// Frames of a given encode, sent once; not available in scenario files.
    #[serde(skip)]
    Encoded(Encoded),
}

impl Deref for Traffic {
    type Target = dyn Kind;

    fn deref(&self) -> &(dyn Kind + 'static) {
        match self {
            Traffic::Video(video) => video,
            Traffic::Blocks(blocks) => blocks,
            Traffic::Bulk(bulk) => bulk,
            Traffic::Messages(messages) => messages,
            Traffic::Gop(gop) => gop,
            Traffic::Frames(frames) => frames,
            Traffic::Film(film) => film,
            Traffic::Game(game) => game,
            Traffic::Dash(dash) => dash,
            Traffic::Tiles(tiles) => tiles,
            Traffic::Encoded(film) => film,
        }
    }
}

impl Traffic {
    /// Loads the files that the traffic names, which are relative to this folder.
    ///
    /// # Errors
    /// The field that names an unusable file.
    pub fn load(&mut self, base: &std::path::Path) -> Checked {
        match self {
            Traffic::Frames(frames) => frames.load(base),
            _ => Ok(()),
        }
    }
}

/// Pacing of the offers of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// By the clock: each block is offered at its `at_us`.
    Clock,
    /// By the session: from `start_us` to `end_us`, the next block is offered whenever fewer than
    /// `backlog` bytes of the flow are queued.
    Saturate {
        /// Time of the first offer, in microseconds from the start of the run.
        start_us: u64,
        /// End of the offers, exclusive.
        end_us: u64,
        /// Bytes to keep queued.
        backlog: u64,
    },
}

/// Offers of one flow, in order of time. Endless for [`Pace::Saturate`].
#[derive(Debug)]
pub struct Generator {
    flow: Flow,
    source: Box<dyn Source>,
}

impl Generator {
    /// Creates the offers of `flow`, the `index`th of its scenario, in a run with this seed.
    pub fn new(flow: &Flow, index: usize, seed: u64) -> Self {
        // A random number stream of its own, so that adding a flow does not change the others.
        let stream = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let rng = Pcg64Mcg::seed_from_u64(seed ^ stream);
        let source = flow.traffic.source(rng, flow.end_us - flow.start_us);
        Self { flow: flow.clone(), source }
    }

    /// Pacing of the offers.
    pub fn pace(&self) -> Pace {
        let Flow { start_us, end_us, .. } = self.flow;
        let saturate = |backlog| Pace::Saturate { start_us, end_us, backlog };
        self.flow.traffic.backlog().map_or(Pace::Clock, saturate)
    }

    /// Called when the receiver has the `index`th block of the flow, at `at_us` in microseconds
    /// from the start of the run. Any of these events may give a flow without offers a new block.
    pub fn on_delivered(&mut self, index: u64, at_us: u64) {
        self.source.on_delivered(index, at_us.saturating_sub(self.flow.start_us));
    }

    /// Called when the receiver detects, at `at_us` in microseconds from the start of the run, that
    /// the `index`th block of the flow will not arrive; the sender may not have detected that.
    pub fn on_missed(&mut self, index: u64, at_us: u64) {
        self.source.on_missed(index, at_us.saturating_sub(self.flow.start_us));
    }

    /// Called when the sending session has finished the `index`th block of the flow, at `at_us` in
    /// microseconds from the start of the run: delivered, dropped or refused it.
    pub fn on_ended(&mut self, index: u64, at_us: u64, delivered: bool) {
        self.source.on_ended(index, at_us.saturating_sub(self.flow.start_us), delivered);
    }

    /// Forecast that [`Self::on_allowed`] must supply before each block is made, if any.
    pub fn follows(&self) -> Option<Follow> {
        self.flow.traffic.follows()
    }

    /// Called with the limits of the sending session, at `at_us` in microseconds from the start of
    /// the run.
    pub fn on_allowed(&mut self, at_us: u64, allowed: Allowed) {
        self.source.on_allowed(at_us.saturating_sub(self.flow.start_us), allowed);
    }

    /// Contents of the `index`th block of the flow, if they are not arbitrary.
    pub fn data(&self, index: u64) -> Option<Bytes> {
        self.source.data(index)
    }

    /// Returns the results at the receiver, for a run that ends `end_us` after its start.
    pub(crate) fn outcome(&self, end_us: u64) -> Outcome {
        self.source.outcome(end_us.saturating_sub(self.flow.start_us))
    }
}

impl Iterator for Generator {
    type Item = Offer;

    /// Returns the next block. `None` while the flow waits for an event; it may have a block again
    /// later.
    fn next(&mut self) -> Option<Offer> {
        let offer = self.source.next()?;
        let at_us = self.flow.start_us.checked_add(offer.at_us).filter(|at_us| *at_us < self.flow.end_us)?;
        Some(Offer { at_us, ..offer })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use squall_units::{Size, Span};

    use super::*;
    use crate::flow::Direction;

    /// Flow with this traffic from 0.5 s to 10.5 s.
    fn flow(traffic: Traffic) -> Flow {
        Flow { start_us: 500_000, ..Flow::new("f", Direction::Down, 10_500_000, traffic) }
    }

    /// Traffic of this kind with these fields.
    fn traffic(kind: &str, fields: &str) -> Traffic {
        toml::from_str(&format!("[{kind}]\n{fields}")).expect("its fields are right")
    }

    const VIDEO: &str =
        "fps = 30\nbitrate = \"20mbps\"\nkey_ratio = 5\ndeadline = \"100ms\"\nreliable = \"key\"";

    fn video() -> Traffic {
        traffic("video", &format!("{VIDEO}\njitter = 0.2"))
    }

    #[test]
    fn video_keeps_its_rate_and_pace() {
        let offers: Vec<_> = Generator::new(&flow(video()), 0, 1).collect();
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
        let offers: Vec<_> = Generator::new(&flow(traffic("video", VIDEO)), 0, 1).take(2).collect();
        let ratio = offers[0].size as f64 / offers[1].size as f64;
        assert!((ratio - 5.0).abs() < 0.001, "{ratio}");
    }

    #[test]
    fn delta_frames_need_the_one_before_or_the_key_frame_of_their_group() {
        let needs = |references: &str| {
            let fields = format!("{VIDEO}\nkeyframe_interval = \"100ms\"\n{references}");
            let offers = Generator::new(&flow(traffic("video", &fields)), 0, 1).take(6);
            offers.map(|offer| offer.frame.expect("is a picture").needs[0]).collect::<Vec<_>>()
        };
        assert_eq!(needs(""), [None, Some(0), Some(1), None, Some(3), Some(4)]);
        assert_eq!(needs("references = \"previous\""), needs(""));
        assert_eq!(needs("references = \"key\""), [None, Some(0), Some(0), None, Some(3), Some(3)]);
    }

    #[test]
    fn seed_and_index_decide() {
        let flow = flow(video());
        let offers = |index, seed| Generator::new(&flow, index, seed).collect::<Vec<_>>();
        assert_eq!(offers(0, 7), offers(0, 7));
        assert_ne!(offers(0, 7), offers(0, 8));
        assert_ne!(offers(0, 7), offers(1, 7));
    }

    #[test]
    fn blocks_end_with_the_flow() {
        let blocks =
            traffic("blocks", "size = \"1kB\"\ninterval = \"250ms\"\npriority = 2\nreliable = false");
        let times: Vec<_> = Generator::new(&flow(blocks), 0, 1).map(|o| o.at_us).collect();
        assert_eq!(times.len(), 40);
        assert_eq!(times.last(), Some(&10_250_000));
    }

    #[test]
    fn bulk_is_endless_and_reliable() {
        let bulk = traffic("bulk", "size = 65536\nbacklog = \"1MB\"\npriority = 1");
        let mut generator = Generator::new(&flow(bulk), 0, 1);
        assert_eq!(
            generator.pace(),
            Pace::Saturate { start_us: 500_000, end_us: 10_500_000, backlog: 1_000_000 }
        );
        let offer = generator.nth(1_000_000).unwrap();
        assert!(offer.reliable && offer.size == 65_536);
    }

    fn any_distribution<T: Copy + std::fmt::Debug + 'static>(
        least: u64,
        greatest: u64,
        of: fn(u64) -> T,
    ) -> impl Strategy<Value = Distribution<T>> {
        let mean = least.max(10)..greatest / 2;
        prop_oneof![
            (least..=greatest).prop_map(move |value| Distribution::Constant(of(value))),
            (least..=greatest).prop_map(move |from| Distribution::Uniform((of(from), of(greatest)))),
            mean.clone().prop_map(move |mean| Distribution::Exponential(of(mean))),
            (mean.clone(), 1.01..100.0f64)
                .prop_map(move |(mean, shape)| Distribution::Pareto(Pareto { mean: of(mean), shape })),
            mean.prop_map(move |mean| Distribution::Poisson(of(mean))),
        ]
    }

    proptest! {
        #[test]
        fn messages_go_on_within_their_bounds(
            size in any_distribution(1, 16 << 20, Size::from_bytes),
            interval in any_distribution(100, 3_600_000_000, Span::from_micros),
            seed: u64,
        ) {
            let messages = Messages {
                size, interval, deadline: None, priority: 0, reliable: ReliableFrames::All, blocking: false,
                send_buffer: None,
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
            let fields = format!(
                "pattern = {pattern:?}\ninterval = \"{interval_us}us\"\nbitrate = \"8mbps\"\nspread = {spread}\n\
                 sizes = {{ I = 10, P = 3, B = 1 }}"
            );
            let gop = traffic("gop", &fields);
            let endless = Flow { start_us: 0, end_us: u64::MAX, ..flow(gop) };
            let count = 5 * pattern.len();
            let offers: Vec<_> = Generator::new(&endless, 0, seed).take(count).collect();
            let bytes: u64 = offers.iter().map(|offer| offer.size).sum();
            // Sizes are integers and at least 1.
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
