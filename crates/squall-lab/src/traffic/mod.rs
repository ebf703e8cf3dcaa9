//! Flows as deterministic lists of offers.
//!
//! A [`Generator`] is an iterator of constant size: an hour of video costs no more memory than a second. Two
//! generators of the same flow, seed and index give the same offers, whatever else runs.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::flow::{Flow, Traffic, Video};

/// One block that the application hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// When, in microseconds from the start of the run. For [`Pace::Saturate`]: not before.
    pub at_us: u64,
    /// Size in bytes, at least 1.
    pub size: u64,
    /// Deadline in microseconds after `at_us`.
    pub deadline_us: Option<u64>,
    /// Priority, 0 first.
    pub priority: u8,
    /// Whether lost data is repaired until it arrives.
    pub reliable: bool,
    /// Which of the flow's [classes](crate::flow::Traffic::classes) it is of.
    pub class: u16,
    /// What it is to a player, if it is a picture or a part of one.
    pub frame: Option<Frame>,
    /// Channel of the session that carries it.
    pub channel: u32,
    /// Whether it is told after the ordered one before it on its channel.
    pub ordered: bool,
}

/// A block as a decoder sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Which picture it belongs to, counted from 0 in the order of display.
    pub picture: u64,
    /// Whether the picture can be shown once this block and what it needs are there. Refinements of a
    /// picture that can be shown without them are not the base.
    pub base: bool,
    /// Blocks of the flow, counted from 0 in the order of the offers, that it cannot be decoded without.
    pub needs: [Option<u64>; 2],
}

impl Frame {
    /// A whole picture that needs at most the one that was offered before it, as in a stream without
    /// reordering: a key frame nothing.
    pub fn in_sequence(index: u64, key: bool) -> Self {
        Self { picture: index, base: true, needs: [index.checked_sub(1).filter(|_| !key), None] }
    }
}

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
#[derive(Debug, Clone)]
pub struct Generator {
    flow: Flow,
    rng: Pcg64Mcg,
    next: u64,
}

impl Generator {
    /// The offers of `flow`, the `index`th of its scenario, in a run with this seed.
    pub fn new(flow: &Flow, index: usize, seed: u64) -> Self {
        // One stream of random numbers per flow: adding a flow must not change the others.
        let stream = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self { flow: flow.clone(), rng: Pcg64Mcg::seed_from_u64(seed ^ stream), next: 0 }
    }

    /// What paces the offers.
    pub fn pace(&self) -> Pace {
        match &self.flow.traffic {
            Traffic::Video(_) | Traffic::Blocks(_) => Pace::Clock,
            Traffic::Bulk(bulk) => Pace::Saturate {
                start_us: self.flow.start_us,
                end_us: self.flow.end_us,
                backlog: bulk.backlog,
            },
        }
    }
}

impl Iterator for Generator {
    type Item = Offer;

    fn next(&mut self) -> Option<Offer> {
        let index = self.next;
        let Flow { multiplexer, channel: first, .. } = self.flow;
        let (channel, ordered) = (multiplexer.channel(first, index), multiplexer.is_ordered());
        let after_start_us = match &self.flow.traffic {
            Traffic::Video(video) => index.checked_mul(1_000_000)? / u64::from(video.fps),
            Traffic::Blocks(blocks) => index.checked_mul(blocks.interval_us)?,
            Traffic::Bulk(_) => 0,
        };
        let at_us = self.flow.start_us.checked_add(after_start_us)?;
        if at_us >= self.flow.end_us {
            return None;
        }
        self.next += 1;
        Some(match &self.flow.traffic {
            Traffic::Video(video) => Offer { channel, ordered, ..frame(video, index, at_us, &mut self.rng) },
            Traffic::Blocks(blocks) => Offer {
                at_us,
                size: blocks.size,
                deadline_us: blocks.deadline_us,
                priority: blocks.priority,
                reliable: blocks.reliable,
                class: 0,
                frame: None,
                channel,
                ordered,
            },
            Traffic::Bulk(bulk) => Offer {
                at_us,
                size: bulk.size,
                deadline_us: None,
                priority: bulk.priority,
                reliable: true,
                class: 0,
                frame: None,
                channel,
                ordered,
            },
        })
    }
}

fn frame(video: &Video, index: u64, at_us: u64, rng: &mut Pcg64Mcg) -> Offer {
    let key = index.is_multiple_of(video.group);
    Offer {
        at_us,
        size: jittered(video.frame_size(key), video.size_jitter, rng),
        deadline_us: video.deadline_us,
        priority: if key { video.priority_key } else { video.priority_delta },
        reliable: video.reliable.covers(key),
        class: u16::from(!key),
        frame: Some(Frame::in_sequence(index, key)),
        channel: 0,
        ordered: false,
    }
}

/// Integers and a uniform spread only: the same sizes on every machine.
fn jittered(size: u64, jitter: f64, rng: &mut Pcg64Mcg) -> u64 {
    const ONE: u64 = 1_000_000;
    let spread = (jitter.clamp(0.0, 1.0) * ONE as f64) as u64;
    let factor = if spread == 0 { ONE } else { rng.random_range(ONE - spread..=ONE + spread) };
    (size.saturating_mul(factor) / ONE).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Blocks, Bulk, Direction, Multiplexer, ReliableFrames};

    fn flow(traffic: Traffic) -> Flow {
        Flow {
            name: "f".into(),
            direction: Direction::Down,
            channel: 3,
            multiplexer: Multiplexer::Unordered,
            weight: 1,
            start_us: 500_000,
            end_us: 10_500_000,
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
}
