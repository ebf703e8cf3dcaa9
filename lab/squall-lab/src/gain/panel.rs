//! One measure over the values of one parameter.

use plotters::style::text_anchor::HPos;

use super::{CONTENDERS, Cell, Gain, Measure, Sweep, figure::SERIES};
use crate::report::{
    axis::Frame,
    canvas::{Area, DrawError, line, marker, polyline, px, text, write},
    style::Role,
};

/// Between the bars of two contenders at one value, in CSS pixels, so that both can be seen.
const ASIDE: i32 = 7;

/// What is drawn where.
pub(super) struct Panel<'a> {
    pub(super) gain: &'a Gain,
    pub(super) sweep: &'a Sweep,
    pub(super) measure: Measure,
    /// Points are at 0, 1, 2 … of its horizontal axis.
    pub(super) frame: Frame,
}

/// The line of a contender, with its dashes.
pub(super) fn draw_line(area: &Area<'_>, points: Vec<(i32, i32)>, series: usize) -> Result<(), DrawError> {
    polyline(area, points, line(Role::Series(series), 2.0))
}

impl Panel<'_> {
    /// `first`: at the left, with labels there; `last`: at the foot, with the values below.
    pub(super) fn draw(&self, area: &Area<'_>, first: bool, last: bool) -> Result<(), DrawError> {
        let frame = &self.frame;
        frame.draw_y(area, 4, |tick| {
            if first { format!("{}", (tick * 1e6).round() / 1e6) } else { String::new() }
        })?;
        polyline(
            area,
            vec![(frame.left, frame.bottom), (frame.right, frame.bottom)],
            line(Role::Muted, 1.0),
        )?;
        if let Some(own) = self.sweep.points.iter().position(|point| point.own) {
            let x = frame.x_at(own as f64);
            polyline(area, vec![(x, frame.top), (x, frame.bottom)], line(Role::Limit, 1.0))?;
        }
        for cell in &self.gain.without {
            let Some(all) = cell.estimate(self.measure) else { continue };
            let y = frame.y_at(all.mean);
            draw_line(area, vec![(frame.left, y), (frame.right, y)], series(cell))?;
        }
        let contenders = self.sweep.points.first().map_or(0, |point| point.cells.len());
        for place in 0..contenders {
            self.draw_contender(area, place, (2 * place as i32 - contenders as i32 + 1) * px(ASIDE) / 2)?;
        }
        if last { self.draw_values(area) } else { Ok(()) }
    }

    /// Bars, line and markers of one that goes by the radio, a little to the side.
    fn draw_contender(&self, area: &Area<'_>, place: usize, aside: i32) -> Result<(), DrawError> {
        let frame = &self.frame;
        let mut points = Vec::new();
        for (index, cell) in self.sweep.points.iter().filter_map(|point| point.cells.get(place)).enumerate() {
            let Some(all) = cell.estimate(self.measure) else { continue };
            let (x, y) = frame.at(index as f64, all.mean);
            let off = self.gain.difference(cell, self.measure).and_then(|above| above.half);
            if let Some(off) = off {
                let ends = [all.mean - off, all.mean + off].map(|end| (x + aside, frame.y_at(end)));
                polyline(area, ends.to_vec(), line(Role::Solid(series(cell)), 1.5))?;
            }
            points.push((series(cell), (x + aside, y)));
        }
        let Some((series, _)) = points.first().copied() else { return Ok(()) };
        draw_line(area, points.iter().map(|(_, at)| *at).collect(), series)?;
        points.iter().try_for_each(|(series, at)| marker(area, *series, *at))
    }

    /// The values under the panel; where there are many, those without a unit of their own in short.
    fn draw_values(&self, area: &Area<'_>) -> Result<(), DrawError> {
        let y = self.frame.bottom + px(13);
        for (index, point) in self.sweep.points.iter().enumerate() {
            let x = self.frame.x_at(index as f64);
            let shown = self.sweep.parameter.short(point.value);
            let role = if point.own { Role::Ink } else { Role::Muted };
            write(area, &shown, &text(role, 11, HPos::Center), (x, y))?;
        }
        let middle = i32::midpoint(self.frame.left, self.frame.right);
        write(area, self.sweep.parameter.unit(), &text(Role::Muted, 11, HPos::Center), (middle, y + px(16)))
    }
}

/// The style of a contender.
fn series(cell: &Cell) -> usize {
    let place = CONTENDERS.iter().position(|one| one.label == cell.contender);
    place.map_or(0, |place| SERIES[place])
}
