//! What was measured, what is claimed, and the bound.

use super::frame::from_zero;
use super::places::Places;
use super::{Chart, Row};
use crate::report::axis::{Frame, Scale};
use crate::report::canvas::{Area, DrawError, fill, line, marker, open_marker, polygon, polyline, px};
use crate::report::style::Role;

/// Half of the width of a tick, in CSS pixels.
const TICK: i32 = 7;

/// Half of the width of a stem, in CSS pixels.
const STEM: i32 = 7;

pub(super) fn draw(area: &Area<'_>, frame: &Frame, places: &Places, chart: &Chart) -> Result<(), DrawError> {
    draw_bound(area, frame, places, chart)?;
    for (index, row) in chart.rows.iter().enumerate() {
        let x = |place: usize| places.x(place, index, chart);
        if chart.has_lines() {
            draw_band(area, frame, places, row)?;
        } else {
            draw_stems(area, frame, row, x)?;
        }
    }
    for (index, row) in chart.rows.iter().enumerate() {
        let x = |place: usize| places.x(place, index, chart);
        draw_asked(area, frame, row, x)?;
        draw_paper(area, frame, row, |place| x(place) + if chart.has_lines() { 0 } else { px(10) })?;
        draw_row(area, frame, places, row, (x, chart.has_lines()))?;
    }
    Ok(())
}

/// The height of a value; one below a logarithmic axis lies on its foot.
fn y_at(frame: &Frame, value: f64) -> i32 {
    match frame.y {
        Scale::Log { from, .. } => frame.y_at(value.max(from)),
        Scale::Linear { .. } => frame.y_at(value),
    }
}

fn draw_bound(area: &Area<'_>, frame: &Frame, places: &Places, chart: &Chart) -> Result<(), DrawError> {
    let known: Vec<(usize, f64)> = places
        .in_order()
        .into_iter()
        .filter_map(|place| Some((place, chart.bound.get(place).copied().flatten()?)))
        .collect();
    let style = || line(Role::Bound, 2.0);
    if chart.has_lines() && !known.is_empty() {
        let points: Vec<_> =
            known.iter().map(|(place, value)| (places.center(*place), y_at(frame, *value))).collect();
        polyline(area, points, style())?;
    } else {
        for (place, value) in &known {
            let (from, to) = places.ends(*place);
            let y = y_at(frame, *value);
            polyline(area, vec![(from, y), (to, y)], style())?;
        }
    }
    Ok(())
}

/// The confidence interval of a line.
fn draw_band(area: &Area<'_>, frame: &Frame, places: &Places, row: &Row) -> Result<(), DrawError> {
    let known: Vec<(i32, f64, f64)> = places
        .in_order()
        .into_iter()
        .filter_map(|place| {
            let all = row.values[place]?;
            Some((places.center(place), all.mean, all.half?))
        })
        .collect();
    if known.len() < 2 {
        return Ok(());
    }
    let upper = known.iter().map(|(x, mean, half)| (*x, y_at(frame, mean + half)));
    let lower = known.iter().rev().map(|(x, mean, half)| (*x, y_at(frame, (mean - half).max(0.0))));
    polygon(area, upper.chain(lower).collect(), Role::Solid(row.series), 0.16)
}

/// From zero to the value, where there is a zero.
fn draw_stems(area: &Area<'_>, frame: &Frame, row: &Row, x: impl Fn(usize) -> i32) -> Result<(), DrawError> {
    if !from_zero(frame) {
        return Ok(());
    }
    for (place, all) in row.values.iter().enumerate() {
        let Some(all) = all else { continue };
        let corners = [(x(place) - px(STEM), y_at(frame, all.mean)), (x(place) + px(STEM), frame.bottom)];
        fill(area, Role::Solid(row.series), 0.22, corners)?;
    }
    Ok(())
}

/// What claims ask for: a tick, and how far the value is from it.
fn draw_asked(area: &Area<'_>, frame: &Frame, row: &Row, x: impl Fn(usize) -> i32) -> Result<(), DrawError> {
    let all =
        row.asked.iter().enumerate().flat_map(|(place, all)| all.iter().map(move |asked| (place, *asked)));
    for (place, asked) in all {
        let (x, y) = (x(place), y_at(frame, asked));
        polyline(area, vec![(x - px(TICK), y), (x + px(TICK), y)], line(Role::Ink, 2.0))?;
        if let Some(all) = row.values[place] {
            polyline(area, vec![(x, y), (x, y_at(frame, all.mean))], line(Role::Link, 1.5))?;
        }
    }
    Ok(())
}

fn draw_paper(area: &Area<'_>, frame: &Frame, row: &Row, x: impl Fn(usize) -> i32) -> Result<(), DrawError> {
    row.paper.iter().enumerate().try_for_each(|(place, told)| {
        told.map_or(Ok(()), |told| open_marker(area, row.series, (x(place), y_at(frame, told))))
    })
}

/// Line, whiskers and markers.
fn draw_row(
    area: &Area<'_>,
    frame: &Frame,
    places: &Places,
    row: &Row,
    (x, connected): (impl Fn(usize) -> i32, bool),
) -> Result<(), DrawError> {
    let known: Vec<_> =
        places.in_order().into_iter().filter_map(|place| Some((x(place), row.values[place]?))).collect();
    if connected && known.len() > 1 {
        let points = known.iter().map(|(x, all)| (*x, y_at(frame, all.mean))).collect();
        polyline(area, points, line(Role::Series(row.series), 2.0))?;
    }
    for (x, all) in known {
        if let Some(half) = all.half.filter(|_| !connected) {
            let ends = [all.mean + half, (all.mean - half).max(0.0)].map(|end| y_at(frame, end));
            let style = || line(Role::Solid(row.series), 1.5);
            polyline(area, vec![(x, ends[0]), (x, ends[1])], style())?;
            for y in ends {
                polyline(area, vec![(x - px(4), y), (x + px(4), y)], style())?;
            }
        }
        marker(area, row.series, (x, y_at(frame, all.mean)))?;
    }
    Ok(())
}
