//! Real pictures of a sphere, and how its viewer saw them.
//!
//! When a picture is to be shown, the player draws of each tile in the viewport the newest one that is there: of this
//! picture if it came in time, else of an earlier one; grey if none ever came. A tile of an earlier picture may be late
//! for its own and still be the newest for this one. Errors and likenesses of the tiles are weighted by how much of each
//! is in the viewport.

use std::sync::Arc;

use squall_media::Sphere;
use squall_media::quality::Likeness;
use squall_media::sphere::{Coded, SphereError};

use super::grid::Ring;
use crate::flow::{TilePictures, Tiles};
use crate::result::PictureQuality;
use crate::traffic::shelf::Shelf;

static SPHERES: Shelf<squall_media::SphereConfig, Sphere> = Shelf::new();

/// The sphere, encoded: now, if it was not before.
///
/// # Errors
/// When the bitrate is out of reach, or the codec fails.
pub(in crate::traffic) fn encoded(
    tiles: &Tiles,
    pictures: &TilePictures,
) -> Result<Arc<Sphere>, SphereError> {
    let config = tiles.sphere(pictures);
    SPHERES.get(&config, || Sphere::make(&config))
}

/// What was sent of each picture, what arrived of it, and what of it was seen.
#[derive(Debug)]
pub(super) struct Gallery {
    sphere: Arc<Sphere>,
    /// By ring, the quality of its tiles, if they are sent.
    qualities: [Option<usize>; 3],
    pictures: Vec<Picture>,
    /// When each block arrived.
    arrived_us: Vec<Option<u64>>,
}

#[derive(Debug)]
struct Picture {
    due_us: u64,
    /// By tile: its block, and the quality it was sent in.
    sent: Vec<Option<(u64, usize)>>,
    /// The tiles in front of the viewer, and how much of each is.
    seen: Vec<(usize, f64)>,
}

impl Gallery {
    pub(super) fn new(tiles: &Tiles, pictures: &TilePictures) -> Self {
        let sphere =
            encoded(tiles, pictures).expect("its settings are checked, and it was encoded before the run");
        Self { sphere, qualities: tiles.qualities(), pictures: Vec::new(), arrived_us: Vec::new() }
    }

    /// Size of a tile of the next picture in this ring, if any of it is sent.
    pub(super) fn size(&self, tile: usize, ring: Ring) -> Option<u64> {
        let picture = self.pictures.len() as u64;
        let quality = self.qualities[ring as usize]?;
        Some(self.sphere.size(Coded { quality, picture }, tile))
    }

    /// The next picture is offered: these tiles in these rings, as blocks from `first` on, and shown at `due_us` to
    /// somebody who sees so much of these tiles then.
    pub(super) fn on_picture(
        &mut self,
        due_us: u64,
        first: u64,
        tiles: &[(usize, Ring)],
        seen: Vec<(usize, f64)>,
    ) {
        let all = tiles.iter().map(|(tile, _)| tile + 1).chain(seen.iter().map(|(tile, _)| tile + 1));
        let mut sent = vec![None; all.max().unwrap_or(0)];
        for (block, (tile, ring)) in (first..).zip(tiles) {
            sent[*tile] = self.qualities[*ring as usize].map(|quality| (block, quality));
        }
        self.pictures.push(Picture { due_us, sent, seen });
    }

    pub(super) fn on_delivered(&mut self, index: u64, at_us: u64) {
        let place = index as usize;
        if self.arrived_us.len() <= place {
            self.arrived_us.resize(place + 1, None);
        }
        self.arrived_us[place].get_or_insert(at_us);
    }

    /// How good what was shown before `end_us` was.
    pub(super) fn quality(&self, end_us: u64) -> Option<PictureQuality> {
        let arrived = |block: u64| self.arrived_us.get(block as usize).copied().flatten();
        PictureQuality::of(&self.shown(end_us, arrived), &self.shown(end_us, |_| Some(0)))
    }

    /// The pictures as they were shown, each block having arrived at that time.
    fn shown(&self, end_us: u64, arrived: impl Fn(u64) -> Option<u64>) -> Vec<Likeness> {
        // By tile, the picture that was shown of it last.
        let mut last: Vec<usize> = Vec::new();
        let mut seen = Vec::new();
        for (index, picture) in self.pictures.iter().enumerate() {
            if picture.due_us >= end_us {
                break;
            }
            last.resize(last.len().max(picture.sent.len()), 0);
            let in_view = picture.seen.iter().map(|&(tile, weight)| {
                let newest = (last[tile]..=index).rev().find_map(|earlier| {
                    let (block, quality) = self.pictures[earlier].sent.get(tile).copied().flatten()?;
                    let here = arrived(block).is_some_and(|at_us| at_us <= picture.due_us);
                    here.then_some(Coded { quality, picture: earlier as u64 })
                });
                if let Some(newest) = newest {
                    last[tile] = newest.picture as usize;
                }
                (self.sphere.likeness(newest, index as u64, tile), weight)
            });
            seen.push(composed(in_view));
        }
        seen
    }
}

/// A picture of these parts.
fn composed(parts: impl Iterator<Item = (Likeness, f64)>) -> Likeness {
    let (mut error, mut ssim, mut total) = (0.0, 0.0, 0.0);
    for (part, weight) in parts {
        error += part.mean_squared_error * weight;
        ssim += part.ssim * weight;
        total += weight;
    }
    Likeness { mean_squared_error: error / total, ssim: ssim / total }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tiles;
    use super::*;

    const SENT: [(usize, Ring); 3] = [(0, Ring::Viewport), (1, Ring::Viewport), (2, Ring::Margin)];

    /// Four tiles, of which the viewer sees three quarters of the first and a quarter of the second, 80 ms after each
    /// of five pictures was offered, 40 ms apart.
    fn gallery() -> Gallery {
        let pictures = TilePictures { width: 128, height: 64, pictures: 5, scene: 1 };
        let tiles = Tiles {
            columns: 4,
            rows: 1,
            bitrate_bps: 400_000,
            outside_share: 0.0,
            pictures: Some(pictures),
            ..tiles()
        };
        let mut gallery = Gallery::new(&tiles, &pictures);
        for picture in 0..5 {
            let due_us = picture * 40_000 + 80_000;
            gallery.on_picture(due_us, 3 * picture, &SENT, vec![(0, 0.75), (1, 0.25)]);
        }
        gallery
    }

    fn coded(picture: u64) -> Option<Coded> {
        Some(Coded { quality: 0, picture })
    }

    #[test]
    fn perfect_delivery_loses_nothing() {
        let mut gallery = gallery();
        for block in 0..15 {
            gallery.on_delivered(block, block / 3 * 40_000 + 80_000);
        }
        let quality = gallery.quality(1_000_000).expect("pictures were shown");
        assert_eq!((quality.compared, quality.psnr_loss, quality.ssim_loss), (5, 0.0, 0.0));
        let seen = gallery.shown(1_000_000, |_| Some(0));
        let parts =
            [(0, 0.75), (1, 0.25)].map(|(tile, weight)| (gallery.sphere.likeness(coded(3), 3, tile), weight));
        assert_eq!(seen[3], composed(parts.into_iter()));
        assert_eq!(gallery.quality(160_000).map(|quality| quality.compared), Some(2));
    }

    #[test]
    fn the_newest_tile_that_is_there_is_shown() {
        let mut gallery = gallery();
        // Tile 0 of picture 0 in time, of picture 1 too late for itself but not for the next, of picture 3 in time.
        for (block, at_us) in [(0, 50_000), (3, 130_000), (9, 200_000)] {
            gallery.on_delivered(block, at_us);
        }
        let arrived = |block: u64| gallery.arrived_us.get(block as usize).copied().flatten();
        let seen = gallery.shown(1_000_000, arrived);
        let grey = |picture| gallery.sphere.likeness(None, picture, 1);
        for (slot, from) in [(0, 0), (1, 0), (2, 1), (3, 3), (4, 3)] {
            let first = gallery.sphere.likeness(coded(from), slot, 0);
            assert_eq!(
                seen[slot as usize],
                composed([(first, 0.75), (grey(slot), 0.25)].into_iter()),
                "{slot}"
            );
        }
    }
}
