//! Real pictures of a sphere, and their quality for the viewer.
//!
//! For each picture that is due, the player draws the newest received version of each tile in the
//! viewport: of this picture if it arrived in time, otherwise of an earlier one; grey if none has
//! arrived. A tile of an earlier picture may be late for its own picture and still be the newest
//! for this one. Errors and similarities of the tiles are weighted by their area in the viewport.

use std::sync::Arc;

use squall_media::Sphere;
use squall_media::quality::Likeness;
use squall_media::sphere::Coded;
use squall_units::Span;

use super::grid::Ring;
use crate::result::PictureQuality;

/// Real pictures: a generated scene on a sphere that is unrolled to yaw and pitch, with each tile
/// coded independently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TilePictures {
    /// Width of the whole sphere in pixels.
    pub width: u32,
    /// Height of the whole sphere in pixels.
    pub height: u32,
    /// Length of a round, which is repeated to the end of the flow; at least one picture.
    pub length: Span,
    /// Seed of the scene.
    pub scene: u64,
}

impl Default for TilePictures {
    fn default() -> Self {
        Self { width: 1536, height: 768, length: Span::from_millis(2_000), scene: 1 }
    }
}

/// Tiles of each picture: sent, arrived and seen.
#[derive(Debug)]
pub(super) struct Gallery {
    sphere: Arc<Sphere>,
    /// Quality index of the tiles by ring; `None` if they are not sent.
    qualities: [Option<usize>; 3],
    pictures: Vec<Picture>,
    /// Arrival time of each block.
    arrived_us: Vec<Option<u64>>,
}

#[derive(Debug)]
struct Picture {
    due_us: u64,
    /// Block index and quality of each tile.
    sent: Vec<Option<(u64, usize)>>,
    /// Tiles in the viewport, with their visible area.
    seen: Vec<(usize, f64)>,
}

impl Gallery {
    pub(super) fn new(sphere: Arc<Sphere>, qualities: [Option<usize>; 3]) -> Self {
        Self { sphere, qualities, pictures: Vec::new(), arrived_us: Vec::new() }
    }

    /// Returns the size of a tile of the next picture in this ring, if it is sent.
    pub(super) fn size(&self, tile: usize, ring: Ring) -> Option<u64> {
        let picture = self.pictures.len() as u64;
        let quality = self.qualities[ring as usize]?;
        Some(self.sphere.size(Coded { quality, picture }, tile))
    }

    /// Called when the next picture is offered: `tiles` with their rings, as blocks from `first`
    /// on. It is shown at `due_us`, when `seen` lists the visible tiles and areas.
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

    /// Computes the quality of all pictures due before `end_us`.
    pub(super) fn quality(&self, end_us: u64) -> Option<PictureQuality> {
        let arrived = |block: u64| self.arrived_us.get(block as usize).copied().flatten();
        PictureQuality::of(&self.shown(end_us, arrived), &self.shown(end_us, |_| Some(0)))
    }

    /// Returns the pictures as shown if each block arrived at the given time.
    fn shown(&self, end_us: u64, arrived: impl Fn(u64) -> Option<u64>) -> Vec<Likeness> {
        // Latest shown picture of each tile.
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

/// Combines the parts of a picture.
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
    use squall_media::SphereConfig;

    use super::*;

    const SENT: [(usize, Ring); 3] = [(0, Ring::Viewport), (1, Ring::Viewport), (2, Ring::Margin)];

    /// Four tiles, of which the viewer sees three quarters of the first and a quarter of the
    /// second, 80 ms after each of five pictures was offered at intervals of 40 ms.
    fn gallery() -> Gallery {
        let config = SphereConfig {
            width: 128,
            height: 64,
            columns: 4,
            rows: 1,
            pictures: 5,
            picture_bytes: vec![2_000, 1_000],
            seed: 1,
        };
        let sphere = Arc::new(Sphere::make(&config).expect("it can be encoded"));
        let mut gallery = Gallery::new(sphere, [Some(0), Some(1), None]);
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
        // Tile 0 of picture 0 is in time; that of picture 1 is late for its own picture but not for
        // the next; that of picture 3 is in time.
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
