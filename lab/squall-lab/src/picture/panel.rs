//! What one scheduler did: the packets on each path, and the life of each block below.

use squall_proto::sched::WorkKind;

use super::{
    axis::Axis,
    bars::Bar,
    ink::{LEFT, RIGHT, cross, disc, escape, line, push, rectangle, write},
    play::{Outcome, Play},
    scene::{BLOCKS, LANES, LOSS_US},
};

/// Height of a panel in pixels, with the space to the next.
pub(super) const HEIGHT: f64 = 128.0;

const LANE: f64 = 18.0;
const LANE_STEP: f64 = 23.0;
const LANES_AT: f64 = 10.0;
const LIVES_AT: f64 = LANES_AT + LANE_STEP * LANES.len() as f64 + 6.0;
const LIFE_STEP: f64 = 13.0;
const BOTTOM: f64 = LIVES_AT + LIFE_STEP * BLOCKS.len() as f64 - 4.0;

/// Draws a panel, the baseline of its heading at `top`.
pub(super) fn draw(svg: &mut String, play: &Play, axis: &Axis, top: f64) {
    let name = escape(&play.scheduler);
    push(svg, format_args!("<g class=\"panel\" data-scheduler=\"{name}\">\n"));
    push(
        svg,
        format_args!(
            "<text x=\"0\" y=\"{top:.1}\"><tspan class=\"n\">{name}</tspan><tspan class=\"m\" dx=\"10\">{}\
             </tspan></text>\n",
            escape(&play.summary)
        ),
    );
    write(svg, "s e", (RIGHT, top), &cost(play));
    for (index, lane) in LANES.iter().enumerate() {
        let y = top + LANES_AT + LANE_STEP * index as f64;
        rectangle(svg, "lane", (LEFT, y), (RIGHT - LEFT, LANE));
        write(svg, "n", (10.0, y + 13.5), lane.name);
    }
    let (from, to) = (axis.x(LOSS_US.start), axis.x(LOSS_US.end));
    rectangle(svg, "gone", (from, top + LANES_AT), (to - from, LANE));
    axis.draw_grid(svg, top + LANES_AT, top + BOTTOM);
    for (index, bars) in play.lanes.iter().enumerate() {
        draw_bars(svg, bars, axis, top + LANES_AT + LANE_STEP * index as f64);
    }
    for (block, outcome) in play.outcomes.iter().enumerate() {
        draw_life(svg, block, *outcome, axis, top + LIVES_AT + LIFE_STEP * block as f64 + 2.0);
    }
    axis.draw_labels(svg, top + BOTTOM + 11.0);
    svg.push_str("</g>\n");
}

/// What was sent more than once, and over the path that costs money.
fn cost(play: &Play) -> String {
    let bytes = |bars: &[Bar], kind: Option<WorkKind>| -> u32 {
        bars.iter().filter(|bar| kind.is_none_or(|kind| bar.kind == kind)).map(|bar| bar.bytes).sum()
    };
    let all = |kind| play.lanes.iter().map(|bars| bytes(bars, Some(kind))).sum::<u32>();
    let metered: u32 = play
        .lanes
        .iter()
        .zip(&LANES)
        .filter(|(_, lane)| lane.metered)
        .map(|(bars, _)| bytes(bars, None))
        .sum();
    let parts = [("copies", all(WorkKind::Copy)), ("repairs", all(WorkKind::Repair)), ("metered", metered)];
    let told = parts.iter().filter(|(_, bytes)| *bytes > 0);
    told.map(|(what, bytes)| format!("{what} {} kB", (bytes + 500) / 1_000)).collect::<Vec<_>>().join(" · ")
}

/// Bars of one path: full height for what is sent first, full height under a notch for repairs, half the
/// height for copies.
fn draw_bars(svg: &mut String, bars: &[Bar], axis: &Axis, y: f64) {
    for run in bars.chunk_by(|one, next| one.block == next.block && one.kind == next.kind) {
        let (block, kind) = (run[0].block, run[0].kind);
        let (top, height) = if kind == WorkKind::Copy { (y + LANE / 2.0, LANE / 2.0) } else { (y, LANE) };
        for (class, lost) in [("", false), (" dim", true)] {
            let group = || run.iter().filter(|bar| bar.lost == lost);
            if group().next().is_none() {
                continue;
            }
            push(svg, format_args!("<path class=\"b{block}{class}\" d=\""));
            for bar in group() {
                let from = axis.x(bar.from);
                // A gap to the next one, but something to see of the smallest.
                let width = (axis.x(bar.to) - from - 0.7).max(0.8);
                push(svg, format_args!("M{from:.1} {top:.1}h{width:.1}v{height}h-{width:.1}z"));
            }
            svg.push_str("\"/>\n");
        }
        let middle = |bar: &Bar| f64::midpoint(axis.x(bar.from), axis.x(bar.to));
        if kind == WorkKind::Repair {
            for bar in run {
                let (x, y) = (middle(bar) - 3.0, y - 4.0);
                push(svg, format_args!("<path class=\"mark\" d=\"M{x:.1} {y:.1}h6l-3 5z\"/>\n"));
            }
        }
        for bar in run.iter().filter(|bar| bar.lost) {
            cross(svg, (middle(bar), y + LANE / 2.0), 3.0);
        }
        draw_numbers(svg, run, axis, top + height / 2.0 + 3.6);
    }
}

/// The number of a block on each stretch of its packets that has the room.
fn draw_numbers(svg: &mut String, run: &[Bar], axis: &Axis, y: f64) {
    for stretch in run.chunk_by(|one, next| next.from < one.to + 1_000 && one.lost == next.lost) {
        let (from, to) = (axis.x(stretch[0].from), axis.x(stretch[stretch.len() - 1].to));
        if to - from >= 12.0 && !stretch[0].lost {
            write(svg, "i", (f64::midpoint(from, to), y), &(stretch[0].block + 1).to_string());
        }
    }
}

/// From the handing over to the end of a block, with its deadline.
fn draw_life(svg: &mut String, block: usize, outcome: Outcome, axis: &Axis, y: f64) {
    let (at, word) = match outcome {
        Outcome::Arrived(at) if at <= BLOCKS[block].deadline_us => (at, None),
        Outcome::Arrived(at) => (at, Some("late")),
        Outcome::Expired(at) => (at, Some("expired")),
        Outcome::Cancelled(at) => (at, Some("cancelled")),
        Outcome::Lost(at) => (at, Some("lost")),
    };
    let ms = (at + 500) / 1_000;
    write(svg, "t", (10.0, y + 3.5), &(block + 1).to_string());
    let (end, due) = (axis.x(at), axis.x(BLOCKS[block].deadline_us));
    line(svg, &format!("life k{block}"), (LEFT, y), (end, y));
    line(svg, "due", (due, y - 5.0), (due, y + 5.0));
    let near = (0.0..30.0).contains(&(due - end));
    let x = if near { due + 6.0 } else { end + 7.0 };
    if matches!(outcome, Outcome::Arrived(_)) {
        disc(svg, &format!("f{block}"), (end, y));
    } else {
        cross(svg, (end, y), 3.5);
    }
    match word {
        None => write(svg, "t", (x, y + 3.5), &format!("{ms} ms")),
        Some(word) => write(svg, "t bad", (x, y + 3.5), &format!("{ms} ms, {word}")),
    }
}
