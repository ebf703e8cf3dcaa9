//! A 360° film in tiles, each encoded in several qualities, with their similarity to the source.
//!
//! The pictures are those of a [`Scene`], interpreted as a sphere unrolled to a rectangle of yaw
//! and pitch. Every tile of every picture is encoded by itself (intra): a viewer that turns to a
//! tile can see it at once, and a lost tile is missing only once. A quality has one quantiser for
//! all tiles, so that those with more detail get more bytes.
//!
//! A shown tile is one of the encoded ones, so each is compared with each expected tile once, on
//! first use.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::decoder::{DecodeError, Decoder};
use crate::encoder::{EncodeError, Encoder, EncoderConfig};
use crate::picture::{Picture, SizeError, check_size};
use crate::quality::{Likeness, plane_likeness};
use crate::scene::Scene;

/// Interval of the pictures by which the quantiser is selected.
const SAMPLE: usize = 8;
/// Coarsest quantiser of H.264.
const COARSEST: u8 = 51;
/// Maximum factor by which blocks are padded.
const MOST_PADDING: f64 = 1.5;
/// Luma of a tile of which no data has arrived: grey.
const GREY: u8 = 128;

/// Content and encoding of a [`Sphere`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SphereConfig {
    /// Width of the whole picture in pixels; the width of a tile is even and at least 16.
    pub width: u32,
    /// Height of the whole picture in pixels; the same limits apply.
    pub height: u32,
    /// Tiles from left to right.
    pub columns: u32,
    /// Tiles from bottom to top.
    pub rows: u32,
    /// Number of pictures in a round, which is repeated endlessly; at least 1.
    pub pictures: u32,
    /// Mean size of a whole picture in each quality, in bytes.
    pub picture_bytes: Vec<u64>,
    /// Seed of the [`Scene`].
    pub seed: u64,
}

impl SphereConfig {
    /// Checks all settings without drawing or encoding anything.
    ///
    /// # Errors
    /// If the picture cannot be drawn or divided into these tiles, or there is none.
    pub fn check(&self) -> Result<(), SphereError> {
        check_size(self.width, self.height)?;
        Cut::new(self)?;
        if self.pictures == 0 { Err(SphereError::Empty) } else { Ok(()) }
    }
}

/// Failure to generate a sphere.
#[derive(Debug, Error)]
pub enum SphereError {
    /// The picture cannot be drawn.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The picture cannot be cut into that many tiles.
    #[error("{size} pixels cannot be cut into {tiles} tiles of an even size of at least 16 pixels")]
    Cut {
        /// Width or height of the picture.
        size: u32,
        /// Number of tiles side by side.
        tiles: u32,
    },
    /// There is no picture.
    #[error("a film of no pictures")]
    Empty,
    /// A tile cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// An encoded tile cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The size cannot be reached.
    #[error("a picture of {width}x{height} takes {least} to {most} bytes, not {wanted}")]
    Bytes {
        /// Width of the picture in pixels.
        width: u32,
        /// Height of the picture in pixels.
        height: u32,
        /// Requested size in bytes.
        wanted: u64,
        /// Size with the coarsest quantiser, in bytes.
        least: u64,
        /// Maximum size with padding, in bytes.
        most: u64,
    },
}

/// An encoded 360° film.
#[derive(Debug)]
pub struct Sphere {
    cut: Cut,
    /// Luma of the source pictures.
    sources: Vec<Vec<u8>>,
    qualities: Vec<Quality>,
    known: Mutex<HashMap<Pair, Likeness>>,
    /// Idle decoders.
    decoders: Mutex<Vec<Decoder>>,
}

/// A tile of one quality and picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coded {
    /// Index in [`SphereConfig::picture_bytes`].
    pub quality: usize,
    /// Number of the picture in the endless film.
    pub picture: u64,
}

/// The shown tile, if any; the picture in which it is shown, and the tile's number.
type Pair = (Option<Coded>, u64, usize);

/// All tiles of all pictures in one quality.
#[derive(Debug)]
struct Quality {
    quantiser: u8,
    /// By picture, then by tile.
    tiles: Vec<Vec<Bytes>>,
    /// Factor by which the blocks are padded, so that their mean has the requested size.
    padding: f64,
}

impl Sphere {
    /// Draws the pictures, and encodes each tile in each quality.
    ///
    /// # Errors
    /// If the picture cannot be divided into these tiles, a size cannot be reached, or the codec
    /// fails.
    pub fn make(config: &SphereConfig) -> Result<Self, SphereError> {
        config.check()?;
        let cut = Cut::new(config)?;
        let scene = Scene::new(config.width, config.height, config.seed)?;
        let pictures: Vec<Picture> = (0..config.pictures).map(|index| scene.render(index.into())).collect();
        let qualities = config.picture_bytes.iter().map(|&wanted| Quality::make(&pictures, cut, wanted));
        let qualities = qualities.collect::<Result<_, _>>()?;
        let sources = pictures.into_iter().map(|picture| picture.y).collect();
        let decoders = Mutex::new(vec![Decoder::new()?]);
        Ok(Self { cut, sources, qualities, known: Mutex::default(), decoders })
    }

    /// Returns the size of a tile as sent, in bytes: its encoded size, and the padding that brings
    /// the mean to the requested size. Tiles count from left to right, row by row from the bottom.
    #[must_use]
    pub fn size(&self, coded: Coded, tile: usize) -> u64 {
        let quality = &self.qualities[coded.quality];
        let bytes = quality.tiles[self.place(coded.picture)][tile].len();
        (bytes as f64 * quality.padding).round() as u64
    }

    /// Returns the quantiser of a quality, 0 to 51, and the factor by which its blocks are padded.
    #[must_use]
    pub fn quantiser(&self, quality: usize) -> (u8, f64) {
        (self.qualities[quality].quantiser, self.qualities[quality].padding)
    }

    /// Compares a tile shown in this picture (grey if `None`) with that of the picture itself.
    ///
    /// The first comparison of each pair takes a fraction of a millisecond.
    #[must_use]
    pub fn likeness(&self, shown: Option<Coded>, picture: u64, tile: usize) -> Likeness {
        let round = |picture: u64| self.place(picture) as u64;
        let shown = shown.map(|coded| Coded { picture: round(coded.picture), ..coded });
        let pair = (shown, round(picture), tile);
        let known = locked(&self.known).get(&pair).copied();
        known.unwrap_or_else(|| {
            let likeness = self.compare(pair);
            locked(&self.known).insert(pair, likeness);
            likeness
        })
    }

    fn compare(&self, (shown, picture, tile): Pair) -> Likeness {
        let source = self.cut.plane(&self.sources[self.place(picture)], tile);
        let seen = shown.map_or_else(|| vec![GREY; source.len()], |coded| self.decoded(coded, tile));
        plane_likeness(self.cut.width as usize, &source, &seen)
    }

    /// Returns the luma of a tile.
    fn decoded(&self, coded: Coded, tile: usize) -> Vec<u8> {
        let data = &self.qualities[coded.quality].tiles[self.place(coded.picture)][tile];
        let idle = locked(&self.decoders).pop();
        let mut decoder = idle.unwrap_or_else(|| Decoder::new().expect("another one started before"));
        let picture = decoder.decode(data).expect("it is what the encoder gave");
        locked(&self.decoders).push(decoder);
        picture.expect("a key frame is a picture").y
    }

    fn place(&self, picture: u64) -> usize {
        (picture % self.sources.len() as u64) as usize
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}

impl Quality {
    /// Encodes with the finest quantiser whose mean size does not exceed `wanted`.
    fn make(pictures: &[Picture], cut: Cut, wanted: u64) -> Result<Self, SphereError> {
        let sample: Vec<&Picture> = pictures.iter().step_by(SAMPLE).collect();
        let (mut finest, mut coarsest) = (0, COARSEST);
        while finest < coarsest {
            let middle = finest.midpoint(coarsest);
            if mean_bytes(&encode(&sample, cut, middle)?) <= wanted as f64 {
                coarsest = middle;
            } else {
                finest = middle + 1;
            }
        }
        let pictures: Vec<&Picture> = pictures.iter().collect();
        for quantiser in finest..=COARSEST {
            let tiles = encode(&pictures, cut, quantiser)?;
            let padding = wanted as f64 / mean_bytes(&tiles);
            if (1.0..=MOST_PADDING).contains(&padding) {
                return Ok(Self { quantiser, tiles, padding });
            }
            if padding > MOST_PADDING {
                break;
            }
        }
        let bytes = |quantiser| encode(&sample, cut, quantiser).map(|tiles| mean_bytes(&tiles));
        Err(SphereError::Bytes {
            width: cut.width * cut.columns,
            height: cut.height * cut.rows,
            wanted,
            least: bytes(COARSEST)? as u64,
            most: (bytes(0)? * MOST_PADDING) as u64,
        })
    }
}

/// Encodes every tile of these pictures.
fn encode(pictures: &[&Picture], cut: Cut, quantiser: u8) -> Result<Vec<Vec<Bytes>>, EncodeError> {
    let mut encoder = Encoder::new(EncoderConfig {
        width: cut.width,
        height: cut.height,
        key_interval: 1,
        quantiser: Some(quantiser),
        ..EncoderConfig::default()
    })?;
    let mut tile = |picture, tile| Ok(encoder.encode(&cut.tile(picture, tile), false)?.data);
    pictures.iter().map(|picture| (0..cut.tiles()).map(|index| tile(picture, index)).collect()).collect()
}

/// Returns the mean size of a picture.
fn mean_bytes(tiles: &[Vec<Bytes>]) -> f64 {
    let bytes: usize = tiles.iter().flatten().map(Bytes::len).sum();
    bytes as f64 / tiles.len() as f64
}

/// Division of a picture into tiles.
#[derive(Clone, Copy, Debug)]
struct Cut {
    columns: u32,
    rows: u32,
    /// Width of a tile in pixels.
    width: u32,
    /// Height of a tile in pixels.
    height: u32,
}

impl Cut {
    fn new(config: &SphereConfig) -> Result<Self, SphereError> {
        let side = |size: u32, tiles: u32| {
            let side = size.checked_div(tiles).filter(|side| side * tiles == size);
            let side = side.filter(|side| *side >= 16 && side.is_multiple_of(2));
            side.ok_or(SphereError::Cut { size, tiles })
        };
        let (columns, rows) = (config.columns, config.rows);
        let (width, height) = (side(config.width, columns)?, side(config.height, rows)?);
        Ok(Self { columns, rows, width, height })
    }

    fn tiles(self) -> usize {
        (self.columns * self.rows) as usize
    }

    /// Returns one tile of a picture.
    fn tile(self, picture: &Picture, tile: usize) -> Picture {
        let chroma = Self { width: self.width / 2, height: self.height / 2, ..self };
        Picture {
            width: self.width,
            height: self.height,
            y: self.plane(&picture.y, tile),
            u: chroma.plane(&picture.u, tile),
            v: chroma.plane(&picture.v, tile),
        }
    }

    /// Returns one tile of a plane.
    fn plane(self, plane: &[u8], tile: usize) -> Vec<u8> {
        let (columns, rows) = (self.columns as usize, self.rows as usize);
        let (width, height) = (self.width as usize, self.height as usize);
        let (left, top) = (tile % columns * width, (rows - 1 - tile / columns) * height);
        let lines = plane.chunks_exact(columns * width).skip(top).take(height);
        lines.flat_map(|line| &line[left..left + width]).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> SphereConfig {
        SphereConfig {
            width: 192,
            height: 96,
            columns: 4,
            rows: 2,
            pictures: 9,
            picture_bytes: vec![4_500, 1_500],
            seed: 1,
        }
    }

    #[test]
    fn sizes_are_those_asked_for_and_finer_is_better() {
        let sphere = Sphere::make(&config()).unwrap();
        for (quality, wanted) in [(0, 4_500.0), (1, 1_500.0)] {
            let size = |picture, tile| sphere.size(Coded { quality, picture }, tile);
            let bytes: u64 = (0..9).flat_map(|picture| (0..8).map(move |tile| size(picture, tile))).sum();
            assert!((bytes as f64 / 9.0 / wanted - 1.0).abs() < 0.002, "{bytes}");
            let (quantiser, padding) = sphere.quantiser(quality);
            assert!(quantiser > 0 && (1.0..1.5).contains(&padding), "{quantiser} {padding}");
        }
        for tile in 0..8 {
            let psnr = |quality| sphere.likeness(Some(Coded { quality, picture: 3 }), 3, tile).psnr();
            assert!(psnr(0) > psnr(1) + 3.0, "tile {tile}: {} {}", psnr(0), psnr(1));
        }
    }

    #[test]
    fn a_tile_is_compared_with_the_one_in_its_place() {
        let sphere = Sphere::make(&config()).unwrap();
        let source = Scene::new(192, 96, 1).unwrap().render(5);
        for tile in 0..8 {
            let coded = Coded { quality: 0, picture: 5 };
            let picture =
                Decoder::new().unwrap().decode(&sphere.qualities[0].tiles[5][tile]).unwrap().unwrap();
            let (left, top) = (tile % 4 * 48, 48 - tile / 4 * 48);
            let own: Vec<u8> =
                (0..48 * 48).map(|at| source.y[(top + at / 48) * 192 + left + at % 48]).collect();
            assert_eq!(sphere.likeness(Some(coded), 5, tile), plane_likeness(48, &own, &picture.y));
            assert_eq!(
                sphere.likeness(Some(Coded { picture: 14, ..coded }), 23, tile).psnr(),
                sphere.likeness(Some(coded), 5, tile).psnr(),
                "it goes round"
            );
        }
    }

    #[test]
    fn old_tiles_and_none_are_worse() {
        let sphere = Sphere::make(&config()).unwrap();
        // The field moves from picture to picture.
        let mean = |shown: Option<u64>| {
            let psnr =
                |tile| sphere.likeness(shown.map(|picture| Coded { quality: 0, picture }), 6, tile).psnr();
            (0..4).map(psnr).sum::<f64>() / 4.0
        };
        assert!(
            mean(Some(6)) > mean(Some(4)) + 3.0 && mean(Some(4)) > mean(None),
            "{} {}",
            mean(Some(4)),
            mean(None)
        );
    }

    #[test]
    fn impossible_settings_are_errors() {
        let error = |config: SphereConfig| Sphere::make(&config).unwrap_err().to_string();
        assert_eq!(
            error(SphereConfig { columns: 5, ..config() }),
            "192 pixels cannot be cut into 5 tiles of an even size of at least 16 pixels"
        );
        assert_eq!(error(SphereConfig { pictures: 0, ..config() }), "a film of no pictures");
        for picture_bytes in [vec![100], vec![100_000]] {
            let message = error(SphereConfig { picture_bytes, ..config() });
            assert!(message.starts_with("a picture of 192x96 takes "), "{message}");
        }
    }
}
