//! 360° video: tiles of a sphere, of which a viewer sees a part.

use squall_media::SphereConfig;

use super::{Class, Kind};

/// Pictures of the whole sphere, cut into tiles. Those in front of the viewer are sent first and in full, those
/// around it smaller, the rest as a mask or not at all (STORM §5.5).
#[derive(Debug, Clone, PartialEq)]
pub struct Tiles {
    /// Pictures per second.
    pub fps: u32,
    /// Bits per second of the whole sphere in full.
    pub bitrate_bps: u64,
    /// Tiles around the horizon, each as wide as the others in degrees.
    pub columns: u16,
    /// Tiles from bottom to top, each as high as the others in degrees.
    pub rows: u16,
    /// What the viewer sees.
    pub viewport: Viewport,
    /// How the viewer's head moves.
    pub head: Head,
    /// Age in microseconds of what the sender knows of the viewer's head.
    pub feedback_us: u64,
    /// Size of a tile at the margin of the viewport, as a share of a full one, 0 to 1; 0 for none.
    pub margin_share: f64,
    /// Size of a tile beyond the margin, as a share of a full one, 0 to 1; 0 for none.
    pub outside_share: f64,
    /// Sizes vary uniformly by up to this share in both directions, 0 to 1.
    pub size_jitter: f64,
    /// From offering a picture to showing it, in microseconds: the deadline of its tiles.
    pub deadline_us: u64,
    /// Which tiles are reliable.
    pub reliable: ReliableTiles,
    /// The pictures themselves, if they are real; their tiles have the sizes that they are encoded to.
    pub pictures: Option<TilePictures>,
}

/// Real pictures: a generated scene on a sphere that is unrolled to yaw and pitch, each tile coded by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TilePictures {
    /// Width of the whole sphere in pixels.
    pub width: u32,
    /// Height of the whole sphere in pixels.
    pub height: u32,
    /// Pictures of a round, which is repeated to the end of the flow; at least 1.
    pub pictures: u32,
    /// Seed of what they show.
    pub scene: u64,
}

/// What a viewer sees, in degrees: a rectangle of yaw and pitch. That is the projection of the tiles, where a view
/// that is not level covers more yaw than this says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Viewport {
    /// From left to right, above 0 and at most 360.
    pub width: f64,
    /// From bottom to top, above 0 and at most 180.
    pub height: f64,
}

/// How a head moves. The yaw turns at a speed that forgets itself within a second; the pitch is drawn back to the
/// horizon, critically damped, within a second too. Both are driven by white noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Head {
    /// Standard deviation of the speed of the yaw, in degrees per second, 0 to 360.
    pub speed: f64,
    /// Standard deviation of the pitch from the horizon, in degrees, 0 to 45.
    pub tilt: f64,
}

/// Up to which class tiles are repaired until they arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReliableTiles {
    /// None is.
    None,
    /// Those of the viewport are.
    Viewport,
    /// Those of its margin are as well.
    Margin,
    /// All are.
    All,
}

impl Tiles {
    /// Mean size of a full tile in bytes, at least 1.
    pub fn tile_size(&self) -> u64 {
        let tiles = u64::from(self.columns) * u64::from(self.rows);
        (self.bitrate_bps / (8 * u64::from(self.fps) * tiles)).max(1)
    }

    /// By ring, the place of its quality among those of the sphere; none if nothing of it is sent.
    pub(crate) fn qualities(&self) -> [Option<usize>; 3] {
        let mut next = 0..;
        [1.0, self.margin_share, self.outside_share].map(|share| if share > 0.0 { next.next() } else { None })
    }

    /// What its real pictures are encoded to.
    pub(crate) fn sphere(&self, pictures: &TilePictures) -> SphereConfig {
        let full = self.bitrate_bps as f64 / (8.0 * f64::from(self.fps));
        let shares = [1.0, self.margin_share, self.outside_share];
        SphereConfig {
            width: pictures.width,
            height: pictures.height,
            columns: self.columns.into(),
            rows: self.rows.into(),
            pictures: pictures.pictures,
            picture_bytes: shares
                .into_iter()
                .filter(|share| *share > 0.0)
                .map(|share| (full * share) as u64)
                .collect(),
            seed: pictures.scene,
        }
    }

    /// Largest tile in bytes, but for real pictures.
    pub fn largest_tile(&self) -> u64 {
        (self.tile_size() as f64 * (1.0 + self.size_jitter)) as u64
    }
}

impl Kind for Tiles {
    fn name(&self) -> &'static str {
        "tiles"
    }

    fn classes(&self) -> Vec<Class> {
        let class = |name, least, priority| Class::new(name, self.reliable >= least, priority);
        vec![
            class("viewport", ReliableTiles::Viewport, 0),
            class("margin", ReliableTiles::Margin, 1),
            class("outside", ReliableTiles::All, 2),
        ]
    }

    fn deadline_us(&self) -> Option<u64> {
        Some(self.deadline_us)
    }
}
