//! An uncompressed picture in I420.

use thiserror::Error;

/// The largest width or height of a picture, in pixels.
pub const MAX_SIDE: u32 = 8192;

/// A picture size that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("picture size {width}x{height}: width and height must be even, from 2 to {MAX_SIDE}")]
pub struct SizeError {
    /// Given width in pixels.
    pub width: u32,
    /// Given height in pixels.
    pub height: u32,
}

/// A picture in I420: 8-bit luma, and two chroma planes of half its width and height.
///
/// Planes are stored row by row without padding. Values are in video range (luma 16–235).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Width in pixels; even.
    pub width: u32,
    /// Height in pixels; even.
    pub height: u32,
    /// Luma, `width * height` bytes.
    pub y: Vec<u8>,
    /// Blue difference, a quarter of the luma's bytes.
    pub u: Vec<u8>,
    /// Red difference, a quarter of the luma's bytes.
    pub v: Vec<u8>,
}

impl Picture {
    /// Creates a black picture.
    ///
    /// # Errors
    /// If a side is odd, zero or above [`MAX_SIDE`].
    pub fn new(width: u32, height: u32) -> Result<Self, SizeError> {
        check_size(width, height)?;
        let luma = (width * height) as usize;
        Ok(Self { width, height, y: vec![16; luma], u: vec![128; luma / 4], v: vec![128; luma / 4] })
    }

    /// Creates a black picture of the same size.
    #[must_use]
    pub fn black(&self) -> Self {
        let chroma = self.u.len();
        Self { y: vec![16; self.y.len()], u: vec![128; chroma], v: vec![128; chroma], ..*self }
    }

    /// Returns `true` if `other` has the same width and height.
    #[must_use]
    pub fn same_size(&self, other: &Self) -> bool {
        self.width == other.width && self.height == other.height
    }

    /// Converts the picture to rows of red, green and blue in full range (BT.709).
    #[must_use]
    pub fn to_rgb(&self) -> Vec<u8> {
        let width = self.width as usize;
        let mut pixels = Vec::with_capacity(self.y.len() * 3);
        for (row, luma) in self.y.chunks_exact(width).enumerate() {
            for (x, &y) in luma.iter().enumerate() {
                let c = row / 2 * (width / 2) + x / 2;
                pixels.extend_from_slice(&rgb(y, self.u[c], self.v[c]));
            }
        }
        pixels
    }
}

/// Checks that a [`Picture`] can have this size.
pub(crate) fn check_size(width: u32, height: u32) -> Result<(), SizeError> {
    let fits = |side: u32| side >= 2 && side.is_multiple_of(2) && side <= MAX_SIDE;
    if fits(width) && fits(height) { Ok(()) } else { Err(SizeError { width, height }) }
}

/// Converts BT.709 from video range to full-range RGB (ITU-R BT.709-6, item 3).
fn rgb(y: u8, u: u8, v: u8) -> [u8; 3] {
    let y = (f32::from(y) - 16.0) * 1.164;
    let (u, v) = (f32::from(u) - 128.0, f32::from(v) - 128.0);
    // `as` saturates, which provides the clipping.
    [(y + 1.793 * v) as u8, (y - 0.213 * u - 0.533 * v) as u8, (y + 2.112 * u) as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked() {
        let picture = Picture::new(6, 4).unwrap();
        assert_eq!((picture.y.len(), picture.u.len(), picture.v.len()), (24, 6, 6));
        for (width, height) in [(0, 2), (3, 2), (2, 5), (8194, 2)] {
            assert_eq!(Picture::new(width, height), Err(SizeError { width, height }));
        }
    }

    #[test]
    fn white_is_white() {
        let mut picture = Picture::new(2, 2).unwrap();
        picture.y.fill(235);
        let pixels = picture.to_rgb();
        assert!(pixels.len() == 12 && pixels.iter().all(|&sample| sample >= 254), "{pixels:?}");
    }
}
