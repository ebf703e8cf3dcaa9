//! A small font for the frame counter: digits and two marks, 5 by 7 cells.

use crate::picture::Picture;

/// Cells a glyph takes in a line of text: five, and one of space.
pub(crate) const ADVANCE: u32 = 6;
/// Cells a line of text is high.
pub(crate) const HEIGHT: u32 = 7;

/// The seven rows of a glyph from the top; the leftmost cell is bit 4. Unknown characters are blank.
fn rows(character: char) -> [u8; 7] {
    match character {
        '0' => [0x0E, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0E],
        '1' => [0x04, 0x0C, 0x04, 0x04, 0x04, 0x04, 0x0E],
        '2' => [0x0E, 0x11, 0x01, 0x06, 0x08, 0x10, 0x1F],
        '3' => [0x0E, 0x11, 0x01, 0x06, 0x01, 0x11, 0x0E],
        '4' => [0x02, 0x06, 0x0A, 0x12, 0x1F, 0x02, 0x02],
        '5' => [0x1F, 0x10, 0x1E, 0x01, 0x01, 0x11, 0x0E],
        '6' => [0x06, 0x08, 0x10, 0x1E, 0x11, 0x11, 0x0E],
        '7' => [0x1F, 0x01, 0x02, 0x04, 0x04, 0x08, 0x08],
        '8' => [0x0E, 0x11, 0x11, 0x0E, 0x11, 0x11, 0x0E],
        '9' => [0x0E, 0x11, 0x11, 0x0F, 0x01, 0x02, 0x0C],
        ':' => [0x00, 0x04, 0x04, 0x00, 0x04, 0x04, 0x00],
        '#' => [0x0A, 0x0A, 0x1F, 0x0A, 0x1F, 0x0A, 0x0A],
        _ => [0; 7],
    }
}

/// Draws `text` in luma `ink` with cells of `scale` pixels; what lies outside the picture is cut off.
pub(crate) fn draw(picture: &mut Picture, text: &str, left: u32, top: u32, scale: u32, ink: u8) {
    for (place, character) in (0u32..).zip(text.chars()) {
        for (row, bits) in (0u32..).zip(rows(character)) {
            for column in (0..5).filter(|column| bits >> (4 - column) & 1 == 1) {
                let x = left + (place * ADVANCE + column) * scale;
                fill(picture, x, top + row * scale, scale, scale, ink);
            }
        }
    }
}

/// Fills a rectangle of luma with `ink`, and its chroma with grey; cut off at the picture's edges.
pub(crate) fn fill(picture: &mut Picture, left: u32, top: u32, width: u32, height: u32, ink: u8) {
    let (right, bottom) = ((left + width).min(picture.width), (top + height).min(picture.height));
    let (left, top) = (left.min(right), top.min(bottom));
    for row in top..bottom {
        let start = (row * picture.width) as usize;
        picture.y[start + left as usize..start + right as usize].fill(ink);
    }
    for row in top.div_ceil(2)..bottom / 2 {
        let start = (row * picture.width / 2) as usize;
        let (from, to) = (start + left.div_ceil(2) as usize, start + (right / 2) as usize);
        if from < to {
            picture.u[from..to].fill(128);
            picture.v[from..to].fill(128);
        }
    }
}
