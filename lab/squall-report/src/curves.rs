//! Panels of figures over time, one below the other on a common time axis.

use crate::style::Role;
use crate::surface::{Anchor, Figure, Frame, Point, Scale, WIDTH};

/// A panel with its lines.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Quantity of the vertical axis, with its unit.
    pub what: String,
    /// Times and values of each name's line.
    pub lines: Vec<Vec<(f64, f64)>>,
}

/// Heights.
const HEAD: f64 = 78.0;
const TITLE: f64 = 34.0;
const PANEL: f64 = 130.0;
const FOOT: f64 = 60.0;

/// Approximate number of points drawn per line: means of consecutive values.
const POINTS: usize = 480;

/// Returns the drawing as an SVG file, which follows the reader's light or dark setting. Each of
/// the `names` has a line in every panel; `along` is the unit of the times.
pub fn curves(title: &str, names: &[String], along: &str, panels: &[Curve]) -> String {
    let height = HEAD + panels.len() as f64 * (TITLE + PANEL) + FOOT;
    let points = || panels.iter().flat_map(|panel| &panel.lines).flatten();
    let longest = points().map(|point| point.0).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let figure = Figure::draw("curves".into(), title.into(), "", (WIDTH, height), |surface| {
        surface.bold((14.0, 24.0), title, Role::Ink, 18, Anchor::Start);
        for (index, name) in names.iter().enumerate() {
            let (x, y) = (14.0 + index as f64 * WIDTH / 3.0, HEAD - 28.0);
            surface.line([(x, y), (x + 44.0, y)], Role::Series(index), 2.0);
            surface.text((x + 52.0, y + 4.0), name, Role::Ink, 12, Anchor::Start);
        }
        let linear = |to: f64| Scale::Linear { from: 0.0, to };
        let mut frame = Frame::wide(0.0, HEAD - TITLE, linear(longest), linear(1.0));
        for (number, panel) in panels.iter().enumerate() {
            let most = panel.lines.iter().flatten().map(|point| point.1).fold(0.0, f64::max);
            surface.text((14.0, frame.bottom + TITLE - 10.0), &panel.what, Role::Ink, 12, Anchor::Start);
            frame = frame.below(TITLE, PANEL, linear(if most > 0.0 { most * 1.05 } else { 1.0 }));
            frame.draw_y(surface, 4, |value| format!("{value}"));
            frame.draw_x_grid(surface, 10);
            for (index, line) in panel.lines.iter().enumerate() {
                surface.line(fewer(line).map(|point| frame.at(point)), Role::Series(index), 1.4);
            }
            if number + 1 == panels.len() {
                frame.draw_x_labels(surface, 10, 2.0, along, |value| format!("{value}"));
            }
        }
    });
    figure.standalone()
}

fn fewer(line: &[Point]) -> impl Iterator<Item = Point> {
    line.chunks(line.len().div_ceil(POINTS).max(1)).map(|some| {
        let count = some.len() as f64;
        let (x, y) = some.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (x / count, y / count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_panel_has_a_line_for_each_name() {
        let panel = |what: &str| Curve {
            what: what.to_owned(),
            lines: vec![vec![(0.0, 1.0), (1.0, 2.0)], vec![(0.0, 3.0), (1.0, 2.0)]],
        };
        let names = ["one".to_owned(), "other".to_owned()];
        let drawn = curves("A life", &names, "hours", &[panel("Heap in kB"), panel("Work")]);
        for words in ["A life", "one", "other", "Heap in kB", "Work", "hours", "s-series1"] {
            assert!(drawn.contains(words), "{words} is not in {drawn}");
        }
        assert!(!curves("Nothing", &[], "hours", &[]).contains("NaN"));
    }

    #[test]
    fn a_long_line_is_drawn_by_means() {
        let line: Vec<Point> = (0..960).map(|at| (f64::from(at), f64::from(at % 2))).collect();
        let drawn: Vec<Point> = fewer(&line).collect();
        assert_eq!((drawn.len(), drawn[0]), (480, (0.5, 0.5)));
    }
}
