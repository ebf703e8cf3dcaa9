//! A single picture of the most informative moment: the source and the screens side by side, each
//! with its name and numbers.

use squall_media::{Picture, glyphs};

/// A picture with one or two lines of text.
#[derive(Debug, Clone)]
pub struct Panel<'a> {
    /// Title of the picture.
    pub name: String,
    /// Quality of the picture; may be empty.
    pub note: String,
    /// Picture to show.
    pub picture: &'a Picture,
}

/// Maximum width of a picture in pixels; larger ones are reduced by an integer factor.
const WIDEST: u32 = 640;
/// Maximum number of panels per row.
const ROW: usize = 4;
/// Distance between panels in pixels.
const GAP: u32 = 8;
/// Luma of the background.
const PAPER: u8 = 235;
/// Luma of the text.
const INK: u8 = 16;

/// Draws the panels under a title as a PNG file.
pub fn png(title: &str, panels: &[Panel<'_>]) -> Vec<u8> {
    let pictures: Vec<Picture> = panels.iter().map(|panel| smaller(panel.picture)).collect();
    let (width, height) = pictures.first().map_or((2, 2), |picture| (picture.width, picture.height));
    let columns = panels.len().clamp(1, ROW) as u32;
    let rows = panels.len().div_ceil(ROW).max(1) as u32;
    let scale = scale(title, panels, width, columns);
    let line = (glyphs::HEIGHT + 3) * scale;
    let (step_x, step_y) = (width + GAP, height + 2 * line + GAP);
    let even = |side: u32| side.next_multiple_of(2);
    let size = (even(GAP + columns * step_x), even(GAP + line + GAP + rows * step_y));
    let mut sheet = Picture::new(size.0, size.1).expect("the largest sheet is far below the largest picture");
    sheet.y.fill(PAPER);
    glyphs::draw(&mut sheet, title, GAP, GAP, scale, INK);
    for (index, (panel, picture)) in (0u32..).zip(panels.iter().zip(&pictures)) {
        let (left, top) = (GAP + index % columns * step_x, GAP + line + GAP + index / columns * step_y);
        glyphs::draw(&mut sheet, &panel.name, left, top, scale, INK);
        glyphs::draw(&mut sheet, &panel.note, left, top + line, scale, INK);
        paste(picture, &mut sheet, even(left), even(top + 2 * line - scale));
    }
    encode(&sheet)
}

/// Returns the largest text size, in pixels per cell, at which all text fits.
fn scale(title: &str, panels: &[Panel<'_>], width: u32, columns: u32) -> u32 {
    let length = |words: &str| words.chars().count() as u32 * glyphs::ADVANCE;
    let longest =
        panels.iter().flat_map(|panel| [length(&panel.name), length(&panel.note)]).max().unwrap_or(1);
    let whole = columns * (width + GAP) - GAP;
    (width / longest.max(1)).min(whole / length(title).max(1)).clamp(1, 2)
}

/// Reduces a picture by averaging squares of samples.
fn smaller(picture: &Picture) -> Picture {
    let factor = picture.width.div_ceil(WIDEST);
    let side = |side: u32| (side / factor).max(2) & !1;
    let mut small = Picture::new(side(picture.width), side(picture.height)).expect("smaller, and even");
    let width = [picture.width, picture.width / 2, picture.width / 2];
    let planes = [
        (&picture.y, &mut small.y, small.width),
        (&picture.u, &mut small.u, small.width / 2),
        (&picture.v, &mut small.v, small.width / 2),
    ];
    for ((from, to, columns), width) in planes.into_iter().zip(width) {
        for (index, sample) in (0u32..).zip(to) {
            let (left, top) = (index % columns * factor, index / columns * factor);
            let rows =
                (top..top + factor).map(|row| &from[(row * width + left) as usize..][..factor as usize]);
            let sum: u32 = rows.flatten().map(|sample| u32::from(*sample)).sum();
            *sample = (sum / (factor * factor)) as u8;
        }
    }
    small
}

/// Copies a picture to a position with even coordinates.
fn paste(picture: &Picture, sheet: &mut Picture, left: u32, top: u32) {
    let planes =
        [(&picture.y, &mut sheet.y, 1), (&picture.u, &mut sheet.u, 2), (&picture.v, &mut sheet.v, 2)];
    for (from, to, step) in planes {
        let (width, stride) = ((picture.width / step) as usize, (sheet.width / step) as usize);
        let start = (top / step) as usize * stride + (left / step) as usize;
        for (row, samples) in from.chunks_exact(width).enumerate() {
            to[start + row * stride..][..width].copy_from_slice(samples);
        }
    }
}

fn encode(sheet: &Picture) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, sheet.width, sheet.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&sheet.to_rgb()));
    written.expect("memory takes everything, and the data is of the size of the header");
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(width: u32, height: u32, luma: u8) -> Picture {
        let mut picture = Picture::new(width, height).unwrap();
        picture.y.fill(luma);
        picture
    }

    fn decode(file: &[u8]) -> (u32, u32, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        (info.width, info.height, pixels)
    }

    #[test]
    fn panels_stand_side_by_side_with_their_words() {
        let (white, black) = (flat(320, 180, 235), flat(320, 180, 16));
        let panel = |name: &str, picture| Panel { name: name.into(), note: "PSNR 30 dB".into(), picture };
        let (width, height, pixels) =
            decode(&png("title", &[panel("source", &white), panel("minrtt", &black)]));
        assert_eq!((width, height), (8 + 2 * 328, 8 + 20 + 8 + 180 + 40 + 8));
        let at = |x: u32, y: u32| pixels[((y * width + x) * 3) as usize];
        assert!(at(8 + 160, 160) > 250 && at(8 + 328 + 160, 160) < 5);
        let ink = |from: u32, to: u32| (36..76).any(|y| (from..to).any(|x| at(x, y) < 5));
        assert!(ink(8, 320) && ink(336, 650), "names stand above their pictures");
    }

    #[test]
    fn large_pictures_are_made_smaller() {
        let mut large = flat(1282, 722, 100);
        large.y[0] = 190;
        let small = smaller(&large);
        assert_eq!((small.width, small.height), (426, 240));
        assert_eq!((small.y[0], small.y[1]), (110, 100));
        assert_eq!(smaller(&flat(640, 360, 9)).y.len(), 640 * 360);
    }
}
