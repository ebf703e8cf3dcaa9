//! The moving background: sky, two ranges of hills and a field, painted once and scrolled.

use crate::noise::{layered, unit, value};
use crate::picture::Picture;

/// Scroll speeds in pixels a frame, for a picture 1920 wide: sky, far hills, near hills.
const SPEEDS: [f32; 3] = [0.7, 2.1, 4.3];
/// Scroll speeds of the field, at the horizon and at the lower edge.
const FIELD_SPEEDS: [f32; 2] = [5.0, 19.0];

/// Painted bands, each wider than the picture and continuous at its ends.
#[derive(Debug)]
pub(super) struct Landscape {
    sky: Band,
    hills: [Hills; 2],
    field: Band,
    speed_unit: f32,
}

/// Rows of a panorama in I420; `top` is its position in the picture.
#[derive(Debug)]
struct Band {
    top: usize,
    rows: usize,
    width: usize,
    y: Vec<u8>,
    u: Vec<u8>,
    v: Vec<u8>,
}

/// A band with a skyline; `mask` is 255 below it and 0 above.
#[derive(Debug)]
struct Hills {
    band: Band,
    mask: Vec<u8>,
    chroma_mask: Vec<u8>,
}

impl Landscape {
    pub(super) fn new(width: usize, height: usize, seed: u64) -> Self {
        // A multiple of 128, so that noise of every cell size is continuous at the ends.
        let panorama = (width * 3 / 2).next_multiple_of(128);
        let even = |share: f32| (height as f32 * share) as usize / 2 * 2;
        let horizon = even(0.56);
        Self {
            sky: paint_sky(panorama, horizon, seed),
            hills: [
                paint_hills(panorama, even(0.24), horizon, seed ^ 0x11, 0),
                paint_hills(panorama, even(0.36), even(0.62), seed ^ 0x22, 1),
            ],
            field: paint_field(panorama, even(0.62), height, seed ^ 0x33),
            speed_unit: width as f32 / 1920.0,
        }
    }

    pub(super) fn draw(&self, picture: &mut Picture, index: u64) {
        let shift = |speed: f32| (index as f64 * f64::from(speed * self.speed_unit)) as usize;
        self.sky.copy(picture, |_| shift(SPEEDS[0]));
        for (hills, speed) in self.hills.iter().zip(&SPEEDS[1..]) {
            hills.draw(picture, shift(*speed));
        }
        let [far, near] = FIELD_SPEEDS;
        let depth = self.field.rows.max(1) as f32;
        self.field.copy(picture, |row| shift(far + (near - far) * row as f32 / depth));
    }
}

impl Band {
    /// Paints rows `top..bottom`; `colour` gives Y, U, V at (x, row) of the panorama.
    fn paint(width: usize, top: usize, bottom: usize, colour: impl Fn(usize, usize) -> [f32; 3]) -> Self {
        let rows = bottom - top;
        let mut band = Self { top, rows, width, y: Vec::new(), u: Vec::new(), v: Vec::new() };
        for row in 0..rows {
            for x in 0..width {
                let [y, u, v] = colour(x, row);
                band.y.push(y.clamp(20.0, 230.0) as u8);
                if row % 2 == 0 && x % 2 == 0 {
                    band.u.push(u.clamp(20.0, 230.0) as u8);
                    band.v.push(v.clamp(20.0, 230.0) as u8);
                }
            }
        }
        band
    }

    fn copy(&self, picture: &mut Picture, shift: impl Fn(usize) -> usize) {
        let width = picture.width as usize;
        for row in 0..self.rows {
            let shift = shift(row) % self.width;
            let to = (self.top + row) * width;
            rotate(&mut picture.y[to..to + width], &self.y[row * self.width..][..self.width], shift);
            if row % 2 == 0 {
                let (to, from) = ((self.top + row) / 2 * (width / 2), row / 2 * (self.width / 2));
                let (end, part) = (to + width / 2, from..from + self.width / 2);
                rotate(&mut picture.u[to..end], &self.u[part.clone()], shift / 2);
                rotate(&mut picture.v[to..end], &self.v[part], shift / 2);
            }
        }
    }
}

impl Hills {
    fn draw(&self, picture: &mut Picture, shift: usize) {
        let (width, band) = (picture.width as usize, &self.band);
        // An even shift keeps the masks of luma and chroma aligned.
        let shift = shift % band.width / 2 * 2;
        for row in 0..band.rows {
            let (to, from) = ((band.top + row) * width, row * band.width);
            let part = from..from + band.width;
            blend(&mut picture.y[to..to + width], &band.y[part.clone()], &self.mask[part], shift);
            if row % 2 == 0 {
                let (to, from) = ((band.top + row) / 2 * (width / 2), row / 2 * (band.width / 2));
                let (end, part) = (to + width / 2, from..from + band.width / 2);
                let mask = &self.chroma_mask[part.clone()];
                blend(&mut picture.u[to..end], &band.u[part.clone()], mask, shift / 2);
                blend(&mut picture.v[to..end], &band.v[part], mask, shift / 2);
            }
        }
    }
}

/// Copies from the ring `from`, starting at `shift`.
fn rotate(to: &mut [u8], from: &[u8], shift: usize) {
    let first = (from.len() - shift).min(to.len());
    let (head, tail) = to.split_at_mut(first);
    head.copy_from_slice(&from[shift..shift + first]);
    tail.copy_from_slice(&from[..tail.len()]);
}

/// As [`rotate`], but only where the mask is set.
fn blend(to: &mut [u8], from: &[u8], mask: &[u8], shift: usize) {
    let first = (from.len() - shift).min(to.len());
    let (head, tail) = to.split_at_mut(first);
    for (to, from, mask) in [(head, &from[shift..], &mask[shift..]), (tail, from, mask)] {
        for ((to, &from), &mask) in to.iter_mut().zip(from).zip(mask) {
            *to = from & mask | *to & !mask;
        }
    }
}

fn paint_sky(width: usize, bottom: usize, seed: u64) -> Band {
    let cells = (width / 128) as u64;
    Band::paint(width, 0, bottom, |x, row| {
        let height = row as f32 / bottom as f32;
        let cloud = layered(seed, x as f32 / 128.0, row as f32 / 64.0, cells, 5, 0.55);
        let cover = (cloud * 2.6 + 0.1).clamp(0.0, 1.0);
        let blue = [112.0 + 62.0 * height, 148.0 - 12.0 * height, 108.0 + 10.0 * height];
        let white = [214.0 + 24.0 * cloud, 129.0, 127.0];
        std::array::from_fn(|plane| blue[plane] + (white[plane] - blue[plane]) * cover)
    })
}

fn paint_hills(width: usize, top: usize, bottom: usize, seed: u64, nearness: u8) -> Hills {
    let (cells, near) = ((width / 128) as u64, f32::from(nearness));
    let band = Band::paint(width, top, bottom, |x, row| {
        let (x, row) = (x as f32, row as f32);
        let forest = layered(seed, x / 32.0, row / 24.0, cells * 4, 4, 0.75);
        [84.0 - 18.0 * near + (26.0 + 16.0 * near) * forest, 132.0 - 14.0 * near, 122.0 - 4.0 * near]
    });
    let rows = band.rows as f32;
    let skyline = |x: usize| {
        let ridge = layered(seed ^ 0x77, x as f32 / 128.0, 0.0, cells, 6, 0.5);
        (0.45 + 0.55 * ridge).clamp(0.02, 0.9) * rows
    };
    let skyline: Vec<f32> = (0..width / 2).map(|pair| skyline(pair * 2)).collect();
    let below = |pair: usize, row: usize| if row as f32 >= skyline[pair] { 255 } else { 0 };
    let mask = (0..band.rows * width).map(|at| below(at % width / 2, at / width / 2 * 2)).collect();
    let chroma = band.rows / 2 * (width / 2);
    let chroma_mask = (0..chroma).map(|at| below(at % (width / 2), at / (width / 2) * 2)).collect();
    Hills { band, mask, chroma_mask }
}

fn paint_field(width: usize, top: usize, bottom: usize, seed: u64) -> Band {
    let rows = (bottom - top).max(1) as f32;
    Band::paint(width, top, bottom, |x, row| {
        // Perspective: a cell is small at the horizon and large below.
        let near = row as f32 / rows;
        let cells = (width as f32 / (10.0 + 54.0 * near)).max(1.0);
        let distance = 40.0 / (0.08 + near);
        let (across, period) = (x as f32 / width as f32 * cells.floor(), cells as u64);
        let grass = layered(seed, across * 4.0, row as f32 / 5.0, period * 4, 3, 0.8);
        let patch = value(seed ^ 5, across * 0.5_f32.max(1.0 / cells), distance, period);
        let blade = unit(seed ^ 9, x as u64 / 2, row as u64) - 0.5;
        let furrow = if (distance * 1.5) as i32 % 2 == 0 { 5.0 } else { -5.0 };
        [
            92.0 + 22.0 * near + 40.0 * grass + 16.0 * patch + 26.0 * blade + furrow,
            106.0 + 6.0 * patch,
            126.0 + 12.0 * patch + 6.0 * grass,
        ]
    })
}
