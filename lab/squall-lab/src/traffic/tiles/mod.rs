//! Tiles of a 360° video, selected by the viewing direction.
//!
//! For each picture the sender uses a slightly outdated viewing direction and divides the sphere
//! into three rings: tiles of the viewport in full, those at its margin smaller, those outside as a
//! mask that avoids holes when the head has turned, as STORM's application does (§5.5). Tiles are
//! offered from the centre of the viewport outwards. The viewport at the time of display is a
//! different one.

mod gallery;
mod grid;
mod head;
mod perceived;

use std::collections::VecDeque;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use squall_media::SphereConfig;
use squall_media::sphere::SphereError;
use squall_units::{Rate, Ratio, Span};

use self::gallery::Gallery;
pub use self::gallery::TilePictures;
pub use self::grid::Viewport;
use self::grid::{Grid, Ring};
pub use self::head::Head;
use self::head::{Direction, Motion};
use self::perceived::Perceived;
use super::cache::Cache;
use super::fields::{Checked, Invalid, frames_within, largest, millis, number, percent, require, within};
use super::source::{Kind, Outcome, PictureError, Source, jittered};
use crate::offer::{Class, Offer};

/// Maximum feedback delay, and maximum time from sending to display, in microseconds: the head
/// movements in between are kept.
const MAX_AGE_US: u64 = 10_000_000;

/// Maximum size of all real pictures in bytes of luma, as they are kept in memory.
const MAX_PICTURE_BYTES: u64 = 512 << 20;

static SPHERES: Cache<SphereConfig, squall_media::Sphere> = Cache::new();

/// Pictures of the whole sphere, divided into tiles. Those in the viewport are sent first and in
/// full, those around it smaller, the rest as a mask or not at all (STORM §5.5).
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tiles {
    /// Pictures per second.
    #[serde(default = "number::<30, _>")]
    pub fps: u32,
    /// Bitrate of the whole sphere in full quality.
    pub bitrate: Rate,
    /// Number of tiles around the horizon, all of the same width in degrees.
    #[serde(default = "number::<12, _>")]
    pub columns: u16,
    /// Number of tiles from bottom to top, all of the same height in degrees.
    #[serde(default = "number::<6, _>")]
    pub rows: u16,
    /// Size of the viewport.
    #[serde(default)]
    pub viewport: Viewport,
    /// Movement of the viewer's head.
    #[serde(default)]
    pub head: Head,
    /// Age of the viewing direction that the sender uses.
    #[serde(default = "millis::<50>")]
    pub feedback_delay: Span,
    /// Size of a tile at the margin of the viewport, as a share of a full one; 0: not sent.
    #[serde(default = "percent::<50>")]
    pub margin: Ratio,
    /// Size of a tile beyond the margin, as a share of a full one; 0: not sent.
    #[serde(default = "percent::<10>")]
    pub outside: Ratio,
    /// Sizes vary uniformly by up to this share in both directions. Not available for real
    /// pictures.
    pub jitter: Option<Ratio>,
    /// Time from offering a picture to showing it, i.e. the deadline of its tiles.
    #[serde(default = "millis::<80>")]
    pub deadline: Span,
    /// Reliability by ring.
    #[serde(default)]
    pub reliable: ReliableTiles,
    /// Real pictures, if any; their tiles have the sizes that result from encoding.
    pub pictures: Option<TilePictures>,
}

/// Outermost ring of tiles that are repaired until they arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReliableTiles {
    /// No tiles are repaired.
    None,
    /// Tiles of the viewport are repaired.
    Viewport,
    /// Tiles of the viewport and its margin are repaired.
    #[default]
    Margin,
    /// All tiles are repaired.
    All,
}

impl Tiles {
    /// Mean size of a full tile in bytes, at least 1.
    pub fn tile_size(&self) -> u64 {
        let tiles = u64::from(self.columns) * u64::from(self.rows);
        (self.bitrate.bps() / (8 * u64::from(self.fps) * tiles)).max(1)
    }

    fn jitter(&self) -> f64 {
        self.jitter.map_or(0.0, Ratio::as_f64)
    }

    /// Size of the largest tile in bytes, except for real pictures.
    fn largest_tile(&self) -> u64 {
        (self.tile_size() as f64 * (1.0 + self.jitter())) as u64
    }

    /// Size of a tile as a share of a full one, by ring.
    fn shares(&self) -> [f64; 3] {
        [1.0, self.margin.as_f64(), self.outside.as_f64()]
    }

    /// Index of the sphere's quality by ring; `None` if its tiles are not sent.
    fn qualities(&self) -> [Option<usize>; 3] {
        let mut next = 0..;
        self.shares().map(|share| if share > 0.0 { next.next() } else { None })
    }

    /// Encoding of the real pictures.
    pub(crate) fn sphere(&self, pictures: &TilePictures) -> SphereConfig {
        let full = self.bitrate.bps() as f64 / (8.0 * f64::from(self.fps));
        let shares = self.shares().into_iter().filter(|share| *share > 0.0);
        SphereConfig {
            width: pictures.width,
            height: pictures.height,
            columns: self.columns.into(),
            rows: self.rows.into(),
            pictures: frames_within(pictures.length, self.fps) as u32,
            picture_bytes: shares.map(|share| (full * share) as u64).collect(),
            seed: pictures.scene,
        }
    }

    /// Returns the sphere, encoded unless cached.
    fn encoded(&self, pictures: &TilePictures) -> Result<Arc<squall_media::Sphere>, SphereError> {
        let config = self.sphere(pictures);
        SPHERES.get(&config, || squall_media::Sphere::make(&config))
    }

    fn check_pictures(&self, pictures: &TilePictures) -> Checked {
        let (width, height, count) =
            (pictures.width, pictures.height, frames_within(pictures.length, self.fps));
        let bytes = u64::from(width).saturating_mul(height.into()).saturating_mul(count);
        let words = format_args!("{count} of {width}x{height} pixels are above 512 MiB");
        require(bytes <= MAX_PICTURE_BYTES, "pictures", words)?;
        require(self.jitter.is_none(), "jitter", "real pictures have sizes of their own")?;
        let cut = self.sphere(pictures).check();
        cut.map_err(|error| Invalid { field: "pictures", words: format!("pictures: {error}") })
    }
}

impl Kind for Tiles {
    fn kind(&self) -> &'static str {
        "tiles"
    }

    fn validate(&self) -> Checked {
        within("fps", self.fps, 1..=1_000)?;
        require(self.bitrate.bps() > 0, "bitrate", "0 is no video")?;
        let degrees = [
            ("viewport", "width", self.viewport.width, 1.0..=360.0),
            ("viewport", "height", self.viewport.height, 1.0..=180.0),
            ("head", "speed", self.head.speed, 0.0..=360.0),
            ("head", "tilt", self.head.tilt, 0.0..=45.0),
        ];
        for (field, part, value, bounds) in degrees {
            let (least, most) = (bounds.start(), bounds.end());
            let words = format_args!("{part}: {value} is not within {least} and {most} degrees");
            require(bounds.contains(&value), field, words)?;
        }
        within("columns", self.columns, 1..=64)?;
        within("rows", self.rows, 1..=32)?;
        within("feedback_delay", self.feedback_delay.micros(), 0..=MAX_AGE_US)?;
        within("deadline", self.deadline.micros(), 0..=MAX_AGE_US)?;
        self.pictures.as_ref().map_or(Ok(()), |pictures| self.check_pictures(pictures))?;
        largest("bitrate", "tile", self.largest_tile())
    }

    fn classes(&self) -> Vec<Class> {
        let class = |name, least, priority| Class::new(name, self.reliable >= least, priority);
        vec![
            class("viewport", ReliableTiles::Viewport, 0),
            class("margin", ReliableTiles::Margin, 1),
            class("outside", ReliableTiles::All, 2),
        ]
    }

    fn deadline(&self) -> Option<Span> {
        Some(self.deadline)
    }

    fn prepare(&self, _progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Option<f64>, PictureError> {
        if let Some(pictures) = &self.pictures {
            self.encoded(pictures)?;
        }
        Ok(None)
    }

    fn source(&self, rng: Pcg64Mcg, _length_us: u64) -> Box<dyn Source> {
        Box::new(Sphere::new(self, rng))
    }
}

/// A sphere and the viewer's perception of it.
#[derive(Debug)]
struct Sphere {
    tiles: Tiles,
    /// Classes of the viewport, its margin, and the rest.
    classes: Vec<Class>,
    grid: Grid,
    rng: Pcg64Mcg,
    head: Motion,
    pictures: u64,
    /// Blocks of the latest picture that are not yet offered.
    queue: VecDeque<Offer>,
    /// Number of blocks of all pictures so far.
    blocks: u64,
    perceived: Perceived,
    /// Quality of real pictures.
    gallery: Option<Gallery>,
}

impl Sphere {
    fn new(tiles: &Tiles, mut rng: Pcg64Mcg) -> Self {
        // A generator of its own, because head movements are computed ahead of the sizes.
        let head = Pcg64Mcg::seed_from_u64(rng.random());
        Self {
            tiles: tiles.clone(),
            classes: tiles.classes(),
            grid: Grid::new(tiles.columns, tiles.rows, tiles.viewport),
            rng,
            head: Motion::new(tiles.head, head),
            pictures: 0,
            queue: VecDeque::new(),
            blocks: 0,
            perceived: Perceived::default(),
            gallery: tiles.pictures.as_ref().map(|pictures| {
                let sphere = tiles.encoded(pictures);
                let sphere = sphere.expect("its settings are checked, and it was encoded before the run");
                Gallery::new(sphere, tiles.qualities())
            }),
        }
    }

    /// Divides the next picture into blocks. `None` when time overflows.
    fn cut(&mut self) -> Option<()> {
        let at_us = self.pictures.checked_mul(1_000_000)? / u64::from(self.tiles.fps);
        let due_us = at_us.checked_add(self.tiles.deadline.micros())?;
        self.pictures += 1;
        let known_us = at_us.saturating_sub(self.tiles.feedback_delay.micros());
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

    /// Size of a tile of the next picture in full quality, in bytes.
    fn full_size(&mut self, tile: usize) -> u64 {
        match &self.gallery {
            Some(gallery) => gallery.size(tile, Ring::Viewport).unwrap_or(1),
            None => jittered(self.tiles.tile_size(), self.tiles.jitter(), &mut self.rng),
        }
    }

    /// Size in bytes of a tile in this ring that has `full` bytes in full quality, if it is sent.
    fn size(&self, tile: usize, full: u64, ring: Ring) -> Option<u64> {
        if let Some(gallery) = &self.gallery {
            return gallery.size(tile, ring);
        }
        let share = self.tiles.shares()[ring as usize];
        (share > 0.0).then(|| ((full as f64 * share) as u64).max(1))
    }

    fn block(&self, at_us: u64, size: u64, ring: Ring) -> Offer {
        let class = ring as usize;
        let offer = Offer::new(at_us, size, class as u16, &self.classes[class]);
        Offer { deadline_us: self.tiles.deadline_us(), ..offer }
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

    fn tiles() -> Tiles {
        let fields = "fps = 25\nbitrate = \"72mbps\"\nviewport = { height = 80 }\nhead = { speed = 0, tilt = 0 }\n\
                      feedback_delay = \"100ms\"";
        toml::from_str(fields).expect("its fields are right")
    }

    fn sphere(tiles: &Tiles, seed: u64) -> Sphere {
        Sphere::new(tiles, Pcg64Mcg::seed_from_u64(seed))
    }

    /// Offers `count` pictures, and delivers each block at once if `delivered` accepts it.
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
        // Viewing direction 180°, 0°: columns 4 to 7, rows 1 to 4. 360,000 bytes a picture, 5,000 a
        // tile.
        let of = |class| offers.iter().filter(move |offer| offer.class == class).map(|offer| offer.size);
        assert_eq!((of(0).count(), of(1).count(), of(2).count()), (16, 20, 36));
        assert_eq!((of(0).max(), of(1).max(), of(2).max()), (Some(5_000), Some(2_500), Some(500)));
        assert!(offers.windows(2).all(|pair| pair[0].at_us == pair[1].at_us));
        assert!(offers[..4].iter().all(|offer| offer.class == 0 && offer.priority == 0 && offer.reliable));
        assert!(offers.iter().all(|offer| offer.reliable == (offer.class < 2)));
        let bare = show(&mut sphere(&Tiles { outside: Ratio::ZERO, ..tiles() }, 1), 1, |_| true);
        assert_eq!(bare.len(), 36);
    }

    #[test]
    fn what_is_in_front_is_what_counts() {
        let ratio = |delivered: fn(&Offer) -> bool| {
            let mut sphere = sphere(&tiles(), 1);
            show(&mut sphere, 10, delivered);
            sphere.outcome(10_000_000).perceived_ratio
        };
        // The picture after the ten is already cut, but never delivered.
        assert_eq!(ratio(|_| true), Some(0.909_091));
        assert_eq!(ratio(|offer| offer.class == 0), Some(0.909_091));
        assert_eq!(ratio(|offer| offer.class != 0), Some(0.0));
    }

    #[test]
    fn late_feedback_costs_tiles_in_view() {
        let ratio = |feedback_us, deadline_us| {
            let head = Head { speed: 60.0, tilt: 15.0 };
            let (feedback_delay, deadline) = (Span::from_micros(feedback_us), Span::from_micros(deadline_us));
            let mut sphere = sphere(&Tiles { head, feedback_delay, deadline, ..tiles() }, 5);
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
            let (jitter, margin) = (Ratio::from_f64(jitter), Ratio::from_f64(margin).expect("it is a share"));
            let tiles = Tiles { head, jitter, margin, ..tiles() };
            let mut sphere = sphere(&tiles, seed);
            let offers = show(&mut sphere, 5, |offer| offer.size % 2 == 0);
            prop_assert!(offers.iter().all(|offer| (1..=tiles.largest_tile()).contains(&offer.size)));
            prop_assert!(offers.windows(2).all(|pair| pair[0].at_us <= pair[1].at_us));
            let ratio = sphere.outcome(10_000_000).perceived_ratio.expect("pictures were shown");
            prop_assert!((0.0..=1.0).contains(&ratio));
        }
    }
}
