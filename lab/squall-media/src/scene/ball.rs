//! A spinning, shaded, chequered ball that flies through the picture.

use super::sine::{cosine, sine};
use crate::noise::unit;
use crate::picture::Picture;

/// One ball: its size, path, spin and colour are derived from seed and number.
#[derive(Debug)]
pub(super) struct Ball {
    /// Radius as a share of the picture's height.
    radius: f32,
    /// Angular speeds and phases of the path, across and down, in radians a frame.
    path: [[f32; 2]; 2],
    spin: f32,
    chroma: [u8; 2],
}

impl Ball {
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let draw = |what: u64, low: f32, high: f32| low + (high - low) * unit(seed ^ 0xBA11, number, what);
        Self {
            radius: draw(0, 0.035, 0.11),
            path: [
                [draw(1, 0.008, 0.03), draw(2, 0.0, std::f32::consts::TAU)],
                [draw(3, 0.01, 0.04), draw(4, 0.0, std::f32::consts::TAU)],
            ],
            spin: draw(5, 0.03, 0.15),
            chroma: [draw(6, 70.0, 190.0) as u8, draw(7, 70.0, 190.0) as u8],
        }
    }

    pub(super) fn draw(&self, picture: &mut Picture, index: u64) {
        let (width, height) = (picture.width as i32, picture.height as i32);
        let swing =
            |[speed, phase]: [f32; 2]| sine(index as f64 * f64::from(speed) + f64::from(phase)) as f32;
        let radius = (self.radius * height as f32).max(1.0);
        let x = (0.5 + 0.55 * swing(self.path[0])) * width as f32;
        let y = (0.55 + 0.4 * swing(self.path[1])) * height as f32;
        let angle = index as f64 * f64::from(self.spin);
        let (sin, cos) = (sine(angle) as f32, cosine(angle) as f32);

        let (top, bottom) = ((y - radius) as i32, (y + radius) as i32 + 1);
        for row in top.max(0)..bottom.min(height) {
            let dy = (row as f32 - y) / radius;
            let half = (1.0 - dy * dy).max(0.0).sqrt();
            let left = ((x - half * radius).ceil() as i32).clamp(0, width);
            let right = ((x + half * radius) as i32).clamp(0, width);
            let start = (row * width) as usize;
            for column in left..right {
                let dx = (column as f32 - x) / radius;
                picture.y[start + column as usize] = luma(dx, dy, sin, cos);
            }
            if row % 2 == 0 && left < right {
                let start = (row / 2 * (width / 2)) as usize;
                let (from, to) = (start + (left as usize).div_ceil(2), start + right as usize / 2);
                if from < to {
                    picture.u[from..to].fill(self.chroma[0]);
                    picture.v[from..to].fill(self.chroma[1]);
                }
            }
        }
    }
}

/// Returns the brightness of the ball's surface at (`dx`, `dy`) from its centre, in radii; it turns
/// about the vertical axis.
fn luma(dx: f32, dy: f32, sin: f32, cos: f32) -> u8 {
    let dz = (1.0 - dx * dx - dy * dy).max(0.0).sqrt();
    let (turned_x, turned_z) = (dx * cos - dz * sin, dx * sin + dz * cos);
    // The offset keeps the truncation to whole numbers on one side of zero.
    let cell = |at: f32| (at * 3.0 + 8.0) as i32;
    let light = (0.25 + 0.75 * (0.6 * dz - 0.6 * dy - 0.5 * dx).max(0.0)).min(1.0);
    let paint = if (cell(turned_x) + cell(dy) + cell(turned_z)) & 1 == 0 { 215.0 } else { 120.0 };
    (16.0 + paint * light) as u8
}
