//! One run over time: what each path carried, its round trips and queue, its states and its radio, and what became
//! of the blocks.

mod fates;
mod queue;
pub(super) mod radio;
mod rate;
mod thin;

use super::axis::{Frame, Scale};
use super::canvas::{Area, DrawError, Figure, LEFT, RIGHT, WIDTH, px};
use super::panels::seconds;
use crate::flow::word;
use crate::result::{PathResult, RunResult};

const TITLE: i32 = 28;
const PLOT: i32 = 88;
const FOOT: i32 = 48;

/// How to read the figures of this module.
pub(super) fn caption() -> String {
    format!(
        "Line: new data delivered over the path in each 200 ms, in the direction that the figure names; dashed: the other \
         direction. Dotted: what the link could carry. Shaded: the link carries nothing. Strip: the state in which the \
         sender of the named direction held the path; round-trip times are its own, too. {} {}",
        queue::CAPTION,
        fates::CAPTION
    )
}

/// A run over time: its paths one below the other, each with its radio where the run went by it, then its blocks.
pub(super) fn figure(series: usize, run: &RunResult) -> Option<Figure> {
    let highest_bps = run.paths.iter().map(rate::highest_bps).max().unwrap_or(0);
    if highest_bps == 0 {
        return None;
    }
    let heeded = run.paths.iter().any(radio::was_heeded);
    let queues = run.paths.iter().map(queue::highest);
    let queues = queues.fold((0.0f64, 0.0f64), |most, one| (most.0.max(one.0), most.1.max(one.1)));
    Some(Figure::draw(
        format!("paths-{}-{}", run.scheduler, run.seed),
        format!("Paths and blocks over time under {}; solid line: {}", run.scheduler, word(run.direction)),
        if heeded { radio::CAPTION.to_owned() } else { String::new() },
        run.paths.iter().map(height).sum::<i32>() + fates::height(run) + FOOT,
        |area| {
            let mut top = 0;
            let mut last = None;
            for path in &run.paths {
                let frame = Frame {
                    left: px(LEFT),
                    top: px(top + TITLE),
                    right: px(WIDTH - RIGHT),
                    bottom: px(top + TITLE + PLOT),
                    x: Scale::Linear { from: 0.0, to: seconds(run.duration_us.max(1)) },
                    y: Scale::Linear { from: 0.0, to: highest_bps as f64 / 1e6 * 1.08 },
                };
                draw_path(area, &frame, series, path, (run, queues))?;
                top += height(path);
                last = Some(Frame { bottom: px(top), ..frame });
            }
            let Some(place) = last else { return Ok(()) };
            let foot = fates::draw(area, place, run)?;
            foot.draw_x_labels(area, 10, 0, "time, s", |tick| format!("{tick}"))
        },
    ))
}

/// Height of all that is drawn of a path, in CSS pixels.
fn height(path: &PathResult) -> i32 {
    TITLE + PLOT + rate::STRIP + queue::HEIGHT + if radio::was_heeded(path) { radio::HEIGHT } else { 0 }
}

fn draw_path(
    area: &Area<'_>,
    frame: &Frame,
    series: usize,
    path: &PathResult,
    (run, queues): (&RunResult, (f64, f64)),
) -> Result<(), DrawError> {
    rate::draw_path(area, frame, series, path, run)?;
    let below = frame.below(px(rate::STRIP));
    queue::draw(area, below, series, path, queues)?;
    radio::draw(area, below.below(px(queue::HEIGHT)), series, path, run.duration_us)
}
