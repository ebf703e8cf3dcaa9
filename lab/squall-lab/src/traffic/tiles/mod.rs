//! The tiles of a 360° video, by where its viewer looks.
//!
//! For each picture the sender knows where the viewer looked a little ago, and cuts the sphere into three rings: tiles
//! of the viewport in full, those at its margin smaller, those outside as a mask that keeps holes out of a picture when
//! the head has turned, as STORM's application does (§5.5). Tiles are offered from the middle of the viewport outwards.
//! What the viewer sees when the picture is shown is another matter.

mod gallery;
mod grid;
mod head;
mod perceived;

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use self::gallery::Gallery;
pub(super) use self::gallery::encoded;
use self::grid::{Grid, Ring};
use self::head::{Direction, Motion};
use self::perceived::Perceived;
use super::Offer;
use super::source::{Outcome, Source, jittered};
use crate::flow::{Class, Tiles};

/// A sphere, its viewer, and what of the one the other sees.
#[derive(Debug)]
pub(super) struct Sphere {
    tiles: Tiles,
    /// Those of the viewport, of its margin, and outside.
    classes: Vec<Class>,
    grid: Grid,
    rng: Pcg64Mcg,
    head: Motion,
    pictures: u64,
    /// Blocks of the latest picture that are not offered yet.
    queue: VecDeque<Offer>,
    /// Blocks of all pictures so far.
    blocks: u64,
    perceived: Perceived,
    /// Of real pictures, how they look.
    gallery: Option<Gallery>,
}

impl Sphere {
    pub(super) fn new(tiles: &Tiles, classes: Vec<Class>, mut rng: Pcg64Mcg) -> Self {
        // Of its own, as the head is ahead of the sizes.
        let head = Pcg64Mcg::seed_from_u64(rng.random());
        Self {
            tiles: tiles.clone(),
            classes,
            grid: Grid::new(tiles),
            rng,
            head: Motion::new(tiles.head.speed, tiles.head.tilt, head),
            pictures: 0,
            queue: VecDeque::new(),
            blocks: 0,
            perceived: Perceived::default(),
            gallery: tiles.pictures.as_ref().map(|pictures| Gallery::new(tiles, pictures)),
        }
    }

    /// Cuts the next picture into blocks. None after the end of time.
    fn cut(&mut self) -> Option<()> {
        let at_us = self.pictures.checked_mul(1_000_000)? / u64::from(self.tiles.fps);
        let due_us = at_us.checked_add(self.tiles.deadline_us)?;
        self.pictures += 1;
        let known_us = at_us.saturating_sub(self.tiles.feedback_us);
        self.head.forget(known_us);
        let (known, shown) = (self.head.at(known_us), self.head.at(due_us));
        let full: Vec<u64> = (0..self.grid.len()).map(|tile| self.full_size(tile)).collect();
        let mut seen = Vec::new();
        let mut sent = Vec::new();
        for tile in self.grid.by_distance(known) {
            let ring = self.grid.ring(tile, known);
            let Some(size) = self.size(tile, full[tile], ring) else { continue };
            seen.push(if self.is_seen(tile, shown) { size } else { 0 });
            sent.push((tile, ring));
            self.queue.push_back(self.block(at_us, size, ring));
        }
        let all_seen = full.iter().enumerate().filter(|(tile, _)| self.is_seen(*tile, shown));
        let all_seen = all_seen.map(|(_, bytes)| bytes).sum();
        let first = self.blocks;
        if let Some(gallery) = &mut self.gallery {
            gallery.on_picture(due_us, first, &sent, self.grid.seen(shown));
        }
        self.blocks += seen.len() as u64;
        self.perceived.on_picture(at_us, due_us, first, seen, all_seen);
        Some(())
    }

    /// Bytes of a tile of the next picture in full.
    fn full_size(&mut self, tile: usize) -> u64 {
        match &self.gallery {
            Some(gallery) => gallery.size(tile, Ring::Viewport).unwrap_or(1),
            None => jittered(self.tiles.tile_size(), self.tiles.size_jitter, &mut self.rng),
        }
    }

    /// Bytes of a tile in this ring that has so many in full, if anything of it is sent.
    fn size(&self, tile: usize, full: u64, ring: Ring) -> Option<u64> {
        if let Some(gallery) = &self.gallery {
            return gallery.size(tile, ring);
        }
        let share = match ring {
            Ring::Viewport => 1.0,
            Ring::Margin => self.tiles.margin_share,
            Ring::Outside => self.tiles.outside_share,
        };
        (share > 0.0).then(|| ((full as f64 * share) as u64).max(1))
    }

    fn block(&self, at_us: u64, size: u64, ring: Ring) -> Offer {
        let class = ring as usize;
        let offer = Offer::new(at_us, size, class as u16, &self.classes[class]);
        Offer { deadline_us: Some(self.tiles.deadline_us), ..offer }
    }

    fn is_seen(&self, tile: usize, view: Direction) -> bool {
        self.grid.ring(tile, view) == Ring::Viewport
    }
}

impl Source for Sphere {
    fn next(&mut self) -> Option<Offer> {
        if self.queue.is_empty() {
            self.cut()?;
        }
        self.queue.pop_front()
    }

    fn on_delivered(&mut self, index: u64, at_us: u64) {
        self.perceived.on_delivered(index, at_us);
        if let Some(gallery) = &mut self.gallery {
            gallery.on_delivered(index, at_us);
        }
    }

    fn outcome(&self, end_us: u64) -> Outcome {
        let pictures = self.gallery.as_ref().and_then(|gallery| gallery.quality(end_us));
        Outcome { perceived_ratio: self.perceived.ratio(end_us), pictures, ..Outcome::default() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flow::{Head, ReliableTiles, Traffic, Viewport};

    pub(super) fn tiles() -> Tiles {
        Tiles {
            fps: 25,
            bitrate_bps: 72_000_000,
            columns: 12,
            rows: 6,
            viewport: Viewport { width: 100.0, height: 80.0 },
            head: Head { speed: 0.0, tilt: 0.0 },
            feedback_us: 100_000,
            margin_share: 0.5,
            outside_share: 0.1,
            size_jitter: 0.0,
            deadline_us: 80_000,
            reliable: ReliableTiles::Margin,
            pictures: None,
        }
    }

    fn sphere(tiles: &Tiles, seed: u64) -> Sphere {
        let classes = Traffic::Tiles(tiles.clone()).classes();
        Sphere::new(tiles, classes, Pcg64Mcg::seed_from_u64(seed))
    }

    /// Offers `count` pictures, and delivers each block if it is one of these, right away.
    fn show(sphere: &mut Sphere, count: u64, delivered: impl Fn(&Offer) -> bool) -> Vec<Offer> {
        let mut offers = Vec::new();
        loop {
            let offer = sphere.next().expect("there is always a picture");
            if offer.at_us >= count * 40_000 {
                return offers;
            }
            if delivered(&offer) {
                sphere.on_delivered(offers.len() as u64, offer.at_us + 10_000);
            }
            offers.push(offer);
        }
    }

    #[test]
    fn a_picture_is_cut_into_rings() {
        let offers = show(&mut sphere(&tiles(), 1), 1, |_| true);
        // Looking at 180°, 0°: columns 4 to 7, rows 1 to 4. 360,000 bytes a picture, 5,000 a tile.
        let of = |class| offers.iter().filter(move |offer| offer.class == class).map(|offer| offer.size);
        assert_eq!((of(0).count(), of(1).count(), of(2).count()), (16, 20, 36));
        assert_eq!((of(0).max(), of(1).max(), of(2).max()), (Some(5_000), Some(2_500), Some(500)));
        assert!(offers.windows(2).all(|pair| pair[0].at_us == pair[1].at_us));
        assert!(offers[..4].iter().all(|offer| offer.class == 0 && offer.priority == 0 && offer.reliable));
        assert!(offers.iter().all(|offer| offer.reliable == (offer.class < 2)));
        let bare = show(&mut sphere(&Tiles { outside_share: 0.0, ..tiles() }, 1), 1, |_| true);
        assert_eq!(bare.len(), 36);
    }

    #[test]
    fn what_is_in_front_is_what_counts() {
        let ratio = |delivered: fn(&Offer) -> bool| {
            let mut sphere = sphere(&tiles(), 1);
            show(&mut sphere, 10, delivered);
            sphere.outcome(10_000_000).perceived_ratio
        };
        // The picture after the ten is cut already and never delivered.
        assert_eq!(ratio(|_| true), Some(0.909_091));
        assert_eq!(ratio(|offer| offer.class == 0), Some(0.909_091));
        assert_eq!(ratio(|offer| offer.class != 0), Some(0.0));
    }

    #[test]
    fn what_the_sender_knows_late_costs_what_the_viewer_sees() {
        let ratio = |feedback_us, deadline_us| {
            let head = Head { speed: 60.0, tilt: 15.0 };
            let mut sphere = sphere(&Tiles { head, feedback_us, deadline_us, ..tiles() }, 5);
            show(&mut sphere, 500, |_| true);
            sphere.outcome(20_000_000).perceived_ratio.expect("pictures were shown")
        };
        let (at_once, soon, late) = (ratio(0, 10_000), ratio(50_000, 80_000), ratio(800_000, 80_000));
        assert!(at_once > 0.98 && at_once > soon && soon > late + 0.1, "{at_once} {soon} {late}");
        assert!(late > 0.3, "{late}");
    }

    proptest! {
        #[test]
        fn no_tile_is_out_of_bounds(seed: u64, jitter in 0.0..1.0f64, speed in 0.0..360.0f64, margin in 0.0..1.0f64) {
            let head = Head { speed, tilt: 15.0 };
            let tiles = Tiles { head, size_jitter: jitter, margin_share: margin, ..tiles() };
            let mut sphere = sphere(&tiles, seed);
            let offers = show(&mut sphere, 5, |offer| offer.size % 2 == 0);
            prop_assert!(offers.iter().all(|offer| (1..=tiles.largest_tile()).contains(&offer.size)));
            prop_assert!(offers.windows(2).all(|pair| pair[0].at_us <= pair[1].at_us));
            let ratio = sphere.outcome(10_000_000).perceived_ratio.expect("pictures were shown");
            prop_assert!((0.0..=1.0).contains(&ratio));
        }
    }
}
