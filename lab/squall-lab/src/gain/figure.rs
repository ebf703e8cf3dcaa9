//! The numbers as a drawing: a block for each scenario, in it a column for each parameter and a row for each
//! measure.

use plotters::style::text_anchor::HPos;

use super::{
    CONTENDERS, Gain, Measure, Parameter,
    panel::{Panel, draw_line},
};
use crate::report::{
    axis::{Frame, Scale},
    canvas::{Area, DrawError, Figure, LEFT, RIGHT, WIDTH, bold, marker, px, text, write},
    style::Role,
};

/// Heights in CSS pixels.
const HEAD: i32 = 152;
const TITLE: i32 = 62;
const ROW_TITLE: i32 = 32;
const PLOT: i32 = 112;
const FOOT: i32 = 50;

/// Between two columns.
const GAP: i32 = 26;

const ROWS: [(Measure, &str); 4] = [
    (Measure::P99, "99th percentile of the packets' delay, ms"),
    (Measure::Max, "Largest delay of a packet, ms"),
    (Measure::InTime, "Blocks in time, %"),
    (Measure::Lost, "Packets lost in a run"),
];

const BLOCK: i32 = TITLE + (ROW_TITLE + PLOT) * ROWS.len() as i32 + FOOT;

const NOTES: [&str; 4] = [
    "Means over seeds. A seed is the same way for all, at every value; without a signal all values are the same. Values \
     stand side by side, not to scale.",
    "Bars: 95 % interval (Student's t) of the difference to the same scheduler without the signal, seed by seed. Where a \
     bar does not reach that one's line,",
    "the signal makes a difference. Packets that never arrive have no delay: look at the blocks in time as well.",
    "Upright line: the value in the scenario's file, which the other columns have.",
];

/// Where the contenders stand in the key, in CSS pixels.
const KEYS: [i32; 4] = [14, 244, 548, 780];

/// The styles of the contenders in their order, as the report has them.
pub(super) const SERIES: [usize; 4] = [2, 1, 3, 0];

/// The drawing as an SVG file, which follows the reader's light or dark setting.
pub fn svg(gains: &[Gain]) -> String {
    let height = HEAD + BLOCK * gains.len() as i32;
    let title = "What the lead of a radio is worth, and what noise and lateness take of it";
    let figure = Figure::draw("gain".into(), title.into(), String::new(), height, |area| {
        draw_head(area, title)?;
        let tops = (0..).map(|n| HEAD + BLOCK * n);
        tops.zip(gains).try_for_each(|(top, gain)| draw_block(area, top, gain))
    });
    figure.standalone()
}

fn draw_head(area: &Area<'_>, title: &str) -> Result<(), DrawError> {
    write(area, title, &bold(Role::Ink, 18, HPos::Left), (px(14), px(22)))?;
    for (y, note) in (0..).map(|n| 46 + 17 * n).zip(NOTES) {
        write(area, note, &text(Role::Muted, 12, HPos::Left), (px(14), px(y)))?;
    }
    let y = px(HEAD - 24);
    for ((one, series), x) in CONTENDERS.iter().zip(SERIES).zip(KEYS) {
        draw_line(area, vec![(px(x), y), (px(x + 44), y)], series)?;
        let words = match one.without {
            Some(without) => {
                marker(area, series, (px(x + 22), y))?;
                format!("{}: {without} with the signal", one.label)
            }
            None => format!("{}: without a signal", one.label),
        };
        write(area, &words, &text(Role::Ink, 12, HPos::Left), (px(x + 52), y))?;
    }
    Ok(())
}

fn draw_block(area: &Area<'_>, top: i32, gain: &Gain) -> Result<(), DrawError> {
    let seeds = gain.seeds.len();
    let plural = if seeds == 1 { "" } else { "s" };
    let about = format!("{}; {} s, {seeds} seed{plural}", gain.description, gain.duration_us as f64 / 1e6);
    write(area, &gain.scenario, &bold(Role::Ink, 15, HPos::Left), (px(14), px(top + 14)))?;
    let indent = 14 + 10 * gain.scenario.chars().count() as i32 + 8;
    write(area, &about, &text(Role::Muted, 12, HPos::Left), (px(indent), px(top + 14)))?;
    for (column, sweep) in (0..).zip(&gain.sweeps) {
        let (left, right) = sides(column);
        let heading = heading(sweep.parameter);
        let middle = i32::midpoint(px(left), px(right));
        write(area, heading, &bold(Role::Ink, 13, HPos::Center), (middle, px(top + 42)))?;
        for (row, (measure, name)) in (0..).zip(ROWS) {
            let bottom = top + TITLE + (ROW_TITLE + PLOT) * (row + 1);
            let frame = Frame {
                left: px(left),
                right: px(right),
                top: px(bottom - PLOT),
                bottom: px(bottom),
                x: Scale::Linear { from: -0.5, to: sweep.points.len() as f64 - 0.5 },
                y: range(gain, measure),
            };
            let panel = Panel { gain, sweep, measure, frame };
            panel.draw(area, column == 0, row as usize + 1 == ROWS.len())?;
            if column == 0 {
                write(area, name, &text(Role::Ink, 12, HPos::Left), (px(14), px(bottom - PLOT - 16)))?;
            }
        }
    }
    Ok(())
}

fn heading(parameter: Parameter) -> &'static str {
    match parameter {
        Parameter::Lead => "Lead: radio before link",
        Parameter::Noise => "Noise of the reports",
        Parameter::Late => "Lateness of the reports",
    }
}

/// Where a column begins and ends, in CSS pixels.
fn sides(column: i32) -> (i32, i32) {
    let width = (WIDTH - LEFT - RIGHT - 2 * GAP) / 3;
    let left = LEFT + column * (width + GAP);
    (left, left + width)
}

/// Everything that is drawn of a measure, with some air.
fn range(gain: &Gain, measure: Measure) -> Scale {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut take = |from: f64, to: f64| {
        least = least.min(from);
        most = most.max(to);
    };
    for cell in &gain.without {
        cell.estimate(measure).into_iter().for_each(|all| take(all.mean, all.mean));
    }
    for cell in gain.sweeps.iter().flat_map(|sweep| &sweep.points).flat_map(|point| &point.cells) {
        let Some(all) = cell.estimate(measure) else { continue };
        let off = gain.difference(cell, measure).and_then(|above| above.half).unwrap_or(0.0);
        take(all.mean - off, all.mean + off);
    }
    if least > most {
        return Scale::Linear { from: 0.0, to: 1.0 };
    }
    let air = ((most - least) * 0.08).max(0.5);
    match measure {
        Measure::InTime => Scale::Linear { from: (least - air).max(0.0), to: 100.0 + air / 2.0 },
        _ => Scale::Linear { from: 0.0, to: most + air },
    }
}
