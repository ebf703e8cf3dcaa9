//! A generated moving scene: the view from a train window, drawn from a seed and a frame number.
//!
//! Clouds, hills and a field pass by at different speeds (the nearer parts of the field faster),
//! spinning balls fly through, and fresh grain covers every frame. The field and the grain are
//! costly to encode: 1080p at 30 frames a second can use about 20 Mbps. The counter at the top left
//! shows the frame number to viewers, and the bar code under it to tests.
//!
//! All constant parts are painted once, in [`Scene::new`]; a frame is then mostly copying.

use crate::glyphs;
use crate::noise::hash;
use crate::picture::{Picture, SizeError, check_size};

mod ball;
mod landscape;
mod sine;

use ball::Ball;
use landscape::Landscape;

/// Number of grain samples; each row of each frame starts at another position in them.
const GRAIN_SAMPLES: usize = 1 << 16;
/// Cells of the bar code: the low bits of the frame number, most significant first.
const CODE_BITS: u32 = 16;

/// A scene of one size. Rendering a frame twice gives the same bytes, on any machine: only the
/// operations of IEEE 754 are used.
#[derive(Debug)]
pub struct Scene {
    width: u32,
    height: u32,
    seed: u64,
    landscape: Landscape,
    balls: Vec<Ball>,
    grain: Vec<i8>,
}

impl Scene {
    /// Paints the constant parts of the scene.
    ///
    /// # Errors
    /// If the size is invalid for a [`Picture`].
    pub fn new(width: u32, height: u32, seed: u64) -> Result<Self, SizeError> {
        check_size(width, height)?;
        Ok(Self {
            width,
            height,
            seed,
            landscape: Landscape::new(width as usize, height as usize, seed),
            balls: (0..9).map(|number| Ball::new(seed, number)).collect(),
            grain: grain(seed, GRAIN_SAMPLES + width as usize),
        })
    }

    /// Draws frame `index`. The motion is designed for 30 frames a second.
    #[must_use]
    pub fn render(&self, index: u64) -> Picture {
        let mut picture = Picture::new(self.width, self.height).expect("the size was checked in new");
        self.landscape.draw(&mut picture, index);
        for ball in &self.balls {
            ball.draw(&mut picture, index);
        }
        self.add_grain(&mut picture, index);
        draw_counter(&mut picture, index);
        picture
    }

    fn add_grain(&self, picture: &mut Picture, index: u64) {
        for (row, luma) in (0u64..).zip(picture.y.chunks_exact_mut(self.width as usize)) {
            let start = hash(self.seed, index, row) as usize % GRAIN_SAMPLES;
            for (sample, &grain) in luma.iter_mut().zip(&self.grain[start..]) {
                *sample = sample.saturating_add_signed(grain);
            }
        }
    }
}

/// Position of the bar code, in pixels.
struct CodePlace {
    left: u32,
    top: u32,
    cell: u32,
}

impl CodePlace {
    fn of(picture: &Picture) -> Option<Self> {
        let scale = text_scale(picture.height);
        let (left, top, cell) = (4 * scale, (5 + glyphs::HEIGHT) * scale, 5 * scale);
        let fits = left + cell * CODE_BITS <= picture.width && top + cell <= picture.height;
        fits.then_some(Self { left, top, cell })
    }
}

fn text_scale(height: u32) -> u32 {
    (height / 180).max(1)
}

fn draw_counter(picture: &mut Picture, index: u64) {
    let Some(code) = CodePlace::of(picture) else { return };
    let scale = text_scale(picture.height);
    let (seconds, frames) = (index / 30, index % 30);
    let text = format!("#{index:06} {:02}:{:02}:{frames:02}", seconds / 60 % 100, seconds % 60);
    let across = (text.len() as u32 * glyphs::ADVANCE).max(CODE_BITS * 5) * scale + 4 * scale;
    glyphs::fill(picture, 2 * scale, 2 * scale, across, (glyphs::HEIGHT + 10) * scale, 24);
    glyphs::draw(picture, &text, 4 * scale, 4 * scale, scale, 225);
    for bit in (0..CODE_BITS).filter(|bit| index >> (CODE_BITS - 1 - bit) & 1 == 1) {
        glyphs::fill(picture, code.left + bit * code.cell, code.top, code.cell, code.cell, 225);
    }
}

/// Returns grain with an approximately normal distribution: the sum of three uniform draws of
/// −2..=2 has a deviation of 2.4.
fn grain(seed: u64, samples: usize) -> Vec<i8> {
    let sample = |number: u64| {
        let bits = hash(seed ^ 0x6772_6169_6E00, number, 0);
        (0..3).map(|draw| (bits >> (draw * 16) & 0xFFFF) as i32 * 5 / 65536 - 2).sum::<i32>() as i8
    };
    (0..samples as u64).map(sample).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Reads the bar code drawn by `Scene::render`: the frame number modulo 65536.
    ///
    /// `None` if the picture is too small to have one, or its cells are not clearly black or white.
    /// The code survives compression, so it identifies the frame of a decoded picture.
    pub(crate) fn read_index(picture: &Picture) -> Option<u64> {
        let code = CodePlace::of(picture)?;
        let mut index = 0;
        for bit in 0..CODE_BITS {
            let (x, y) = (code.left + bit * code.cell + code.cell / 2, code.top + code.cell / 2);
            let luma = picture.y[(y * picture.width + x) as usize];
            if (81..=170).contains(&luma) {
                return None;
            }
            index = index << 1 | u64::from(luma > 170);
        }
        Some(index)
    }

    #[test]
    fn a_frame_depends_on_seed_and_index_only() {
        let scene = Scene::new(320, 180, 7).unwrap();
        let again = Scene::new(320, 180, 7).unwrap();
        assert_eq!(scene.render(12), again.render(12));
        assert_ne!(scene.render(12), scene.render(13));
        assert_ne!(scene.render(12), Scene::new(320, 180, 8).unwrap().render(12));
    }

    #[test]
    fn the_bar_code_gives_the_index_back() {
        let scene = Scene::new(320, 180, 1).unwrap();
        for index in [0, 1, 299, 43_690, 65_535, 65_536 + 5] {
            assert_eq!(read_index(&scene.render(index)), Some(index % 65_536));
        }
        assert_eq!(read_index(&Picture::new(64, 48).unwrap()), None);
    }

    #[test]
    fn any_even_size_can_be_drawn() {
        for (width, height) in [(2, 2), (16, 16), (18, 10), (90, 160), (642, 362)] {
            let picture = Scene::new(width, height, 3).unwrap().render(1_000_003);
            assert_eq!(picture.y.len(), (width * height) as usize);
        }
        assert!(Scene::new(321, 180, 0).is_err());
    }

    #[test]
    fn the_scene_moves_and_has_detail() {
        let scene = Scene::new(320, 180, 5).unwrap();
        let (first, second) = (scene.render(0), scene.render(1));
        let difference: u64 =
            first.y.iter().zip(&second.y).map(|(a, b)| u64::from(a.abs_diff(*b))).sum::<u64>() / 57_600;
        assert!((2..40).contains(&difference), "mean difference {difference}");
    }
}
